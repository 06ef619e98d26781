"""Where the files go: a directory that the workers share, or only a bucket.

Both classes have `options(number)` and `environment(number)` for a worker, `prefix` for its command, `faults` (kind →
weight and function), `sample` for unfinished files, `is_right` for finished files, and `leftovers` for the end.
"""
import hashlib
import os
import random
import signal
import threading
import time
import urllib.parse

from processes import Proxy, StoreServer
from s3 import KEY, S3, SECRET
from topology import free_ports


class Directory:
    # CHECKS: how often a missing byte or part is searched again.
    NAME, CHECKS = "the disk", 1

    def __init__(self, root, blob=None):
        self.root, self.blob = root, blob
        self.away = self.root + "-away"
        for folder in (self.root, self.away):
            os.makedirs(folder, exist_ok=True)
        self.processes, self.faults, self.prefix, self.early = [], {}, [], []

    def start(self):
        pass

    @staticmethod
    def sizes(pick):
        """The least and the most bytes of a job's file."""
        return 1024, 4 << 20 if pick.random() < 0.8 else 50 << 20

    @staticmethod
    def sizes_of_pairs(number):
        return 1024, 4 << 20

    def read(self, path):
        """The bytes of a file; None if there is none."""
        try:
            with open(os.path.join(self.root, path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def requests(self, path):
        """The requests that gave or took the name, oldest first."""
        return []

    def options(self, number):
        return ["--root", self.root, "--upload-from", self.root]

    def environment(self, number):
        return {}

    def place(self, path, data):
        """Writes a file before the first job."""
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def sample(self, job, fields, offsets):
        """What Redis says about an unfinished file and is not true, and how much was compared. None if the file is gone
        in the meantime."""
        key = hashlib.sha1(f"default\n{job.id}".encode()).hexdigest()
        name = os.path.join(self.root, os.path.dirname(job.path), f".haul-{key}-{fields['generation']}")
        try:
            file = open(name, "rb")
        except FileNotFoundError:
            return None  # Committed, or replaced by a new generation.
        ahead = []
        with file:
            for first, end in offsets:
                tail = max(first, end - (256 << 10))
                file.seek(tail)
                if file.read(end - tail) != self.blob[job.offset + tail:job.offset + end]:
                    ahead.append(f"{job.id}: {first} → {end} is not in {os.path.basename(name)}")
        return ahead, len(offsets)

    def is_right(self, job):
        """Compares a completed file byte for byte. A large file is moved away and emptied, and must not come back."""
        path = os.path.join(self.root, job.path)
        try:
            with open(path, "rb") as file:
                right = os.fstat(file.fileno()).st_size == job.size and all(
                    file.read(1 << 20) == self.blob[at:min(at + (1 << 20), job.offset + job.size)]
                    for at in range(job.offset, job.offset + job.size, 1 << 20))
        except FileNotFoundError:
            right = False
        if right and job.size > 1 << 20:
            away = os.path.join(self.away, job.id)
            os.rename(path, away)
            os.truncate(away, 0)
        return right

    def is_there(self, job):
        return os.path.exists(os.path.join(self.root, job.path))

    def check(self, jobs):
        """Does nothing: a file gets its name only when it is complete, or its offsets would be wrong."""

    def leftovers(self, run, unfinished):
        """What a sweep leaves. A worker that was killed cannot remove its hidden files, and another one keeps a file for
        50 s in case a failover undoes the end of its job. The clock of the file system counts these."""
        before = list(self.hidden())
        worker = run.worker("sweep")
        run.retired.append(worker)
        worker.start()
        failed = {hashlib.sha1(f"{queue}\n{id}".encode()).hexdigest() for queue, id in unfinished}
        until = time.monotonic() + 90
        while True:
            left = [name for name, _ in self.hidden() if os.path.basename(name).split("-")[1] not in failed]
            if not left or time.monotonic() > until:
                break
            time.sleep(0.3)
        worker.end(signal.SIGTERM)
        # The file of a claim that a failover has lost with its worker is as that of another installation. It stays for
        # eight days.
        lost = set() if run.topology.KEEPS_ACKNOWLEDGED else {name for name in left if self.is_of_lost_claim(run, name)}
        return ("partial files left before a sweep, finished and not; lost claims'",
                f"{sum(n > 1 for _, n in before)}, {sum(n == 1 for _, n in before)}; {len(lost)}"), [
                    name for name in left if name not in lost]

    @staticmethod
    def is_of_lost_claim(run, name):
        """Whether no run that Redis knows of the job has made the file."""
        key, generation = os.path.basename(name).split("-")[1:3]
        for id in run.ledger.jobs:
            if hashlib.sha1(f"default\n{id}".encode()).hexdigest() == key:
                fields = run.redis.call("HMGET", f"haul:{{default}}:job:{id}", "generation", "token", "settled", "lost")
                return generation not in " ".join(field or "" for field in fields).split()
        return False

    def hidden(self):
        """The hidden files and their numbers of links: two if the file has its final name, too."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                if name.startswith(".haul-") and name != ".haul-store":
                    path = os.path.join(folder, name)
                    try:
                        yield path, os.stat(path).st_nlink
                    except FileNotFoundError:
                        pass


class Bucket:
    """A real object store behind a proxy that injects faults. No directory is writable, so workers cannot share one."""

    NAME, CHECKS = "the bucket", 3
    HUNG = 20
    READ_ONLY = ('findmnt --real --raw --noheadings --output TARGET | while read -r each; do '
                 'mount -o remount,bind,ro "$(printf %b "$each")" || :; done; exec "$@"')

    def __init__(self, directory, blob, kind, seed):
        self.blob, self.random = blob, random.Random(seed * 31 + 7)
        self.server = StoreServer(directory, kind)
        self.proxy = Proxy(directory, self.server, free_ports(1)[0])
        self.processes, self.lock = [self.proxy, self.server], threading.Lock()
        self.seen, self.early, self.taken, self.killed = {}, [], set(), []
        self.prefix = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c",
                       self.READ_ONLY, "worker"]
        self.faults = {
            # MiniStack keeps everything in memory.
            **({} if kind == "mini" else {"gateway kill -9, restart": (4, self.alone(self.kill))}),
            f"gateway hangs for {self.HUNG} s": (1, self.alone(self.hang)),
            **{name: (weight, self.spoiled(kind)) for name, kind, weight in (
                ("a 500 of the store", "500", 14), ("503 SlowDown for some seconds", "503", 5),
                ("a part's upload is cut", "cut a part", 12), ("Complete's answer is cut", "cut Complete's answer", 10),
                ("a 200 of Complete with an error in it", "error in a 200", 8),
                ("a 404 of Complete that was done", "404 after Complete", 6), ("credentials end", "expired", 6),
                ("the store's clock is 16 minutes off", "clock", 6))},
        }

    def start(self):
        self.server.start()
        self.proxy.start()
        # The ledger's own requests bypass the proxy. Each thread has a connection.
        self.local = threading.local()

    @staticmethod
    def sizes(pick):
        """Half of the files take several parts."""
        return (1024, 8 << 20) if pick.random() < 0.5 else (8 << 20, 40 << 20)

    @staticmethod
    def sizes_of_pairs(number):
        return ((9 << 20) + 1, 20 << 20) if number % 2 else (1024, 7 << 20)

    def read(self, path):
        return self.s3.get("in/" + path)

    def requests(self, path):
        """The requests that gave or took the name, oldest first."""
        return self.proxy.ask("/-/named//test/in/" + path).splitlines()

    def place(self, path, data):
        """Writes an object before the first job."""
        self.s3.fetch("PUT", "in/" + path, (), data)
        # A kill of the gateway would break this connection, and this thread needs none until the end.
        self.s3.close()

    @property
    def s3(self):
        if not hasattr(self.local, "s3"):
            self.local.s3 = S3(self.server.host)
        return self.local.s3

    def options(self, number):
        return ["--store", "s3://test/in", "--upload-from", "s3://test/in", "--s3-endpoint", self.proxy.url]

    def environment(self, number):
        """Half of the workers use a container's credentials service, whose credentials expire."""
        own = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent"}
        if number % 2:
            return own | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        return own | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.proxy.url + "/-/credentials"}

    # Faults. Each returns whether it was done.

    def alone(self, body):
        def fault():
            if not self.lock.acquire(blocking=False):
                return False
            try:
                return body()
            finally:
                self.lock.release()

        return fault

    def kill(self):
        self.killed.append(time.time())
        self.server.kill_gateway(self.random.uniform(0, 3))
        return True

    def hang(self):
        self.server.signal_gateway(signal.SIGSTOP)
        time.sleep(self.HUNG)
        self.server.signal_gateway(signal.SIGCONT)
        return True

    def spoiled(self, kind):
        return lambda: int(self.proxy.ask("/-/spoil/" + kind)) > 0

    # Unfinished files.

    def sample(self, job, fields, offsets):
        """Compares the journal's parts and tails with the store: their sizes, and the MD5 of their bytes."""
        if not fields.get("store_state"):
            return None
        total, upload, is_hidden, parts, tails = read_journal(fields["store_state"])
        generation = "in/.haul/" + hashlib.sha1(f"default\n{job.id}".encode()).hexdigest() + "." + fields["generation"]
        ahead, count = [], 0
        if parts:
            key = generation + "/whole" if is_hidden else "in/" + fields["file"]
            listed = self.s3.parts(key, upload)
            # A completed upload has no parts any more. Some servers list a few of its parts for a while.
            if listed is None or self.s3.head(key) is not None:
                return None
            etags = {(number, size): etag for number, size, etag in listed}
            for number in parts:
                first, end = part_range(total, number)
                count += 1
                wanted = hashlib.md5(self.blob[job.offset + first:job.offset + end]).hexdigest()
                if etags.get((number, end - first)) != wanted:
                    ahead.append(f"{job.id}: part {number} of {parts} is not in the upload {upload}, which has "
                                 f"{sorted(etags)}, recorded {self.since(fields['updated'])}")
        for name, ranges in tails:
            data, count = self.s3.get(f"{generation}/t.{name}"), count + 1
            if data is None:
                return None
            if data != b"".join(self.blob[job.offset + first:job.offset + end] for first, end in ranges):
                ahead.append(f"{job.id}: the tail {name} has other bytes")
        return ahead, count

    def since(self, updated):
        """When the record was written, relative to the kills of the gateway."""
        updated_at = int(updated) / 1000
        return " and ".join(f"{updated_at - each:.1f} s after a kill" for each in self.killed[-3:]) or "before any kill"

    # Finished files.

    def is_right(self, job):
        """Compares an object byte for byte. A large object is deleted, and must not come back."""
        data = self.s3.get("in/" + job.path)
        # The response to its deletion may have been lost.
        right = job.id in self.taken if data is None else data == self.blob[job.offset:job.offset + job.size]
        if right and job.size > 1 << 20:
            self.taken.add(job.id)
            self.s3.delete("in/" + job.path)
        return right

    def is_there(self, job):
        return self.s3.head("in/" + job.path) is not None

    def check(self, jobs):
        """Checks that each named object is complete, as soon as it exists."""
        listed = self.s3.list("in/d")
        by_path = {"in/" + job.path: job for job in list(jobs.values()) if job.path}
        for key, size, etag in listed:
            if self.seen.get(key) == (size, etag):
                continue
            self.seen[key] = (size, etag)
            job = by_path.get(key)
            if job is None or size != job.size:
                self.early.append(f"{key} has {size} bytes: {job.size if job else 'no job'} are wanted")
            elif size <= 16 << 20:
                data = self.s3.get(key)
                if data is not None and data != self.blob[job.offset:job.offset + job.size]:
                    self.early.append(f"{key} is seen with other bytes")

    @property
    def slowest(self):
        """The request that the store took longest for, since the gateway began."""
        return self.proxy.ask("/-/slowest")

    def leftovers(self, run, unfinished):
        """What a sweep leaves after nine days. The clock of the store says so, and Redis has forgotten all
        jobs that ended well."""
        for prefix in run.prefixes:
            run.redis.call("DEL", prefix + "completed", prefix + "cancelled")
        before = len(self.s3.list("in/.haul/")), len(self.s3.uploads("in/"))
        self.proxy.ask(f"/-/late/{9 * 86400}")
        worker = run.worker("sweep")
        run.retired.append(worker)
        worker.start()
        until = time.monotonic() + 30
        failed = {hashlib.sha1(f"{queue}\n{id}".encode()).hexdigest() for queue, id in unfinished}
        while True:
            hidden = [key for key, *_ in self.s3.list("in/.haul/")
                      if key != "in/.haul/probe" and key.split("/")[2].split(".")[0] not in failed]
            uploads = self.s3.uploads("in/") if not failed else []
            if not hidden and not uploads or time.monotonic() > until:
                break
            time.sleep(0.3)
        worker.end(signal.SIGTERM)
        return ("hidden objects and uploads left, before a sweep", f"{before[0]}, {before[1]}"), [
            *hidden, *(f"the upload {id} of {key}" for key, id in uploads)]


def part_range(total, number):
    """The range of a part, as in docs/guides/buckets.md."""
    size = max(8 << 20, -(-(-(-total // 9000)) // (1 << 20)) * (1 << 20))
    return min(total, (number - 1) * size), min(total, number * size)


def read_journal(text):
    total, upload, is_hidden, parts, tails = 0, None, False, [], []
    for word in text.split()[1:]:
        kind, value = word[0], word[1:]
        if kind == "n":
            total = int(value)
        elif kind == "u":
            upload = urllib.parse.unquote(value)
        elif kind == "h":
            is_hidden = True
        elif kind == "p":
            first, marks = value.split(":")
            parts += range(int(first), int(first) + len(marks) // 12)
        elif kind == "t":
            _, name, _, ranges = value.split(":")
            tails.append((name, [tuple(map(int, each.split("-"))) for each in ranges.split(",")]))
    return total, upload, is_hidden, parts, tails
