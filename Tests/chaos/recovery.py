"""How soon a job runs again after its worker was killed on another machine, and whether stalls take jobs from live workers.
recovery.sh starts this script.

Each worker is in a PID namespace of its own, so the others cannot see its process, as on another machine.
"""
import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ledger import Q
from processes import Process, RedisServer
from resp import Redis

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "bench"))
import results

LEASE = 8


class Origin(BaseHTTPRequestHandler):
    """Sends 1 GiB, so slowly that it never ends here."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 30))
        self.send_header("ETag", '"same"')
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(20_000))
                time.sleep(0.1)
        except OSError:
            pass

    def log_message(self, *_):
        pass


class Worker(Process):
    def __init__(self, haul, directory, name, redis):
        self.name = name
        super().__init__(
            ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--fork", "--mount-proc", "--kill-child",
             haul, "worker", "--redis", redis.url, "--root", os.path.join(directory, "root"), "--name", name, "--lease", str(LEASE),
             "--slots", "4", "--allow-address", "127.0.0.0/8"], os.path.join(directory, name + ".log"))

    def signal(self, number):
        """Sends a signal to the worker, which is the child of unshare."""
        with open(f"/proc/{self.child.pid}/task/{self.child.pid}/children") as children:
            os.kill(int(children.read().split()[0]), number)


class Fleet:
    def __init__(self, haul, directory):
        self.haul, self.directory, self.count, self.workers = haul, directory, 0, {}
        self.server = RedisServer(directory, "redis")
        self.server.start()
        self.redis = Redis(self.server.socket)
        self.origin = ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        self.origin.daemon_threads = True
        threading.Thread(target=self.origin.serve_forever, daemon=True).start()
        os.mkdir(os.path.join(directory, "root"))

    def hire(self):
        self.count += 1
        worker = Worker(self.haul, self.directory, f"w{self.count}", self.server)
        worker.start()
        self.workers[worker.name] = worker

    def push(self, id):
        self.redis.call("LPUSH", Q + "jobs", f'{{"url":"http://127.0.0.1:{self.origin.server_port}/{id}","id":"{id}"}}')

    def run_of(self, id):
        """The token and the worker of the job's run."""
        state, token, worker = self.redis.call("HMGET", Q + "job:" + id, "state", "token", "worker")
        return (token, worker) if state == "running" else (None, None)

    def await_run(self, id, after=None):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            token, worker = self.run_of(id)
            if token and token != after:
                return token, worker
            time.sleep(0.005)
        raise SystemExit(f"{id} does not run")

    def kill(self, times):
        """The seconds from each kill until the job runs again."""
        self.push("one")
        found = []
        for _ in range(times):
            token, name = self.await_run("one")
            # The worker has reported the run by now.
            time.sleep(random.uniform(2, 3))
            self.workers.pop(name).end(signal.SIGKILL)
            killed = time.monotonic()
            self.await_run("one", after=token)
            found.append(time.monotonic() - killed)
            self.hire()
        return found

    def stall(self, seconds):
        """Freezes workers and Redis for less than a lease, and cuts connections. Returns the number of stalls, and how
        often a job was lost by its worker."""
        for number in range(8):
            self.push(f"job-{number}")
            self.await_run(f"job-{number}")
        before, count = self.lost(), 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            kind, worker = random.choice(["worker", "worker", "redis", "connections"]), random.choice(list(self.workers.values()))
            if kind == "worker":
                worker.signal(signal.SIGSTOP)
                time.sleep(random.uniform(0.5, LEASE - 2.5))
                worker.signal(signal.SIGCONT)
            elif kind == "redis":
                self.server.send(signal.SIGSTOP)
                time.sleep(random.uniform(0.5, 3))
                self.server.send(signal.SIGCONT)
            else:
                self.redis.call("CLIENT", "KILL", "TYPE", random.choice(["normal", "pubsub"]), "SKIPME", "yes")
            count += 1
            time.sleep(random.uniform(0.5, 3))
        return count, self.lost() - before

    def lost(self):
        return int(self.redis.call("HGET", Q + "totals", "lost") or 0)

    def stop(self):
        for worker in self.workers.values():
            worker.end(signal.SIGKILL)
        self.server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stalls", type=float, default=60, metavar="SECONDS")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="haul-recovery-") as directory:
        fleet = Fleet(options.haul, directory)
        try:
            for _ in range(3):
                fleet.hire()
            found = sorted(fleet.kill(options.kills))
            if found:
                print(f"a killed worker's job runs again after {statistics.median(found):.2f} s, at most {found[-1]:.2f} s, "
                      f"of {len(found)} kills, with a lease of {LEASE} s", flush=True)
                results.keep("recovery", f"kill -9 on another machine, until its job runs again, the longest of {len(found)}", "s",
                             found[-1:], goal=3)
            count, lost = fleet.stall(options.stalls)
            print(f"jobs that live workers lost in {count} stalls: {lost}")
            raise SystemExit(1 if lost else 0)
        finally:
            fleet.stop()


if __name__ == "__main__":
    main()
