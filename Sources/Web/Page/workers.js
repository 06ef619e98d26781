// Who works, and who may go.

import { set } from "./actions.js";
import { inQueue } from "./api.js";
import { partsBar, progressBar } from "./bars.js";
import { sparkline } from "./charts.js";
import { card, el, link, redraw, rows, write } from "./dom.js";
import { bytes, count, plural, speed } from "./format.js";
import { icon, key } from "./icons.js";
import { sortedWorkers, workerState } from "./overview.js";

/// What this page has seen of each worker's speed: at most an hour, a value every 10 s.
const seen = new Map();
const STEP = 10_000;
const MAX_SAMPLES = 360;

export function workers({ queue, live, body, path, title, header, isOperator, query, ready, subject }) {
  title("Workers");
  const sentence = el("p", { class: "lead" }, "Reading …");
  const search = el("input", { type: "search", "aria-label": "Search", placeholder: "Worker or machine", spellcheck: "false", value: query.get("q") ?? "" });
  header(sentence, [el("div", { class: "search" }, icon("search"), search, key("/"))]);
  const lines = el("tbody");
  const foot = el("div", { class: "list-foot" }, "One that has ended is shown for some seconds, a silent one for a day.");
  const heads = [["Worker", ""], ["Slots", "number slots-head"], ["Speed", "less"], ["Now", "number"], ["Kinds", "less"], ["Machine", "less"], ["Version", "less"], ...(isOperator ? [["Change", "tools-head"]] : [])];
  const tableBox = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Workers" }, el("table", { class: "fleet-table stacked" }, el("caption", { class: "hidden" }, "Workers"),
    el("thead", {}, el("tr", {}, heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text === "Change" ? el("span", { class: "hidden" }, text) : text)))), lines));
  const empty = el("div", { class: "empty", hidden: true }, el("p", {}, "No worker serves this queue."), el("p", {}, el("code", {}, `haul worker --queue ${queue} --root /srv/${queue}`), " starts one where the files should go."));
  const versions = partsBar();
  const versionList = el("ul", { class: "legend" });
  body.append(el("section", { class: "card" }, tableBox, empty, foot), el("div", { class: "pair" },
    card("To take a worker out of service", {}, el("ol", { class: "steps" },
      el("li", {}, el("strong", {}, "Make quiet"), ": it takes no more jobs of this queue and finishes those it has."), el("li", {}, "Wait until it runs nothing. Its row says so."),
      el("li", {}, "End its process. What it had not finished goes on elsewhere, from the bytes on disk."))),
    card("Versions", {}, versions.bar, versionList)));
  const pending = new Map();
  const fill = rows(lines, (name) => {
    const [mark, state, host, slots, rate, kinds, machine, version, tools] = [el("span"), el("span", { class: "under" }), el("span", { class: "dim" }), el("span"), el("td", { class: "number strong" }), el("td", { class: "less" }), el("td", { class: "less any" }), el("td", { class: "less" }), el("td", { class: "tools-cell" })];
    const bar = progressBar();
    const spark = sparkline("blue");
    return {
      line: el("tr", { class: "three" }, el("th", { scope: "row" }, el("div", { class: "named" }, mark, el("div", {}, el("span", {}, link(path("jobs", ["running"], { worker: name }), name), host), state))),
        el("td", { class: "number slots" }, slots, bar.bar), el("td", { class: "less spark-cell" }, spark.drawing), rate, kinds, machine, version, isOperator ? tools : null),
      fill({ worker, most }) {
        const [shape, tone, words] = workerState(worker, last);
        redraw(mark, [shape, tone], () => icon(shape, tone));
        write(host, worker.host ? ` on ${worker.host}` : "");
        write(state, words);
        state.className = `under ${tone === "red" || tone === "amber" ? tone : ""}`;
        write(slots, Number(worker.slots) ? `${count(worker.running ?? 0)} of ${count(Number(worker.slots))}` : count(worker.running ?? 0));
        bar.draw([[0, worker.running ?? 0]], Number(worker.slots) || 1, worker.state === "working" ? "blue" : "grey");
        bar.bar.classList.toggle("none", !(Number(worker.slots) > 0));
        write(rate, worker.state === "lost" ? "—" : speed(worker.speed ?? 0));
        spark.draw(seen.get(`${queue}/${name}`)?.values ?? [], most, `At most ${speed(Math.max(0, ...(seen.get(`${queue}/${name}`)?.values ?? [])))} since this page was opened`);
        spark.drawing.classList.toggle("grey", worker.state !== "working");
        write(kinds, !worker.kinds || String(worker.kinds).split(/[ ,]+/).length >= 3 ? "all kinds" : String(worker.kinds).replaceAll(" ", ", "));
        write(machine, [worker.free === undefined ? "" : `${bytes(worker.free)} free`, worker.pid ? `process ${worker.pid}` : ""].filter(Boolean).join(", "));
        write(version, String(worker.version ?? ""));
        if (!isOperator) return;
        const isQuiet = worker.state === "quiet";
        // The button waits until a heartbeat of the worker has applied the change.
        if (pending.has(name) && pending.get(name) !== worker.state) pending.delete(name);
        redraw(tools, [worker.state, pending.get(name), worker.running > 0], () => (worker.state === "lost"
          ? (worker.running ? el("a", { class: "button small", href: path("jobs", ["running"], { worker: name }) }, `Show ${plural(worker.running, "job")}`) : "")
          : worker.state === "ending" ? "" : el("button", { type: "button", class: "small", "data-changes": true, disabled: pending.has(name), onclick: async () => {
            pending.set(name, worker.state);
            await set(queue, { quiet: { [name]: !isQuiet } }, isQuiet ? `${name} takes jobs again.` : `${name} takes no more jobs.`, { quiet: { [name]: isQuiet } });
            setTimeout(() => pending.delete(name), 10_000);
          } }, isQuiet ? "Take jobs again" : "Make quiet")));
      },
    };
  });
  let last = null;
  function draw() {
    if (!last) return;
    const all = sortedWorkers(last);
    const now = Date.now();
    for (const worker of all) {
      const name = `${queue}/${worker.name}`;
      const known = seen.get(name) ?? seen.set(name, { values: [], at: 0 }).get(name);
      if (now - known.at >= STEP || known.values.length < 2) { known.values.push(worker.speed ?? 0); known.at = now; } else known.values[known.values.length - 1] = worker.speed ?? 0;
      if (known.values.length > MAX_SAMPLES) known.values.shift();
    }
    const text = search.value.trim().toLowerCase();
    const shown = all.filter((worker) => `${worker.name} ${worker.host ?? ""}`.toLowerCase().includes(text));
    const slots = all.reduce((sum, worker) => sum + (Number(worker.slots) || 0), 0);
    const running = all.reduce((sum, worker) => sum + (worker.running ?? 0), 0);
    const rate = all.reduce((sum, worker) => sum + (worker.state === "lost" ? 0 : worker.speed ?? 0), 0);
    const silent = all.filter((worker) => workerState(worker, last)[1] === "red").length;
    const quiet = all.filter((worker) => worker.state === "quiet").length;
    const words = [silent ? `${silent === 1 ? "one worker is" : `${count(silent)} workers are`} silent` : "", quiet ? `${quiet === 1 ? "one takes" : `${count(quiet)} take`} no more jobs` : ""].filter(Boolean).join(", ");
    redraw(sentence, [slots, running, speed(rate), words, all.length], () => (all.length === 0 ? "Jobs wait until a worker is there." : [el("strong", {}, slots ? `${count(running)} of ${count(slots)}` : count(running)), slots ? " slots busy, " : " jobs, ", el("strong", {}, speed(rate)), `. ${words ? `${words[0].toUpperCase()}${words.slice(1)}.` : "All take jobs."}`]));
    tableBox.hidden = shown.length === 0;
    empty.hidden = all.length > 0;
    write(foot, text && shown.length < all.length ? `${count(shown.length)} of ${plural(all.length, "worker")} match “${search.value.trim()}”.` : `${plural(all.length, "worker")}; one that has ended is shown for some seconds, a silent one for a day.`);
    const most = Math.max(1, ...all.flatMap((worker) => seen.get(`${queue}/${worker.name}`).values));
    fill(shown.map((worker) => ({ worker, most })), ({ worker }) => worker.name);
    const byVersion = new Map();
    for (const worker of all) { const version = String(worker.version ?? "unknown"); byVersion.set(version, [...(byVersion.get(version) ?? []), worker.name]); }
    const tones = ["blue", "amber", "violet", "grey"];
    const list = [...byVersion].sort(([, one], [, other]) => other.length - one.length);
    versions.draw(list.map(([, names], index) => [names.length, tones[Math.min(index, 3)]]));
    redraw(versionList, list, () => list.map(([version, names], index) => el("li", {}, el("span", { class: `swatch ${tones[Math.min(index, 3)]}` }), `${version}: ${names.length === 1 ? names[0] : plural(names.length, "worker")}`)));
  }
  search.addEventListener("input", draw);
  live.watch([subject(inQueue(queue, "workers"), (data) => { last = data; draw(); ready(); })]);
}
