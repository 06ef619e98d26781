"""No-op jobs through other queues on Redis, and requests that get 204 from nginx through Haul, one after the other on the
same server.

  peers.py HAUL DIRECTORY VENVS URL [--jobs N] [--slots 1,10,50] [--only NAME,…] [--json FILE]

Started by run.sh, which makes a venv for each peer in VENVS. All jobs are pushed before the worker starts. The
figures are of the last nine tenths of them, or of 20 seconds: jobs a second, the CPU time of redis-server for each, and the part of it in
scripts or functions, if the queue uses any. Then jobs are pushed one at a time to the idle worker: `idle` is the median
time from before the push to the end. Haul's jobs end with a reply on a list, which is part of both.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "chaos")]
import results
from bus import key, until
from processes import Process, RedisServer, Worker
from resp import Redis
from stores import Directory

# The workers' commands. RQ has a process for each job that runs, all others have one process.
WORKERS = {
    "sidekiq": ["sidekiq", "-r", "./sidekiq.rb", "-c", "{slots}"],
    "bullmq": ["python", "peer.py", "work"],
    "celery": ["celery", "-A", "peer", "worker", "--pool", "threads", "--concurrency", "{slots}", "--without-gossip",
               "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"],
    "dramatiq": ["dramatiq", "peer", "--processes", "1", "--threads", "{slots}"],
    "rq": ["rq", "worker-pool", "-n", "{slots}", "-w", "rq.worker.SimpleWorker", "--url", "unix://{socket}", "--quiet"],
    "arq": ["arq", "peer.WorkerSettings"],
    "saq": ["saq", "peer.settings"],
    "huey": ["huey_consumer", "peer.queue", "-w", "{slots}", "-k", "thread", "-q"],
}
IDLE_JOBS = 50
# A queue that is slower is measured for so long.
MAX_SECONDS = 20


class Peer:
    def __init__(self, name, directory, venvs, server, slots):
        self.folder = os.path.join(directory, name)
        os.makedirs(self.folder, exist_ok=True)
        self.environment = os.environ | {"SOCKET": server.socket, "PYTHONPATH": self.folder, "SLOTS": str(slots)}
        if name == "sidekiq":
            shutil.copy(os.path.join(HERE, "sidekiq.rb"), self.folder)
            self.program, programs = ["ruby", "sidekiq.rb"], ""
        else:
            shutil.copy(os.path.join(HERE, name + ".py"), os.path.join(self.folder, "peer.py"))
            shutil.copy(os.path.join(HERE, "measure.py"), self.folder)
            programs = os.path.join(os.path.abspath(venvs), name, "bin", "")
            self.program = [programs + "python", "peer.py"]
        command = [word.format(socket=server.socket, slots=slots) for word in WORKERS[name]]
        self.worker = Process(
            [programs + command[0], *command[1:]], os.path.join(self.folder, "log"), env=self.environment, cwd=self.folder,
            start_new_session=True)

    def push(self, _redis, count):
        self.run("push", count)

    def run(self, mode, count):
        done = subprocess.run(
            [*self.program, mode, str(count)], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout

    def ended(self, redis):
        return redis.call("LLEN", "ended")

    def idle(self, redis):
        redis.call("DEL", "ended")
        return float(self.run("idle", IDLE_JOBS).split()[-1])

    def end(self):
        # This also ends the processes that the worker has started.
        os.killpg(self.worker.child.pid, signal.SIGKILL)
        self.worker.end()


class Haul:
    """Requests with a reply. With `limits` the fleet shares limits that it does not reach."""

    def __init__(self, program, directory, server, url, slots, limits):
        self.url, self.limits = url, limits
        self.worker = Worker(program, None, directory, "haul", server.url, Directory(os.path.join(directory, "root")), 1, slots, 8)
        self.worker.command += ["--connections-per-host", str(slots)]

    def element(self, id):
        return f'{{"kind":"request","url":"{self.url}","id":"{id}","reply_to":"ends"}}'

    def push(self, redis, count):
        if self.limits:
            redis.call("HSET", key("settings"), "max_running", 10_000, "host_connections", 10_000)
        for start in range(0, count, 500):
            redis.call("LPUSH", key("jobs"), *(self.element(f"n{n}") for n in range(start, min(count, start + 500))))

    def ended(self, redis):
        return redis.call("ZCARD", key("completed"))

    def idle(self, redis):
        seconds = []
        redis.call("DEL", key("reply:ends"))
        for number in range(IDLE_JOBS):
            time.sleep(0.05)  # The worker is idle again.
            began = time.perf_counter()
            redis.call("LPUSH", key("jobs"), self.element(f"idle{number}"))
            if redis.call("BRPOP", key("reply:ends"), 20) is None:
                raise TimeoutError("a job did not end")
            seconds.append(time.perf_counter() - began)
        return statistics.median(seconds) * 1000

    def end(self):
        self.worker.end()
        os.unlink(self.worker.log)


def measure(queue, redis, server, jobs):
    queue.push(redis, jobs)
    queue.worker.start()
    try:
        until(lambda: queue.ended(redis) >= jobs // 10, 0.002, 120)
        redis.call("CONFIG", "RESETSTAT")
        first, began, busy = queue.ended(redis), time.monotonic(), server.cpu
        until(lambda: queue.ended(redis) >= jobs or time.monotonic() - began > MAX_SECONDS, 0.01, 300)
        measured = queue.ended(redis) - first
        seconds, busy, scripts = time.monotonic() - began, server.cpu - busy, scripted(redis)
        until(lambda: queue.ended(redis) >= jobs, 0.1, 600)
        return {"rate": measured / seconds, "redis_us": busy / measured * 1e6, "scripts_us": scripts / measured, "idle_ms": queue.idle(redis)}
    finally:
        queue.end()
        redis.call("FLUSHALL")


def scripted(redis):
    """The microseconds in scripts and functions since the last RESETSTAT."""
    return sum(
        int(line.split("usec=")[1].split(",")[0]) for line in redis.call("INFO", "commandstats").splitlines()
        if line.startswith(("cmdstat_fcall:", "cmdstat_eval:", "cmdstat_evalsha:")))


def keep_rows(figures, slots):
    """The rows of docs/evaluate/performance.md."""
    def row(name, about, unit, of, goal=None, more_is_better=False):
        values = {figure["queue"]: [figure[of]] for figure in figures}
        own = values.pop("haul", None)
        values.pop("haul with limits", None)
        if own:
            results.keep(name, about, unit, own, values, goal, more_is_better)

    row(f"jobs-{slots}", f"jobs a second, {slots} at once: no-ops, and requests by Haul", "", "rate", more_is_better=True)
    row(f"jobs-{slots}-redis", "CPU time of Redis for each of them", "µs", "redis_us", goal=50)
    for figure in figures:
        if figure["queue"] == "haul with limits":
            results.keep(f"jobs-{slots}-limits", "the same with limits of the fleet", "µs", [figure["redis_us"]], goal=60)
    if slots == 1:
        row("jobs-idle", "from a push to the end of its job, on an idle worker", "ms", "idle_ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("directory")
    parser.add_argument("venvs")
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--slots", default="1,10,50")
    parser.add_argument("--only", default="haul,haul with limits," + ",".join(WORKERS))
    parser.add_argument("--json")
    options = parser.parse_args()
    server = RedisServer(options.directory, "redis")
    server.start()
    redis, figures = Redis(server.socket, 30), []
    try:
        for slots in map(int, options.slots.split(",")):
            for name in options.only.split(","):
                if name.startswith("haul"):
                    queue = Haul(options.haul, options.directory, server, options.url, slots, name != "haul")
                else:
                    queue = Peer(name, options.directory, options.venvs, server, slots)
                figure = measure(queue, redis, server, options.jobs)
                figures.append({"queue": name, "slots": slots, "load": os.getloadavg()[0], **figure})
                scripts = f", {figure['scripts_us']:.0f} of them in scripts" if figure["scripts_us"] >= 1 else ""
                print(f"peers: {name}, {slots} at once: {figure['rate']:.0f} jobs a second, {figure['redis_us']:.0f} µs of Redis' CPU each"
                      f"{scripts}; idle {figure['idle_ms']:.2f} ms", flush=True)
                if options.json:
                    with open(options.json, "w") as file:
                        json.dump({"jobs": options.jobs, "figures": figures}, file, indent=1)
            keep_rows([figure for figure in figures if figure["slots"] == slots], slots)
    finally:
        server.end()


if __name__ == "__main__":
    main()
