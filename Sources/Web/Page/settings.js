// The settings of a queue: what a change would do stands beside each value, before it is saved.

import { pauseQueue, set } from "./actions.js";
import { inQueue, withQuery } from "./api.js";
import { recentChanges } from "./changes.js";
import { ask, complain, open } from "./dialogs.js";
import { card, el, field, redraw, rows, write } from "./dom.js";
import { bytes, count, duration, plural, speed } from "./format.js";
import { icon } from "./icons.js";
import { limitWords } from "./overview.js";

const sizes = [["MB", 1e6], ["kB", 1e3], ["GB", 1e9], ["TB", 1e12], ["B", 1]];
const speeds = sizes.map(([name, many]) => [`${name}/s`, many]);
const times = [["seconds", 1], ["minutes", 60], ["hours", 3600], ["days", 86_400], ["weeks", 604_800]];

/// Each setting: a title, what it is about, its units, what stands in an empty field, and what a value would do.
const limits = {
  rate: ["Bytes a second", "Received and sent, all workers together. By the time of day: full 22:00-06:00 Europe/Berlin, 2M", speeds, "none", (value, { overview }) => (!overview ? "" : typeof value === "string" ? `The fleet receives ${speed(overview.speed)} now. Times are UTC unless a zone follows them.` : value === null ? `The fleet receives ${speed(overview.speed)} now.` : `The fleet receives ${speed(overview.speed)} now: this limit ${value >= overview.speed ? "would not slow it" : "slows it"}.`)],
  max_running: ["Jobs at once", "Running at the same time", [["jobs", 1]], "none", (value, { overview }) => (!overview ? "" : `${count(overview.counts.running)} ${overview.counts.running === 1 ? "runs" : "run"} now.${value !== null && value < overview.counts.running ? " Those that run go on." : ""}`)],
  starts: ["Starts", "Jobs that may begin", [["a second", "s"], ["a minute", "min"], ["an hour", "h"]], "none", () => "All workers together, and each host no faster."],
  host_connections: ["Jobs at one host", "Unless the host has a limit of its own", [["jobs", 1]], "none", (value, { hosts }) => {
    const most = [...(hosts?.hosts ?? [])].sort((one, other) => other.running - one.running)[0];
    return !most?.running ? "No host has work now." : `${most.host} has ${count(most.running)} now${value !== null && most.running >= value ? `: reached${most.deferred ? `, ${count(most.deferred)} wait for it` : ""}` : ""}.`;
  }],
  max_bytes: ["Largest file", "A larger one fails", sizes, "none", () => ""], max_seconds: ["Longest run", "Of one attempt of a job", times, "none", () => ""],
  min_speed: ["Slowest speed allowed", "A download below it over 30 s is tried again", speeds, "none", () => ""],
};
const kept = {
  keep_completed: ["Completed", times, ["1", "days"], ({ overview }) => (overview ? `${count(overview.counts.completed)} now` : "")], keep_failed: ["Failed", times, ["1", "weeks"], ({ overview }) => (overview ? `${count(overview.counts.failed)} now, with their bytes` : "")],
  keep_cancelled: ["Cancelled", times, ["1", "days"], ({ overview }) => (overview ? `${count(overview.counts.cancelled)} now` : "")],
  max_responses_bytes: ["Responses", sizes, ["268.4", "MB"], () => "Of all jobs together"], max_replies_bytes: ["Replies with responses", sizes, ["268.4", "MB"], () => "Of all reply lists together"],
  event_stream: ["Events", [["events", 1]], "none", () => "Kept in a stream, for services that must not miss one"],
};

/// Which marks separate thousands and decimals in this browser's language, as everywhere on the page.
const marks = Object.fromEntries(new Intl.NumberFormat().formatToParts(1_234_567.8).map(({ type, value }) => [type, value]));
/// A number as a numeral of JavaScript. Thousands may be separated; otherwise a comma is a decimal point as well.
export function numeralOf(text) {
  const parts = text.trim().split(marks.group ?? ",");
  const isGrouped = parts.length > 1 && /^\d{1,3}$/.test(parts[0]) && parts.slice(1).every((part, index) => (index < parts.length - 2 ? /^\d{3}$/ : /^\d{3}(\D|$)/).test(part));
  return (isGrouped ? parts.join("") : text.trim()).replace(marks.decimal ?? ".", ".").replace(",", ".");
}

