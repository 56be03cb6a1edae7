// What the script adds to HTML of the server's: buttons that copy code.

export function decorate(root) {
  for (const pre of root.querySelectorAll("pre:not(.plain)")) {
    if (pre.parentElement.classList.contains("code")) continue;
    const frame = document.createElement("div");
    frame.className = "code";
    pre.replaceWith(frame);
    const bar = document.createElement("div");
    bar.className = "code-bar";
    const language = document.createElement("span");
    language.textContent = pre.dataset.language ?? "";
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "bare";
    copy.dataset.action = "copy-code";
    copy.textContent = "Copy";
    bar.append(language, copy);
    frame.append(bar, pre);
  }
}
