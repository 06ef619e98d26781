// A queue at a glance: what is wrong, how much is where, whether it gets worse, and which host or worker it is about.

import { pauseHost, pauseQueue, retryGroup } from "./actions.js";
import { inQueue, withQuery } from "./api.js";
import { faults, hasOthers } from "./attention.js";
import { progressBar } from "./bars.js";
import { columnChart, lineChart, sparkline } from "./charts.js";
import { card, el, link, redraw, rows, write } from "./dom.js";
import { age, ago, bytes, clock, count, day, duration, minute, plural, short, spanOf, speed } from "./format.js";
import { icon, tones } from "./icons.js";
import { about, bottleneckWords, hostOf, keptSeconds, nameOf } from "./words.js";
import { welcome } from "./welcome.js";

const order = ["running", "queued", "scheduled", "paused", "failed", "completed", "cancelled", "rejected"];
/// Name, minutes, and the minutes of each point.
const spans = [["Last hour", 60, 1], ["2 days", 2880, 30]];
const MAX_FAULTS = 4;
const MAX_BOTTLENECKS = 4;

/// The choice of two or more values, as buttons.
export function segments(label, values, chosen, changed) {
  const buttons = values.map((text, index) => el("button", { type: "button", "aria-pressed": String(index === chosen), onclick: () => {
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === index)));
    changed(index);
  } }, text));
  return el("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}

/// The card with what needs attention; hidden if nothing does.
function attention() {
  const number = el("span", { class: "chip red" });
  const list = el("ul", { class: "faults" });
  const more = el("button", { type: "button", class: "plain more", onclick: () => { isWhole = true; draw(shown); } });
  const box = card("Needs attention", { note: "", side: el("span", { class: "dim" }, "worst first"), className: "attention" }, list, more);
  box.querySelector(".card-head h2").after(number);
  let isWhole = false;
  let shown = [];
  const fillRows = rows(list, () => {
    const [mark, subject, text, detail, tools] = [el("span"), el("strong"), el("span"), el("p", { class: "dim" }), el("div", { class: "tools" })];
    return {
      line: el("li", {}, mark, el("div", { class: "grow" }, el("p", {}, subject, text), detail), tools),
      fill(fault) {
        redraw(mark, [fault.icon, fault.tone], () => icon(fault.icon, fault.tone));
        write(subject, fault.subject);
        write(text, fault.text);
        write(detail, fault.detail);
        const known = fault.actions.filter(Boolean);
        redraw(tools, known.map(({ text, path }) => [text, path]), () => known.map(({ text, icon: name, path, do: body }) => (path
          ? el("a", { class: "button small", href: path }, text)
          : el("button", { type: "button", class: "small", "data-changes": true, onclick: () => body() }, name ? icon(name) : null, text))));
      },
    };
  });
  function draw(all) {
    shown = all;
    box.hidden = all.length === 0;
    write(number, count(all.length));
    fillRows(isWhole ? all : all.slice(0, MAX_FAULTS), ({ key }) => key);
    more.hidden = isWhole || all.length <= MAX_FAULTS;
    write(more, `Show ${count(all.length - MAX_FAULTS)} more`);
    box.classList.toggle("urgent", all.some(({ tone }) => tone === "red"));
  }
  draw([]);
  return { box, draw };
}

function hostTable(context) {
  const note = el("span", { class: "dim" });
  const body = el("tbody");
  const box = card("Hosts", { className: "hosts", side: link(context.path("settings"), context.isOperator ? "Change limits" : "Limits") },
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Hosts" }, el("table", { class: "stacked" }, el("caption", { class: "hidden" }, "Hosts"),
      el("thead", {}, el("tr", {}, [["Host", ""], ["Jobs at work", "number"], ["Waiting", "number less"], ["Speed", "number"], ["Failures, 1 h", "less"], ["Limits", "less"]].map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), body)));
  box.querySelector("h2").after(note);
  const fillRows = rows(body, (host) => {
    const [mark, state, running, waiting, rate, limits] = [el("span"), el("span", { class: "under" }), el("span"), el("td", { class: "number less" }), el("td", { class: "number" }), el("td", { class: "less" })];
    const bar = progressBar();
    const spark = sparkline("red");
    return {
      line: el("tr", { class: "two" }, el("th", { scope: "row" }, el("div", { class: "named" }, mark, el("div", {}, link(context.path("jobs", ["running"], { host }), host), state))),
        el("td", { class: "number slots" }, running, bar.bar), waiting, rate, el("td", { class: "less" }, spark.drawing), limits),
      fill({ host, now, most, settings, groups }) {
        const own = host.limits ?? {};
        const limit = own.connections ?? settings.host_connections;
        const worst = groups.find((group) => group.host === hostOf(host.host) && group.recent > 0);
        const isShut = host.backoff_until > now;
        const [name, tone, words] = limit === 0 ? ["paused", "quiet", "Stopped by a limit of 0 jobs"]
          : isShut ? ["waits", worst ? "red" : "amber", `Left alone, asked again ${context.isLive() ? `in ${duration((host.backoff_until - now) / 1000)}` : `at ${clock(host.backoff_until)}`}`]
            : worst ? ["attention", worst.retryable ? "red" : "amber", `${about(worst.error).status ?? worst.error} for ${count(worst.recent)} in 20 min`] : ["completed", "green", host.running ? "Answers" : "Nothing runs"];
        redraw(mark, [name, tone], () => icon(name, tone));
        write(state, words);
        state.className = `under ${tone === "green" || tone === "quiet" ? "" : tone}`;
        write(running, limit === undefined ? count(host.running) : `${count(host.running)} of ${count(limit)}`);
        const isFull = limit !== undefined && host.running >= limit;
        bar.draw(limit ? [[0, host.running]] : [], limit || 1, isFull ? "amber" : "blue");
        bar.bar.classList.toggle("none", !limit);
        const about_ = host.queued > 0 ? "≈ " : "";
        write(waiting, `${about_}${count(rounded(host.queued) + host.deferred)}`);
        waiting.title = host.queued > 0 ? "An estimate from a sample of the queue" : "";
        write(rate, host.running ? speed(host.speed) : "0 B/s");
        spark.draw(host.hour, most, `${plural(host.hour.reduce((sum, value) => sum + value, 0), "failure")} in the last hour`);
        write(limits, limitWords(own, settings));
      },
    };
  });
  return {
    box,
    draw({ hosts, settings, overview }) {
      if (!hosts) return;
      box.hidden = hosts.hosts.length === 0;
      const groups = overview?.failures.groups ?? [];
      const most = Math.max(1, ...hosts.hosts.flatMap(({ hour }) => hour));
      const first = hosts.hosts.slice(0, 12);
      write(note, `${count(hosts.total)} with work or limits, worst first${hosts.total > first.length ? `; ${count(first.length)} are shown` : ""}`);
      fillRows(first.map((host) => ({ host, now: hosts.now, most, settings: settings ?? {}, groups })), ({ host }) => host.host);
    },
  };
}
/// An estimate has two significant digits.
const rounded = (number) => (number < 100 ? number : Number(number.toPrecision(2)));

