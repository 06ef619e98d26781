// What states, errors, waits and bottlenecks are called, and what helps against an error. docs/reference/errors.md has all codes.

import { clock, count, duration, plural, speed } from "./format.js";

export const states = ["running", "queued", "scheduled", "paused", "failed", "completed", "cancelled"];
export const nameOf = (state) => state[0].toUpperCase() + state.slice(1);

const waits = {
  host: ["Waits for its host", "its host"], disk: ["Waits for space on disk", "space on disk"],
  store: ["Waits for its store", "its store"], gate: ["Waits for its gate", "its gate"], replicas: ["Waits for replicas of Redis", "replicas of Redis"],
};
/// Why a job waits: `waiting` of its record, or a sentence about what a queued job waits for.
export const waitsFor = (reason) => waits[reason]?.[0] ?? `Waits for ${reason}`;
export const waitName = (reason) => waits[reason]?.[1] ?? (reason === "none" ? "nothing" : reason);

/// Of each error: what happened, what a host does (for "HOST does this"), and what helps.
const errors = {
  address_forbidden: ["The address or bucket is not allowed", "is at an address that is not allowed", "Use a public address, or allow it with --allow-address, a bucket with --source."],
  bad_job: ["The job cannot be done as it is", "gets jobs that cannot be done", "Correct what the message names, and push the job again."],
  bad_response: ["The response is not valid HTTP", "sends no valid HTTP", "Look at the server."],
  checksum_mismatch: ["The file is not the expected one", "sends other files than expected", "Compare the checksum with the publisher’s."],
  connect: ["The server cannot be reached", "cannot be reached", "Look at the server and its port."],
  crash_loop: ["Its workers crashed again and again", "has jobs whose workers crash", "Look at the logs of the workers before a retry."],
  deadline: ["The deadline has passed", "has jobs that were too late", "Push it again with a later deadline if it is still wanted."],
  dns: ["The name of the host does not resolve", "has a name that does not resolve", "Check the name in the URL, and the resolver of the worker."],
  file_exists: ["Another file has this name", "has files whose names are taken", "Choose another path, or let the job overwrite it."],
  gate_failed: ["The gate could not judge the file", "has files that the gate cannot judge", "Look at the command of --gate and at what it needs."],
  gate_refused: ["The gate refused the file", "sends files that the gate refuses", "Look at the message; the file was removed."],
  incomplete: ["The connection ended early", "ends connections early", "A retry goes on from the bytes on disk."],
  io: ["The worker’s disk failed", "has jobs that cannot be written", "Look at the disk of the worker; its log says more."],
  local_limit: ["A limit of the worker was reached", "has jobs that reach a worker’s limit", "Raise the limit that the log of the worker names."],
  outcome_unknown: ["It is not known whether it was done", "left requests without a response", "Look at the server whether it was done, before a retry."],
  path_forbidden: ["The path is not allowed", "has jobs with paths that are not allowed", "Choose another path, or allow it with --upload-from."],
  permission: ["The worker may not write there", "has jobs that may not write", "Check the owner and the mode of the directory."],
  proxy: ["The proxy failed", "is behind a proxy that fails", "Look at the worker’s proxy."],
  redirect_forbidden: ["A redirect leads to an unsafe place", "redirects to unsafe places", "Push the URL to which it leads, if you trust it."],
  remote_changed: ["The remote file keeps changing", "changes its files all the time", "Wait until the file no longer changes."],
  size_mismatch: ["The file has another size", "sends files of another size", "Check the size, or ask who published the file."],
  source_changed: ["The file to send has changed", "gets files that change", "Push it again when the file no longer changes."],
  source_missing: ["The file to send is not there", "gets files that are missing", "Push it again when the file is there."],
  stalled: ["The server stopped sending", "stops sending", "A retry goes on from the bytes on disk."],
  tls: ["The certificate cannot be trusted", "has a certificate that cannot be trusted", "Look at the certificate of the server."],
  too_large: ["The file is too large", "sends files that are too large", "Raise max_bytes, or check what the server sends. If the disk of the worker is too small, retry it when a larger one is there."],
  too_many_redirects: ["There are too many redirects", "redirects too often", "Check the URL."],
  too_slow: ["The download was too slow", "is too slow", "Lower min_speed, use a mirror, or allow more time."],
  wrong_content_type: ["The file has another type", "sends files of another type", "Servers often answer with a page instead of a file."],
};
const statuses = {
  400: ["The server refuses the request", "refuses requests", "Correct the URL or the request."],
  401: ["The server asks for a sign-in", "asks for a sign-in", "Push it again with the right credentials."],
  403: ["The server refuses access", "refuses access", "Push it again with a fresh link, or check the credentials."],
  404: ["The file is not there", "does not have the files", "Check the URL: the server does not know it."],
  410: ["The file is gone", "has removed the files", "Check the URL: the server has removed it."],
  429: ["The server asks for fewer requests", "asks for fewer requests", "Limit its jobs or starts, and try again later."],
};

