// Answers to what waits for the reader: they are given once, and the card of the wait leaves.

import { rest } from "./focus.js";
import { announce, api } from "./http.js";

/** Sends the answer of a card. If the server refuses it, the form can be used again. */
export async function give(card, form, path, body, said) {
  const held = document.activeElement;
  const controls = [...form.elements];
  rest(card.closest("[data-turn]") ?? document.getElementById("main"));
  for (const each of controls) each.disabled = true;
  try {
    await api("POST", `${path}/${encodeURIComponent(card.dataset.key)}`, body);
  } catch (error) {
    for (const each of controls) each.disabled = false;
    held.focus();
    throw error;
  }
  announce(said);
  card.classList.add("answered");
  card.closest(".waiting-call")?.remove();
}

/** Returns a text as a JSON object. Throws an Error otherwise. */
export function parsedObject(text) {
  try {
    const value = JSON.parse(text);
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("it is no object");
    return value;
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
