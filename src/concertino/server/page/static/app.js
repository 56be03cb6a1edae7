// The page: what all of its views share. The chat, the panel and the forms are modules of their own.

import { actions as chats } from "./chats.js";
import { cover } from "./cover.js";
import { copied, localize, once } from "./http.js";
import { decorate } from "./decorate.js";
import { actions as approvals } from "./approvals.js";
import { actions as chat } from "./chat.js";
import { actions as panel } from "./panel.js";
import { actions as goals } from "./goals.js";
import { actions as questions } from "./questions.js";

const themes = ["system", "light", "dark"];

function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  document.getElementById("theme-name").textContent = name;
  try {
    localStorage.setItem("theme", name);
  } catch {
    // storage is off: the theme counts for this page
  }
}

function setSidebar(open) {
  document.body.classList.toggle("sidebar-open", open);
  cover();
  const button = document.querySelector('[data-action="open-sidebar"]');
  button.setAttribute("aria-expanded", String(open));
  (open ? document.querySelector(".new-chat") : button).focus();
}

const own = {
  theme: () => setTheme(themes[(themes.indexOf(theme()) + 1) % 3]),
  "open-sidebar": () => setSidebar(true),
  "close-sidebar": () => setSidebar(false),
  "copy-code": (button) => copied(button, button.closest(".code").querySelector("code").textContent),
  "copy-message": (button) => copied(button, button.closest(".question").querySelector(".message").textContent),
};
const actions = { ...own, ...approvals, ...chat, ...panel, ...goals, ...questions, ...chats };

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-action]");
  const action = button && actions[button.dataset.action];
  if (!action) return;
  event.preventDefault();
  once(button, () => action(button));
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.body.classList.contains("sidebar-open")) setSidebar(false);
});

const theme = () => document.documentElement.dataset.theme ?? "system";
document.getElementById("theme-name").textContent = theme();
decorate(document);
localize(document);
