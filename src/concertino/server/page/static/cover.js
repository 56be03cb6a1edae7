// On a narrow screen, the menu and the panel cover the page: nothing behind them takes the focus.

const narrow = matchMedia("(max-width: 60rem)"); // as in page.css
const behind = [document.getElementById("main"), document.querySelector(".skip")];

/** Applies what is open now. Call it before the focus moves. */
export function cover() {
  const covered = narrow.matches && document.body.matches(".sidebar-open, .panel-open");
  for (const each of behind) each.inert = covered;
}

narrow.addEventListener("change", cover);
