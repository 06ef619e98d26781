// Batches: sets of jobs that are counted together.

import { act } from "./actions.js";
import { inQueue, isID, withQuery } from "./api.js";
import { partsBar } from "./bars.js";
import { ask, menu } from "./dialogs.js";
import { card, el, link, redraw, rows, write } from "./dom.js";
import { ago, count, duration, percent, plural, serverNow, time } from "./format.js";
import { icon, key, tones } from "./icons.js";
import { keptSeconds } from "./words.js";

const LIMIT = 100;
const ended = ["completed", "failed", "cancelled", "rejected"];
const unended = ["queued", "scheduled", "running", "paused"];
/// The parts of a bar: state, its tone, its name.
const kinds = [["completed", "green", "Completed"], ["pending", "blue", "Pending"], ["failed", "red", "Failed"], ["rejected", "amber", "Rejected"], ["cancelled", "hollow", "Cancelled"]];

/// How far a batch is: from 0 to 1, and of how many jobs. Without a size, the number of jobs still to come is unknown.
function progress(batch) {
  const over = ended.reduce((sum, name) => sum + batch[name], 0);
  const all = Math.max(batch.size ?? 0, over + batch.pending, 1);
  return { share: over / all, all, over };
}

/// How it goes: [icon, tone, words, more].
function stateOf(batch) {
  const failed = batch.failed + batch.rejected;
  const after = batch.finished && batch.created ? `in ${duration((batch.finished - batch.created) / 1000)}` : "";
  if (batch.finished) return failed ? ["failed", "red", `Ended, ${count(failed)} failed`, after] : ["completed", "green", `Ended${batch.round > 1 ? `, round ${batch.round}` : ""}`, after];
  if (batch.wanted) return ["paused", "amber", `To be ${batch.wanted}`, "counts for jobs that come later, too"];
  if (failed) return ["failed", "red", `${count(failed)} failed`, batch.pending ? `${plural(batch.pending, "job")} still to end` : "waits for jobs"];
  return batch.pending ? ["running", "blue", "Under way", `${plural(batch.pending, "job")} still to end`] : ["queued", "quiet", "Waits for jobs", batch.size ? `${count(batch.size - progress(batch).over)} are not pushed yet` : "no job has announced its size"];
}

export function batches(context) {
  return context.rest[0] ? one(context, context.rest[0]) : list(context);
}

function bars() {
  const bar = partsBar();
  const numbers = el("ul", { class: "numbers" });
  return {
    nodes: [bar.bar, numbers],
    draw(batch) {
      const missing = Math.max(0, (batch.size ?? 0) - progress(batch).over - batch.pending);
      bar.draw([...kinds.map(([name, tone]) => [batch[name], tone]), [missing, "track"]]);
      redraw(numbers, kinds.map(([name]) => batch[name]), () => kinds.filter(([name]) => batch[name] > 0).map(([name, , words]) => {
        const mark = name === "pending" ? icon("running", "blue", words) : icon(name, tones[name], words);
        return el("li", {}, mark, count(batch[name]));
      }));
    },
  };
}

/// The actions for a whole batch: what they are about, and whether they are of use.
const asked = {
  pause: ["Pause", "pause", (batch) => batch.pending > 0 && batch.wanted !== "paused"], resume: ["Resume", "play", (batch) => batch.pending > 0 || batch.wanted === "paused"],
  retry: ["Retry", "retry", (batch) => batch.failed > 0], cancel: ["Cancel…", "cancel", (batch) => batch.pending > 0 || !batch.finished],
};
/// Runs an action. `batch` must be the newest answer about the batch, because its numbers are in the question.
async function run(queue, action, batch) {
  if (action === "cancel") {
    const answer = await ask({ question: `Cancel every job of ${batch.name} that has not ended?`, consequence: `${plural(batch.pending, "job")} and those that still come are cancelled, and what they have received is deleted. This cannot be undone. To stop for now, pause the batch: pausing keeps the bytes.`,
      keep: "Keep them", verb: `Cancel ${plural(batch.pending, "job")}`, instead: ["Pause them instead", "pause"] });
    if (answer === "pause") return run(queue, "pause", batch);
    if (!answer) return false;
    return act(queue, "cancelBatch", { batch: batch.name }, batch.pending);
  }
  return act(queue, action, { batch: batch.name }, action === "retry" ? batch.failed : batch.pending);
}

