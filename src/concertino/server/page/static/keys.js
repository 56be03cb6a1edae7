// Keys in fields of text.

/** Returns whether a key press in a text sends it. Enter also ends the input of a character in some languages. */
export function sends(event) {
  const found = event.key === "Enter" && !event.shiftKey && !event.isComposing;
  if (found) event.preventDefault();
  return found;
}
