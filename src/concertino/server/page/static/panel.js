// The panel beside a chat: the agents, the timeline and the cost of one run.

import { fragment, localize } from "./http.js";

const panel = document.getElementById("panel");
let shown = null;
let opener = null;
let drawing = false;
let again = false;

export const actions = {
  details: async (button) => {
    opener = button;
    shown = button.closest("[data-turn]").dataset.turn;
    await draw();
    panel.hidden = false;
    document.body.classList.add("panel-open");
    panel.focus();
  },
  "close-panel": () => {
    shown = null;
    panel.hidden = true;
    document.body.classList.remove("panel-open");
    opener?.focus();
  },
};

/** Draws the panel again after a change of the turn that it shows. */
export function refresh(turn) {
  if (turn === shown) draw().catch(() => {});
}

async function draw() {
  if (drawing) {
    again = true;
    return;
  }
  drawing = true;
  try {
    do {
      again = false;
      const found = await fragment(`/runs/${encodeURIComponent(shown)}/panel`);
      const scrolled = panel.scrollTop;
      panel.replaceChildren(found);
      localize(panel);
      panel.scrollTop = scrolled;
      if (again) await new Promise((resolve) => setTimeout(resolve, 500));
    } while (again && shown);
  } finally {
    drawing = false;
  }
}

panel.addEventListener("keydown", (event) => {
  if (event.key === "Escape") actions["close-panel"]();
});
