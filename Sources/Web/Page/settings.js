// The settings of a queue: its live settings, the defaults of its jobs, and the limits of hosts.

import { inQueue, send } from "./api.js";
import { el, field, table, showMessage, write } from "./dom.js";
import { bytes, count, duration } from "./format.js";

/// Settings with a value: a label, and a sentence about a value that is set. All but `starts` are numbers.
const numbers = {
  max_running: ["Most jobs at once (empty: no limit)", (value) => `At most ${count(value)} jobs run at once over the whole fleet.`],
  rate: ["Bytes per second (empty: no limit)", (value) => `The fleet receives and sends ${bytes(value)} in a second.`],
  starts: ["Starts of jobs, like 10/s or 30/min (empty: no limit)", (value) => `Jobs begin at ${value}, all workers together.`],
  host_connections: ["Most jobs on one host (empty: no limit)", (value) => `At most ${count(value)} jobs are at work on one host.`],
  max_seconds: ["Longest run of a job, seconds (empty: no limit)", (value) => `A run of a job takes at most ${duration(value)}.`],
  min_speed: ["Slowest download, bytes per second over 30 s (empty: no limit)", (value) => `A download that is slower than ${bytes(value)} per second over 30 s is tried again.`],
  max_bytes: ["Largest file, bytes (empty: no limit)", (value) => `A file has at most ${bytes(value)}.`],
  max_responses_bytes: ["Bytes of responses that are kept (empty: 268435456)", (value) => `${bytes(value)} of responses are kept.`],
  max_replies_bytes: ["Bytes of answers with responses in reply lists (empty: 268435456)", (value) => `${bytes(value)} of answers with responses are kept.`],
  keep_completed: ["Completed jobs are kept for, seconds (empty: a day)", (value) => `Completed jobs are kept for ${duration(value)}.`],
  keep_failed: ["Failed jobs are kept for, seconds (empty: a week)", (value) => `Failed jobs are kept for ${duration(value)}.`],
  keep_cancelled: ["Cancelled jobs are kept for, seconds (empty: a day)", (value) => `Cancelled jobs are kept for ${duration(value)}.`],
};

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/// An input whose text is not overwritten while the user changes it.
function kept(attributes) {
  // Only a text field gets autocomplete="off": axe reports it as an error on other inputs.
  const input = el("input", attributes.type ? attributes : { autocomplete: "off", ...attributes });
  let isTouched = false;
  for (const name of ["input", "change"]) input.addEventListener(name, () => { isTouched = true; });
  return { input, isTouched: () => isTouched, show: (text) => { if (!isTouched) input.value = text; }, release: () => { isTouched = false; } };
}

