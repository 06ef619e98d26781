"""The figures of the bus: recovery, control, pickup, lateness, the use of max_running, a producer's delay beside 10,000 runs,
commands, memory; and, if it is named, `cancel`: the cancel of 104,000 jobs.

    bus.py HAUL DIRECTORY NGINX_URL [PART…]       started by run.sh; NGINX_URL has /crawl/crawl.bin, at 1 KB/s, and /k of 1 KiB
"""
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
import origin as origin_module
import results
from processes import Origin, RedisServer, Worker
from resp import Redis
from stores import Directory


def key(name, queue="default"):
    return f"haul:{{{queue}}}:{name}"


def percentile(samples, share):
    samples = sorted(samples)
    return samples[min(len(samples) - 1, int(share * len(samples)))]


def spread(samples, unit=1000):
    """The percentiles in ms."""
    at = lambda share: percentile(samples, share) * unit
    return f"{len(samples)} samples, p50 {at(0.5):.2f}, p99 {at(0.99):.2f}, most {at(1):.2f}"


class Bench:
    def __init__(self, haul, directory, nginx):
        self.haul, self.directory, self.nginx = haul, directory, nginx
        self.root = Directory(os.path.join(directory, "bus-root"))
        blob = os.path.join(directory, "blob")
        origin_module.make_blob(blob, 1)
        # The figures are for a Redis as operators run it: appendfsync everysec.
        self.server, self.origin = RedisServer(directory, "redis"), Origin(directory, blob)
        self.server.start()
        self.origin.start()
        self.redis, self.workers = Redis(self.server.socket, 30), []

    def worker(self, name, slots, *options, lease=8):
        worker = Worker(self.haul, None, self.directory, name, self.server.url, self.root, 1, slots, lease)
        worker.command += options
        worker.start()
        self.workers.append(worker)
        until(lambda: worker.has_logged("working"))
        return worker

    def push(self, id, size, rate=0, queue="default", url=None):
        url = url or f"{self.origin.url}/f/{random.randrange(1 << 20)}/{size}/{rate}"
        self.redis.call("LPUSH", key("jobs", queue), f'{{"url":"{url}","id":"{id}","path":"{id}"}}')

    def state(self, id, queue="default"):
        return self.redis.call("HGET", key("job:" + id, queue), "state")

    def clear(self):
        for worker in self.workers:
            worker.end(signal.SIGKILL)
        self.workers.clear()
        self.redis.call("FLUSHALL")

    def stop(self):
        for process in [*self.workers, self.server, self.origin]:
            if process.is_up:
                process.end(signal.SIGKILL)

    # The figures.

    def recovery(self, kills=14):
        """From kill -9 until the job runs again on the same machine, with a lease of 8 s."""
        fleet = [self.worker(f"r{n}", 20) for n in range(5)]
        for n in range(30):
            self.push(f"r{n}", 50_000_000, 100_000)
        until(lambda: self.redis.call("ZCARD", key("leases")) == 30)
        samples, lost = [], {}
        began, killed = time.monotonic(), 0
        while killed < kills or lost:
            if killed < kills and time.monotonic() - began > killed * 2.3:
                killed += 1
                victim = fleet.pop(0)
                for n in range(30):
                    worker, token = self.redis.call("HMGET", key(f"job:r{n}"), "worker", "token")
                    if worker == victim.name:
                        lost[n] = (time.monotonic(), token)
                victim.end(signal.SIGKILL)
                self.workers.remove(victim)
                fleet.append(self.worker(f"r{killed + 4}", 20))
            for n, (since, token) in list(lost.items()):
                now = self.redis.call("HGET", key(f"job:r{n}"), "token")
                if now and now != token:
                    samples.append(time.monotonic() - since)
                    del lost[n]
            time.sleep(0.01)
        print(f"recovery: kill -9 → runs again, {kills} kills, lease 8 s: {spread(samples, 1)} s (p99 to reach: 3)")

    def control(self):
        self.worker("c", 100)
        for n in range(60):
            self.push(f"c{n}", 50_000_000, 50_000)
        until(lambda: self.redis.call("ZCARD", key("leases")) == 60)
        for how, ids, goal in ("with pub/sub", range(40), 200), ("without", range(40, 60), 3000):
            samples = []
            for n in ids:
                time.sleep(random.uniform(0, 0.3))
                began = time.monotonic()
                self.redis.call("HSET", key("want"), f"c{n}", "paused")
                if how == "with pub/sub":
                    self.redis.call("PUBLISH", key("control"), f"c{n}")
                until(lambda: self.state(f"c{n}") == "paused", 0.001)
                samples.append(time.monotonic() - began)
            print(f"control: pause → paused, {how}: {spread(samples)} ms (to reach: {goal})")

    def pickup(self):
        queues = ["first", "second", "third"]
        self.worker("p", 8, *(word for queue in queues for word in ("--queue", queue)))
        time.sleep(0.5)
        for queue in queues:
            samples = []
            for n in range(200):
                time.sleep(random.uniform(0.005, 0.02))
                began = time.monotonic()
                self.push(f"{queue}-{n}", 1024, queue=queue)
                until(lambda: self.state(f"{queue}-{n}", queue), 0)
                samples.append(time.monotonic() - began)
                until(lambda: self.state(f"{queue}-{n}", queue) == "completed", 0.001)
            print(f"idle pickup, push → claimed, the {queue} of three queues: {spread(samples)} ms (to reach: p50 1, p99 5)")

    def late(self, jobs=300, running=1000):
        """How late delayed jobs begin, by Redis' clock, alone and beside running jobs of the same fleet."""
        for beside in (0, running):
            late = []
            self.worker("late", 64)
            if beside:
                self.worker("busy", beside, "--connections", "1", "--connections-per-host", "10000")
                for n in range(beside):
                    self.push(f"b{n}", 200_000, url=f"{self.nginx}/crawl/crawl.bin?{n}")
                until(lambda: self.redis.call("ZCARD", key("leases")) >= beside)
            for least, most in ((0.1, 0.9), (1, 4)):
                name = f"l{beside}-{least}"
                for n in range(jobs):
                    delay = round(random.uniform(least, most), 3)
                    self.redis.call("LPUSH", key("jobs"), f'{{"url":"{self.nginx}/k","id":"{name}-{n}","path":"{name}-{n}","delay":{delay},"meta":{delay}}}')
                    time.sleep(random.uniform(0, 0.02))
                until(lambda: all(self.state(f"{name}-{n}") == "completed" for n in range(jobs)), 0.2)
                samples = []
                for n in range(jobs):
                    created, started, delay = self.redis.call("HMGET", key(f"job:{name}-{n}"), "created", "started", "meta")
                    samples.append(int(started) - int(created) - round(float(delay) * 1000))
                late.append(samples)
                print(f"late: delays of {least} to {most} s beside {beside} running jobs: {spread(samples, 1)} ms (p50 and p99 to reach: 5, 50)")
            self.clear()
        # The last ones are those beside running jobs.
        for name, share, goal in (("late-50", 0.5, 5), ("late-99", 0.99, 50)):
            results.keep(name, f"how late delayed jobs begin beside {running:,} running ones, p{name[-2:]}", "ms",
                         [percentile(sum(late, []), share)], goal=goal)

    def crowd(self, fleet=10, runs=1000):
        """The delay of a producer's LPUSH beside ten workers with 1,000 running jobs each."""
        def delays(seconds):
            producer, samples, until_ = Redis(self.server.socket, 30), [], time.monotonic() + seconds
            while time.monotonic() < until_:
                began = time.monotonic()
                producer.call("LPUSH", "elsewhere", "x" * 100)
                samples.append(time.monotonic() - began)
                time.sleep(0.003)
            return samples

        alone = delays(10)
        for n in range(fleet):
            self.worker(f"t{n}", runs)
        for n in range(0, fleet * runs, 500):
            self.redis.calls([("LPUSH", key("jobs"), f'{{"url":"{self.nginx}/crawl/crawl.bin?{m}","id":"t{m}","path":"t/{m}"}}')
                              for m in range(n, n + 500)])
        try:
            until(lambda: self.redis.call("ZCARD", key("leases")) == fleet * runs, 0.1, within=90)
        except TimeoutError:
            pass
        running = self.redis.call("ZCARD", key("leases"))
        time.sleep(5)
        for name, value in ("slowlog-log-slower-than", 100), ("slowlog-max-len", 100_000):
            self.redis.call("CONFIG", "SET", name, value)
        self.redis.call("SLOWLOG", "RESET")
        self.redis.call("CONFIG", "RESETSTAT")
        beside = delays(20)
        calls, spent = self.sent()
        took = [entry[2] / 1e6 for entry in self.redis.call("SLOWLOG", "GET", -1) if entry[3][0].upper() == "FCALL"]
        print(f"LPUSH beside {fleet} workers and {running} running jobs: {spread(beside)} ms "
              f"(most to reach: 20); alone: {spread(alone)} ms")
        print(f"calls of these workers: {calls / 20:.0f} a second, {spent / 200_000:.1f} % of Redis, each {spread(took)} ms "
              f"(to reach: 2)")

    def cancel(self, running=10_000, waiting=94_000, fleet=4):
        """What others notice while all jobs of a full queue are cancelled, and how long each call takes Redis."""
        renice(self.server.child.pid)
        for n in range(fleet):
            self.worker(f"t{n}", running // fleet)
        for n in range(0, running + waiting, 500):
            self.redis.calls([("LPUSH", key("jobs"), f'{{"url":"{self.nginx}/crawl/crawl.bin?{m}","id":"t{m}","path":"t/{m}"}}')
                              for m in range(n, min(n + 500, running + waiting))])
        until(lambda: self.redis.call("ZCARD", key("leases")) == running, 0.1, within=240)
        for name, value in ("slowlog-log-slower-than", 100), ("slowlog-max-len", 1_000_000):
            self.redis.call("CONFIG", "SET", name, value)
        self.redis.call("SLOWLOG", "RESET")
        self.redis.call("CONFIG", "RESETSTAT")
        pings, stats, ended = [], [], threading.Event()

        def ping():
            client = Redis(self.server.socket, 30)
            while not ended.wait(0.003):
                pings.append(timed(lambda: client.call("PING")))

        def ask():
            while not ended.wait(0.5) or not stats:
                stats.append(timed(lambda: self.run("stats")))
        watchers = [threading.Thread(target=ping), threading.Thread(target=ask)]
        for watcher in watchers:
            watcher.start()
        began = time.monotonic()
        self.run("cancel", "--all", "--yes")
        asked = time.monotonic() - began
        until(lambda: all(self.redis.call(*command) == 0 for command in (
            ("HLEN", key("want")), ("LLEN", key("jobs")), ("ZCARD", key("leases")))), 0.1, within=600)
        seconds = time.monotonic() - began
        ended.set()
        for watcher in watchers:
            watcher.join()
        calls, spent = self.sent()
        print(f"cancel --all of {running} running and {waiting} waiting jobs: the command {asked:.1f} s, all are cancelled after "
              f"{seconds:.1f} s; Redis spent {spent / 1e6:.1f} s in {calls} calls")
        took = {}
        for entry in self.redis.call("SLOWLOG", "GET", -1):
            name = entry[3][1].rpartition("_")[2] if entry[3][0].upper() == "FCALL" else entry[3][0].upper()
            took.setdefault(name, []).append(entry[2] / 1e6)
        for name, samples in sorted(took.items(), key=lambda pair: -sum(pair[1])):
            if max(samples) > 0.001:
                long = sum(sample > 0.002 for sample in samples)
                print(f"  {name}: {len(samples)} calls, {long} over 2 ms, each {spread(samples)} ms (to reach: 2)")
        print(f"PING meanwhile: {spread(pings)} ms (most to reach: 10); haul stats: {spread(stats, 1)} s")

    def run(self, *words):
        subprocess.run([self.haul, *words, "--redis", self.server.url], check=True, capture_output=True)

    def commands(self, jobs=10000):
        for n in range(jobs):
            self.push(f"m{n}", 1024, url=f"{self.nginx}/k?{n}")
        self.redis.call("CONFIG", "RESETSTAT")
        began = time.monotonic()
        self.worker("m", 16, "--durability", "process", "--connections-per-host", "16")
        until(lambda: self.redis.call("ZCARD", key("completed")) == jobs, 0.02)
        seconds = time.monotonic() - began
        calls, spent = self.sent()
        print(f"busy: {jobs} files of 1 KiB in {seconds:.2f} s, {calls / jobs:.3f} commands and {spent / jobs:.0f} µs of "
              f"Redis per job besides its LPUSH (to reach, with it: 2 and 60)")
        time.sleep(6)
        self.redis.call("CONFIG", "RESETSTAT")
        time.sleep(10)
        print(f"idle: {self.sent()[0] / 10:.2f} commands a second for one worker and queue (to reach: 1.5)")

    def places(self):
        """How many of the permits of max_running are used while jobs wait."""
        for what, limit, workers, jobs, size, rate in (
                ("1 s each", 10, 3, 120, 100_000, 100_000), ("1 KiB", 3, 1, 1500, 1024, 0), ("1 KiB", 3, 6, 1500, 1024, 0)):
            self.redis.call("HSET", key("settings"), "max_running", limit)
            for n in range(jobs):
                self.push(f"l{n}", size, rate)
            for n in range(workers):
                self.worker(f"l{n}", 2 * limit, "--connections-per-host", "32", "--durability", "process")
            until(lambda: self.redis.call("ZCARD", key("completed")) == jobs, 0.1, within=300)
            runs = [tuple(map(int, self.redis.call("HMGET", key(f"job:l{n}"), "started", "finished"))) for n in range(jobs)]
            # From the first start to the last. After the last start no job waits.
            first, last = min(run[0] for run in runs), max(run[0] for run in runs)
            used = sum(max(0, min(end, last) - start) for start, end in runs)
            print(f"max_running {limit}, {workers} workers, {jobs} jobs of {what}: {jobs * 1000 / (last - first):.1f} a second, "
                  f"{100 * used / limit / (last - first):.1f} % of the permits used (to reach: 95)")
            self.clear()

    def sent(self):
        """The workers' top-level commands since the last RESETSTAT, and their microseconds."""
        calls = spent = 0
        for line in self.redis.call("INFO", "commandstats").splitlines():
            if line.startswith(("cmdstat_fcall:", "cmdstat_blmove:", "cmdstat_ping:")):
                facts = dict(fact.split("=") for fact in line.split(":")[1].split(","))
                calls, spent = calls + int(facts["calls"]), spent + int(facts["usec"])
        return calls, spent

    def memory(self, jobs=100_000):
        used = lambda: int(dict(line.split(":") for line in self.redis.call("INFO", "memory").splitlines()
                                if ":" in line)["used_memory"])
        before = used()
        element = '{"url":"https://example.org/files/%06d.bin"}'
        for n in range(0, jobs, 1000):
            self.redis.calls([("LPUSH", key("jobs"), element % m) for m in range(n, n + 1000)])
        each = (used() - before) / jobs
        print(f"waiting: {each:.1f} bytes of Redis per job of {len(element % 0)} bytes, "
              f"{each - len(element % 0):.1f} beyond its payload (to reach: 100)")


def timed(act):
    began = time.monotonic()
    act()
    return time.monotonic() - began


def renice(pid):
    """Lets a server have the processor when it needs it, so that the times of its calls are its own."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, -20)
    except PermissionError:
        print("not permitted to raise the priority of Redis: its times include those of other programs")


def until(condition, interval=0.01, within=60):
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the condition did not come true")
        time.sleep(interval) if interval else None


if __name__ == "__main__":
    bench = Bench(*sys.argv[1:4])
    try:
        for part in sys.argv[4:] or ["memory", "commands", "permits", "pickup", "control", "recovery", "late", "crowd"]:
            getattr(bench, part)()
            bench.clear()
    finally:
        bench.stop()
