"""The batches of a chaos run: which jobs belong to them, and which control operations are made for whole batches. counts.py
checks the results."""
import json
import math
import time

from ledger import Q
from resp import Redis, RedisError

TROUBLE = (ConnectionError, RedisError)


class Batch:
    """A set of jobs, with its pushes and the operations for it. Times are unix ms."""

    def __init__(self, name, target, size_source, has_reply):
        self.name, self.target, self.size_source = name, target, size_source
        self.reply_to = "batch-" + name if has_reply else None
        # A reply list that is named only after the batch has ended.
        self.late_reply_to = None
        # Jobs by id. None stands for an element that is not a valid job.
        self.members, self.pushed_sizes, self.is_repeated = {}, [], False
        # Cancels: when each one was written, and when it was applied.
        self.cancels, self.retries, self.is_paused, self.has_ended, self.closings = [], 0, False, False, 0

    @property
    def is_full(self):
        return len(self.members) >= self.target

    def may_cancel(self, job):
        """Whether a cancel of the batch may apply to the job's last push."""
        return any(job.at <= applied for _, applied in self.cancels)

    def element(self, is_first, has_size):
        """The field `batch` of a member's push."""
        spec = {"name": self.name}
        if has_size:
            spec["size"] = self.target
            self.pushed_sizes.append(self.target)
        if self.reply_to and is_first:
            spec["reply_to"] = self.reply_to
        return spec if len(spec) > 1 or is_first else self.name


