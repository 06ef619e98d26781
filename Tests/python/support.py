"""A Redis, workers, an origin, and queues of each kind, for the tests of the Python client."""
import asyncio
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import haul_client as haul
from haul_client.testing import AsyncFakeQueue, FakeFleet, FakeQueue

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "Tests/Support"))
import scripted_origin

HAUL = os.environ["HAUL"]
GOOD = bytes(range(256)) * 400
CHECKSUM = "sha256:" + hashlib.sha256(GOOD).hexdigest()


def eventually(what, condition, within=20.0):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {within} s: {what}")


class Origin(scripted_origin.Origin):
    def __init__(self):
        self.requests = []
        super().__init__(Files)


class Files(scripted_origin.Handler):
    """/good: a file. /missing: 404. /held: half of a file, and the rest when `gate` is open. /orders: 201 with the body."""

    def do_GET(self):
        path = self.path.partition("?")[0]
        self.server.requests.append(path)
        if path.startswith("/missing"):
            return self.answer(404)
        if not path.startswith("/held"):
            return self.answer(200, GOOD, ETag='"good"')
        self.begin(200, len(GOOD))
        self.send(GOOD, 1000)

    def do_POST(self):
        self.server.requests.append(self.path)
        body = self.body()
        if self.path == "/refuse":
            return self.answer(422, b'{"why":"no"}', Content_Type="application/json")
        self.answer(201, b'{"got":%s}' % body, Content_Type="application/json")

    def do_PUT(self):
        self.server.requests.append(self.path)
        self.answer(200, b'{"bytes":%d}' % len(self.body()), Content_Type="application/json")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A redis-server that writes each command to its disk before it answers."""

    def __init__(self, *options):
        self.directory = tempfile.mkdtemp(prefix="haul-python-")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.options = options
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.directory, "--save", "",
             "--appendonly", "yes", "--appendfsync", "always", "--logfile", self.directory + "/log", *self.options])
        eventually("Redis to answer", lambda: self.cli("PING") == "PONG")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def cli(self, *arguments):
        done = subprocess.run(["redis-cli", "-u", self.url, *arguments], capture_output=True, text=True, timeout=20)
        return done.stdout.strip()

    def close(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Sentinel:
    """A sentinel that calls a server `main`."""

    def __init__(self, server):
        self.directory = tempfile.mkdtemp(prefix="haul-python-")
        self.port = free_port()
        file = self.directory + "/sentinel.conf"
        pathlib.Path(file).write_text(f"sentinel monitor main 127.0.0.1 {server.port} 1\n")
        self.process = subprocess.Popen(
            ["redis-server", file, "--sentinel", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.directory,
             "--logfile", self.directory + "/log"])
        eventually("the sentinel to answer", lambda: subprocess.run(
            ["redis-cli", "-p", str(self.port), "PING"], capture_output=True, text=True, timeout=20).stdout == "PONG\n")

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class LosingProxy:
    """A way to Redis that loses replies: it closes the connection on which a reply with `mark` comes, `times` times."""

    def __init__(self, server, mark, times=1):
        self.mark, self.times = mark, times
        self.target = ("127.0.0.1", server.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            redis = socket.create_connection(self.target)
            for source, target in ((client, redis), (redis, client)):
                threading.Thread(target=self._copy, args=(source, target, source is redis), daemon=True).start()

    def _copy(self, source, target, is_reply):
        try:
            while data := source.recv(65536):
                if is_reply and self.times > 0 and self.mark in data:
                    self.times -= 1
                    break
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


class Cluster:
    """Three servers with a third of the slots each. A server that is away stops only its own slots. The time after which
    the others count it as failed is long, so that a busy machine is not a failure."""

    def __init__(self):
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "15000", "--cluster-require-full-coverage", "no")
        # The bus of a server has its port plus 10000 by default, which may be too large.
        self.servers = [Server(*options, "--cluster-port", str(free_port())) for _ in range(3)]
        nodes = [f"127.0.0.1:{server.port}" for server in self.servers]
        subprocess.run(["redis-cli", "--cluster", "create", *nodes, "--cluster-yes"], check=True, capture_output=True, timeout=60)
        eventually("the cluster to be up", lambda: all(
            "cluster_state:ok" in server.cli("CLUSTER", "INFO") for server in self.servers))
        self.url = "redis+cluster://" + ",".join(nodes)

    def owner(self, key):
        """The server that has the slot of a key."""
        slot = self.servers[0].cli("CLUSTER", "KEYSLOT", key)
        for server in self.servers:
            if "MOVED" not in server.cli("SET", key + ":owner", slot, "EX", "1"):
                return server
        raise AssertionError(f"no server has the slot {slot}")

    def move_slots(self, source, target):
        """Moves all slots of one server to another one."""
        ids = [server.cli("CLUSTER", "MYID") for server in (source, target)]
        subprocess.run(
            ["redis-cli", "--cluster", "reshard", f"127.0.0.1:{source.port}", "--cluster-from", ids[0], "--cluster-to", ids[1],
             "--cluster-slots", "5461", "--cluster-yes"], check=True, capture_output=True, timeout=120)

    def close(self):
        for server in self.servers:
            server.close()


class Worker:
    """A real worker."""

    def __init__(self, server, queue="default", *options):
        self.root = tempfile.mkdtemp(prefix="haul-python-root-")
        self.log = open(self.root + ".log", "wb")
        self.process = subprocess.Popen(
            [HAUL, "worker", "--root", self.root, "--upload-from", self.root, "--redis", server.url, "--queue", queue, "--allow-address",
             "127.0.0.0/8", "--lease", "2", *options], stdout=self.log, stderr=self.log)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        os.unlink(self.root + ".log")
        shutil.rmtree(self.root, ignore_errors=True)


class Blocking:
    """An AsyncQueue, its handles and ends, used as if they blocked: so that one test serves both."""

    def __init__(self, it, loop):
        self._it, self._loop = it, loop

    def __getattr__(self, name):
        value = getattr(self._it, name)
        return self._wrap(value) if callable(value) or isinstance(value, list) else value

    def _wrap(self, value):
        if asyncio.iscoroutine(value):
            return self._wrap(self._loop.run_until_complete(value))
        if hasattr(value, "__anext__"):
            return self._iterate(value)
        if isinstance(value, list):
            return [self._wrap(each) for each in value]
        if isinstance(value, (haul.AsyncJobHandle, haul.AsyncBatchHandle, haul.AsyncSettled)):
            return Blocking(value, self._loop)
        if callable(value) and not isinstance(value, type):
            return lambda *a, **k: self._wrap(value(*a, **k))
        return value

    def _iterate(self, values):
        try:
            while True:
                try:
                    yield self._wrap(self._loop.run_until_complete(values.__anext__()))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run_until_complete(values.aclose())

    def __enter__(self):
        self._loop.run_until_complete(self._it.__aenter__())
        return self

    def __exit__(self, *error):
        return self._loop.run_until_complete(self._it.__aexit__(*error))


def close_client(client, loop):
    """Closes a client of redis-py that blocks or does not. One that is left open complains when it is collected, which is
    in the middle of a later test."""
    closing = (getattr(client, "aclose", None) or client.close)()
    if asyncio.iscoroutine(closing):
        loop.run_until_complete(closing)


def fake_worker(origin):
    """What a real worker would make of the origin's paths."""

    def work(job):
        path = job.url.split("/", 3)[3].partition("?")[0]
        if path.startswith("held"):
            job.progress(1000, len(GOOD))
        elif path.startswith("missing"):
            job.fail("http_404", "the server has no such file")
        elif path == "refuse":
            job.respond(422, json={"why": "no"})
        elif job.kind == "request" and "json" in job.fields:
            job.respond(201, json={"got": job.fields["json"]})
        elif job.kind == "upload":
            job.respond(200, json={"bytes": len(GOOD)})
        elif job.kind == "request":
            job.respond(200, GOOD)
        else:
            job.complete(bytes=len(GOOD), checksum=job.fields.get("checksum"))

    return work


KINDS = ("real-sync", "real-async", "fake-sync", "fake-async")


class Bench:
    """Makes queues of one kind, on a queue of a name of its own, with a worker."""

    def __init__(self, kind, server, origin, name, worker):
        self.kind, self.server, self.origin, self.name = kind, server, origin, name
        self.worker = worker
        self.loop = asyncio.new_event_loop()
        self.fleet = None if self.is_real else FakeFleet(name, fake_worker(origin))
        self.queues = []

    @property
    def is_real(self):
        return self.kind.startswith("real")

    def queue(self, reply_to=None, **options):
        if self.kind == "real-sync":
            queue = haul.Queue(self.server.url, self.name, reply_to=reply_to, **options)
        elif self.kind == "real-async":
            queue = Blocking(haul.AsyncQueue(self.server.url, self.name, reply_to=reply_to, **options), self.loop)
        elif self.kind == "fake-sync":
            queue = FakeQueue(reply_to=reply_to, fleet=self.fleet)
        else:
            queue = Blocking(AsyncFakeQueue(reply_to=reply_to, fleet=self.fleet), self.loop)
        self.queues.append(queue)
        return queue

    def close(self):
        for queue in self.queues:
            queue.close()
        self.loop.close()


PYTHON = sys.executable
