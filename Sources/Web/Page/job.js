// The page of one job.

import { answer } from "./answer.js";
import { get, inQueue, isID, patiently } from "./api.js";
import { batchLinks, el, link, svg, table, showMessage, write } from "./dom.js";
import { bytes, count, duration, progress, speed, time } from "./format.js";
import { act, actions, title, waitsFor } from "./jobs.js";

const timestamps = new Set(["created", "started", "updated", "finished", "deadline_at", "settled_until", "validated"]);
const sizes = new Set(["received", "total"]);
const drawn = new Set(["id", "offsets", "ended", "state", "status", "headers", "body", "body_base64", "files", "kind"]);
const MAX_LINES = 300;

/// A bar with the durable intervals of the file.
function pieces() {
  const picture = svg("svg", { class: "pieces", viewBox: "0 0 10000 10", preserveAspectRatio: "none", role: "img" });
  const note = el("p", { class: "dim" });
  let shown = "";
  return {
    box: el("section", { class: "card full" }, el("h2", {}, "What is on the disk"), picture, note),
    draw(job) {
      const isWhole = job.state === "completed";
      const end = job.total ?? Math.max(1, ...job.offsets.map(([, last]) => last));
      const parts = isWhole ? [[0, end]] : job.offsets;
      const text = JSON.stringify([parts, end]);
      if (text === shown) return;
      shown = text;
      picture.replaceChildren(...parts.map(([first, last]) => svg("rect", {
        x: 10000 * first / end, y: 0, width: Math.max(8, 10000 * (last - first) / end), height: 10,
      })));
      const sum = parts.reduce((many, [first, last]) => many + last - first, 0);
      const many = parts.length === 1 ? "1 piece" : `${count(parts.length)} pieces`;
      write(note, parts.length === 0 ? "Nothing yet." : isWhole ? "The whole file." : `${bytes(sum)}${job.total ? ` of ${bytes(job.total)}` : ""}, in ${many}`);
      picture.setAttribute("aria-label", note.textContent);
    },
  };
}

/// The result of each file of an upload that sends every file in a request of its own.
function sentFiles() {
  const { box: scroll, body: rows } = table("Files", [["File", ""], ["What came of it", ""]]);
  const box = el("section", { class: "card full", hidden: true }, el("h2", {}, "Its files"), scroll);
  return {
    box,
    draw(job) {
      const files = Array.isArray(job.files) ? job.files : [];
      box.hidden = files.length === 0;
      rows.replaceChildren(...files.map(({ file, status, error }) => el("tr", {},
        el("th", { scope: "row", class: "any" }, file),
        el("td", { class: error ? "bad" : "good" }, [error ?? "sent", status && `status ${status}`].filter(Boolean).join(", ")))));
    },
  };
}

/// Events as they arrive, and timestamps that the job's hash has.
function timeline() {
  const list = el("ol", { class: "timeline", tabindex: 0, "aria-label": "Timeline" });
  const recorded = new Map();
  const received = new Map();
  function draw() {
    const entries = [...recorded.values(), ...received.values()].sort((one, other) => other.at - one.at || other.order - one.order);
    list.replaceChildren(...entries.slice(0, MAX_LINES).map(({ at, name, note }) =>
      el("li", {}, time(at), " ", el("strong", {}, name), note ? ` ${note}` : "")));
  }
  return {
    box: el("section", { class: "card" }, el("h2", {}, "Timeline"),
      el("p", { class: "dim" }, "What the job's record says, and events since this page was opened."), list),
    setJob(job) {
      for (const [order, name] of ["created", "started", "finished"].entries()) {
        if (job[name]) recorded.set(name, { at: job[name], order, name, note: name === "started" && job.worker ? `on ${job.worker}` : "" });
        else recorded.delete(name);
      }
      draw();
    },
    addEvent(event) {
      if (event.event === "progress") return;
      // The response is shown in a card of its own.
      const { v, event: name, id, queue, epoch, seq, at, meta, headers, body, body_base64, files, ...rest } = event;
      const note = Object.entries(rest).map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
      received.set(`${epoch} ${seq}`, { at, order: seq ?? 0, name, note });
      if (received.size > MAX_LINES) received.delete(received.keys().next().value);
      draw();
    },
  };
}

function value(name, content) {
  if (timestamps.has(name)) return time(content);
  if (sizes.has(name)) return `${bytes(content)} (${count(content)} bytes)`;
  if (name === "speed") return speed(content);
  return typeof content === "object" ? JSON.stringify(content) : String(content);
}

