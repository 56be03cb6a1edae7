// Requests to the API of the same application, and HTML that the server has rendered.

export const base = document.body.dataset.base;
const policy = globalThis.trustedTypes?.createPolicy("page", { createHTML: (html) => html });

/** Sends a request and returns the JSON of its answer. Throws an Error with the server's message and `code`. */
export async function api(method, path, body, options = {}) {
  const headers = { ...options.headers };
  if (body !== undefined && !options.raw) {
    headers["Content-Type"] = "application/json";
  }
  const answer = await request(path, { method, headers, body: options.raw ? body : JSON.stringify(body) });
  return answer.status === 204 ? null : answer.json();
}

async function request(path, options) {
  let answer;
  try {
    answer = await fetch(base + path, options);
  } catch {
    throw new Error("The server does not answer. Check the connection, and try again.");
  }
  if (answer.ok) return answer;
  const found = await answer.json().catch(() => null);
  const error = new Error(found?.error?.message ?? `The server answered with status ${answer.status}.`);
  throw Object.assign(error, { code: found?.error?.code });
}

/** Returns HTML of the server's as a fragment. The server sanitizes it: this is the only place that parses HTML. */
export function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}

/** Fetches a fragment of a page. */
export async function fragment(path) {
  return parsed(await (await request(path)).text());
}

/** Says something to people who hear the page. */
export function announce(text) {
  document.getElementById("announce").textContent = text;
}

/** Shows an error for some seconds. */
export function complain(error) {
  show(error.message ?? String(error), "toast", 8000);
}

/** Shows a message for some seconds. */
export function inform(text) {
  show(text, "toast info", 4000);
}

const running = new WeakSet();

/** Does the work of a control, unless it is still being done: a double click counts once. Shows an error. */
export async function once(control, work) {
  if (running.has(control)) return;
  running.add(control);
  try {
    await work();
  } catch (error) {
    if (error) complain(error);
  } finally {
    running.delete(control);
  }
}

function show(text, className, milliseconds) {
  const toasts = document.getElementById("toasts");
  for (const each of toasts.children) if (each.textContent === text) each.remove();
  const toast = Object.assign(document.createElement("p"), { className, textContent: text });
  toasts.append(toast);
  toast.addEventListener("click", () => toast.remove());
  setTimeout(() => toast.remove(), milliseconds);
}

/** Shows moments in the reader's own time and language. */
export function localize(root) {
  for (const each of root.querySelectorAll("time[datetime]:not([data-local])")) {
    each.dataset.local = "";
    each.textContent = new Date(each.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
}

/** Puts a text on the clipboard, and confirms it on the button. */
export async function copied(button, text) {
  if (!navigator.clipboard) throw new Error("The browser lets pages copy over HTTPS only.");
  await navigator.clipboard.writeText(text);
  announce("Copied.");
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1500);
}
