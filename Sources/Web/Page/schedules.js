// Schedules: jobs that are pushed at certain times.

import { inQueue, send } from "./api.js";
import { ask, complain, menu, open, say } from "./dialogs.js";
import { el, field, link, redraw, rows, write } from "./dom.js";
import { ago, count, duration, plural, serverNow, time } from "./format.js";
import { icon, key, stateIcon } from "./icons.js";
import { parse } from "./numbers.js";
import { segments } from "./overview.js";

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

const units = [["minutes", 60], ["hours", 3600], ["days", 86_400], ["weeks", 604_800], ["seconds", 1]];
const examples = [["Each night at three", "0 3 * * *"], ["Each hour", "0 * * * *"], ["On weekdays at 8:30", "30 8 * * mon-fri"], ["On the first of each month", "0 0 1 * *"]];

/// A dialog for a new schedule. `known` returns the names of those that there are now: one of these is replaced.
function openForm(queue, known) {
  open("Add a schedule", (close) => {
    const text = (attributes = {}) => el("input", { autocomplete: "off", ...attributes });
    const choice = (values) => el("select", {}, values.map(([value, words]) => el("option", { value }, words)));
    const name = text({ required: true, autofocus: true, pattern: "[A-Za-z0-9._:\\-]{1,100}", placeholder: "films" });
    const job = el("textarea", { rows: 1, required: true, spellcheck: "false", autocomplete: "off", placeholder: "https://" });
    const target = text();
    const [number, unit] = [text({ inputmode: "numeric", value: "1", "aria-label": "Every" }), choice(units.map(([words]) => [words, words]))];
    unit.value = "days";
    unit.setAttribute("aria-label", "Unit of Every");
    const [cron, zone] = [text({ placeholder: "0 3 * * *", spellcheck: "false" }), text({ value: Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC" })];
    const [missed, overlap, unique] = [choice([["one", "one of them"], ["none", "none of them"]]), choice([["skip", "skip it"], ["allow", "push it all the same"]]), choice([["", "one job, whose id is the name"], ["true", "a job of its own"]])];
    const answer = el("div", { class: "push-answer", role: "status" });
    const replaces = el("p", { class: "dim", hidden: true }, "A schedule of this name is there, and will be replaced.");
    name.addEventListener("input", () => { replaces.hidden = !known().has(name.value.trim()); });
    const everyBox = el("div", { class: "fields" }, el("div", { class: "field" }, el("span", {}, "Every"), el("span", { class: "united" }, number, unit)), el("p", { class: "dim wide" }, "Counted from midnight UTC: 6 hours means 0:00, 6:00, 12:00 and 18:00."));
    const cronBox = el("div", { class: "fields", hidden: true }, field("Cron: minute, hour, day, month, weekday", cron), field("Time zone", zone),
      el("div", { class: "examples wide" }, examples.map(([words, expression]) => el("button", { type: "button", class: "small", onclick: () => { cron.value = expression; } }, words))));
    const isCron = () => !cronBox.hidden;

    function made() {
      const given = job.value.trim();
      let made = { url: given };
      if (given.startsWith("{")) { try { made = parse(given, true); } catch (error) { throw error instanceof SyntaxError ? new Error("The job is not JSON.") : error; } }
      if (target.value.trim()) made.path = target.value.trim();
      const seconds = Number(number.value) * units.find(([words]) => words === unit.value)[1];
      if (!isCron() && !(Number.isInteger(seconds) && seconds > 0)) throw new Error(`“${number.value}” is not a number of ${unit.value}.`);
      if (isCron() && !cron.value.trim()) throw new Error("Give a cron expression, like 0 3 * * *.");
      return {
        ...(isCron() ? { cron: cron.value.trim(), zone: zone.value.trim() || "UTC" } : { every: seconds }),
        ...(missed.value === "one" ? {} : { catch_up: missed.value }), ...(overlap.value === "skip" ? {} : { overlap: overlap.value }), ...(unique.value ? { unique: true } : {}), job: made,
      };
    }
    const form = el("form", { class: "push" },
      el("div", { class: "dialog-body" }, el("div", { class: "dialog-title" }, el("h2", {}, "Add a schedule"), el("button", { type: "button", class: "plain", "aria-label": "Close", onclick: () => close() }, icon("close"))),
        el("div", { class: "fields" }, field("Name", name), field("Path; ends in / for a directory", target), field("URL, or a job as JSON", job, true)), replaces,
        el("div", {}, segments("When it is due", ["At an interval", "By a cron expression"], 0, (index) => { everyBox.hidden = index === 1; cronBox.hidden = index === 0; })), everyBox, cronBox, answer),
      el("div", { class: "folds" }, el("details", { class: "fold" }, el("summary", {}, el("span", { class: "grow" }, "Runs"), el("span", { class: "dim" }, "missed, overlapping, one job or many")),
        el("div", { class: "fold-body" }, el("div", { class: "fields" }, field("Of runs that were missed, push", missed), field("If the last run has not ended", overlap), field("All runs are", unique))))),
      el("div", { class: "dialog-foot" }, el("span", { class: "grow" }), el("button", { type: "button", onclick: () => close() }, "Close", key("esc")), el("button", { class: "main" }, icon("plus"), "Add")));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const { schedule, next } = await send("POST", inQueue(queue, "schedules"), { action: "add", name: name.value.trim(), schedule: made() });
        close();
        say(next ? `${schedule} runs in ${duration((next - serverNow()) / 1000)}, and so on.` : `${schedule} is added.`);
      } catch (error) {
        answer.replaceChildren(el("div", { class: "hint red" }, icon("failed", "red"), el("p", {}, error.message)));
      }
    });
    return form;
  }, { className: "wide" });
}

