// Schedules: jobs that are pushed at certain times.

import { inQueue, send } from "./api.js";
import { ask, complain, menu, say } from "./dialogs.js";
import { el, link, redraw, rows, write } from "./dom.js";
import { ago, count, duration, plural, time } from "./format.js";
import { icon, stateIcon } from "./icons.js";

const done = { pause: "is paused", resume: "is due again", run: "runs now", remove: "is removed" };

async function request(queue, action, { schedule: name }) {
  if (action === "remove" && !(await ask({ question: `Remove the schedule ${name}?`, consequence: "It pushes nothing any more. Its jobs stay.", keep: "Keep it", verb: "Remove it" }))) return;
  try {
    const { id } = await send("POST", inQueue(queue, "schedules"), { action, name });
    say(`${name} ${done[action]}${id ? `, as job ${id}` : ""}.`);
  } catch (error) {
    complain(`${name}: ${error.message}`);
  }
}

/// When it is due: [words, more].
function when(schedule) {
  const rule = schedule.cron ? `${schedule.cron} ${schedule.zone ?? "UTC"}` : schedule.every ? `every ${duration(schedule.every)}` : "";
  if (schedule.error) return ["Not valid", schedule.error, "red"];
  if (schedule.paused) return ["Paused", rule, "amber"];
  return [schedule.next ? null : "To be planned", rule, ""];
}

export function schedules({ queue, live, body, path, title, header, isOperator, ready }) {
  title("Schedules");
  const sentence = el("p", { class: "lead" }, "Reading …");
  header(sentence, []);
  const lines = el("tbody");
  const heads = [["Schedule", ""], ["Next run", ""], ["Last run", ""], ["Pushed", "number"], ["Skipped", "number less"], ["Missed", "number less"], ...(isOperator ? [["Change", "tools-head"]] : [])];
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Schedules" }, el("table", { class: "batch-table stacked" }, el("caption", { class: "hidden" }, "Schedules"),
    el("thead", {}, el("tr", {}, heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text === "Change" ? el("span", { class: "hidden" }, text) : text)))), lines));
  const empty = el("div", { class: "empty", hidden: true }, el("p", {}, "There are no schedules."), el("p", {}, el("code", {}, `haul schedule add NAME --cron '0 3 * * *' --queue ${queue} URL`), " adds one."));
  body.append(el("section", { class: "card" }, box, empty));
  let now = Date.now();
  const fill = rows(lines, (name) => {
    const [url, next, rule, last, lastAt, pushed, skipped, missed, tools] = [el("span", { class: "under" }), el("span"), el("span", { class: "under" }), el("span"), el("span", { class: "under" }), el("td", { class: "number" }), el("td", { class: "number less" }), el("td", { class: "number less" }), el("td", { class: "tools-cell" })];
    return {
      line: el("tr", { class: "three" }, el("th", { scope: "row" }, name, url), el("td", {}, next, rule), el("td", {}, last, lastAt), pushed, skipped, missed, isOperator ? tools : null),
      fill(schedule) {
        write(url, schedule.url ?? "");
        const [words, more, tone] = when(schedule);
        redraw(next, [words, schedule.next, Math.floor(now / 5000)], () => (words ? words : schedule.next <= now ? "now" : ["in ", time(schedule.next, duration(Math.ceil((schedule.next - now) / 1000)))]));
        next.className = tone;
        write(rule, more);
        redraw(last, [schedule.last_id, schedule.last_state], () => (schedule.last_id ? [schedule.last_state ? stateIcon({ state: schedule.last_state }) : null, " ", link(path("job", [schedule.last_id]), schedule.last_state ?? "forgotten")] : "none yet"));
        redraw(lastAt, [schedule.last_at, Math.floor(now / 60_000)], () => (schedule.last_at ? [ago(schedule.last_at, now), " ago"] : ""));
        write(pushed, count(schedule.pushed));
        write(skipped, count(schedule.skipped));
        write(missed, count(schedule.missed));
        if (!isOperator) return;
        redraw(tools, [schedule.paused, Boolean(schedule.error)], () => [
          schedule.error ? "" : el("button", { type: "button", class: "small", "data-changes": true, onclick: () => request(queue, "run", schedule) }, icon("play"), "Run now"),
          menu(`More for ${name}`, [...(schedule.error ? [] : [schedule.paused ? ["play", "Resume", () => request(queue, "resume", schedule)] : ["pause", "Pause", () => request(queue, "pause", schedule)]]), ["trash", "Remove…", () => request(queue, "remove", schedule), "danger"]]),
        ]);
      },
    };
  });
  live.watch([[inQueue(queue, "schedules"), (data) => {
    if (!data) return;
    now = Date.now();
    ready();
    const wrong = data.schedules.filter((schedule) => schedule.error || schedule.last_state === "failed").length;
    write(sentence, data.schedules.length === 0 ? "A schedule pushes a job each night, each hour, or whenever you say." : `${plural(data.schedules.length, "schedule")}${wrong ? `, ${count(wrong)} of them failing` : ""}.`);
    box.hidden = data.schedules.length === 0;
    empty.hidden = data.schedules.length > 0;
    fill(data.schedules, (schedule) => schedule.schedule);
  }]]);
}
