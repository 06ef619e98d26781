// What can be done about a job that has failed.

import { getPushed } from "./api.js";
import { complain } from "./dialogs.js";
import { el } from "./dom.js";
import { bytes, day, time } from "./format.js";
import { openPush } from "./push.js";
import { about } from "./words.js";

/// What to do about an error, as far as the error itself tells. It quotes the server, and never guesses.
export function remedy(job, keptUntil) {
  const { help, status } = about(job.error);
  const steps = [];
  const kept = (job.offsets ?? []).reduce((many, [from, to]) => many + to - from, 0);
  if (["http_401", "http_403"].includes(job.error)) {
    steps.push(["Signed links end after a while. Get a fresh link and choose ", el("strong", {}, "Push with a new URL"), kept > 0 ? `. The download goes on from its ${bytes(kept)}.` : "."], ["If the link is right, check the credentials that the job sends."]);
  } else steps.push([help]);
  if (job.message) steps.unshift(["The worker says: ", el("strong", {}, job.message), "."]);
  const last = job.retryable === "1" || job.retryable === true ? "All retries are used up. A retry by hand begins with the bytes on disk." : `A retry as it is will fail again${status ? `: ${status} is not retried by itself` : ""}.`;
  return [el("h2", {}, "What to do"), el("ol", {}, steps.map((step) => el("li", {}, step))), el("p", { class: "dim" }, last, keptUntil ? [" The job and its bytes are kept until ", el("strong", {}, time(keptUntil, day(keptUntil))), "."] : "")];
}

/// Offers what was pushed with another URL. Of a job that has ended a push replaces all fields, so that none may be lost;
/// of any other it replaces the URLs and the header fields.
export async function renew(context, id, data) {
  const { queue } = context;
  const hasEnded = ["completed", "failed", "cancelled"].includes(data.state);
  let job;
  let words = hasEnded ? "The job is pushed as before, with this URL and with what you change." : "The job goes on with this URL and these header fields. Its other fields stay as they are, because it has not ended.";
  try {
    const { pushed: first, renewed: newest = first } = await getPushed(queue, id);
    // An element may be a URL alone.
    job = { ...(typeof first === "string" ? {} : first), headers: newest.headers };
  } catch (error) {
    if (error.status !== 404) return complain(`What was pushed cannot be read: ${error.message}`);
    const first = (names) => names?.split(" ")[0];
    job = hasEnded ? { kind: data.kind, path: data.path, checksum: data.checksum, group: data.group, meta: data.meta, batch: first(data.batch), reply_to: first(data.reply_to) } : {};
    words = hasEnded ? "What was pushed is no longer kept. Only what the record has is filled in: give header fields and all else anew."
      : "No worker has seen the job yet, so what was pushed is not filled in. The job takes this URL and the header fields that you give, and its other fields stay as they are.";
  }
  if (!context.isShown()) return undefined;
  for (const name of Object.keys(job)) if (["id", "at", "url", "urls", "delay"].includes(name) || job[name] === undefined || job[name] === "") delete job[name];
  return openPush(context, data.url?.includes("[masked]") ? "" : data.url ?? "", undefined, { id, job, note: words });
}
