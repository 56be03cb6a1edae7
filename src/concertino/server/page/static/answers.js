// Answers to what waits for the reader: they are given once, and the card of the wait leaves.

import { rest } from "./focus.js";
import { announce, api } from "./http.js";

const badge = document.getElementById("open-approvals");

/** Shows how many calls wait for the reader. */
export function countWaits(count) {
  badge.textContent = Math.max(count, 0);
  badge.hidden = count <= 0;
}

/** Sends the answer of a card, a JSON text. If the server refuses it, the form can be used again. */
export async function give(card, form, path, body, said) {
  const held = document.activeElement;
  const controls = [...form.elements];
  rest(card.closest("[data-turn]") ?? document.getElementById("main"));
  for (const each of controls) each.disabled = true;
  try {
    const headers = { "Content-Type": "application/json" };
    await api("POST", `${path}/${encodeURIComponent(card.dataset.key)}`, body, { raw: true, headers });
  } catch (error) {
    for (const each of controls) each.disabled = false;
    held.focus();
    throw error;
  }
  announce(said);
  countWaits(Number(badge.textContent) - 1);
  card.classList.add("answered");
  card.closest(".waiting-call")?.remove();
}

/**
 * Returns an object as JSON text, from pairs of a name and a JSON text; without the pairs that have none.
 * A text is sent as it is: JSON.parse would round numbers beyond 2^53.
 */
export function objectText(pairs) {
  const given = pairs.filter(([, text]) => text !== undefined);
  return `{${given.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join()}}`;
}

/** Returns a text that is a JSON object. Throws an Error otherwise. */
export function checkedObject(text) {
  try {
    const value = JSON.parse(text);
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("it is no object");
    return text;
  } catch (error) {
    throw new Error(`This is not a JSON object: ${error.message}`);
  }
}

/** Shows a problem of a form beside the field that it is about. */
export function showProblem(problem, error, field) {
  problem.textContent = error.message;
  problem.hidden = false;
  field.focus();
}