export function schedules({ queue, live, body, path, title, header, isOperator, ready, subject }) {
  title("Schedules");
  const sentence = el("p", { class: "lead" }, "Reading …");
  let known = new Set();
  header(sentence, [isOperator ? el("button", { type: "button", class: "main", "data-changes": true, onclick: () => openForm(queue, () => known) }, icon("plus"), "Add a schedule") : null].filter(Boolean));
  const lines = el("tbody");
  const heads = [["Schedule", ""], ["Next run", ""], ["Last run", ""], ["Pushed", "number"], ["Skipped", "number less"], ["Missed", "number less"], ...(isOperator ? [["Change", "tools-head"]] : [])];
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Schedules" }, el("table", { class: "schedule-table stacked" }, el("caption", { class: "hidden" }, "Schedules"),
    el("thead", {}, el("tr", {}, heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text === "Change" ? el("span", { class: "hidden" }, text) : text)))), lines));
  const empty = el("div", { class: "empty", hidden: true }, el("p", {}, "There are no schedules."), el("p", {}, el("code", {}, `haul schedule add NAME --cron '0 3 * * *' --queue ${queue} URL`), " adds one."));
  body.append(el("section", { class: "card" }, box, empty));
  let now = serverNow();
  const fill = rows(lines, (name) => {
    const [url, next, rule, last, lastAt, pushed, skipped, missed, tools] = [el("span", { class: "under" }), el("span"), el("span", { class: "under" }), el("span"), el("span", { class: "under" }), el("td", { class: "number" }), el("td", { class: "number less" }), el("td", { class: "number less" }), el("td", { class: "tools-cell" })];
    return {
      line: el("tr", { class: "three" }, el("th", { scope: "row" }, el("strong", {}, name), url), el("td", {}, next, rule), el("td", {}, last, lastAt), pushed, skipped, missed, isOperator ? tools : null),
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
  live.watch([subject(inQueue(queue, "schedules"), (data) => {
    now = serverNow();
    ready();
    known = new Set(data.schedules.map((schedule) => schedule.schedule));
    const wrong = data.schedules.filter((schedule) => schedule.error || schedule.last_state === "failed").length;
    write(sentence, data.schedules.length === 0 ? "A schedule pushes a job each night, each hour, or whenever you say." : `${plural(data.schedules.length, "schedule")}${wrong ? `, ${count(wrong)} of them failing` : ""}.`);
    box.hidden = data.schedules.length === 0;
    empty.hidden = data.schedules.length > 0;
    fill(data.schedules, (schedule) => schedule.schedule);
  })]);
}
