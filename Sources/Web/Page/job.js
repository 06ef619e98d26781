// One job: how it is, why so, and what to do.

import { act, actions, icons, keyOf, keysOf, names, pauseHost } from "./actions.js";
import { answer } from "./answer.js";
import { get, getPushed, inQueue, isID, patiently, withQuery } from "./api.js";
import { hasOthers } from "./attention.js";
import { intervalBar } from "./bars.js";
import { lineChart, sparkline } from "./charts.js";
import { copier, menu } from "./dialogs.js";
import { card, el, link, redraw, write } from "./dom.js";
import { age, bytes, clock, count, day, duration, fileOf, left, percent, plural, serverNow, share, speed, time } from "./format.js";
import { icon, key, stateIcon } from "./icons.js";
import { lastList } from "./jobs.js";
import { remedy, renew } from "./remedy.js";
import { about, bottleneckWords, keptSeconds, nameOf, sizeOf, slows, waitsFor } from "./words.js";

const timestamps = new Set(["created", "started", "updated", "finished", "deadline_at", "settled_until", "timestamp", "validated", "response_dropped"]);
const sizes = new Set(["received", "total", "bytes"]);
const MAX_LINES = 300;
const MAX_SAMPLES = 600;

/// The events of a job in words: [icon, tone, what, why].
function explain(event) {
  const at = event.offset ? ` at ${bytes(event.offset)}` : "";
  const on = event.worker ? ` on ${event.worker}` : "";
  switch (event.event) {
    case "started": return ["running", "blue", `Attempt ${event.attempt ?? 1} began${on}`, event.total ? `The file has ${bytes(event.total)}.${event.resumable === false ? " The server cannot continue it: a pause costs all of it." : ""}` : ""];
    case "resumed": return ["running", "blue", `Went on${at}${on}`, ""];
    case "retrying": {
      const { title, status } = about(event.error);
      return ["waits", "amber", `Waits ${duration(Math.max(1, event.delay ?? 0))}, because ${status ? `the server answered ${status}` : title[0].toLowerCase() + title.slice(1)}`, event.message ?? ""];
    }
    case "waiting": return ["waits", "amber", waitsFor(event.why), ""];
    case "queued": return ["queued", "quiet", "Back in the queue, because its wait has ended", ""];
    case "requeued": return ["retry", "quiet", { "worker lost": `${event.worker ?? "Its worker"} was lost; its bytes were kept`, shutdown: `${event.worker ?? "Its worker"} was shut down and put the job back in the queue`, resumed: "Resumed, and back in the queue", "no slot": "Put back, because the worker had no free slot", "reply lost": "Put back, because the reply to the worker's claim was lost", wanted: "Put back for a push or a control operation that waited" }[event.why] ?? `Put back in the queue: ${event.why}`, ""];
    case "restarted": return ["retry", "amber", "Began again from nothing", event.why ? `What was received was dropped: ${event.why}.` : ""];
    case "paused": return ["paused", "amber", "Paused", "What was received is kept."];
    case "cancelled": return ["cancelled", "quiet", "Cancelled", ""];
    case "completed": return ["completed", "green", `Completed${on}`, [event.bytes !== undefined ? bytes(event.bytes) : "", event.seconds ? `in ${duration(event.seconds)}` : "", event.unchanged ? "; the file had not changed" : ""].filter(Boolean).join(" ")];
    case "failed": return ["failed", "red", `Failed: ${lower(about(event.error).title)}${about(event.error).status ? ` (${about(event.error).status})` : ""}`, event.message ?? ""];
    case "duplicate": return ["jobs", "quiet", "Pushed again, with no effect", event.reason ? `It was ${event.state} already (${event.reason}).` : ""];
    case "warning": return ["attention", "amber", event.message ?? "A warning", ""];
    default: return ["jobs", "quiet", String(event.event), ""];
  }
}
const lower = (text) => text[0].toLowerCase() + text.slice(1);
const by = (change) => (change ? ` by ${change.by}` : "");

