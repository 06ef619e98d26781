// The surroundings of each page: the queues, the pages of a queue, keys, and what is said when the connection is lost.

import { get, inQueue } from "./api.js";
import { faults } from "./attention.js";
import { batches } from "./batches.js";
import { open } from "./dialogs.js";
import { el, link, redraw, write } from "./dom.js";
import { clock, count, duration } from "./format.js";
import { icon, key, logo } from "./icons.js";
import { job } from "./job.js";
import { jobs } from "./jobs.js";
import { help, Keys } from "./keys.js";
import { Live } from "./live.js";
import { overview } from "./overview.js";
import { openPush } from "./push.js";
import { queues } from "./queues.js";
import { rejected } from "./rejected.js";
import { schedules } from "./schedules.js";
import { settings } from "./settings.js";
import { workers } from "./workers.js";

const pages = { overview, jobs, job, batches, schedules, workers, rejected, push: overview, settings, queues };
const named = [
  ["overview", "Overview"], ["jobs", "Jobs"], ["batches", "Batches"], ["schedules", "Schedules"], ["workers", "Workers"], ["rejected", "Rejected"], ["settings", "Settings"],
];
const MAX_SILENCE = 2000;

const main = document.getElementById("main");
const banner = document.getElementById("connection");
const bar = document.getElementById("bar");

let session;
let stop = null;
let here = null;
/// The newest answer about all queues, about this one, and what is wrong with this one.
let [all, current, wrong] = [null, null, []];

// MARK: The connection

/// When the last answer came, by this browser's clock; and since when there is no live one.
let lastSign = Date.now();
let trouble = null;

const live = new Live((state, message) => {
  if (state === "live" || (state === "alive" && !trouble)) {
    lastSign = Date.now();
    if (trouble) { trouble = null; showConnection(); }
    return;
  }
  if (state === "alive") return;
  if (!trouble || trouble.state !== state || trouble.message !== message) {
    trouble = { state, message, since: trouble?.since ?? Date.now() };
    showConnection();
  }
});
const isLive = () => trouble === null || Date.now() - trouble.since < MAX_SILENCE;

function showConnection() {
  const isShown = !isLive();
  document.body.classList.toggle("stale", isShown);
  const wasShown = !banner.hidden;
  banner.hidden = !isShown;
  if (wasShown !== isShown) dispatchEvent(new Event("connection"));
  for (const button of main.querySelectorAll("button[data-changes]")) button.disabled = isShown;
  const status = document.getElementById("live");
  if (status) {
    redraw(status, isShown ? lastSign : 0, () => (isShown ? [icon("offline", "amber"), el("span", {}, `Not live since ${clock(lastSign)}`)] : [el("span", { class: "dot" }), el("span", {}, "Live")]));
  }
  if (!isShown) { if (wasShown) { banner.replaceChildren(); banner.drawnKey = null; } return; }
  const who = { redis: "Redis does not answer.", refused: "The server refuses this page’s stream." }[trouble.state] ?? "The server does not answer.";
  const next = Math.max(0, live.nextTry - Date.now()) / 1000;
  const again = trouble.state === "redis" ? "Trying again every second." : next > 0.5 ? `Trying again in ${duration(next)}.` : "Trying again …";
  if (!banner.firstChild) {
    banner.append(icon("offline"), el("span", { class: "grow", role: "status" }, el("strong"), el("span")), el("button", { type: "button", class: "small", onclick: () => live.tryNow() }, icon("retry"), "Try now"));
  }
  write(banner.querySelector("strong"), who);
  const oldest = live.oldest === null ? "" : `What you see is ${duration((Date.now() - live.oldest) / 1000)} old. `;
  write(banner.querySelector(".grow > span"), ` ${oldest}Workers go on with what they run and keep their bytes. ${trouble.state === "refused" ? `${trouble.message}. ` : ""}${again}`);
}
setInterval(() => { if (trouble) showConnection(); }, 500);

// MARK: Routes

