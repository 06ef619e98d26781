// Batches: sets of jobs that are counted together.

import { inQueue, isID, withQuery } from "./api.js";
import { el, link, rows, table, write } from "./dom.js";
import { count, time } from "./format.js";
import { act, title } from "./jobs.js";

const LIMIT = 100;
const ended = ["completed", "failed", "cancelled", "rejected"];
const unended = ["queued", "scheduled", "running", "paused"];

/// How far a batch is: text, and a share from 0 to 1. Without a size, the number of jobs still to come is unknown.
function progress(batch) {
  const over = ended.reduce((sum, name) => sum + batch[name], 0);
  const all = Math.max(batch.size ?? 0, over + batch.pending, 1);
  const share = over / all;
  return { share, text: `${Math.floor(share * 100)} % of ${count(all)}${batch.size ? "" : " until now"}` };
}

function stateOf(batch) {
  if (batch.finished) return batch.failed || batch.rejected ? ["over, with failures", "bad"] : ["over", "good"];
  if (batch.wanted) return [`to be ${batch.wanted}`, "warn"];
  return batch.pending ? ["pending", ""] : ["waiting for jobs", ""];
}

export function batches(context) {
  return context.rest[0] ? one(context, context.rest[0]) : list(context);
}

function row(path) {
  const [name, bar, far] = [el("a"), el("progress", { max: 1 }), el("div", { class: "dim" })];
  const numbers = ["pending", "completed", "failed", "cancelled", "rejected"].map((state) =>
    [state, el("td", { class: ["cancelled", "rejected"].includes(state) ? "number less" : "number lesser" })]);
  const [size, state, begun] = [el("td", { class: "number less" }), el("td"), el("td", { class: "less" })];
  const line = el("tr", {}, el("th", { scope: "row", class: "any" }, name), el("td", {}, bar, far), numbers.map(([, cell]) => cell), size, state, begun);
  let shown;
  return {
    line,
    fill(batch) {
      const text = JSON.stringify(batch);
      if (text === shown) return;
      shown = text;
      write(name, batch.name);
      name.setAttribute("href", path("batches", [batch.name]));
      const { share, text: label } = progress(batch);
      bar.value = share;
      bar.setAttribute("aria-label", `${batch.name}: ${label}`);
      // The columns with these numbers are hidden on a small screen.
      write(far, `${label}${batch.failed ? `, ${count(batch.failed)} failed` : ""}`);
      for (const [name, cell] of numbers) {
        write(cell, count(batch[name]));
        cell.classList.toggle("bad", name !== "pending" && name !== "completed" && name !== "cancelled" && batch[name] > 0);
      }
      write(size, batch.size ? count(batch.size) : "");
      [state.textContent, state.className] = stateOf(batch);
      begun.replaceChildren(time(batch.created));
    },
  };
}

function list({ queue, query, live, body, path, title }) {
  const from = Math.max(0, Number(query.get("from")) || 0);
  title("Batches");
  const note = el("p", { class: "dim", role: "status" }, "Reading …");
  const { box, body: lines } = table("Batches", [
    ["Batch", ""], ["Ended", ""], ["Pending", "number lesser"], ["Completed", "number lesser"], ["Failed", "number lesser"], ["Cancelled", "number less"],
    ["Rejected", "number less"], ["Size", "number less"], ["State", ""], ["Begun", "less"],
  ]);
  const fillRows = rows(lines, () => row(path));
  const pager = el("nav", { class: "row center", "aria-label": "Pages of the list" });
  body.append(note, el("p", { class: "dim" }, "The newest first. Jobs are counted from when a worker has seen them."), box, pager);
  live.watch([[withQuery(inQueue(queue, "batches"), { from: from || "", limit: LIMIT }), (data, trouble) => {
    if (trouble) return write(note, trouble.message);
    write(note, data.total === 0 ? "There are no batches: a job joins one with its field batch." : `${count(data.batches.length)} of ${count(data.total)}.`);
    fillRows(data.batches, (batch) => batch.name);
    pager.replaceChildren(...[
      from > 0 ? link(path("batches", [], { from: Math.max(0, from - LIMIT) || "" }), "Page before") : "",
      data.next !== undefined ? link(path("batches", [], { from: data.next }), "Next page") : "",
    ].filter(Boolean));
  }]]);
}

