// Bars: progress by ranges, the interval bar of a job, and slots that are busy.

import { el, redraw, svg } from "./dom.js";
import { bytes, plural, scale } from "./format.js";

const WIDTH = 1000;
const rect = (from, to, tone) => svg("rect", { x: from, y: 0, width: Math.max(3, to - from), height: 10, class: tone });

/// A bar of 6 px. `ranges` are [from, to] of `total`.
export function progressBar() {
  const bar = svg("svg", { class: "bar", viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
  return {
    bar,
    draw(ranges, total, tone) {
      redraw(bar, [ranges, total, tone], () => ranges.map(([from, to]) => rect(WIDTH * from / total, WIDTH * Math.min(to, total) / total, tone)));
    },
  };
}

/// A bar with parts of several tones, [amount, tone].
export function partsBar() {
  const bar = svg("svg", { class: "bar parts", viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
  return {
    bar,
    draw(parts) {
      const all = Math.max(1, parts.reduce((sum, [amount]) => sum + amount, 0));
      redraw(bar, parts, () => {
        let position = 0;
        return parts.filter(([amount]) => amount > 0).map(([amount, tone]) => {
          const from = position;
          position += WIDTH * amount / all;
          return svg("rect", { x: from, y: 0, width: Math.max(2, position - from - (position < WIDTH - 1 ? 3 : 0)), height: 10, class: tone });
        });
      });
    },
  };
}

/// The intervals of a job's file that are on disk, merged to what a screen can show.
function merged(ranges, total) {
  if (ranges.length <= 400) return ranges;
  const step = total / 1600;
  const result = [];
  for (const [from, to] of ranges) {
    const last = result[result.length - 1];
    if (last && from - last[1] < step) last[1] = to;
    else result.push([from, to]);
  }
  return result;
}

/// The bar of one job: full is on disk, a line is a connection, with its speed above. Edges that grow are connections.
export function intervalBar() {
  const axis = el("div", { class: "ticks", "aria-hidden": "true" });
  const speeds = el("div", { class: "speeds", "aria-hidden": "true" });
  const pattern = svg("pattern", { id: "way", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(30)" },
    svg("rect", { width: 8, height: 8, class: "way-back" }), svg("rect", { width: 4, height: 8, class: "way" }));
  const parts = svg("g");
  const drawing = svg("svg", { class: "interval", role: "img" }, svg("defs", {}, pattern), parts);
  const box = el("div", { class: "interval-box" }, speeds, drawing, axis);
  let before = null;
  /// For each edge its speed, smoothed.
  let edges = new Map();
  let newest = null;
  let paint = null;
  new ResizeObserver(() => paint?.()).observe(drawing);
  return {
    box,
    draw(job, ranges, connections) {
      const total = job.total ?? Math.max(1, ...ranges.map(([, to]) => to));
      const now = performance.now();
      const key = JSON.stringify([ranges, job.state]);
      if (job.state !== "running") { edges = new Map(); before = null; } else if (!before || key !== newest) {
        if (before) {
          const grown = new Map();
          for (const [from, to] of ranges) {
            const old = before.ranges.find(([first, last]) => first === from || (first <= from && last >= from));
            const gain = old ? to - old[1] : to - from;
            const seconds = (now - before.at) / 1000;
            if (gain > 0 && seconds > 0.2) grown.set(from, { at: to, rate: gain / seconds });
          }
          if (grown.size) edges = grown;
        }
        before = { ranges, at: now };
      }
      newest = key;
      paint = () => {
        const width = Math.max(1, drawing.clientWidth);
        const x = (position) => width * Math.min(1, position / total);
        const tone = job.state === "failed" || job.state === "cancelled" ? "grey" : job.state === "paused" ? "amber" : job.waiting ? "amber" : "blue";
        const pieces = merged(ranges, total).map(([from, to]) => svg("rect", { x: x(from), y: 0, width: Math.max(1, x(to) - x(from)), height: 28, class: tone }));
        const marks = [];
        const labels = [];
        let lastLabel = -60;
        for (const { at, rate } of [...edges.values()].sort((one, other) => one.at - other.at)) {
          const position = x(at);
          const way = Math.min(12, Math.max(4, x(rate * 1.5)));
          if (position < width - 2) marks.push(svg("rect", { x: position, y: 0, width: Math.min(way, width - position), height: 28, fill: "url(#way)" }),
            svg("rect", { x: Math.min(position + way, width - 2), y: 0, width: 2, height: 28, class: "mark" }));
          const middle = Math.min(Math.max(position + way, 28), width - 28);
          if (middle - lastLabel < 58) continue;
          lastLabel = middle;
          labels.push(el("span", { style: { left: `${middle}px` } }, `${bytes(rate)}/s`));
        }
        parts.replaceChildren(...pieces, ...marks);
        speeds.replaceChildren(...labels);
        redraw(axis, [total, Math.round(width / 40)], () => ticksOf(total, width).map(([position, text], index, all) =>
          el("span", { class: index === 0 ? "first" : index === all.length - 1 ? "last" : "", style: { left: `${100 * position / total}%` } }, text)));
      };
      paint();
      const sum = ranges.reduce((many, [from, to]) => many + to - from, 0);
      drawing.setAttribute("aria-label", `${bytes(sum)}${job.total ? ` of ${bytes(job.total)}` : ""} on disk in ${plural(ranges.length, "range")}${connections ? `, ${plural(connections, "connection")}` : ""}`);
    },
  };
}

/// Round places of a linear axis, with the unit at each; the end is always there.
function ticksOf(total, width) {
  const [size, unit] = scale(total);
  const step = niceStep(total, Math.min(6, Math.max(2, Math.floor(width / 150))));
  const ticks = [[0, "0"]];
  for (let position = step; position < total - step * 0.35; position += step) ticks.push([position, `${Number((position / size).toPrecision(6)).toLocaleString()} ${unit}`]);
  ticks.push([total, bytes(total)]);
  return ticks;
}

/// The round distance of at most `most` ticks up to `top`.
export function niceStep(top, most) {
  const rough = top / most;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  const factor = [1, 2, 2.5, 5, 10].find((many) => many * power >= rough) ?? 10;
  return factor * power;
}
