// A form for new jobs of each kind.

import { inQueue, send } from "./api.js";
import { el, field, link } from "./dom.js";
import { count } from "./format.js";

const text = (attributes = {}) => el("input", { autocomplete: "off", ...attributes });
const area = () => el("textarea", { rows: 2, spellcheck: "false", autocomplete: "off" });
const number = (step = 1) => el("input", { type: "number", min: 0, step });
const choice = (values, first) => el("select", {}, values.map((name) => el("option", { value: name }, name || first)));

const asText = (input) => input.value.trim() || undefined;
const asNumber = (input) => (input.value === "" ? undefined : Number(input.value));
const lines = (input) => input.value.split("\n").map((line) => line.trim()).filter(Boolean);

/// Reads lines of a name and a value, with `mark` between them, as an object. Throws a sentence for the user.
function asPairs(mark, what) {
  return (input) => {
    const pairs = lines(input).map((line) => {
      const place = line.indexOf(mark);
      if (place < 1) throw new Error(`“${line}” is not a ${what}: write Name${mark === ":" ? ": " : mark}value`);
      return [line.slice(0, place).trim(), line.slice(place + 1).trim()];
    });
    return pairs.length ? Object.fromEntries(pairs) : undefined;
  };
}

function asJSON(label) {
  return (input) => {
    if (!input.value.trim()) return undefined;
    try { return JSON.parse(input.value); } catch { throw new Error(`${label} is not JSON.`); }
  };
}

/// Reads statuses and ranges of statuses, with commas between them.
function asStatuses(input) {
  const parts = input.value.split(",").map((part) => part.trim()).filter(Boolean);
  return parts.length ? parts.map((part) => (/^\d+$/.test(part) ? Number(part) : part)) : undefined;
}

/// Reads files of the workers, one on each line: a path, or `field=path` with the name of a form's field.
function asFiles(input) {
  const files = lines(input).map((line) => {
    const place = line.indexOf("=");
    return place < 1 ? { file: line } : { name: line.slice(0, place).trim(), file: line.slice(place + 1).trim() };
  });
  return files.length ? files : undefined;
}

/// The fields of jobs: label, input, function that reads the value (undefined is left out), whether the field is wide,
/// and the job's name for the field if it is another one.
const fields = {
  path: ["Path; ends in / for a directory", text, asText],
  if_exists: ["If the file exists", () => choice(["", "reuse", "overwrite", "rename", "fail"], "as by default"), asText],
  checksum: ["Checksum, like sha256:…", text, asText],
  connections: ["Connections, 1 to 16", number, asNumber],
  max_bytes: ["Largest size, bytes", number, asNumber],
  method: ["Method", () => choice(["", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], "GET, with a body POST"), asText],
  expect: ["Statuses that are a success, like 200-299, 404", text, asStatuses],
  max_response: ["Longest response, bytes", number, asNumber],
  fresh_for: ["A response is good for, seconds", () => number("any"), asNumber],
  idempotent: ["May be sent twice (Idempotency-Key)", () => choice(["", "true"], "no"), (input) => (input.value ? true : undefined)],
  query: ["Query, Name=value, one on each line", area, asPairs("=", "member of a query"), true],
  json: ["Body: JSON", area, asJSON("The body"), true],
  form: ["Body: a form, Name=value, one on each line", area, asPairs("=", "member of a form"), true],
  body: ["Body: text", area, (input) => input.value || undefined, true],
  file: ["File beneath the workers' --upload-from, as the body", text, asText],
  files: ["Or files, one on each line: a path, or field=path", area, asFiles, true],
  each: ["Each file in a request of its own", () => choice(["", "true"], "no"), (input) => (input.value ? true : undefined)],
  protocol: ["Protocol", () => choice(["", "tus"], "one request"), asText],
  upload_method: ["Method", () => choice(["", "PUT", "POST", "PATCH"], "PUT, of a form POST"), asText, false, "method"],
  content_digest: ["Content-Digest", () => choice(["", "sha-256", "sha-512"], "none"), asText],
  upload_form: ["Fields of the form, Name=value, one on each line", area, asPairs("=", "member of a form"), true, "form"],
  limit_rate: ["Limit, bytes per second", number, asNumber],
  retries: ["Retries", number, asNumber],
  delay: ["Delay, seconds", () => number("any"), asNumber],
  deadline: ["Deadline, seconds", () => number("any"), asNumber],
  batch: ["Batch", () => text({ pattern: "[A-Za-z0-9._:\\-]{1,128}" }), asText],
  batch_size: ["Jobs of the batch in all", number, asNumber],
  reply_to: ["Reply list", text, asText],
  headers: ["Header fields, Name: value, one on each line", area, asPairs(":", "header field"), true],
  meta: ["Meta, any JSON", area, asJSON("Meta"), true],
};
const shared = ["limit_rate", "retries", "delay", "deadline", "batch", "batch_size", "reply_to", "headers", "meta"];
/// The fields of each kind of job, in their order. A new kind needs a line here.
const kinds = {
  download: ["path", "checksum", "if_exists", "connections", "max_bytes", ...shared],
  request: ["method", "expect", "max_response", "fresh_for", "idempotent", "query", "json", "form", "body", ...shared],
  upload: ["file", "files", "each", "protocol", "upload_method", "upload_form", "content_digest", "expect", "max_response", "idempotent", "query", ...shared],
};

