// The chat: sending, stopping, editing, branches, and the list of turns.

import { drawChats } from "./chats.js";
import { announce, api, base, complain, copied, fragment, inform, localize, once } from "./http.js";
import { decorate } from "./decorate.js";
import { ask } from "./dialog.js";
import { DistantTurns } from "./distant.js";
import { keepFocus } from "./focus.js";
import { sends } from "./keys.js";
import { Live } from "./live.js";
import { refresh } from "./panel.js";
import { Scrolling } from "./scrolling.js";
import { Uploads } from "./uploads.js";

const chat = document.getElementById("chat");
const composer = document.getElementById("composer");
const turns = document.getElementById("turns");
const outbox = document.getElementById("outbox");
const scroll = document.getElementById("scroll");
const text = document.getElementById("text");
const uploads = chat ? new Uploads(composer, text) : null;
let conversation = chat?.dataset.conversation ?? "";
const scrolling = chat ? new Scrolling(scroll, turns) : null;
const distant = chat ? new DistantTurns(turns, scroll, before, complain) : null;
/** Where Escape leaves something else than the answer in progress. */
const CLOSABLE = ".edit-form, .panel, .sidebar, .approval, dialog, select";
let live = null;

const path = (rest = "") => `/api/conversations/${encodeURIComponent(conversation)}${rest}`;
const turnPath = (button, rest) => path(`/turns/${encodeURIComponent(turnOf(button).dataset.turn)}/${rest}`);
const turnOf = (element) => element.closest("[data-turn]");
const key = () => ({ headers: { "Idempotency-Key": crypto.randomUUID?.() ?? String(Math.random()) } });

// -- the list of turns

/** Returns a page of turns as the server has it: the newest, or those before an element of the list. */
async function before(element) {
  const id = element?.dataset.before ?? (element?.dataset.state === "queued" ? "" : element?.dataset.turn);
  const found = await fragment(
    `/c/${encodeURIComponent(conversation)}/turns${id ? `?before=${encodeURIComponent(id)}` : ""}`,
  );
  decorate(found);
  localize(found);
  return found;
}

/** Makes the list of turns as the server has it. Turns that have not changed stay as they are. */
async function sync() {
  const found = await before(null);
  const seen = found.querySelector("[data-seen]");
  const shown = new Map([...turns.querySelectorAll("[data-turn]")].map((each) => [each.dataset.turn, each]));
  const fresh = [...found.querySelectorAll("[data-turn]")];
  const first = fresh[0] && shown.get(fresh[0].dataset.turn);
  const older = [];
  for (let each = first?.previousElementSibling; each; each = each.previousElementSibling) {
    if (!each.hidden) older.unshift(each);
  }
  const earlier = found.querySelector(".earlier");
  const above = first ? older : earlier ? [earlier] : [];
  const list = [seen, ...above, ...fresh.map((each) => kept(shown.get(each.dataset.turn), each))];
  keepFocus(() => {
    for (const each of [...turns.children]) if (!list.includes(each)) each.remove();
    list.forEach((each, index) => {
      if (turns.children[index] !== each) turns.insertBefore(each, turns.children[index] ?? null);
    });
  });
  settle();
  announceEnds();
  busy();
  watch();
  scrolling.toEnd();
}

const awaited = new Set(); // the turns whose ends people who hear the page have not been told
const ENDS = { completed: "The answer is complete.", limited: "The answer is complete.", failed: "The answer failed." };

/** Tells people who hear the page which turns have ended, also those that have ended before their stream was open. */
function announceEnds() {
  for (const each of turns.querySelectorAll("[data-live]")) awaited.add(each.dataset.turn);
  for (const id of awaited) {
    const turn = document.getElementById(`turn-${id}`);
    if (turn && ("live" in turn.dataset || turn.dataset.state === "queued")) continue;
    awaited.delete(id);
    if (turn && ENDS[turn.dataset.state]) announce(ENDS[turn.dataset.state]);
  }
}

