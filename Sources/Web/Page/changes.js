// Who changed what, as far as it was recorded.

import { card, el, redraw, table } from "./dom.js";
import { ago, count, plural, serverNow } from "./format.js";

const origins = { page: "the page", aria2: "a client of aria2", command: "the haul command" };

/// What a change was about: its jobs, its batch or its settings.
function subject(change) {
  if (change.settings) return el("code", { class: "any" }, change.settings);
  if (change.batch) return ["the batch ", el("code", { class: "any" }, change.batch)];
  if (change.schedule) return ["the schedule ", el("code", { class: "any" }, change.schedule)];
  const ids = change.ids ?? [];
  const jobs = change.jobs ?? ids.length;
  if (change.where) return [plural(jobs, "job"), " with ", el("code", { class: "any" }, change.where)];
  const rest = jobs - ids.length;
  return [el("code", { class: "any" }, ids.join(" ")), rest > 0 ? ` and ${count(rest)} more` : ""];
}

/// A card with the last changes of a queue. `draw` takes the answer of `…/changes`.
export function recentChanges() {
  const { box, body } = table("The last changes", [["Age", "number"], ["By"], ["Change"], ["Of"]]);
  const none = el("p", { class: "padded dim" }, "No change was recorded. A change with redis-cli or a client library leaves no entry here.");
  box.hidden = true;
  return {
    box: card("The last changes", {}, none, box),
    draw(data) {
      if (!data) return;
      const all = data.changes;
      box.hidden = all.length === 0;
      none.hidden = all.length > 0;
      const now = serverNow();
      redraw(body, [all, Math.floor(now / 60_000)], () => all.map((change) => el("tr", {}, el("td", { class: "number" }, ago(change.at, now)),
        el("th", { scope: "row" }, change.by, el("span", { class: "dim" }, ` through ${origins[change.via] ?? change.via}`)), el("td", {}, change.action), el("td", {}, subject(change)))));
    },
  };
}