/// The limits of a host in words.
export function limitWords(own, settings = {}) {
  const words = [];
  if (own.connections !== undefined) words.push(plural(own.connections, "job"));
  else if (own.running !== undefined) words.push(plural(own.running, "job"));
  else if (settings.host_connections !== undefined) words.push(`${plural(settings.host_connections, "job")}, as any host`);
  if (own.rate) words.push(typeof own.rate === "number" ? speed(own.rate) : own.rate);
  if (own.starts) words.push(`${String(own.starts).includes("/") ? String(own.starts).replace("/", " starts/") : `${own.starts} starts/s`}`);
  if (own.max_bytes) words.push(`${bytes(own.max_bytes)} a file`);
  if (own.min_speed) words.push(`at least ${speed(own.min_speed)}`);
  if (own.max_seconds) words.push(`${duration(own.max_seconds)} a run`);
  return words.join(", ") || "none";
}

/// How a worker of `all` is: [icon, tone, words].
export function workerState(worker, all) {
  const { now } = all;
  const silence = (now - (worker.seen ?? 0)) / 1000;
  const lease = (worker.lease ?? 8000) / 1000;
  const disk = Object.fromEntries(worker.waiting ?? []).disk;
  const running = worker.running ?? 0;
  const wait = "its jobs wait for another worker";
  if (worker.state === "lost") return ["attention", "red", `Silent for ${duration(silence)}${running ? `; ${hasOthers(all, worker) ? "its jobs have moved" : wait}` : ""}`];
  if (silence >= 5) return ["attention", "red", `Silent for ${duration(silence)}; ${hasOthers(all, worker) ? `its jobs move in ${duration(lease - silence)}` : wait}`];
  if (disk) return ["waits", "amber", `${plural(disk, "job")} ${disk === 1 ? "waits" : "wait"} for space on disk`];
  if (worker.free === 0) return ["waits", "amber", "Has no space for downloads"];
  if (worker.state === "quiet") return ["paused", "quiet", running ? `Quiet: finishes ${plural(running, "job")}` : "Quiet: runs nothing"];
  if (worker.state === "ending") return ["paused", "amber", "Ending: puts its jobs back"];
  return ["completed", "green", "Takes jobs"];
}

