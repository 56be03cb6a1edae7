// The keyboard's place in the chat: what is drawn again there must not send it to the top of the page.

/** Puts the focus on an element that is no control, so that Tab goes on from there. */
export function rest(element) {
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
}

/** Makes a change. If it takes the focused control away, the same control of its turn gets the focus, else the turn. */
export function keepFocus(change) {
  const held = document.activeElement;
  const turn = held?.closest("[data-turn]");
  if (!turn) return change();
  const same = selector(held);
  change();
  if (held.isConnected) return;
  const now = document.getElementById(turn.id) ?? [...document.querySelectorAll("[data-turn]")].at(-1);
  const control = same && now?.querySelector(same);
  if (control) control.focus({ preventScroll: true });
  else rest(now ?? document.getElementById("main"));
}

function selector(control) {
  if (control.id) return `#${CSS.escape(control.id)}`;
  if (control.matches("details[id] > summary")) return `#${CSS.escape(control.parentElement.id)} > summary`;
  const { action, rating } = control.dataset;
  return action && `[data-action="${action}"]${rating ? `[data-rating="${rating}"]` : ""}`;
}