function kept(old, made) {
  if (old && old.dataset.version === made.dataset.version) return old;
  const streams = "live" in made.dataset;
  if (old && "live" in old.dataset && (streams || live?.shows.has(old.dataset.turn))) {
    old.dataset.state = made.dataset.state; // its stream fills it, up to its end
    if (!streams) old.dataset.ended = "";
    return old;
  }
  for (const open of old?.querySelectorAll("details[open][id]:not(.agents)") ?? []) {
    const same = made.querySelector(`#${CSS.escape(open.id)}`);
    if (same) same.open = true;
  }
  // What was seen live has more than what is stored, if the data policy keeps little.
  for (const slot of "live" in (old?.dataset ?? {}) ? old.querySelectorAll("[data-slot]") : []) {
    const same = made.querySelector(`#${CSS.escape(slot.id)}`);
    if (same && slot.childElementCount > same.childElementCount) same.replaceChildren(...slot.childNodes);
  }
  return made;
}

/** Shows whether a turn is in progress. */
function busy() {
  const running = [...turns.querySelectorAll("[data-turn]")].some((each) =>
    ["running", "waiting", "queued"].includes(each.dataset.state),
  );
  document.querySelector('[data-action="stop"]').hidden = !running;
  composer.querySelector(".when-busy").hidden = !running;
  composer.classList.toggle("busy", running);
}

const current = () => [...turns.querySelectorAll('[data-state="running"], [data-state="waiting"]')].at(-1);

async function earlier() {
  const mark = turns.querySelector(".earlier");
  if (!mark || mark.dataset.loading) return;
  mark.dataset.loading = "yes";
  const found = await before(mark).finally(() => delete mark.dataset.loading);
  found.querySelector("[data-seen]").remove();
  const below = scroll.scrollHeight - scroll.scrollTop;
  keepFocus(() => mark.replaceWith(found));
  scroll.scrollTop = scroll.scrollHeight - below;
  watch();
}

const sight = chat && new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && earlier().catch(complain), {
  root: scroll,
  rootMargin: "600px 0px 0px 0px",
});

function watch() {
  distant.watch();
  sight.disconnect();
  const mark = turns.querySelector(".earlier");
  if (mark) sight.observe(mark);
}

// -- sending

async function begin() {
  const chosen = document.querySelector('input[name="agent"]:checked');
  const agent = chosen?.value ?? chat.dataset.agent;
  const label = text.placeholder.replace("Message ", "with ");
  const made = await api("POST", "/api/conversations", { agent });
  conversation = made.id;
  chat.dataset.conversation = made.id;
  document.querySelector('.new-chat').removeAttribute("aria-current");
  history.replaceState(null, "", `${base}/c/${encodeURIComponent(made.id)}`);
  document.body.dataset.here = made.id;
  const works = "worker" in (chosen ?? chat).dataset;
  chat.classList.toggle("with-document", works);
  document.getElementById("document").hidden = !works;
  document.querySelector(".welcome")?.remove();
  document.getElementById("chat-actions").hidden = false;
  Object.assign(document.getElementById("with"), { textContent: label, hidden: false });
}

let sent = Promise.resolve(); // messages are sent one after another

/** Takes the message out of the field at once, so that nothing that is written meanwhile is lost, and sends it. */
function take() {
  const message = text.value.trim();
  if (!message) return;
  text.value = "";
  resize();
  send(message);
}

function send(message) {
  const files = uploads.take();
  const whenBusy = composer.elements.when_busy;
  const when_busy = whenBusy.closest("label").hidden ? "queue" : whenBusy.value;
  const shown = when_busy === "steer" ? null : showUnsent(message);
  sent = sent
    .then(() => post(message, files, when_busy, shown))
    .catch(complain)
    .finally(() => shown?.remove());
}