function workerTable(context) {
  const note = el("span", { class: "dim" });
  const body = el("tbody");
  const box = card("Workers", { className: "fleet", side: link(context.path("workers"), "All") },
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Workers" }, el("table", { class: "stacked" }, el("caption", { class: "hidden" }, "Workers"),
      el("thead", {}, el("tr", {}, [["Worker", ""], ["Slots", "number"], ["Speed", "number"]].map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), body)));
  box.querySelector("h2").after(note);
  const fillRows = rows(body, (name) => {
    const [mark, state, slots, rate] = [el("span"), el("span", { class: "under" }), el("span"), el("td", { class: "number" })];
    const bar = progressBar();
    return {
      line: el("tr", { class: "two" }, el("th", { scope: "row" }, el("div", { class: "named" }, mark, el("div", {}, link(context.path("jobs", ["running"], { worker: name }), name), state))),
        el("td", { class: "number slots" }, slots, bar.bar), rate),
      fill({ worker, all }) {
        const [shape, tone, words] = workerState(worker, all);
        redraw(mark, [shape, tone], () => icon(shape, tone));
        write(state, context.isLive() || !words.startsWith("Silent") ? words.split(";")[0] : `Silent since ${clock(worker.seen)}`);
        state.className = `under ${tone === "green" || tone === "quiet" ? "" : tone}`;
        write(slots, count(worker.running ?? 0));
        bar.draw([[0, worker.running ?? 0]], Number(worker.slots) || 1, worker.state === "working" ? "blue" : "grey");
        bar.bar.classList.toggle("none", !(Number(worker.slots) > 0));
        write(rate, worker.state === "lost" ? "—" : speed(worker.speed ?? 0));
      },
    };
  });
  return {
    box,
    draw({ workers }) {
      if (!workers) return;
      const list = sortedWorkers(workers);
      box.hidden = list.length === 0;
      const slots = list.reduce((sum, worker) => sum + (Number(worker.slots) || 0), 0);
      const running = list.reduce((sum, worker) => sum + (worker.running ?? 0), 0);
      const first = list.slice(0, 12);
      write(note, `${slots ? `${count(running)} of ${count(slots)} slots busy` : plural(list.length, "worker")}${list.length > first.length ? `; ${count(first.length)} of ${plural(list.length, "worker")} are shown` : ""}`);
      fillRows(first.map((worker) => ({ worker, all: workers })), ({ worker }) => worker.name);
    },
  };
}

/// Workers with what is wrong first, then those that take jobs, then the quiet ones.
export function sortedWorkers(all) {
  const rank = (worker) => ({ red: 0, amber: 1, green: 2, quiet: 3 })[workerState(worker, all)[1]];
  return all.workers.map((worker) => [rank(worker), worker]).sort(([one, a], [other, b]) => one - other || a.name.localeCompare(b.name, undefined, { numeric: true })).map(([, worker]) => worker);
}

/// How many jobs a minute ended within the last ten minutes, and an hour ago. null unless there is a history by the
/// minute, which a longer range does not have.
function paceOf(history) {
  if (history?.step !== 60_000) return null;
  const mean = (list) => (list.length ? list.reduce((all, value) => all + value, 0) / list.length : 0);
  const done = history.completed.map((value, index) => value + history.failed[index]).slice(0, -1);
  return [mean(done.slice(-10)), mean(done.slice(0, 10))];
}