/// The parts of the URL's fragment, #/QUEUE/PAGE/REST?QUERY.
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [queue, page, ...rest] = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return ""; }
  });
  const isAll = queue === "" && page === "queues" && session.queues.length > 1;
  return {
    queue: session.queues.includes(queue) ? queue : session.queues[0],
    page: isAll ? "queues" : Object.hasOwn(pages, page) && page !== "queues" ? page : "overview",
    rest, query: new URLSearchParams(query ?? ""),
  };
}

export function pathTo(queue, page, rest = [], query = {}) {
  const path = [queue, page, ...rest].map(encodeURIComponent).join("/");
  const pairs = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `#/${path}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`;
}

// MARK: The side bar

function queueIcon(name) {
  if (name === here?.queue && wrong.some(({ key }) => key !== "paused") && current?.queue === name) {
    return ["attention", wrong.some(({ tone }) => tone === "red") ? "red" : "amber"];
  }
  const found = all?.queues.find(({ queue }) => queue === name);
  if (!found) return ["queued", "quiet"];
  if (found.paused) return ["paused", "amber"];
  if (found.workers === 0 && found.running + found.queued > 0) return ["attention", "red"];
  if (found.workers === 0) return ["queued", "quiet"];
  return ["completed", "green"];
}

function drawBar() {
  const { queue, page } = here;
  const running = (name) => all?.queues.find((one) => one.queue === name)?.running;
  const sum = all?.queues.reduce((many, one) => many + one.running, 0);
  redraw(document.getElementById("queues"), [session.queues, queue, page === "queues", all?.queues.map((one) => [one.running, one.paused, one.workers, one.queued > 0]), wrong.map(({ key, tone }) => [key, tone])], () => [
    el("p", { class: "group" }, "Queues, running"),
    el("ul", {}, session.queues.length > 1 ? el("li", {}, navLink(pathTo("", "queues"), icon("globe"), "All queues", sum === undefined ? "" : count(sum), page === "queues")) : null,
      session.queues.map((name) => el("li", {}, navLink(pathTo(name, page === "job" || page === "push" || page === "queues" ? "overview" : page), icon(...queueIcon(name)), name,
        running(name) === undefined ? "" : count(running(name)), false, name === queue && page !== "queues" ? "strong" : "")))),
  ]);
  const counts = current?.queue === queue ? current : null;
  const lost = counts?.workers.lost ?? 0;
  const numbers = {
    jobs: counts ? Object.entries(counts.counts).filter(([state]) => !["completed", "cancelled"].includes(state)).reduce((many, [, number]) => many + number, 0) : null,
    batches: counts?.batches, rejected: counts?.rejected,
  };
  redraw(document.getElementById("pages"), [queue, page, numbers, lost], () => [
    el("p", { class: "group" }, queue),
    el("ul", {}, named.map(([name, title]) => {
      const isHere = page === name || (name === "jobs" && page === "job") || (name === "overview" && page === "push");
      const mark = name === "rejected" ? "rejected" : name;
      const number = name === "workers" && lost ? el("span", { class: "bad" }, icon("attention"), ` ${count(lost)} silent`) : numbers[name] ? count(numbers[name]) : "";
      return el("li", { class: `at-${name}` }, navLink(pathTo(queue, name), icon(mark), title, number, isHere));
    })),
  ]);
  const bottom = [...named.slice(0, 4), ["more", "More"]];
  redraw(document.getElementById("bottom"), [queue, page], () => bottom.map(([name, title]) => {
    const isHere = page === name || (name === "jobs" && page === "job") || (name === "more" && ["settings", "rejected", "queues"].includes(page));
    if (name === "more") return el("button", { type: "button", class: isHere ? "here" : "", onclick: showMore }, icon("more"), title);
    return el("a", { href: pathTo(queue, name), ...(isHere ? { "aria-current": "page" } : {}) }, icon(name), title);
  }));
  redraw(document.getElementById("top"), [queue, page, here.rest, session.queues.length], () => [
    page === "job" ? el("button", { type: "button", class: "plain back", onclick: () => history.back() }, icon("back"), "Back")
      : el("button", { type: "button", class: "plain", "aria-haspopup": "dialog", onclick: showQueues }, logo(), el("strong", {}, page === "queues" ? "All queues" : queue), icon("down")),
    el("span", { class: "grow" }), session.role === "operator" ? el("button", { type: "button", class: "plain", "aria-label": "Push", onclick: () => openPush(contextOf(here)) }, icon("plus")) : null,
  ]);
}

