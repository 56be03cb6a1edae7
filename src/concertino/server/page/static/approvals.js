// Cards of calls that wait for an approval, in a chat and on a page of their own.

import { checkedObject, give, objectText, showProblem } from "./answers.js";
import { once } from "./http.js";
import { PATH as QUESTIONS } from "./questions.js";

const PATH = "/api/approvals";

export const actions = {
  "edit-arguments": (button) => {
    const edited = button.form.querySelector(".edit-arguments");
    edited.hidden = !edited.hidden;
    button.closest(".approval").querySelector(".exact").hidden = !edited.hidden;
    button.setAttribute("aria-expanded", String(!edited.hidden));
    button.textContent = edited.hidden ? "Edit arguments" : "Use the original";
    if (edited.hidden) return;
    edited.querySelector("textarea").focus();
    button.scrollIntoView({ block: "nearest" });
  },
  "keep-open": (button) => setDenying(button.form, false),
};

const denying = (form) => !form.querySelector(".deny-reason").hidden;

/** Asks for the reason of a denial, or no longer. Meanwhile, nothing in the form allows the call. */
function setDenying(form, on) {
  form.querySelector(".deny-reason").hidden = !on;
  for (const each of form.querySelectorAll('[value="approve"], [data-action="edit-arguments"], .remember, .question-answer')) each.hidden = on;
  form.querySelector('[data-action="keep-open"]').hidden = !on;
  (on ? form.elements.reason : form.querySelector('[value="deny"]')).focus();
  form.querySelector(".approval-actions").scrollIntoView({ block: "nearest" });
}

/** Returns the JSON text of the arguments in place of the original ones; undefined if they are not edited. */
function edited(form) {
  const part = form.querySelector(".edit-arguments");
  const field = form.elements.arguments;
  if (!part || part.hidden || field.value === field.defaultValue) return undefined;
  const problem = part.querySelector(".problem");
  problem.hidden = true;
  try {
    return checkedObject(field.value);
  } catch (error) {
    showProblem(problem, error, field);
    throw null;
  }
}

async function answer(card, form, decision) {
  if (decision === "deny" && !denying(form)) {
    setDenying(form, true);
    return;
  }
  const text = form.elements.answer?.value; // to the question of a workflow
  if (decision === "approve" && text?.trim()) {
    await give(card, form, QUESTIONS, JSON.stringify({ answer: text }), "Allowed.");
  } else if (decision === "approve") {
    const remember = JSON.stringify(form.elements.remember?.value ?? "once");
    const body = objectText([["decision", '"approve"'], ["arguments", edited(form)], ["remember", remember]]);
    await give(card, form, PATH, body, "Allowed.");
  } else {
    await give(card, form, PATH, JSON.stringify({ decision, reason: form.elements.reason.value }), "Denied.");
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".approval-form")) return;
  event.preventDefault();
  // Enter in the field of the reason submits with the first button of the form, which is Allow.
  const decision = denying(form) ? "deny" : (event.submitter?.value ?? "deny");
  once(form, () => answer(form.closest(".approval"), form, decision));
});

document.addEventListener("keydown", (event) => {
  const form = event.key === "Escape" && !event.isComposing && event.target.closest(".approval-form");
  if (!form) return;
  if (denying(form)) return setDenying(form, false);
  const toggle = form.querySelector('[data-action="edit-arguments"][aria-expanded="true"]');
  toggle?.click();
  toggle?.focus();
});
