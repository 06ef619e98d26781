// Actions on jobs: what each needs, how it is undone, and what is asked before one that cannot be undone.

import { get, inQueue, send } from "./api.js";
import { ask, complain, say } from "./dialogs.js";
import { el } from "./dom.js";
import { bytes, count, fileOf, plural } from "./format.js";
import { stateIcon } from "./icons.js";
import { sizeOf } from "./words.js";

/// The actions that are of use in each state.
export const actions = {
  queued: ["pause", "cancel", "remove"], scheduled: ["resume", "pause", "cancel", "remove"],
  running: ["pause", "again", "cancel", "remove"], paused: ["resume", "cancel", "remove"], completed: ["remove"],
  failed: ["retry", "remove"], cancelled: ["remove"],
};
/// The keys of actions in a state, each with its action. `s` stops jobs where they can be stopped, and resumes them only
/// where they cannot: so it never starts a scheduled one.
export function keysOf(state) {
  const offered = actions[state];
  return Object.entries({ s: offered.includes("pause") ? "pause" : "resume", r: "retry", c: "cancel" }).filter(([, action]) => offered.includes(action));
}
/// The key of an action; undefined if it has none.
export const keyOf = (state, action) => keysOf(state).find(([, one]) => one === action)?.[0];
export const names = {
  pause: "Pause", resume: "Resume", retry: "Retry", cancel: "Cancel", remove: "Remove", delete: "Delete the file", again: "Start again elsewhere",
};
export const icons = { pause: "pause", resume: "play", retry: "retry", cancel: "cancel", remove: "trash", delete: "trash", again: "retry" };
/// The actions that cannot be undone: the question, and what they do.
const lasting = {
  cancel: ["and delete what they have received", "This cannot be undone; the jobs can only be pushed anew. To stop for now, pause them: pausing keeps the bytes."],
  remove: ["and forget them", "They end, if they have not ended yet, and are forgotten. What has been received is deleted; a finished file stays."],
  delete: ["and forget the jobs", "The finished files are deleted from the disk, and the jobs are forgotten."],
};
const done = {
  pause: ["is being paused", "are being paused"], resume: ["runs again", "run again"], retry: ["runs again from its bytes on disk", "run again from their bytes on disk"],
  cancel: ["is being cancelled", "are being cancelled"], remove: ["is being removed", "are being removed"], delete: ["is being deleted", "are being deleted"],
};
// A job that has failed since its pause is not run again: its request may have been sent.
const undo = { pause: ["Resume", "resume", ["queued", "scheduled", "running", "paused"]], resume: ["Pause", "pause"], retry: ["Pause", "pause"] };
/// The action that undoes another one; undefined if none does. The pause of a scheduled job forgets when it is due, and
/// to resume it would start it at once.
const undoOf = (action, state) => (action === "pause" && state === "scheduled" ? undefined : undo[action]);
/// From so many jobs on each action asks first.
const MANY = 1000;

async function request(queue, action, selection, options) {
  return send("POST", inQueue(queue, "control"), { action, ...selection }, options);
}

/// Requests an action. `selection` is `{ ids }`, `{ ids, state }` for those that are still in a state or in one of a list
/// of states, `{ where, limit }` or `{ batch }`; `number` is how many jobs it means, or null if that is unknown; `jobs` are
/// those of them that are known, which may be a part. Asks first if the action cannot be undone. Returns whether it was
/// requested.
export async function act(queue, action, selection, number, jobs = []) {
  if (action === "again") return again(queue, selection);
  // The batch has asked already, since it knows of jobs that still come.
  const isAsked = action === "cancelBatch";
  if (isAsked) action = "cancel";
  const many = number === null ? "every job that matches" : number === 1 ? "1 job" : `${count(number)} jobs`;
  if (lasting[action] && !isAsked) {
    const received = jobs.filter((job) => job.state !== "completed").reduce((sum, job) => sum + (job.received ?? 0), 0);
    const [what, consequence] = lasting[action];
    const verb = action === "delete" ? "Delete" : names[action];
    const object = action === "delete" ? (number === 1 ? "the file of 1 job" : `the files of ${many}`) : many;
    const single = (text) => (number === 1 ? text.replace("they have", "it has").replace("them", "it").replace("the jobs", "the job") : text);
    const answer = await ask({
      question: `${verb} ${object} ${single(what)}?`,
      consequence: [received > 0 && action !== "delete" ? el("strong", {}, `${jobs.length === number ? "" : "At least "}${bytes(received)} on disk are deleted. `) : null, consequence],
      lost: [...jobs.slice(0, 5).map((job) => [stateIcon(job), el("span", { class: "clip grow" }, fileOf(job).name),
        job.received ? el("span", {}, bytes(job.received)) : null, job.total ? el("span", { class: "dim" }, `of ${bytes(job.total)}`) : null]),
      ...(jobs.length && (number === null || number > 5) ? [[el("span", { class: "dim" }, number === null ? "and all others that match" : `and ${count(number - Math.min(5, jobs.length))} more`)]] : [])],
      keep: number === 1 ? "Keep it" : "Keep them", verb: `${verb} ${many}`,
      instead: action === "cancel" ? [number === 1 ? "Pause it instead" : "Pause them instead", "pause"] : null,
    });
    if (answer === "pause") return act(queue, "pause", selection, number, jobs);
    if (!answer) return false;
  } else if ((number === null || number > MANY) && !isAsked) {
    const answer = await ask({ question: `${names[action]} ${many}?`, consequence: "Workers apply it within seconds.", keep: "Leave them", verb: `${names[action]} ${many}` });
    if (!answer) return false;
  }
  try {
    const { requested, more, left_out: left = [] } = await request(queue, action, selection);
    const others = !left.length ? "" : Array.isArray(selection.state) ? ` ${count(left.length)} ${left.length === 1 ? "has" : "have"} ended.`
      : ` ${count(left.length)} ${left.length === 1 ? "is" : "are"} no longer ${selection.state}.`;
    const text = `${plural(requested, "job")} ${done[action][requested === 1 ? 0 : 1]}${more ? "; there are more" : ""}.${others}`;
    const back = undoOf(action, selection.state);
    // The undo is only for those that the action was for.
    const taken = without(selection.ids ?? [], left);
    say(text, back && taken.length > 0 ? [`${back[0]} ${taken.length === 1 ? "it" : "them"}`, () => act(queue, back[1], { ids: taken, ...(back[2] && { state: back[2] }) }, taken.length, jobs)] : null);
    return true;
  } catch (error) {
    complain(`${names[action]}: ${error.message}`);
    return false;
  }
}

