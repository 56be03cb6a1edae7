// Drives `Chat` of @ai-sdk/react, the state behind `useChat`, and prints what it holds: node ai_sdk.mjs 5 http://...
const [version, base] = process.argv.slice(2);
const { Chat } = await import(`react${version}`);
const ai = await import(`ai${version}`);

function open(id, { api = `${base}/api/chat/`, user = "ann", messages = [], ...settings } = {}) {
  const errors = [];
  const data = [];
  const headers = { authorization: `Bearer ${user}`, ...(version === "5" ? { "x-ai-sdk-version": "5" } : {}) };
  const transport = new ai.DefaultChatTransport({
    api,
    headers,
    prepareReconnectToStreamRequest: ({ id }) => ({ api: `${api}${id}/stream`, headers }),
  });
  const chat = new Chat({
    id,
    messages,
    transport,
    onError: (error) => errors.push(error.message),
    onData: (part) => data.push(part),
    ...settings,
  });
  return { chat, errors, data, headers };
}

const idle = async (chat) => {
  while (chat.status === "submitted" || chat.status === "streaming") await new Promise((r) => setTimeout(r, 5));
};
const until = async (condition) => {
  while (!condition()) await new Promise((r) => setTimeout(r, 5));
};
const shown = ({ chat, errors }) => ({ status: chat.status, errors, messages: chat.messages });
const hasText = (chat, length) => chat.messages.at(-1)?.parts.some((part) => part.text?.length > length);
const pace = (seconds, headers) => fetch(`${base}/pace/${seconds}`, { method: "POST", headers });
const history = async (id, headers) => (await fetch(`${base}/api/chat/${id}`, { headers })).json();

async function ask(scenario, settings) {
  const opened = open(`${version}-${scenario.replaceAll(" ", "-")}`, settings);
  await opened.chat.sendMessage({ text: `conform:${scenario}` });
  return { ...shown(opened), history: (await history(opened.chat.id, opened.headers)).messages };
}

const done = {};
for (const scenario of [
  "text", "reasoning", "parallel", "tool-error", "sub-agent", "error-before", "error-during",
  "media", "sources", "data", "long", "unicode", "approval",
]) {
  done[scenario] = await ask(scenario);
}
done.typed = await ask("typed", { api: `${base}/api/typed/` });

{
  const opened = open(`${version}-files`);
  const url = "data:image/png;base64,iVBORw0KGgo=";
  const files = [{ type: "file", mediaType: "image/png", filename: "a.png", url }];
  await opened.chat.sendMessage({ text: "conform:media", files });
  done.files = shown(opened);
}
{
  const opened = open(`${version}-stop`);
  const asked = opened.chat.sendMessage({ text: "conform:stop" });
  await until(() => hasText(opened.chat, 50));
  const { chat, headers } = opened;
  const answer = await fetch(`${base}/api/chat/${chat.id}/stop`, { method: "POST", headers });
  await asked;
  done.stop = { ...shown(opened), answer: await answer.json() };
}
{
  const first = open(`${version}-resume`);
  await pace(0.2, first.headers); // the answer goes on until there is a second reader
  const asked = first.chat.sendMessage({ text: "conform:resume" });
  await until(() => hasText(first.chat, 50));
  await first.chat.stop(); // drops the connection, which stops nothing
  await asked;
  const second = open(`${version}-resume`, { messages: (await history(first.chat.id, first.headers)).messages });
  const resumed = second.chat.resumeStream();
  await until(() => second.chat.status === "error" || hasText(second.chat, 50));
  await pace(0, first.headers);
  await resumed;
  await idle(second.chat);
  done.resume = { ...shown(second), dropped: shown(first) };
  const third = open(`${version}-resume`, { messages: second.chat.messages });
  await third.chat.resumeStream();
  done.resumeNothing = shown(third);
}
{
  const opened = open(`${version}-edit`);
  await opened.chat.sendMessage({ text: "conform:text" });
  const first = opened.chat.messages.at(-1).id;
  await opened.chat.sendMessage({ text: "one more" });
  await opened.chat.regenerate();
  const regenerated = opened.chat.messages.at(-1).id;
  await opened.chat.sendMessage({ text: "instead", messageId: opened.chat.messages[2].id });
  done.edit = { ...shown(opened), first, regenerated, history: await history(opened.chat.id, opened.headers) };
  const again = open(`${version}-edit`, { messages: done.edit.history.messages });
  await again.chat.sendMessage({ text: "again", messageId: again.chat.messages[0].id });
  done.editStored = { ...shown(again), history: await history(again.chat.id, again.headers) };
}
{
  const opened = open(`${version}-edit`, { user: "bob" });
  await opened.chat.sendMessage({ text: "conform:text" });
  done.otherUser = { ...shown(opened), history: await history(opened.chat.id, opened.headers) };
}
{
  const opened = open(`${version}-client-tool`, {
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls,
  });
  await opened.chat.sendMessage({ text: "conform:client-tool" });
  const part = opened.chat.messages.at(-1).parts.find((part) => part.type === "tool-locate");
  const give = opened.chat.addToolOutput ?? opened.chat.addToolResult;
  await give({ tool: "locate", toolCallId: part.toolCallId, output: "at home" });
  await until(() => opened.chat.messages.at(-1).parts.some((part) => part.text === "at home"));
  await idle(opened.chat);
  done.clientTool = shown(opened);
}
if (version !== "5") {
  const answer = async (scenario, approved) => {
    const opened = open(`${version}-${scenario.replaceAll(" ", "-")}-${approved}`, {
      sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await opened.chat.sendMessage({ text: `conform:${scenario}` });
    const before = JSON.parse(JSON.stringify(opened.chat.messages));
    const { approval } = opened.chat.messages.at(-1).parts.find((part) => part.approval);
    await opened.chat.addToolApprovalResponse({ id: approval.id, approved, reason: approved ? undefined : "no" });
    await until(() => opened.chat.status === "error" || opened.chat.messages.at(-1).parts.at(-1).type === "text");
    await idle(opened.chat);
    return { ...shown(opened), before, history: await history(opened.chat.id, opened.headers) };
  };
  done.approved = await answer("approval", true);
  done.denied = await answer("denial", false);
  done.below = await answer("sub-agent approval", true);
}
process.stdout.write(JSON.stringify(done), () => process.exit(0));
