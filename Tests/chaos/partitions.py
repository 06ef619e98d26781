"""A queue of partitions in a chaos run (docs/operate/partitions.md), which all workers serve beside the other one. Some of
its downloads have a step. Each job and its step end once, in the partition that the job's id leads to."""
import binascii
import json
import time

from resp import pairs

COUNT = 3
QUEUE = f"films#{COUNT}"


def prefix(number):
    return f"haul:{{films#{number}of{COUNT}}}:"


def partition_of(id):
    return binascii.crc_hqx(id.encode(), 0) % COUNT


class Partitions:
    RULES = "jobs of partitions lost, doubled or in another one", "files of partitions that are wrong"
    PREFIXES = [prefix(number) for number in range(COUNT)]

    def __init__(self, share, origin, store, blob, pick, placed=partition_of):
        # Where a producer pushes a job: an own rule must be noticed.
        self.share, self.origin, self.store, self.blob, self.pick, self.placed = share, origin, store, blob, pick, placed
        self.pushed, self.steps = {}, set()
        # (queue, id) of each job that was lost with its worker six times in a row. It may fail, as in the other queue.
        self.crashed = []

    def arguments(self, name, number):
        return ["--queue", "default", "--queue", QUEUE]

    def elements(self):
        """What to push now, by chance: keys and elements. A push may be repeated."""
        if self.pick.random() >= self.share:
            return []
        number = len(self.pushed) + 1
        id = f"part-{number}"
        size = self.pick.randrange(1000, 300_000)
        offset = self.pick.randrange(len(self.blob) - size)
        rate = self.pick.choice([0, size // 2])
        self.pushed[id] = (offset, size)
        element = {"id": id, "url": f"{self.origin.url}/f/{offset}/{size}/{rate}", "path": f"q{number % 8}/{id}.bin",
                   "at": round(time.time() * 1000), "reply_to": f"films-{number // 250}", "retries": 200}
        if self.pick.random() < 0.3:
            self.steps.add(id)
            element["then"] = {"kind": "request", "method": "PUT", "id": "step-${id}", "retries": 200,
                               "url": f"{self.origin.url}/u/step-{id}/0", "json": {"bytes": "${bytes}"},
                               "reply_to": element["reply_to"]}
        return [(prefix(self.placed(id)) + "jobs", json.dumps(element))] * self.pick.choice([1, 1, 1, 2])

    # The end.

    def judge(self, run, records):
        found, wrong, ends = [], [], {}
        for number, name in enumerate(self.PREFIXES):
            for list in range(len(self.pushed) // 250 + 1):
                for text in run.redis.call("LRANGE", f"{name}reply:films-{list}", 0, -1):
                    event = json.loads(text)
                    ends.setdefault(event["id"], []).append((number, event["event"], event.get("error")))
        for id, (offset, size) in self.pushed.items():
            step, place = "step-" + id, partition_of(id)
            has_crashed = ends.get(id) == [(place, "failed", "crash_loop")]
            if has_crashed:
                self.crashed.append((f"films#{place}of{COUNT}", id))
                del ends[id]
            for each, is_due in ((id, not has_crashed), (step, not has_crashed and id in self.steps)):
                right, own = [(place, "completed", None)] if is_due else [], ends.pop(each, [])
                if own != right:
                    found.append(f"{each}: it ended as {own} instead of {right}: {self.states(run.redis, each)}")
            data = self.store.read(f"q{int(id[5:]) % 8}/{id}.bin")
            if data != self.blob[offset:offset + size] and not (has_crashed and data is None):
                wrong.append(f"{id}: its file has {'no' if data is None else len(data)} bytes, {size} are right")
        found += [f"{id}: it was never pushed, and it ended as {all}" for id, all in ends.items()]
        return dict(zip(self.RULES, (found, wrong)))

    def states(self, redis, id):
        fields = [pairs(redis.call("HGETALL", name + "job:" + id)) for name in self.PREFIXES]
        return [f"{number}: {each.get('state')} {each.get('error', '')}" for number, each in enumerate(fields) if each]

    def figures(self):
        return {f"jobs of {QUEUE}, steps, crash loops": f"{len(self.pushed)}, {len(self.steps)}, {len(self.crashed)}"}
