// The list of chats in the sidebar.

import { countWaits } from "./answers.js";
import { fragment } from "./http.js";

const chats = document.getElementById("conversations");
let listed = ""; // how many chats the reader wants to see, if they asked for more

/** Draws the list as the server has it. */
export async function drawChats(here) {
  const found = await fragment(`/conversations?here=${encodeURIComponent(here)}&listed=${listed}`);
  countWaits(Number(found.querySelector("[data-open-approvals]").dataset.openApprovals));
  chats.replaceChildren(found);
}

export const actions = {
  "more-chats": async (button) => {
    const shown = chats.querySelectorAll("a").length;
    listed = button.dataset.listed;
    await drawChats(document.body.dataset.here);
    chats.querySelectorAll("a")[shown]?.focus();
  },
};
