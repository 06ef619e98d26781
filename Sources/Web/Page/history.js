// The history of a queue's jobs that Redis keeps: of the last hour, or of the last two days.

import { inQueue, withQuery } from "./api.js";
import { el, field, svg, write } from "./dom.js";
import { bytes, count, time } from "./format.js";

/// Name, minutes, and the minutes of each point.
const spans = [["the last hour, by the minute", 60, 1], ["the last two days, by the half hour", 2880, 30]];
const ends = [["completed", "whole"], ["failed", "dashed"], ["retrying", "dotted"], ["cancelled", "pale"]];

/// A chart with a line for each of `kinds`, [name, class], and with their sums below it.
function picture(name, kinds, format) {
  const lines = kinds.map(([, look]) => svg("path", { class: look }));
  const drawing = svg("svg", { class: "chart", viewBox: "0 0 600 100", preserveAspectRatio: "none", role: "img" }, lines);
  const sums = kinds.map(() => el("span"));
  const keys = kinds.map(([, look], index) => el("li", {},
    svg("svg", { class: "key", viewBox: "0 0 24 8", "aria-hidden": "true" }, svg("path", { class: look, d: "M0 4L24 4" })), sums[index]));
  const most = el("li");
  return {
    box: el("div", {}, el("h3", {}, name), drawing, el("ul", { class: "axis keys" }, keys, most)),
    draw(data, unit) {
      const top = Math.max(1, ...kinds.flatMap(([what]) => data[what]));
      kinds.forEach(([what], index) => {
        const values = data[what];
        lines[index].setAttribute("d", values.map((value, place) =>
          `${place ? "L" : "M"}${(600 * place / Math.max(1, values.length - 1)).toFixed(1)} ${(98 - 96 * value / top).toFixed(1)}`).join(""));
        write(sums[index], `${what} ${format(values.reduce((sum, value) => sum + value, 0))}`);
      });
      write(most, `most ${format(Math.max(...kinds.flatMap(([what]) => data[what])))} ${unit}`);
      drawing.setAttribute("aria-label", `${name}: ${[...sums, most].map((sum) => sum.textContent).join(", ")}`);
    },
  };
}

let chosen = 0;

/// `changed` is called when another span is chosen. `path()` is then what to watch.
export function history(queue, changed) {
  const choice = el("select", {}, spans.map(([name], index) => el("option", { value: index }, name)));
  choice.value = chosen;
  choice.addEventListener("change", () => { chosen = Number(choice.value); changed(); });
  const [jobs, traffic] = [picture("Jobs", ends, count), picture("Bytes", [["received", "whole"]], bytes)];
  const since = el("p", { class: "dim" });
  return {
    box: el("section", { class: "card full" }, el("h2", {}, "History"), field("Shows", choice),
      el("div", { class: "cards few" }, jobs.box, traffic.box), since),
    path: () => withQuery(inQueue(queue, "history"), { minutes: spans[chosen][1], step: spans[chosen][2] }),
    take(data) {
      if (!data) return;
      const unit = data.step === 60_000 ? "in a minute" : "in half an hour";
      jobs.draw(data, unit);
      traffic.draw(data, unit);
      since.replaceChildren("Since ", time(data.from));
    },
  };
}
