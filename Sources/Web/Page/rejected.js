// Elements that were not valid jobs.

import { inQueue } from "./api.js";
import { el, redraw } from "./dom.js";
import { ago, plural, serverNow } from "./format.js";

export function rejected({ queue, live, body, title, header, isOperator, ready, subject }) {
  title("Rejected");
  const sentence = el("p", { class: "lead" }, "Reading …");
  header(sentence, []);
  const lines = el("tbody");
  const empty = el("div", { class: "empty" }, el("p", {}, "Every element was a valid job."), el("p", { class: "dim" }, "What is pushed and is not one appears here for a day."));
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rejected elements" }, el("table", { class: "wide-rows" }, el("caption", { class: "hidden" }, "Rejected elements"),
    el("thead", {}, el("tr", {}, ["Reason", "Element", "Age"].map((text, index) => el("th", { scope: "col", class: index === 2 ? "number" : "" }, text)))), lines));
  empty.hidden = box.hidden = true;
  body.append(el("div", { class: "card" }, box, empty));
  live.watch([subject(inQueue(queue, "rejected"), (data) => {
    ready();
    const all = data.rejected;
    box.hidden = all.length === 0;
    empty.hidden = all.length > 0;
    redraw(sentence, all.length, () => (all.length === 0 ? "Nothing was rejected." : `${plural(all.length, "element")} ${all.length === 1 ? "was" : "were"} no valid ${all.length === 1 ? "job" : "jobs"}. They hold up nothing behind them.`));
    const now = serverNow();
    redraw(lines, [all, Math.floor(now / 60_000)], () => all.map((entry) => el("tr", {}, el("th", { scope: "row", class: "any" }, entry.reason ?? ""),
      el("td", { class: "any" }, isOperator ? el("code", {}, entry.element ?? "") : el("span", { class: "dim" }, "only operators see it")), el("td", { class: "number" }, ago(entry.at, now)))));
  })]);
}
