"""A chaos run. Producers push, and workers download, send requests and upload files. All processes are killed, frozen,
cut off and restarted at random. Then the ledger checks the results.

Exit status: 0 if nothing was lost, nothing is wrong and no rule was broken; 1 otherwise. run.sh starts this script.
"""
import argparse
import itertools
import json
import mmap
import os
import random
import signal
import subprocess
import threading
import time
import traceback
from collections import Counter

import origin as origin_module
from batches import Batches
from bench import carry_out
from control import control
from faults import Faults
from gates import Gates
from groups import Groups
from kinds import KINDS, Kinds
from ledger import Job, Ledger, Q
from mutations import BROKEN, OF_BATCHES, mutate
from partitions import QUEUE, Partitions, partition_of
from processes import Origin, Worker
from report import report
from resp import Redis, RedisError
from rivals import Rivals
from schedules import Schedules
from sources import Sources
from steps import Steps
from stores import Bucket, Directory
from stream import Stream
from topology import Sentinels, Single
from webhooks import Webhooks

# The names of these in Tests/Support/object-server.sh.
SERVERS = {"radosgw": "rgw", "seaweedfs": "weed", "ministack": "mini"}


class Run:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        blob = os.path.join(directory, "blob")
        origin_module.make_blob(blob, options.seed)
        with open(blob, "rb") as file:
            self.blob = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if options.store == "s3":
            self.store = Bucket(directory, self.blob, SERVERS[options.server], options.seed)
        else:
            self.store = Directory(os.path.join(directory, "root"), self.blob)
        if options.topology == "sentinel":
            self.topology = Sentinels(directory, options.replicas, options.seed)
        else:
            self.topology = Single(directory, options.lease, options.seed)
        self.origin = Origin(directory, blob)
        self.retired, self.died, self.made, self.broken = [], Counter(), 0, []
        self.equip(options, directory)
        self.workers = [self.worker(f"w{n + 1}") for n in range(options.workers)]
        self.kinds = Kinds(options, self.store, self.blob, random.Random(options.seed + 3))
        self.batches = Batches(self.topology, options.batches / 100, random.Random(options.seed + 4))
        self.rivals = Rivals(self.store, self.blob, options.rivals / 100 if "download" in options.kinds else 0)
        self.steps = Steps(options.steps / 100, self.origin, random.Random(options.seed + 5))
        self.groups = Groups(options.groups / 100, random.Random(options.seed + 6))
        self.ledger = Ledger(self.topology, self.store, options.lease, self.kinds, self.batches, self.rivals, self.steps, self.groups,
                             [*self.equipment, self.schedules, self.stream])
        self.faults = Faults(self)
        self.random = random.Random(options.seed)
        self.producing, self.ending = threading.Event(), threading.Event()
        self.producing.set()

    def equip(self, options, directory):
        """What the workers need besides a Redis and a store. Each part has options for them, and rules of its own. A
        part may be broken on purpose."""

        def some(name):
            return lambda number: options.without == name and number % 3 == 0

        pick = [random.Random(options.seed + n) for n in range(10, 14)]
        self.webhooks = Webhooks(options.webhooks / 100, directory, self.origin, pick[0], some("secret"))
        self.gates = Gates(options.gates / 100, directory, self.store, self.blob, pick[1], some("gate"),
                           lambda number: options.without == "group")
        self.sources = Sources(options.sources / 100, directory, self.origin, pick[2], some("credentials"))
        self.partitions = Partitions(options.partitions / 100, self.origin, self.store, self.blob, pick[3],
                                     (lambda id: partition_of(id + "x")) if options.without == "partition" else partition_of)
        self.schedules = Schedules(self.topology, self.origin,
                                   ("none", "one") if options.without == "catch_up" else ("one", "none"))
        self.stream = Stream()
        self.equipment = [self.webhooks, self.gates, self.sources, self.partitions]
        self.prefixes = [Q, *self.partitions.PREFIXES]

    def worker(self, name):
        self.made += 1
        return Worker(self.options.haul, self.options.shim, self.directory, name, self.topology.url, self.store,
                      self.made, self.options.slots, self.options.lease, self.equipment)

    # The load. Each of these functions is a thread.

    def produce(self):
        redis, pick, number = Redis(self.topology.locate), random.Random(self.options.seed + 1), 0
        recent = []
        while self.producing.is_set():
            try:
                if redis.call("LLEN", Q + "jobs") + redis.call("ZCARD", Q + "leases") + self.groups.waiting(redis) > self.options.load:
                    time.sleep(0.05)
                    continue
            except (ConnectionError, RedisError):
                time.sleep(0.05)
                continue
            for key, element in self.partitions.elements():
                self.durably(redis, "LPUSH", key, element)
            number += 1
            job = self.new_job(pick, number)
            self.ledger.add(job)
            self.push(redis, job)
            recent = recent[-50:] + [job]
            for job in pick.sample(recent, min(len(recent), pick.choice([0, 0, 0, 1, 2]))):
                # A producer may repeat its push, also much later.
                if not job.pushed_again:
                    self.batches.repeats(job)
                    self.push(redis, job)
            bad = self.batches.invalid(pick, f"r{number // 250}")
            if bad:
                self.send(redis, bad)

    def new_job(self, pick, number):
        made = self.rivals.make(pick, f"job-{number}")
        if not made:
            job = Job(self.gates.name(f"job-{number}"), f"d{number % 16}/job-{number}.bin", 0, 0, None, None, self.kinds.choose(pick))
            made = job, self.kinds.make(pick, job)
        job, members = made
        spec = members | {
            "url": self.origin.url + job.source, "id": job.id, "at": round(time.time() * 1000),
            "reply_to": f"r{number // 250}", "meta": {"id": job.id, "list": []}, "retries": 200}
        if pick.random() < 0.1:
            spec["delay"] = pick.randrange(1, 5)
        if pick.random() < 0.1:
            # Far beyond the end of the run, but within the range of a worker's shifted clock.
            spec["deadline"] = 7200
        if not job.pair:
            self.sources.give(job, spec)
            self.gates.give(job, spec)
            self.batches.join(pick, job, spec)
            self.steps.give(job, spec, self.ledger)
        self.groups.give(spec)
        self.webhooks.give(job, spec)
        job.element = json.dumps(spec)
        return job

    def push(self, redis, job):
        self.send(redis, job.element)
        job.accepted = True

    def send(self, redis, element):
        """Pushes an element. Its field `at` makes repeats harmless."""
        return self.durably(redis, "LPUSH", Q + "jobs", element)

    def durably(self, redis, *words):
        """Repeats a command until Redis acknowledges it."""
        while True:
            try:
                return self.topology.call_durably(redis, *words)
            except (ConnectionError, RedisError):
                time.sleep(0.05)

    def watch(self):
        redis = Redis(self.topology.locate, 2)
        while not self.ending.is_set():
            try:
                redis.call("PSUBSCRIBE", Q + "events:*")
                while not self.ending.is_set():
                    message = redis.read()
                    if message and message[0] == "pmessage":
                        self.ledger.receive(json.loads(message[3]))
            except (OSError, RedisError):
                redis.close()
                time.sleep(0.05)

    def inspect(self):
        redis, since = Redis(self.topology.locate), 0
        while not self.ending.is_set():
            time.sleep(0.1)
            try:
                for id in redis.call("ZRANGE", Q + "leases", 0, -1)[:20]:
                    self.ledger.sample_offsets(redis, id)
                self.store.check(self.ledger.jobs)
                self.rivals.check(redis)
                self.groups.check(redis)
                self.gates.check()
                now = time.time() * 1000
                for id in redis.call("ZRANGEBYSCORE", Q + "completed", since - 5000, "+inf"):
                    job = self.ledger.jobs.get(id)
                    if not job or job.verified:
                        continue
                    if self.topology.call_durably(redis, "HGET", Q + "job:" + id, "state") == "completed":
                        self.ledger.verify(job)
                since = now
            except (ConnectionError, RedisError):
                pass

    def keep(self):
        """Restarts workers that ended by themselves, as a service manager does."""
        for worker in list(self.workers):
            if not worker.busy and not worker.is_up:
                self.died[worker.child.returncode] += 1
                worker.start()

    def guard(self, body):
        """Runs the body of a thread. Without it the run would find nothing wrong, so its end by an error counts."""
        try:
            body()
        except BaseException:
            self.broken.append(traceback.format_exc())
            raise

    # The run.

    def go(self):
        self.topology.start()
        self.origin.start()
        self.store.start()
        self.kinds.start()
        self.sources.start()
        self.redis = Redis(self.topology.locate)
        self.durably(self.redis, *self.groups.limits)
        self.durably(self.redis, *self.webhooks.default)
        self.durably(self.redis, *self.stream.setting)
        self.schedules.start(self.redis, self.durably)
        for worker in self.workers:
            worker.start()
        if self.options.without == "secrecy":
            self.durably(self.redis, "SET", "leak", self.sources.secrets[0], "EX", 600)
        if self.options.without in OF_BATCHES:
            while self.redis.call("ZCARD", Q + "workers") < len(self.workers):
                time.sleep(0.05)
            mutate(self.redis, self.options.without)
        threads = [threading.Thread(target=self.guard, args=(body,), daemon=True)
                   for body in (self.produce, lambda: control(self), self.watch, self.inspect,
                                lambda: self.batches.steer(self.producing), lambda: self.schedules.steer(self.producing))]
        for thread in threads:
            thread.start()
        began = printed = time.monotonic()
        while self.faults.injected.total() < self.options.faults and time.monotonic() - began < self.options.limit:
            time.sleep(self.random.expovariate(1 / self.options.pace))
            self.faults.inject()
            self.keep()
            if time.monotonic() - printed > 30:
                printed = time.monotonic()
                print(f"… {self.faults.injected.total()} faults, {len(self.ledger.jobs)} jobs, "
                      f"{len(self.ledger.wrong)} wrong", flush=True)
        self.seconds = time.monotonic() - began
        self.producing.clear()
        self.faults.settle()
        for thread in (threads[0], *threads[-2:]):
            thread.join()
        self.schedules.stop(self.redis, self.durably)
        self.drained = self.drain()
        self.ending.set()
        for thread in threads:
            thread.join(10)
        check = self.check()
        for worker in self.workers:
            self.faults.overdue += worker.end(signal.SIGTERM, 20)
        return report(self, check)

    def drain(self):
        """Continues everything that is paused or postponed, until nothing is left. Returns the seconds that this took,
        or None."""
        redis, began = Redis(self.topology.locate), time.monotonic()
        self.ledger.drained_from = time.time() * 1000
        while time.monotonic() - began < 180:
            self.keep()
            try:
                self.batches.let_go(redis)
                for prefix, index in itertools.product(self.prefixes, ("paused", "scheduled")):
                    for id in redis.call("ZRANGE", prefix + index, 0, -1):
                        if id in self.ledger.jobs:
                            self.ledger.jobs[id].continuations += 1
                        redis.call("HSET", prefix + "want", id, "running")
                self.remaining = self.left(redis)
                if not any(self.remaining.values()) and self.batches.conclude(redis, self.send):
                    return time.monotonic() - began
            except (ConnectionError, RedisError):
                pass
            time.sleep(0.3)
        return None

    def left(self, redis):
        """What is neither final nor forgotten, by the key that holds it."""
        left = {}
        for prefix in self.prefixes:
            left[prefix + "jobs"] = redis.call("LRANGE", prefix + "jobs", 0, -1)
            left[prefix + "want"] = redis.call("HGETALL", prefix + "want")
            for index in ("leases", "paused", "scheduled"):
                left[prefix + index] = redis.call("ZRANGE", prefix + index, 0, -1)
        for pattern in ("held:*", "deferred_group:*"):
            for key in redis.call("KEYS", "haul:*:" + pattern):
                left[key] = redis.call("LRANGE", key, 0, -1)
        return left

    def check(self):
        """Runs `haul check`. Returns its complaints, or None if this build has no such command."""
        haul, where = self.options.haul, ["--redis", self.topology.url]
        if "\n  check " not in subprocess.run([haul, "--help"], capture_output=True, text=True).stdout:
            return None
        complaints = []
        for queue in ("default", QUEUE):
            result = subprocess.run([haul, "check", "--queue", queue, *where], capture_output=True, text=True, timeout=60)
            if result.returncode != 0:
                complaints.append(result.stdout.strip() + result.stderr.strip())
        return complaints

    def stop(self):
        self.producing.clear()
        self.ending.set()
        for process in [*self.workers, *self.retired, *self.topology.processes, *self.store.processes, self.origin]:
            if process.is_up:
                process.end(signal.SIGKILL)
        self.gates.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul", help="the program under test")
    parser.add_argument("shim", help="clock.c, compiled")
    parser.add_argument("--topology", choices=["single", "sentinel"], default="single")
    parser.add_argument("--store", choices=["directory", "s3"], default="directory")
    parser.add_argument("--server", choices=list(SERVERS), default="radosgw", help="of --store s3")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS), help="of jobs: all by default")
    parser.add_argument("--replicas", type=int, default=1, help="of the primary that sentinels monitor")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--load", type=int, help="jobs waiting or running at any time: 30, with --store s3 16")
    parser.add_argument("--large", type=float, default=2, help="percent of the jobs that are 100 to 256 MiB")
    parser.add_argument("--small", type=float, default=0, help="percent of the jobs that are at most 64 KiB, unpaced")
    parser.add_argument("--rivals", type=float, default=5, help="percent of the pushes that begin a pair of jobs for one name")
    parser.add_argument("--steps", type=float, default=15, help="percent of the jobs that are followed by a request")
    parser.add_argument("--groups", type=float, default=40, help="percent of the jobs that are in one of three groups")
    parser.add_argument("--batches", type=float, default=20, help="percent of the jobs that belong to batches")
    parser.add_argument("--webhooks", type=float, default=30, help="percent of the jobs whose ends have a webhook")
    parser.add_argument("--gates", type=float, default=6, help="percent of the downloads that the gate does not accept at once")
    parser.add_argument("--sources", type=float, default=20, help="percent of the downloads that are objects of a private bucket")
    parser.add_argument("--partitions", type=float, default=20, help="percent of the pushes with another one to a queue of partitions")
    parser.add_argument("--slots", type=int, default=8, help="of each worker")
    parser.add_argument("--lease", type=float, default=8)
    parser.add_argument("--pace", type=float, default=0.6, help="mean seconds between faults")
    parser.add_argument("--limit", type=float, default=3600, help="most seconds of faults")
    parser.add_argument("--without", choices=sorted(OF_BATCHES | BROKEN),
                        help="a rule of the functions, or an option of some workers, to take away: the ledger must notice")
    parser.add_argument("--keep", action="store_true", help="keep the directory: logs, AOF, files")
    options = parser.parse_args()
    if not options.kinds or not set(options.kinds) <= set(KINDS):
        parser.error(f"--kinds: some of {','.join(KINDS)}")
    options.load = options.load or (16 if options.store == "s3" else 30)
    store = f"--store s3 --server {options.server} " if options.store == "s3" else ""
    print(f"chaos: {store}--topology {options.topology} --faults {options.faults} --seed {options.seed}", flush=True)
    carry_out(Run, options, "haul-chaos-")


if __name__ == "__main__":
    main()
