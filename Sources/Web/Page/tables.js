// Workers, and elements that were no valid job.

import { inQueue } from "./api.js";
import { el, link, table, write } from "./dom.js";
import { count, duration, time } from "./format.js";

const kinds = { live: "good", quiet: "warn", lost: "bad" };

export function workers({ queue, live, body, path, title }) {
  title("Workers");
  const note = el("p", { class: "dim", role: "status" }, "Reading …");
  const { box, body: lines } = table("Workers", [
    ["Worker", ""], ["Mark", ""], ["Jobs", "number"], ["Slots", "number"], ["Seen", ""], ["Machine", "lesser"], ["Version", "less"],
  ]);
  body.append(note, el("p", { class: "dim" }, "Quiet: silent for 3 s. Lost: silent for 10 s; its jobs run elsewhere."), box);
  live.watch([[inQueue(queue, "workers"), (data, trouble) => {
    if (trouble) return write(note, trouble.message);
    write(note, data.workers.length === 0 ? "No worker serves this queue: haul worker starts one." : `${count(data.workers.length)} known.`);
    lines.replaceChildren(...data.workers.map((worker) => el("tr", {},
      el("th", { scope: "row", class: "any" }, link(path("jobs", ["running"], { worker: worker.name }), worker.name)),
      el("td", { class: kinds[worker.mark] }, worker.mark),
      el("td", { class: "number" }, String(worker.running ?? 0)), el("td", { class: "number" }, String(worker.slots ?? "")),
      el("td", {}, worker.seen ? `${duration((data.now - worker.seen) / 1000)} ago` : ""),
      el("td", { class: "any lesser" }, String(worker.host ?? ""), worker.pid ? ` (${worker.pid})` : ""),
      el("td", { class: "less" }, String(worker.version ?? "")))));
  }]]);
}

export function rejected({ queue, live, body, title, isOperator }) {
  title("Rejected");
  const note = el("p", { class: "dim", role: "status" }, "Reading …");
  const { box, body: lines } = table("Rejected elements", [["When", ""], ["Reason", ""], ["Element", ""]]);
  body.append(note, box);
  live.watch([[inQueue(queue, "rejected"), (data, trouble) => {
    if (trouble) return write(note, trouble.message);
    write(note, data.rejected.length === 0 ? "Every element was a valid job." : `The newest ${count(data.rejected.length)}.`);
    lines.replaceChildren(...data.rejected.map((entry) => el("tr", {},
      el("td", {}, time(entry.at)), el("td", { class: "any" }, entry.reason ?? ""),
      el("td", { class: "any" }, isOperator ? el("code", {}, entry.element ?? "") : "only operators see it"))));
  }]]);
}