const navLink = (path, mark, name, number, isHere, className = "") =>
  el("a", { href: path, class: className, ...(isHere ? { "aria-current": "page" } : {}) }, mark, el("span", { class: "name" }, name), el("span", { class: "number" }, number));

function showQueues() {
  open("Queues", (close) => [el("div", { class: "dialog-body" }, el("h2", {}, "Queues"),
    el("ul", { class: "choices" }, session.queues.map((name) => el("li", {}, el("a", { href: pathTo(name, "overview"), onclick: () => close() }, icon(...queueIcon(name)), name))),
      session.queues.length > 1 ? el("li", {}, el("a", { href: pathTo("", "queues"), onclick: () => close() }, icon("globe"), "All queues")) : null)),
  el("div", { class: "dialog-foot" }, el("span", { class: "grow" }), el("button", { type: "button", onclick: () => close() }, "Close"))]);
}

function showMore() {
  open("More", (close) => [el("div", { class: "dialog-body" }, el("h2", {}, "More"),
    el("ul", { class: "choices" }, named.slice(4).map(([name, title]) => el("li", {}, el("a", { href: pathTo(here.queue, name), onclick: () => close() }, icon(name), title))))),
  el("p", { class: "dim dialog-body" }, `${session.name ? `${session.name}, ` : ""}${session.role}; Haul ${session.version}`),
  el("div", { class: "dialog-foot" }, el("span", { class: "grow" }), el("button", { type: "button", onclick: () => close() }, "Close"))]);
}

// MARK: Pages

function contextOf(where, more = {}) {
  return {
    ...where, session, live, isLive, isOperator: session.role === "operator",
    path: (page, rest, query) => pathTo(where.queue, page, rest, query),
    ...more,
  };
}

const allKeys = new Keys();

