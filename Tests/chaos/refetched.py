"""The cost of a kill: the bytes that a killed run had read, and that the next run of its job requests again.

A run has read what the origin sent to it, minus what the kernel still held. This is counted while the worker is
stopped, just before it is killed. The run had these bytes and those of the offsets in Redis. The first event of the
next run says how many bytes are there. Bytes that were only in the worker's memory, or on its disk but not reported,
count as lost.
"""
import json
import threading
import time

BOUND = 64 << 20


class Refetched:
    def __init__(self):
        self.lock = threading.Lock()
        self.waiting = {}
        # Bytes, and the run's bytes per second. Runs during a fault of Redis are separate, since nothing could be
        # reported then.
        self.after_kills, self.disturbed, self.beyond = [], [], []

    def record_kill(self, origin, runs):
        """Called for a stopped worker. `runs` are (job, fields of its hash, its offsets as (first, end))."""
        for job, fields, offsets in runs:
            started = int(fields["started"]) / 1000
            own = [(at, first, first + count) for at, first, count in json.loads(origin.ask("/read" + job.source))
                   if at >= started - 0.001]
            had, now = covered([(first, end) for _, first, end in own] + offsets), time.time()
            seconds = max(0.1, now - min((at for at, *_ in own), default=now))
            speed = max(int(fields.get("speed", 0)), covered([(a, b) for _, a, b in own]) / seconds)
            with self.lock:
                self.waiting[job.id] = (now, had, speed)

    def receive(self, id, event, is_disturbed):
        """`is_disturbed(since, until)` returns whether Redis had a fault in the interval."""
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
    """How many bytes are in at least one of the ranges."""
    count, reached = 0, 0
    for first, end in sorted(ranges):
        count += max(0, end - max(first, reached))
        reached = max(reached, end)
    return count