/// The actions for a whole batch. Each has a text that names the jobs concerned, and a function that says whether the
/// action is of use.
const asked = {
  pause: ["every job of the batch that has not ended", (batch) => batch.pending],
  resume: ["every paused job of the batch", (batch) => batch.pending],
  retry: ["every failed job of the batch", (batch) => batch.failed],
  cancel: ["every job of the batch that has not ended, and those that still come", (batch) => batch.pending || !batch.finished],
};

function one(context, name) {
  const { queue, live, body, path, isOperator } = context;
  context.title(`Batch ${name}`);
  const [state, far, bar, trouble] = [el("strong"), el("span"), el("progress", { max: 1 }), el("p", { class: "bad" })];
  const tiles = new Map(["pending", ...ended].map((what) => {
    const number = el("strong", {}, "–");
    const place = what === "rejected" ? path("rejected") : path("jobs", [what === "pending" ? "running" : what], { batch: name });
    return [what, { number, item: el("li", {}, link(place, number, what)) }];
  }));
  const buttons = Object.entries(asked).map(([action, [many]]) => el("button", {
    type: "button", class: action === "cancel" ? "danger" : "", disabled: true,
    onclick: () => act(queue, action, { batch: name }, `${many} ${name}`),
  }, title(action)));
  const tools = el("div", { class: "row", role: "group", "aria-label": "What to do with the whole batch" }, buttons);
  const facts = el("dl");
  body.append(el("p", {}, "It is ", state, ". ", far), bar, trouble, isOperator ? tools : "",
    el("ul", { class: "counts" }, [...tiles.values()].map(({ item }) => item)),
    el("p", {}, "Those that have not ended: ", unended.flatMap((what) => [link(path("jobs", [what], { batch: name }), what), " "])),
    el("section", { class: "card" }, el("h2", {}, "Record"), facts));

  function draw(batch) {
    write(trouble, "");
    [state.textContent, state.className] = stateOf(batch);
    const { share, text } = progress(batch);
    write(far, `${text} ended.`);
    bar.value = share;
    bar.setAttribute("aria-label", `${name}: ${text} ended`);
    for (const [what, { number }] of tiles) write(number, count(batch[what]));
    Object.values(asked).forEach(([, isOfUse], index) => { buttons[index].disabled = !isOfUse(batch); });
    const known = [
      ["Size", batch.size ? `${count(batch.size)} jobs` : "no job has announced it, so the batch never ends"], ["Begun", time(batch.created)],
      batch.finished ? ["Over since", time(batch.finished)] : null, ["How often it was over", count(batch.round)],
      batch.wanted ? ["Later jobs are", batch.wanted] : null, batch.reply_to.length ? ["Its end is sent to", batch.reply_to.join(", ")] : null,
    ].filter(Boolean);
    facts.replaceChildren(...known.flatMap(([what, value]) => [el("dt", {}, what), el("dd", {}, value)]));
  }
  if (!isID(name)) {
    write(state, "not known");
    write(trouble, `“${name}” is not a valid batch name: it has 1 to 128 of the characters A-Z a-z 0-9 . _ : -`);
    live.watch([]);
    return;
  }
  live.watch([[inQueue(queue, "batches", name), (data, problem) => {
    if (data) return draw(data);
    if (problem.error !== "not_found") return;
    write(state, "not known");
    write(far, "");
    for (const button of buttons) button.disabled = true;
    write(trouble, "No worker has seen a job of it yet, or it was forgotten.");
  }]]);
}
