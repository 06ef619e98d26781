// The jobs of a state: facets, rows, keys, and actions for many jobs at once. Only the rows that can be seen are in the
// document, and the scroll bar has the length of all.

import { act, actions, icons, keyOf, keysOf, names } from "./actions.js";
import { get, inQueue, isID, patiently, withQuery } from "./api.js";
import { progressBar } from "./bars.js";
import { complain, say } from "./dialogs.js";
import { el, link, redraw, write } from "./dom.js";
import { age, bytes, count, fileOf, left, percent, plural, serverNow, share, short, spanOf, speed, time } from "./format.js";
import { groups } from "./groups.js";
import { icon, key, stateIcon, tones } from "./icons.js";
import { segments } from "./overview.js";
import { about, keptSeconds, nameOf, states, waitName, waitsFor } from "./words.js";

/// A list of at most this length is read as a whole, and sorted here. Of a longer one that the queue does not keep in the
/// chosen order, the server sorts its first jobs, and this many of them are shown.
const WHOLE = 500;
/// A longer one is read in pages.
const PAGE = 100;
/// What a filter finds behind the first page is searched again after this time (ms), and after ten times as long as the
/// last search took, so that it costs the server a tenth of a search without end.
const SEARCH_AGAIN = 3000;
const MORE_ROWS = 8;
const GONE = 3000;
export const filterNames = ["q", "host", "error", "worker", "batch", "group", "kind", "waiting", "retryable"];
const facetTitles = { error: "Reason", host: "Host", worker: "Worker", waiting: "Waits for", retryable: "A retry", kind: "Kind", batch: "Batch", group: "Group" };
const facetsOf = {
  running: ["host", "worker", "waiting", "kind", "group", "batch"], queued: ["host", "waiting", "kind", "group", "batch"], scheduled: ["host", "error", "kind", "group", "batch"],
  paused: ["host", "kind", "group", "batch"], failed: ["error", "host", "retryable", "kind", "group", "batch", "worker"], completed: ["host", "worker", "kind", "group", "batch"], cancelled: ["host", "kind", "group", "batch"],
};
/// Whether the server takes a text as a whole URL, and not as a part of one: JobFilter.
const isWholeURL = (text) => /^(https?|s3):\/\/\S+\?/i.test(text) && !text.includes("?[masked]");
export const facetValue = (name, value) => (name === "waiting" ? waitName(value) : name === "retryable" ? (value === "true" ? "may help" : "will not help") : name === "kind" ? nameOf(value) : value);

const started = (job) => job.started ?? job.created ?? 0;
const ended = (job) => job.finished ?? job.timestamp ?? job.updated ?? 0;
const name = (job) => fileOf(job).name.toLowerCase();
/// The columns of each state: [name, head, class, value to sort by].
const columns = {
  file: ["File", "file", name], host: ["Host", "host", (job) => job.host ?? ""], progress: ["Progress", "progress", (job) => share(job) ?? -1],
  size: ["Size", "number size", (job) => job.total ?? job.received ?? -1], speed: ["Speed", "number speed", (job) => job.speed ?? -1],
  left: ["Left", "number left", (job) => left(job) ?? Infinity], worker: ["Worker", "worker", (job) => job.worker ?? ""], age: ["Age", "number age", (job) => -started(job)],
  why: ["Reason", "why", (job) => job.error ?? job.waiting ?? ""], ended: ["Ended", "number age", (job) => -ended(job)], due: ["Due", "number age", (job) => job.timestamp ?? 0],
  pushed: ["Pushed", "number age", (job) => -(job.timestamp ?? job.created ?? 0)], since: ["Since", "number age", (job) => -ended(job)], took: ["Took", "number left", (job) => (job.finished ?? 0) - started(job)],
};
const columnsOf = {
  running: ["file", "host", "progress", "size", "speed", "left", "worker", "age"], queued: ["file", "host", "why", "pushed"], scheduled: ["file", "host", "why", "due"],
  paused: ["file", "host", "progress", "size", "worker", "since"], failed: ["file", "host", "why", "size", "worker", "ended"],
  completed: ["file", "host", "size", "took", "worker", "ended"], cancelled: ["file", "host", "worker", "ended"],
};
/// What changes all the time.
const volatile = new Set(["speed", "left", "progress"]);
const defaultSort = { running: "age", paused: "since", failed: "ended", completed: "ended", cancelled: "ended" };
/// The column by whose times the queue keeps the jobs of a state, so that a list of any length has this order, and the
/// value of `sort` with which it begins at the other end.
const indexed = { queued: ["pushed", "pushed"], scheduled: ["due", "-due"], paused: ["since", "-since"], failed: ["ended", "-ended"], completed: ["ended", "-ended"], cancelled: ["ended", "-ended"] };
/// The server's name for the order of a column, and whether that begins with the greatest.
const serverSort = { file: ["name", false], host: ["host", false], progress: ["done", true], size: ["size", true], speed: ["speed", true], left: ["eta", false], worker: ["worker", false], age: ["age", true], why: ["error", false] };
/// The order in which the sort menu names things.
const sortWords = { pushed: "pushed last", due: "due first", "-due": "due last", age: "newest first", "-age": "oldest first", file: "by name", "-size": "largest first", "-speed": "fastest first", speed: "slowest first", left: "done soonest", ended: "newest first", "-ended": "oldest first", since: "newest first", "-since": "oldest first" };

