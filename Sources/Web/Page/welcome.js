// The first run: what is missing until the first file arrives.

import { inQueue, send } from "./api.js";
import { complain, copier, say } from "./dialogs.js";
import { el, redraw, svg } from "./dom.js";
import { plural } from "./format.js";
import { icon } from "./icons.js";
import { complaintAboutNumber } from "./push.js";

const rect = (x, y, width, tone) => svg("rect", { x, y, width, height: 12, rx: 6, class: tone });

export function welcome({ queue, isOperator, path }) {
  const url = el("input", { type: "url", required: true, placeholder: "https://", "aria-label": "URL", spellcheck: "false" });
  const form = el("form", { class: "welcome-form" }, el("span", { class: "input" }, icon("link"), url), el("button", { class: "main" }, "Push"));
  let isPushing = false;
  async function push(list) {
    if (isPushing) return;
    isPushing = true;
    try {
      const { pushed } = await send("POST", inQueue(queue, "jobs"), list.map((address) => ({ url: address })));
      say(`${plural(pushed.length, "job")} ${pushed.length === 1 ? "is" : "are"} in the queue.`);
      // Whoever has gone to another page meanwhile stays there.
      if (box.isConnected) location.hash = pushed.length === 1 ? path("job", [pushed[0].id]) : path("jobs", ["queued"]);
    } catch (error) { complain(error.message); } finally { isPushing = false; }
  }
  form.addEventListener("submit", (event) => { event.preventDefault(); push([url.value.trim()]); });
  const drop = el("div", { class: "card welcome-card" }, isOperator ? form : el("p", { class: "dim" }, "Only operators push jobs."),
    isOperator ? el("p", { class: "dim pointer-only" }, "or drop a file with one URL on each line · drag ", el("a", { class: "bookmarklet", href: `javascript:open(${JSON.stringify(`${location.href.replace(/[?#].*$/, "")}${path("push")}?url=`)}+encodeURIComponent(location.href))` }, "Send to Haul"), " to your bookmarks") : null);
  drop.addEventListener("dragover", (event) => event.preventDefault());
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    if (!isOperator) return;
    const file = event.dataTransfer.files[0];
    const text = file ? await file.text() : event.dataTransfer.getData("text");
    const list = text.split("\n").map((part) => part.trim()).filter(Boolean);
    const wrong = complaintAboutNumber(list);
    if (wrong) complain(wrong);
    else if (list.length) push(list);
  });
  const steps = el("div", { class: "welcome-steps" });
  const commands = [`haul worker --queue ${queue} --root /srv/${queue}`, `haul push --queue ${queue} https://example.org/big.bin`];
  const box = el("div", { class: "welcome" },
    svg("svg", { class: "welcome-mark", viewBox: "0 0 220 52", "aria-hidden": "true" }, rect(0, 0, 220, "track"), rect(0, 0, 74, "tint"), rect(110, 0, 40, "tint"),
      rect(0, 20, 220, "track"), rect(0, 20, 32, "tint"), rect(0, 40, 220, "track")),
    el("h2", {}, "Nothing to download yet"),
    el("p", { class: "welcome-lead" }, "Paste a URL. A worker fetches the file, goes on after every break, and never receives a byte twice if it can help it."),
    drop, steps, el("div", { class: "commands" }, commands.map((command) => el("div", { class: "command" }, el("code", {}, el("span", { class: "dim" }, "$ "), command), copier(`Copy the command ${command}`, () => command)))));
  return {
    box,
    draw(data) {
      const workers = data.workers.working + data.workers.quiet + data.workers.ending;
      redraw(steps, workers, () => [
        step("completed", "green", "Redis answers", "Jobs that are pushed wait there, also while no worker runs."),
        workers ? step("completed", "green", plural(workers, "worker"), "Waiting for jobs of this queue.") : step("attention", "amber", "No worker yet", "Jobs wait until one is there. Start it where the files should go:", "due"),
        step("queued", "quiet", "First file", "Its progress appears here within a second."),
      ]);
    },
  };
}

const step = (name, tone, title, text, className = "") => el("section", { class: `card ${className}` }, el("h3", {}, icon(name, tone), title), el("p", { class: "dim" }, text));
