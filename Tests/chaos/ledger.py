"""Every accepted push, every file and every byte that the origin sent, and the checks of their results."""
import json
import threading
import time
from collections import Counter, deque

from counts import Counts
from refetched import Refetched
from resp import Redis, RedisError, pairs

Q = "haul:{default}:"
# Keys without an expiry, as listed in docs/reference/keys.md: small, bounded, or trimmed by the tick.
PERMANENT = {
    "tick", "workers", "completed", "failed", "cancelled", "rejected", "settings", "deadlines", "permits", "epoch", "totals",
    "responses", "response_bytes", "reply_bytes", "batches", "urls", "limits", "defaults", "log"}


class Job:
    """A job. Some fields apply only to one kind."""

    def __init__(self, id, path, offset, size, source, element, kind="download"):
        self.id, self.path, self.offset, self.size = id, path, offset, size
        self.source, self.element, self.kind = source, element, kind
        # For an upload: the paths at the origin, and the slice of the blob that must be there.
        self.files = []
        # Whether the job must not be sent twice without permission.
        self.is_once = False
        self.accepted = False
        self.cancelled = self.pushed_again = False
        self.verified = False
        # Whether the job can only fail; whether a control operation was made for the job alone; the job's batch.
        self.fails = self.has_operation = False
        self.batch = None
        # The pair of jobs for one name that the job belongs to (rivals.py).
        self.pair = None
        # How often a continuation was requested. Each permits another attempt if the job has failed by then.
        self.continuations = 0

    @property
    def retries(self):
        """How often the job may have been tried again after a failure."""
        return self.continuations + (self.batch.retries if self.batch else 0)

    @property
    def at(self):
        """The timestamp of the push, in unix ms."""
        return json.loads(self.element)["at"]