/// What happened, the newest first: the times that the record keeps, the events that the queue has kept, and those since
/// the page was opened.
function timeline() {
  const list = el("ol", { class: "timeline", tabindex: 0, "aria-label": "What happened" });
  const trouble = el("p", { class: "padded amber", role: "status", hidden: true });
  const recorded = new Map();
  const received = new Map();
  function draw() {
    // An event says more than the record, except who stopped the job. Neither is shown twice.
    const stop = ["paused", "finished"].map((name) => recorded.get(name)).find((one) => one?.isByKnown);
    const published = [...received.values()].filter((one) => !stop || one.kind !== stop.kind || Math.abs(one.at - stop.at) >= 1500);
    const entries = [...[...recorded.entries()].filter(([name, { at }]) => name === "created" || !published.some((one) => Math.abs(one.at - at) < 1500 && one.kind === name)).map(([, entry]) => entry), ...published]
      .sort((one, other) => other.at - one.at || other.order - one.order).slice(0, MAX_LINES);
    redraw(list, entries, () => entries.map(({ at, mark, tone, text, note }) => el("li", {}, time(at, clock(at)), icon(mark, tone), el("div", {}, el("p", {}, el("strong", {}, text)), note ? el("p", { class: "dim" }, note) : null))));
  }
  const entry = (at, order, [mark, tone, text, note], kind) => ({ at, order, mark, tone, text, note, kind });
  return {
    box: card("What happened", { side: el("span", { class: "dim" }, "newest first") }, trouble, list),
    /// Says why events are missing from now on; null if they are not.
    setTrouble(failure) {
      trouble.hidden = !failure;
      write(trouble, failure ? `New events are not shown here: ${failure.message}.` : "");
    },
    /// stoppedBy: the change that paused or cancelled the job, if one was recorded.
    setJob(job, stoppedBy) {
      recorded.clear();
      const failures = Array.isArray(job.failures) ? job.failures : [];
      const first = failures[0]?.started ?? job.started;
      if (job.created) recorded.set("created", entry(job.created, 0, ["queued", "quiet", "Pushed", first ? `Waited ${duration((first - job.created) / 1000)} in the queue.` : ""]));
      if (job.started) recorded.set("started", entry(job.started, 1, ["running", "blue", `Attempt ${Math.max(failures.length, job.attempt ?? 0) + (job.state === "failed" && failures.length ? 0 : 1)} began${job.worker ? ` on ${job.worker}` : ""}`, ""], "started"));
      // The last one is what the job waits for or has ended with, which is said below.
      for (const { ended, worker, error, message } of ["scheduled", "failed"].includes(job.state) ? failures.slice(0, -1) : failures) {
        const why = error ? lower(about(error).title) : "its worker was lost";
        recorded.set(`failure ${ended}`, entry(ended, 2, ["retry", "amber", `An attempt${worker ? ` on ${worker}` : ""} failed: ${why}`, error ? message ?? "" : "What it received was kept."], error ? "retrying" : "requeued"));
      }
      if (job.state === "scheduled" && job.error) recorded.set("retrying", entry(job.updated ?? job.created, 2, ["waits", "amber", `Waits for a retry, because ${lower(about(job.error).title)}`, job.message ?? ""], "retrying"));
      if (job.finished) {
        const end = { completed: ["completed", "green", "Completed", job.total ? `${bytes(job.total)}${job.seconds ? ` in ${duration(Number(job.seconds))}` : ""}` : ""], failed: ["failed", "red", `Failed: ${lower(about(job.error).title)}${about(job.error).status ? ` (${about(job.error).status})` : ""}`, job.message ?? ""], cancelled: ["cancelled", "quiet", `Cancelled${by(stoppedBy)}`, ""] }[job.state];
        if (end) recorded.set("finished", { ...entry(job.finished, 3, end, job.state), isByKnown: Boolean(stoppedBy) });
      }
      if (job.state === "paused" && job.updated) recorded.set("paused", { ...entry(job.updated, 3, ["paused", "amber", `Paused${by(stoppedBy)}`, "What was received is kept."], "paused"), isByKnown: Boolean(stoppedBy) });
      draw();
    },
    addEvent(event) {
      if (event.event === "progress" || !event.at) return;
      received.set(`${event.epoch} ${event.seq}`, entry(event.at, event.seq ?? 0, explain(event), event.event));
      if (received.size > MAX_LINES) received.delete(received.keys().next().value);
      draw();
    },
  };
}

