// Keys without a modifier. They do nothing in fields, and can be switched off (WCAG 2.1.4).

import { open } from "./dialogs.js";
import { el } from "./dom.js";
import { key } from "./icons.js";

const all = [
  ["/", "search"], ["?", "all keys"], ["j k", "next, previous row"], ["enter o", "open a row or a group"], ["x", "select"], ["X", "select a range"],
  ["esc", "clear, close, back"], ["s", "pause or resume"], ["r", "retry"], ["c", "cancel; it asks"], ["p", "push"], ["y", "copy the URL"],
  ["[ ]", "previous, next job of the list"], ["1 to 7", "state"], ["g o", "overview"], ["g j", "jobs"], ["g b", "batches"], ["g c", "schedules"], ["g w", "workers"], ["g r", "rejected"], ["g s", "settings"],
];
const STORE = "haul keys are off";

export class Keys {
  #page = {};
  #pending = "";
  isOff = localStorage.getItem(STORE) === "1";

  constructor() {
    addEventListener("keydown", (event) => {
      if (this.isOff || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      const target = event.target;
      if (target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName) || (target.tagName === "INPUT" && target.type !== "checkbox")) {
        if (event.key === "Escape" && target.tagName === "INPUT") target.blur();
        return;
      }
      const name = this.#pending ? `${this.#pending} ${event.key}` : event.key;
      this.#pending = "";
      if (event.key === "g" && !name.includes(" ")) { this.#pending = "g"; setTimeout(() => { this.#pending = ""; }, 1500); return; }
      // Enter and the space bar press what has the focus.
      if (["Enter", " "].includes(event.key) && target.closest("a, button, summary, input")) return;
      const body = this.#page[name];
      if (!body) return;
      event.preventDefault();
      body(event);
    });
  }

  /// Replaces all keys by those of a page, which adds more of them by the result. What it adds once another page is shown
  /// has no effect, so that no answer that comes late gives its keys to a job that is no longer shown.
  page(keys) {
    const own = { ...keys };
    this.#page = own;
    return { add: (more) => { Object.assign(own, more); } };
  }

  set(isOff) {
    this.isOff = isOff;
    if (isOff) localStorage.setItem(STORE, "1"); else localStorage.removeItem(STORE);
  }
}

export function help(keys) {
  open("Keys", (close) => {
    const box = el("input", { type: "checkbox", onchange: () => keys.set(!box.checked) });
    box.checked = !keys.isOff;
    return [
      el("div", { class: "dialog-body" }, el("h2", {}, "Keys"),
        el("dl", { class: "keys" }, all.flatMap(([names, text]) => [el("dt", {}, names.split(" ").map((name) => (name === "to" ? " to " : key(name)))), el("dd", {}, text)])),
        el("label", { class: "check" }, box, " Single keys do something")),
      el("div", { class: "dialog-foot" }, el("span", { class: "grow" }), el("button", { type: "button", autofocus: true, onclick: () => close() }, "Close", key("esc"))),
    ];
  });
}
