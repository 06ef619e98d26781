"""How long each action takes beside a busy queue, through the API and as a command.

  Tests/web/run.sh HAUL --actions [--running N] [--queued N] [--rounds N]

Two workers run `--running` jobs, whose bytes come in drops, and `--queued` more wait. A stream reads the overview and
the running jobs all the time, as an open page does. Each action is repeated `--rounds` times. A row has the median and
the maximum in milliseconds, and what Redis spent on one action. Exits with 1 if a median exceeds its bound: 150 ms for
an action through the API, 50 ms for a job that is named by its URL alone, beside the start of a program.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

from bench import Bench, eventually, free_port

HERE = pathlib.Path(__file__).parent
QUEUE = "fleet"
API_BOUND, URL_BOUND = 150, 50
# The bytes of a job that runs for more than an hour. A worker reserves them on the disk.
LARGE = 1_000_000
# A job of each of these is among those that run, and among those that wait.
NAMED = ["with an id", "without an id"]


class Actions:
    def __init__(self, bench, options):
        self.bench, self.options = bench, options
        self.rows, self.late = [], []
        self.environment = {"HAUL_REDIS": f"unix://{bench.socket}", "PATH": "/usr/bin:/bin"}

    def begin(self):
        bench, options = self.bench, self.options
        port = free_port()
        bench.start(sys.executable, str(HERE / "drip.py"), str(port))
        self.origin = f"http://127.0.0.1:{port}"
        claimed = [self.element(number, "claimed") for number in range(options.running)]
        waiting = [self.element(number, "waiting") for number in range(options.queued)]
        for elements in [claimed, waiting]:
            bench.redis("--pipe", text="".join(f"LPUSH haul:{{{QUEUE}}}:jobs '{element}'\n" for element in elements))
        for name in ["left", "right"]:
            bench.worker(name, "--queue", QUEUE, "--slots", str(options.running // 2), "--connections-per-host", "4000", "--durability", "process",
                         "--log-level", "warning", lease="8")
        bench.serve_queues([QUEUE])
        eventually("the jobs to run", lambda: self.counts()["running"] == options.running, 180)
        threading.Thread(target=self.look_on, daemon=True).start()

    def url(self, number, what):
        return f"{self.origin}/drip/{what}/{number}.bin?size={LARGE}&every=8&signature={number}"

    def element(self, number, what):
        name = "" if number % 2 else f',"id":"{what}-{number}"'
        return f'{{"url":"{self.url(number, what)}"{name},"connections":1}}'

    def counts(self):
        return self.bench.ask(f"queues/{QUEUE}")["counts"]

    def look_on(self):
        """Reads what an open page reads, until the program ends."""
        watched = urllib.parse.urlencode([("watch", f"queues/{QUEUE}"), ("watch", f"queues/{QUEUE}/hosts"), ("watch", f"queues/{QUEUE}/jobs?state=running&limit=100")])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.bench.port}/api/live?{watched}") as stream:
                while stream.read1(65_536):
                    pass
        except OSError:
            pass

    def time(self, name, bound, action):
        """Repeats `action`, which gets the number of the round."""
        times, spent = [], self.bench.spent()
        for turn in range(self.options.rounds):
            begun = time.monotonic()
            action(turn)
            times.append(1000 * (time.monotonic() - begun))
            time.sleep(0.05)
        redis = 1000 * (self.bench.spent() - spent) / self.options.rounds
        median = statistics.median(times)
        self.rows.append((name, median, max(times), redis))
        print(f"{name:52} {median:8.1f} {max(times):8.1f} {redis:8.1f}", flush=True)
        if bound and median > bound:
            self.late.append(f"{name}: {median:.0f} ms of {bound} ms")
        return median

    def control(self, action, **selection):
        return self.bench.ask(f"queues/{QUEUE}/control", {"action": action, **selection})

    def command(self, *arguments):
        done = subprocess.run([self.bench.haul, *arguments, "--queue", QUEUE], env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"haul {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def through_the_api(self):
        queue, ask = f"queues/{QUEUE}", self.bench.ask
        middle = self.options.queued // 2
        jobs = [job["id"] for job in ask(f"{queue}/jobs?state=running&limit=500")["jobs"]]
        for name, path in {
            "read the overview": queue, "read the hosts": f"{queue}/hosts", "read the workers": f"{queue}/workers", "count by property, running": f"{queue}/facets?state=running",
            "list 100 running jobs": f"{queue}/jobs?state=running", "list the 500 fastest running jobs": f"{queue}/jobs?state=running&sort=speed&limit=500",
            "list 100 in the middle of those that wait": f"{queue}/jobs?state=queued&from={middle}", "list the 100 pushed last": f"{queue}/jobs?state=queued&reverse=true",
            "show a running job": f"{queue}/jobs/{jobs[0]}", "search the waiting jobs": f"{queue}/jobs?state=queued&q=waiting/{middle}.bin",
        }.items():
            self.time(name, API_BOUND, lambda _: ask(path))
        self.time("push a job", API_BOUND, lambda turn: ask(f"{queue}/jobs", {"url": f"{self.origin}/drip/pushed-{turn}?size=100&every=1"}))
        for action in ["pause", "resume"]:
            self.time(f"{action} a running job", API_BOUND, lambda turn: self.control(action, ids=[jobs[turn]]))
        self.time("pause 100 running jobs by their ids", API_BOUND, lambda _: self.control("pause", ids=jobs[100:200]))
        self.time("resume what a filter finds, at most 100", API_BOUND, lambda _: self.control("resume", where={"state": "running", "host": "127.0.0.1"}, limit=100))
        self.time("cancel a running job", API_BOUND, lambda turn: self.control("cancel", ids=[jobs[-1 - turn]]))

    def by_url(self):
        rounds, queue = self.options.rounds, f"queues/{QUEUE}"
        start = self.time("start a program (haul --version)", None, lambda _: subprocess.run([self.bench.haul, "--version"], stdout=subprocess.DEVNULL, check=True))
        for parity, kind in enumerate(NAMED):
            for what, first in [("claimed", self.options.running // 2), ("waiting", self.options.queued // 2)]:
                def url(turn, more=0):
                    return self.url(first // 2 * 2 + 2 * (turn + more) + parity, what)
                def shown(turn):
                    found = self.bench.ask(f"{queue}/jobs?{urllib.parse.urlencode({'url': url(turn)})}")["jobs"]
                    assert len(found) == 1, found
                def asked(action, turn):
                    found = self.control(action, where={"url": url(turn)})
                    assert found["requested"] == 1, found
                state = "a claimed job" if what == "claimed" else "a waiting job"
                self.time(f"API: show {state} {kind}", URL_BOUND, shown)
                self.time(f"API: pause {state} {kind}", URL_BOUND, lambda turn: asked("pause", turn))
                self.time(f"API: cancel {state} {kind}", URL_BOUND, lambda turn: asked("cancel", turn))
                self.time(f"haul show, {state} {kind}", URL_BOUND + start, lambda turn: self.command("show", url(turn, rounds)))
                self.time(f"haul pause, {state} {kind}", URL_BOUND + start, lambda turn: self.command("pause", url(turn, rounds)))
                self.time(f"haul cancel, {state} {kind}", URL_BOUND + start, lambda turn: self.command("cancel", url(turn, rounds)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("--running", type=int, default=1000)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    bench = Bench(options.haul)
    try:
        needed = 2 * LARGE * options.running
        if shutil.disk_usage(bench.root).free < needed:
            sys.exit(f"actions.py: {needed / 1e9:.0f} GB must be free in {bench.directory.parent}")
        actions = Actions(bench, options)
        actions.begin()
        print(f"{options.running} running, {options.queued} waiting, {options.rounds} rounds")
        print(f"{'ms':52} {'median':>8} {'most':>8} {'Redis':>8}")
        actions.by_url()
        actions.through_the_api()
    finally:
        bench.close()
    for text in actions.late:
        print(f"too slow: {text}")
    return 1 if actions.late else 0


if __name__ == "__main__":
    sys.exit(main())
