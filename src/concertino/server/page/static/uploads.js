// Files of a message that is being written: chosen, dropped or pasted, and uploaded at once.

import { api, complain } from "./http.js";

export class Uploads {
  constructor(composer, text) {
    this.list = document.getElementById("files");
    this.found = new Map(); // by list item: a promise of the upload
    const input = document.getElementById("file-input");
    input.addEventListener("change", () => {
      this.add(input.files);
      input.value = "";
    });
    text.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length) {
        event.preventDefault();
        this.add(event.clipboardData.files);
      }
    });
    composer.addEventListener("dragover", (event) => {
      event.preventDefault();
      composer.classList.add("dropping");
    });
    composer.addEventListener("dragleave", () => composer.classList.remove("dropping"));
    composer.addEventListener("drop", (event) => {
      event.preventDefault();
      composer.classList.remove("dropping");
      this.add(event.dataTransfer.files);
    });
  }

  add(files) {
    for (const file of files) {
      const item = document.createElement("li");
      item.className = "uploading";
      if (file.type.startsWith("image/") && file.type !== "image/svg+xml") {
        const image = document.createElement("img");
        image.src = URL.createObjectURL(file);
        image.alt = "";
        item.append(image);
      }
      const name = document.createElement("span");
      name.textContent = file.name;
      const remove = document.createElement("button");
      remove.type = "button";
      remove.className = "bare";
      remove.textContent = "×";
      remove.setAttribute("aria-label", `Remove ${file.name}`);
      remove.addEventListener("click", () => this.remove(item));
      item.append(name, remove);
      const options = { raw: true, headers: { "Content-Type": file.type || "text/plain" } };
      const upload = api("POST", `/api/files?name=${encodeURIComponent(file.name.slice(-200))}`, file, options);
      this.show(item, upload);
      upload.then(
        () => item.classList.remove("uploading"),
        (error) => {
          complain(error);
          this.remove(item);
        },
      );
    }
  }

  show(item, upload) {
    this.found.set(item, upload);
    this.list.append(item);
    this.list.hidden = false;
  }

  remove(item) {
    this.found.delete(item);
    item.remove();
    this.list.hidden = !this.found.size;
  }

  /** Takes the files of a message out of the field. Returns the promises of their uploads by list item. */
  take() {
    const taken = new Map(this.found);
    for (const item of taken.keys()) this.remove(item);
    return taken;
  }

  /** Puts back the files of a message that was not sent, apart from those whose uploads failed. */
  restore(taken) {
    for (const [item, upload] of taken) upload.then(() => this.show(item, upload), () => {});
  }
}