/** Shows a message at once, until the list of turns has it: on a slow connection that takes seconds. */
function showUnsent(message) {
  const shown = Object.assign(document.createElement("div"), { className: "question" });
  const row = Object.assign(document.createElement("div"), { className: "question-row" });
  row.append(
    Object.assign(document.createElement("div"), { className: "message", textContent: message }),
    Object.assign(document.createElement("span"), { className: "field", textContent: "Sending" }),
  );
  shown.append(row);
  outbox.append(shown);
  welcome(false);
  scrolling.follow();
  return shown;
}

/** Removes the messages that the list of turns has. */
function settle() {
  for (const each of [...outbox.children]) if (document.getElementById(`turn-${each.dataset.turn}`)) each.remove();
}

function welcome(visible) {
  const section = document.querySelector(".welcome");
  if (section) section.hidden = !visible;
}

async function post(message, files, when_busy, shown) {
  composer.classList.add("sending");
  const fresh = !conversation;
  try {
    const ids = (await Promise.all(files.values())).map((file) => file.id);
    if (fresh) await begin();
    const turn = await api("POST", path("/turns"), { text: message, files: ids, when_busy }, key());
    if (shown) shown.dataset.turn = turn.id;
    awaited.add(turn.id);
    settle();
  } catch (error) {
    welcome(true);
    text.value = text.value ? `${message}\n${text.value}` : message;
    uploads.restore(files);
    resize();
    throw error;
  } finally {
    composer.classList.remove("sending");
  }
  if (when_busy === "steer") inform("The agent reads your message before its next step.");
  if (fresh) entitle(message).catch(complain);
  scrolling.begin();
  await changed();
}

/** Names a new chat after its first message, so that the list can be read at once. */
async function entitle(message) {
  const line = message.replace(/\s+/g, " ");
  const title = line.length > 60 ? `${line.slice(0, 60).replace(/\s\S*$/, "")} …` : line;
  await api("PATCH", path(), { title });
  setTitle(title);
  await list();
}

function setTitle(title) {
  chat.dataset.title = title;
  document.getElementById("title").textContent = title;
  document.title = `${title} · ${document.querySelector(".brand").textContent}`;
}

const list = () => drawChats(conversation);

/** Makes the turns, and all that is drawn from them, as the server has them. */
async function syncAll() {
  await sync();
  drawDocument();
  refresh();
  list().catch(() => {});
}

/** Shows a change of this page's at once: the stream begins again with the turn in progress. */
async function changed() {
  live?.close();
  await syncAll(); // the stream tells nothing of a turn that has ended by now
  if (live) live.open();
  else follow();
}

function follow() {
  live = new Live(
    conversation,
    () => turns.querySelector("[data-seen]")?.dataset.seen ?? "",
    async (frame) => {
      if (frame.title) setTitle(frame.title);
      await syncAll();
    },
    (frame) => {
      scrolling.toEnd();
      refresh(frame.turn);
      drawDocument();
    },
  );
}

/** Draws the living document of a goal again, at most once a second. */
function drawDocument() {
  const section = document.getElementById("document");
  if (!section || section.dataset.due) return;
  section.dataset.due = "yes";
  setTimeout(async () => {
    delete section.dataset.due;
    const found = await fragment(`/c/${encodeURIComponent(conversation)}/document`).catch(() => null);
    if (found) section.replaceChildren(found);
  }, 1000);
}

function resize() {
  text.style.height = "";
  text.style.height = `${Math.min(text.scrollHeight, innerHeight * 0.4)}px`;
}

// -- actions on turns

function edit(button) {
  const turn = turnOf(button);
  const message = turn.querySelector(".message");
  if (turn.querySelector(".edit-form")) return;
  const form = document.createElement("form");
  form.className = "edit-form";
  const field = document.createElement("textarea");
  field.value = message.textContent;
  field.rows = 3;
  field.dir = "auto";
  field.setAttribute("aria-label", "Edited message");
  const save = Object.assign(document.createElement("button"), { className: "primary", textContent: "Send" });
  const cancel = Object.assign(document.createElement("button"), { type: "button", textContent: "Cancel" });
  const row = document.createElement("div");
  row.className = "edit-row";
  row.append(cancel, save);
  form.append(field, row);
  message.hidden = true;
  message.after(form);
  field.focus();
  const close = () => {
    form.remove();
    message.hidden = false;
    button.focus();
  };
  cancel.addEventListener("click", close);
  form.addEventListener("keydown", (event) => event.key === "Escape" && close());
  field.addEventListener("keydown", (event) => sends(event) && form.requestSubmit());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    once(form, async () => {
      awaited.add((await api("POST", turnPath(turn, "edit"), { text: field.value, when_busy: "interrupt" }, key())).id);
      scrolling.begin();
      await changed();
    });
  });
}