class Ledger:
    def __init__(self, topology, store, lease, kinds, batches, rivals, steps, groups, parts):
        self.topology, self.store, self.lease, self.kinds, self.batches = topology, store, lease, kinds, batches
        self.rivals, self.steps, self.groups = rivals, steps, groups
        # What judges itself: `judge` returns violations by rule, and `figures` what to print.
        self.parts = parts
        # The texts of final events on the producers' reply lists, by (id, epoch, seq).
        self.texts = {}
        self.lock, self.checking = threading.Lock(), threading.Lock()
        # When the first event of each unfinished job arrived.
        self.begun = {}
        # The final events of batches by name; from when on paused jobs and batches are continued, in unix ms.
        self.batch_events, self.drained_from = {}, float("inf")
        self.jobs, self.wrong, self.ahead = {}, [], []
        # Comparisons of offsets, and how many were repeated.
        self.events, self.samples, self.doubts = Counter(), 0, 0
        self.last_events = {}
        self.lost_with, self.redis_faults = {}, []
        self.recoveries, self.disturbed_recoveries = [], []
        # The events of a lost job until it ran again; the slowest of them; how often each job was lost.
        self.events_of_lost, self.slowest, self.losses = {}, (0, None, []), Counter()
        self.refetched = Refetched()

    # During the run.

    def add(self, job):
        with self.lock:
            self.jobs[job.id] = job

    def disturb(self):
        """A fault of Redis begins. The returned function ends the fault, and may be called repeatedly."""
        fault = [time.time(), float("inf")]
        self.redis_faults.append(fault)
        return lambda: fault.__setitem__(1, min(fault[1], time.time()))

    def is_disturbed(self, since, until):
        """Whether Redis had a fault in the interval, or one after which lost workers could not be detected yet."""
        return any(began < until and since < ended + self.lease + 4 for began, ended in self.redis_faults)

    def record_expected_losses(self, worker):
        """Called before a worker is killed or frozen. Its jobs must run again elsewhere. Returns its downloads: the
        job, its hash and its offsets."""
        runs = []
        try:
            redis = Redis(self.topology.locate, 1)
            claims = pairs(redis.call("HGETALL", Q + "worker:" + worker))
            for token, id in claims.items():
                if len(token) != 32:
                    continue
                fields, offsets = redis.calls([("HGETALL", Q + "job:" + id), ("HGETALL", Q + "offsets:" + id)])
                fields = pairs(fields)
                if fields.get("state") == "running" and fields.get("token") == token:
                    self.lost_with[id] = (time.time(), token)
                    self.events_of_lost.setdefault(id, []).append(f"lost with {worker}")
                    if id in self.jobs and self.jobs[id].kind == "download":
                        runs.append((self.jobs[id], fields, [(int(a), int(b)) for a, b in pairs(offsets).items()]))
            redis.close()
        except (ConnectionError, RedisError):
            pass
        return runs

    def receive(self, event):
        name, id = event["event"], event.get("id")
        self.events[name] += 1
        if name != "progress":
            self.last_events.setdefault(id, deque(maxlen=12)).append(event)
        if name == "batch_ended":
            self.batch_events.setdefault(event["batch"], []).append(event)
            return
        if name in ("started", "resumed", "requeued", "queued", "retrying", "paused"):
            self.begun.setdefault(id, event["at"])
        self.refetched.receive(id, event, self.is_disturbed)
        if id in self.jobs:
            self.rivals.receive(self.jobs[id], event)
        if name == "requeued" and event["why"] == "worker lost":
            self.losses[id] += 1
        lost = self.lost_with.get(id)
        if lost and event["at"] / 1000 > lost[0]:
            seconds = event["at"] / 1000 - lost[0]
            if name != "progress":
                self.events_of_lost[id].append(f"{name} after {seconds:.1f} s")
            if name in ("started", "resumed"):
                hurt = self.is_disturbed(lost[0], event["at"] / 1000)
                (self.disturbed_recoveries if hurt else self.recoveries).append(seconds)
                self.slowest = max(self.slowest, (seconds, id, self.events_of_lost[id] + [
                    f"Redis had a fault from {began - lost[0]:.1f} to {ended - lost[0]:.1f} s"
                    for began, ended in self.redis_faults
                    if began - lost[0] < seconds and ended > lost[0] - self.lease - 4]))
            if name in ("started", "resumed", "completed", "paused", "cancelled", "failed"):
                self.lost_with.pop(id, None)

    def record(self, redis, id):
        """A job's hash and offsets at one point in time. None if they cannot be read, or if the job has no partial file."""
        replies = redis.calls([
            ("MULTI",), ("HGETALL", Q + "job:" + id), ("HGETALL", Q + "offsets:" + id), ("EXEC",)])
        if not isinstance(replies[3], list):
            return None
        fields, offsets = map(pairs, replies[3])
        return (fields, [(int(first), int(end)) for first, end in offsets.items()]) if fields.get("generation") else None

    def sample_offsets(self, redis, id):
        """Checks that offsets in Redis are not ahead of the store. The record is read before and after, because a run
        may start over or end during the comparison."""
        job = self.jobs.get(id)
        if not job or job.kind != "download":
            return
        first = self.record(redis, id)
        found = first and self.store.sample(job, *first)
        if not found:
            return
        ahead, count = found
        self.samples += count
        self.doubts += bool(ahead)
        for _ in range(self.store.CHECKS):
            if not ahead:
                return
            again = self.record(redis, id)
            if again is None or any(again[0].get(name) != first[0].get(name) for name in ("token", "generation", "state")):
                return
            # A store that is completing or aborting an upload may list only some of its parts.
            time.sleep(1)
            found = self.store.sample(job, *first)
            if found is None:
                return
            ahead = found[0]
        self.ahead += ahead

    def verify(self, job):
        if job.kind != "download" or job.pair:
            return
        # The check of a large file moves the file away. So only one thread at a time may check it.
        with self.checking:
            if job.verified and job.size > 1 << 20:
                return
            if not self.store.is_right(job):
                data, log = self.store.read(job.path), ", ".join(self.events_of_lost.get(job.id, []))
                has = "there is no file" if data is None else f"it has {len(data)} bytes"
                self.wrong.append(f"{job.id}: {job.path} of {job.size} bytes is not what the origin has: {has}; "
                                  f"cancelled {job.cancelled}, pushed again {job.pushed_again}, {log}")
            job.verified = True

    # At the end.

    def close(self, run, sent, kept):
        """Returns the violations by kind, and the figures. `sent` and `kept` come from the origin."""
        redis, records = run.redis, {}
        accepted = [job for job in self.jobs.values() if job.accepted]
        states, lost, unasked, unfinished, ends = Counter(), [], [], [], self.results(redis)
        excess, by_kind, again, twice, crashed = Counter(), Counter(), Counter(), [], []
        for job in accepted:
            fields = records[job.id] = pairs(redis.call("HGETALL", Q + "job:" + job.id))
            state, final_events = fields.get("state"), [event for _, event in ends.get(job.id, [])]
            states[state if state != "failed" else "failed " + fields.get("error", "?")] += 1
            by_kind[job.kind] += 1
            if fields.get("error") == "crash_loop":
                crashed.append(f"{job.id} ({job.kind}): {', '.join(self.events_of_lost.get(job.id, []))}; {fields['message']}")
            if state not in ("completed", "failed", "cancelled"):
                lost.append(f"{job.id}: {state}")
            elif not self.is_as_asked(job, state, fields.get("error")):
                unasked.append(f"{job.id}: {state}, {fields.get('error')}: {fields.get('message')}")
            elif state == "completed" and job.kind == "download":
                if not job.verified or job.size <= 1 << 20:
                    self.verify(job)
                elif not job.pair and self.store.is_there(job):
                    log = self.events_of_lost.get(job.id, []) + self.store.requests(job.path)
                    self.wrong.append("\n    ".join([f"{job.id}: {job.path} came back after its end", *log]))
                excess[job.id] = sent.get(job.source, 0) - job.size
            if state == "failed":
                unfinished.append(job.id)
            if state and job.kind != "download":
                self.wrong += self.kinds.wrong(job, fields, kept)
                way, count = self.kinds.again(job, kept)
                again[way] += count
                # A repeated push, or a retry after a failure, permits another request.
                posts, failed = self.kinds.posts(job, kept), final_events.count("failed") - (state == "failed")
                if posts > 1 + job.pushed_again + min(failed, job.retries):
                    twice.append(f"{job.id}: {posts} times {job.source}")
            most = 1 + job.retries * (state == "failed")
            if state in ("completed", "failed") and not 1 <= final_events.count(state) <= most or final_events[-1:] != [state]:
                unasked.append(f"{job.id}: {state}, but its final events are {final_events}")
        self.wrong += self.rivals.wrong(redis)
        counts = Counts(redis, Q, self, ends)
        for batch in self.batches.all:
            if batch.members:
                counts.judge(batch)
        judged = {}
        for part in self.parts:
            judged |= part.judge(run, records)
        left = [key for key in redis.call("KEYS", "*") if not self.may_stay(redis, key)]
        return {
            "lost": lost, "wrong": self.wrong, "steps doubled or missing": self.steps.wrong(ends), "not as asked": unasked, "batches counted wrong": counts.wrong,
            "limits of a group exceeded": self.groups.wrong,
            f"offsets ahead of {self.store.NAME}": self.ahead, "names given before the file was whole": self.store.early,
            "keys left behind": left, **self.sent_twice(twice), **judged,
        }, {
            "kinds": by_kind, "again": again, "twice": len(twice), "crashed": crashed,
            "accepted": len(accepted), "states": states, "excess": excess, "unfinished": unfinished,
            "batches": (len(self.batches.all), counts.members, counts.rounds, self.batches.requests),
            "pairs": len(self.rivals.all), "steps": len(self.steps.parents), "groups": (self.groups.count, self.groups.most),
            "bytes": sum(job.size for job in accepted if job.id in excess),
        }

    def is_as_asked(self, job, state, error):
        """Whether this end was requested, or a fault may have caused it."""
        if state == "completed":
            return not job.fails
        if state == "cancelled":
            return job.cancelled and not job.pushed_again or job.batch is not None and job.batch.may_cancel(job)
        if job.pair and self.rivals.may_fail(job, error):
            return True
        return job.fails or error == "crash_loop" or job.is_once and error == "outcome_unknown"

    def sent_twice(self, found):
        """After a failover Redis may have forgotten that a request was sent. docs/guides/requests.md permits a second request
        then."""
        return {"sent twice without leave": found} if self.topology.KEEPS_ACKNOWLEDGED else {}

    def results(self, redis):
        """The final events and their times by id, oldest first, from the producers' reply lists. Those miss no
        event."""
        final_events = {}
        for name in {json.loads(job.element)["reply_to"] for job in self.jobs.values()}:
            for text in reversed(redis.call("LRANGE", f"{Q}reply:{name}", 0, -1)):
                event = json.loads(text)
                final_events.setdefault(event["id"], []).append((event["at"], event["event"]))
                if "seq" in event:
                    self.texts[event["id"], event["epoch"], event["seq"]] = text
                if event.get("meta") != {"id": event["id"], "list": []}:
                    self.wrong.append(f"{event['id']}: its meta came back as {event.get('meta')}")
        return final_events

    @staticmethod
    def may_stay(redis, key):
        return key.partition("}:")[2] in PERMANENT or redis.call("PTTL", key) > 0
