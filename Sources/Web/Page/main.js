// Shows the page that the URL names, and what surrounds it.

import { get } from "./api.js";
import { el, link, write } from "./dom.js";
import { Live } from "./live.js";
import { overview } from "./overview.js";
import { jobs } from "./jobs.js";
import { job } from "./job.js";
import { batches } from "./batches.js";
import { workers, rejected } from "./tables.js";
import { push } from "./push.js";
import { settings } from "./settings.js";

const pages = { overview, jobs, job, batches, workers, rejected, push, settings };
const named = [
  ["overview", "Overview"], ["jobs", "Jobs"], ["batches", "Batches"], ["workers", "Workers"], ["rejected", "Rejected"], ["push", "Push"],
  ["settings", "Settings"],
];

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const picker = document.getElementById("queue");

function showConnection(state, message) {
  connection.hidden = state === "live";
  const what = state === "lost" ? "The connection is lost: what is shown may be old." : "The server sends no changes now, so what is shown may be old.";
  write(connection, state === "live" ? "" : `${what} Trying again … ${message ?? ""}`);
}

const live = new Live(showConnection);
let session;
let stop = null;

/// The parts of the URL's fragment, #/QUEUE/PAGE/REST?QUERY.
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [queue, page, ...rest] = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return ""; }
  });
  return {
    queue: session.queues.includes(queue) ? queue : session.queues[0],
    page: Object.hasOwn(pages, page) ? page : "overview",
    rest, query: new URLSearchParams(query ?? ""),
  };
}

export function pathTo(queue, page, rest = [], query = {}) {
  const path = [queue, page, ...rest].map(encodeURIComponent).join("/");
  const pairs = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `#/${path}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`;
}

function show() {
  const here = place();
  stop?.();
  stop = null;
  document.getElementById("nav").replaceChildren(...named.filter(([page]) => page !== "push" || session.role === "operator")
    .map(([page, title]) => {
      const item = link(pathTo(here.queue, page), title);
      const isHere = here.page === page || (page === "jobs" && here.page === "job");
      if (isHere) item.setAttribute("aria-current", "page");
      return item;
    }));
  picker.value = here.queue;
  const title = el("h1", { tabindex: -1 });
  const body = el("div");
  main.replaceChildren(title, body);
  const context = {
    ...here, session, live, body,
    isOperator: session.role === "operator",
    path: (page, rest, query) => pathTo(here.queue, page, rest, query),
    title: (text) => { write(title, text); document.title = `${text} · Haul`; },
  };
  stop = pages[here.page](context) ?? null;
  title.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

async function begin() {
  try {
    session = await get("session");
  } catch (error) {
    showConnection("lost", error.message);
    setTimeout(begin, 2000);
    return;
  }
  showConnection("live");
  picker.replaceChildren(...session.queues.map((name) => el("option", { value: name }, name)));
  document.getElementById("queue-label").hidden = session.queues.length < 2;
  picker.addEventListener("change", () => { location.hash = pathTo(picker.value, place().page === "job" ? "jobs" : place().page); });
  write(document.getElementById("who"), `${session.name ? `${session.name}, ` : ""}${session.role}`);
  document.getElementById("skip").addEventListener("click", () => main.focus());
  addEventListener("hashchange", show);
  show();
}

begin();
