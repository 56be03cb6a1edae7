// A client whose server is killed in mid-answer and that continues at another process: node kill.mjs 6 PID FIRST OTHER
// It prints what it holds in the end. The first argument is a version of the AI SDK, or "ag-ui".
import { randomUUID } from "node:crypto";

const [kind, pid, first, other] = process.argv.slice(2);
const headers = { authorization: "Bearer ann", ...(kind === "5" ? { "x-ai-sdk-version": "5" } : {}) };
let base = first; // as a proxy does: one address, and another process behind it
const fetchFromProcess = (url, init) => fetch(url.replace("http://proxy", base), init);
let killed = false;
const killAfter = (text) => {
  if (!killed && text.length > 100) {
    killed = true;
    process.kill(Number(pid), "SIGKILL");
  }
};

async function aiSdk() {
  const { Chat } = await import(`react${kind}`);
  const ai = await import(`ai${kind}`);
  const api = "http://proxy/api/chat/";
  const open = (messages) => {
    const transport = new ai.DefaultChatTransport({
      api,
      headers,
      fetch: fetchFromProcess,
      prepareReconnectToStreamRequest: ({ id }) => ({ api: `${api}${id}/stream`, headers }),
    });
    return new Chat({ id: "killed", messages, transport, onError: () => {} });
  };
  const textOf = (chat) => chat.messages.at(-1).parts.map((part) => part.text ?? "").join("");
  const chat = open([]);
  let ended = false;
  const asked = chat.sendMessage({ text: "conform:resume" }).finally(() => (ended = true));
  while (!ended) {
    if (chat.messages.at(-1)?.role === "assistant") killAfter(textOf(chat));
    await new Promise((next) => setTimeout(next, 5));
  }
  await asked;
  const broken = { status: chat.status, text: textOf(chat) };
  base = other;
  const stored = await (await fetchFromProcess(`${api}killed`, { headers })).json();
  const again = open(stored.messages);
  await again.resumeStream();
  const history = await (await fetchFromProcess(`${api}killed`, { headers })).json();
  return { broken, status: again.status, messages: again.messages, history: history.messages };
}

async function agUi() {
  const { HttpAgent } = await import("@ag-ui/client");
  const agent = new HttpAgent({ url: "http://proxy/agui/", threadId: "killed", headers, fetch: fetchFromProcess });
  agent.addMessage({ id: "m1", role: "user", content: "conform:resume" });
  const runId = randomUUID();
  const textOf = () => agent.messages.filter(({ role }) => role === "assistant").map(({ content }) => content).join("");
  agent.subscribe({ onEvent: () => killAfter(textOf()) });
  process.once("unhandledRejection", () => {}); // a second promise of the client, which nobody can await
  const error = await agent.runAgent({ runId }).then(() => "", String);
  const broken = { status: error && "error", text: textOf() };
  base = other;
  await agent.runAgent({ runId }); // with the part of the answer that it holds
  const messages = agent.messages.map(({ role, content }) => ({ role, parts: [{ type: "text", text: content }] }));
  return { broken, status: "ready", messages, history: messages };
}

const done = await (kind === "ag-ui" ? agUi() : aiSdk());
process.stdout.write(JSON.stringify(done), () => process.exit(0));
