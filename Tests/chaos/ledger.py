"""What was promised and what became of it: every accepted push, every file, every byte that the origin sent."""
import json
import threading
import time
from collections import Counter

from refetched import Refetched
from resp import Redis, RedisError, pairs

Q = "haul:{default}:"
# Keys that stay for ever, as docs/bus.md lists them: small, bounded, or trimmed by the tick.
PERMANENT = {Q + name for name in (
    "tick", "workers", "completed", "failed", "cancelled", "rejected", "settings", "deadlines", "places",
    "epoch", "totals")}


class Job:
    def __init__(self, id, path, offset, size, source, element):
        self.id, self.path, self.offset, self.size = id, path, offset, size
        self.source, self.element = source, element
        self.accepted = False
        self.cancelled = self.pushed_again = False
        self.verified = False


class Ledger:
    def __init__(self, topology, store, lease):
        self.topology, self.store, self.lease = topology, store, lease
        self.lock, self.looking = threading.Lock(), threading.Lock()
        self.jobs, self.wrong, self.ahead = {}, [], []
        self.events, self.samples = Counter(), 0
        self.lost_with, self.redis_faults = {}, []
        self.recoveries, self.disturbed_recoveries = [], []
        self.refetched = Refetched()

    # While it runs.

    def add(self, job):
        with self.lock:
            self.jobs[job.id] = job

    def disturb(self):
        """A fault of Redis begins; what is returned ends it, however often it is called."""
        fault = [time.time(), float("inf")]
        self.redis_faults.append(fault)
        return lambda: fault.__setitem__(1, min(fault[1], time.time()))

    def is_disturbed(self, since, until):
        """Whether Redis had a fault between, or one that still kept its workers from being missed."""
        return any(began < until and since < ended + self.lease + 4 for began, ended in self.redis_faults)

    def losing(self, worker):
        """Before a worker is killed or frozen: what it runs must run again elsewhere. Returns its runs: the job, its
        hash and its offsets."""
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
                    runs.append((self.jobs[id], fields, [(int(a), int(b)) for a, b in pairs(offsets).items()]))
            redis.close()
        except (ConnectionError, RedisError):
            pass
        return runs

    def heard(self, event):
        name, id = event["event"], event["id"]
        self.events[name] += 1
        self.refetched.heard(id, event, self.is_disturbed)
        lost = self.lost_with.get(id)
        if lost and event["at"] / 1000 > lost[0]:
            if name in ("started", "resumed"):
                hurt = self.is_disturbed(lost[0], event["at"] / 1000)
                (self.disturbed_recoveries if hurt else self.recoveries).append(event["at"] / 1000 - lost[0])
            if name in ("started", "resumed", "completed", "paused", "cancelled", "failed"):
                self.lost_with.pop(id, None)

    def sample_offsets(self, redis, id):
        """Offsets in Redis must not be ahead of the store that they speak of."""
        job = self.jobs.get(id)
        replies = redis.calls([
            ("MULTI",), ("HGETALL", Q + "job:" + id), ("HGETALL", Q + "offsets:" + id), ("EXEC",)])
        if not job or not isinstance(replies[3], list):
            return
        fields, offsets = map(pairs, replies[3])
        if not fields.get("generation"):
            return
        found = self.store.sample(job, fields, [(int(first), int(end)) for first, end in offsets.items()])
        if found is None:
            return
        ahead, count = found
        self.samples += count
        # A run may have begun anew while this was compared.
        if ahead and redis.call("HMGET", Q + "job:" + id, "token", "generation") == [
                fields.get("token"), fields["generation"]]:
            self.ahead += ahead

    def verify(self, job):
        # Whoever looks at a large file takes it away: one at a time.
        with self.looking:
            if job.verified and job.size > 1 << 20:
                return
            if not self.store.is_right(job):
                self.wrong.append(f"{job.id}: {job.path} is not what the origin has")
            job.verified = True

    # At the end.

    def close(self, sent):
        """Returns the violations by kind, and the figures."""
        redis = Redis(self.topology.locate)
        accepted = [job for job in self.jobs.values() if job.accepted]
        states, lost, unasked, unfinished, results = Counter(), [], [], [], self.results(redis)
        excess = Counter()
        for job in accepted:
            fields = pairs(redis.call("HGETALL", Q + "job:" + job.id))
            state = fields.get("state")
            states[state if state != "failed" else "failed " + fields.get("error", "?")] += 1
            if state not in ("completed", "failed", "cancelled"):
                lost.append(f"{job.id}: {state}")
            elif state == "failed" and fields.get("error") != "crash_loop":
                unasked.append(f"{job.id}: failed, {fields.get('error')}: {fields.get('message')}")
            elif state == "cancelled" and (not job.cancelled or job.pushed_again):
                unasked.append(f"{job.id}: cancelled, which nobody wanted")
            elif state == "completed":
                if not job.verified or job.size <= 1 << 20:
                    self.verify(job)
                elif self.store.is_there(job):
                    self.wrong.append(f"{job.id}: {job.path} came back after its end")
                excess[job.id] = sent.get(job.source, 0) - job.size
            if state == "failed":
                unfinished.append(job.id)
            told = results.get(job.id, [])
            if state in ("completed", "failed") and told.count(state) != 1 or told[-1:] != [state]:
                unasked.append(f"{job.id}: {state}, but told {told}")
        left = [key for key in redis.call("KEYS", "*") if not self.may_stay(redis, key)]
        return {
            "lost": lost, "wrong": self.wrong, "not as asked": unasked,
            f"offsets ahead of {self.store.NAME}": self.ahead, "names given before the file was whole": self.store.early,
            "keys left behind": left,
        }, {
            "accepted": len(accepted), "states": states, "excess": excess, "unfinished": unfinished,
            "bytes": sum(job.size for job in accepted if job.id in excess),
        }

    def results(self, redis):
        """The final events by id, oldest first, from the producers' lists: no event is missed there."""
        told = {}
        for name in {json.loads(job.element)["reply_to"] for job in self.jobs.values()}:
            for text in reversed(redis.call("LRANGE", f"{Q}reply:{name}", 0, -1)):
                event = json.loads(text)
                told.setdefault(event["id"], []).append(event["event"])
                if event.get("meta") != {"id": event["id"], "list": []}:
                    self.wrong.append(f"{event['id']}: its meta came back as {event.get('meta')}")
        return told

    @staticmethod
    def may_stay(redis, key):
        return key in PERMANENT or redis.call("PTTL", key) > 0
