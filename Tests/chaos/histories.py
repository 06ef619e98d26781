"""Real workers run jobs with random histories of pushes and control operations. Then an oracle that knows only the contract
checks them.

Exit status: 0 if every job ended as docs/reference/ordering.md allows; 1 otherwise. histories.sh starts this script.
"""
import argparse
import os
import queue
import random
import signal
import threading
import time
from collections import Counter

import mutations
import origin as origin_module
from bench import carry_out
from bulk import bulk_cancel, crossing, limited, unserved_store, until
from history import History, Q
from processes import Origin, RedisServer, Worker
from resp import Redis, RedisError
from stores import Directory


class Bench:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.root = os.path.join(directory, "root")
        blob = os.path.join(directory, "blob")
        origin_module.make_blob(blob, options.seed)
        self.server, self.origin = RedisServer(directory, "redis"), Origin(directory, blob)
        self.workers = [self.worker(f"w{n + 1}", self.root) for n in range(3)]
        self.random, self.ending = random.Random(options.seed), threading.Event()
        # When workers were killed, in seconds of the monotonic clock.
        self.kills = []

    def worker(self, name, root):
        worker = Worker(self.options.haul, None, self.directory, name, self.server.url, Directory(root), 1, 400, self.options.lease)
        worker.command += ["--connections-per-host", "2000", "--connections", "1"]
        return worker

    def start(self):
        self.server.start()
        self.origin.start()
        for worker in self.workers:
            worker.start()
        redis = Redis(self.server.socket)
        assert until(lambda: redis.call("ZCARD", Q + "workers") == len(self.workers), 30), "no workers"
        mutations.check(redis)
        if self.options.without:
            mutations.mutate(redis, self.options.without)

    def kill(self):
        """Kills a worker at random times, and restarts it under its name."""
        while not self.ending.wait(self.random.expovariate(1 / self.options.kills)):
            worker = self.random.choice(self.workers)
            worker.end(signal.SIGKILL)
            self.kills.append(time.monotonic())
            time.sleep(self.random.uniform(0, 1))
            worker.start()

    def stop(self):
        self.ending.set()
        for process in [*self.workers, self.origin, self.server]:
            if process.is_up:
                process.end(signal.SIGKILL)

    def go(self):
        self.start()
        began, wrong, kinds = time.monotonic(), [], Counter()
        for name, test in (("a bulk cancel", bulk_cancel), ("a store that no worker serves", unserved_store), ("a crossing", crossing),
                           ("max_running", limited)):
            wrong += [f"{name}: {problem}" for problem in test(self)]
        killer = threading.Thread(target=self.kill, daemon=True)
        if self.options.kills:
            killer.start()
        numbers, lock = queue.SimpleQueue(), threading.Lock()
        for number in range(self.options.histories):
            numbers.put(number)

        def work():
            while True:
                try:
                    history = History(self, numbers.get_nowait(), self.options.seed)
                except queue.Empty:
                    return
                try:
                    problem = history.go()
                except (ConnectionError, RedisError) as error:
                    problem = f"its history could not be run: {error}"
                with lock:
                    kinds.update(act.kind for act in history.acts)
                    if problem:
                        wrong.append(f"{history.id}: {problem}\n{history.description()}")
                history.redis.call("HSET", Q + "want", history.id, "removed")
                history.redis.close()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(self.options.together)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.ending.set()
        print(f"histories: {self.options.histories} jobs, {sum(kinds.values())} acts ({dict(kinds)}), {len(self.kills)} kills, "
              f"{time.monotonic() - began:.0f} s: {len(wrong)} wrong", flush=True)
        for each in wrong[:20]:
            print("  " + each, flush=True)
        return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul", help="the program under test")
    parser.add_argument("--histories", type=int, default=400)
    parser.add_argument("--together", type=int, default=40, help="at the same time")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--bulk", type=int, default=1000, help="ids of a bulk cancel, and files of a store that no worker serves")
    parser.add_argument("--lease", type=float, default=8)
    parser.add_argument("--kills", nargs="?", type=float, const=4, metavar="SECONDS", help="kill a worker about every SECONDS seconds")
    parser.add_argument("--patience", type=float, default=40, help="seconds that a job may take to come to rest")
    parser.add_argument("--without", choices=sorted(mutations.MUTATIONS), help="a rule to remove from the functions: the oracle must notice")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    print(f"histories: --histories {options.histories} --seed {options.seed}", flush=True)
    carry_out(Bench, options, "haul-histories-")


if __name__ == "__main__":
    main()
