// The reader's theme, before anything is drawn. It is no module, because the browser runs modules after the page.

try {
  const stored = localStorage.getItem("theme");
  if (["light", "dark"].includes(stored)) document.documentElement.dataset.theme = stored;
} catch {
  // storage is off: the system's theme counts
}
