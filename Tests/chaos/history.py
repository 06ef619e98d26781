"""One job, the random acts on it, and the check that it ends as the oracle allows."""
import hashlib
import json
import os
import random
import time

from oracle import ACTIVE, COMPLETED, FAILED, GOING, NO_FILE, UNKNOWN, Act, outcomes
from resp import Redis, pairs

Q = "haul:{default}:"
REQUESTS = ["paused"] * 4 + ["cancelled"] * 3 + ["running"] * 2 + ["removed", "deleted"]
OF_BATCH = ["paused"] * 4 + ["cancelled"] * 3 + ["running"] * 3 + ["retried"] * 2
ACTIVES = ("queued", "running", "scheduled")


class History:
    """One job and the acts on it."""

    def __init__(self, bench, number, seed):
        self.bench, self.random = bench, random.Random(seed * 1_000_003 + number)
        self.redis, self.id = Redis(bench.server.socket, 30), f"h{number}"
        self.is_quick = self.random.random() < 0.3
        size, rate = (2000, 0) if self.is_quick else (120_000, 1024)
        self.source = f"/f/{number * 1000}/{size}/{rate}"
        self.offset = self.random.choices([None, 0, 60_000, -60_000], [25, 45, 20, 10])[0]
        self.acts, self.log, self.elements, self.values = [], [], [], {}
        self.late = None
        # The job may be the only member of a batch. Operations for the batch begin once the job has been claimed.
        self.batch = f"b{number}" if self.random.random() < 0.5 else None
        self.is_member = False

    # The acts.

    def now(self):
        seconds, microseconds = self.redis.call("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def stamp(self):
        """A timestamp of its own. The contract gives no order to two acts in one millisecond."""
        before = self.now()
        while True:
            now = self.now()
            if now > before:
                return now

    def act(self, kind, at=None):
        began = self.stamp()
        act = Act(kind, began, len(self.acts), at)
        self.acts.append(act)
        return act

    def push(self, kind):
        is_timed = self.offset is not None and self.random.random() < 0.8
        act = self.act(kind)
        spec = {"id": self.id}
        if kind == "push":
            spec |= {"url": self.bench.origin.url + self.source, "path": self.id, "retries": 100 + act.number}
            if self.batch:
                spec["batch"] = self.batch
        if is_timed:
            act.at = spec["at"] = act.began + self.offset
        self.send(act, json.dumps(spec))
        if is_timed:
            self.elements.append((spec["at"], json.dumps(spec)))

    def repeat(self):
        """Repeats a producer's push. Of a clock that is ahead, Redis remembers only the last `at`."""
        ahead = [element for element in self.elements if self.offset > 0][-1:] if self.offset else []
        at, element = self.random.choice(ahead or self.elements)
        self.send(self.act("push" if "url" in element else "continuation", at), element)

    def send(self, act, element):
        self.redis.call(self.random.choice(["LPUSH", "LPUSH", "LPUSH", "RPUSH"]), Q + "jobs", element)
        act.ended = self.now()
        self.log.append((act.number, element))

    def nonsense(self):
        """Pushes an invalid element, which must change nothing."""
        element = json.dumps({"url": self.bench.origin.url + self.source, "id": self.id, "headers": ["none"]})
        self.redis.call("LPUSH", Q + "jobs", element)
        self.log.append(("-", element))

    def request(self, next_is_push):
        is_of_batch = self.is_member and self.random.random() < 0.5
        act = self.act("batch " + self.random.choice(OF_BATCH) if is_of_batch else self.random.choice(REQUESTS))
        if self.random.random() < 0.6:
            act.at = act.began
            # As in a bulk operation, which arrives long after its timestamp.
            if next_is_push and self.random.random() < (0.8 if is_of_batch else 0.4):
                self.late = act
                return
        self.write(act)

    def write(self, act):
        field = "batch/" + self.batch if act.is_batch else self.id
        value = act.kind.removeprefix("batch ") + ("" if act.at is None else f" {act.at}")
        commands = [("MULTI",), ("HGET", Q + "want", field), ("HSET", Q + "want", field, value), ("EXEC",)]
        before = self.redis.calls(commands)[-1][0]
        act.ended = self.now()
        if before is not None:
            self.write_over(before, act)
        self.values[act.number] = value
        if self.random.random() < 0.5 and not act.is_batch:
            self.redis.call("PUBLISH", Q + "control", self.id)
        self.log.append((act.number, value if field == self.id else f"{field} {value}"))

    def write_over(self, before, act):
        """The operation has overwritten another one, which may not have been applied."""
        written = [other for other in self.acts if other.number in self.values and other.is_batch == act.is_batch]
        if not act.is_batch and written and before == self.values[written[-1].number]:
            written[-1].is_lost = True
            return
        # An operation for the batch may be on its way to its member, or have reached the member.
        for other in [other for other in self.acts if other.is_batch and other.number in self.values][-2:]:
            other.is_doubtful = True

    # The state of the job.

    def is_quiet(self):
        """Whether every push has been claimed and every operation applied."""
        names = [Q + "jobs", *(Q + "held:" + worker.name for worker in self.bench.workers)]
        commands = [("MULTI",), *(("LRANGE", name, 0, -1) for name in names), ("HMGET", Q + "want", self.id, f"batch/{self.batch}"), ("EXEC",)]
        *lists, wanted = self.redis.calls(commands)[-1]
        return wanted == [None, None] and not any(f'"{self.id}"' in element for elements in lists for element in elements)

    def rest(self, seconds):
        """Waits until the queue is quiet. Then all acts so far are done. Returns False after `seconds`."""
        end = time.monotonic() + seconds
        while not self.is_quiet():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        now = self.now()
        for act in self.acts:
            act.done = min(act.done, now)
        self.is_member = self.batch is not None and any(act.kind == "push" for act in self.acts)
        return True

    def hash(self):
        return pairs(self.redis.call("HGETALL", Q + "job:" + self.id))

    def settle(self, seconds):
        """Waits until nothing is in progress, and returns the job's hash. None after `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.rest(1):
                job = self.hash()
                state = job.get("state")
                is_pending = state in ACTIVES and ("want" in job or "next_push" in job or self.is_quick)
                if state not in ("queued", "scheduled") and not is_pending and self.is_quiet():
                    return self.hash()
            time.sleep(0.05)
        return None

    # The whole history.

    def plan(self):
        """The acts in order: anything; or several acts on a run before it applies the first one; or a repeat after a
        stop."""
        pick = self.random
        shape = pick.choices(["any", "dense", "repeated"], [60, 25, 15])[0]
        self.is_dense = shape == "dense"
        if shape == "dense":
            return ["push", "rest", "request", pick.choice(["push", "continuation"]), "request",
                    *pick.choices(["push", "request", "repeat"], k=pick.randrange(2))]
        if shape == "repeated":
            return ["push", "rest", "request", "rest", "repeat", *pick.choices(["repeat", "nonsense", "request"], k=pick.randrange(2))]
        kinds = ["push"] + pick.choices(["push", "continuation", "request", "repeat", "nonsense"],
                                        [20, 15, 50, 15, 5], k=pick.randrange(2, 7))
        if pick.random() < 0.15:
            kinds[:2] = ["request", "push"]
        elif self.batch:
            kinds[1:1] = ["rest"]
        return kinds

    def wait(self):
        gap = self.random.randrange(4)
        if gap == 3 and not self.late:
            self.rest(5)
        elif gap:
            time.sleep(self.random.uniform(0, 0.02 if gap == 1 else 0.3))

    def go(self):
        kinds, self.began = self.plan(), time.monotonic()
        for index, kind in enumerate(kinds):
            late, self.late = self.late, None
            if kind in ("push", "continuation"):
                self.push(kind)
            elif kind == "repeat" and self.elements:
                self.repeat()
            elif kind == "request" and not late:
                self.request(kinds[index + 1:index + 2] in (["push"], ["continuation"]))
            elif kind == "nonsense":
                self.nonsense()
            elif kind == "rest":
                self.rest(5)
            if late:
                self.write(late)
            if not self.is_dense:
                self.wait()
        if self.late:
            self.write(self.late)
        self.ended = time.monotonic()
        job = self.settle(self.bench.options.patience)
        return self.judge(job) or self.batch and self.judge_batch()

    def judge_batch(self):
        """None, or what is wrong with the counts of the job's batch."""
        def counted():
            count, state = self.redis.call("HGET", Q + "members:" + self.batch, self.id), self.hash().get("state")
            counts = pairs(self.redis.call("HGETALL", Q + "batch:" + self.batch))
            right = {count} if state is None else {"pending"} if state in (*ACTIVES, "paused") else {state}
            ones = {name for name in ("pending", "completed", "failed", "cancelled", "rejected") if counts.get(name) != "0"}
            return count, state, counts, count in right and ones == {count} and counts[count] == "1"

        if not self.is_member or self.until(lambda: counted()[-1], 5):
            return None
        return f"its batch counts otherwise: {counted()[:-1]}"

    def judge(self, job):
        """None, or what is wrong with the job."""
        if job is None:
            return f"it does not come to rest: {self.hash()}"
        state = job.get("state", UNKNOWN)
        state = ACTIVE if state in ACTIVES else state
        allowed = outcomes(self.acts, self.is_quick)
        fitting = [model for model in allowed if model.state == state]
        if not fitting:
            return f"it is {state}, and not {' or '.join(sorted({model.state for model in allowed}))}"
        if state == ACTIVE or state == "paused":
            spec = self.redis.call("HGET", Q + "spec:" + self.id, "spec")
            # A push that is not from this history has no number.
            begun_by = json.loads(spec).get("retries", 0) - 100 if spec else None
            # If the producer's clock is behind, it is not known which push came first.
            if (self.offset or 0) >= 0 and begun_by not in [model.begun_by for model in fitting]:
                return f"it began with push {begun_by}, and not with one of {sorted({s.begun_by for s in fitting})}"
        elif state != FAILED and not self.until(lambda: not self.partials()):
            return f"it is {state}, and its partial file stays: {self.partials()}"
        file = os.path.join(self.bench.root, self.id)
        if state == COMPLETED and not os.path.exists(file):
            return "it is completed, and its file is not there"
        if state == FAILED and not os.path.exists(file):
            return "it is failed because of a file that is not there"
        if state == FAILED and job.get("error") != "file_exists":
            return f"it is failed as {job.get('error')}: {job.get('message')}"
        if state == UNKNOWN and all(model.file in (NO_FILE, GOING) for model in fitting) and not self.may_be_cut_off():
            if not self.until(lambda: not os.path.exists(file)):
                return "its finished file was to be deleted, and is there"
        return None

    def may_be_cut_off(self):
        """Whether a worker was killed while the job was active. It may have named the file without settling the run, and
        then the file stays if the job is removed or deleted before its next run."""
        return self.is_quick and any(self.began < killed < self.ended for killed in self.bench.kills)

    def until(self, condition, seconds=75):
        """Waits for a condition. Leftovers are removed within a minute."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def partials(self):
        beginning = ".haul-" + hashlib.sha1(f"default\n{self.id}".encode()).hexdigest()
        return [name for name in os.listdir(self.bench.root) if name.startswith(beginning)]

    def description(self):
        acts = {act.number: act for act in self.acts}
        first = min((act.began for act in self.acts), default=0)
        lines = []
        for number, text in self.log:
            act = acts.get(number)
            times = "" if act is None else (
                f" sent {act.began - first}..{act.ended - first}, done by {act.done - first if act.done < 1 << 60 else '-'}"
                + (f", at {act.at - first}" if act.at is not None else "") + (", written over" if act.is_lost else ""))
            lines.append(f"    {number}: {text}{times}")
        return "\n".join(lines)