async function stop() {
  const turn = current();
  if (!turn) return;
  try {
    await api("POST", `/api/runs/${encodeURIComponent(turn.dataset.turn)}/stop`);
  } catch (error) {
    if (error.code !== "run_ended") throw error;
    return changed(); // the answer was complete before the request arrived
  }
  announce("The answer was stopped.");
}

export const actions = chat
  ? {
      edit,
      stop,
      earlier,
      prompt: (button) => send(button.textContent),
      "copy-answer": async (button) => {
        const turn = await api("GET", path(`/turns/${encodeURIComponent(turnOf(button).dataset.turn)}`));
        await copied(button, turn.answer);
      },
      regenerate: async (button) => {
        awaited.add((await api("POST", turnPath(button, "regenerate"), {}, key())).id);
        scrolling.begin();
        await changed();
      },
      branch: async (button) => {
        await api("POST", turnPath(button, "branch"));
        await changed();
        announce("The next message continues from here.");
        text.focus();
      },
      switch: async (button) => {
        await api("POST", path(`/turns/${encodeURIComponent(button.dataset.to)}/switch`));
        await changed();
        turns.querySelector(`[data-turn="${CSS.escape(button.dataset.to)}"] [data-action="switch"]:enabled`)?.focus();
      },
      rate: async (button) => {
        const rating = button.getAttribute("aria-pressed") === "true" ? null : button.dataset.rating;
        await api("PUT", turnPath(button, "feedback"), { rating });
        for (const each of turnOf(button).querySelectorAll('[data-action="rate"]')) {
          each.setAttribute("aria-pressed", String(each.dataset.rating === rating));
        }
      },
      withdraw: async (button) => {
        await api("DELETE", path(`/queue/${encodeURIComponent(turnOf(button).dataset.turn)}`));
        await changed();
      },
      rename: async () => {
        const title = await ask({ title: "Title of this chat", value: chat.dataset.title, confirm: "Rename" });
        if (!title) return;
        await api("PATCH", path(), { title });
        setTitle(title);
        await list();
      },
      export: () => {
        const link = document.createElement("a");
        link.href = base + path("/export");
        link.download = "conversation.json";
        link.click();
      },
      delete: async () => {
        const title = "Delete this chat? It cannot be restored.";
        if (!(await ask({ title, confirm: "Delete", danger: true }))) return;
        await api("DELETE", path());
        location.assign(`${base}/`);
      },
      "to-end": () => scrolling.follow(),
    }
  : {};

if (chat) {
  composer.addEventListener("submit", (event) => {
    event.preventDefault();
    take();
  });
  text.addEventListener("keydown", (event) => sends(event) && composer.requestSubmit());
  document.addEventListener("keydown", (event) => {
    const leaves = event.key === "Escape" && !event.isComposing && !document.body.matches(".sidebar-open");
    if (leaves && !event.target.closest(CLOSABLE)) stop().catch(complain);
  });
  text.addEventListener("input", resize);
  document.addEventListener("change", (event) => {
    if (event.target.name !== "agent") return;
    for (const each of document.querySelectorAll(".prompts")) each.hidden = each.dataset.agent !== event.target.value;
    const label = event.target.closest("label").querySelector(".agent-label").textContent;
    text.placeholder = `Message ${label}`;
  });
  if (conversation) follow();
  busy();
  scrolling.toEnd();
  watch();
}
