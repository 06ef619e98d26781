"""The processes that the faults hit: redis-server, the origin, the workers. Each ends what it started, by its id."""
import os
import re
import signal
import struct
import subprocess
import sys
import time
import urllib.request

from resp import Redis, RedisError


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

    @property
    def cpu(self):
        """Seconds of CPU that it has taken."""
        with open(f"/proc/{self.child.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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
    """On a unix socket, and on a port of loopback if one is given. Its settings are a file: sentinels rewrite it."""

    ARGUMENTS = ()

    def __init__(self, directory, name, port=0, **settings):
        self.port, place = port, os.path.join(directory, name)
        os.mkdir(place)
        self.socket = os.path.join(place, "socket")
        file = os.path.join(place, "redis.conf")
        with open(file, "w") as text:
            for key, value in {"port": port, "bind": "127.0.0.1", "dir": place, **self.settings(), **settings}.items():
                for line in value if isinstance(value, list) else [value]:
                    text.write(f"{key} {line}\n")
        super().__init__(["redis-server", file, *self.ARGUMENTS], os.path.join(directory, name + ".log"))

    @property
    def url(self):
        return "unix://" + self.socket

    def settings(self):
        return {"unixsocket": self.socket, "save": '""', "appendonly": "yes", "loglevel": "notice",
                "repl-diskless-sync-delay": 0}

    def start(self):
        super().start()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                if Redis(("127.0.0.1", self.port) if self.port else self.socket, 1).call("PING") == "PONG":
                    return
            except (ConnectionError, RedisError):
                time.sleep(0.02)
        raise RuntimeError("redis-server does not start: see " + self.log)


class Sentinel(RedisServer):
    ARGUMENTS = ("--sentinel",)

    def settings(self):
        return {}


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
    """With a shim its wall clock is a file's content away from ours."""

    def __init__(self, haul, shim, directory, name, redis, root, slots, lease):
        self.name, self.clock = name, os.path.join(directory, name + ".clock")
        self.set_clock(0)
        environment = os.environ | ({"LD_PRELOAD": shim, "CHAOS_CLOCK": self.clock} if shim else {})
        super().__init__(
            [haul, "worker", "--redis", redis, "--root", root, "--name", name, "--slots", str(slots),
             "--lease", str(lease), "--allow-address", "127.0.0.0/8"],
            os.path.join(directory, name + ".log"), env=environment)

    def set_clock(self, seconds):
        with open(self.clock, "r+b" if os.path.exists(self.clock) else "wb") as file:
            file.write(struct.pack("q", int(seconds * 1e9)))

    def said(self, pattern):
        """How often its log says so."""
        try:
            with open(self.log, errors="replace") as log:
                return len(re.findall(pattern, log.read()))
        except FileNotFoundError:
            return 0
