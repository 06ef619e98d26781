// A dialog for new jobs of each kind: the URL first, the rest folded.

import { get, inQueue, send } from "./api.js";
import { copier, LEFT, open, say } from "./dialogs.js";
import { el, field, redraw, write } from "./dom.js";
import { count, plural } from "./format.js";
import { icon, key } from "./icons.js";
import { parse } from "./numbers.js";

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
      const separator = line.indexOf(mark);
      if (separator < 1) throw new Error(`“${line}” is not a ${what}: write Name${mark === ":" ? ": " : mark}value`);
      return [line.slice(0, separator).trim(), line.slice(separator + 1).trim()];
    });
    const twice = pairs.find(([name], index) => pairs.findIndex(([other]) => other === name) < index);
    if (twice) throw new Error(`“${twice[0]}” is there twice, but a job has one value for each ${what}.`);
    return pairs.length ? Object.fromEntries(pairs) : undefined;
  };
}

function asJSON(label) {
  return (input) => {
    if (!input.value.trim()) return undefined;
    try { return parse(input.value, true); } catch (error) { throw error instanceof SyntaxError ? new Error(`${label} is not JSON.`) : error; }
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
    const separator = line.indexOf("=");
    return separator < 1 ? { file: line } : { name: line.slice(0, separator).trim(), file: line.slice(separator + 1).trim() };
  });
  return files.length ? files : undefined;
}

/// Texts that may stand for a value in an input.
function textsOf(value) {
  const json = JSON.stringify(value);
  if (typeof value !== "object" || value === null) return [String(value), json];
  if (!Array.isArray(value)) return [":", "="].map((mark) => Object.entries(value).map(([name, one]) => `${name}${mark === ":" ? ": " : mark}${one}`).join("\n")).concat(json);
  return [value.join(", "), value.map((one) => (one?.name ? `${one.name}=${one.file}` : one?.file)).join("\n"), json];
}

/// Writes a value into an input. Returns false, and leaves the input empty, if the form would read another value from it.
function fill(input, read, value) {
  for (const text of textsOf(value)) {
    input.value = text;
    try { if (JSON.stringify(read(input)) === JSON.stringify(value)) return true; } catch { /* Another text may do. */ }
  }
  input.value = "";
  return false;
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
  group: ["Group, such as a tenant, with which it takes turns", () => text({ pattern: "[A-Za-z0-9._:\\-]{1,128}" }), asText],
  reply_to: ["Reply list", text, asText],
  then: ["After it has completed: a job or a list of jobs, JSON", area, asJSON("What follows"), true],
  else: ["After it has failed, JSON", area, asJSON("What follows a failure"), true],
  notify: ["Webhook: {\"url\": …, \"secret\": …}, JSON", area, asJSON("The webhook"), true],
  headers: ["Header fields, Name: value, one on each line", area, asPairs(":", "header field"), true],
  meta: ["Meta, any JSON", area, asJSON("Meta"), true],
};
/// The folds of the form: a title, what is in it, and its fields. A kind shows the fields that it has.
const folds = [
  ["Server", "method, headers, query, body", ["method", "upload_method", "headers", "query", "json", "form", "upload_form", "body", "content_digest", "protocol"]],
  ["Speed and retries", "connections, retries, limit", ["connections", "retries", "limit_rate", "idempotent"]],
  ["Checks", "checksum, size, what if the file exists", ["checksum", "max_bytes", "if_exists", "expect", "max_response", "fresh_for"]],
  ["When", "now, no deadline, no group", ["delay", "deadline", "group"]],
  ["Notifications", "batch size, reply list, webhook, meta", ["batch_size", "reply_to", "notify", "meta"]],
  ["What follows", "then, else", ["then", "else"]],
];
const shared = ["limit_rate", "retries", "delay", "deadline", "batch", "batch_size", "group", "reply_to", "notify", "then", "else", "headers", "meta"];
/// The fields of each kind of job. A new kind needs a line here.
const kinds = {
  download: ["path", "checksum", "if_exists", "connections", "max_bytes", ...shared],
  request: ["method", "expect", "max_response", "fresh_for", "idempotent", "query", "json", "form", "body", ...shared],
  upload: ["file", "files", "each", "protocol", "upload_method", "upload_form", "content_digest", "expect", "max_response", "idempotent", "query", ...shared],
};
const verbs = { download: "Downloads", request: "Sends a request", upload: "Uploads" };
/// So many jobs are pushed by one request.
const MOST = 1000;
/// Why a list of URLs cannot be pushed by one request; null if it can.
export const complaintAboutNumber = (list) => (list.length > MOST ? `${count(list.length)} URLs are given, but one push has at most ${count(MOST)}. Use haul push for more.` : null);

