// The pages of workers, and of elements that were no valid job.

import { inQueue } from "./api.js";
import { el, rows, table, write } from "./dom.js";
import { count, duration, time } from "./format.js";

const kinds = { working: "good", quiet: "warn", ending: "warn", lost: "bad" };

export function workers({ queue, live, body, path, title }) {
  title("Workers");
  const note = el("p", { class: "dim", role: "status" }, "Reading …");
  const { box, body: lines } = table("Workers", [
    ["Worker", ""], ["State", ""], ["Jobs", "number"], ["Slots", "number"], ["Seen", ""], ["Machine", "lesser"], ["Version", "less"],
  ]);
  const fillRows = rows(lines, () => {
    const [name, state, seen, machine, version] = [el("a"), el("td"), el("td"), el("td", { class: "any lesser" }), el("td", { class: "less" })];
    const [running, slots] = [el("td", { class: "number" }), el("td", { class: "number" })];
    return {
      line: el("tr", {}, el("th", { scope: "row", class: "any" }, name), state, running, slots, seen, machine, version),
      fill({ worker, now }) {
        write(name, worker.name);
        name.setAttribute("href", path("jobs", ["running"], { worker: worker.name }));
        write(state, worker.state);
        state.className = kinds[worker.state];
        write(running, String(worker.running ?? 0));
        write(slots, String(worker.slots ?? ""));
        write(seen, worker.seen ? `${duration((now - worker.seen) / 1000)} ago` : "");
        write(machine, `${worker.host ?? ""}${worker.pid ? ` (${worker.pid})` : ""}`);
        write(version, String(worker.version ?? ""));
      },
    };
  });
  body.append(note, el("p", { class: "dim" }, "Quiet: takes no more jobs. Ending: puts its jobs back. Lost: silent for its lease; its jobs run elsewhere."), box);
  live.watch([[inQueue(queue, "workers"), (data, trouble) => {
    if (trouble) return write(note, trouble.message);
    write(note, data.workers.length === 0 ? "No worker serves this queue: haul worker starts one." : `${count(data.workers.length)} known.`);
    fillRows(data.workers.map((worker) => ({ worker, now: data.now })), ({ worker }) => worker.name);
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
