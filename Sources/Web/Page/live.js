// One stream with all changes. It reports a lost connection or a refusal, and connects again by itself. The server sends
// everything again on each connection.

const MAX_SILENCE = 12_000;

export class Live {
  #source = null;
  #watches = new Map();
  #events = null;
  #lastMessage = 0;
  #status;
  #retry = null;

  /// `status` is called with "live", "lost" or "refused", and perhaps a message.
  constructor(status) {
    this.#status = status;
    setInterval(() => { if (this.#source && Date.now() - this.#lastMessage > MAX_SILENCE) this.#reconnect(0); }, 1000);
  }

  /// Replaces everything that is watched. `watches` are [path, taker], `events` is [queue/id, taker].
  watch(watches, events = null) {
    this.#watches = new Map(watches);
    this.#events = events;
    this.#open();
  }

  #open() {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = null;
    if (this.#watches.size === 0) return;
    const query = new URLSearchParams();
    for (const path of this.#watches.keys()) query.append("watch", path);
    if (this.#events) query.append("events", this.#events[0]);
    const url = `api/live?${query}`;
    const source = new EventSource(url);
    this.#source = source;
    this.#lastMessage = Date.now();
    const on = (name, body) => source.addEventListener(name, (message) => {
      if (source !== this.#source) return;
      this.#lastMessage = Date.now();
      this.#status("live");
      body(JSON.parse(message.data));
    });
    on("alive", () => {});
    on("change", ({ watch, data }) => this.#watches.get(watch)?.(data, null));
    on("trouble", (trouble) => {
      if (trouble.error === "redis") this.#status("lost", trouble.message);
      this.#watches.get(trouble.watch)?.(null, trouble);
    });
    on("event", (event) => this.#events?.[1](event));
    source.addEventListener("error", () => { if (source === this.#source) this.#explain(source, url); });
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
    this.#retry = setTimeout(() => this.#open(), delay);
  }
}

