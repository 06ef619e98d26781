// What floats above the page: messages with an undo, and dialogs.

import { el } from "./dom.js";
import { icon, key } from "./icons.js";

const floating = () => document.getElementById("floating");
let toast = null;

/// Says what was done, for eight seconds that stop under the pointer. `undo` is [name, body] of a button.
export function say(text, undo = null) {
  toast?.end();
  let rest = 8;
  const seconds = el("span", { class: "seconds", "aria-hidden": "true" }, `${rest} s`);
  const button = undo ? el("button", { type: "button", class: "plain", onclick: () => { end(); undo[1](); } }, undo[0]) : null;
  const box = el("div", { class: "toast", role: "status", id: "notice" }, icon("check"), el("span", {}, text), button, seconds);
  let isHeld = false;
  for (const [name, value] of [["pointerenter", true], ["pointerleave", false], ["focusin", true], ["focusout", false]]) {
    box.addEventListener(name, () => { isHeld = value; });
  }
  const timer = setInterval(() => {
    if (isHeld) return;
    rest -= 1;
    seconds.textContent = `${rest} s`;
    if (rest <= 0) end();
  }, 1000);
  function end() { clearInterval(timer); box.remove(); if (toast?.end === end) toast = null; }
  floating().append(box);
  toast = { end };
}

/// An error, which stays until it is closed.
export function complain(text) {
  toast?.end();
  const box = el("div", { class: "toast trouble", role: "alert", id: "notice" }, icon("attention"), el("span", {}, text),
    el("button", { type: "button", class: "plain", "aria-label": "Close", onclick: () => { end(); } }, icon("close")));
  function end() { box.remove(); if (toast?.end === end) toast = null; }
  floating().append(box);
  toast = { end };
}

/// The value with which a dialog closes when another page is shown.
export const LEFT = Symbol("left");

/// A dialog over the page. `content` gets a function that closes it. Escape closes it, too.
export function open(title, content, { className = "", onclose } = {}) {
  const close = (value) => { if (dialog.isConnected) { dialog.close(); dialog.remove(); onclose?.(value); } };
  const dialog = el("dialog", { "aria-label": title, class: className });
  dialog.append(...[content(close)].flat().filter(Boolean));
  // A dialog belongs to the page on which it was opened.
  addEventListener("hashchange", () => close(LEFT), { once: true });
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); close(null); });
  dialog.addEventListener("pointerdown", (event) => { if (event.target === dialog) close(null); });
  floating().append(dialog);
  dialog.showModal();
  return close;
}

/// Asks before an action that cannot be undone. `lost` lists what is lost, as rows of elements. `instead` is [name, value]
/// of a milder action. Resolves to true, to the value of the milder action, or to null. The focus is on the button that
/// changes nothing, so that Enter does no harm.
export function ask({ question, consequence, lost = [], keep = "Keep them", verb, instead = null }) {
  return new Promise((resolve) => {
    open(question, (close) => [
      el("div", { class: "dialog-body" }, el("h2", {}, question), el("p", {}, consequence),
        lost.length ? el("ul", { class: "lost" }, lost.map((row) => el("li", {}, row))) : null),
      el("div", { class: "dialog-foot" },
        instead ? el("button", { type: "button", onclick: () => close(instead[1]) }, icon("pause"), instead[0]) : null,
        el("span", { class: "grow" }),
        el("button", { type: "button", autofocus: true, onclick: () => close(null) }, keep, key("esc")),
        el("button", { type: "button", class: "danger full", onclick: () => close(true) }, verb)),
    ], { className: "ask", onclose: (value) => resolve(value === LEFT ? null : value) });
  });
}

/// A button that opens a menu with `items`, [icon, text, body, class].
export function menu(label, items) {
  const list = el("div", { class: "menu-list", role: "menu", hidden: true });
  const button = el("button", { type: "button", class: "square", "aria-label": label, "aria-haspopup": "menu", "aria-expanded": "false" }, icon("more"));
  const show = (isShown) => {
    list.hidden = !isShown;
    button.setAttribute("aria-expanded", String(isShown));
    if (isShown) list.querySelector("button")?.focus();
  };
  const box = el("div", { class: "menu" }, button, list);
  button.addEventListener("click", () => show(list.hidden));
  box.addEventListener("focusout", (event) => { if (!box.contains(event.relatedTarget)) show(false); });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !list.hidden) { event.stopPropagation(); show(false); button.focus(); }
    const all = [...list.children];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !list.hidden) { event.preventDefault(); all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus(); }
  });
  list.append(...items.filter(Boolean).map(([name, text, body, className]) =>
    el("button", { type: "button", role: "menuitem", class: className, onclick: () => { show(false); body(); } }, icon(name), text)));
  return box;
}

/// A button that copies a text. `read` returns it.
export function copier(label, read) {
  return el("button", { type: "button", class: "plain copy", "aria-label": label, title: label, onclick: async () => {
    try {
      await navigator.clipboard.writeText(read());
      say("Copied.");
    } catch { complain("The browser does not allow this page to copy. Select the text instead."); }
  } }, icon("copy"));
}
