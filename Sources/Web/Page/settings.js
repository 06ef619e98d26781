// A queue's live settings.

import { inQueue, send } from "./api.js";
import { el, field, tell, write } from "./dom.js";
import { count } from "./format.js";

export function settings({ queue, live, body, title, isOperator }) {
  title(`Settings of ${queue}`);
  const state = el("p", { role: "status" }, "Reading …");
  const limit = el("p", {});
  const toggle = el("button", { type: "button", disabled: !isOperator });
  const input = el("input", { type: "number", min: 0, step: 1, disabled: !isOperator });
  let paused = false;
  let isTouched = false;

  async function change(body, said) {
    try {
      const now = await send("PATCH", inQueue(queue, "settings"), body);
      draw(now);
      tell(said);
    } catch (error) { tell(error.message); }
  }
  function draw(now) {
    paused = now.paused;
    write(state, paused ? "The queue is paused: no job is started, running ones go on." : "The queue is open.");
    state.className = paused ? "warn" : "good";
    write(toggle, paused ? "Resume the queue" : "Pause the queue");
    write(limit, now.max_running === undefined ? "Any number of jobs may run at once." : `At most ${count(now.max_running)} jobs run at once over the whole fleet.`);
    if (!isTouched) input.value = now.max_running ?? "";
  }
  toggle.addEventListener("click", () => change({ paused: !paused }, paused ? "The queue is open." : "The queue is paused."));
  for (const name of ["input", "change"]) input.addEventListener(name, () => { isTouched = true; });
  const form = el("form", { class: "row" }, field("Most jobs at once (empty: no limit)", input), el("button", { disabled: !isOperator }, "Set"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    isTouched = false;
    change({ max_running: input.value === "" ? null : Number(input.value) }, "The limit is set.");
  });
  body.append(el("div", { class: "cards" },
    el("section", { class: "card" }, el("h2", {}, "Start of jobs"), state, toggle),
    el("section", { class: "card" }, el("h2", {}, "Limit"), limit, form)),
    isOperator ? "" : el("p", { class: "dim" }, "Only operators change settings."));
  live.watch([[inQueue(queue), (data) => { if (data) draw(data); }]]);
}
