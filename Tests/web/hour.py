"""An hour's work on the page of `haul web`, beside a full fleet.

  Tests/web/run.sh HAUL --hour [--minutes N] [--running N] [--queued N] [--screenshots DIRECTORY]

Two workers run `--running` jobs of the queue `fleet`, whose bytes come in drops, and `--queued` more wait. A person
works on the page all the time: pushes, watches, pauses a job on one worker and continues it on another, cancels 500,
retries the failures of one host, and finds one job among all that wait. The page is never reloaded, so that a leak
shows.

It prints a table of how long each action took in the browser, from the press to the result on the page. Each minute it
prints the use of `haul web`, the page and Redis. It exits with 1 if an action failed, if the page had an error, or if
memory grew.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import sys
import time
import traceback

from bench import Bench, eventually, free_port

HERE = pathlib.Path(__file__).parent
CANCELLED = 500
FAILURES = 120
# The bytes of a job that runs for more than an hour. Its file has this length from the start: a thousand take 2 GB of
# disk.
LARGE = 2_000_000
# The time that feels instant to a person, in ms.
QUICK = 200

# Runs the script `press`, and measures until the page shows what is wanted.
ACT = """
const [press, wanted, done] = arguments;
const begun = performance.now();
const isThere = () => wanted.every((text) => document.body.textContent.includes(text));
const finish = () => { observer.disconnect(); clearTimeout(limit); done(performance.now() - begun); };
const observer = new MutationObserver(() => { if (isThere()) finish(); });
const limit = setTimeout(() => { observer.disconnect(); done(null); }, 25000);
observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
document.getElementById("notice")?.remove();
new Function(press)();
if (isThere()) finish();
"""
# Records the errors of the page, and the calls that it made.
LISTEN = """
window.wrong = [];
addEventListener("error", (event) => wrong.push(event.message));
addEventListener("unhandledrejection", (event) => wrong.push(String(event.reason)));
const banner = document.getElementById("connection");
new MutationObserver(() => { if (!banner.hidden) wrong.push(`banner: ${banner.textContent}`); }).observe(banner, { attributes: true });
performance.setResourceTimingBufferSize(100000);
"""
CALLS = """
const calls = performance.getEntriesByType("resource").filter((entry) => entry.name.includes("/api/") && !entry.name.includes("/api/live"))
  .map((entry) => [entry.name.split("/api/")[1].slice(0, 80), entry.duration]);
