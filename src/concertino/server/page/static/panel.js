// The panel beside a chat: the agents, the timeline and the cost of one run.

import { cover } from "./cover.js";
import { rest } from "./focus.js";
import { fragment, localize } from "./http.js";

const panel = document.getElementById("panel");
let shown = null;
let drawing = false;
let again = false;

export const actions = {
  details: async (button) => {
    shown = button.closest("[data-turn]").dataset.turn;
    await draw();
    panel.hidden = false;
    document.body.classList.add("panel-open");
    cover();
    panel.focus();
  },
  "close-panel": () => {
    const turn = document.getElementById(`turn-${shown}`) ?? document.getElementById("main");
    shown = null;
    panel.hidden = true;
    document.body.classList.remove("panel-open");
    cover();
    const opener = turn.querySelector('[data-action="details"]');
    if (opener) opener.focus();
    else rest(turn);
  },
};

/** Draws the panel again after a change of the turn that it shows, or of any turn. */
export function refresh(turn = shown) {
  if (shown && turn === shown) draw().catch(() => {});
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
