// Jobs by state: a page of rows, filters, and actions for many jobs at once.

import { inQueue, isID, patiently, send, withQuery } from "./api.js";
import { batchLinks, confirmed, el, field, link, rows, table, showMessage, write } from "./dom.js";
import { count, progress, speed, time } from "./format.js";

const states = ["queued", "scheduled", "running", "paused", "completed", "failed", "cancelled"];
const LIMIT = 100;
/// The actions that are of use in each state.
export const actions = {
  queued: ["pause", "cancel", "remove"], scheduled: ["resume", "pause", "cancel", "remove"],
  running: ["pause", "cancel", "remove"], paused: ["resume", "cancel", "remove"], completed: ["remove"],
  failed: ["retry", "remove"], cancelled: ["remove"],
};
const names = {
  pause: "Pause", resume: "Resume", retry: "Retry", cancel: "Cancel", remove: "Remove", delete: "Delete the file",
};
/// The actions that cannot be undone, and what they do.
const lasting = {
  cancel: "It ends for good: what has arrived is deleted, and it cannot be resumed or retried.",
  remove: "It ends, if it has not ended yet, and is forgotten. What has arrived is deleted; a finished file stays.",
  delete: "The finished file is deleted from the disk, and the job is forgotten.",
};
/// Why a job waits, as the record of the job says it.
const reasons = {
  host: "for its host, which has a limit or asked for a pause", disk: "for space on the disk",
  store: "for a worker that has its file", replicas: "for replicas of Redis to have its end",
};
export const waitsFor = (reason) => `It waits ${reasons[reason] ?? `for ${reason}`}.`;
export const title = (action) => names[action];

/// Requests an action. Asks the user first if it cannot be undone; `loss` is one more sentence about that. Returns
/// whether the request succeeded.
export async function act(queue, action, body, many, loss = "") {
  const verb = action === "delete" ? "Yes, delete" : `Yes, ${action}`;
  if (lasting[action] && !(await confirmed(`${names[action]} ${many}?`, `${lasting[action]} ${loss}`, verb))) return false;
  try {
    const answer = await send("POST", inQueue(queue, "control"), { action, ...body });
    showMessage(`${names[action]}: asked for ${count(answer.requested)} ${answer.requested === 1 ? "job" : "jobs"}${answer.more ? "; there are more" : ""}.`);
    return true;
  } catch (error) {
    showMessage(`${names[action]}: ${error.message}`);
    return false;
  }
}

/// The row of one job. It is filled again when the job changes.
function row(context, chosen, changed) {
  const box = el("input", { type: "checkbox" });
  const [name, what, note, kind] = [el("a"), el("div", { class: "any" }), el("div", { class: "dim any" }), el("div", { class: "dim" })];
  const batch = el("div", { class: "dim" });
  const bar = el("progress", { max: 1 });
  const [far, rate, worker, when] = [el("div", { class: "dim" }), el("td", { class: "number lesser" }), el("td", { class: "any less" }), el("td", { class: "less" })];
  const line = el("tr", {},
    context.isOperator ? el("td", {}, box) : null,
    el("th", { scope: "row", class: "any" }, name, kind, batch), el("td", { class: "any lesser" }, what, note), el("td", {}, bar, far), rate, worker, when);
  let id;
  let shown;
  box.addEventListener("change", () => { if (box.checked) chosen.add(id); else chosen.delete(id); changed(); });
  return {
    line,
    fill(job) {
      id = job.id;
      box.checked = chosen.has(id);
      box.setAttribute("aria-label", `Choose ${id}`);
      const text = JSON.stringify(job);
      if (text === shown) return;
      shown = text;
      write(name, id);
      name.setAttribute("href", context.path("job", [id]));
      write(what, job.file ?? job.path ?? [job.method, job.url].filter(Boolean).join(" "));
      write(kind, job.kind ?? "download");
      batch.replaceChildren(...(job.batch ? ["batch ", ...batchLinks(job.batch, context.path)] : []));
      write(note, [job.error, job.message, job.waiting && `waiting: ${job.waiting}`, job.file || job.path ? job.url : null].filter(Boolean).join(" · "));
      const { text: label, share } = progress(job);
      bar.hidden = share === null || job.state === "completed";
      if (share !== null) bar.value = share;
      bar.setAttribute("aria-label", label);
      write(far, job.status ? `status ${job.status}` : label);
      write(rate, job.state === "running" && job.speed ? speed(job.speed) : "");
      write(worker, job.worker ?? "");
      when.replaceChildren(time(job.finished ?? job.timestamp ?? job.started ?? job.created));
    },
  };
}

