// Turns far from the viewport are reduced to their text, and drawn again when they come near: the page of a long
// conversation stays small. Their text stays for search in the page and for screen readers, and their height for scrolling.

const MARGIN = "3000px 0px";

export class DistantTurns {
  /** Watches the turns of a list. `load` returns a page of turns as the server has it, the last one before a turn. */
  constructor(list, scroll, load, failed) {
    this.list = list;
    this.load = load;
    this.failed = failed;
    this.wanted = new Set(); // reduced turns that have come near
    this.loading = false;
    this.sight = new IntersectionObserver((seen) => this.seen(seen), { root: scroll, rootMargin: MARGIN });
  }

  /** Watches turns that are new, too. */
  watch() {
    for (const turn of this.list.querySelectorAll("[data-turn]")) this.sight.observe(turn);
  }

  seen(entries) {
    for (const { target: turn, isIntersecting: near, boundingClientRect } of entries) {
      const reduced = "distant" in turn.dataset;
      if (near && reduced) this.wanted.add(turn);
      if (!near) this.wanted.delete(turn);
      if (!near && !reduced && canReduce(turn)) reduce(turn, boundingClientRect.height);
    }
    this.draw();
  }

  /** Draws the turns that have come near, a page at a time, as long as there are any. */
  async draw() {
    if (this.loading) return;
    this.loading = true;
    try {
      while (this.wanted.size) {
        const turn = [...this.wanted].at(-1);
        const made = await this.load(turn.nextElementSibling);
        for (const each of made.querySelectorAll("[data-turn]")) {
          const shown = document.getElementById(each.id);
          if (this.wanted.delete(shown) && shown.isConnected) restore(shown, each);
        }
        this.wanted.delete(turn); // also if it is no longer there
      }
    } catch (error) {
      this.wanted.clear(); // they are tried again when they have left and come back
      this.failed(error);
    } finally {
      this.loading = false;
    }
  }
}

/** Returns whether nobody is at work in a turn that has ended. */
function canReduce(turn) {
  const selection = getSelection();
  return (
    turn.isConnected &&
    turn.querySelector('[data-action="copy-answer"]') &&
    !turn.contains(document.activeElement) &&
    !turn.querySelector(".edit-form") &&
    (selection.isCollapsed || !selection.containsNode(turn, true))
  );
}

function reduce(turn, height) {
  const shown = [...turn.querySelectorAll(".message, .prose")].filter((each) => !each.closest("details"));
  const text = document.createElement("div");
  text.className = "distant";
  text.textContent = shown.map((each) => each.textContent.trim()).join("\n\n");
  turn.style.height = `${height}px`;
  turn.dataset.distant = "";
  turn.replaceChildren(text);
}

function restore(turn, made) {
  delete turn.dataset.distant;
  turn.style.height = "";
  turn.dataset.version = made.dataset.version;
  turn.replaceChildren(...made.childNodes);
}
