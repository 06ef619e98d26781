"""Two versions of haul on one queue: compat.py OLD NEW, two binaries. Tests/compat/run.sh builds them.

Each case runs in a queue and a Redis of its own. All cases run, and each failure is printed.
"""
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "Support"))
from scripted_origin import Handler, Origin

OLD, NEW = sys.argv[1:]
BODY = bytes(range(256)) * 12_000
HELD = 2_000_000
SHA = "sha256:" + hashlib.sha256(BODY).hexdigest()
FINAL = ("completed", "failed", "cancelled")


class Failure(Exception):
    """The two versions do not go together."""


def check(condition, words):
    if not condition:
        raise Failure(words)


def eventually(what, condition, within=30):
    deadline = time.monotonic() + within
    while not condition():
        check(time.monotonic() < deadline, f"{what}: not within {within} s")
        time.sleep(0.02)


class Files(Handler):
    """/ok: a file that can be continued. /held: the same, but it stops after HELD bytes until the gate is open. /gone:
    404, and the file once it is back. POST /orders: 201 with the body. PUT: 200."""

    def do_GET(self):
        if self.path.startswith("/gone") and not self.server.is_back:
            return self.answer(404)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start, end = (int(asked[1]), int(asked[2] or len(BODY) - 1)) if asked else (0, len(BODY) - 1)
        self.server.starts.append((self.path, start))
        ranges = {"Content_Range": f"bytes {start}-{end}/{len(BODY)}"} if asked else {}
        self.begin(206 if asked else 200, end + 1 - start, ETag='"one"', Accept_Ranges="bytes", **ranges)
        piece = BODY[start : end + 1]
        self.send(piece, max(0, HELD - start) if self.path.startswith("/held") else None)

    def do_POST(self):
        body = self.body()
        self.server.orders.append(body)
        self.answer(201, body)

    def do_PUT(self):
        self.answer(200, str(len(self.body())).encode())


class Worker:
    def __init__(self, bench, name, binary, options):
        self.log = open(f"{bench.directory}/{name}.log", "a")
        # The option of a later version than some that are run here.
        uploads = ["--upload-from", bench.root] if "--upload-from" in bench.run(binary, "worker", "--help").stdout else []
        self.process = subprocess.Popen(
            [binary, "worker", "--redis", bench.url, "--root", bench.root, "--name", name, "--lease", "2", "--slots", "8",
             "--connections", "1", "--allow-address", "127.0.0.0/8", *uploads, *options],
            stdout=self.log, stderr=self.log)
        eventually(f"the worker {name} to start", lambda: bench.redis("HGET", f"haul:{{default}}:worker:{name}", "state") == "working")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(timeout=30)
        self.log.close()


class Bench:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="haul-compat-")
        self.root = self.directory + "/root"
        os.mkdir(self.root)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{port}"
        self.origin = Origin(Files)
        self.origin.is_back, self.origin.starts, self.origin.orders = False, [], []
        self.workers = {}
        self.server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", self.directory, "--save", "", "--logfile",
             self.directory + "/redis.log"])
        eventually("Redis to answer", lambda: self.redis("PING") == "PONG")

    def redis(self, *arguments):
        done = subprocess.run(["redis-cli", "-u", self.url, *arguments], capture_output=True, text=True, timeout=20)
        return done.stdout.strip()

    def start(self, name, binary, *options):
        self.workers[name] = Worker(self, name, binary, options)

    def end(self, name, number=signal.SIGTERM):
        self.workers.pop(name).end(number)

    def push(self, id, **fields):
        at = int(time.time() * 1000)
        self.redis("LPUSH", "haul:{default}:jobs", json.dumps({"id": id, "at": at, **fields}))
        return at

    def want(self, id, operation):
        self.redis("HSET", "haul:{default}:want", id, operation)
        self.redis("PUBLISH", "haul:{default}:control", id)

    def field(self, id, name):
        return self.redis("HGET", f"haul:{{default}}:job:{id}", name)

    def wait(self, id, state):
        eventually(f"{id} to be {state}, and not {self.field(id, 'state') or 'unknown'}", lambda: self.field(id, "state") == state)

    def check_file(self, name):
        with open(f"{self.root}/{name}", "rb") as file:
            check(file.read() == BODY, f"{name} has wrong bytes")

    def wait_for_offsets(self, id):
        """Until a part of the file is durable, so that another run can continue it."""
        eventually(f"{id} to have a checkpoint", lambda: self.redis("HLEN", f"haul:{{default}}:offsets:{id}") not in ("", "0"))

    def run(self, binary, *arguments):
        environment = {**os.environ, "HAUL_REDIS": self.url}
        return subprocess.run([binary, *arguments], env=environment, capture_output=True, text=True, timeout=60)

    def check_queue(self, binary):
        found = self.run(binary, "check")
        check(found.returncode == 0, f"haul check of {side(binary)}: {found.stdout}{found.stderr}")

    def close(self):
        self.origin.gate.set()
        for name in list(self.workers):
            self.end(name, signal.SIGKILL)
        self.server.kill()
        self.server.wait()
        self.origin.shutdown()
        self.origin.server_close()
        shutil.rmtree(self.directory)


