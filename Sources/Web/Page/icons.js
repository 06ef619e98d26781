// Icons are drawn on a grid of 16. Each state has a shape of its own, so that no state is told by colour alone.

import { el, svg } from "./dom.js";

const line = (d) => svg("path", { d, fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-linecap": "round", "stroke-linejoin": "round" });
const full = (d) => svg("path", { d, fill: "currentColor" });
/// What is cut out of a filled shape.
const cut = (d) => svg("path", { d, fill: "none", class: "cut", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round" });
const circle = "M8 1a7 7 0 1 1 0 14a7 7 0 0 1 0-14z";

const shapes = {
  running: () => [full(circle), cut("M8 4.5v6.6M5.2 8.4L8 11.2l2.8-2.8")],
  sending: () => [full(circle), cut("M8 11.5V4.9M5.2 7.6L8 4.8l2.8 2.8")],
  waits: () => [line("M4 1.8h8M4 14.2h8M4.8 1.8c0 4 6.4 4.4 6.4 12.4M11.2 1.8c0 4-6.4 4.4-6.4 12.4")],
  queued: () => [svg("circle", { cx: 8, cy: 8, r: 6, fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": "2.6 2.1" })],
  scheduled: () => [line("M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12zM8 4.8V8l2 1.6")],
  paused: () => [full("M3.5 2.5h3v11h-3zM9.5 2.5h3v11h-3z")],
  completed: () => [full(circle), cut("M4.9 8.2l2.2 2.2 4-4.4")],
  failed: () => [full("M5 1h6l4 4v6l-4 4H5l-4-4V5z"), cut("M5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6")],
  cancelled: () => [line("M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12zM3.8 12.2l8.4-8.4")],
  rejected: () => [line("M2 9l2-6h8l2 6v4H2zM2 9h3.5l1 1.8h3l1-1.8H14")],
  attention: () => [full("M8 1.2l7.2 13H.8z"), cut("M8 6v3.6M8 11.8v.1")],
  globe: () => [line("M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12zM2 8h12M8 2c-4.4 4-4.4 8 0 12M8 2c4.4 4 4.4 8 0 12")],
  overview: () => [line("M2.5 9.5v4M6.2 6.5v7M9.8 8.5v5M13.5 3v10.5")],
  jobs: () => [line("M2.5 4h11M2.5 8h11M2.5 12h7")],
  batches: () => [line("M8 2l6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3")],
  schedules: () => [line("M2.5 3.5h11v10h-11zM2.5 6.5h11M5.5 2v3M10.5 2v3M8 8.5v2l1.4.8")],
  workers: () => [line("M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.1M5 11h.1")],
  settings: () => [line("M2 5h6M12 5h2M2 11h2M8 11h6M10 3.2a1.8 1.8 0 1 1 0 3.6a1.8 1.8 0 0 1 0-3.6zM6 9.2a1.8 1.8 0 1 1 0 3.6a1.8 1.8 0 0 1 0-3.6z")],
  plus: () => [line("M8 2.5v11M2.5 8h11")],
  pause: () => [full("M4 2.5h2.8v11H4zM9.2 2.5H12v11H9.2z")],
  play: () => [full("M4.5 2.5l8.5 5.5-8.5 5.5z")],
  retry: () => [line("M13 5.5A5.6 5.6 0 1 0 13.6 9M13.4 2.4v3.4H10")],
  cancel: () => [line("M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12zM3.8 12.2l8.4-8.4")],
  trash: () => [line("M3 4.5h10M6.5 4.5V2.8h3v1.7M4.4 4.5l.6 9h6l.6-9")],
  search: () => [line("M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9zM10.5 10.5L14 14")],
  bookmark: () => [line("M4 2.5h8v11l-4-3-4 3z")],
  copy: () => [line("M6 6h7.5v7.5H6zM10 6V2.5H2.5V10H6")],
  more: () => [full("M3 6.8a1.2 1.2 0 1 1 0 2.4a1.2 1.2 0 0 1 0-2.4zM8 6.8a1.2 1.2 0 1 1 0 2.4a1.2 1.2 0 0 1 0-2.4zM13 6.8a1.2 1.2 0 1 1 0 2.4a1.2 1.2 0 0 1 0-2.4z")],
  link: () => [line("M6.5 9.5l3-3M7 4.5l1.6-1.6a3.2 3.2 0 0 1 4.5 4.5L11.5 9M9 11.5l-1.6 1.6a3.2 3.2 0 0 1-4.5-4.5L4.5 7")],
  close: () => [line("M4 4l8 8M12 4l-8 8")],
  check: () => [line("M3 8.5l3.4 3.4L13 4.5")],
  down: () => [line("M4 6l4 4 4-4")],
  right: () => [line("M6 4l4 4-4 4")],
  back: () => [line("M10 4L6 8l4 4")],
  edit: () => [line("M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2z")],
  offline: () => [line("M2 2l12 12M2 6.4C3.6 5 5.2 4.2 7 4M9.8 4.2c1.6.3 3 1 4.2 2.2M4.4 9c.9-.8 1.8-1.2 2.8-1.4M8 12.4v.1")],
  table: () => [line("M2 3h12v10H2zM2 6.5h12M6.5 6.5V13")],
};

/// An icon. Without a label it is hidden from screen readers, because a text beside it says the same.
export function icon(name, tone = "", label = "") {
  return svg("svg", { class: `icon ${tone}`, viewBox: "0 0 16 16", ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) },
    (shapes[name] ?? shapes.queued)());
}

export const tones = {
  running: "blue", queued: "quiet", scheduled: "violet", paused: "amber", completed: "green", failed: "red", cancelled: "quiet", rejected: "amber",
};

/// The icon of a job's state, with its words.
export function stateIcon(job) {
  const waits = job.state === "running" && job.waiting;
  const name = waits ? "waits" : job.state === "running" && job.kind === "upload" ? "sending" : job.state;
  const label = waits ? "Running, waits" : job.state[0].toUpperCase() + job.state.slice(1);
  return icon(name, waits ? "amber" : tones[job.state], label);
}

/// The mark of Haul: ranges of a file.
export function logo() {
  const bar = (x, y, width, tone) => svg("rect", { x, y, width, height: 3.6, rx: 1.8, class: tone });
  return svg("svg", { class: "logo", viewBox: "0 0 20 20", "aria-hidden": "true" },
    bar(1, 3, 10, "full"), bar(13, 3, 6, "pale"), bar(1, 8.2, 6, "full"), bar(8.6, 8.2, 4.4, "full"), bar(14.6, 8.2, 4.4, "pale"), bar(1, 13.4, 14, "full"));
}

export const key = (name) => el("kbd", {}, name);
