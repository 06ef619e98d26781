// Failed jobs by reason and host, with what helps.

import { retryGroup, retryName } from "./actions.js";
import { inQueue, patiently, withQuery } from "./api.js";
import { sparkline } from "./charts.js";
import { el, link, redraw, rows, write } from "./dom.js";
import { age, bytes, count, fileOf, plural, time } from "./format.js";
import { icon, key } from "./icons.js";
import { about, sizeOf } from "./words.js";

const FIRST = 3;

export function groups(context, content) {
  const { queue, path, isOperator, keys } = context;
  const body = el("div", { class: "groups", role: "list", hidden: true });
  const footer = el("span", { role: "status" }, "Reading …");
  const empty = el("div", { class: "empty", hidden: true }, el("p", {}, "No failed job is kept."), el("p", {}, link(path("jobs", ["running"]), "Show what runs")));
  const head = el("div", { class: "group-head", "aria-hidden": "true" }, el("span", { class: "reason" }, "Reason, and what helps"), el("span", {}, "Host"), el("span", {}, "Failures, 1 h"), el("span", { class: "number" }, "Jobs"), el("span"));
  content.append(el("section", { class: "card group-card" }, head, body, empty, el("div", { class: "list-foot" }, footer,
    el("span", { class: "hints" }, el("span", {}, key("o"), "open a group"), isOperator ? el("span", {}, key("r"), "retry") : null, el("span", {}, key("?"), "all keys")))));
  let now = 0;
  let current = -1;
  let overview = null;
  let shown = [];
  const opened = new Set();
  let isFirst = true;
  let shownGroups = 0;
  let reading = Promise.resolve();

  const fill = rows(body, (id) => {
    const [title, code, help, host, number, jobs] = [el("strong"), el("code"), el("p", { class: "dim" }), el("strong", { class: "clip" }), el("strong", { class: "number" }), el("ul", { class: "group-jobs", hidden: true })];
    const spark = sparkline("red");
    const toggle = el("button", { type: "button", class: "plain toggle", "aria-expanded": "false" }, icon("right"));
    const tools = el("div", { class: "tools" });
    let group = null;
    let read = 0;
    async function show(isOpen) {
      toggle.setAttribute("aria-expanded", String(isOpen));
      redraw(toggle, isOpen, () => icon(isOpen ? "down" : "right"));
      jobs.hidden = !isOpen;
      if (isOpen) opened.add(id); else opened.delete(id);
      if (!isOpen || read === group.count) return;
      read = group.count;
      try {
        // One after another, because a viewer may wait for two searches at once.
        const page = await (reading = reading.then(() => patiently(withQuery(inQueue(queue, "jobs"), { state: "failed", error: group.error, host: group.host, limit: FIRST }))));
        const others = group.count - page.jobs.length;
        jobs.replaceChildren(...page.jobs.map((job) => {
          const { name, folder } = fileOf(job);
          const kept = job.received ? `${job.total ? `${bytes(job.received)} of ${bytes(job.total)} are` : `${bytes(job.received)} are`} kept` : "nothing was received";
          return el("li", {}, icon("failed", "red"), el("span", { class: "clip grow" }, link(path("job", [job.id]), name), " ", el("span", { class: "folder" }, folder)),
            el("span", { class: "kept" }, `${plural((job.attempt ?? 0) + 1, "attempt")}; ${kept}`), el("span", { class: "dim when" }, time(job.finished ?? job.timestamp, `${age((now - (job.finished ?? job.timestamp)) / 1000)} ago`)));
        }), ...(others > 0 ? [el("li", {}, el("span"), link(path("jobs", ["failed"], { error: group.error, host: group.host }), sizeOf(group, overview) === null ? "Show all others" : `Show the other ${count(others)}`))] : []));
      } catch { read = 0; reading = Promise.resolve(); }
      shownGroups += 1;
      if (shownGroups >= Math.min(2, shown.length)) context.ready();
    }
    toggle.addEventListener("click", () => show(jobs.hidden));
    const line = el("div", { class: "failure", role: "listitem" }, el("div", { class: "group-row" }, toggle, el("div", { class: "reason" }, el("p", {}, title, " ", code), help), host, el("span", { class: "spark-cell" }, spark.drawing), number, tools), jobs);
    line.addEventListener("toggle-group", () => show(jobs.hidden));
    return {
      line,
      fill({ group: next, most, isOpen, isCurrent }) {
        group = next;
        const { title: words, help: what } = about(group.error);
        write(title, words);
        write(code, group.error);
        write(help, group.retryable ? what : `A retry will not help: ${what[0].toLowerCase()}${what.slice(1)}`);
        write(host, group.host);
        write(number, count(group.count));
        line.classList.toggle("current", isCurrent);
        toggle.setAttribute("aria-label", `${words} at ${group.host}: ${plural(group.count, "job")}`);
        spark.draw(group.hour, most, `${plural(group.hour.reduce((sum, value) => sum + value, 0), "failure")} in the last hour`);
        const name = group.retryable ? retryName(group, overview) : "Retry anyway";
        redraw(tools, [name, group.retryable], () => (isOperator ? el("button", { type: "button", class: group.retryable ? "small" : "small plain", onclick: () => retry(group) }, icon("retry"), name) : []));
        if (isOpen) show(true); else if (!jobs.hidden) show(true);
      },
    };
  });
  const retry = (group) => retryGroup(queue, group, overview);

  function draw(data) {
    overview = data;
    now = data.now;
    if (data.failures.groups.length === 0) context.ready();
    const all = data.failures.groups;
    shown = all;
    const most = Math.max(1, ...all.flatMap(({ hour }) => hour));
    fill(all.map((group, index) => ({ group, most, isOpen: isFirst && index < 2, isCurrent: index === current })), ({ group }) => `${group.error} ${group.host}`);
    isFirst = isFirst && all.length === 0;
    // ARIA allows no list without entries.
    body.hidden = all.length === 0;
    empty.hidden = all.length > 0;
    head.hidden = all.length === 0;
    const reasons = new Set(all.map(({ error }) => error)).size;
    const hosts = new Set(all.map(({ host }) => host)).size;
    write(footer, all.length ? `${plural(reasons, "reason")} at ${plural(hosts, "host")}${data.failures.of < data.counts.failed ? `, of the newest ${count(data.failures.of)} that failed` : ""}` : "");
  }
  const move = (step) => {
    current = Math.max(0, Math.min(shown.length - 1, current + step));
    [...body.children].forEach((line, index) => line.classList.toggle("current", index === current));
    body.children[current]?.querySelector(".toggle").focus();
    body.children[current]?.scrollIntoView({ block: "nearest" });
  };
  const toggle = () => body.children[current]?.dispatchEvent(new Event("toggle-group"));
  keys.add({ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), o: toggle, Enter: toggle, ...(isOperator ? { r: () => { if (shown[current]) retry(shown[current]); } } : {}) });
  return { draw };
}