performance.clearResourceTimings();
return calls;
"""


class Hour:
    def __init__(self, bench, options):
        self.bench = bench
        self.options = options
        self.times = {}
        self.effects = {}
        self.calls = []
        self.minutes = []
        self.shares = {"watched": [], "alone": []}
        self.failed = 0
        self.pushed = 0
        self.origin = ""

    # The fleet.

    def begin(self):
        bench, options = self.bench, self.options
        needed = 2 * LARGE * options.running
        if shutil.disk_usage(bench.root).free < 2 * needed:
            sys.exit(f"hour.py: {2 * needed / 1e9:.0f} GB must be free in {bench.directory.parent}")
        port = free_port()
        bench.start(sys.executable, str(HERE / "drip.py"), str(port))
        self.origin = f"http://127.0.0.1:{port}"
        self.port = port
        self.fill(options.queued + options.running)
        for name in ["left", "right"]:
            self.worker(name, "fleet", options.running // 2)
        for name in ["one", "two"]:
            self.worker(name, "default", 20)
        bench.serve_queues(["fleet", "default"])
        eventually("the fleet to be full", self.is_full, 180)
        bench.browse()
        bench.driver.set_script_timeout(40)
        bench.visit("#/fleet/overview")
        bench.driver.execute_script(LISTEN)

    def worker(self, name, queue, slots):
        self.bench.worker(name, "--queue", queue, "--slots", str(slots), "--connections-per-host", "4000", "--durability", "process",
                          "--log-level", "warning", lease="8")

    def fill(self, count):
        """Pushes jobs as producers do. One in twenty ends within a minute."""
        lines = []
        for number in range(self.pushed, self.pushed + count):
            size = 30_000 if number % 20 == 0 else LARGE
            lines.append(f'LPUSH haul:{{fleet}}:jobs \'{{"url":"{self.origin}/drip/{number:07}.bin?size={size}&every=8","id":"job-{number:07}","connections":1}}\'')
        self.pushed += count
        self.bench.redis("--pipe", text="\n".join(lines) + "\n")

    def counts(self, queue="fleet"):
        return self.bench.ask(f"queues/{queue}")["counts"]

    def is_full(self):
        return self.counts()["running"] >= self.options.running

    # The person.

    def act(self, name, press, *wanted):
        """Does something, and records how long the page took to show what is wanted."""
        took = self.bench.driver.execute_async_script(ACT, press, list(wanted))
        if took is None:
            raise AssertionError(f"{name}: the page does not show {wanted}:\n{self.bench.text()[:1500]}")
        self.times.setdefault(name, []).append(took)
        return took

    def go(self, name, path, *wanted):
        """Goes from one page of `haul web` to another one."""
        return self.act(name, f"location.hash = {path!r}", *wanted)

    def press(self, name, button, *wanted, inside="main"):
        # The name of a button may be followed by its key.
        found = f"[...document.querySelectorAll('{inside} button')].find((b) => b.textContent.startsWith({button!r}) && !b.disabled && b.checkVisibility())"
        eventually(f"a button {button}", lambda: self.bench.driver.execute_script(f"return Boolean({found})"))
        return self.act(name, f"{found}.click()", *wanted)

    def effect(self, name, condition, within=30):
        """Waits for the effect of workers, whose time is not the page's."""
        begun = time.monotonic()
        result = eventually(name, condition, within)
        self.effects.setdefault(name, []).append(time.monotonic() - begun)
        return result

    def visit_pages(self, turn):
        """Visits each page once."""
        self.go("overview", "#/fleet/overview", "Bytes received", "How old the work is")
        self.go("running jobs", "#/fleet/jobs/running", "1 to ")
        self.go("queued jobs", "#/fleet/jobs/queued", "Waits for its turn", "1 to ")
        self.act("scroll to the middle", "const box = document.querySelector('.list-scroll'); box.scrollTop = box.scrollHeight / 2")
        self.go("workers", "#/fleet/workers", "left", "right", "Takes jobs")
        self.go("settings", "#/fleet/settings", "Workers follow a change")
        if turn:
            self.go("batches", "#/default/batches", "films", "until now")
            self.go("a batch", "#/default/batches/films", "Batch films", "until now ended.")
            self.go("jobs of a batch", "#/default/jobs/completed?batch=films", "found among")

    def write(self, label, value):
        """Writes into the input with this label."""
        self.bench.driver.execute_script(
            "const label = [...document.querySelectorAll('dialog label')].find((item) => item.textContent.startsWith(arguments[0]));"
            "const box = label.querySelector('input, textarea'); box.value = arguments[1]; box.dispatchEvent(new Event('input'));", label, value)

    def state(self, job):
        return self.bench.ask(f"queues/default/jobs/{job}")

    def move(self, turn):
        """Pushes a job, watches it, pauses it on one worker, and continues it on another."""
        bench, job = self.bench, f"film-{turn}"
        self.go("push form", "#/default/push", "one job for each line")
        self.write("URL", f"{self.origin}/film?size=3000000&drop=100000&every=0.4")
        self.write("Id", job)
        self.write("Connections", "1")
        self.write("Batch", "films")
        self.press("push", "Push 1 job", "1 job pushed", job, inside="dialog")
        self.act("watch", "document.querySelector('dialog .pushed a').click()", "About this job")
        self.effect("pushed, running", lambda: self.state(job)["state"] == "running" and self.state(job).get("received", 0) > 0)
        bench.shows("Downloading", "in 1 range")
        first = self.state(job)["worker"]
        self.press("pause", "Pause", "1 job is being paused")
        self.effect("paused", lambda: self.state(job)["state"] == "paused")
        bench.shows("Paused at")
        bench.command("worker", "quiet", first)
        self.press("resume", "Resume", "1 job runs again")
        second = self.effect("continued elsewhere", lambda: self.state(job)["state"] in ["running", "completed"] and self.state(job)["worker"])
        assert second != first, f"{job} went on where it was, on {first}"
        bench.command("worker", "resume", first)
        bench.shows("Completed", "The whole file", within=60)

    def cancel(self, turn):
        """Cancels 500 jobs that one worker runs. The fleet claims other jobs."""
        before = self.counts()["cancelled"]
        worker = ["left", "right"][turn % 2]
        limit = min(CANCELLED, self.options.running // 2)
        self.go("jobs of one worker", f"#/fleet/jobs/running?worker={worker}", "found among")
        self.act("choose all", "document.querySelector('.list thead input').click(); [...document.querySelectorAll('.selection button')].find((b) => b.textContent === 'Select all that match').click()", "selected")
        self.press("ask to cancel", "Cancel", "Keep them", inside="#floating")
        begun = time.monotonic()
        self.press("cancel 500", "Cancel ", "being cancelled", inside="dialog")
        print(f"    {bench_notice(self.bench)} ({1000 * (time.monotonic() - begun):.0f} ms with the driver)", flush=True)
        self.effect("500 cancelled", lambda: self.counts()["cancelled"] >= before + limit * 0.9, 60)
        self.effect("fleet full again", self.is_full, 120)
        missing = self.options.queued - self.counts()["queued"]
        if missing > 0:
            self.fill(missing)

    def retry(self, turn):
        """Retries the failures of one host. Those of another host stay."""
        bench = self.bench
        if turn == 0:
            for host, count in [("127.0.0.3", FAILURES), ("127.0.0.4", 30)]:
                bench.ask("queues/default/jobs", [{"url": f"http://{host}:{self.port}/missing/{n}", "id": f"bad-{host}-{n}", "retries": 0} for n in range(count)])
            eventually("all to fail", lambda: self.counts("default")["failed"] == FAILURES + 30, 60)
        ends = lambda host: [self.state(f"bad-{host}-{n}")["finished"] for n in (0, FAILURES // 2 if host.endswith("3") else 29)]
        before, others = ends("127.0.0.3"), ends("127.0.0.4")
        self.go("failures", "#/default/overview", "127.0.0.3", "does not have the files")
        self.go("failures of one host", "#/default/jobs/failed?host=127.0.0.3", "found among")
        self.act("choose all", "document.querySelector('.list thead input').click(); [...document.querySelectorAll('.selection button')].find((b) => b.textContent === 'Select all that match').click()", "selected")
        self.press("retry", "Retry", f"{FAILURES} jobs run again", inside="#floating")
        self.effect("all failed again", lambda: self.counts("default")["failed"] == FAILURES + 30 and not set(before) & set(ends("127.0.0.3")), 60)
        assert ends("127.0.0.4") == others, "failures of another host were retried"

    def find(self, turn):
        """Finds one job among all that wait, and one that runs, by its id and by a part of its URL."""
        length = self.counts()["queued"]
        for share in [0.1, 0.5, 0.9]:
            position = int(length * share)
            element = self.bench.redis("LINDEX", "haul:{fleet}:jobs", str(-1 - position))
            number = element.split("/drip/")[1][:7]
            self.go("queued jobs", "#/fleet/jobs/queued", "1 to ")
            self.go("first hit among 100,000", f"#/fleet/jobs/queued?q=/{number}.bin", "1 found", f"{number}.bin")
            self.bench.shows("1 found among", f"{number}.bin")
            self.go("queued jobs", "#/fleet/jobs/queued", "1 to ")
            self.go("by id among 100,000", f"#/fleet/jobs/queued?q=job-{number}", f"job-{number}", " found")
        job = self.bench.ask(f"queues/fleet/jobs?state=running&from={self.options.running // 2}&limit=1")["jobs"][0]["id"]
        self.go("running jobs", "#/fleet/jobs/running", "1 to ")
        self.go("by id among those that run", f"#/fleet/jobs/running?q={job}", f"The job {job} is running.")
        self.go("open a job", f"#/fleet/job/{job}", "Downloading", "What is on disk")

    # The costs.

    def rest(self, kind, path, seconds=20):
        """Leaves the page idle, and measures the CPU time of Redis. The form for new jobs watches nothing."""
        self.bench.visit(path)
        time.sleep(2)
        before, begun = self.bench.spent(), time.monotonic()
        time.sleep(seconds)
        self.shares[kind].append(100 * (self.bench.spent() - before) / (time.monotonic() - begun))

    def note(self, begun):
        """Prints a line for this minute, always from the same page."""
        self.bench.visit("#/default/push")
        self.calls += self.bench.driver.execute_script(CALLS)
        self.bench.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        metrics = {m["name"]: m["value"] for m in self.bench.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
        web, heap, nodes = self.bench.resident(self.bench.web), metrics["JSHeapUsedSize"] / 1e6, metrics["Nodes"]
        self.minutes.append((web, heap, nodes))
        counts = self.counts()
        print(f"minute {(time.monotonic() - begun) / 60:5.1f}: haul web {web:.1f} MB, the page's heap {heap:.2f} MB, {nodes:.0f} nodes, "
              f"{metrics['JSEventListeners']:.0f} listeners, machine's load {os.getloadavg()[0]:.1f}; {counts['running']} running, {counts['queued']} queued; {self.failed} failed", flush=True)

    def work(self):
        """Repeats all actions in turns until the time has ended."""
        begun, turn, noted = time.monotonic(), 0, 0
        self.bench.driver.execute_cdp_cmd("Performance.enable", {})
        end = begun + 60 * self.options.minutes
        parts = [
            self.visit_pages, self.move, self.find, self.cancel, self.retry,
            lambda _: self.rest("watched", "#/fleet/overview"), lambda _: self.rest("alone", "#/fleet/push"),
            lambda _: self.rest("watched", "#/fleet/jobs/running"), lambda _: self.rest("alone", "#/fleet/push"),
        ]
        while turn == 0 or time.monotonic() < end:
            for part in parts:
                try:
                    part(turn)
                except Exception:
                    self.failed += 1
                    print("FAILED " + "".join(line for line in traceback.format_exc().splitlines(True) if "<unknown>" not in line), flush=True)
                if time.monotonic() - begun >= 60 * noted:
                    noted = int((time.monotonic() - begun) / 60) + 1
                    self.note(begun)
                if turn and time.monotonic() >= end:
                    break
            if turn == 0 and self.options.screenshots:
                self.photograph("first")
            turn += 1
        self.note(begun)
        if self.options.screenshots:
            self.photograph("last")
        print(f"\n{turn} turns in {(time.monotonic() - begun) / 60:.0f} minutes")

    def photograph(self, when):
        self.options.screenshots.mkdir(parents=True, exist_ok=True)
        for queue, page in [("fleet", "overview"), ("fleet", "jobs/running"), ("fleet", "jobs/queued?q=99.bin"), ("fleet", "workers"),
                            ("default", "overview"), ("default", "job/film-0"), ("default", "jobs/failed?host=127.0.0.3")]:
            self.bench.visit(f"#/{queue}/{page}")
            time.sleep(1.5)
            name = page.split("?")[0].replace("/", "-")
            self.bench.driver.save_screenshot(str(self.options.screenshots / f"{when}-{queue}-{name}.png"))

    # The results.

    def report(self):
        """Prints the tables, and returns what is wrong."""
        wrong = [f"{self.failed} actions failed"] if self.failed else []
        print(f"\n{'ms from the press to what is shown':38} times  median     95 %    most   over {QUICK}")
        for name, times in sorted(self.times.items(), key=lambda item: -max(item[1])):
            times = sorted(times)
            late = sum(took > QUICK for took in times)
            print(f"{name:38} {len(times):5} {statistics.median(times):7.0f} {times[int(len(times) * 0.95)]:8.0f} {times[-1]:7.0f} {late:8}")
        print("\ns until workers had done it                        median    most")
        for name, times in self.effects.items():
            print(f"{name:38} {len(times):5} {statistics.median(times):7.2f} {max(times):7.2f}")
        for name, took in sorted(self.calls, key=lambda call: -call[1])[:5]:
            print(f"slow call: {took:.0f} ms {name}")
        alone, watched = (self.shares[kind] for kind in ["alone", "watched"])
        if alone and watched:
            print(f"Redis, % of a core: {statistics.median(alone):.2f} while no page is open ({min(alone):.2f} to {max(alone):.2f}), "
                  f"{statistics.median(watched):.2f} while the page is open ({min(watched):.2f} to {max(watched):.2f})")
        troubles = self.bench.driver.execute_script("return window.wrong") + [t for t in self.bench.complaints() if "404" not in t]
        print(f"{len(troubles)} errors of the page")
        wrong += [f"the page: {text}" for text in troubles[:10]]
        for index, name in enumerate(["haul web, MB", "the page's heap, MB", "the page's nodes"]):
            values = [minute[index] for minute in self.minutes]
            # Caches fill in the first quarter. The end of a quarter depends on the last action, but the minimum of a
            # quarter does not.
            quarter = max(1, len(values) // 4)
            early, late = min(values[quarter:2 * quarter] or values), min(values[-quarter:])
            print(f"{name}: {values[0]:.1f} at first, {early:.1f} in the second quarter at least, {late:.1f} in the last, {max(values):.1f} at most")
            if len(values) >= 20 and late > 1.15 * early + 2:
                wrong.append(f"{name} grew from {early:.1f} to {late:.1f}")
        return wrong


def bench_notice(bench):
    return bench.driver.execute_script("return document.getElementById('notice').textContent")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--running", type=int, default=1000)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--screenshots", type=pathlib.Path)
    options = parser.parse_args()
    bench = Bench(options.haul)
    try:
        hour = Hour(bench, options)
        hour.begin()
        try:
            hour.work()
        except KeyboardInterrupt:
            print("ended before its time: what was seen until now")
        wrong = hour.report()
    finally:
        bench.close()
    for text in wrong:
        print(f"wrong: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
