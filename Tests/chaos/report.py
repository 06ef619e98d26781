"""Prints the results of a run as a table."""
import json
from collections import Counter


def report(run, check):
    """Prints the results, and returns whether all is right. `check` are the complaints of `haul check`, or None without
    one."""
    violations, figures = run.ledger.close(
        run, json.loads(run.origin.ask("/stats")), json.loads(run.origin.ask("/kept")))
    violations["invariants"] = check or []
    bad_ends = [f"exit status {status}, {count} times" for status, count in run.died.items() if status != 3]
    violations["workers that died by themselves"] = bad_ends
    unfinished = [("default", id) for id in figures["unfinished"]] + run.partitions.crashed
    left, unswept = run.store.leftovers(run, unfinished)
    violations["left after a sweep"] = unswept
    violations["faults that did not end"] = run.faults.broken
    violations["threads of this run that broke"] = run.broken
    violations["fetched again beyond the bound"] = run.ledger.refetched.beyond
    violations["SIGTERM not obeyed in time"] = ["…"] * run.faults.overdue
    if run.drained is None:
        violations["never drained"] = ["after 180 s " + describe(run)]
    logs = run.workers + run.retired
    excess = figures["excess"]

    def line(name, value):
        print(f"{name:<44} {value}")

    print(f"\nchaos: seed {run.options.seed}, {run.options.workers} workers, lease {run.options.lease:g} s, "
          f"{run.seconds:.0f} s of faults")
    for kind in run.faults.kinds:
        line("  " + kind, run.faults.injected[kind])
    line("faults", run.faults.injected.total())
    line("jobs, accepted", f"{len(run.ledger.jobs)}, {figures['accepted']}")
    line("  of each kind", ", ".join(f"{count} {kind}" for kind, count in figures["kinds"].most_common()))
    line("pairs of jobs for one name", figures["pairs"])
    line("jobs that are followed by a request", figures["steps"])
    line("jobs in groups, most of the limited one", ", ".join(map(str, figures["groups"])))
    line("batches, members, ends, operations", ", ".join(map(str, figures["batches"])))
    for part in run.ledger.parts:
        for name, value in part.figures().items():
            line(name, value)
    line("final states", ", ".join(f"{count} {state}" for state, count in figures["states"].most_common()))
    for kind, found in violations.items():
        line(kind, "not checked: no haul check" if kind == "invariants" and check is None else len(found))
    line("events received", ", ".join(f"{n} {e}" for e, n in run.ledger.events.most_common() if e != "progress"))
    line("offsets compared with " + run.store.NAME, f"{run.ledger.samples}, checked again {run.ledger.doubts}")
    line("runs fenced, as the workers' logs say", sum(w.has_logged(r"fenced: |fenced while") for w in logs))
    line("recovery, worker lost → runs again", percentiles(run.ledger.recoveries, "s"))
    line("  the same " + run.topology.FAULT_PERIOD, percentiles(run.ledger.disturbed_recoveries, "s"))
    seconds, id, events = run.ledger.slowest
    line("  the slowest", f"{id}: {', '.join(events)}" if id else "none")
    counts = Counter(run.ledger.losses.values())
    line("jobs by how often their worker was lost", ", ".join(f"{n}: {counts[n]}" for n in sorted(counts)))
    for text in figures["crashed"]:
        line("  crash_loop", text)
    refetched = run.ledger.refetched
    for name, found in (("fetched again by the run after a kill", refetched.after_kills),
                        ("  the same " + run.topology.FAULT_PERIOD, refetched.disturbed)):
        line(name, percentiles([again / 1048576 for again, _ in found], "MiB"))
        # A run that had just begun has no speed.
        line("    in seconds of its speed", percentiles([again / speed for again, speed in found if speed > 1000], "s"))
    line("bytes of completed files", f"{figures['bytes'] / 1048576:.1f} MiB")
    line("sent twice, for whatever reason", f"{sum(max(0, n) for n in excess.values()) / 1048576:.1f} MiB, by "
         f"{sum(n > 0 for n in excess.values())} jobs, most by one {max(excess.values(), default=0) / 1048576:.1f} MiB")
    line("uploads: what came to the origin twice", ", ".join(
        f"{way} {count / 1048576:.1f} MiB" for way, count in sorted(figures["again"].items())))
    if not run.topology.KEEPS_ACKNOWLEDGED:
        line("sent twice without leave, after failovers", figures["twice"])
    line(*left)
    if run.options.store == "s3":
        line("what the store took longest for", run.store.slowest)
    line("drained in", f"{run.drained:.1f} s" if run.drained is not None else "never")
    line("  the job that ended last", latest(run))
    for kind, found in violations.items():
        for text in found[:10]:
            print(f"  {kind}: {text}")
    return not any(violations.values())


def describe(run):
    """What was left when the run did not drain, by the keys, and the last events of the jobs that are named there."""
    left = {key: value for key, value in run.remaining.items() if value}
    if not left:
        return "the batches were not concluded"
    text = json.dumps(left)
    named = [id for id in run.ledger.jobs if f'"{id}"' in text.replace("\\", "")]
    return f"there were left {text[:3000]}" + "".join(f"\n    {last_events(run, id)}" for id in named[:5])


def latest(run):
    """The job that ended last, with its last events in seconds since everything was continued."""
    events = run.ledger.last_events
    id = max((id for id in events if id in run.ledger.jobs), key=lambda id: events[id][-1]["at"], default=None)
    return last_events(run, id) if id else "none"


def last_events(run, id):
    began = run.ledger.drained_from
    return f"{id}: " + ", ".join(f"{event['event']} at {(event['at'] - began) / 1000:.1f} s"
                                 for event in run.ledger.last_events.get(id, ()))


def percentiles(values, unit):
    if not values:
        return "none"
    values = sorted(values)
    at = lambda share: values[min(len(values) - 1, int(share * len(values)))]
    return f"{len(values)} times, p50 {at(0.5):.1f} {unit}, p99 {at(0.99):.1f} {unit}, most {values[-1]:.1f} {unit}"
