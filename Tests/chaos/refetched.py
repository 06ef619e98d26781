"""What a kill costs: the bytes that a killed run had read and the next run of its job asks for again.

Read by the run is what the origin sent it without what the kernel still held, counted while the worker is stopped, just
before it is killed. Had is that together with the offsets in Redis; the next run says in its first event how much of
it is there. What lay in the worker's own memory, or on its disk without being told, counts against it.
"""
import json
import threading
import time

BOUND = 64 << 20


class Refetched:
    def __init__(self):
        self.lock = threading.Lock()
        self.waiting = {}
        # Bytes and the run's bytes per second; apart while Redis had a fault, too: then nothing could be told in time.
        self.after_kills, self.disturbed, self.beyond = [], [], []

    def killing(self, origin, runs):
        """Of a stopped worker: `runs` are (job, fields of its hash, its offsets as (first, end))."""
        for job, fields, offsets in runs:
            started = int(fields["started"]) / 1000
            own = [(at, first, first + count) for at, first, count in json.loads(origin.ask("/read" + job.source))
                   if at >= started - 0.001]
            had, now = covered([(first, end) for _, first, end in own] + offsets), time.time()
            seconds = max(0.1, now - min((at for at, *_ in own), default=now))
            speed = max(int(fields.get("speed", 0)), covered([(a, b) for _, a, b in own]) / seconds)
            with self.lock:
                self.waiting[job.id] = (now, had, speed)

    def heard(self, id, event, is_disturbed):
        """`is_disturbed(since, until)` tells whether Redis had a fault between."""
        with self.lock:
            if id not in self.waiting or event["at"] / 1000 <= self.waiting[id][0]:
                return
            if event["event"] not in ("started", "resumed", "completed", "paused", "cancelled", "failed"):
                return
            at, had, speed = self.waiting.pop(id)
        if event["event"] not in ("started", "resumed"):
            return
        again = max(0, had - event.get("offset", 0))
        if is_disturbed(at, event["at"] / 1000):
            return self.disturbed.append((again, speed))
        self.after_kills.append((again, speed))
        if again > max(BOUND, speed):
            self.beyond.append(f"{id}: {again >> 20} MiB of {had >> 20} MiB, at {speed / 1048576:.0f} MiB a second")


def covered(ranges):
    """How many bytes are in at least one of them."""
    count, reached = 0, 0
    for first, end in sorted(ranges):
        count += max(0, end - max(first, reached))
        reached = max(reached, end)
    return count
