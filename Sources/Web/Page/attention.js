// What is wrong, the worst first. Each fault is a sentence with its evidence, its consequence and what can be done.

import { retryName } from "./actions.js";
import { age, count, duration, plural, clock } from "./format.js";
import { about, hostOf, sizeOf } from "./words.js";

/// Whether a worker that is not silent takes jobs beside this one, and so its jobs.
export function hasOthers({ workers, now }, worker) {
  return workers.some((other) => other.name !== worker.name && other.state === "working" && now - (other.seen ?? 0) < 5000);
}

/// Computes the faults from the overview, the hosts and the workers, as far as they are known yet. Each is `{ key, icon,
/// tone, subject, text, detail, actions }`. An action is `{ text, icon, do }` or `{ text, path }`.
export function faults({ overview, hosts, workers }, { path, isOperator, isLive = true, verbs }) {
  const found = [];
  const now = overview?.now ?? 0;
  const until = (moment) => (isLive ? `in ${duration((moment - now) / 1000)}` : `at ${clock(moment)}`);
  if (overview) {
    const { counts } = overview;
    const present = overview.workers.working + overview.workers.quiet + overview.workers.ending;
    if (present === 0 && counts.queued + counts.running + counts.scheduled > 0) {
      found.push({ key: "none", weight: 1e9, icon: "attention", tone: "red", subject: "No worker", text: " serves this queue",
        detail: `${plural(counts.queued, "job")} ${counts.queued === 1 ? "waits" : "wait"}. Start one with haul worker, where the files should go.`,
        actions: [{ text: "Show workers", path: path("workers") }] });
    } else if (overview.workers.working === 0 && counts.queued > 0) {
      found.push({ key: "quiet", weight: 1e8, icon: "attention", tone: "amber", subject: "No worker", text: " takes jobs now",
        detail: `All are quiet or ending, and ${plural(counts.queued, "job")} ${counts.queued === 1 ? "waits" : "wait"}.`,
        actions: [{ text: "Show workers", path: path("workers") }] });
    }
    if (overview.paused) {
      found.push({ key: "paused", weight: 10, icon: "paused", tone: "amber", subject: "The queue", text: overview.paused_partitions ? ` is paused in ${plural(overview.paused_partitions, "partition")}, not in all` : " is paused",
        detail: `${overview.paused_by ? `Paused by ${overview.paused_by}, ${age((now - overview.paused_at) / 1000)} ago. ` : ""}Running jobs go on. ${plural(counts.queued, "job")} ${counts.queued === 1 ? "waits" : "wait"} until it is resumed.`,
        actions: [isOperator && { text: "Resume queue", icon: "play", do: verbs.resumeQueue }] });
    }
    // A host is named once, with the error that most of its jobs failed with.
    const recent = overview.failures.groups.filter((group) => group.recent > 0).sort((one, other) => other.recent - one.recent);
    for (const group of recent.filter((group, index) => recent.findIndex(({ host }) => host === group.host) === index)) {
      const { verb, help } = about(group.error);
      // With limits of its own, a port has a row of its own.
      const own = (hosts?.hosts ?? []).filter((host) => hostOf(host.host) === group.host);
      const waiting = own.reduce((sum, host) => sum + host.deferred + host.waiting, 0);
      const shutUntil = Math.max(0, ...own.map((host) => host.backoff_until ?? 0));
      const rest = [
        shutUntil > now ? `Haul leaves the host alone and asks again ${until(shutUntil)}.` : null,
        group.retryable ? (shutUntil > now ? null : help) : `A retry will not help: ${help[0].toLowerCase()}${help.slice(1)}`,
      ].filter(Boolean).join(" ");
      found.push({ key: `failed ${group.error} ${group.host}`, weight: (group.retryable ? 1000 : 100) + group.recent, icon: "failed", tone: group.retryable ? "red" : "amber",
        subject: group.host, text: ` ${verb}`,
        detail: `${plural(group.recent, "job")} failed in 20 minutes${waiting ? ` and ${count(waiting)} ${waiting === 1 ? "waits" : "wait"}` : ""}. ${rest}`,
        actions: [
          isOperator && group.retryable && { text: retryName(group, overview), icon: "retry", do: () => verbs.retry(group) },
          isOperator && group.host !== "unknown" && !(own.length && own.every((host) => host.limits?.connections === 0)) && { text: "Pause this host", icon: "pause", do: () => verbs.pauseHost(group.host) },
          { text: (group.retryable && isOperator) || sizeOf(group, overview) === null ? "Show" : `Show ${count(group.count)}`, path: path("jobs", ["failed"], { error: group.error, host: group.host }) },
        ] });
    }
    const disk = Object.fromEntries(overview.waiting_for ?? []).disk;
    if (disk) {
      const isAtWork = overview.bottlenecks.some(({ cause, running }) => cause === "disk" && running > 0);
      found.push({ key: "disk", weight: 500, icon: "waits", tone: "amber", subject: plural(disk, "job"), text: ` ${disk === 1 ? "waits" : "wait"} for space on disk`,
        detail: "They go on by themselves when there is space again.", actions: [{ text: `Show ${plural(disk, "job")}`, path: path("jobs", [isAtWork ? "running" : "scheduled"], { waiting: "disk" }) }] });
    }
  }
  for (const host of hosts?.hosts ?? []) {
    if (!(host.backoff_until > now) || found.some(({ subject }) => subject === hostOf(host.host))) continue;
    const waiting = host.deferred + host.waiting;
    found.push({ key: `shut ${host.host}`, weight: 400 + waiting, icon: "waits", tone: "amber", subject: host.host, text: " asked for a pause",
      detail: `${waiting ? `${plural(waiting, "job")} ${waiting === 1 ? "waits" : "wait"}. ` : ""}Haul asks it again ${until(host.backoff_until)}.`,
      actions: [{ text: "Show", path: path("jobs", ["running"], { host: host.host }) }] });
  }
  for (const worker of workers?.workers ?? []) {
    if (worker.free === 0 && worker.state !== "lost") {
      found.push({ key: `full ${worker.name}`, weight: 600, icon: "attention", tone: "amber", subject: worker.name, text: " has no space for downloads",
        detail: "Its disk has no more than what --keep-free leaves to other programs. It goes on by itself when there is space again.", actions: [{ text: "Show workers", path: path("workers") }] });
    }
    const silence = (workers.now - (worker.seen ?? 0)) / 1000;
    const lease = (worker.lease ?? 8000) / 1000;
    if (worker.state !== "lost" && silence < 5) continue;
    const running = worker.running ?? 0;
    const since = isLive ? ` has been silent for ${duration(silence)}` : ` has been silent since ${clock(worker.seen)}`;
    const jobs = running === 1 ? "Its job goes" : `Its ${count(running)} jobs go`;
    const isLost = worker.state === "lost";
    const where = hasOthers(workers, worker) ? `${jobs} on at other workers${isLost ? "" : ` ${until(worker.seen + lease * 1000)}`}. ` : `${jobs} on as soon as another worker takes jobs. `;
    found.push({ key: `worker ${worker.name}`, weight: 900 - silence / 1e4, icon: "attention", tone: "red", subject: worker.name, text: since,
      detail: `${running || !isLost ? where : ""}Bytes on disk are kept.`,
      actions: [running > 0 ? { text: `Show ${plural(running, "job")}`, path: path("jobs", ["running"], { worker: worker.name }) } : { text: "Show workers", path: path("workers") }] });
  }
  return found.sort((one, other) => other.weight - one.weight);
}