let chosen = 0;

export function overview(context) {
  const { queue, live, body, path, title, isOperator, header } = context;
  if (context.query.get("range") === "2d") chosen = 1;
  const sentence = el("p", { class: "lead" }, "Reading …");
  const pause = isOperator ? el("button", { type: "button", "data-changes": true, onclick: () => pauseQueue(queue, !known.overview?.paused) }, icon("pause"), el("span", {}, "Pause queue")) : null;
  title(queue);
  header(sentence, [segments("Time range of the charts", spans.map(([name]) => name), chosen, (index) => { chosen = index; context.remember({ range: index ? "2d" : null }); watch(); }), pause, context.pushButton()]);

  const problems = attention();
  const tiles = new Map(order.map((state) => {
    const [number, note] = [el("strong", { class: state === "failed" ? "failed" : "" }, "–"), el("span", { class: "dim" }, " ")];
    const address = state === "rejected" ? path("rejected") : path("jobs", [state]);
    return [state, { number, note, item: el("li", {}, link(address, el("span", { class: "tile-name" }, icon(state, tones[state]), nameOf(state)), number, note)) }];
  }));
  const traffic = lineChart("Bytes received", { note: "/s", className: "traffic" });
  const ended = columnChart("Jobs ended", [["completed", "green", "Completed"], ["failed", "red", "Failed"], ["retrying", "amber", "Retried"]], { note: "/min", className: "ended" });
  const ages = el("div", { class: "ages" });
  const forecast = el("p", { class: "dim forecast" });
  const slowed = el("div", { class: "slowed", hidden: true });
  const ageCard = card("How old the work is", { className: "age-card" }, ages, forecast, slowed);
  const [hostCard, workerCard] = [hostTable(context), workerTable(context)];
  const first = welcome(context);
  const whole = el("div", { class: "overview" }, problems.box, el("ul", { class: "strip" }, [...tiles.values()].map(({ item }) => item)),
    el("div", { class: "charts" }, traffic.box, ended.box, ageCard), el("div", { class: "tables" }, hostCard.box, workerCard.box));
  body.append(whole, first.box);
  first.box.hidden = true;

  const known = {};
  const verbs = {
    resumeQueue: () => pauseQueue(queue, false),
    retry: (group) => retryGroup(queue, group, known.overview),
    pauseHost: (host) => pauseHost(queue, host),
  };

  function draw() {
    const data = known.overview;
    if (!data) return;
    const isEmpty = Object.values(data.counts).every((number) => number === 0) && data.rejected === 0 && !data.paused;
    first.box.hidden = !isEmpty;
    if (isEmpty || (known.hosts && known.workers && known.history)) queueMicrotask(context.ready);
    whole.hidden = !first.box.hidden;
    context.setHeader(!whole.hidden);
    if (!first.box.hidden) return first.draw(data);
    const all = faults(known, { path, isOperator, isLive: context.isLive(), verbs });
    problems.draw(all);
    context.noteFaults(all);
    const { counts, workers } = data;
    const there = workers.working + workers.quiet + workers.ending;
    const hostsFailing = new Set(all.filter(({ key }) => key.startsWith("failed")).map(({ subject }) => subject)).size;
    const state = data.paused_partitions ? `The queue is paused in ${plural(data.paused_partitions, "partition")}, not in all.` : data.paused ? "The queue is paused." : hostsFailing ? `${counts.completed > counts.failed ? "Most jobs do well; " : ""}${hostsFailing === 1 ? "one host fails" : `${count(hostsFailing)} hosts fail`}.` : all.length ? "" : counts.running ? "All is well." : "Nothing runs now.";
    redraw(sentence, [data.speed, there, workers.lost, state, context.isLive(), counts.running], () => [
      ...(context.isLive() ? [counts.running ? "Receiving " : "Received "] : [`At ${clock(data.now)} it received `]), el("strong", {}, speed(data.speed)), ` with ${workers.lost ? `${count(there)} of ${plural(there + workers.lost, "worker")}` : plural(there, "worker")}. ${state[0] ? state[0].toUpperCase() + state.slice(1) : ""}`]);
    if (pause) redraw(pause, data.paused, () => [icon(data.paused ? "play" : "pause"), data.paused ? "Resume queue" : "Pause queue"]);
    const keptFor = (state) => (known.settings ? `of the last ${spanOf(keptSeconds(known.settings, state))}` : "kept for a time");
    const recent = data.failures.groups.reduce((sum, group) => sum + group.recent, 0);
    const notes = {
      running: data.running_ages ? `oldest ${age(data.running_ages.oldest / 1000)}` : "",
      queued: data.oldest_waiting ? `oldest ${short((data.now - data.oldest_waiting) / 1000)}` : "",
      scheduled: data.next_scheduled ? (data.next_scheduled > data.now ? `next in ${short((data.next_scheduled - data.now) / 1000)}` : "next is due") : "",
      paused: data.paused ? "and the queue itself" : "until resumed", failed: recent ? `+${count(recent)} in 20 min` : keptFor("failed"),
      completed: keptFor("completed"), cancelled: keptFor("cancelled"), rejected: "not valid jobs",
    };
    for (const [state, { number, note }] of tiles) {
      const value = state === "rejected" ? data.rejected : counts[state];
      write(number, count(value));
      number.classList.toggle("zero", value === 0);
      write(note, value || state === "paused" && data.paused ? notes[state] : "none");
    }
    drawAges(data);
    drawBottlenecks(data);
    hostCard.draw(known);
    workerCard.draw(known);
  }

  function drawAges(data) {
    const lines = [["queued", "Queued", data.waiting_ages, data.oldest_waiting ? data.now - data.oldest_waiting : null], ["running", "Running", data.running_ages, data.running_ages?.oldest]].filter(([, , ages]) => ages);
    redraw(ages, lines.map(([, , ages, oldest]) => [short(ages.median / 1000), short(ages.p95 / 1000), oldest && short(oldest / 1000)]), () => (lines.length === 0 ? el("p", { class: "dim" }, "Nothing waits, and nothing runs.")
      : el("table", {}, el("thead", {}, el("tr", {}, el("td"), ["half under", "95 of 100", "oldest"].map((text) => el("th", { scope: "col", class: "number" }, text)))),
        el("tbody", {}, lines.map(([state, name, ages, oldest]) => el("tr", {}, el("th", { scope: "row" }, el("span", { class: "tile-name" }, icon(state, tones[state]), name)),
          [ages.median, ages.p95, oldest ?? ages.oldest].map((value) => el("td", { class: "number" }, short(value / 1000)))))))));
    const waiting = data.counts.queued;
    const pace = paceOf(known.history);
    redraw(forecast, [waiting, pace?.map((value) => Number(value.toPrecision(2)))], () => {
      if (!waiting) return ["Nothing waits in the queue."];
      const wait = `${plural(waiting, "job")} ${waiting === 1 ? "waits" : "wait"}.`;
      if (!pace) return [wait];
      if (pace[0] <= 0) return [`${wait} None ended in the last ten minutes, so it is unknown when ${waiting === 1 ? "it is" : "they are"} done.`];
      const left = waiting / pace[0];
      const words = [`The queue of ${plural(waiting, "job")} is done in `, el("strong", {}, `about ${duration(roundly(left * 60))}`), ` at ${pace[0] < 10 ? Number(pace[0].toPrecision(2)).toLocaleString() : count(Math.round(pace[0]))} jobs a minute.`];
      const change = pace[1] > 0 ? pace[0] / pace[1] : 1;
      if (change < 0.75) words.push(" An hour ago jobs ended faster: the fleet has become slower.");
      if (change > 1.33) words.push(" An hour ago jobs ended more slowly: the fleet has become faster.");
      return words;
    });
  }
  function drawBottlenecks(data) {
    const [found, isLive] = [data.bottlenecks.slice(0, MAX_BOTTLENECKS), context.isLive()];
    slowed.hidden = found.length === 0;
    redraw(slowed, [found.map((one) => [one.cause, one.name, one.limit, one.starts, one.queued, one.running, one.scheduled, isLive ? Math.ceil((one.until ?? 0) / 1000 - data.now / 1000) : one.until]), data.bottlenecks.length], () => [
      el("h3", {}, "Slowed by"),
      el("ul", {}, found.map((one) => {
        const { what, detail } = bottleneckWords(one, data.now, isLive);
        const jobs = [one.queued ? `${count(one.queued)} queued` : "", one.running ? `${count(one.running)} running` : "", one.scheduled ? `${count(one.scheduled)} scheduled` : ""].filter(Boolean).join(", ");
        const isHost = ["host", "backoff", "host_starts", "host_rate"].includes(one.cause);
        return el("li", {}, el("span", { class: "grow any" }, isHost ? link(path("jobs", ["running"], { host: what }), what) : what[0].toUpperCase() + what.slice(1), detail ? el("span", { class: "dim" }, ` ${detail}`) : null), el("span", { class: "dim number" }, jobs));
      })),
      data.bottlenecks.length > found.length ? el("p", { class: "dim" }, `and ${count(data.bottlenecks.length - found.length)} more`) : null,
    ]);
  }
  /// An estimate of seconds, in a round unit.
  const roundly = (seconds) => (seconds > 86400 ? Math.round(seconds / 3600) * 3600 : seconds > 3600 ? Math.round(seconds / 600) * 600 : seconds > 120 ? Math.round(seconds / 60) * 60 : Math.round(seconds));

  function drawHistory(data) {
    if (!data) return;
    known.history = data;
    const seconds = data.step / 1000;
    const points = data.received.length;
    const rates = data.received.slice(0, -1).map((value) => value / seconds);
    const at = (index) => data.from + index * data.step;
    const words = (index) => `${minute(at(index))} to ${minute(at(index + 1))}`;
    const rate = known.settings?.rate;
    const now = known.overview?.speed ?? rates[rates.length - 1] ?? 0;
    const sum = data.received.reduce((all, value) => all + value, 0);
    redraw(traffic.side, [speed(now), Math.max(...rates), sum], () => [el("span", {}, "now ", el("strong", {}, speed(now))), el("span", {}, "most ", el("strong", {}, speed(Math.max(0, ...rates)))), el("span", {}, "in all ", el("strong", {}, bytes(sum)))]);
    traffic.draw({ values: rates, from: data.from, to: at(points - 1), unit: "/s", limit: typeof rate === "number" ? { value: rate, name: "limit of the queue" } : null,
      textOf: (index) => `${words(index)}, ${speed(rates[index])}`, cells: (index) => [day(at(index)), speed(rates[index])] },
    `now ${speed(now)}, most ${speed(Math.max(0, ...rates))}, ${bytes(sum)} in all`);
    const columns = data.completed.map((completed, index) => ({ completed, failed: data.failed[index], retrying: data.retrying[index] }));
    const totals = ["completed", "failed", "retrying"].map((name) => data[name].reduce((all, value) => all + value, 0));
    ended.draw({ columns, from: data.from, to: at(points), timeOf: (index) => day(at(index)),
      textOf: (index) => `${words(index)}: ${count(columns[index].completed)} completed, ${count(columns[index].failed)} failed, ${count(columns[index].retrying)} retried` },
    `${count(totals[0])} completed, ${count(totals[1])} failed, ${count(totals[2])} retried`);
    write(ended.box.querySelector(".card-head .dim"), data.step === 60_000 ? "/min" : "/30 min");
  }

  function watch() {
    const [, minutes, step] = spans[chosen];
    const take = (name) => (data) => { if (data) { known[name] = data; draw(); } };
    live.watch([
      context.subject(inQueue(queue), (data) => { known.overview = data; draw(); drawHistory(known.history); }), [inQueue(queue, "hosts"), take("hosts")], [inQueue(queue, "workers"), take("workers")],
      [inQueue(queue, "settings"), (data) => { if (data) { known.settings = data; draw(); drawHistory(known.history); } }],
      [withQuery(inQueue(queue, "history"), { minutes, step }), (data) => { drawHistory(data); draw(); }],
    ]);
  }
  watch();
  // Countdowns become clock times while nothing is live.
  addEventListener("connection", draw);
  return () => removeEventListener("connection", draw);
}