def side(binary):
    return "the old version" if binary == OLD else "the new version"


def leftovers(bench, first, second):
    """What one version leaves in Redis, in each state of a job, the other one reads as its own."""
    bench.start("first", first)
    bench.push("whole", url=bench.origin.url("/ok"), path="whole", checksum=SHA)
    bench.push("lost", url=bench.origin.url("/gone"), path="lost", retries=0)
    bench.push("held", url=bench.origin.url("/held"), path="held", checksum=SHA, limit_rate=50_000_000)
    bench.push("later", url=bench.origin.url("/ok"), path="later", delay=3600)
    bench.push("mail", kind="upload", url=bench.origin.url("/in"), file="whole")
    bench.wait("whole", "completed")
    bench.wait("lost", "failed")
    bench.wait("later", "scheduled")
    bench.wait_for_offsets("held")
    bench.want("held", "paused")
    bench.wait("held", "paused")
    states = {id: bench.field(id, "state") for id in ("whole", "lost", "held", "later")}
    bench.end("first")
    for id, state in states.items():
        shown = bench.run(second, "show", id, "--json")
        check(shown.returncode == 0, f"haul show {id}: {shown.stderr}")
        check(json.loads(shown.stdout)["state"] == state, f"{id} was {state}, and is shown as {shown.stdout}")
    bench.check_queue(second)
    bench.start("second", second)
    # The repeat of a push that is done does nothing, and the end is reported to a further name.
    at = bench.push("again", url=bench.origin.url("/ok"), path="again")
    bench.wait("again", "completed")
    before = len(bench.origin.starts)
    pushed = json.dumps({"id": "whole", "at": 1700000000000, "url": bench.origin.url("/ok"), "path": "whole", "reply_to": "me"})
    bench.redis("LPUSH", "haul:{default}:jobs", pushed)
    eventually("the reply to a repeated push", lambda: bench.redis("LLEN", "haul:{default}:reply:me") == "1")
    check(len(bench.origin.starts) == before, "a repeated push has asked the server again")
    # A paused job continues from its offset, and a failed one runs again.
    bench.origin.gate.set()
    bench.origin.is_back = True
    bench.want("held", "running")
    bench.want("lost", "running")
    for id in ("held", "lost"):
        bench.wait(id, "completed")
        bench.check_file(id)
    starts = [start for path, start in bench.origin.starts if path == "/held"]
    check(starts[-1] > 0, f"the paused job began again at byte 0: {starts}")
    bench.want("later", "cancelled")
    bench.wait("later", "cancelled")
    bench.want("whole", "deleted")
    eventually("a finished file to be deleted", lambda: not os.path.exists(f"{bench.root}/whole"))
    eventually("its job to be gone", lambda: bench.field("whole", "state") == "")
    check(bench.field("again", "settled_until") >= str(at), "settled_until is missing")
    bench.check_queue(second)
    bench.check_queue(first)


def deferred(bench, first, second):
    """What one version defers for a host or a kind, and what it holds when it is killed, the other one finds and runs."""
    bench.redis("HSET", "haul:{default}:limits", "127.0.0.1", '{"connections":1}')
    bench.start("first", first, "--kinds", "download")
    ids = ["held", "host1", "host2"]
    for id in ids:
        bench.push(id, url=bench.origin.url(f"/held/{id}"), path=id, checksum=SHA)
        if id == "held":
            bench.wait_for_offsets(id)
    bench.push("kind", kind="request", url=bench.origin.url("/orders"), json={"n": 1})
    eventually("three jobs to wait and jobs to be empty", lambda: bench.redis("LLEN", "haul:{default}:jobs") == "0")
    bench.want("held", "paused")
    bench.wait("held", "paused")
    for binary in (first, second):
        listed = bench.run(binary, "list", "--state", "queued", "--json")
        found = set(re.findall(r'"id":"(\w+)"', listed.stdout)) & {"host1", "host2", "kind", "held"}
        check(found >= {"host2", "kind"} and "held" not in found, f"{side(binary)} lists as queued: {listed.stdout}{listed.stderr}")
    bench.end("first", signal.SIGKILL)
    bench.start("second", second)
    bench.origin.gate.set()
    bench.want("held", "running")
    for id in [*ids, "kind"]:
        bench.wait(id, "completed")
    for id in ids:
        bench.check_file(id)
    for binary in (first, second):
        bench.check_queue(binary)


def kills(bench, first, second):
    """The jobs of a killed worker are continued by a worker of the other version."""
    bench.start("first", first)
    for number in range(3):
        bench.push(f"held{number}", url=bench.origin.url(f"/held{number}"), path=f"held{number}", checksum=SHA)
    for number in range(3):
        bench.wait_for_offsets(f"held{number}")
    bench.start("second", second)
    bench.end("first", signal.SIGKILL)
    bench.origin.gate.set()
    for number in range(3):
        bench.wait(f"held{number}", "completed")
        bench.check_file(f"held{number}")
        check(bench.field(f"held{number}", "worker") == "second", "the job was not taken over")
        starts = [start for path, start in bench.origin.starts if path == f"/held{number}"]
        check(len(starts) > 1 and starts[-1] > 0, f"held{number} began again at byte 0: {starts}")
    bench.check_queue(second)