export function push({ queue, live, body, path, title, isOperator }) {
  title("Push");
  live.watch([]);
  if (!isOperator) return body.append(el("p", {}, "Only operators push jobs."));
  const kind = el("select", {}, Object.keys(kinds).map((name) => el("option", { value: name }, name)));
  const urls = el("textarea", { rows: 3, required: true, spellcheck: "false", autocomplete: "off" });
  const id = text({ pattern: "[A-Za-z0-9._:\\-]{1,128}" });
  // All inputs are made once, so that their values stay while another kind is shown.
  const inputs = Object.fromEntries(Object.entries(fields).map(([name, [, make]]) => [name, make()]));
  const own = el("div", { class: "fields" });
  const answer = el("div", { role: "status" });
  const form = el("form", {},
    el("div", { class: "fields" }, field("Kind", kind), field("Id (of one job)", id), field("URLs, one on each line", urls, true)), own,
    el("div", { class: "row" }, el("button", { class: "main" }, "Push")));
  body.append(form, answer);

  function show() {
    own.replaceChildren(...kinds[kind.value].map((name) => field(fields[name][0], inputs[name], fields[name][3])));
  }
  kind.addEventListener("change", show);
  show();

  /// The fields that all jobs of the form have. Throws a sentence for the user.
  function common() {
    const job = kind.value === "download" ? {} : { kind: kind.value };
    for (const name of kinds[kind.value]) {
      const value = fields[name][2](inputs[name]);
      if (value !== undefined) job[fields[name][4] ?? name] = value;
    }
    const { batch_size: size, ...rest } = job;
    if (size === undefined) return rest;
    if (!rest.batch) throw new Error("The number of its jobs needs the batch's name.");
    return { ...rest, batch: { name: rest.batch, size } };
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const list = lines(urls);
      const name = id.value.trim();
      if (name && list.length > 1) throw new Error("An id names one job, but several URLs are given.");
      const rest = common();
      const jobs = list.map((url) => ({ url, ...(name ? { id: name } : {}), ...rest }));
      const { pushed } = await send("POST", inQueue(queue, "jobs"), jobs);
      answer.replaceChildren(el("p", { class: "good" }, `${count(pushed.length)} pushed:`),
        el("ul", {}, pushed.map((job) => el("li", {}, link(path("job", [job.id]), job.id)))));
      urls.value = "";
      id.value = "";
    } catch (error) {
      answer.replaceChildren(el("p", { class: "bad" }, error.message));
    }
  });
}
