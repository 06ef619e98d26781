// A queue at a glance.

import { inQueue } from "./api.js";
import { el, link, rows, svg, write } from "./dom.js";
import { bytes, count, duration, speed, time } from "./format.js";
import { history } from "./history.js";

const states = ["queued", "scheduled", "running", "paused", "completed", "failed", "cancelled"];
/// Samples of each queue since the page was opened: one a second, for an hour.
const seen = new Map();
const MAX_SAMPLES = 3600;
/// The most points of a chart. A screen shows no more.
const POINTS = 300;

function chart(name) {
  const line = svg("path", {});
  const picture = svg("svg", { class: "chart", viewBox: "0 0 600 100", preserveAspectRatio: "none", role: "img" }, line);
  const [from, most] = [el("span"), el("span")];
  const box = el("section", { class: "card" }, el("h2", {}, name), picture, el("p", { class: "axis" }, from, most));
  return {
    box,
    draw(samples, key, format) {
      const values = samples.map((sample) => sample[key]);
      const top = Math.max(1, ...values);
      const [first, last] = [samples[0].at, samples[samples.length - 1].at];
      const span = Math.max(1, last - first);
      const width = Math.ceil(samples.length / POINTS);
      let points = "";
      // Several samples may share a point. The largest is drawn.
      for (let place = 0; place < samples.length; place += width) {
        const value = Math.max(...values.slice(place, place + width));
        points += `${place ? "L" : "M"}${(600 * (samples[place].at - first) / span).toFixed(1)} ${(98 - 96 * value / top).toFixed(1)}`;
      }
      line.setAttribute("d", points);
      write(from, `the last ${duration(span / 1000)}, as this page saw it`);
      write(most, `now ${format(values[values.length - 1])}, most ${format(Math.max(...values))}`);
      picture.setAttribute("aria-label", `${name}: ${most.textContent}`);
    },
  };
}

function ranking(name) {
  const body = el("tbody");
  const note = el("p", { class: "dim" });
  const box = el("section", { class: "card" }, el("h2", {}, name), el("table", {}, body), note);
  const fillRows = rows(body, () => {
    const [name, bar, number] = [el("a"), el("progress"), el("td", { class: "number" })];
    return {
      line: el("tr", {}, el("th", { scope: "row", class: "any" }, name), el("td", {}, bar), number),
      fill([what, many, top, place]) {
        write(name, what);
        name.setAttribute("href", place);
        bar.max = top;
        bar.value = many;
        bar.setAttribute("aria-label", `${what}: ${many}`);
        write(number, count(many));
      },
    };
  });
  return {
    box,
    fill(pairs, of, path) {
      const top = Math.max(1, ...pairs.map(([, many]) => many));
      fillRows(pairs.map(([what, many]) => [what, many, top, path(what)]), ([what]) => what);
      write(note, of === 0 ? "No job has failed." : `of the newest ${count(of)} that failed`);
    },
  };
}

export function overview({ queue, live, body, path, title }) {
  title(`Queue ${queue}`);
  const tiles = new Map([...states, "rejected"].map((state) => {
    const number = el("strong", {}, "–");
    const place = state === "rejected" ? path("rejected") : path("jobs", [state]);
    return [state, { number, item: el("li", {}, link(place, number, state)) }];
  }));
  const facts = Object.fromEntries(["state", "workers", "oldest", "speed"].map((name) => [name, el("dd", {}, name === "state" ? "Reading …" : "–")]));
  const past = history(queue, () => watch());
  const [traffic, waiting, running] = [chart("Bytes per second"), chart("Jobs waiting"), chart("Jobs running")];
  const [byError, byHost] = [ranking("Failures by reason"), ranking("Failures by host")];
  body.append(
    el("ul", { class: "counts" }, [...tiles.values()].map((tile) => tile.item)),
    el("div", { class: "cards" },
      el("section", { class: "card" }, el("h2", {}, "Now"), el("dl", {},
        el("dt", {}, "Queue"), facts.state, el("dt", {}, "Workers"), facts.workers,
        el("dt", {}, "Oldest wait"), facts.oldest, el("dt", {}, "Speed"), facts.speed)),
      traffic.box, waiting.box, past.box, running.box, byError.box, byHost.box));

  const samples = seen.get(queue) ?? seen.set(queue, []).get(queue);
  function take(data) {
    if (!data) return;
    for (const [state, tile] of tiles) write(tile.number, count(state === "rejected" ? data.rejected : data.counts[state]));
    const limit = data.max_running === undefined ? "" : `, at most ${count(data.max_running)} run at once`;
    write(facts.state, `${data.paused ? "paused: no job is started" : "open"}${limit}`);
    facts.state.className = data.paused ? "warn" : "good";
    const states = data.workers;
    const known = Object.entries(states).filter(([, number]) => number > 0);
    write(facts.workers, known.length === 0 ? "none serves this queue" : known.map(([state, number]) => `${number} ${state}`).join(", "));
    facts.workers.className = states.working === 0 || states.lost ? "bad" : states.quiet || states.ending ? "warn" : "";
    if (data.oldest_waiting) {
      facts.oldest.replaceChildren(`${duration((data.now - data.oldest_waiting) / 1000)}, since `, time(data.oldest_waiting));
    } else write(facts.oldest, data.counts.queued ? "not known: its element has no time" : "nothing waits");
    const share = data.speed_of < data.counts.running ? `, known of ${count(data.speed_of)} running jobs` : "";
    write(facts.speed, `${speed(data.speed)}${share}`);
    if (!samples.length || samples[samples.length - 1].at < data.now) {
      samples.push({ at: data.now, speed: data.speed, waiting: data.counts.queued, running: data.counts.running });
      if (samples.length > MAX_SAMPLES) samples.shift();
    }
    traffic.draw(samples, "speed", bytes);
    waiting.draw(samples, "waiting", count);
    running.draw(samples, "running", count);
    byError.fill(data.failures.by_error, data.failures.of, (error) => path("jobs", ["failed"], { error }));
    byHost.fill(data.failures.by_host, data.failures.of, (host) => path("jobs", ["failed"], { host }));
  }
  function watch() { live.watch([[inQueue(queue), take], [past.path(), past.take]]); }
  watch();
}
