"""The processes that the faults hit: redis-server, the origin, the workers. Each ends what it started, by its id."""
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

from resp import Redis


class Process:
    """A child in a state: up, frozen, or down."""

    def __init__(self, command, log, **options):
        self.command, self.log, self.options = command, log, options
        self.child = None
        self.busy = False

    def start(self):
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stderr=log, **{"stdout": log, **self.options})

    @property
    def is_up(self):
        return self.child is not None and self.child.poll() is None

    def send(self, number):
        if self.is_up:
            self.child.send_signal(number)

    def end(self, number=signal.SIGKILL, within=20):
        """Ends it and waits; True if it had to be killed because it did not go in time."""
        self.send(number)
        try:
            self.child.wait(within)
            return False
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return True


class RedisServer(Process):
    def __init__(self, directory):
        self.socket = os.path.join(directory, "redis.sock")
        super().__init__(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", directory, "--save", "",
             "--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning"],
            os.path.join(directory, "redis.log"))

    def start(self):
        super().start()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                if Redis(self.socket, 1).call("PING") == "PONG":
                    return
            except Exception:
                time.sleep(0.02)
        raise SystemExit("redis-server does not start: see " + self.log)


class Origin(Process):
    def __init__(self, directory, blob):
        script = os.path.join(os.path.dirname(__file__), "origin.py")
        super().__init__([sys.executable, script, blob], os.path.join(directory, "origin.log"),
                         stdout=subprocess.PIPE)

    def start(self):
        super().start()
        self.url = f"http://127.0.0.1:{int(self.child.stdout.readline())}"

    def ask(self, path):
        return urllib.request.urlopen(self.url + path, timeout=10).read().decode()


class Worker(Process):
    def __init__(self, haul, name, redis, root, slots, lease, log):
        self.name = name
        super().__init__(
            [haul, "worker", "--redis", "unix://" + redis, "--root", root, "--name", name, "--slots", str(slots),
             "--lease", str(lease), "--allow-address", "127.0.0.0/8"], log)

    def said(self, pattern):
        """How often its log says so."""
        try:
            with open(self.log, errors="replace") as log:
                return len(re.findall(pattern, log.read()))
        except FileNotFoundError:
            return 0