/// The row of one job. It is filled again when the job changes.
function row(context, list) {
  const { state, kinds } = list;
  const box = context.isOperator ? el("input", { type: "checkbox", tabindex: -1 }) : null;
  const mark = el("td", { class: "mark" });
  const anchor = el("a");
  const folder = el("span", { class: "folder" });
  const bar = progressBar();
  const far = el("span", { class: "far" });
  const cells = new Map(kinds.map((kind) => [kind, el("td", { class: columns[kind][1] })]));
  cells.get("file").append(anchor, " ", folder);
  cells.get("progress")?.append(bar.bar, far);
  const line = el("tr", { "aria-selected": "false" }, box ? el("td", { class: "check" }, box) : null, mark, [...cells.values()]);
  let shown = "";
  let job = null;
  box?.addEventListener("click", (event) => { event.stopPropagation(); list.toggle(job.id, event.shiftKey); });
  line.addEventListener("click", (event) => {
    if (event.target.closest("a, input, button") || getSelection().toString()) return;
    list.go(job.id);
    location.hash = context.path("job", [job.id]);
  });
  let press = null;
  line.addEventListener("touchstart", () => { press = setTimeout(() => list.toggle(job.id, false), 500); }, { passive: true });
  for (const name of ["touchend", "touchmove", "touchcancel"]) line.addEventListener(name, () => clearTimeout(press), { passive: true });
  return {
    line,
    fill(next, position, now) {
      job = next;
      const isSelected = list.isSelected(job.id);
      if (box) { box.checked = isSelected; box.setAttribute("aria-label", `Select ${fileOf(job).name}`); }
      line.setAttribute("aria-selected", String(isSelected));
      line.setAttribute("aria-rowindex", String(position + 2));
      line.classList.toggle("current", list.currentID === job.id);
      line.classList.toggle("gone", Boolean(job.gone));
      const when = { age: started(job), ended: ended(job), since: ended(job), pushed: job.timestamp ?? job.created, due: job.timestamp }[kinds[kinds.length - 1]];
      const text = JSON.stringify([job, Math.floor((now - when) / 1000), list.pending.get(job.id)]);
      if (text === shown) return;
      shown = text;
      const { name: file, folder: location } = fileOf(job);
      write(anchor, file);
      anchor.setAttribute("href", context.path("job", [job.id]));
      write(folder, location);
      cells.get("file").title = [job.path ?? job.file, job.url, job.id].filter(Boolean).join("\n");
      redraw(mark, [job.state, job.waiting, job.kind], () => stateIcon(job));
      const set = (kind, words, tone = "") => { const cell = cells.get(kind); if (cell) { write(cell, words); if (tone !== null) cell.dataset.tone = tone; } };
      set("host", job.host ?? "");
      const part = share(job);
      if (cells.has("progress")) {
        const isRequest = job.kind === "request";
        bar.bar.classList.toggle("none", part === null);
        if (part !== null) {
          const ranges = job.offsets?.length ? job.offsets : [[0, job.received ?? 0]];
          bar.draw(ranges, job.total, job.waiting || job.state === "paused" ? "amber" : "blue");
        }
        write(far, part !== null ? percent(part) : isRequest ? "Waits for a response" : job.received ? `${bytes(job.received)} so far` : job.waiting ? "" : "Connects");
      }
      set("size", job.total ? bytes(job.total) : job.state === "completed" && job.received ? bytes(job.received) : "");
      const why = list.pending.get(job.id) ?? (job.waiting && state === "running" ? waitsFor(job.waiting) : "");
      line.classList.toggle("waits", Boolean(why));
      set("speed", why || (job.speed && job.state === "running" ? speed(job.speed) : ""), why ? "amber" : "");
      const seconds = left(job);
      set("left", why ? "" : state === "running" ? (seconds !== null && seconds < 1e7 ? short(seconds) : "") : state === "completed" && job.finished ? short((job.finished - started(job)) / 1000) : "");
      set("worker", job.worker ?? "");
      if (cells.has("why")) {
        const words = state === "failed" ? [about(job.error).title, about(job.error).status ? `(${about(job.error).status})` : "", job.attempt ? `· ${plural(job.attempt + 1, "attempt")}` : ""].filter(Boolean).join(" ")
          : state === "scheduled" && !job.waiting ? (job.error ? `Retry ${job.attempt ?? 1}: ${about(job.error).title.toLowerCase()}` : "Starts at a time") : job.waiting ? waitsFor(job.waiting) : "Waits for its turn";
        set("why", words, state === "failed" ? "red" : job.waiting ? "amber" : "");
        cells.get("why").title = [job.error, job.message].filter(Boolean).join(": ");
      }
      const last = cells.get(kinds[kinds.length - 1]);
      const words = kinds.at(-1) === "due" ? (when > now ? `in ${short((when - now) / 1000)}` : "due now") : when ? age((now - when) / 1000) : "";
      redraw(last, [when, words], () => (when ? time(when, words) : ""));
    },
  };
}

