// Elements that were not valid jobs.

import { inQueue, withQuery } from "./api.js";
import { el, redraw } from "./dom.js";
import { ago, count, plural, serverNow } from "./format.js";

/// So many of them are listed, the newest.
const LIMIT = 100;

export function rejected({ queue, live, body, title, header, isOperator, ready, subject }) {
  title("Rejected");
  const sentence = el("p", { class: "lead" }, "Reading …");
  header(sentence, []);
  const lines = el("tbody");
  const empty = el("div", { class: "empty" }, el("p", {}, "Every element was a valid job."), el("p", { class: "dim" }, "What is pushed and is not one appears here for a day."));
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rejected elements" }, el("table", { class: "wide-rows stacked" }, el("caption", { class: "hidden" }, "Rejected elements"),
    el("thead", {}, el("tr", {}, ["Reason", "Element", "Age"].map((text, index) => el("th", { scope: "col", class: index === 2 ? "number" : "" }, text)))), lines));
  empty.hidden = box.hidden = true;
  body.append(el("div", { class: "card" }, box, empty));
  let kept = 0;
  let all = null;
  function drawSentence() {
    if (!all) return;
    // A list that is not full has all of them.
    const number = all.length < LIMIT ? all.length : Math.max(kept, LIMIT);
    redraw(sentence, [number, all.length], () => (number === 0 ? "Nothing was rejected." : `${plural(number, "element")} ${number === 1 ? "was" : "were"} no valid ${number === 1 ? "job" : "jobs"}. They hold up nothing behind them.${number > all.length ? ` The newest ${count(all.length)} are shown.` : ""}`));
  }
  live.watch([[inQueue(queue), (data) => { if (data) { kept = data.rejected; drawSentence(); } }], subject(withQuery(inQueue(queue, "rejected"), { limit: LIMIT }), (data) => {
    ready();
    all = data.rejected;
    drawSentence();
    box.hidden = all.length === 0;
    empty.hidden = all.length > 0;
    const now = serverNow();
    redraw(lines, [all, Math.floor(now / 60_000)], () => all.map((entry) => el("tr", {}, el("th", { scope: "row", class: "any" }, entry.reason ?? ""),
      el("td", { class: "wide any" }, isOperator ? el("code", {}, entry.element ?? "") : el("span", { class: "dim" }, "only operators see it")), el("td", { class: "number" }, ago(entry.at, now)))));
  })]);
}