/// Of a code: `title`, `verb` for a sentence about the host, `help`, and `status` if a server answered with it.
export function about(code = "unknown") {
  const status = /^http_(\d{3})$/.exec(code)?.[1];
  const known = status ? statuses[status] ?? (status >= "500" ? ["The server is overloaded or down", `answers ${status}`, "Try again when the host has recovered."]
    : ["The server refuses the request", `answers ${status}`, "Correct the URL, the credentials or the request."]) : errors[code];
  const [title, verb, help] = known ?? ["The job failed", `fails with ${code}`, "Look at the message of the job."];
  return { title, verb, help, status };
}

/// How many jobs a group of failures has. null if the overview has counted only the newest failures, because any group may
/// have older ones.
export const sizeOf = (group, { failures, counts }) => (failures.of < counts.failed ? null : group.count);

/// What a bottleneck is: `what` it is, and more about it in `detail`.
export function bottleneckWords({ cause, name, limit, starts, until }, now, isLive = true) {
  const jobs = limit === undefined ? "" : `${plural(limit, "job")} at once`;
  const each = starts === undefined ? "" : `starts ${String(starts).includes("/") ? starts : `${starts}/s`}`;
  switch (cause) {
    case "paused": return { what: "the queue is paused", detail: name ? `in ${name}` : "" };
    case "no_worker": return { what: "no worker takes jobs", detail: "" };
    case "slots": return { what: limit === 1 ? "the only slot is taken" : `all ${count(limit)} slots are taken`, detail: "" };
    case "max_running": return { what: "the limit of the queue", detail: jobs };
    case "starts": return { what: "the limit of the queue", detail: each };
    case "rate": return { what: "the rate of the queue", detail: speed(limit) };
    case "host": return { what: name, detail: jobs || "the connections of the workers are in use" };
    case "backoff": return { what: name, detail: isLive ? `left alone for ${duration((until - now) / 1000)}` : `left alone until ${clock(until)}` };
    case "host_starts": return { what: name, detail: each };
    case "host_rate": return { what: name, detail: speed(limit) };
    case "group": return { what: `the group ${name}`, detail: jobs || each };
    case "group_rate": return { what: `the group ${name}`, detail: speed(limit) };
    case "kind": return { what: `no worker does jobs of the kind ${name}`, detail: "" };
    default: return { what: waitName(cause), detail: "" };
  }
}

/// For how many seconds a queue keeps ended jobs of a state.
export const keptSeconds = (settings, state) => settings[`keep_${state}`] ?? { completed: 86_400, failed: 604_800, cancelled: 86_400 }[state];

/// The host of a name in limits, which may have a port. An IPv6 address has brackets there.
export const hostOf = (name) => name.replace(/:\d+$/, "").replace(/^\[|\]$/g, "");

/// Whether a bottleneck keeps a job from starting, or slows it: `Bottleneck.slows` of the server, whose record has the
/// same members.
export function slows({ cause, name, queued, running }, job) {
  const isQueued = job.state === "queued";
  const isReceiving = job.state === "running" && !job.waiting;
  const isAtHost = name !== undefined && hostOf(name) === job.host;
  switch (cause) {
    case "paused": case "slots": case "max_running": case "starts": return isQueued;
    case "no_worker": return isQueued || (job.state === "running" && running > 0);
    case "rate": return isReceiving;
    case "host_rate": return isReceiving && isAtHost;
    case "group_rate": return isReceiving && name === job.group;
    case "host": case "backoff": case "host_starts": return (isQueued ? queued > 0 : job.waiting === "host") && isAtHost;
    case "group": return isQueued && name === job.group;
    case "kind": return isQueued && name === (job.kind ?? "download");
    case "disk": return isQueued ? queued > 0 : job.waiting === cause;
    default: return job.waiting === cause;
  }
}
