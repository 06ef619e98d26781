"""The processes that faults affect: redis-server, the origin, the workers. Each class ends only its own process, by its
id."""
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from resp import Redis, RedisError
from s3 import S3


class Process:
    """A child process: up, frozen, or down."""

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
        """The seconds of CPU time of the process."""
        with open(f"/proc/{self.child.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def send(self, number):
        if self.is_up:
            self.child.send_signal(number)

    def end(self, number=signal.SIGKILL, within=20):
        """Ends the process and waits. Returns True if it had to be killed because it did not end in time."""
        self.send(number)
        try:
            self.child.wait(within)
            return False
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return True


class RedisServer(Process):
    """redis-server on a unix socket, and on a loopback port if one is given. Its settings are in a file, because
    sentinels rewrite theirs."""

    ARGUMENTS = ()

    def __init__(self, directory, name, port=0, **settings):
        self.port, home = port, os.path.join(directory, name)
        os.mkdir(home)
        self.socket = os.path.join(home, "socket")
        file = os.path.join(home, "redis.conf")
        with open(file, "w") as text:
            for key, value in {"port": port, "bind": "127.0.0.1", "dir": home, **self.settings(), **settings}.items():
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
    def __init__(self, directory, blob, address="127.0.0.1"):
        script = os.path.join(os.path.dirname(__file__), "origin.py")
        super().__init__([sys.executable, script, blob, address], os.path.join(directory, "origin.log"),
                         stdout=subprocess.PIPE)

    def start(self):
        super().start()
        self.url = f"http://127.0.0.1:{int(self.child.stdout.readline())}"

    def ask(self, path):
        return urllib.request.urlopen(self.url + path, timeout=10).read().decode()

    def read(self, path):
        return json.loads(self.ask(path))


class StoreServer(Process):
    """A real object store, started by Tests/Support/object-server.sh."""

    def __init__(self, directory, kind):
        self.directory = os.path.join(directory, "store")
        script = os.path.join(os.path.dirname(__file__), "..", "Support", "object-server.sh")
        super().__init__(["bash", script, kind, self.directory], os.path.join(directory, "store.log"), stdout=subprocess.PIPE)

    def start(self):
        super().start()
        line = self.child.stdout.readline().decode().split()
        if line[:1] != ["ready"]:
            raise RuntimeError("the object store does not start: see " + self.log)
        self.host = line[1].removeprefix("http://")

    def end(self, number=signal.SIGTERM, within=20):
        # SIGKILL would leave its children running.
        super().end(signal.SIGTERM, within)

    def signal_gateway(self, number):
        with open(os.path.join(self.directory, "gateway")) as file:
            os.kill(int(file.read()), number)

    def kill_gateway(self, seconds):
        """Kills the gateway, which comes back after so many seconds. Waits until it serves requests."""
        hold = os.path.join(self.directory, "hold")
        open(hold, "w").close()
        self.signal_gateway(signal.SIGKILL)
        time.sleep(seconds)
        os.unlink(hold)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                # A request that needs the whole store: it is signed, and reads the bucket.
                if S3(self.host, 2).ask("GET", "")[0] == 200:
                    return
            except ConnectionError:
                pass
            time.sleep(0.05)
        raise RuntimeError("the gateway does not come back: see " + self.log)


class Proxy(Origin):
    """gateway.py, between the workers and the store. Its address is known before it starts."""

    def __init__(self, directory, server, port, address="127.0.0.1"):
        self.server, self.port, self.address = server, port, address
        self.url = f"http://127.0.0.1:{port}"
        Process.__init__(self, [], os.path.join(directory, "proxy.log"), stdout=subprocess.PIPE)

    def start(self):
        self.command = [sys.executable, os.path.join(os.path.dirname(__file__), "gateway.py"), self.server.host,
                        str(self.port), self.address]
        super().start()

    def ask(self, path):
        return super().ask(urllib.parse.quote(path))


class Worker(Process):
    """A worker. With a shim its wall clock is shifted by the content of a file. `store` has its files. `number`
    determines its credentials. Each of `parts` adds its own options and variables (chaos.py)."""

    def __init__(self, haul, shim, directory, name, redis, store, number, slots, lease, parts=()):
        self.name, self.clock = name, os.path.join(directory, name + ".clock")
        self.set_clock(0)
        environment = os.environ | store.environment(number)
        environment |= {"LD_PRELOAD": shim, "CHAOS_CLOCK": self.clock} if shim else {}
        arguments = []
        for part in parts:
            arguments += part.arguments(name, number)
            environment |= getattr(part, "environment", lambda number: {})(number)
        super().__init__(
            [*store.prefix, haul, "worker", "--redis", redis, *store.options(number), "--name", name,
             "--slots", str(slots), "--lease", str(lease), "--allow-address", "127.0.0.0/8", *arguments],
            os.path.join(directory, name + ".log"), env=environment)

    def set_clock(self, seconds):
        with open(self.clock, "r+b" if os.path.exists(self.clock) else "wb") as file:
            file.write(struct.pack("q", int(seconds * 1e9)))

    def has_logged(self, pattern):
        """How often its log matches the pattern."""
        try:
            with open(self.log, errors="replace") as log:
                return len(re.findall(pattern, log.read()))
        except FileNotFoundError:
            return 0