export function settings({ queue, live, body, title, isOperator }) {
  title(`Settings of ${queue}`);

  /// Sends a change. Returns whether it succeeded, and shows the server's message if it did not.
  async function change(body, message) {
    try {
      draw(await send("PATCH", inQueue(queue, "settings"), body));
      showMessage(message);
      return true;
    } catch (error) {
      showMessage(error.message);
      return false;
    }
  }

  // Pause
  const state = el("p", { role: "status" }, "Reading …");
  const toggle = el("button", { type: "button" });
  let paused = false;
  toggle.addEventListener("click", () => change({ paused: !paused }, paused ? "The queue is open." : "The queue is paused."));

  // Numbers
  const limits = el("ul", {});
  const inputs = Object.fromEntries(Object.keys(numbers).map((name) => [name, kept(name === "starts" ? {} : { type: "number", min: 0, step: 1 })]));
  const numberForm = el("form", {},
    el("div", { class: "fields" }, Object.entries(inputs).map(([name, { input }]) => field(numbers[name][0], input))),
    el("div", { class: "row" }, el("button", {}, "Set")));
  numberForm.addEventListener("submit", async (event) => {
    event.preventDefault();
    const touched = Object.entries(inputs).filter(([, { isTouched }]) => isTouched());
    if (!touched.length) return showMessage("Nothing was changed.");
    const values = touched.map(([name, { input }]) => [name, input.value === "" ? null : name === "starts" ? input.value.trim() : Number(input.value)]);
    if (!(await change(Object.fromEntries(values), "It is set."))) return;
    for (const [, { release }] of touched) release();
  });

  // Base and defaults
  const baseText = el("p", { class: "any" });
  const base = kept({ type: "url" });
  const baseForm = el("form", { class: "row" }, field("Base of relative URLs (empty: none)", base.input), el("button", {}, "Set the base"));
  baseForm.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await change({ base: base.input.value.trim() || null }, "The base is set.")) base.release();
  });
  const defaults = list("Defaults", "Field", "default", (name) => ({ defaults: { [name]: null } }));
  const [name, value] = [el("input", { autocomplete: "off", required: true }), el("input", { autocomplete: "off", required: true })];
  const defaultForm = el("form", { class: "row" },
    field("Field of a job, like retries", name), field("Its default: JSON, or a text", value), el("button", {}, "Set the default"));
  defaultForm.addEventListener("submit", async (event) => {
    event.preventDefault();
    let content;
    try { content = JSON.parse(value.value); } catch { content = value.value; }
    if (await change({ defaults: { [name.value.trim()]: content } }, "The default is set.")) defaultForm.reset();
  });

  // Hosts
  const hosts = list("Hosts", "Host", "limit", (host) => ({ limits: { [host]: null } }));
  const host = el("input", { autocomplete: "off", required: true });
  const ofHost = {
    connections: el("input", { type: "number", min: 0, step: 1 }),
    starts: el("input", { autocomplete: "off" }),
    rate: el("input", { type: "number", min: 1, step: 1 }),
    max_seconds: el("input", { type: "number", min: 1, step: 1 }),
    min_speed: el("input", { type: "number", min: 1, step: 1 }),
    max_bytes: el("input", { type: "number", min: 1, step: 1 }),
  };
  const hostForm = el("form", { class: "row" },
    field("Host, perhaps with a port", host), field("Most jobs at work on it", ofHost.connections),
    field("Starts there, like 10/s", ofHost.starts), field("Its rate, bytes per second", ofHost.rate),
    field("Longest run, seconds", ofHost.max_seconds), field("Slowest download, bytes per second", ofHost.min_speed),
    field("Largest file, bytes", ofHost.max_bytes), el("button", {}, "Set the limit"));
  let known = {};
  hostForm.addEventListener("submit", async (event) => {
    event.preventDefault();
    const place = host.value.trim();
    const given = Object.entries(ofHost).map(([name, input]) => [name, input.value.trim()]).filter(([, text]) => text !== "");
    if (!given.length) return showMessage("Give at least one limit.");
    const values = given.map(([name, text]) => [name, name === "starts" ? text : Number(text)]);
    // The host's other limits stay.
    if (await change({ limits: { [place]: { ...known[place], ...Object.fromEntries(values) } } }, "The limit is set.")) hostForm.reset();
  });

  /// A table of names and values, with a button that removes each.
  function list(label, head, what, removal) {
    const { box, body: lines } = table(label, [[head, ""], ["Value", ""], ...(isOperator ? [["Change", ""]] : [])]);
    let text = "";
    return {
      box,
      draw(entries) {
        const now = JSON.stringify(entries);
        if (now === text) return;
        text = now;
        box.hidden = entries.length === 0;
        lines.replaceChildren(...entries.map(([name, content]) => el("tr", {},
          el("th", { scope: "row", class: "any" }, name), el("td", { class: "any" }, shown(content)),
          isOperator ? el("td", {}, el("button", { type: "button", "aria-label": `Remove the ${what} of ${name}`,
            onclick: () => change(removal(name), `The ${what} of ${name} is removed.`) }, "Remove")) : null)));
      },
    };
  }

  const ignored = el("p", { class: "warn" });
  function draw(now) {
    paused = now.paused;
    write(state, paused ? "The queue is paused: no job is started, running ones go on." : "The queue is open.");
    state.className = paused ? "warn" : "good";
    write(toggle, paused ? "Resume the queue" : "Pause the queue");
    const said = Object.entries(numbers).filter(([name]) => now[name] !== undefined).map(([name, [, words]]) => words(now[name]));
    if (now.max_running === undefined) said.unshift("Any number of jobs may run at once.");
    limits.replaceChildren(...said.map((words) => el("li", {}, words)));
    for (const [name, { show }] of Object.entries(inputs)) show(now[name] ?? "");
    base.show(now.base ?? "");
    write(baseText, now.base ? `Base of relative URLs: ${now.base}` : "");
    defaults.draw(Object.entries(now.defaults ?? {}));
    known = now.limits ?? {};
    hosts.draw(Object.entries(known));
    write(ignored, now.ignored ? `These have no effect; haul check says why: ${now.ignored.join(", ")}` : "");
  }
  body.append(ignored, el("div", { class: "cards" },
    el("section", { class: "card" }, el("h2", {}, "Start of jobs"), state, isOperator ? toggle : ""),
    el("section", { class: "card" }, el("h2", {}, "Limits"), limits, isOperator ? numberForm : ""),
    el("section", { class: "card" }, el("h2", {}, "Defaults of jobs"),
      el("p", { class: "dim" }, "What a job has where it does not say it itself."), isOperator ? baseForm : baseText, defaults.box, isOperator ? defaultForm : ""),
    el("section", { class: "card" }, el("h2", {}, "Hosts"),
      el("p", { class: "dim" }, "What the whole fleet keeps to with one host."), hosts.box, isOperator ? hostForm : "")),
    isOperator ? "" : el("p", { class: "dim" }, "Only operators change settings, and see what header fields hold."));
  live.watch([[inQueue(queue, "settings"), (data, trouble) => {
    if (trouble) return write(state, trouble.message);
    draw(data);
  }]]);
}
