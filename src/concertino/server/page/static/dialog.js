// Questions that the reader answers before something happens.

/** Asks for a text, or for consent if no value is given. Returns the text, true, or null if the reader cancels. */
export function ask({ title, value, confirm, danger = false }) {
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  dialog.setAttribute("aria-label", title);
  const form = document.createElement("form");
  form.method = "dialog";
  const heading = Object.assign(document.createElement("h2"), { textContent: title });
  const row = Object.assign(document.createElement("div"), { className: "edit-row" });
  const cancel = Object.assign(document.createElement("button"), { type: "button", textContent: "Cancel" });
  const ok = Object.assign(document.createElement("button"), { value: "ok", textContent: confirm });
  ok.className = danger ? "danger" : "primary";
  row.append(cancel, ok);
  form.append(heading);
  let field = null;
  if (value !== undefined) {
    field = Object.assign(document.createElement("input"), { value, maxLength: 200, required: true });
    field.setAttribute("aria-label", title);
    form.append(field);
  }
  form.append(row);
  dialog.append(form);
  document.body.append(dialog);
  cancel.addEventListener("click", () => dialog.close());
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "ok" ? (field?.value.trim() ?? true) : null);
    });
  });
}
