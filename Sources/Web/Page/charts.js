// Charts with axes. All charts of a screen have one time range. The pointer or the arrow keys show a value.

import { niceStep } from "./bars.js";
import { card, el, redraw, svg, write } from "./dom.js";
import { clock, count, day, minute, scale } from "./format.js";
import { icon } from "./icons.js";

const HEIGHT = 168;
const [TOP, BOTTOM] = [14, 22];

/// A card with a chart. `legend` is [tone, name] of each value.
function frame(title, note, legend, className) {
  const side = el("div", { class: "facts" });
  const drawing = svg("svg", { class: "chart", tabindex: 0, role: "img", height: HEIGHT });
  const tip = el("div", { class: "tip", hidden: true, role: "status" });
  const list = el("div", { class: "chart-table", hidden: true, tabindex: 0, role: "region", "aria-label": `${title} as a table` });
  const toggle = el("button", { type: "button", class: "plain", "aria-label": `Show ${title} as a table`, title: "Show as a table", "aria-pressed": "false" }, icon("table"));
  const plot = el("div", { class: "plot" }, drawing, tip);
  const keys = el("ul", { class: "legend" }, legend.map(([tone, name]) => el("li", {}, el("span", { class: `swatch ${tone}` }), name)));
  const box = card(title, { note, side: [keys, side, toggle], className: `chart-card ${className}` }, plot, list);
  toggle.addEventListener("click", () => {
    plot.hidden = !plot.hidden;
    list.hidden = !plot.hidden;
    toggle.setAttribute("aria-pressed", String(plot.hidden));
  });
  return { box, side, drawing, tip, list };
}

