// Calls the agents with a client of the TypeScript SDK and prints what it reads: node client.mjs v1|v2|v2-legacy URL|PROGRAM...
const [kind, target, ...rest] = process.argv.slice(2);
const v1 = kind === "v1";
const http = target.startsWith("http");
const load = (v1path, v2path) => import(v1 ? `@modelcontextprotocol/sdk/${v1path}` : `@modelcontextprotocol/client${v2path}`);
const { Client } = await load("client/index.js", "");
const transport = http
  ? new (await load("client/streamableHttp.js", "")).StreamableHTTPClientTransport(new URL(target), {
      requestInit: { headers: { "x-user": "ann" } },
    })
  : new (await load("client/stdio.js", "/stdio")).StdioClientTransport({
      command: target,
      args: rest,
      env: { ...process.env },
    });
const client = new Client(
  { name: "node", version: "1" },
  {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: kind === "v2" ? "auto" : "legacy" },
  },
);
const asked = [];
const answer = ({ params }) => {
  asked.push(params.message);
  const fields = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: fields.includes("approve") ? { approve: true } : { answer: "today" } };
};
client.setRequestHandler(
  v1 ? (await import("@modelcontextprotocol/sdk/types.js")).ElicitRequestSchema : "elicitation/create",
  answer,
);
await client.connect(transport);
const progress = [];
const call = async (name, args, options = {}) => {
  const request = { name, arguments: args };
  const found = v1 ? await client.callTool(request, undefined, options) : await client.callTool(request, options);
  return found.structuredContent;
};
const tools = (await client.listTools()).tools.map(({ name }) => name);
const desk = await call("desk", { message: "Order tea." }, { onprogress: ({ message }) => progress.push(message) });
const notes = "Read the whole file and found one open TODO about checking the input.";
const first = await call("flow", { message: "change 7" });
const done = { token: first.step.token, notes, context: { risk: "low" } };
const second = await call("continue_workflow", done);
const end = await call("continue_workflow", { token: second.step.token, notes });
const runs = (await call("list_runs", {})).runs.map(({ agent, status }) => [agent, status]);
console.log(JSON.stringify({ tools, desk, progress, asked, first: first.step, second: second.step, end, runs }));
await client.close();