export function job(context) {
  const { queue, rest, live, body, path, isOperator } = context;
  const id = rest[0] ?? "";
  context.title(`Job ${id}`);
  const [what, state] = [el("span", {}, "It"), el("strong")];
  const [far, rate] = [el("span"), el("span")];
  const trouble = el("p", { class: "bad" });
  const tools = el("div", { class: "row", role: "group", "aria-label": "What to do with this job" });
  const facts = el("dl");
  const [bar, lines, reply, files] = [pieces(), timeline(), answer(isOperator), sentFiles()];
  const secrets = el("section", { class: "card" }, el("h2", {}, "What was pushed"));
  if (isOperator) {
    const text = el("pre", { hidden: true });
    const button = el("button", { type: "button", onclick: async () => {
      try {
        text.textContent = JSON.stringify(await get(inQueue(queue, "jobs", id, "pushed")), null, 2);
      } catch (error) { text.textContent = error.message; }
      text.hidden = false;
    } }, "Show it, with its secrets");
    secrets.append(button, text);
  } else secrets.append(el("p", { class: "dim" }, "Operators see it."));
  body.append(el("p", {}, what, " is ", state, ". ", far, " ", rate), trouble, isOperator ? tools : "",
    el("div", { class: "cards few" }, bar.box, files.box, reply.box, el("section", { class: "card" }, el("h2", {}, "Record"), facts), lines.box, secrets));

  let shownTools = "";
  let received = 0;
  function draw(data) {
    write(state, data.state);
    state.className = data.state === "failed" ? "bad" : data.state === "completed" ? "good" : "";
    write(what, data.kind === "request" ? "The request" : data.kind === "upload" ? "The upload" : "It");
    const { text } = progress(data);
    write(far, data.kind === "upload" && text ? `${text} sent` : text);
    const left = data.total && data.speed > 0 ? `, ${duration((data.total - (data.received ?? 0)) / data.speed)} left` : "";
    write(rate, data.state === "running" && data.speed ? `${speed(data.speed)}${left}` : "");
    write(trouble, data.error ? `${data.error}: ${data.message ?? ""}` : data.waiting ? waitsFor(data.waiting) : "");
    trouble.className = data.error ? "bad" : "warn";
    received = data.kind || data.state === "completed" ? 0 : data.received ?? 0;
    bar.box.hidden = Boolean(data.kind);
    files.draw(data);
    bar.draw(data);
    reply.draw(data);
    lines.setJob(data);
    const names = Object.keys(data).filter((name) => !drawn.has(name)).sort();
    facts.replaceChildren(...names.flatMap((name) => [el("dt", {}, name), el("dd", {}, name === "batch" ? batchLinks(data[name], path) : value(name, data[name]))]));
    if (shownTools === data.state) return;
    shownTools = data.state;
    const verbs = [...actions[data.state], ...(data.state === "completed" && data.file ? ["delete"] : [])];
    tools.replaceChildren(...verbs.map((action) => el("button", {
      type: "button", class: ["cancel", "remove", "delete"].includes(action) ? "danger" : "",
      onclick: () => act(queue, action, { ids: [id] }, `the job ${id}`, received ? `${bytes(received)} have arrived.` : ""),
    }, title(action))), link(path("jobs", [data.state]), `All that are ${data.state}`));
  }

  if (!isID(id)) {
    write(state, "not known");
    write(trouble, `“${id}” is not a valid job id: it has 1 to 128 of the characters A-Z a-z 0-9 . _ : -`);
    live.watch([]);
    return;
  }
  const place = inQueue(queue, "jobs", id);
  live.watch([[place, (data, problem) => {
    if (data) return draw(data);
    if (problem.error !== "not_found") return;
    shownTools = "";
    write(state, "not known");
    write(trouble, "No worker has seen it, or it has been removed.");
    tools.replaceChildren();
    lookInQueue();
  }]], [`${queue}/${id}`, lines.addEvent]);

  // Looks for the job in the queue. This is done only once, since the server reads all waiting elements for it. When a
  // worker sees the job, the stream reports the change.
  async function lookInQueue() {
    const data = await patiently(`${place}?line=true`).catch(() => null);
    if (!data || shownTools) return;
    draw(data);
    write(trouble, "No worker has seen it yet.");
  }
}
