// The portal of a worker: the form for a goal.

import { api, base, once } from "./http.js";

const form = document.getElementById("goal-form");

async function give() {
  const worker = encodeURIComponent(form.dataset.worker);
  const text = form.elements.text.value;
  const turn = await api("POST", `/api/workers/${worker}/goals`, { text });
  const id = encodeURIComponent(turn.conversation_id);
  const title = text.replace(/\s+/g, " ").slice(0, 60);
  await api("PATCH", `/api/conversations/${id}`, { title });
  form.reset(); // the goal is given: another Enter, before the next page is shown, gives none
  location.assign(`${base}/c/${id}`);
}

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  once(form, give);
});

export const actions = {
  "goal-prompt": (button) => {
    form.elements.text.value = button.textContent;
    form.elements.text.focus();
  },
};
