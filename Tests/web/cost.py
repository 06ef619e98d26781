"""What open pages cost Redis: the streams that they hold, on a queue of 300 and on one of 100,000 waiting jobs.

  Tests/web/run.sh HAUL --cost [--before HAUL] [--pages N] [--seconds N] [--turns N]

300 jobs run in each queue, and no worker does, so Redis does nothing else. `--pages` pages are open on each screen, one
screen after the other, and a row has the commands and the CPU time that Redis spends in a second. With `--before` the
turns alternate with another build, and the last column is the ratio of CPU times. A ratio over 1.2 that the number of
commands confirms is a failure.
"""

import argparse
import statistics
import sys
import threading
import time
import urllib.parse
import urllib.request

from bench import Bench

SIZES = {"few": 0, "many": 100_000}
RUNNING, FAILED = 300, 200
BOUND = 1.2
# What each screen watches, beside the list of all queues: `live.watch` in Sources/Web/Page.
SCREENS = {
    "overview": ["", "/hosts", "/workers", "/settings", "/history?minutes=60&step=1"],
    "running jobs": ["", "/facets?state=running", "/jobs?state=running&limit=100"],
    "queued jobs": ["", "/facets?state=queued", "/jobs?state=queued&limit=100"],
    "failed jobs": ["", "/facets?state=failed"],
    "one job": ["", "/settings", "/jobs/running-00007"],
}


class Build:
    def __init__(self, haul, queues):
        self.bench = Bench(haul)
        for queue, waiting in queues.items():
            self.bench.invent(queue, RUNNING)
            self.bench.invent(queue, FAILED, "failed")
            self.bench.redis("--pipe", text="".join(
                f'LPUSH haul:{{{queue}}}:jobs \'{{"url":"http://host{number % 7}.example/{number}.bin","id":"waits-{number}"}}\'\n' for number in range(waiting)))
        self.bench.serve_queues(list(queues))

    def read(self, queue, paths, end):
        watched = urllib.parse.urlencode([("watch", "queues")] + [("watch", f"queues/{queue}{path}") for path in paths])
        with urllib.request.urlopen(f"http://127.0.0.1:{self.bench.port}/api/live?{watched}", timeout=5) as stream:
            while not end.is_set():
                stream.read1(65_536)

    def facts(self):
        commands = next(line for line in self.bench.redis("INFO", "stats").splitlines() if line.startswith("total_commands_processed"))
        return self.bench.spent(), int(commands.split(":")[1])

    def measure(self, queue, screen, pages, seconds):
        """The CPU time in ms, and the commands, that Redis spends in a second."""
        end = threading.Event()
        readers = [threading.Thread(target=self.read, args=(queue, SCREENS[screen], end), daemon=True) for _ in range(pages)]
        for reader in readers:
            reader.start()
        # The first readings fill the caches of `haul web`.
        time.sleep(3)
        before, begun = self.facts(), time.monotonic()
        time.sleep(seconds)
        after, spent = self.facts(), time.monotonic() - begun
        end.set()
        for reader in readers:
            reader.join()
        return 1000 * (after[0] - before[0]) / spent, (after[1] - before[1]) / spent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("--before", help="another build, with which this one is compared")
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    builds = [Build(haul, SIZES) for haul in [options.haul, options.before] if haul]
    failures = []
    try:
        print(f"{options.pages} pages on each screen, {options.turns} turns of {options.seconds:.0f} s")
        print(f"{'':28} {'CPU ms/s':>9} {'commands/s':>11}" + (f" {'before':>9} {'commands/s':>11} {'ratio':>6}" if options.before else ""))
        for queue, waiting in SIZES.items():
            for screen in SCREENS:
                turns = [[build.measure(queue, screen, options.pages, options.seconds) for build in builds] for _ in range(options.turns)]
                found = [[statistics.median(value) for value in zip(*of_build)] for of_build in zip(*turns)]
                row = f"{screen}, {RUNNING + waiting:,} jobs".ljust(28) + "".join(f" {cpu:9.2f} {commands:11.0f}" for cpu, commands in found)
                if options.before:
                    ratio, of_commands = [now / max(then, 0.001) for now, then in zip(*found)]
                    row += f" {ratio:6.2f}"
                    if ratio > BOUND and of_commands > BOUND:
                        failures.append(f"{screen}, {queue}: {ratio:.2f} of the CPU time and {of_commands:.2f} of the commands")
                print(row, flush=True)
    finally:
        for build in builds:
            build.bench.close()
    for text in failures:
        print(f"costs more: {text}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
