// Drives `HttpAgent` of @ag-ui/client, which verifies each stream, and prints what it holds: node ag_ui.mjs http://...
import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import { randomUUID } from "node:crypto";

const [base] = process.argv.slice(2);
const warnings = [];
console.warn = (...args) => warnings.push(args.map(String).join(" "));

function open(threadId, { user = "ann", path = "/agui/", ...settings } = {}) {
  const agent = new HttpAgent({ url: base + path, threadId, headers: { authorization: `Bearer ${user}` }, ...settings });
  const events = [];
  agent.subscribe({ onEvent: ({ event }) => void events.push(event) });
  return { agent, events };
}

const say = (agent, content) => agent.addMessage({ id: randomUUID(), role: "user", content });
const shown = ({ agent, events }, error) => ({
  messages: agent.messages,
  state: agent.state,
  events,
  types: events.map((event) => event.type),
  error,
});

async function run(opened, input) {
  try {
    await opened.agent.runAgent(input);
  } catch (error) {
    return String(error);
  }
}

async function ask(scenario, settings) {
  const opened = open(scenario.replaceAll(" ", "-"), settings);
  say(opened.agent, `conform:${scenario}`);
  const error = await run(opened);
  return JSON.parse(JSON.stringify(shown(opened, error)));
}

const done = {};
for (const scenario of [
  "text", "reasoning", "parallel", "tool-error", "sub-agent", "error-before", "error-during",
  "media", "sources", "data", "long", "unicode",
]) {
  done[scenario] = await ask(scenario);
}
done.typed = await ask("typed", { path: "/agui/conformance_typed" });
{
  const opened = open("files");
  say(opened.agent, [
    { type: "text", text: "conform:media" },
    { type: "image", source: { type: "data", value: "iVBORw0KGgo=", mimeType: "image/png" } },
  ]);
  done.files = shown(opened, await run(opened));
}
{
  const opened = open("two-turns");
  say(opened.agent, "conform:text");
  await run(opened);
  say(opened.agent, "and now?");
  done.twoTurns = shown(opened, await run(opened));
}
done.again = [];
for (const scenario of ["text", "reasoning", "parallel", "sub-agent", "client-tool"]) {
  const opened = open(`again-${scenario}`);
  say(opened.agent, `conform:${scenario}`);
  const runId = randomUUID();
  await run(opened, { runId });
  const before = JSON.parse(JSON.stringify(opened.agent.messages));
  opened.events.length = 0;
  const error = await run(opened, { runId }); // with the messages that it has received
  done.again.push({ scenario, before, ...shown(opened, error) });
}
{
  const opened = open("client-tool");
  say(opened.agent, "conform:client-tool");
  await run(opened);
  const outcome = opened.events.at(-1).outcome;
  opened.agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: outcome.pendingToolCallIds[0], content: "at home" });
  done.clientTool = { ...shown(opened, await run(opened)), outcome };
}
const interrupted = async (scenario, payload) => {
  const opened = open(`${scenario.replaceAll(" ", "-")}-${JSON.stringify(payload)}`);
  say(opened.agent, `conform:${scenario}`);
  await run(opened);
  const { interrupts } = opened.events.at(-1).outcome;
  const before = JSON.parse(JSON.stringify(opened.agent.messages));
  const responses = Object.fromEntries(interrupts.map(({ id }) => [id, { status: "resolved", payload }]));
  opened.events.length = 0;
  const error = await run(opened, { resume: buildResumeArray(interrupts, responses) });
  return { ...shown(opened, error), before, interrupts };
};
done.approved = await interrupted("approval", { approved: true });
done.edited = await interrupted("approval", { approved: true, editedArgs: { order: "A1", euros: 5 } });
done.denied = await interrupted("denial", { approved: false, reason: "no" });
done.below = await interrupted("sub-agent approval", { approved: true });
{
  const opened = open("text", { user: "bob" });
  say(opened.agent, "conform:parallel");
  done.otherUser = shown(opened, await run(opened));
}
{
  const opened = open("no-message");
  done.refused = shown(opened, await run(opened));
}
done.warnings = warnings;
process.stdout.write(JSON.stringify(done), () => process.exit(0));
