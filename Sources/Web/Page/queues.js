// All queues of this server, one in each row.

import { el, link, redraw, rows, write } from "./dom.js";
import { count, plural } from "./format.js";
import { icon } from "./icons.js";
import { pathTo } from "./main.js";

export function queues({ live, body, title, header, session, ready, subject }) {
  title("All queues");
  const sentence = el("p", { class: "lead" }, `${plural(session.queues.length, "queue")} of this server.`);
  header(sentence, []);
  const lines = el("tbody");
  body.append(el("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Queues" }, el("table", { class: "wide-rows" }, el("caption", { class: "hidden" }, "Queues"),
    el("thead", {}, el("tr", {}, [["Queue", ""], ["Running", "number"], ["Queued", "number"], ["Failed", "number"], ["Workers", "number"]].map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), lines)));
  const fill = rows(lines, (name) => {
    const mark = el("span");
    const state = el("span", { class: "under" });
    const cells = ["running", "queued", "failed", "workers"].map((what) => [what, el("td", { class: "number" })]);
    return {
      line: el("tr", { class: "two" }, el("th", { scope: "row" }, el("div", { class: "named" }, mark, el("div", {}, link(pathTo(name, "overview"), name), state))), cells.map(([, cell]) => cell)),
      fill(queue) {
        const [shape, tone, words] = queue.paused ? ["paused", "amber", "Paused"] : queue.workers === 0 && queue.queued + queue.running > 0 ? ["attention", "red", "No worker serves it"]
          : queue.workers === 0 ? ["queued", "quiet", "No worker, and nothing to do"] : ["completed", "green", queue.running ? "Works" : "Nothing runs"];
        redraw(mark, [shape, tone], () => icon(shape, tone));
        write(state, words);
        state.className = `under ${["red", "amber"].includes(tone) ? tone : ""}`;
        for (const [what, cell] of cells) write(cell, count(queue[what]));
      },
    };
  });
  live.watch([subject("queues", (data) => {
    const sum = data.queues.reduce((many, { running }) => many + running, 0);
    write(sentence, `${plural(data.queues.length, "queue")} of this server; ${plural(sum, "job")} ${sum === 1 ? "runs" : "run"}.`);
    fill(data.queues, ({ queue }) => queue);
    ready();
  })]);
}