/// The result of each file of an upload that sends every file in a request of its own.
function sentFiles() {
  const list = el("ul", { class: "sent" });
  const box = card("Its files", {}, list);
  box.hidden = true;
  return {
    box,
    draw(job) {
      const files = Array.isArray(job.files) ? job.files : [];
      box.hidden = files.length === 0;
      redraw(list, files, () => files.map(({ file, status, error }) => el("li", {}, icon(error ? "failed" : "completed", error ? "red" : "green"), el("span", { class: "grow any" }, file), el("span", { class: error ? "red" : "" }, [error ?? "sent", status && `status ${status}`].filter(Boolean).join(", ")))));
    },
  };
}

function value(name, content) {
  if (timestamps.has(name)) return time(content);
  if (sizes.has(name)) return `${bytes(content)} (${count(content)} bytes)`;
  if (name === "speed") return speed(content);
  return typeof content === "object" ? JSON.stringify(content) : String(content);
}

/// Whether a running job's worker is lost, or no longer there.
const isSilent = (job, workers) => job.state === "running" && Boolean(job.worker && workers) && (workers.workers.find(({ name }) => name === job.worker)?.state ?? "lost") === "lost";

/// The state of a job as a sentence.
function headline(job, now, path, stoppedBy, workers) {
  const { total, received = 0 } = job;
  const part = share(job);
  const far = part !== null ? `${percent(part)} of ${bytes(total)}` : received ? bytes(received) : "";
  const doing = { request: "Sending the request", upload: "Uploading" }[job.kind] ?? "Downloading";
  const on = job.worker ? [" on ", link(path("jobs", ["running"], { worker: job.worker }), job.worker)] : [];
  const seconds = left(job);
  switch (job.state) {
    case "running": if (isSilent(job, workers)) return ["The worker ", ...on.slice(1), " is silent", far ? ` at ${far}` : "", hasOthers(workers, { name: job.worker }) ? "; the job goes on at another worker" : "; the job goes on as soon as another worker takes jobs"];
      return job.waiting ? [`${waitsFor(job.waiting)}${far ? ` at ${far}` : ""}`, ...on]
      : [`${doing}${far ? ` ${far}` : ""}${job.speed ? ` at ${speed(job.speed)}` : ""}`, ...on, seconds !== null && seconds < 1e7 ? `; ${duration(seconds)} left` : ""];
    case "queued": return [job.waiting ? waitsFor(job.waiting) : job.created ? `Waits in the queue since ${age((now - job.created) / 1000)}` : "Waits in the queue"];
    case "scheduled": {
      if (job.waiting) return [waitsFor(job.waiting)];
      const due = job.timestamp ? time(job.timestamp, job.timestamp > now ? `in ${duration((job.timestamp - now) / 1000)}` : "now") : null;
      return job.error ? ["Waits for its next retry", due && [" ", due], `, because ${lower(about(job.error).title)}`].flat().filter(Boolean) : due ? ["Starts ", due] : ["Starts at a time"];
    }
    case "paused": return [`Paused${by(stoppedBy)}${far ? ` at ${far}` : ""}`];
    case "completed": return [`Completed ${job.finished ? `${age((now - job.finished) / 1000)} ago` : ""}${total && job.kind !== "request" ? `: ${bytes(total)}${job.kind === "upload" ? " sent" : ""}` : job.status ? `: the server answered ${job.status}` : ""}`];
    case "failed": {
      const { title, status } = about(job.error);
      return [`Failed ${job.finished ? `${age((now - job.finished) / 1000)} ago` : ""}: ${lower(title).replace(/^the server/, job.host ?? "the server")}`, status ? el("span", { class: "dim" }, ` (${status})`) : ""];
    }
    default: return [`Cancelled${by(stoppedBy)} ${job.finished ? `${age((now - job.finished) / 1000)} ago` : ""}`];
  }
}

