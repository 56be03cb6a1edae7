// The stream of a conversation: parts of the turn in progress, and notes that something else has changed.

import { announce, base, complain, parsed } from "./http.js";
import { decorate } from "./decorate.js";
import { keepFocus } from "./focus.js";

const drawn = new Map(); // by id of a part: its HTML as it was sent

export class Live {
  /** Follows a conversation from what is `seen`. `changed` is called when it has changed, `status` for each frame. */
  constructor(conversation, seen, changed, status) {
    this.seen = seen;
    this.path = `${base}/c/${encodeURIComponent(conversation)}/live`;
    this.changed = changed;
    this.status = status;
    this.said = "";
    this.shows = new Set(); // the turns whose parts this connection sends, and has not sent to their end
    this.taken = Promise.resolve(); // frames are applied one after another
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    this.open();
  }

  /** Connects again: the server then sends the turn in progress as a whole. */
  open() {
    this.close();
    if (document.hidden) return;
    const source = new EventSource(`${this.path}?seen=${encodeURIComponent(this.seen())}`);
    this.source = source;
    source.onopen = () => this.connected(true);
    source.onerror = () => this.connected(false);
    source.onmessage = (message) => {
      const frame = JSON.parse(message.data);
      this.taken = this.taken.then(() => this.source === source && this.take(frame)).catch(complain);
    };
  }

  close() {
    this.shows.clear();
    this.source?.close();
    clearTimeout(this.retry);
  }

  connected(well) {
    document.getElementById("connection").textContent = well ? "" : "Connecting again …";
    if (!well) this.shows.clear();
    if (!well && this.source.readyState === EventSource.CLOSED) {
      this.retry = setTimeout(() => this.open(), 3000);
    }
  }

  async take(frame) {
    const found = () => document.getElementById(`turn-${frame.turn}`);
    if (frame.changed || !found()) await this.changed(frame);
    const turn = found();
    if (frame.changed || !turn || !("live" in turn.dataset)) return; // an ended turn has all of its parts
    this.shows.add(frame.turn);
    const known = frame.whole ? new Set(frame.parts.map(([id]) => id)) : null;
    const own = [...drawn.keys()].filter((id) => id.startsWith(`${frame.turn}-`));
    keepFocus(() => {
      for (const [id, into, html] of frame.parts) place(id, into, html);
      for (const id of frame.removed) remove(id);
      for (const id of known ? own : []) if (!known.has(id)) remove(id);
    });
    for (const id of frame.over ? own : []) drawn.delete(id);
    const line = turn.querySelector("[data-status]");
    if (line && line.textContent !== frame.status) line.textContent = frame.status;
    if (frame.status !== this.said && frame.status.startsWith("Waiting")) announce(frame.status);
    this.said = frame.status;
    turn.classList.toggle("waits", frame.status.startsWith("Waiting"));
    if (frame.over) {
      this.shows.delete(frame.turn);
      if ("ended" in turn.dataset) await this.changed(frame);
    }
    this.status(frame);
  }
}

function remove(id) {
  drawn.delete(id);
  document.getElementById(id)?.remove();
}

/** Adds a part at the end of its element, or replaces it. What the reader has opened stays open. */
function place(id, into, html) {
  const old = document.getElementById(id);
  if (old && drawn.get(id) === html) return;
  drawn.set(id, html);
  const made = parsed(html).firstElementChild;
  if (!made) return;
  decorate(made);
  if (!old) {
    document.getElementById(into)?.append(made);
    return;
  }
  if (old.open !== undefined) made.open = old.open && (made.open || !made.matches(".agents"));
  old.replaceWith(made);
}