def together(bench, first, second):
    """Both run jobs of all kinds at once, while control operations come and libraries disappear."""
    bench.start("first", first)
    bench.start("second", second)
    eventually("both libraries", lambda: len(libraries(bench)) in (1, 2))
    known = libraries(bench)
    for number in range(60):
        bench.push(f"d{number}", url=bench.origin.url(f"/ok?{number}"), path=f"d{number}", checksum=SHA, reply_to="me")
        bench.push(
            f"r{number}", kind="request", url=bench.origin.url("/orders"), json={"n": number}, idempotent=True,
            batch={"name": "night", "size": 60}, reply_to="me")
        if number % 10 == 5:
            bench.want(f"d{number}", "paused")
        if number % 20 == 10:
            for name in libraries(bench):
                bench.redis("FUNCTION", "DELETE", name)
    for number in range(60):
        eventually(f"d{number} to end or pause", lambda: bench.field(f"d{number}", "state") in (*FINAL, "paused"))
        bench.want(f"d{number}", "running")
    for number in range(60):
        bench.wait(f"d{number}", "completed")
        bench.check_file(f"d{number}")
        bench.wait(f"r{number}", "completed")
        check(json.loads(bench.field(f"r{number}", "body")) == {"n": number}, f"r{number} has another response")
    for name in ("d0", "d1"):
        bench.push(f"u-{name}", kind="upload", url=bench.origin.url("/in"), file=name)
        bench.wait(f"u-{name}", "completed")
    workers = {bench.field(f"{kind}{number}", "worker") for kind in "dr" for number in range(60)}
    check(workers == {"first", "second"}, f"all jobs were run by {workers}")
    check(len(bench.origin.orders) == 60, f"{len(bench.origin.orders)} of 60 requests were sent")
    eventually("120 replies", lambda: bench.redis("LLEN", "haul:{default}:reply:me") == "120")
    night = bench.redis("HMGET", "haul:{default}:batch:night", "pending", "completed", "round").split()
    check(night == ["0", "60", "1"], f"the batch has {night}")
    check(libraries(bench) == known, f"the libraries were {known} and are {libraries(bench)}")
    for binary in (first, second):
        bench.check_queue(binary)


def fields(bench, first, second):
    """What a version does with what it does not know is what docs/evaluate/compatibility.md says."""
    bench.start("first", first)
    events = open(f"{bench.directory}/events", "w+")
    listener = subprocess.Popen(
        ["redis-cli", "-u", bench.url, "PSUBSCRIBE", "haul:{default}:events:*"], stdout=events, stderr=events)
    try:
        eventually("the subscription", lambda: bench.redis("PUBSUB", "NUMPAT") == "1")
        ok = bench.origin.url("/ok")
        bench.push("field", url=ok, path="field", moon=1)
        bench.push("member", url=ok, batch={"name": "night", "moon": 1})
        bench.push("version", url=ok, v=2)
        bench.push("kind", kind="moon", url=ok)
        bench.redis("HSET", "haul:{default}:settings", "moon", "1")
        bench.redis("HSET", "haul:{default}:limits", "127.0.0.1", '{"connections":4,"moon":1}')
        bench.wait("field", "completed")
        rejected = 2
        if first is NEW:
            # The other commit may be older than this rule.
            bench.push("limit", url=ok, path="limit", limit_moon=1)
            rejected += 1
        eventually("the rejections", lambda: bench.redis("LLEN", "haul:{default}:rejected") == str(rejected))
        eventually("the deferral", lambda: bench.redis("LLEN", "haul:{default}:deferred_kind:moon") == "1")
        bench.start("second", second)
        bench.push("after", url=ok, path="after")
        bench.wait("after", "completed")

        def published(words):
            events.seek(0)
            return words in events.read()

        eventually("the warning", lambda: published("unknown fields are ignored: moon"))
    finally:
        listener.kill()
        listener.wait()
        events.close()


def libraries(bench):
    return sorted(re.findall(r"^haul_[0-9a-f]+$", bench.redis("FUNCTION", "LIST", "LIBRARYNAME", "haul_*"), re.MULTILINE))


failed = 0
for case in (leftovers, deferred, kills, together, fields):
    for first, second in ((OLD, NEW), (NEW, OLD)):
        title = f"{case.__name__}, {side(first)} first"
        began = time.monotonic()
        bench = Bench()
        try:
            case(bench, first, second)
            print(f"ok      {title} ({time.monotonic() - began:.1f} s)", flush=True)
        except (Failure, OSError, subprocess.SubprocessError, ValueError) as error:
            failed += 1
            print(f"FAILED  {title}: {error}", flush=True)
        finally:
            bench.close()
sys.exit(1 if failed else 0)