export function jobs(context) {
  const { queue, rest, query, live, body, path, keys, isOperator } = context;
  const state = states.includes(rest[0]) ? rest[0] : "running";
  const filter = Object.fromEntries(filterNames.map((name) => [name, (query.get(name) ?? "").trim()]));
  const isFiltered = Object.values(filter).some(Boolean);
  const byGroup = state === "failed" && !isFiltered && query.get("view") !== "list";
  context.title("Jobs");
  const views = savedViews();
  const save = el("button", { type: "button", onclick: () => {
    const label = prompt("A name for this view", [nameOf(state), ...Object.values(filter).filter(Boolean)].join(", "));
    if (!label) return;
    views.add(label, location.hash);
    say("The view is saved in this browser.");
    drawViews();
  } }, icon("bookmark"), "Save this view");
  const saved = el("div", { class: "saved" });
  context.header(null, [saved, save, context.pushButton()]);
  function drawViews() {
    const all = views.all();
    redraw(saved, all, () => (all.length ? el("details", { class: "drop" }, el("summary", { class: "button" }, `Views (${count(all.length)})`), el("ul", { class: "drop-list" }, all.map(([label, hash]) =>
      el("li", {}, el("a", { href: hash }, label), el("button", { type: "button", class: "plain", "aria-label": `Forget the view ${label}`, onclick: () => { views.remove(label); drawViews(); } }, icon("close")))))) : ""));
  }
  drawViews();

  // The states
  const tabs = new Map(states.map((name) => {
    const number = el("span", { class: "number" });
    const item = link(path("jobs", [name], { q: filter.q, host: filter.host, kind: filter.kind, batch: filter.batch, group: filter.group, worker: filter.worker }), icon(name, tones[name]), el("span", {}, nameOf(name)), number);
    if (name === state) item.setAttribute("aria-current", "page");
    return [name, { item, number }];
  }));
  const facetBox = el("div", { class: "facets", id: "facets" });
  const searchBox = el("input", { type: "search", name: "q", value: filter.q, "aria-label": "Search", placeholder: "File, URL, id or message", spellcheck: "false" });
  const form = el("form", { class: "search", role: "search" }, icon("search"), searchBox, key("/"));
  const go = (changed, more = {}) => { location.hash = path("jobs", [state], { ...filter, ...changed, ...more }); };
  form.addEventListener("submit", (event) => { event.preventDefault(); go({ q: searchBox.value.trim() }); });
  const filterButton = el("button", { type: "button", class: "filter-button", "aria-expanded": "false", "aria-controls": "facets", onclick: () => {
    const isOpen = facetBox.classList.toggle("open");
    filterButton.setAttribute("aria-expanded", String(isOpen));
  } }, icon("settings"), "Filter");
  const sums = el("p", { class: "sums", role: "status" });
  const sortBox = el("div", { class: "sort" });
  const viewBox = state === "failed" && !isFiltered ? segments("How failed jobs are shown", ["By reason and host", "One list"], byGroup ? 0 : 1, (index) => { location.hash = path("jobs", [state], { view: index ? "list" : "" }); }) : null;
  const tags = el("div", { class: "tags" }, Object.entries(filter).filter(([, value]) => value).map(([name, value]) => {
    const others = { ...filter, [name]: "" };
    return el("a", { class: "tag", href: path("jobs", [state], others), "aria-label": `Remove the filter ${facetTitles[name] ?? "Search"}: ${facetValue(name, value)}` },
      el("span", { class: "dim" }, `${facetTitles[name] ?? "Search"}: `), facetValue(name, value), icon("close"));
  }), isFiltered ? link(path("jobs", [state]), "Clear all") : null);
  tags.hidden = !isFiltered;
  const hit = el("p", { class: "hit", hidden: true });
  const content = el("div", { class: "list-side" }, el("div", { class: "list-tools" }, form, filterButton, viewBox, sortBox, sums), tags, hit);
  body.append(el("ul", { class: "states" }, [...tabs.values()].map(({ item }) => el("li", {}, item))), el("div", { class: "list-page" }, facetBox, content));
  // On a narrow screen the states are scrolled.
  const tabList = tabs.get(state).item.closest("ul");
  context.whenReady(() => { tabList.scrollLeft = tabs.get(state).item.offsetLeft - tabList.offsetLeft - 14; });
  if (query.get("find")) context.whenReady(() => searchBox.focus());

  let total = 0;
  let facets = null;
  function drawFacets(data) {
    if (!data) return;
    facets = data;
    redraw(facetBox, [facetsOf[state].map((name) => data[name]), data.of], () => facetsOf[state].map((name) => {
      let pairs = data[name];
      if (name === "waiting" && state === "running" && pairs.length) pairs = [["none", data.of - pairs.reduce((sum, [, many]) => sum + many, 0)], ...pairs];
      if (!pairs.length || (pairs.length < 2 && ["kind", "waiting"].includes(name))) return null;
      const items = pairs.map(([value, many]) => el("li", {}, el("a", { href: path("jobs", [state], { ...filter, [name]: filter[name] === value ? "" : value }), ...(filter[name] === value ? { "aria-current": "true" } : {}) },
        el("span", { class: "clip" }, facetValue(name, value)), el("span", { class: "number" }, data.of < data.total ? `≈ ${percent(many / data.of)}` : count(many)))));
      const more = items.slice(5).map((item) => { item.hidden = true; return item; });
      return el("section", {}, el("h2", {}, facetTitles[name]), el("ul", {}, items,
        more.length ? el("li", {}, el("button", { type: "button", class: "plain", onclick: (event) => { more.forEach((item) => { item.hidden = false; }); event.currentTarget.parentNode.remove(); } }, `${count(more.length)} more`)) : null));
    }));
    facetBox.title = data.of < data.total ? `Counted among ${count(data.of)} of ${count(data.total)} jobs` : "";
    drawSums();
  }
  function drawSums() {
    if (list?.isPart) write(sums, list.words());
    else if (state === "running" && facets && !isFiltered) {
      redraw(sums, [facets.total, facets.speed, bytes(facets.left)], () => [`${count(facets.total)} running at `, el("strong", {}, speed(facets.speed)), facets.left ? `, ${bytes(facets.left)} left` : ""]);
    } else if (state === "failed" && facets && !isFiltered) {
      const may = Object.fromEntries(facets.retryable).true ?? 0;
      redraw(sums, [facets.total, may], () => [`${count(facets.total)} failed${facets.total ? "; " : ""}`, facets.total ? el("strong", {}, may ? `a retry may help ${count(may)}` : "a retry will not help") : ""]);
    } else write(sums, list?.words() ?? "");
  }

  const watches = [
    [inQueue(queue), (data) => { if (data) for (const [name, tab] of tabs) write(tab.number, count(data.counts[name])); }],
    [withQuery(inQueue(queue, "facets"), { state }), drawFacets],
  ];
  let list = null;
  const cleanups = [];
  if (byGroup) {
    const view = groups(context, content);
    watches[0] = [inQueue(queue), (data) => { if (!data) return; for (const [name, tab] of tabs) write(tab.number, count(data.counts[name])); view.draw(data); }];
    live.watch(watches);
  } else {
    list = new List(context, { state, filter, isFiltered, content, watches, sortBox, hit, drawSums, setTotal: (number) => { total = number; } });
    // A list that is known already was drawn before it was assigned.
    drawSums();
    cleanups.push(() => list.end());
  }
  keys.add(Object.fromEntries(states.map((name, index) => [String(index + 1), () => { location.hash = path("jobs", [name]); }])));
  return () => { for (const body of cleanups) body(); };
}