export function job(context) {
  const { queue, rest, live, body, path, isOperator, keys, heading } = context;
  const id = rest[0] ?? "";
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Where this job is" });
  const [mark, file] = [el("span"), el("strong", { class: "any" })];
  const tools = el("div", { class: "job-tools", role: "group", "aria-label": "What to do with this job" });
  context.title(`Job ${id}`);
  context.header(null, [tools]);
  heading.before(crumbs, el("p", { class: "job-name" }, mark, file, copier("Copy the id", () => id)));
  write(file, id);
  heading.className = "headline";
  write(heading, "Reading …");
  const trouble = el("section", { class: "remedy", hidden: true });
  const note = el("p", { class: "hit", hidden: true });
  const bar = intervalBar();
  const diskNote = el("span", { class: "dim" });
  const legend = el("ul", { class: "legend" }, [["blue", "On disk"], ["way", "On its way"], ["mark", "A connection"]].map(([tone, words]) => el("li", {}, el("span", { class: `swatch ${tone}` }), words)));
  const disk = card("What is on disk", { side: legend }, bar.box);
  disk.querySelector("h2").after(diskNote);
  const chart = lineChart("Speed", { note: "since this page was opened" });
  const lines = timeline();
  const [reply, files] = [answer(isOperator), sentFiles()];
  const facts = el("dl", { class: "about" });
  const folds = el("div", { class: "folds" });
  const aboutCard = card("About this job", {}, facts, folds);
  const spark = sparkline("red");
  const othersText = el("p", { class: "dim" });
  const othersTools = el("div", { class: "tools" });
  const others = card("Others like this", {}, el("div", { class: "others" }, spark.drawing, othersText), othersTools);
  others.hidden = true;
  const grid = el("div", { class: "job" });
  grid.append(disk, el("div", { class: "job-main" }, chart.box, reply.box, files.box, lines.box), el("div", { class: "job-side" }, aboutCard, others));
  body.append(trouble, note, grid);
  for (const box of [disk, chart.box, reply.box]) box.hidden = true;

  const samples = [];
  let shownConnections = 0;
  let current = null;

  function openFold(name, sideText, read) {
    const content = el("div", { class: "fold-body" });
    const fold = el("details", { class: "fold" }, el("summary", {}, el("span", { class: "grow" }, name), el("span", { class: "dim" }, sideText)), content);
    fold.addEventListener("toggle", () => { if (fold.open) read(content); });
    return { fold, content };
  }
  const meta = openFold("Details given by the producer", "", () => {});
  const pushed = openFold("What was pushed", isOperator ? "holds secrets" : "only for operators", async (content) => {
    if (!isOperator) return content.replaceChildren(el("p", { class: "dim" }, "Operators see it."));
    const text = el("pre", { tabindex: 0, "aria-label": "What was pushed" }, "Reading …");
    content.replaceChildren(text);
    try { text.textContent = JSON.stringify(await getPushed(queue, id), null, 2); } catch (error) { text.textContent = error.message; }
  });
  const raw = openFold("Raw record", "", () => {});
  const rawList = el("dl", { class: "raw" });
  raw.content.append(rawList);
  folds.append(meta.fold, pushed.fold, raw.fold);

  function draw(data) {
    current = data;
    queueMicrotask(context.ready);
    const now = serverNow();
    const { name, folder } = fileOf(data);
    document.title = `${name} · Haul`;
    write(file, name);
    redraw(mark, [data.state, data.waiting, data.kind], () => stateIcon(data));
    redraw(crumbs, [data.state, folder], () => [link(path("jobs"), "Jobs"), icon("right"), link(path("jobs", [data.state]), nameOf(data.state)), folder ? [icon("right"), el("span", { class: "clip" }, folder)] : null]);
    const words = headline(data, now, path, stoppedBy, workersData);
    redraw(heading, words.map((part) => part.textContent ?? part), () => words);
    trouble.hidden = data.state !== "failed";
    const keptUntil = data.finished && keepFailed ? data.finished + keepFailed * 1000 : null;
    if (data.state === "failed") redraw(trouble, [data.error, data.message, data.retryable, keptUntil], () => remedy(data, keptUntil));

    const isDownload = !data.kind;
    disk.hidden = !isDownload || (data.state !== "completed" && !data.offsets?.length && !data.received && data.state !== "running");
    const ranges = data.state === "completed" ? [[0, data.total ?? data.received ?? 1]] : data.offsets ?? [];
    grid.classList.toggle("narrow", data.state !== "running");
    if (!disk.hidden) {
      bar.draw(data, ranges, shownConnections);
      const sum = ranges.reduce((many, [from, to]) => many + to - from, 0);
      write(diskNote, data.state === "completed" ? "The whole file" : ranges.length === 0 ? "Nothing yet" : `${data.state === "running" ? bytes(sum) : data.total ? `${bytes(sum)} of ${bytes(data.total)}` : bytes(sum)} in ${plural(ranges.length, "range")}${data.state === "running" ? ", safe at every moment" : ""}`);
      legend.hidden = data.state !== "running";
    }
    if (data.state === "running" && data.speed !== undefined && data.kind !== "request") {
      samples.push([now, data.waiting ? 0 : data.speed ?? 0]);
      if (samples.length > MAX_SAMPLES) samples.shift();
    }
    chart.box.hidden = samples.length === 0 || (data.state !== "running" && samples.length < 3);
    if (!chart.box.hidden) {
      const values = samples.map(([, rate]) => rate);
      const mean = values.reduce((sum, rate) => sum + rate, 0) / values.length;
      redraw(chart.side, [speed(values.at(-1)), speed(mean)], () => [el("span", {}, "now ", el("strong", {}, speed(values.at(-1)))), el("span", {}, "average ", el("strong", {}, speed(mean)))]);
      chart.draw({ values, from: samples[0][0], to: samples.at(-1)[0], unit: "/s", textOf: (index) => `${clock(samples[index][0])}, ${speed(values[index])}`, cells: (index) => [clock(samples[index][0]), speed(values[index])] }, `now ${speed(values.at(-1))}`);
    }
    reply.draw(data);
    files.draw(data);
    lines.setJob(data, stoppedBy);
    askWhoStopped(data);
    drawFacts(data, now);
    drawTools(data);
    drawOthers(data);
  }

  /// Finds who paused or cancelled the job. The timestamp of a control operation that stops a job becomes its
  /// `settled_until`.
  let stoppedBy;
  let askedFor;
  async function askWhoStopped(data) {
    const stopped = ["paused", "cancelled"].includes(data.state) ? data.settled_until : undefined;
    if (stopped === askedFor) return;
    askedFor = stopped;
    stoppedBy = undefined;
    if (!stopped) return;
    const found = await get(withQuery(inQueue(queue, "changes"), { limit: 1000 })).catch(() => null);
    if (askedFor !== stopped || !context.isShown()) return;
    // A job that has joined a stopped batch was pushed after the operation, so that it has another timestamp.
    const batches = (data.batch ?? "").split(" ");
    const ofBatch = found?.changes.find(({ batch }) => batch && batches.includes(batch));
    const isStopped = ofBatch?.action === { paused: "pause", cancelled: "cancel" }[data.state];
    stoppedBy = found?.changes.find(({ at }) => at === stopped) ?? (isStopped ? ofBatch : undefined);
    if (stoppedBy && current) draw(current);
  }

  function drawFacts(data, now) {
    const url = data.url ?? "";
    const host = data.host;
    const after = host ? url.slice(url.indexOf(host) + host.length) : url;
    const deadline = data.deadline_at;
    const batches = (data.batch ?? "").split(" ").filter(Boolean);
    const steps = (data.steps ?? "").split(" ").filter(Boolean);
    const slowedBy = (overviewData?.bottlenecks ?? []).filter((one) => slows(one, data)).map((one) => bottleneckWords(one, now, context.isLive())).map(({ what, detail }) => (detail ? `${what}: ${detail}` : what));
    const list = [
      ["Slowed by", slowedBy.length ? el("span", { class: "any" }, slowedBy.join("; ")) : null],
      ["From", host ? [el("span", { class: "any" }, link(path("jobs", ["running"], { host }), host), after), copier("Copy the URL", () => url)] : url || null],
      ["To", data.file ?? data.path ? [el("span", { class: "any" }, data.file ?? data.path), copier("Copy the path", () => data.file ?? data.path)] : null],
      ["Kind", data.kind ? [nameOf(data.kind), data.method ? ` (${data.method})` : ""] : null],
      ["Worker", data.worker ? link(path("jobs", ["running"], { worker: data.worker }), data.worker) : null],
      ["Batch", batches.length ? batches.flatMap((name) => [link(path("batches", [name]), name), " "]) : null],
      ["Group", data.group ? link(path("jobs", ["running"], { group: data.group }), data.group) : null],
      ["Next", steps.length ? steps.flatMap((step) => [link(path("job", [step]), step), " "]) : null],
      ["Retries", data.attempt ? `${count(data.attempt)} in a row used; progress gives them back` : null],
      ["Pushed", data.created ? time(data.created, `${age((now - data.created) / 1000)} ago`) : null],
      ["Deadline", deadline ? [time(deadline, day(deadline)), el("span", { class: "dim" }, deadline > now ? ` in ${duration((deadline - now) / 1000)}` : " has passed")] : null],
      ["Check", data.checksum ? [el("code", { class: "any" }, data.checksum), copier("Copy the checksum", () => data.checksum)] : null],
      ["Id", [el("code", { class: "any" }, id), copier("Copy the id", () => id)]],
    ].filter(([, content]) => content);
    redraw(facts, [slowedBy, url, data.file, data.path, data.worker, data.batch, data.group, data.steps, data.attempt, deadline, data.checksum, data.kind, data.method, Math.floor((now - data.created) / 60_000)], () => list.flatMap(([name, content]) => [el("dt", {}, name), el("dd", {}, content)]));
    meta.fold.hidden = data.meta === undefined;
    if (data.meta !== undefined) {
      const text = JSON.stringify(data.meta);
      write(meta.fold.querySelector(".dim"), text.length > 24 ? "" : text);
      redraw(meta.content, data.meta, () => el("pre", { tabindex: 0, "aria-label": "Details given by the producer" }, JSON.stringify(data.meta, null, 2)));
    }
    const all = Object.keys(data).filter((name) => !["body", "body_base64", "headers", "offsets"].includes(name)).sort();
    write(raw.fold.querySelector(".dim"), plural(all.length, "field"));
    redraw(rawList, all.map((name) => [name, data[name]]), () => all.flatMap((name) => [el("dt", {}, el("code", {}, name)), el("dd", {}, value(name, data[name]))]));
  }

  let shownTools = "";
  const run = (action) => act(queue, action, { ids: [id], state: current.state }, 1, [current]);
  function drawTools(data) {
    if (!isOperator || shownTools === data.state + data.error) return;
    shownTools = data.state + data.error;
    const verbs = [...actions[data.state], ...(data.state === "completed" && data.file ? ["delete"] : [])];
    const renews = data.state === "failed" && ["http_401", "http_403", "http_404", "http_410"].includes(data.error);
    const isLasting = (action) => ["cancel", "remove", "delete"].includes(action);
    const shownVerbs = verbs.filter((action) => action !== "remove" && action !== "delete");
    const canSave = data.state === "completed" && !data.kind && context.session.files.includes(queue);
    tools.replaceChildren(...[
      canSave ? el("a", { class: "button", href: `api/${inQueue(queue, "jobs", id, "file")}`, download: "" }, icon("down"), "Save the file") : null,
      renews ? el("button", { type: "button", class: "main", onclick: () => renew(context, id, current) }, icon("edit"), "Push with a new URL…") : null,
      ...shownVerbs.map((action) => el("button", { type: "button", class: isLasting(action) ? "danger" : "", "data-changes": true, onclick: () => run(action) }, icon(icons[action]),
        action === "retry" && renews ? "Retry as it is" : `${names[action]}${isLasting(action) ? "…" : ""}`, keyOf(data.state, action) ? key(keyOf(data.state, action)) : null)),
      menu("More actions", [
        ...verbs.filter((action) => !shownVerbs.includes(action)).map((action) => [icons[action], `${names[action]}…`, () => run(action), "danger"]),
        renews ? null : ["edit", "Push with a new URL…", () => renew(context, id, current)], ["copy", "Copy the URL", () => navigator.clipboard?.writeText(data.url ?? "")],
        ["jobs", `All that are ${data.state}`, () => { location.hash = path("jobs", [data.state]); }],
      ]),
    ].filter(Boolean));
    const own = Object.fromEntries(keysOf(data.state));
    keys.add(Object.fromEntries(["s", "r", "c"].map((name) => [name, () => { if (current && own[name]) run(own[name]); }])));
  }

  function drawOthers(data) {
    const group = data.state === "failed" ? overviewData?.failures.groups.find((one) => one.error === data.error && one.host === data.host) : null;
    others.hidden = !group || group.count < 2;
    if (!group) return;
    spark.draw(group.hour, Math.max(...group.hour), `${plural(group.hour.reduce((sum, number) => sum + number, 0), "failure")} in the last hour`);
    const isWhole = sizeOf(group, overviewData) !== null;
    const shown = [group.error, group.host, group.count, isWhole];
    redraw(othersText, shown, () => [isWhole ? "" : "At least ", el("strong", {}, plural(group.count, "job")), ` failed with ${group.error} at ${group.host}.`]);
    redraw(othersTools, shown, () => [el("a", { class: "button small", href: path("jobs", ["failed"], { error: group.error, host: group.host }) }, isWhole ? `Show all ${count(group.count)}` : "Show all"),
      isOperator && group.host !== "unknown" ? el("button", { type: "button", class: "small", onclick: () => pauseHost(queue, group.host) }, icon("pause"), "Pause this host") : null]);
  }

  keys.add({
    Escape: () => history.back(), y: () => navigator.clipboard?.writeText(current?.url ?? ""),
    "[": () => step(-1), "]": () => step(1),
  });
  function step(many) {
    const next = lastList[lastList.indexOf(id) + many];
    if (lastList.includes(id) && next) location.hash = path("job", [next]);
  }

  let [overviewData, workersData] = [null, null];
  let keepFailed = null;
  if (!isID(id)) {
    write(heading, "This is not a job");
    note.hidden = false;
    write(note, `“${id}” is not a valid job id: it has 1 to 128 of the characters A-Z a-z 0-9 . _ : -`);
    aboutCard.hidden = true;
    lines.box.hidden = true;
    context.ready();
    live.watch([]);
    return;
  }
  const resource = inQueue(queue, "jobs", id);
  live.watch([[inQueue(queue), (data) => { if (data) { overviewData = data; if (current) draw(current); } }], [inQueue(queue, "workers"), (data) => { if (data) { workersData = data; if (current) draw(current); } }], [inQueue(queue, "settings"), (data) => { if (data) keepFailed = keptSeconds(data, "failed"); }], [resource, (data, problem) => {
    context.unreadable(null);
    if (data) { note.hidden = true; aboutCard.hidden = lines.box.hidden = false; return draw(data); }
    if (problem.error !== "not_found") {
      if (!current) write(heading, "This job cannot be read");
      return context.unreadable(problem);
    }
    shownTools = "";
    current = null;
    write(heading, "This job is not known");
    note.hidden = false;
    write(note, "No worker has seen it, or it has been removed.");
    context.ready();
    tools.replaceChildren();
    for (const box of [disk, chart.box, reply.box, aboutCard, lines.box, trouble, others]) box.hidden = true;
    lookInQueue();
  }]], [`${queue}/${id}`, (event) => {
    if (event.event === "progress") { shownConnections = event.connections ?? 0; return; }
    lines.addEvent(event);
  }, lines.setTrouble]);

  // What a queue with a stream of events has kept.
  patiently(`${resource}/events`).then(({ events }) => events.forEach(lines.addEvent), () => {});

  // Looks for the job in the queue. This is done only once, since the server reads all waiting elements for it. When a
  // worker sees the job, the stream reports the change.
  async function lookInQueue() {
    const data = await patiently(`${resource}?line=true`).catch(() => null);
    if (!data || current || !context.isShown()) return;
    aboutCard.hidden = false;
    draw(data);
    note.hidden = false;
    write(note, "No worker has seen it yet.");
  }

}