/// A number with a choice of units, or a rate that depends on the time of day. `read()` returns the value for the API, null for an empty field, or throws a sentence.
function unitField(name, label, units, initial, changed) {
  const [placeholder, defaultUnit] = [initial].flat();
  const isStarts = name === "starts";
  const isSchedule = () => name === "rate" && /[a-z:]/i.test(input.value);
  const input = el("input", { inputmode: "decimal", autocomplete: "off", placeholder, "aria-label": label });
  const unit = units.length > 1 ? el("select", { "aria-label": `Unit of ${label}` }, units.map(([text]) => el("option", { value: text }, text))) : el("span", { class: "unit" }, units[0][0]);
  const choose = (text) => { if (units.length > 1) unit.value = text; };
  const factor = () => (units.length > 1 ? units.find(([text]) => text === unit.value)[1] : units[0][1]);
  let former = null;
  let isTouched = false;
  const write = (value) => {
    former = value ?? null;
    if (isTouched) return;
    unit.hidden = false;
    if (value === null || value === undefined) { input.value = ""; if (defaultUnit) choose(defaultUnit); return; }
    if (isStarts) {
      const [number, per = "s"] = String(value).split("/");
      input.value = number;
      choose(units.find(([, text]) => text === per)?.[0] ?? units[0][0]);
      return;
    }
    if (typeof value === "string") { input.value = value; unit.hidden = true; return; }
    const ordered = [...units].sort(([, one], [, other]) => other - one);
    const [text, many] = ordered.find(([, many]) => value >= many && Number.isInteger(value / many * 100)) ?? ordered[ordered.length - 1];
    input.value = String(value / many);
    choose(text);
  };
  const touch = () => { isTouched = true; unit.hidden = isSchedule(); changed(); };
  input.addEventListener("input", touch);
  if (units.length > 1) unit.addEventListener("change", touch);
  const read = () => {
    if (isSchedule()) return input.value.trim();
    const words = numeralOf(input.value);
    if (words === "") return null;
    const number = Number(words);
    if (!Number.isFinite(number) || number < 0) throw new Error(`${label}: “${input.value}” is not a number.`);
    return isStarts ? `${words}/${factor()}` : Math.round(number * factor());
  };
  return {
    box: el("span", { class: "united" }, input, unit), write, read, former: () => former,
    isChanged: () => { try { return isTouched && read() !== former; } catch { return true; } },
    release: () => { isTouched = false; write(former); },
  };
}