function list({ queue, query, live, body, path, title, header, isOperator, ready, subject }) {
  const from = Math.max(0, Number(query.get("from")) || 0);
  title("Batches");
  const sentence = el("p", { class: "lead" }, "Reading …");
  const search = el("input", { type: "search", "aria-label": "Search", placeholder: "Name of a batch", spellcheck: "false" });
  const form = el("form", { class: "search", role: "search" }, icon("search"), search, key("/"));
  form.addEventListener("submit", (event) => { event.preventDefault(); if (search.value.trim()) location.hash = path("batches", [search.value.trim()]); });
  header(sentence, [form]);
  const lines = el("tbody");
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Batches" }, el("table", { class: "batch-table stacked" }, el("caption", { class: "hidden" }, "Batches"),
    el("thead", {}, el("tr", {}, [["Batch", ""], ["How it goes", ""], ["Jobs by state", "wide"], ["Ended", "number"], ...(isOperator ? [["Change", "tools-head"]] : [])].map(([text, kind]) => el("th", { scope: "col", class: kind }, text === "Change" ? el("span", { class: "hidden" }, text) : text)))), lines));
  const empty = el("div", { class: "empty", hidden: true }, el("p", {}, "There are no batches."), el("p", { class: "dim" }, "A job joins one with its field batch. A batch is counted as one, paused as one and retried as one."));
  const pager = el("span", { class: "pager" });
  const legend = el("ul", { class: "legend" }, kinds.map(([, tone, name]) => el("li", {}, el("span", { class: `swatch ${tone}` }), name)));
  const kept = el("span");
  const foot = el("div", { class: "list-foot" }, kept, pager, legend);
  body.append(el("section", { class: "card" }, box, empty, foot));
  let now = serverNow();
  const fill = rows(lines, (name) => {
    const [size, mark, words, more, far, tools] = [el("span", { class: "under" }), el("span"), el("span"), el("span", { class: "under" }), el("td", { class: "number strong" }), el("td", { class: "tools-cell" })];
    const bar = bars();
    // The buttons stay while the numbers change.
    let newest = null;
    const start = (action) => run(queue, action, newest);
    return {
      line: el("tr", { class: "three" }, el("th", { scope: "row" }, link(path("batches", [name]), name), size), el("td", {}, el("div", { class: "named" }, mark, el("div", {}, words, more))), el("td", { class: "wide" }, bar.nodes), far, isOperator ? tools : null),
      fill(batch) {
        newest = batch;
        const { share, all } = progress(batch);
        redraw(size, [all, batch.size, Math.floor(now / 60_000)], () => [`${plural(batch.size ?? all, "job")}${batch.size ? "" : " until now"}, first `, ago(batch.created, now), " ago"]);
        const [shape, tone, text, rest] = stateOf(batch);
        redraw(mark, [shape, tone], () => icon(shape, tone));
        write(words, text);
        words.className = tone === "red" || tone === "amber" ? tone : "";
        write(more, rest);
        bar.draw(batch);
        write(far, percent(share));
        if (!isOperator) return;
        const first = batch.failed ? "retry" : batch.wanted === "paused" ? "resume" : batch.pending ? "pause" : null;
        redraw(tools, [first, batch.failed, Object.values(asked).map(([, , isOfUse]) => isOfUse(batch))], () => [
          first ? el("button", { type: "button", class: "small", onclick: () => start(first) }, icon(asked[first][1]), first === "retry" ? `Retry ${count(batch.failed)}` : asked[first][0])
            : el("a", { class: "button small", href: path("batches", [name]) }, "Show"),
          menu(`More for ${name}`, [["batches", "Show", () => { location.hash = path("batches", [name]); }], ...Object.entries(asked).filter(([, [, , isOfUse]]) => isOfUse(batch)).map(([action, [words, mark]]) => [mark, words, () => start(action), action === "cancel" ? "danger" : ""])]),
        ]);
      },
    };
  });
  live.watch([subject(withQuery(inQueue(queue, "batches"), { from: from || "", limit: LIMIT }), (data) => {
    now = serverNow();
    ready();
    const failing = data.batches.filter((batch) => batch.failed + batch.rejected > 0).length;
    const moving = data.batches.filter((batch) => !batch.finished && batch.pending && !batch.failed).length;
    // The queue also counts some that have expired, so only a list that fits into one page is counted exactly.
    const isWhole = from === 0 && data.next === undefined;
    const all = isWhole ? data.batches.length : data.total;
    write(sentence, all === 0 ? "Jobs that belong together are counted together." : [failing ? `${count(failing)} ${failing === 1 ? "has" : "have"} failures` : "", moving ? `${count(moving)} ${moving === 1 ? "is" : "are"} under way` : "", `${isWhole ? "" : "about "}${count(all)} in all`].filter(Boolean).join(", ").concat("."));
    box.hidden = foot.hidden = all === 0;
    empty.hidden = all > 0;
    fill(data.batches, (batch) => batch.name);
    redraw(pager, [from, data.next], () => [from > 0 ? link(path("batches", [], { from: Math.max(0, from - LIMIT) || "" }), "Newer ones") : "", " ", data.next !== undefined ? link(path("batches", [], { from: data.next }), "Older ones") : ""]);
  }), [inQueue(queue, "settings"), (data) => { if (data) write(kept, `A batch is kept for ${duration(keptSeconds(data, "failed"))} after its last job ended.`); }]]);
}