/// Names for places of this page, kept in this browser.
function savedViews() {
  const store = "haul views";
  const all = () => { try { return JSON.parse(localStorage.getItem(store)) ?? []; } catch { return []; } };
  const keep = (views) => localStorage.setItem(store, JSON.stringify(views));
  return {
    all,
    add: (label, hash) => keep([...all().filter(([name]) => name !== label), [label, hash]]),
    remove: (label) => keep(all().filter(([name]) => name !== label)),
  };
}

/// The ids of the list that was shown last, for the keys [ and ] on the page of a job.
export let lastList = [];

class List {
  constructor(context, parts) {
    Object.assign(this, parts);
    this.context = context;
    this.kinds = columnsOf[this.state];
    /// The rows by their position, as far as they are known.
    this.items = new Map();
    this.length = 0;
    this.total = 0;
    this.selected = new Set();
    this.isAll = false;
    this.pending = new Map();
    this.known = new Map();
    this.isBegun = false;
    this.isCurrent = true;
    this.isWhole = true;
    /// The list is too long for the chosen order, so it has only the first rows of those that the server has sorted.
    this.isPart = false;
    this.examined = 0;
    const given = context.query.get("sort");
    this.sort = given ?? defaultSort[this.state] ?? null;
    this.pool = [];
    this.makeTable();
    this.makeSelectionBar();
    this.makeKeys();
    this.watched = "";
    this.pages = new Set([0]);
    // With a filter: the first page, which is watched, and where it ends; what the last search has found behind it; and
    // the jobs that have left the page since, with the number of the search before.
    this.page = null;
    this.pageEnd = 0;
    this.behind = [];
    this.moved = new Map();
    /// Where the search has come to: undefined once all jobs of the state were examined.
    this.next = 0;
    this.isComplete = false;
    this.searches = 0;
    this.searchAt = 0;
    /// A stream does not search the waiting elements for a whole URL, so its list leaves out jobs that no worker has seen.
    this.hidesUnseen = this.state === "queued" && isWholeURL(this.filter.q);
    this.watch();
    if (this.isFiltered) this.search();
    this.timer = setInterval(() => this.tick(), 1000);
    this.onscroll = () => { if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = null; this.paint(); this.need(); }); };
    addEventListener("scroll", this.onscroll, { passive: true });
    this.scroller.addEventListener("scroll", this.onscroll, { passive: true });
    this.resizer = new ResizeObserver(this.onscroll);
    this.resizer.observe(this.scroller);
  }

  end() {
    this.isCurrent = false;
    clearInterval(this.timer);
    removeEventListener("scroll", this.onscroll);
    this.resizer.disconnect();
    this.bar.remove();
    lastList = this.order().map((job) => job.id);
  }

  makeTable() {
    const { context, state, kinds } = this;
    this.all = context.isOperator ? el("input", { type: "checkbox", "aria-label": "Select all rows", onchange: () => this.selectAll(this.all.checked) }) : null;
    this.heads = new Map(kinds.map((kind) => {
      const [title, className] = columns[kind];
      const button = el("button", { type: "button", class: "plain", onclick: () => this.sortBy(kind) }, title);
      return [kind, el("th", { scope: "col", class: className }, button)];
    }));
    // One cell is enough: further columns would take width from the files where some are hidden.
    this.top = el("tr", { class: "spacer", "aria-hidden": "true" }, el("td"));
    this.bottom = el("tr", { class: "spacer", "aria-hidden": "true" }, el("td"));
    this.lines = el("tbody", {}, this.top, this.bottom);
    this.table = el("table", { class: `list ${state}`, role: "grid", "aria-label": `Jobs that are ${state}` }, el("thead", {}, el("tr", {}, this.all ? el("th", { class: "check", scope: "col" }, this.all) : null, el("th", { class: "mark", scope: "col" }, el("span", { class: "hidden" }, "State")), [...this.heads.values()])), this.lines);
    this.scroller = el("div", { class: "list-scroll", tabindex: 0, role: "region", "aria-label": `Jobs that are ${state}` }, this.table);
    this.news = el("button", { type: "button", class: "news", hidden: true, onclick: () => { this.frozen = null; this.scroller.scrollTop = 0; this.take(this.newest); } });
    this.empty = el("div", { class: "empty", hidden: true });
    this.footer = el("span", { role: "status" }, "Reading …");
    const hints = el("span", { class: "hints" }, [["j", "k", "move"], ...(context.isOperator ? [["x", "select"]] : []), ["enter", "open"], ...(context.isOperator ? keysOf(state).filter(([, action]) => action !== "cancel").map(([name, action]) => [name, names[action].toLowerCase()]) : []), ["?", "all keys"]]
      .map((parts) => el("span", {}, parts.slice(0, -1).map((name) => key(name)), parts.at(-1))));
    this.box = el("section", { class: "card list-card" }, this.news, this.scroller, this.empty, el("div", { class: "list-foot" }, this.footer, hints));
    this.skeleton();
    this.content.append(this.box);
  }

  /// Grey rows in the geometry of the real ones, for answers that take long.
  skeleton() {
    this.box.classList.add("reading");
  }

  // MARK: Reading

  path(from, limit) { return withQuery(inQueue(this.context.queue, "jobs"), { state: this.state, from: from || "", limit, ...this.filter, ...(this.isWhole ? {} : this.sorting()) }); }

  /// Whether the queue keeps its jobs in the chosen order.
  isIndexed() { return this.sort === null || indexed[this.state]?.[0] === this.sort.replace(/^-/, ""); }

  /// The parameters with which the server sorts a long list.
  sorting() {
    if (this.isIndexed()) return { reverse: this.sort !== null && indexed[this.state][1] === this.sort ? "true" : "" };
    const [sort, isGreatestFirst] = serverSort[this.sort.replace(/^-/, "")] ?? ["id", false];
    return { sort, reverse: this.sort.startsWith("-") !== isGreatestFirst ? "true" : "" };
  }

  watch() {
    const { context } = this;
    if (this.isFiltered) {
      context.live.watch([...this.watches, [this.path(0, PAGE), (data, failure) => {
        if (failure) return write(this.footer, failure.message);
        this.isBegun = true;
        this.total = data.total;
        this.takeFirst(data);
      }]]);
      return;
    }
    if (this.total <= WHOLE) {
      this.watched = "whole";
      context.live.watch([...this.watches, [this.path(0, WHOLE), (data, failure) => {
        if (failure) return write(this.footer, failure.message);
        this.isBegun = true;
        this.total = data.total;
        this.setTotal(data.total);
        if (data.total > WHOLE) return this.becomeLong(data);
        this.isWhole = true;
        this.take(data.jobs);
      }]]);
      return;
    }
    this.isWhole = false;
    this.isPart = !this.isIndexed();
    if (this.isPart) {
      this.watched = "part";
      context.live.watch([...this.watches, [this.path(0, WHOLE), (data, failure) => {
        if (failure) return write(this.footer, failure.message);
        this.isBegun = true;
        [this.total, this.examined] = [data.total, data.examined];
        this.known.clear();
        this.take(data.jobs);
      }]]);
      return;
    }
    const pages = [...this.pages].slice(-2);
    this.watched = pages.join();
    context.live.watch([...this.watches, ...pages.map((page) => [this.path(page * PAGE, PAGE), (data, failure) => {
      if (failure) return write(this.footer, failure.message);
      this.total = data.total;
      this.takePage(page, data);
    }])]);
  }

  /// The list has more jobs than are read as a whole. To sort running jobs costs the server a read of all of them, so they
  /// are sorted only if the URL says so.
  becomeLong(data) {
    this.isWhole = false;
    if (this.sort?.endsWith("took") || (!this.context.query.get("sort") && !this.isIndexed())) this.sort = null;
    if (this.isIndexed() && !this.sorting().reverse) this.takePage(0, data);
    this.watch();
  }

  takePage(page, data) {
    if (this.isPart) return;
    this.isBegun = true;
    this.length = data.total;
    // A page may have fewer rows than positions: a waiting element that repeats the push of a job that runs is none.
    for (let index = 0; index < Math.max(PAGE, data.jobs.length); index += 1) {
      if (data.jobs[index]) this.items.set(page * PAGE + index, data.jobs[index]); else this.items.delete(page * PAGE + index);
    }
    for (const index of this.items.keys()) if (index >= data.total) this.items.delete(index);
    this.drawn();
  }

  /// Reads the pages that can be seen, if they are not known or not watched.
  need() {
    if (this.isWhole || this.isPart || this.isFiltered) return;
    const [first, last] = this.visible();
    const pages = new Set([Math.floor(first / PAGE), Math.floor(Math.max(first, last - 1) / PAGE)]);
    if ([...pages].join() === [...this.pages].join()) return;
    this.pages = pages;
    clearTimeout(this.reading);
    this.reading = setTimeout(async () => {
      for (const page of pages) {
        if (this.items.has(page * PAGE)) continue;
        try { const data = await patiently(this.path(page * PAGE, PAGE)); if (this.isCurrent) this.takePage(page, data); } catch (error) { if (this.isCurrent) complain(error.message); }
      }
      if (this.isCurrent && [...this.pages].join() !== this.watched) this.watch();
    }, 120);
  }

  /// A whole list. While rows are selected or the list is scrolled, rows keep their places and new ones wait.
  take(jobs) {
    if (!jobs) return;
    this.newest = jobs;
    const now = Date.now();
    const present = new Map(jobs.map((job) => [job.id, job]));
    const isStill = !this.isFiltered && !this.isPart && (this.selected.size > 0 || this.currentID || this.scroller.scrollTop > 40);
    for (const [id, job] of this.known) {
      if (present.has(id)) continue;
      // A job that has left the state stays for some seconds.
      job.gone ??= now;
      if (now - job.gone < GONE) present.set(id, job); else { this.known.delete(id); this.selected.delete(id); this.pending.delete(id); }
    }
    if (isStill && this.frozen) {
      const fresh = [...present.values()].filter((job) => !this.frozen.has(job.id));
      for (const job of fresh) present.delete(job.id);
      this.news.hidden = fresh.length === 0;
      write(this.news, `${count(fresh.length)} new, show`);
    } else {
      this.news.hidden = true;
      this.frozen = new Set(present.keys());
    }
    this.known = present;
    const order = this.sorted([...present.values()]);
    this.items = new Map(order.map((job, index) => [index, job]));
    this.length = order.length;
    this.drawn();
  }

  sorted(jobs) {
    if (!this.sort) return jobs;
    const kind = this.sort.replace(/^-/, "");
    const value = columns[kind]?.[2];
    if (!value) return jobs;
    // Rows do not jump while their speeds change: they keep the order that they had when it was asked for.
    const places = new Map((this.fixed?.sort === this.sort ? this.fixed.ids : []).map((id, index) => [id, index]));
    if (volatile.has(kind) && places.size) {
      return jobs.map((job) => [places.get(job.id) ?? Infinity, job]).sort(([one], [other]) => (one === other ? 0 : one - other)).map(([, job]) => job);
    }
    const sign = this.sort.startsWith("-") ? -1 : 1;
    const order = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
    const ordered = jobs.map((job) => [value(job), job]).sort(([one, a], [other, b]) => sign * order(one, other) || order(a.id, b.id)).map(([, job]) => job);
    this.fixed = { sort: this.sort, ids: ordered.map((job) => job.id) };
    return ordered;
  }

  sortBy(kind) {
    this.resort(this.sort === kind ? `-${kind}` : kind);
  }

  resort(sort) {
    if (!this.isWhole && !this.isFiltered && sort?.replace(/^-/, "") === "took") return say(`Of more than ${count(WHOLE)} jobs the queue does not know which took longest. Filter the list to sort it.`);
    this.sort = sort;
    this.context.remember({ sort: this.sort === defaultSort[this.state] && this.isWhole ? null : this.sort });
    this.frozen = this.fixed = null;
    if (this.isWhole || this.isFiltered) return this.take(this.newest ?? []);
    this.items.clear();
    this.known.clear();
    this.pages = new Set([0]);
    this.scroller.scrollTop = 0;
    this.isBegun = false;
    return this.watch();
  }

  // With a filter, the server examines a limited number of jobs in each call. The page calls it again until a page of
  // rows is full.
  async search() {
    const { context, filter, hit } = this;
    // A job with exactly this id is shown first, whatever its state is.
    if (isID(filter.q)) {
      const job = await patiently(`${inQueue(context.queue, "jobs", filter.q)}?line=true`).catch(() => null);
      if (!this.isCurrent) return;
      hit.hidden = !job;
      if (job) hit.replaceChildren("The job ", link(context.path("job", [job.id]), job.id), ` is ${job.state}.`);
    }
    this.hasSearched = true;
    await this.searchBehind();
  }

  /// The watched first page of what the filter finds.
  takeFirst({ jobs, next }) {
    const here = new Set(jobs.map(({ id }) => id));
    // A job that is no longer here has left the state, or has moved behind the page: the next search tells.
    for (const job of this.page ?? []) if (!here.has(job.id)) this.moved.set(job.id, { job, after: this.searches });
    const end = this.hidesUnseen ? 0 : next;
    [this.page, this.pageEnd] = [jobs, end];
    if (end === undefined) {
      this.behind = [];
      this.moved.clear();
      this.next = undefined;
      this.isComplete = true;
    } else if (this.next === undefined || (!this.isComplete && !this.isSearching)) this.next = end;
    this.takeFound();
    if (!this.isComplete) this.searchBehind();
  }

  takeFound() { this.take(unique([...this.page, ...[...this.moved.values()].map(({ job }) => job), ...this.behind])); }

  /// Searches what lies behind the first page, or all if that page may leave out jobs. The first search shows what it
  /// finds at once. Each later one replaces what was found before, so that no row stays that has left the state.
  async searchBehind() {
    if (this.isSearching || !this.hasSearched || !this.page) return;
    this.isSearching = true;
    const begun = Date.now();
    const isFirst = !this.isComplete;
    const number = (this.searches += 1);
    const found = [];
    let next = this.pageEnd;
    try {
      while (next !== undefined && this.page.length + found.length < WHOLE) {
        const page = await patiently(this.path(next, PAGE));
        if (!this.isCurrent) return;
        found.push(...page.jobs);
        this.total = page.total;
        next = page.next;
        if (!isFirst) continue;
        [this.next, this.behind] = [next, found];
        this.takeFound();
      }
      // Meanwhile the first page may have become the whole list.
      if (this.pageEnd !== undefined) [this.next, this.behind] = [next, found];
      for (const [id, { after }] of this.moved) if (after < number) this.moved.delete(id);
      this.isComplete = true;
      this.takeFound();
    } catch (error) { if (isFirst && this.isCurrent) complain(error.message); } finally {
      this.isSearching = false;
      this.searchAt = Date.now() + Math.max(SEARCH_AGAIN, 10 * (Date.now() - begun));
    }
  }

  // MARK: Drawing

  rowHeight() { return matchMedia("(max-width: 719px)").matches ? 88 : 36; }

  /// The positions that can be seen.
  visible() {
    const height = this.rowHeight();
    const box = this.scroller.getBoundingClientRect();
    const head = this.lines.getBoundingClientRect();
    const top = Math.max(box.top + this.table.tHead.offsetHeight, 0);
    const bottom = Math.min(box.bottom, innerHeight);
    const first = Math.max(0, Math.floor((top - head.top) / height));
    return [Math.min(first, Math.max(0, this.length - 1)), Math.max(0, Math.min(this.length, Math.ceil((bottom - head.top) / height)))];
  }

  drawn() {
    this.box.classList.remove("reading");
    this.context.ready();
    const isEmpty = this.length === 0 && this.isBegun && (!this.isFiltered || this.isComplete);
    this.scroller.hidden = isEmpty;
    this.empty.hidden = !isEmpty;
    if (isEmpty) this.drawEmpty();
    this.table.setAttribute("aria-rowcount", String(this.length + 1));
    for (const [kind, head] of this.heads) {
      const name = this.sort?.replace(/^-/, "");
      if (name !== kind) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.sort.startsWith("-") ? "descending" : "ascending");
    }
    this.drawSort();
    this.paint();
    this.drawSelection();
    this.drawSums();
  }

  drawEmpty() {
    const { state, filter, isFiltered, context } = this;
    const ended = ["failed", "completed", "cancelled"].includes(state);
    if (ended && !isFiltered && this.settings === undefined) {
      this.settings = null;
      get(inQueue(context.queue, "settings")).then((settings) => { this.settings = settings; if (this.isCurrent) this.drawn(); }, () => {});
    }
    const last = this.settings ? ` within the last ${spanOf(keptSeconds(this.settings, state))}` : "";
    const key = [isFiltered, filter, last];
    const why = { running: "No job runs now.", queued: "No job waits.", scheduled: "No job starts at a time, and none waits for a retry.", paused: "No job is paused.", failed: `No job has failed${last}.`, completed: `No job was completed${last}.`, cancelled: `No job was cancelled${last}.` }[state];
    redraw(this.empty, key, () => (isFiltered
      ? [el("p", {}, `No job that is ${state} matches ${Object.entries(filter).filter(([, value]) => value).map(([name, value]) => `${(facetTitles[name] ?? "Search").toLowerCase()} “${facetValue(name, value)}”`).join(" and ")}.`), el("p", {}, link(context.path("jobs", [state]), "Remove the filter"))]
      : [el("p", {}, why), context.isOperator ? el("p", {}, state === "failed" ? link(context.path("jobs", ["running"]), "Show what runs") : context.pushButton()) : null]));
  }

  drawSort() {
    const kinds = Object.entries(sortWords).filter(([kind]) => this.kinds.includes(kind.replace(/^-/, "")));
    if (kinds.length === 0 || this.length < 2) return this.sortBox.replaceChildren(), (this.sortBox.drawnKey = null);
    redraw(this.sortBox, [this.sort], () => {
      const choice = el("select", { "aria-label": "Sort", onchange: () => this.resort(choice.value || null) },
        kinds.map(([kind, words]) => el("option", { value: kind }, `Sort: ${words}`)), kinds.some(([kind]) => kind === this.sort) ? null : el("option", { value: this.sort ?? "" }, this.sort ? `Sort: by ${columns[this.sort.replace(/^-/, "")]?.[0].toLowerCase() ?? "column"}` : ["queued", "scheduled"].includes(this.state) ? "Sort: next first" : "Sort: unsorted"));
      choice.value = this.sort ?? "";
      return choice;
    });
    return null;
  }

  words() {
    if (!this.isBegun) return "";
    if (this.hidesUnseen) return `${count(this.length)} found${this.isComplete ? "" : " so far"}.`;
    if (this.isFiltered) {
      if (!this.isComplete) return `${count(this.length)} found so far: ${Math.floor(100 * Math.min(1, (this.next ?? 0) / Math.max(1, this.total)))} % of ${count(this.total)} examined.`;
      return `${count(this.length)} found${this.next === undefined || this.length < PAGE ? "" : ", and perhaps more,"} among ${count(this.total)}.`;
    }
    if (this.isPart) {
      const some = this.examined < this.total ? `${indexed[this.state] && !["queued", "scheduled"].includes(this.state) ? "the newest " : this.state === "running" ? "" : "the next "}${count(this.examined)} of ` : "";
      return `The first ${count(this.length)} of ${some}${count(this.total)} ${this.state}, sorted by ${columns[this.sort.replace(/^-/, "")]?.[0].toLowerCase() ?? "id"}`;
    }
    return `${count(this.total)} ${this.state}`;
  }

  paint(isFirst = true) {
    const height = this.rowHeight();
    const [first, last] = this.visible();
    const from = Math.max(0, first - MORE_ROWS);
    const to = Math.min(this.length, last + MORE_ROWS);
    const wanted = Math.max(0, to - from);
    while (this.pool.length < wanted) this.pool.push(row(this.context, this));
    const now = serverNow();
    this.top.firstChild.style.height = `${from * height}px`;
    this.bottom.firstChild.style.height = `${Math.max(0, this.length - to) * height}px`;
    this.top.hidden = from === 0;
    this.bottom.hidden = to >= this.length;
    for (let index = 0; index < this.pool.length; index += 1) {
      const { line, fill } = this.pool[index];
      const job = index < wanted ? this.items.get(from + index) : null;
      if (index >= wanted) { line.remove(); continue; }
      if (line.nextSibling === null || line.parentNode !== this.lines) this.lines.insertBefore(line, this.bottom);
      if (job) fill(job, from + index, now);
      line.classList.toggle("blank", !job);
    }
    if (this.length) write(this.footer, `${count(Math.min(first + 1, this.length))} to ${count(last)} of ${count(this.isFiltered || this.isWhole || this.isPart ? this.length : this.total)}`);
    else if (this.isBegun) write(this.footer, this.isFiltered && !this.isComplete ? this.words() : "");
    // With its first rows the list has got its height, so more of them can be seen.
    if (isFirst && this.visible()[1] > to) this.paint(false);
  }

  tick() {
    if (!this.isCurrent) return;
    if (this.pageEnd !== undefined && Date.now() >= this.searchAt) this.searchBehind();
    if ([...this.known.values()].some((job) => job.gone)) this.take(this.newest ?? []);
    else this.paint();
  }

  // MARK: Selection

  isSelected(id) { return this.isAll || this.selected.has(id); }
  order() { return [...this.items.entries()].sort(([one], [other]) => one - other).map(([, job]) => job); }

  toggle(id, isRange) {
    if (!this.context.isOperator) return;
    this.isAll = false;
    if (isRange && this.lastToggled) {
      const all = this.order().map((job) => job.id);
      const [from, to] = [all.indexOf(this.lastToggled), all.indexOf(id)].sort((one, other) => one - other);
      if (from >= 0) for (const one of all.slice(from, to + 1)) this.selected.add(one);
    } else if (this.selected.has(id)) this.selected.delete(id); else this.selected.add(id);
    this.lastToggled = id;
    this.currentID = id;
    this.drawn();
  }

  selectAll(isChosen) {
    this.isAll = false;
    this.selected = new Set(isChosen ? this.order().filter((job) => !job.gone).map((job) => job.id) : []);
    this.drawn();
  }

  makeSelectionBar() {
    const { context, state } = this;
    const text = el("span", { class: "grow" });
    const buttons = actions[state].filter((action) => action !== "remove" || state !== "running").map((action) => {
      const isLasting = ["cancel", "remove", "delete"].includes(action);
      return el("button", { type: "button", class: "plain", "data-action": action, onclick: () => this.act(action) }, icon(icons[action]), `${names[action]}${isLasting ? "…" : ""}`,
        keyOf(state, action) ? key(keyOf(state, action)) : null);
    });
    this.whole = el("button", { type: "button", class: "plain", onclick: () => { this.isAll = !this.isAll; this.drawn(); } });
    const close = el("button", { type: "button", class: "plain", "aria-label": "Clear the selection", onclick: () => this.clear() }, icon("close"));
    this.bar = el("div", { class: "selection", role: "region", "aria-label": "What to do with the selected jobs", hidden: true }, text, el("span", { class: "rule" }), buttons, el("span", { class: "rule" }), this.whole, close);
    this.barText = text;
    if (context.isOperator) document.getElementById("floating").append(this.bar);
  }

  /// How many jobs are selected; null if that is unknown, since the search has not found all that match.
  number() {
    if (!this.isAll) return this.selected.size;
    if (!this.isFiltered) return this.total;
    return this.next === undefined ? this.length : null;
  }

  drawSelection() {
    const number = this.number();
    this.bar.hidden = number === 0;
    if (this.all) { this.all.checked = number !== 0 && (this.isAll || this.selected.size >= this.length); this.all.indeterminate = number !== 0 && !this.all.checked; }
    if (number === 0) return;
    const chosen = this.order().filter((job) => this.isSelected(job.id));
    const rest = chosen.reduce((sum, job) => sum + (job.total && job.state !== "completed" ? job.total - (job.received ?? 0) : 0), 0);
    // Of rows that were not read the rest is unknown.
    const isKnown = rest > 0 && chosen.length === number;
    redraw(this.barText, [number, rest, isKnown], () => [el("strong", {}, number === null ? "All that match are selected" : `${count(number)} selected`), isKnown ? el("span", { class: "rest" }, ` ${bytes(rest)} left`) : null]);
    const whole = this.isFiltered ? "all that match" : `all ${count(this.total)}`;
    write(this.whole, this.isAll ? "Only these rows" : `Select ${whole}`);
    this.whole.hidden = !this.isAll && !this.isFiltered && this.selected.size >= this.total;
    for (const button of this.bar.querySelectorAll("[data-action=again]")) button.hidden = this.isAll;
  }

  clear() { this.selected.clear(); this.isAll = false; this.frozen = null; this.take(this.newest); this.drawn(); }

  async act(action, ids = null) {
    const { context } = this;
    const chosen = ids ? this.order().filter((job) => ids.includes(job.id)) : this.order().filter((job) => this.isSelected(job.id));
    const where = Object.fromEntries(Object.entries(this.filter).filter(([, value]) => value));
    const isAll = this.isAll && !ids;
    const selection = isAll ? { where: { state: this.state, ...where }, limit: 100_000 } : { ids: ids ?? [...this.selected], state: this.state };
    const number = isAll ? this.number() : selection.ids.length;
    if (!(await act(context.queue, action, selection, number, chosen))) return;
    const words = { pause: "pausing…", resume: "resuming…", cancel: "cancelling…", retry: "retrying…", remove: "removing…", again: "starting elsewhere…" }[action];
    for (const job of chosen) {
      this.pending.set(job.id, words);
      setTimeout(() => { if (this.pending.get(job.id) === words) { this.pending.set(job.id, "No worker has applied it yet"); this.paint(); setTimeout(() => { this.pending.delete(job.id); }, 10_000); } }, 3000);
    }
    this.selected.clear();
    this.isAll = false;
    this.drawn();
  }

  // MARK: Keys

  go(id) { this.currentID = id; this.paint(); }

  move(step) {
    if (this.length === 0) return;
    const index = [...this.items].find(([, job]) => job.id === this.currentID)?.[0];
    const next = index === undefined ? this.visible()[0] : Math.max(0, Math.min(this.length - 1, index + step));
    const job = this.items.get(next);
    if (job) this.currentID = job.id;
    const height = this.rowHeight();
    const [top, view] = [this.scroller.scrollTop, this.scroller.clientHeight - this.table.tHead.offsetHeight];
    if (next * height < top) this.scroller.scrollTop = next * height;
    else if ((next + 1) * height > top + view) this.scroller.scrollTop = (next + 1) * height - view;
    this.paint();
    this.lines.querySelector(".current a")?.focus({ preventScroll: true });
  }

  makeKeys() {
    const { context } = this;
    const open = () => { if (this.currentID) location.hash = context.path("job", [this.currentID]); };
    const all = {
      j: () => this.move(1), k: () => this.move(-1), ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1), o: open, Enter: open,
      y: async () => { const job = this.order().find(({ id }) => id === this.currentID); if (job?.url) { try { await navigator.clipboard.writeText(job.url); say("The URL is copied."); } catch { complain("The browser does not allow this page to copy."); } } },
      Escape: () => { if (this.number() !== 0) this.clear(); else { this.currentID = null; this.paint(); } },
    };
    const ids = () => (this.number() !== 0 ? null : this.currentID ? [this.currentID] : []);
    const doing = (action) => () => { const chosen = ids(); if (chosen === null || chosen.length) this.act(action, chosen); };
    if (context.isOperator) {
      all.x = () => { if (this.currentID) this.toggle(this.currentID, false); };
      all.X = () => { if (this.currentID) this.toggle(this.currentID, true); };
      for (const [name, action] of keysOf(this.state)) all[name] = doing(action);
    }
    context.keys.add(all);
  }
}

/// The jobs without repeats. Of two with the same id the first one stays.
function unique(list) {
  const known = new Set();
  return list.filter(({ id }) => !known.has(id) && known.add(id));
}
