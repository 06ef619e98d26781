// A form for new jobs.

import { inQueue, send } from "./api.js";
import { el, field, link } from "./dom.js";
import { count } from "./format.js";

const numbers = {
  connections: "Connections, 1 to 16", limit_rate: "Limit, bytes per second", retries: "Retries",
  delay: "Delay, seconds", deadline: "Deadline, seconds", max_bytes: "Largest size, bytes",
};

export function push({ queue, live, body, path, title }) {
  title("Push");
  live.watch([]);
  const urls = el("textarea", { rows: 3, required: true, spellcheck: "false", autocomplete: "off" });
  const texts = {
    id: ["Id (of one job)", el("input", { autocomplete: "off", pattern: "[A-Za-z0-9._:\\-]{1,128}" })],
    path: ["Path; ends in / for a directory", el("input", { autocomplete: "off" })],
    checksum: ["Checksum, like sha256:…", el("input", { autocomplete: "off" })],
    reply_to: ["Reply list", el("input", { autocomplete: "off" })],
  };
  const exists = el("select", {}, ["", "reuse", "overwrite", "rename", "fail"].map((name) => el("option", { value: name }, name || "as by default")));
  const values = Object.fromEntries(Object.entries(numbers).map(([name, label]) => [name, [label, el("input", { type: "number", min: 0, step: name === "delay" || name === "deadline" ? "any" : 1 })]]));
  const headers = el("textarea", { rows: 2, spellcheck: "false", autocomplete: "off" });
  const meta = el("textarea", { rows: 2, spellcheck: "false" });
  const answer = el("div", { role: "status" });
  const form = el("form", {},
    el("div", { class: "fields" },
      field("URLs, one on each line", urls, true),
      Object.values(texts).map(([label, input]) => field(label, input)), field("If the file exists", exists),
      Object.values(values).map(([label, input]) => field(label, input)),
      field("Header fields, Name: value, one on each line", headers, true), field("Meta, any JSON", meta, true)),
    el("div", { class: "row" }, el("button", { class: "main" }, "Push")));
  body.append(form, answer);

  /// The fields that all jobs of the form have; throws a sentence.
  function common() {
    const job = {};
    for (const [name, [, input]] of Object.entries(texts)) if (input.value.trim() && name !== "id") job[name] = input.value.trim();
    if (exists.value) job.if_exists = exists.value;
    for (const [name, [, input]] of Object.entries(values)) if (input.value !== "") job[name] = Number(input.value);
    const fields = headers.value.split("\n").filter((line) => line.trim()).map((line) => {
      const colon = line.indexOf(":");
      if (colon < 1) throw new Error(`“${line}” is no header field: write Name: value`);
      return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    });
    if (fields.length) job.headers = Object.fromEntries(fields);
    if (meta.value.trim()) {
      try { job.meta = JSON.parse(meta.value); } catch { throw new Error("Meta is no JSON."); }
    }
    return job;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const list = urls.value.split("\n").map((line) => line.trim()).filter(Boolean);
      const id = texts.id[1].value.trim();
      if (id && list.length > 1) throw new Error("An id names one job, but several URLs are given.");
      const rest = common();
      const jobs = list.map((url) => ({ url, ...(id ? { id } : {}), ...rest }));
      const { pushed } = await send("POST", inQueue(queue, "jobs"), jobs);
      answer.replaceChildren(el("p", { class: "good" }, `${count(pushed.length)} pushed:`),
        el("ul", {}, pushed.map((job) => el("li", {}, link(path("job", [job.id]), job.id)))));
      urls.value = "";
      texts.id[1].value = "";
    } catch (error) {
      answer.replaceChildren(el("p", { class: "bad" }, error.message));
    }
  });
}