/// Retries the failed jobs of a group: those with the same error at the same host. `overview` is what has counted them.
export const retryGroup = (queue, group, overview) => act(queue, "retry", { where: { state: "failed", error: group.error, host: group.host }, limit: 100_000 }, sizeOf(group, overview));
/// What the button of a retry says.
export const retryName = (group, overview) => { const number = sizeOf(group, overview); return number === null ? "Retry all" : `Retry ${count(number)}`; };

/// The ids that are not among `left`.
function without(ids, left) {
  const others = new Set(left);
  return ids.filter((id) => !others.has(id));
}

/// How often, and in which interval (ms), jobs that are put back are resumed until all of them were paused.
const TRIES = 20;
const TRY_AGAIN = 500;

/// Gives running jobs to other workers: a pause, and a resume of each as soon as it is paused.
async function again(queue, { ids }) {
  const complainOf = (error) => complain(`Start again elsewhere: ${error.message}`);
  let rest;
  try {
    const { left_out: left } = await request(queue, "pause", { ids, state: "running" });
    rest = without(ids, left);
    const others = left.length ? ` ${count(left.length)} ${left.length === 1 ? "is" : "are"} no longer running.` : "";
    say(rest.length ? `${plural(rest.length, "job")} ${rest.length === 1 ? "is" : "are"} put back, and ${rest.length === 1 ? "starts" : "start"} where a worker is free.${others}` : others.trim());
  } catch (error) {
    complainOf(error);
    return false;
  }
  let failure = null;
  // A page that is closed meanwhile leaves no job paused.
  const withdraw = () => {
    // What outlives a page has at most 64 KiB.
    for (let first = 0; first < Math.min(rest.length, 400); first += 100) {
      request(queue, "resume", { ids: rest.slice(first, first + 100), state: ["running", "paused"] }, { keepalive: true }).catch(() => {});
    }
  };
  window.addEventListener("pagehide", withdraw);
  for (let tries = 0; tries < TRIES && rest.length; tries += 1) {
    await new Promise((resolve) => { setTimeout(resolve, TRY_AGAIN); });
    // A failed call, for example while Redis has no primary, must leave no job paused.
    try { ({ left_out: rest } = await request(queue, "resume", { ids: rest, state: "paused" })); failure = null; } catch (error) { failure = error; }
  }
  try {
    // These have ended, or their workers have not obeyed: then the pause is withdrawn.
    if (rest.length) ({ left_out: rest } = await request(queue, "resume", { ids: rest, state: ["running", "paused"] }));
  } catch (error) { failure = error; } finally { window.removeEventListener("pagehide", withdraw); }
  if (failure) complainOf(failure);
  return !failure;
}

/// Changes settings of the queue. `back` are the former values, for the undo.
export async function set(queue, change, text, back = null) {
  try {
    const settings = await send("PATCH", inQueue(queue, "settings"), change);
    say(text, back ? ["Undo", () => set(queue, back, "The former value counts again.")] : null);
    return settings;
  } catch (error) {
    complain(error.message);
    return null;
  }
}

export const pauseQueue = (queue, isPaused) => set(queue, { paused: isPaused },
  isPaused ? "The queue is paused. Running jobs go on." : "The queue starts jobs again.", { paused: !isPaused });

/// Sets how many jobs some hosts may have at once, an object of host and number; undefined removes that limit. All limits
/// of a host are one value of the API, so the others are read first, whatever this page knows of them.
async function setConnections(queue, connections, text, isUndone = false) {
  try {
    const { limits = {} } = await get(inQueue(queue, "settings"));
    const [change, back] = [{}, {}];
    for (const [host, number] of Object.entries(connections)) {
      const { connections: former, ...others } = limits[host] ?? {};
      back[host] = former;
      const all = number === undefined ? others : { ...others, connections: number };
      change[host] = Object.keys(all).length ? all : null;
    }
    await send("PATCH", inQueue(queue, "settings"), { limits: change });
    say(text, isUndone ? null : ["Undo", () => setConnections(queue, back, "The former limits count again.", true)]);
  } catch (error) {
    complain(error.message);
  }
}

/// Keeps a host from getting jobs, by a limit of 0 jobs at once. Its other limits stay. A limit of the host with a port
/// comes before that of the host, so those are set as well. An IPv6 address has brackets there.
export async function pauseHost(queue, host) {
  const isAddress = !host.startsWith("[") && /:.*:/.test(host);
  const name = isAddress ? `[${host}]` : host;
  const { limits = {} } = await get(inQueue(queue, "settings")).catch(() => ({}));
  const names = [name, ...Object.keys(limits).filter((one) => one !== name && one.replace(/:\d+$/, "") === name)];
  await setConnections(queue, Object.fromEntries(names.map((one) => [one, 0])), `No job begins at ${host} until its limit is raised.`);
}