function one(context, name) {
  const { queue, live, body, path, isOperator, heading } = context;
  context.title(`Batch ${name}`);
  const tools = el("div", { class: "job-tools", role: "group", "aria-label": "What to do with the whole batch" });
  const sentence = el("p", { class: "lead" }, "Reading …");
  context.header(sentence, [tools]);
  heading.before(el("nav", { class: "crumbs", "aria-label": "Where this batch is" }, link(path("batches"), "Batches")));
  const tiles = new Map(["pending", ...ended].map((what) => {
    const number = el("strong", {}, "–");
    const address = what === "rejected" ? path("rejected") : path("jobs", [what === "pending" ? "running" : what], { batch: name });
    return [what, { number, item: el("li", {}, link(address, el("span", { class: "tile-name" }, what === "pending" ? icon("running", "blue") : icon(what, tones[what]), kinds.find(([state]) => state === what)[2]), number)) }];
  }));
  const bar = partsBar();
  const facts = el("dl", { class: "about" });
  const whole = el("div", { class: "stack" }, el("section", { class: "card padded" }, bar.bar), el("ul", { class: "strip" }, [...tiles.values()].map(({ item }) => item)),
    card("About this batch", {}, facts, el("p", { class: "padded dim" }, "Its jobs that have not ended: ", unended.flatMap((what, index) => [index ? ", " : "", link(path("jobs", [what], { batch: name }), what)]))));
  const note = el("p", { class: "hit", hidden: true });
  whole.hidden = true;
  body.append(note, whole);

  // The buttons stay while the numbers change.
  let newest = null;
  function draw(batch) {
    newest = batch;
    whole.hidden = false;
    note.hidden = true;
    context.ready();
    const { share, all, over } = progress(batch);
    const [, , words, more] = stateOf(batch);
    write(sentence, `${words}: ${percent(share)} of ${count(batch.size ?? all)} ended${batch.size ? "" : " until now"}. ${more ? `${more[0].toUpperCase()}${more.slice(1)}.` : ""}`);
    bar.draw([...kinds.map(([state, tone]) => [batch[state], tone]), [Math.max(0, (batch.size ?? 0) - over - batch.pending), "track"]]);
    for (const [what, { number }] of tiles) write(number, count(batch[what]));
    if (isOperator) {
      redraw(tools, [batch.wanted, Object.values(asked).map(([, , isOfUse]) => isOfUse(batch)), batch.failed], () => Object.entries(asked).filter(([, [, , isOfUse]]) => isOfUse(batch))
        .map(([action, [words, mark]]) => el("button", { type: "button", class: action === "cancel" ? "danger" : "", "data-changes": true, onclick: () => run(queue, action, newest) }, icon(mark), action === "retry" ? `Retry ${count(batch.failed)}` : words)));
    }
    const known = [
      ["Size", batch.size ? `${count(batch.size)} jobs` : "no job has announced it, so the batch never ends"], ["Begun", time(batch.created)],
      batch.finished ? ["Ended", time(batch.finished)] : null, ["How often it ended", count(batch.round)],
      batch.wanted ? ["Later jobs are", batch.wanted] : null, batch.reply_to.length ? ["Its end is sent to", batch.reply_to.join(", ")] : null,
    ].filter(Boolean);
    redraw(facts, [batch.size, batch.created, batch.finished, batch.round, batch.wanted], () => known.flatMap(([what, value]) => [el("dt", {}, what), el("dd", {}, value)]));
  }
  const unknown = (text) => { context.ready(); whole.hidden = true; tools.replaceChildren(); tools.drawnKey = null; write(sentence, "It is not known."); note.hidden = false; write(note, text); };
  if (!isID(name)) {
    unknown(`“${name}” is not a valid batch name: it has 1 to 128 of the characters A-Z a-z 0-9 . _ : -`);
    live.watch([]);
    return;
  }
  live.watch([[inQueue(queue, "batches", name), (data, problem) => {
    context.unreadable(problem?.error === "not_found" ? null : problem);
    if (data) return draw(data);
    if (problem.error === "not_found") unknown("No worker has seen a job of it yet, or it was forgotten.");
  }]]);
}