function show() {
  here = route();
  stop?.();
  stop = null;
  wrong = [];
  if (current?.queue !== here.queue) current = null;
  document.body.dataset.page = here.page;
  const heading = el("h1", { tabindex: -1 });
  const head = el("div", { class: "head" });
  const lead = el("div", { class: "head-text" }, heading);
  const tools = el("div", { class: "head-tools" });
  head.append(lead, tools);
  const body = el("div", { class: "body waiting" });
  const problem = el("p", { class: "hit amber", role: "status", hidden: true });
  main.replaceChildren(head, problem, body);
  // A page is shown when what it needs is there, so that nothing moves; or after a second without some of it.
  const waiting = [];
  const ready = () => {
    body.classList.remove("waiting");
    for (const then of waiting.splice(0)) then();
  };
  setTimeout(ready, 1000);
  const keys = allKeys.page({
    p: () => { if (session.role === "operator") openPush(context); },
    "?": () => help(allKeys),
    ...Object.fromEntries(named.map(([page]) => [{ overview: "g o", jobs: "g j", batches: "g b", schedules: "g c", workers: "g w", rejected: "g r", settings: "g s" }[page], () => { location.hash = pathTo(here.queue, page); }])),
    "/": () => { const box = main.querySelector("input[type=search]"); if (box) box.focus(); else location.hash = pathTo(here.queue, "jobs", ["running"], { find: "1" }); },
  });
  const context = contextOf(here, {
    ready, whenReady: (then) => { if (body.classList.contains("waiting")) waiting.push(then); else then(); },
    body, keys, heading, head,
    /// Whether no other page has replaced this one. What waits for an answer must ask before it changes anything outside
    /// the page's own elements.
    isShown: () => body.isConnected,
    /// Says why the server cannot read what the page is about, instead of its content; null if it can.
    unreadable: (failure) => {
      if (failure) ready();
      [problem.hidden, body.hidden] = [!failure, Boolean(failure)];
      for (const sentence of lead.querySelectorAll(".lead")) sentence.hidden = Boolean(failure);
      write(problem, failure ? `This cannot be read: ${failure.message}` : "");
    },
    /// What the page is about: a path, and what takes its answers.
    subject: (path, take) => [path, (data, failure) => {
      context.unreadable(failure);
      if (data) take(data);
    }],
    title: (text) => { write(heading, text); document.title = `${text} · Haul`; },
    /// What stands below the title, and at its right.
    header: (text, buttons) => {
      lead.replaceChildren(...[heading, text].flat().filter(Boolean));
      tools.replaceChildren(...buttons.filter(Boolean));
    },
    setHeader: (isShown) => { head.classList.toggle("hidden", !isShown); },
    pushButton: () => (session.role === "operator" ? el("button", { type: "button", class: "main push", "data-changes": true, onclick: () => openPush(context) }, icon("plus"), "Push", key("p")) : null),
    noteFaults: (faults) => { wrong = faults; drawBar(); },
    /// Changes the query in the URL without showing the page again.
    remember: (values) => {
      const query = Object.fromEntries(here.query);
      for (const [name, value] of Object.entries(values)) if (value === null || value === "") delete query[name]; else query[name] = value;
      here.query = new URLSearchParams(query);
      history.replaceState(null, "", pathTo(here.queue, here.page, here.rest, query));
    },
  });
  live.surround([["queues", (data) => { if (data) { all = data; drawBar(); } }], ...(here.page === "queues" ? [] : [[inQueue(here.queue), (data) => {
    if (!data) return;
    current = data;
    // The overview knows more, and says it.
    if (here.page !== "overview" && here.page !== "push") wrong = faults({ overview: data }, { ...context, verbs: {} });
    drawBar();
  }]])]);
  stop = pages[here.page](context) ?? null;
  drawBar();
  showConnection();
  if (here.page === "push") openPush(context, here.query.get("url") ?? "", () => { location.hash = pathTo(here.queue, "overview"); });
  else heading.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

async function begin() {
  try {
    session = await get("session");
  } catch (error) {
    trouble ??= { state: "lost", message: error.message, since: 0 };
    live.nextTry = Date.now() + 2000;
    showConnection();
    setTimeout(begin, 2000);
    return;
  }
  trouble = null;
  bar.append(
    el("div", { id: "top" }),
    el("div", { id: "side" }, el("p", { class: "brand" }, logo(), el("span", {}, "Haul")),
      el("nav", { id: "queues", "aria-label": "Queues" }), el("nav", { id: "pages", "aria-label": "Pages" }),
      el("div", { class: "foot" }, el("p", { id: "live" }, el("span", { class: "dot" }), el("span", {}, "Live")),
        el("p", { id: "who" }, `${session.name ? `${session.name}, ` : ""}${session.role}`),
        el("p", { class: "hints" }, el("button", { type: "button", class: "plain", onclick: () => help(allKeys) }, key("?"), "keys"), el("span", { class: "named" }, key("/"), "search")))),
    el("nav", { id: "bottom", "aria-label": "Main pages" }));
  document.getElementById("skip").addEventListener("click", () => main.focus());
  // A share target or a bookmark may give the URL before the fragment.
  const given = new URLSearchParams(location.search);
  // Some programs share a URL as a part of a text.
  const shared = given.get("url") || given.get("text")?.match(/https?:\/\/\S+/)?.[0];
  if (shared) history.replaceState(null, "", `${location.pathname}${pathTo(session.queues[0], "push", [], { url: shared })}`);
  addEventListener("hashchange", show);
  show();
}

begin();