export function settings({ queue, live, body, title, header, isOperator, ready, subject }) {
  title(`Settings of ${queue}`);
  const known = {};
  let now = null;
  const state = el("p", { class: "lead", role: "status" }, "Reading …");
  const toggle = isOperator ? el("button", { type: "button", "data-changes": true, onclick: () => pauseQueue(queue, !now?.paused).then(take) } ) : null;
  header(state, [toggle]);
  const ignored = el("p", { class: "hit amber", hidden: true });

  /// A card with settings, which saves those that were changed.
  function group(titleText, note, entries) {
    const all = Object.entries(entries).map(([name, [label, about, units, placeholder, effect]]) => {
      const input = isOperator ? unitField(name, label, units, placeholder, () => draw()) : null;
      const text = el("span", {});
      const side = el("p", { class: "effect dim" });
      const line = el("div", { class: "setting" }, el("div", { class: "setting-name" }, el("strong", {}, label), typeof about === "string" ? el("p", { class: "dim" }, about) : null), input ? input.box : text, side);
      return { name, label, about, units, input, text, side, line, effect };
    });
    const words = el("span", { class: "grow" });
    const save = el("button", { type: "button", class: "main small", "data-changes": true, onclick: async () => {
      try {
        const changed = all.filter(({ input }) => input.isChanged());
        const change = Object.fromEntries(changed.map(({ name, input }) => [name, input.read()]));
        const back = Object.fromEntries(changed.map(({ name, input }) => [name, input.former()]));
        const answer = await set(queue, change, `${plural(changed.length, "change")} saved. Workers follow within a second.`, back);
        if (answer) { for (const { input } of changed) input.release(); take(answer); }
      } catch (error) { complain(error.message); }
    } });
    const foot = el("div", { class: "unsaved", hidden: true }, words, el("button", { type: "button", class: "plain", onclick: () => { for (const { input } of all) input.release(); draw(); } }, "Discard"), save);
    function draw() {
      if (!now) return;
      let changes = 0;
      for (const entry of all) {
        const former = now[entry.name] ?? null;
        const isChanged = entry.input?.isChanged() ?? false;
        if (isChanged) changes += 1;
        let value = former;
        try { value = entry.input ? entry.input.read() : former; } catch { value = null; }
        if (!entry.input) write(entry.text, sentenceOf(entry.name, former));
        const effect = entry.effect(value, known);
        redraw(entry.side, [isChanged, former, effect], () => [isChanged ? el("strong", {}, `Was ${sentenceOf(entry.name, former)}. `) : null, effect]);
      }
      foot.hidden = changes === 0;
      redraw(words, changes, () => [el("strong", {}, plural(changes, "change")), changes === 1 ? " is not saved yet." : " are not saved yet."]);
      write(save, `Save ${plural(changes, "change")}`);
    }
    return { box: card(titleText, { side: note ? el("span", { class: "dim" }, note) : null, className: "settings-card" }, all.map(({ line }) => line), foot), draw, fill: () => { for (const { name, input } of all) input?.write(now[name] ?? null); draw(); } };
  }
  function sentenceOf(name, value) {
    if (value === null || value === undefined) return "none";
    if (name === "rate" && typeof value === "string") return value;
    if (name === "rate" || name === "min_speed") return speed(value);
    if (name.includes("bytes")) return bytes(value);
    if (name.startsWith("keep") || name === "max_seconds") return duration(value);
    if (name === "event_stream") return plural(value, "event");
    return name === "starts" ? String(value).replace("/", " each ") : plural(value, "job");
  }

  const fleet = group("Limits of the whole fleet", "empty: no limit", limits);
  const keeping = group("How long ended jobs are kept", "", Object.fromEntries(Object.entries(kept).map(([name, [label, units, initial, effect]]) => [name, [label, null, units, initial, (_, data) => effect(data)]])));

  // Hosts
  const lines = el("tbody");
  const noHosts = el("p", { class: "padded dim" }, "No host and no group has a limit of its own.");
  const hostBox = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Limits of hosts and groups" }, el("table", { class: "wide-rows" }, el("caption", { class: "hidden" }, "Limits of hosts and groups"),
    el("thead", {}, el("tr", {}, [["Host or group", ""], ["Limits", ""], ["Now", "less"], ...(isOperator ? [["Change", ""]] : [])].map(([text, kind]) => el("th", { scope: "col", class: kind }, text === "Change" ? el("span", { class: "hidden" }, text) : text)))), lines));
  const hosts = card("Limits of hosts and groups", { note: "over the whole fleet", side: isOperator ? el("button", { type: "button", class: "small", onclick: () => editHost("") }, icon("plus"), "Add a host or a group") : null }, hostBox, noHosts);
  const fillHosts = rows(lines, (host) => {
    const [words, mark, text, tools] = [el("td", { class: "any" }), el("span"), el("span"), el("td", { class: "tools-cell" })];
    return {
      line: el("tr", {}, el("th", { scope: "row", class: "any" }, host), words, el("td", { class: "less" }, el("span", { class: "named" }, mark, text)), isOperator ? tools : null),
      fill({ own, found }) {
        write(words, limitWords(own));
        const waiting = (found?.deferred ?? 0) + (found?.waiting ?? 0);
        const isFull = own.connections !== undefined && (found?.running ?? 0) >= own.connections;
        // What a group has at work is in the list of jobs.
        const [shape, tone, about] = isGroup(host) ? (own.running === 0 ? ["paused", "quiet", "Stopped: no job of the group begins."] : ["completed", "green", "Kept"])
          : own.connections === 0 ? ["paused", "quiet", `Stopped: no job begins here.${waiting ? ` ${count(waiting)} wait.` : " Nothing waits."}`]
          : isFull ? ["waits", "amber", `At its limit; ${waiting ? `${count(waiting)} ${waiting === 1 ? "waits" : "wait"}` : "nothing waits"}`] : ["completed", "green", `${count(found?.running ?? 0)} at work${found?.speed ? ` at ${speed(found.speed)}` : ""}${waiting ? `; ${count(waiting)} wait` : ""}`];
        redraw(mark, [shape, tone], () => icon(shape, tone));
        write(text, about);
        redraw(tools, own, () => [el("button", { type: "button", class: "small plain", "aria-label": `Edit the limits of ${host}`, onclick: () => editHost(host, own) }, icon("edit"), "Edit"),
          el("button", { type: "button", class: "small plain", "aria-label": `Remove the limits of ${host}`, "data-changes": true, onclick: () => set(queue, { limits: { [host]: null } }, `The limits of ${host} are removed.`, { limits: { [host]: own } }).then(take) }, icon("trash"))]);
      },
    };
  });
  /// Limits of a group have `group:` and its name where those of a host have the host.
  const isGroup = (host) => host.startsWith("group:");
  function editHost(host, own = {}) {
    open("Limits of a host or a group", (close) => {
      const name = el("input", { autocomplete: "off", required: true, placeholder: "example.org", value: host, readonly: Boolean(host) });
      const inputs = Object.fromEntries([["connections", "Jobs at once", [["jobs", 1]]], ["rate", "Bytes a second", speeds], ["starts", "Starts", limits.starts[2]], ["max_bytes", "Largest file", sizes], ["min_speed", "Slowest speed allowed", speeds], ["max_seconds", "Longest run", times]]
        .map(([what, label, units]) => { const input = unitField(what, label, units, "none", () => {}); input.write((what === "connections" ? own.connections ?? own.running : own[what]) ?? null); return [what, { label, input }]; }));
      const answer = el("p", { class: "red", role: "status" });
      const form = el("form", {}, el("div", { class: "dialog-body" }, el("h2", {}, host ? `Limits of ${host}` : "Limits of a host or a group"), el("p", { class: "dim" }, "The whole fleet keeps to them. 0 jobs at once stops the host or the group."),
        el("div", { class: "fields" }, field("Host, perhaps with a port, or group:name", name, true), Object.values(inputs).map(({ label, input }) => el("div", { class: "field" }, el("span", {}, label), input.box))), answer),
      el("div", { class: "dialog-foot" }, el("span", { class: "grow" }), el("button", { type: "button", onclick: () => close() }, "Close"), el("button", { class: "main" }, "Save")));
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        try {
          const values = Object.fromEntries(Object.entries(inputs).map(([what, { input }]) => [what, input.read()]).filter(([, value]) => value !== null));
          if (!Object.keys(values).length) throw new Error("Give at least one limit, or remove these limits.");
          const target = name.value.trim();
          if (isGroup(target) && "connections" in values) { values.running = values.connections; delete values.connections; }
          const saved = await set(queue, { limits: { [target]: values } }, `The limits of ${target} are saved.`, { limits: { [target]: now?.limits?.[target] ?? null } });
          if (saved) { close(); take(saved); }
        } catch (error) { answer.textContent = error.message; }
      });
      return form;
    });
  }

  // Defaults of jobs
  const defaultList = el("dl", { class: "about defaults" });
  const defaults = card("Defaults of jobs", { side: isOperator ? el("button", { type: "button", class: "small", onclick: () => editDefault() }, icon("plus"), "Add") : null },
    el("p", { class: "padded dim" }, "What a job has where its push does not say it. It counts from the next attempt on."), defaultList);
  function editDefault() {
    open("A default of jobs", (close) => {
      const [name, value] = [el("input", { autocomplete: "off", required: true, placeholder: "retries" }), el("input", { autocomplete: "off", required: true, placeholder: "5" })];
      const form = el("form", {}, el("div", { class: "dialog-body" }, el("h2", {}, "A default of jobs"), el("div", { class: "fields" }, field("Field of a job, or base", name), field("Its default: JSON, or a text", value))),
        el("div", { class: "dialog-foot" }, el("span", { class: "grow" }), el("button", { type: "button", onclick: () => close() }, "Close"), el("button", { class: "main" }, "Save")));
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        let content;
        try { content = JSON.parse(value.value); } catch { content = value.value; }
        const what = name.value.trim();
        const saved = await set(queue, what === "base" ? { base: content } : { defaults: { [what]: content } }, `The default of ${what} is saved.`);
        if (saved) { close(); take(saved); }
      });
      return form;
    });
  }

  async function removeDefault(name, value) {
    const isBase = name === "base";
    const answer = await ask({ question: `Remove the default of ${name}?`, consequence: "Jobs that are pushed from now on, and later attempts of those that wait, have none.", keep: "Keep it", verb: "Remove" });
    if (answer) take(await set(queue, isBase ? { base: null } : { defaults: { [name]: null } }, `The default of ${name} is removed.`, isBase ? { base: value } : { defaults: { [name]: value } }));
  }
  function take(data) {
    if (!data) return;
    now = data;
    write(state, now.paused ? "The queue is paused: no job is started, running ones go on." : "Workers follow a change within a second. Running jobs go on.");
    if (toggle) redraw(toggle, now.paused, () => [icon(now.paused ? "play" : "pause"), now.paused ? "Resume queue" : "Pause queue"]);
    fleet.fill();
    keeping.fill();
    drawHosts();
    const entries = [...(now.base ? [["base", now.base]] : []), ...Object.entries(now.defaults ?? {})];
    defaultList.hidden = entries.length === 0;
    redraw(defaultList, entries, () => entries.flatMap(([name, value]) => [el("dt", {}, name === "base" ? "Base of relative URLs" : name),
      el("dd", {}, el("span", { class: "any" }, typeof value === "string" ? value : JSON.stringify(value)), isOperator ? el("button", { type: "button", class: "plain copy", "aria-label": `Remove the default of ${name}`, "data-changes": true, onclick: () => removeDefault(name, value) }, icon("trash")) : null)]));
    ready();
    ignored.hidden = !now.ignored && !now.differs;
    write(ignored, [now.ignored && `These have no effect; haul check says why: ${now.ignored.join(", ")}.`,
      now.differs && `These are not the same in all partitions; save them again: ${now.differs.join(", ")}.`].filter(Boolean).join(" "));
  }
  function drawHosts() {
    const entries = Object.entries(now?.limits ?? {});
    hostBox.hidden = entries.length === 0;
    noHosts.hidden = entries.length > 0;
    const found = new Map((known.hosts?.hosts ?? []).map((host) => [host.host, host]));
    fillHosts(entries.map(([host, own]) => ({ host, own, found: found.get(host) })), ({ host }) => host);
  }
  const recent = recentChanges();
  body.append(ignored, el("div", { class: "settings" }, fleet.box, keeping.box, el("div", { class: "whole" }, hosts), el("div", { class: "whole" }, defaults), el("div", { class: "whole" }, recent.box)),
    isOperator ? "" : el("p", { class: "dim" }, "Only operators change settings, and see what header fields hold."));
  live.watch([[withQuery(inQueue(queue, "changes"), { limit: 20 }), recent.draw], [inQueue(queue), (data) => { if (data) { known.overview = data; fleet.draw(); keeping.draw(); } }], [inQueue(queue, "hosts"), (data) => { if (data) { known.hosts = data; fleet.draw(); drawHosts(); } }],
    subject(inQueue(queue, "settings"), take)]);
}
