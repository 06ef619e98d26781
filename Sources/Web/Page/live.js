// One stream with all changes. It reports a lost connection, and connects again by itself. The server sends everything
// anew on each connection.


const SILENCE = 12_000;

export class Live {
  #source = null;
  #watches = new Map();
  #events = null;
  #heard = 0;
  #status;
  #retry = null;

  /// `status` is called with "live" or "lost", and perhaps a message.
  constructor(status) {
    this.#status = status;
    setInterval(() => { if (this.#source && Date.now() - this.#heard > SILENCE) this.#again(0); }, 1000);
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
    const source = new EventSource(`api/live?${query}`);
    this.#source = source;
    this.#heard = Date.now();
    const on = (name, body) => source.addEventListener(name, (message) => {
      if (source !== this.#source) return;
      this.#heard = Date.now();
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
    source.addEventListener("error", () => { if (source === this.#source) this.#again(1000); });
  }

  #again(delay) {
    this.#status("lost");
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#open(), delay);
  }
}