/// What is wrong with a URL, as far as the browser knows; nothing for a relative one, which the queue's base may complete.
function complaintAbout(address, kind) {
  if (!/^[a-z][a-z0-9+.-]*:/i.test(address)) return null;
  let url;
  try { url = new URL(address); } catch { return `“${address}” is not a valid URL.`; }
  // The address of an object of a bucket is case-sensitive.
  if (kind === "download" && address.startsWith("s3://")) return url.pathname.length > 1 ? null : `“${address}” must name an object: s3://BUCKET/KEY.`;
  return ["http:", "https:"].includes(url.protocol) ? null : `“${address}” must be an http or https URL${kind === "download" ? ", or s3://BUCKET/KEY" : ""}.`;
}

/// Opens the dialog. `url` is the URL to begin with, and `onclose` is called when it is closed. `preset` may have an `id`,
/// a `job` whose fields are filled in, and a `note` about it.
export function openPush(context, url = "", onclose = undefined, preset = {}) {
  const { queue, path } = context;
  if (!context.isOperator) {
    open("Push", (close) => [el("div", { class: "dialog-body" }, el("h2", {}, `Push to ${queue}`), el("p", {}, "Only operators push jobs.")),
      el("div", { class: "dialog-foot" }, el("span", { class: "grow" }), el("a", { class: "button", href: path("overview"), onclick: () => close() }, "Close"))], { onclose });
    return;
  }
  let pushedIDs = [];
  open(`Push to ${queue}`, (close) => {
    // All inputs are made once, so that their values stay while another kind is shown.
    const inputs = Object.fromEntries(Object.entries(fields).map(([name, [, make]]) => [name, make()]));
    const kind = el("select", {}, Object.keys(kinds).map((name) => el("option", { value: name }, name)));
    const urls = el("textarea", { rows: 1, required: true, spellcheck: "false", autocomplete: "off", "aria-label": "URLs", placeholder: "https://" });
    urls.value = url;
    const id = text({ pattern: "[A-Za-z0-9._:\\-]{1,128}" });
    id.value = preset.id ?? "";
    /// Fields of the preset job for which the form has no input. They are pushed as they are.
    let kept = {};
    if (preset.job) {
      const { kind: ofJob = "download", batch, ...others } = preset.job;
      kind.value = ofJob;
      const isSized = batch && Object.keys(batch).sort().join() === "name,size";
      const shown = { ...others, ...(isSized ? { batch: batch.name, batch_size: batch.size } : batch === undefined ? {} : { batch }) };
      for (const [name, value] of Object.entries(shown)) {
        const own = (kinds[ofJob] ?? []).find((one) => (fields[one][4] ?? one) === name);
        if (!own || !fill(inputs[own], fields[own][2], value)) kept[name] = value;
      }
    }
    const defaultHint = "One URL, or paste a list: one job for each line. A file with URLs may be dropped here, too.";
    const more = Object.keys(kept).length ? ` Also pushed as before: ${Object.keys(kept).join(", ")}.` : "";
    const hint = el("p", { class: "dim" }, preset.note ? preset.note + more : defaultHint);
    const note = el("div", { class: "push-note" });
    const answer = el("div", { class: "push-answer", role: "status" });
    const own = el("div", { class: "folds" });
    const basic = el("div", { class: "fields" });
    const verb = el("span", {}, "Push 1 job");
    const submit = el("button", { class: "main" }, icon("plus"), verb, key("enter"));
    const shownAs = el("pre", { hidden: true, tabindex: 0, "aria-label": "The jobs as text" });

    const box = el("span", { class: "input" }, icon("link"), urls);
    const form = el("form", { class: "push" },
      el("div", { class: "dialog-body" }, el("div", { class: "dialog-title" }, el("h2", {}, `Push to ${queue}`), el("button", { type: "button", class: "plain", "aria-label": "Close", onclick: () => close() }, icon("close"))),
        el("label", { class: "field" }, el("span", {}, "URL"), box), hint, note, answer, basic),
      own, el("div", { class: "dialog-foot" }, el("button", { type: "button", class: "plain link", onclick: () => show("json") }, "As JSON"), el("button", { type: "button", class: "plain link", onclick: () => show("command") }, "As a command"), el("span", { class: "grow" }),
        el("button", { type: "button", onclick: () => close() }, "Close", key("esc")), submit), shownAs);

    function showKind() {
      const known = kinds[kind.value];
      basic.replaceChildren(...(kind.value === "download" ? [field("Save as", inputs.path)] : kind.value === "upload" ? [field(fields.file[0], inputs.file), field(fields.files[0], inputs.files, true), field(fields.each[0], inputs.each)] : []),
        field("Batch", inputs.batch));
      inputs.path.placeholder = "the server’s name for it, or dir/";
      inputs.batch.placeholder = "none";
      own.replaceChildren(...folds.map(([title, words, names]) => {
        const shown = names.filter((name) => known.includes(name) && !["path", "batch", "file", "files", "each"].includes(name));
        return shown.length ? el("details", { class: "fold", open: Boolean(preset.job) && shown.some((name) => inputs[name].value) }, el("summary", {}, el("span", { class: "grow" }, title), el("span", { class: "dim" }, words)),
          el("div", { class: "fields fold-body" }, shown.map((name) => field(fields[name][0], inputs[name], fields[name][3])))) : null;
      }).filter(Boolean), el("details", { class: "fold" }, el("summary", {}, el("span", { class: "grow" }, "Another kind of job"), el("span", { class: "dim" }, "request or upload; its id")),
        el("div", { class: "fields fold-body" }, field("Kind", kind), field("Id (of one job)", id))));
      if (kind.value !== "download" || preset.id) own.lastChild.open = true;
      check();
    }
    kind.addEventListener("change", showKind);

    /// The fields that all jobs of the form have. Throws a sentence for the user.
    function common() {
      const job = kind.value === "download" ? {} : { kind: kind.value };
      for (const name of kinds[kind.value]) {
        const value = fields[name][2](inputs[name]);
        if (value !== undefined) job[fields[name][4] ?? name] = value;
      }
      const { batch_size: size, ...rest } = job;
      if (size === undefined) return rest;
      if (!rest.batch) throw new Error("The number of its jobs needs the batch’s name.");
      return { ...rest, batch: { name: rest.batch, size } };
    }
    function made() {
      const list = lines(urls);
      const name = id.value.trim();
      if (list.length === 0) throw new Error("Give at least one URL.");
      if (name && list.length > 1) throw new Error("An id names one job, but several URLs are given.");
      const wrong = complaintAboutNumber(list) ?? list.map((one) => complaintAbout(one, kind.value)).find(Boolean);
      if (wrong) throw new Error(wrong);
      const rest = common();
      return list.map((address) => ({ ...kept, url: address, ...(name ? { id: name } : {}), ...rest }));
    }

    let hosts = null;
    // The hosts are read once: a preview need not be live.
    get(inQueue(queue, "hosts")).then((data) => { hosts = data.hosts; check(); }).catch(() => {});
    function check() {
      const list = lines(urls);
      urls.style.height = "auto";
      urls.style.height = `${Math.min(200, urls.scrollHeight + 2)}px`;
      write(verb, `Push ${plural(Math.max(1, list.length), "job")}`);
      const wrong = list.map((one) => complaintAbout(one, kind.value)).find(Boolean);
      let host = null;
      let file = "";
      if (!wrong && list.length === 1) { try { const first = new URL(list[0]); host = first.host; file = decodeURIComponent(first.pathname.split("/").pop()); } catch { /* A relative URL. */ } }
      const target = inputs.path.value.trim();
      const saved = target ? (target.endsWith("/") ? `${target}${file}` : target) : file;
      redraw(note, [list.length, wrong, host, saved, kind.value, Boolean(hosts)], () => {
        if (list.length === 0) return [];
        if (wrong) return el("div", { class: "hint red" }, icon("failed", "red"), el("p", {}, wrong));
        const known = hosts?.find((one) => one.host === host) ?? hosts?.find((one) => one.host === host?.replace(/:\d+$/, ""));
        const limit = known?.limits?.connections;
        const waiting = known ? known.deferred + known.queued : 0;
        const words = !hosts || !host ? "" : known ? `${host} has ${limit === undefined ? plural(known.running, "job") : `${count(known.running)} of ${plural(limit, "job")}`} at work${waiting ? ` and about ${count(Number(waiting.toPrecision(2)))} waiting` : ""}.` : `No job is at work at ${host}.`;
        const what = kind.value === "download" ? `Downloads${list.length > 1 ? ` ${count(list.length)} files` : saved ? ` to ${saved}` : ""}` : `${verbs[kind.value]}${host ? ` to ${host}` : ""}`;
        return el("div", { class: "hint blue" }, icon("completed", "blue"), el("div", {}, el("p", {}, el("strong", { class: "any" }, what)), words ? el("p", { class: "dim" }, words) : null));
      });
    }
    urls.addEventListener("input", check);
    inputs.path.addEventListener("input", check);
    urls.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && lines(urls).length < 2) { event.preventDefault(); form.requestSubmit(); }
    });
    form.addEventListener("dragover", (event) => event.preventDefault());
    form.addEventListener("drop", async (event) => {
      event.preventDefault();
      const file = event.dataTransfer.files[0];
      const dropped = file ? await file.text() : event.dataTransfer.getData("text");
      urls.value = [...lines(urls), ...dropped.split("\n").map((part) => part.trim()).filter(Boolean)].join("\n");
      check();
    });

    let shown = "";
    function show(form) {
      try {
        const jobs = made();
        const isSame = shown === form && !shownAs.hidden;
        shown = form;
        shownAs.hidden = isSame;
        shownAs.textContent = form === "json" ? JSON.stringify(jobs.length === 1 ? jobs[0] : jobs, null, 2)
          : jobs.map((job) => `printf '%s\\n' '${JSON.stringify(job).replaceAll("'", "'\\''")}' | haul push --queue ${queue} -`).join("\n");
        if (!isSame) shownAs.append(copier("Copy it", () => shownAs.textContent));
      } catch (error) { answer.replaceChildren(el("p", { class: "red" }, error.message)); }
    }

    let isSending = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      // A second Enter before the answer would push the same once more.
      if (isSending) return;
      isSending = true;
      try {
        const { pushed } = await send("POST", inQueue(queue, "jobs"), made());
        pushedIDs = pushed.map((job) => job.id);
        answer.replaceChildren(el("div", { class: "hint green" }, icon("completed", "green"), el("div", {}, el("p", {}, el("strong", {}, `${plural(pushed.length, "job")} pushed`)),
          el("ul", { class: "pushed" }, pushed.slice(0, 5).map((job) => el("li", {}, el("a", { href: path("job", [job.id]), onclick: () => close() }, job.id)))),
          pushed.length > 5 ? el("p", {}, el("a", { href: path("jobs", ["queued"]), onclick: () => close() }, `and ${count(pushed.length - 5)} more`)) : null)));
        // What was filled in belongs to that job alone.
        if (preset.job) { kept = {}; form.reset(); showKind(); write(hint, defaultHint); }
        urls.value = "";
        id.value = "";
        check();
        urls.focus();
      } catch (error) {
        const unknown = error.isUnanswered ? ". The jobs may have been pushed: look for them before you push again." : "";
        answer.replaceChildren(el("div", { class: "hint red" }, icon("failed", "red"), el("p", {}, error.message + unknown)));
      } finally { isSending = false; }
    });
    showKind();
    setTimeout(() => urls.focus());
    return form;
  }, { className: "wide", onclose: (value) => {
    if (pushedIDs.length) say(`${plural(pushedIDs.length, "job")} pushed.`);
    if (value !== LEFT) onclose?.();
  } });
}