/// Shows the value under the pointer, or the one that the arrow keys have reached.
function explain({ drawing, tip }, data, placeOf, textOf, markOf) {
  const guide = svg("g", { class: "guide" });
  let index = null;
  const show = (next) => {
    const { values, left, right } = data();
    if (next === null || !values.length) { index = null; tip.hidden = true; guide.replaceChildren(); return; }
    index = Math.max(0, Math.min(values.length - 1, next));
    const x = placeOf(index);
    guide.replaceChildren(svg("line", { x1: x, x2: x, y1: TOP - 6, y2: HEIGHT - BOTTOM }), ...markOf(index));
    if (!guide.isConnected) drawing.append(guide);
    tip.hidden = false;
    write(tip, textOf(index));
    const width = tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(x > (left + right) / 2 ? x - width - 10 : x + 10, drawing.clientWidth - width))}px`;
  };
  drawing.addEventListener("pointermove", (event) => {
    const { values, left, right } = data();
    const x = event.clientX - drawing.getBoundingClientRect().left;
    show(Math.round((values.length - 1) * (x - left) / Math.max(1, right - left)));
  });
  drawing.addEventListener("pointerleave", () => show(null));
  drawing.addEventListener("blur", () => show(null));
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    show(index === null ? data().values.length - 1 : index + step);
  });
  return guide;
}

/// A time of an axis. Within a few minutes the ticks would all have the same minute.
const timeText = (at, span) => (span > 24 * 3_600_000 ? day(at) : span > 5 * 60_000 ? minute(at) : clock(at));

function axes(width, left, top, most, unit, from, to, steps) {
  const parts = [];
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top;
  for (let value = 0; value <= top * 1.0001; value += steps) {
    parts.push(svg("line", { x1: left, x2: width, y1: y(value), y2: y(value), class: value === 0 ? "base" : "grid" }),
      svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, `${Number((value / most).toPrecision(6)).toLocaleString()}${value + steps > top * 1.0001 && unit ? ` ${unit}` : ""}`));
  }
  const many = width > 420 ? 4 : 2;
  for (let index = 0; index <= many; index += 1) {
    const x = left + (width - left) * index / many;
    parts.push(svg("text", { x, y: HEIGHT - 4, "text-anchor": index === 0 ? "start" : index === many ? "end" : "middle" }, timeText(from + (to - from) * index / many, to - from)));
  }
  return { parts, y };
}

/// A line over time. `format` names a value, `limit` is the height of a dashed line with its name.
export function lineChart(title, { note, className = "" } = {}) {
  const parts = frame(title, note, [], className);
  const { drawing, list } = parts;
  let state = { values: [], left: 0, right: 0 };
  let current = null;
  const guide = explain(parts, () => state, (index) => state.x(index), (index) => current.textOf(index),
    (index) => [svg("circle", { cx: state.x(index), cy: state.y(current.values[index]), r: 4 })]);
  const paint = () => {
    if (!current) return;
    const { values, from, to, unit, limit } = current;
    const width = drawing.clientWidth;
    if (!width) return;
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const highest = Math.max(1, limit?.value ?? 0, ...values);
    const step = niceStep(highest, width > 300 ? 4 : 2);
    const top = Math.ceil(highest / step - 0.0001) * step;
    const [size, name] = unit ? scale(top) : [1, ""];
    const left = 62;
    const { parts: drawn, y } = axes(width, left, top, size, unit ? `${name}${unit}` : "", from, to, step);
    const x = (index) => left + (width - left) * index / Math.max(1, values.length - 1);
    const path = values.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    if (values.length > 1) {
      drawn.push(svg("path", { class: "area", d: `${path}L${x(values.length - 1)} ${y(0)}L${x(0)} ${y(0)}Z` }), svg("path", { class: "stroke", d: path }));
    }
    if (limit) {
      drawn.push(svg("line", { class: "limit", x1: left, x2: width, y1: y(limit.value), y2: y(limit.value) }),
        svg("text", { x: width, y: Math.max(10, y(limit.value) - 5), "text-anchor": "end" }, limit.name));
    }
    state = { values, left, right: width, x, y };
    drawing.replaceChildren(...drawn, guide);
  };
  new ResizeObserver(paint).observe(drawing);
  return {
    box: parts.box, side: parts.side,
    /// `values` from `from` to `to` (unix ms); `unit` is "/s" for bytes, and "" for counts.
    draw(next, summary) {
      const isNew = JSON.stringify([next.values, next.limit]) !== JSON.stringify([current?.values, current?.limit]);
      current = next;
      drawing.setAttribute("aria-label", `${title}: ${summary}`);
      if (!isNew) return;
      paint();
      redraw(list, next.values, () => tableOf(["Time", title], next.values.map((_, index) => next.cells(index))));
    },
  };
}

/// Stacked columns over time. `kinds` are [name, tone, title].
export function columnChart(title, kinds, { note, className = "" } = {}) {
  const parts = frame(title, note, kinds.map(([, tone, name]) => [tone, name]), className);
  const { drawing, list } = parts;
  let state = { values: [], left: 0, right: 0 };
  let current = null;
  const guide = explain(parts, () => state, (index) => state.x(index), (index) => current.textOf(index), () => []);
  const hatch = svg("defs", {}, kinds.map(([, tone]) => svg("pattern", { id: `hatch-${tone}`, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 2.5, height: 5, class: tone }))));
  const paint = () => {
    if (!current) return;
    const { columns, from, to } = current;
    const width = drawing.clientWidth;
    if (!width || !columns.length) return;
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const highest = Math.max(4, ...columns.map((column) => kinds.reduce((sum, [name]) => sum + column[name], 0)));
    const step = Math.max(1, niceStep(highest, width > 300 ? 4 : 2));
    const top = Math.ceil(highest / step - 0.0001) * step;
    const left = 36;
    const { parts: drawn, y } = axes(width, left, top, 1, "", from, to, step);
    const slot = (width - left) / columns.length;
    columns.forEach((column, index) => {
      let sum = 0;
      for (const [name, tone] of kinds) {
        if (!column[name]) continue;
        const [low, high] = [y(sum), y(sum + column[name])];
        sum += column[name];
        const isOpen = index === columns.length - 1;
        drawn.push(svg("rect", { x: left + slot * index + 0.5, y: high, width: Math.max(1, slot - 1), height: Math.max(1, low - high - 0.5), ...(isOpen ? { fill: `url(#hatch-${tone})` } : { class: tone }) }));
      }
    });
    state = { values: columns, left: left + slot / 2, right: width - slot / 2, x: (index) => left + slot * (index + 0.5) };
    drawing.replaceChildren(hatch, ...drawn, guide);
  };
  new ResizeObserver(paint).observe(drawing);
  return {
    box: parts.box, side: parts.side,
    draw(next, summary) {
      const isNew = JSON.stringify(next.columns) !== JSON.stringify(current?.columns);
      current = next;
      drawing.setAttribute("aria-label", `${title}: ${summary}`);
      if (!isNew) return;
      paint();
      redraw(list, next.columns, () => tableOf(["Time", ...kinds.map(([, , name]) => name)], next.columns.map((column, index) => [next.timeOf(index), ...kinds.map(([name]) => count(column[name]))])));
    },
  };
}

function tableOf(heads, lines) {
  return el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, index) => el("th", { scope: "col", class: index ? "number" : "" }, head)))),
    el("tbody", {}, lines.slice().reverse().map(([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), rest.map((text) => el("td", { class: "number" }, text))))));
}

/// A small line without axes. `most` is the scale of its column.
export function sparkline(tone) {
  const path = svg("path", { class: "stroke" });
  const area = svg("path", { class: "area" });
  const title = svg("title");
  const drawing = svg("svg", { class: `spark ${tone}`, viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img" }, title, area, path);
  return {
    drawing,
    draw(values, most, label) {
      redraw(title, label, () => [label]);
      drawing.setAttribute("aria-label", label);
      const x = (index) => 100 * index / Math.max(1, values.length - 1);
      const y = (value) => 18.5 - 17 * value / Math.max(1, most);
      const line = values.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
      path.setAttribute("d", line);
      area.setAttribute("d", line ? `${line}L100 19L0 19Z` : "");
    },
  };
}