export function jobs(context) {
  const { queue, rest, query, live, body, path } = context;
  const state = states.includes(rest[0]) ? rest[0] : "running";
  const from = Math.max(0, Number(query.get("from")) || 0);
  const filter = Object.fromEntries(["q", "host", "error", "worker", "batch"].map((name) => [name, (query.get(name) ?? "").trim()]));
  const isFiltered = Object.values(filter).some(Boolean);
  context.title(`Jobs: ${state}`);

  const tabs = new Map(states.map((name) => {
    const number = el("span");
    const item = link(path("jobs", [name], filter), name, " ", number);
    if (name === state) item.setAttribute("aria-current", "page");
    return [name, { item, number }];
  }));
  const inputs = Object.fromEntries(Object.entries({ q: "Search (id, URL, file, message)", host: "Host", error: "Error", worker: "Worker", batch: "Batch" })
    .map(([name, label]) => [name, { label, input: el("input", { name, value: filter[name], type: name === "q" ? "search" : "text" }) }]));
  const form = el("form", { class: "row", role: "search" },
    field(inputs.q.label, inputs.q.input),
    el("details", { open: Boolean(filter.host || filter.error || filter.worker || filter.batch) }, el("summary", {}, "More filters"),
      el("div", { class: "row" }, ["host", "error", "worker", "batch"].map((name) => field(inputs[name].label, inputs[name].input)))),
    el("button", { class: "main" }, "Search"), isFiltered ? link(path("jobs", [state]), "Clear") : null);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = path("jobs", [state], Object.fromEntries(Object.entries(inputs).map(([name, { input }]) => [name, input.value.trim()])));
  });

  const chosen = new Set();
  let total = 0;
  let lines = [];
  let more = [];
  let isOver = false;

  const summary = el("p", { class: "dim", role: "status" }, "Reading …");
  const hit = el("p", { hidden: true });
  const { box, body: lineBody } = table(`Jobs that are ${state}`, [
    ...(context.isOperator ? [["Choose", ""]] : []), ["Job", ""], ["What", "lesser"], ["Progress", ""], ["Speed", "number lesser"], ["Worker", "less"],
    [state === "scheduled" ? "Due" : "When", "less"],
  ]);
  const fillRows = rows(lineBody, () => row(context, chosen, draw));
  const all = el("input", { type: "checkbox" });
  const whole = el("input", { type: "checkbox" });
  const wholeLabel = el("span");
  const buttons = actions[state].map((action) => el("button", {
    type: "button", class: lasting[action] ? "danger" : "", disabled: true,
    onclick: async () => {
      const where = { where: { state, ...filter }, limit: 100_000 };
      const isWhole = whole.checked;
      const many = isWhole ? `every job that is ${state}${isFiltered ? " and matches the search" : ""}` : `${count(chosen.size)} ${chosen.size === 1 ? "job" : "jobs"}`;
      if (await act(queue, action, isWhole ? where : { ids: [...chosen] }, many)) {
        chosen.clear();
        whole.checked = false;
        draw();
      }
    },
  }, names[action]));
  const tools = el("div", { class: "row center", role: "group", "aria-label": "What to do with the chosen jobs" },
    el("label", {}, all, " Choose this page"), el("label", {}, whole, " ", wholeLabel), buttons);
  all.addEventListener("change", () => { for (const job of lines) if (all.checked) chosen.add(job.id); else chosen.delete(job.id); draw(); });
  whole.addEventListener("change", () => draw());

  const pager = el("nav", { class: "row center", "aria-label": "Pages of the list" });
  body.append(el("ul", { class: "states" }, [...tabs.values()].map(({ item }) => el("li", {}, item))), form, hit, summary,
    context.isOperator ? tools : "", box, pager);

  function draw() {
    fillRows(lines, (job) => job.id);
    all.checked = lines.length > 0 && lines.every((job) => chosen.has(job.id));
    write(wholeLabel, isFiltered ? "All that match" : `All ${count(total)}`);
    for (const button of buttons) button.disabled = !whole.checked && chosen.size === 0;
    if (lines.length === 0 && isOver) write(summary, isFiltered ? "No job matches." : `No job is ${state}.`);
    else write(summary, `${isFiltered ? found() : `${count(from + 1)} to ${count(from + lines.length)} of ${count(total)}.`}${chosen.size ? ` ${count(chosen.size)} chosen.` : ""}`);
    const turn = (place, name) => link(path("jobs", [state], { from: place || "" }), name);
    pager.replaceChildren(...(isFiltered ? [] : [
      from > 0 ? turn(Math.max(0, from - LIMIT), "Page before") : "", from + LIMIT < total ? turn(from + LIMIT, "Next page") : "",
      from > 0 ? turn(0, "First page") : "",
    ]).filter(Boolean));
  }

  function found() {
    if (!isOver) return `${count(lines.length)} found so far: ${Math.floor(100 * Math.min(1, next / Math.max(1, total)))} % of ${count(total)} looked at.`;
    return `${count(lines.length)} found${lines.length < LIMIT ? "" : ", and perhaps more,"} among ${count(total)}.`;
  }

  // With a filter, the server examines a limited number of jobs in each call. The page calls it again until a page of
  // rows is full.
  let isCurrent = true;
  let next = from;
  let isSearching = false;
  const place = (start) => withQuery(inQueue(queue, "jobs"), { state, from: start || "", limit: LIMIT, ...filter });
  async function searchOn() {
    if (isSearching) return;
    isSearching = true;
    try {
      while (isCurrent && next !== undefined && lines.length < LIMIT) {
        const page = await patiently(place(next));
        if (!isCurrent) return;
        more.push(...page.jobs);
        total = page.total;
        next = page.next;
        isOver = next === undefined;
        lines = unique([...lines, ...page.jobs]);
        draw();
      }
      isOver = true;
      draw();
    } catch (error) { showMessage(error.message); } finally { isSearching = false; }
  }
  const unique = (list) => [...new Map(list.map((job) => [job.id, job])).values()];

  let isBegun = false;
  async function search() {
    // A job with exactly this id is shown first, whatever its state is.
    if (isID(filter.q)) {
      const job = await patiently(`${inQueue(queue, "jobs", filter.q)}?line=true`).catch(() => null);
      if (!isCurrent) return;
      hit.hidden = !job;
      if (job) hit.replaceChildren("The job ", link(path("job", [job.id]), job.id), ` is ${job.state}.`);
    }
    isBegun = true;
    await searchOn();
  }
  if (isFiltered) search();
  live.watch([
    [inQueue(queue), (data) => { if (data) for (const [name, tab] of tabs) write(tab.number, count(data.counts[name])); }],
    [place(from), (data, trouble) => {
      if (trouble) return write(summary, trouble.message);
      total = data.total;
      lines = unique([...data.jobs, ...more]);
      if (!isFiltered || data.next === undefined || lines.length >= LIMIT) isOver = true;
      draw();
      // An error has ended the search: continue it.
      if (!isOver && isBegun) searchOn();
    }],
  ]);
  return () => { isCurrent = false; };
}
