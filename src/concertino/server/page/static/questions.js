// Cards of questions to the reader.

import { checkedObject, give, objectText, showProblem } from "./answers.js";
import { ask } from "./dialog.js";
import { once } from "./http.js";
import { sends } from "./keys.js";

export const PATH = "/api/questions";

export const actions = {
  decline: async (button) => {
    const title = "Decline to answer? The agent goes on without it.";
    if (!(await ask({ title, confirm: "Decline", danger: true }))) return;
    await give(button.closest(".approval"), button.form, PATH, JSON.stringify({ answer: null }), "Declined.");
  },
};

const only = (part) => part.querySelector("input, textarea, select");
const checked = (part) => [...part.querySelectorAll(":checked")].map((each) => each.value);
const text = (part) => JSON.stringify(only(part).value || undefined);

function number(part) {
  const { value, valueAsNumber } = only(part);
  if (value === "") return undefined;
  return /^-?(0|[1-9]\d*)$/.test(value) ? value : JSON.stringify(valueAsNumber);
}

/** By the kind of a field: the JSON text of its value; undefined if it is left out. */
const VALUES = {
  text,
  line: text,
  number,
  integer: number,
  boolean: (part) => JSON.stringify(only(part).checked),
  choice: (part) => (only(part).matches("select") ? text(part) : JSON.stringify(checked(part)[0])),
  choices: (part) => JSON.stringify(checked(part)),
};

/** Returns the answer of a form as JSON: a text, or an object. */
function answerOf(form) {
  const parts = [...form.querySelectorAll("[data-field]")];
  if (!parts.length) return '""';
  if (parts[0].dataset.kind === "json") return checkedObject(only(parts[0]).value);
  const values = parts.map((part) => [part.dataset.field, VALUES[part.dataset.kind](part)]);
  return "structured" in form.dataset ? objectText(values) : values[0][1];
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".answer-form")) return;
  event.preventDefault();
  const problem = form.querySelector(".problem");
  problem.hidden = true;
  once(form, async () => {
    let answer;
    try {
      answer = answerOf(form);
    } catch (error) {
      showProblem(problem, error, only(form));
      return;
    }
    await give(form.closest(".approval"), form, PATH, objectText([["answer", answer]]), "Answered.");
  });
});

document.addEventListener("keydown", (event) => {
  const form = event.target.closest?.(".answer-form");
  if (!form) return;
  const one = form.querySelectorAll("[data-field]").length === 1;
  if (event.target.matches('[data-kind="text"] textarea')) {
    if (one && sends(event)) form.requestSubmit();
  } else if (!one && event.key === "Enter" && event.target.matches("input")) {
    event.preventDefault(); // an answer counts once: only the button sends one of several fields
  }
});
