// One stream with all changes. It reports a lost connection or a refusal, and connects again by itself. The server sends
// everything again on each connection.

import { setServerTime } from "./format.js";
import { parse } from "./numbers.js";

const MAX_SILENCE = 12_000;
/// The events of a job are asked for again this long (ms) after the server has refused them.
const EVENTS_AGAIN = 30_000;
/// An answer that no page shows any more is kept this long (ms) for a page that is shown again.
const MAX_KEPT = 10_000;

export class Live {
  #source = null;
  /// What the surroundings of the page watch, and what the page watches: [path, taker].
  #base = [];
  #watches = [];
  #events = null;
  /// When the events may be asked for, by this browser's clock.
  #eventsAt = 0;
  #lastMessage = 0;
  #status;
  #retry = null;
  /// When the stream is tried again, by this browser's clock.
  nextTry = 0;
  /// The newest answer of each path, so that a page that is shown again soon has content at once: `{ data, asOf }`. At
  /// `asOf`, by this browser's clock, it was current.
  #known = new Map();
  /// The paths that the open stream has answered. It sends each change of these, so their answers are current whenever
  /// anything arrives.
  #answered = new Set();

  /// `status` is called with "live", "alive", "redis", "lost" or "refused", and perhaps a message.
  constructor(status) {
    this.#status = status;
    setInterval(() => { if (this.#source && Date.now() - this.#lastMessage > MAX_SILENCE) this.#reconnect(0); }, 1000);
    addEventListener("pagehide", () => this.#pause());
    addEventListener("pageshow", (event) => { if (event.persisted) this.#open(); });
  }

  /// A page that the browser keeps for "back" would hold its stream, and a browser has six connections to a server.
  #pause() {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#retry);
  }

  /// Watches for the surroundings of all pages.
  surround(watches) {
    const isSame = watches.map(([path]) => path).join() === this.#base.map(([path]) => path).join();
    this.#base = watches;
    if (!isSame) this.#begin();
  }

  /// Replaces everything that the page watches. `watches` are [path, taker]. `events` is [queue/id, taker, refused]:
  /// `refused` gets the reason if the server sends no events, and null when they are asked for again.
  watch(watches, events = null) {
    const shown = this.#paths();
    for (const [path, { asOf }] of this.#known) if (!shown.has(path) && Date.now() - asOf > MAX_KEPT) this.#forget(path);
    this.#watches = watches;
    this.#events = events;
    this.#eventsAt = 0;
    for (const [path, take] of watches) if (this.#known.has(path)) take(this.#known.get(path).data, null);
    this.#begin();
  }

  /// Opens one stream for all calls of this turn.
  #isDue = false;
  #begin() {
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => { this.#isDue = false; this.#open(); });
  }

  tryNow() { this.#open(); }

  /// When the oldest of the answers that are shown was current; null if none is shown.
  get oldest() {
    const times = [...this.#paths()].filter((path) => this.#known.has(path)).map((path) => this.#known.get(path).asOf);
    return times.length ? Math.min(...times) : null;
  }

  #forget(path) {
    this.#known.delete(path);
    this.#answered.delete(path);
  }

  #paths() { return new Set([...this.#base, ...this.#watches].map(([path]) => path)); }

  #takers(path) { return [...this.#base, ...this.#watches].filter(([name]) => name === path).map(([, take]) => take); }

  #open() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = null;
    this.#answered.clear();
    const paths = this.#paths();
    if (paths.size === 0) return;
    const query = new URLSearchParams();
    for (const path of paths) query.append("watch", path);
    if (this.#events && Date.now() >= this.#eventsAt) {
      query.append("events", this.#events[0]);
      this.#events[2]?.(null);
    }
    const url = `api/live?${query}`;
    const source = new EventSource(url);
    this.#source = source;
    this.#lastMessage = Date.now();
    const on = (name, body) => source.addEventListener(name, (message) => {
      if (source !== this.#source) return;
      this.#lastMessage = Date.now();
      for (const path of this.#answered) this.#known.get(path).asOf = this.#lastMessage;
      body(parse(message.data));
    });
    on("alive", () => this.#status("alive"));
    on("change", ({ watch, data }) => {
      this.#status("live");
      this.#known.set(watch, { data, asOf: this.#lastMessage });
      this.#answered.add(watch);
      // What came before the server's time was shown with the ages of this browser's clock.
      const isNewTime = typeof data.now === "number" && setServerTime(data.now);
      for (const [path, take] of [...this.#base, ...this.#watches]) if (path === watch || (isNewTime && this.#known.has(path))) take(this.#known.get(path).data, null);
    });
    on("failure", (failure) => {
      if (failure.watch === undefined) return this.#goOnWithoutEvents(failure);
      if (failure.error === "redis") {
        // What is shown stays, and becomes older.
        this.#answered.delete(failure.watch);
        return this.#status("redis", failure.message);
      }
      this.#forget(failure.watch);
      for (const take of this.#takers(failure.watch)) take(null, failure);
    });
    on("event", (event) => this.#events?.[1](event));
    source.addEventListener("error", () => { if (source === this.#source) this.#explain(source, url); });
  }

  /// The server ends a stream whose events it refuses. What the page watches goes on without them.
  #goOnWithoutEvents(failure) {
    if (!this.#events || this.#eventsAt > Date.now()) return this.#reconnect(5000, failure.message);
    const events = this.#events;
    this.#eventsAt = Date.now() + EVENTS_AGAIN;
    events[2]?.(failure);
    setTimeout(() => { if (this.#events === events) this.#open(); }, EVENTS_AGAIN + 100);
    return this.#open();
  }

  /// Asks why a stream has ended: an EventSource does not say whether the server has refused it.
  async #explain(source, url) {
    source.close();
    const aborter = new AbortController();
    let [reason, seconds] = [null, 1];
    try {
      const response = await fetch(url, { cache: "no-store", signal: aborter.signal });
      if (!response.ok) {
        reason = (await response.json()).message;
        seconds = Number(response.headers.get("Retry-After")) || 5;
      }
    } catch { /* The server does not answer. */ }
    aborter.abort();
    if (source === this.#source) this.#reconnect(1000 * seconds, reason);
  }

  #reconnect(delay, reason = null) {
    this.#status(reason ? "refused" : "lost", reason ?? undefined);
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#retry);
    this.nextTry = Date.now() + delay;
    this.#retry = setTimeout(() => this.#open(), delay);
  }
}

