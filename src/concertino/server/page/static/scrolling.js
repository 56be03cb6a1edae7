// Which part of the chat is in view: the newest text, unless the reader looks at something else.

const UP = ["ArrowUp", "PageUp", "Home"];
const DOWN = ["ArrowDown", "PageDown", "End", " "];

export class Scrolling {
  constructor(scroll, turns) {
    this.scroll = scroll;
    this.turns = turns;
    this.following = true; // whether the newest text stays in view
    this.pinned = true; // also when the question leaves it
    this.placed = { top: 0, left: 0 }; // where the text was scrolled to, and how much was left below
    const passive = { passive: true };
    scroll.addEventListener("scroll", () => this.scrolled(), passive);
    scroll.addEventListener("wheel", (event) => this.moves(event.deltaY < 0), passive);
    scroll.addEventListener("touchmove", () => this.letGo(), passive);
    scroll.addEventListener("pointerdown", (event) => event.target === scroll && this.letGo());
    scroll.addEventListener("keydown", ({ key }) => {
      if (UP.includes(key) || DOWN.includes(key)) this.moves(UP.includes(key));
    });
    // What the reader opens or goes to stays in view; what they send is followed by its answer.
    turns.addEventListener("click", (event) => event.target.closest('summary, a[href^="#"]') && this.letGo());
    turns.addEventListener("focusin", (event) => event.target.matches(":focus-visible:not(article)") && this.letGo());
    turns.addEventListener("submit", () => (this.following = true));
    new ResizeObserver(() => this.toEnd()).observe(turns.parentElement);
  }

  /** Shows the end, and follows it. */
  follow() {
    this.following = this.pinned = true;
    this.toEnd();
  }

  /** Follows an answer that begins, until its question is at the top: from there, the reader reads at their own pace. */
  begin() {
    this.following = true;
    this.pinned = false;
  }

  /** Shows the newest text, if the reader follows it. */
  toEnd() {
    if (this.following) {
      const question = this.turns.lastElementChild;
      const top = this.pinned || !question ? Infinity : question.offsetTop - this.scroll.offsetTop - 12;
      this.scroll.scrollTop = Math.min(this.end(), top);
      this.placed = { top: this.scroll.scrollTop, left: this.left() };
    }
    this.offerEnd();
  }

  end() {
    return this.scroll.scrollHeight - this.scroll.clientHeight;
  }

  left() {
    return this.end() - this.scroll.scrollTop;
  }

  moves(up) {
    if (up || this.left() >= 4) this.letGo();
  }

  letGo() {
    this.following = false;
  }

  /** Follows the text again as soon as the reader has scrolled to its end. */
  scrolled() {
    if (this.following && this.jumped()) this.letGo();
    if (!this.following && this.left() < 4) this.following = this.pinned = true;
    this.offerEnd();
  }

  /** Returns whether something else has scrolled, such as a search in the page. Growth changes one of the two only. */
  jumped() {
    const { top, left } = this.placed;
    return Math.min(Math.abs(this.scroll.scrollTop - top), Math.abs(this.left() - left)) > 100;
  }

  offerEnd() {
    document.querySelector(".to-end").hidden = this.left() < 60;
  }
}
