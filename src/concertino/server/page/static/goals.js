// The portal of a worker: the form for a goal.

import { api, base, complain } from "./http.js";

const form = document.getElementById("goal-form");

async function give() {
  const worker = encodeURIComponent(form.dataset.worker);
  const turn = await api("POST", `/api/workers/${worker}/goals`, { text: form.elements.text.value });
  const id = encodeURIComponent(turn.conversation_id);
  const title = form.elements.text.value.replace(/\s+/g, " ").slice(0, 60);
  await api("PATCH", `/api/conversations/${id}`, { title });
  location.assign(`${base}/c/${id}`);
}

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  give().catch(complain);
});

export const actions = {
  "goal-prompt": (button) => {
    form.elements.text.value = button.textContent;
    form.elements.text.focus();
  },
};
