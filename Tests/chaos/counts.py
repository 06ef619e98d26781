"""Checks batches by docs/guides/batches.md: the counts, the members, one final event for each round, and one reply.

A final event of a batch has counts. They must equal the counts of its members' own final events up to then. So this
detects a batch that ends while a member is pending, or that counts a member twice, even if the counts are right later.
"""
import json
from collections import Counter

from resp import pairs

STATES = ("pending", "completed", "failed", "cancelled", "rejected")
ENDS = STATES[1:]
# How long a cancelled member may go on, in ms: its worker may be frozen, and Redis stalled.
PATIENCE = 30_000


class Counts:
    """`ends` are the members' final events by id, oldest first, as (at, event)."""

    def __init__(self, redis, prefix, ledger, ends):
        self.redis, self.prefix, self.ledger, self.ends = redis, prefix, ledger, ends
        self.wrong, self.rounds, self.members = [], 0, 0

    def judge(self, batch):
        name = batch.name

        def say(text):
            self.wrong.append(f"batch {name}: {text}")

        keys = self.prefix + "batch:" + name, self.prefix + "members:" + name
        fields, members = (pairs(self.redis.call("HGETALL", key)) for key in keys)
        self.members += len(members)
        self.of_members(batch, members, say)
        found = Counter(members.values())
        counts = {state: int(fields.get(state, -1)) for state in STATES}
        if counts != {state: found[state] for state in STATES}:
            say(f"it counts {counts}, and has {dict(found)}")
        size, rounds = int(fields.get("size", -1)), int(fields.get("round", 0))
        if counts["pending"] or "finished" not in fields or size not in batch.pushed_sizes or size > len(members):
            say(f"it has not ended, or its size was never pushed: {fields}, of {batch.pushed_sizes}")
        if any(self.redis.call("PTTL", key) <= 0 for key in keys):
            say("it has no expiry")
        if self.redis.call("ZSCORE", self.prefix + "batches", name) is None:
            say("it is not listed")
        self.rounds += rounds
        self.of_events(batch, rounds, counts, say)
        self.of_cancels(batch, say)

    def of_members(self, batch, members, say):
        if set(members) != set(batch.members):
            say(f"its members are not those that were pushed: {sorted(set(members) ^ set(batch.members))[:5]}")
        for id, job in batch.members.items():
            state = self.redis.call("HGET", self.prefix + "job:" + id, "state") if job else "rejected"
            if members.get(id) != state:
                say(f"{id} is {state}, and counts as {members.get(id)}")

    def list(self, name):
        return [json.loads(text) for text in reversed(self.redis.call("LRANGE", f"{self.prefix}reply:{name}", 0, -1))]

    def of_events(self, batch, rounds, counts, say):
        received = self.ledger.batch_events.get(batch.name, [])
        numbers = [event["round"] for event in received]
        # A failover may repeat an event that Redis has forgotten.
        if self.ledger.topology.KEEPS_ACKNOWLEDGED and len(set(numbers)) != len(numbers):
            say(f"events were received of the rounds {numbers}")
        events = received if self.ledger.topology.KEEPS_ACKNOWLEDGED else []
        if batch.reply_to:
            events = self.list(batch.reply_to)
            numbers = [event["round"] for event in events]
            if numbers != list(range(1, rounds + 1)):
                say(f"it ended {rounds} times, and its reply list has the rounds {numbers}")
        if batch.late_reply_to:
            late = [event["round"] for event in self.list(batch.late_reply_to)]
            if late != [rounds]:
                say(f"it ended {rounds} times, and its late reply list has the rounds {late}")
        before = 0
        for event in events:
            self.of_event(batch, event, before, say)
            before = event["at"]
        if events and events[-1]["round"] == rounds and any(events[-1][state] != counts[state] for state in ENDS):
            say(f"its last event was {events[-1]}, and it counts {counts}")

    def of_event(self, batch, event, before, say):
        at, found = event["at"], Counter()
        for id in batch.members:
            ended = [state for timestamp, state in self.ends.get(id, []) if timestamp <= at]
            if ended:
                found[ended[-1]] += 1
            elif self.ledger.topology.KEEPS_ACKNOWLEDGED and self.ledger.begun.get(id, at) < at:
                say(f"it had ended at {at}, while {id} was pending")
        announced = {state: event[state] for state in ENDS}
        if announced != {state: found[state] for state in ENDS}:
            say(f"its event of {at} has {announced}, and its members had ended as {dict(found)}")
        if sum(announced.values()) < event["size"] or event["size"] not in batch.pushed_sizes:
            say(f"its event has another size: {event}")
        # A repeated push may name an earlier size. Then the batch may end again without a new end of a member.
        is_ambiguous = batch.is_repeated and len(set(batch.pushed_sizes)) > 1
        is_new = any(before < timestamp <= at for id in batch.members for timestamp, _ in self.ends.get(id, []))
        if not is_new and not is_ambiguous:
            say(f"it ended once more at {at}, and none of its members has ended since {before}")

    def of_cancels(self, batch, say):
        """A member that was pending when the batch was cancelled must end as cancelled."""
        for written, applied in batch.cancels:
            for id, job in batch.members.items():
                # A member that was pushed shortly before may still have been in the queue when the batch had ended.
                is_met = job and job.at < written - 15_000 and applied < self.ledger.drained_from - 5000
                if not is_met or job.has_operation or job.pushed_again:
                    continue
                late = [state for timestamp, state in self.ends.get(id, []) if timestamp > applied + PATIENCE]
                if late and self.ends[id][0][0] > applied:
                    say(f"{id} ended as {late} long after all were cancelled")
