// Drives the `openai` package for Node and prints what it reads: node openai_client.mjs http://...
import OpenAI from "openai";

const [base] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "ann" });
const model = "conformance";
const say = (content) => [{ role: "user", content }];
const failed = (error) => ({ kind: error.constructor.name, status: error.status, message: error.message });

async function completion(content) {
  try {
    const { choices, usage } = await client.chat.completions.create({ model, messages: say(content) });
    return { message: choices[0].message, reason: choices[0].finish_reason, usage };
  } catch (error) {
    return { error: failed(error) };
  }
}

async function streamed(content) {
  const chunks = [];
  try {
    const options = { model, messages: say(content), stream: true, stream_options: { include_usage: true } };
    const stream = client.chat.completions.stream(options);
    stream.on("chunk", (chunk) => chunks.push(chunk));
    const { choices, usage } = await stream.finalChatCompletion();
    return { message: choices[0].message, reason: choices[0].finish_reason, usage, chunks };
  } catch (error) {
    return { error: failed(error), chunks };
  }
}

async function response(input) {
  try {
    return await client.responses.create({ model, input });
  } catch (error) {
    return { error: failed(error) };
  }
}

async function streamedResponse(input) {
  const events = [];
  try {
    const stream = client.responses.stream({ model, input });
    stream.on("event", (event) => events.push(event));
    return { final: await stream.finalResponse(), events };
  } catch (error) {
    return { error: failed(error), events };
  }
}

const done = { models: [], chat: {}, stream: {}, response: {}, responseStream: {} };
for await (const { id } of client.models.list()) done.models.push(id);
for (const scenario of [
  "text", "reasoning", "parallel", "tool-error", "sub-agent", "error-before", "error-during",
  "media", "sources", "data", "long", "unicode", "approval",
]) {
  const content = `conform:${scenario}`;
  done.chat[scenario] = await completion(content);
  done.stream[scenario] = await streamed(content);
  done.response[scenario] = await response(content);
  done.responseStream[scenario] = await streamedResponse(content);
}
const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
done.files = await completion([{ type: "text", text: "conform:media" }, image]);
const unknown = { model: "nothing", messages: say("x") };
done.unknown = await client.chat.completions.create(unknown).catch(failed);
done.title = await client.chat.completions.create({ model: "tasks", messages: say("A title?") });
{
  const created = await client.responses.create({ model, input: "conform:text" });
  done.retrieved = await client.responses.retrieve(created.id);
  const other = new OpenAI({ baseURL: `${base}/v1`, apiKey: "bob" });
  done.otherUser = await other.responses.retrieve(created.id).catch(failed);
}
{
  const stream = await client.responses.create({ model, input: "conform:stop", stream: true });
  let id, last;
  for await (const event of stream) {
    last = event;
    if (event.type === "response.created") id = event.response.id;
    if (event.type === "response.output_text.delta" && id) {
      done.cancelled = await client.responses.cancel(id);
      id = undefined;
    }
  }
  done.cancelledStream = last;
}
process.stdout.write(JSON.stringify(done), () => process.exit(0));