class Batches:
    """A share of the jobs belongs to batches of 2 to 200 members."""

    def __init__(self, topology, share, pick):
        self.topology, self.share, self.random = topology, share, pick
        self.all, self.open, self.bad, self.requests = [], [], 0, 0

    # Members. The producing thread calls these.

    def join(self, pick, job, spec):
        """Makes a job the member of a batch, by chance."""
        if pick.random() >= self.share:
            return
        batch = self.batch(pick)
        is_first = not batch.members
        batch.members[job.id], job.batch = job, batch
        size_source = batch.size_source
        has_size = size_source == "all" or size_source == "first" and is_first or size_source == "last" and batch.is_full
        if size_source == "next":
            has_size, batch.size_source = True, "none"
        spec["batch"] = batch.element(is_first, has_size)
        if batch.is_full:
            self.open.remove(batch)
        if pick.random() < 0.08:
            self.fail(job, spec)

    def batch(self, pick):
        """A batch that is not full. At times a new batch, or a finished batch that gets more members."""
        over = [batch for batch in self.all if batch.has_ended and batch.is_full]
        if over and pick.random() < 0.1:
            batch = pick.choice(over)
            batch.target += pick.randrange(1, 11)
            # With a push that names the new size, the batch ends once more. Without one it ends whenever no member is
            # pending.
            batch.size_source, batch.has_ended = pick.choice(["next", "none"]), False
            self.open.append(batch)
        elif len(self.open) < 2 or len(self.open) < 6 and pick.random() < 0.1:
            size = int(math.exp(pick.uniform(math.log(2), math.log(201))))
            batch = Batch(f"b{len(self.all) + 1}", size, pick.choice(["all", "first", "last"]), pick.random() < 0.6)
            self.all.append(batch)
            self.open.append(batch)
        return pick.choice(self.open)

    @staticmethod
    def fail(job, spec):
        """Makes a job fail: its file does not exist, or no response has the status that it expects."""
        job.fails = True
        if job.kind == "download":
            spec["url"] = spec["url"].replace("/f/", "/missing/")
            job.source = job.source.replace("/f/", "/missing/")
        elif job.kind == "request":
            spec["expect"] = [299]
        elif "file" in spec:
            spec["file"] = "src/missing.bin"
        else:
            spec["files"][0]["file"] = "src/missing.bin"

    def invalid(self, pick, reply_to):
        """Returns, at times, an element that is not a valid job, for a batch that is not full."""
        begun = [batch for batch in self.open if batch.members]
        if not begun or pick.random() > 0.01:
            return None
        self.bad += 1
        batch, id = pick.choice(begun), f"bad-{self.bad}"
        spec = {"url": "http://127.0.0.1/", "id": id, "headers": ["none"], "reply_to": reply_to, "meta": {"id": id, "list": []},
                "batch": batch.name}
        batch.members[id] = None
        if batch.is_full:
            self.open.remove(batch)
            if batch.size_source == "last":
                spec["batch"] = batch.element(False, True)
        return json.dumps(spec)

    @staticmethod
    def repeats(job):
        """A member's push is repeated, with the same size."""
        if job.batch:
            job.batch.is_repeated = True

    # Operations for batches. A thread of its own makes them.

    def steer(self, producing):
        redis = Redis(self.topology.locate)
        while producing.is_set():
            time.sleep(self.random.uniform(0.3, 1.2))
            try:
                for batch in self.all:
                    batch.has_ended = batch.is_full and redis.call("HEXISTS", Q + "batch:" + batch.name, "finished") == 1
                live = [batch for batch in self.all if batch.members and not batch.has_ended or self.random.random() < 0.1]
                if live:
                    self.ask(redis, self.random.choice(live[-8:]))
            except TROUBLE:
                pass

    def ask(self, redis, batch):
        if batch.is_paused:
            word = self.random.choice(["running", "running", "running", "cancelled"])
        else:
            word = self.random.choices(["paused", "retried", "cancelled"], [10, 8, 2])[0]
        if word == "retried":
            failed = redis.call("HGET", Q + "batch:" + batch.name, "failed")
            if not int(failed or 0):
                return
        self.request(redis, batch, word)

    def request(self, redis, batch, word):
        """Writes the operation until Redis acknowledges it, and then waits until all members have it."""
        cancel = [time.time() * 1000, float("inf")]
        if word == "cancelled":
            batch.cancels.append(cancel)
        if word == "paused":
            batch.is_paused = True
        value = word
        if self.random.random() < 0.5:
            seconds, microseconds = redis.call("TIME")
            value = f"{word} {int(seconds) * 1000 + int(microseconds) // 1000}"
        self.requests += 1
        until, is_written = time.monotonic() + 40, False
        while time.monotonic() < until:
            try:
                if not is_written:
                    # Redis may have applied an operation although it was not acknowledged.
                    batch.retries += word == "retried"
                    self.topology.call_durably(redis, "HSET", Q + "want", "batch/" + batch.name, value)
                    is_written, cancel[0] = True, time.time() * 1000
                if not redis.call("HEXISTS", Q + "want", "batch/" + batch.name):
                    break
            except TROUBLE:
                pass
            time.sleep(0.05)
        # A failover may restore an operation that was being applied.
        cancel[1] = time.time() * 1000 + (1000 if self.topology.KEEPS_ACKNOWLEDGED else 8000)
        if word in ("running", "cancelled"):
            batch.is_paused = False

    # The end.

    def let_go(self, redis):
        """Continues all paused batches, so that their members can run."""
        for batch in self.all:
            if redis.call("HGET", Q + "batch:" + batch.name, "want") == "paused":
                redis.call("HSET", Q + "want", "batch/" + batch.name, "running")

    def conclude(self, redis, push):
        """Called once no job is left. A batch that waits for members that never come gets its size by a repeated push.
        Some finished batches get another reply list. Returns whether nothing was pushed."""
        is_done = True
        for batch in self.all:
            jobs = [job for job in batch.members.values() if job]
            if not jobs:
                continue
            spec = json.loads(jobs[0].element)
            size = redis.call("HGET", Q + "batch:" + batch.name, "size")
            if (size is None or int(size) > len(batch.members)) and batch.closings < 3:
                batch.closings += 1
                batch.is_repeated = True
                batch.target = len(batch.members)
                spec["batch"] = batch.element(False, True)
            elif batch.late_reply_to is None and self.random.random() < 0.3:
                batch.late_reply_to = "late-" + batch.name
                spec["batch"] = {"name": batch.name, "reply_to": batch.late_reply_to}
            else:
                batch.late_reply_to = batch.late_reply_to or ""
                continue
            is_done = False
            push(redis, json.dumps(spec))
        return is_done
