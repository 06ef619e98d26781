"""What may become of a job: the order and the tables of docs/bus.md, done one after the other.

An act is a push or a request, with what is known of its moment: exactly (`at`), or an interval. Every order of the acts that
fits their moments is played; each says how the job may stand at the end. The oracle knows the contract and nothing else.
"""
from dataclasses import dataclass
from typing import Optional

UNKNOWN, ACTIVE, PAUSED, CANCELLED, COMPLETED = "unknown", "active", "paused", "cancelled", "completed"
ENDS = {"cancelled", "removed", "deleted"}
INFINITY = 1 << 62


@dataclass
class Act:
    """`kind` is push, continuation, or a request's word. In unix ms by Redis' clock: what is sent is sent after `began`, has
    arrived by `ended`, and was taken or heard by `done`."""
    kind: str
    began: int
    number: int
    at: Optional[int] = None
    ended: int = 0
    done: int = INFINITY
    # Written over by the next request before anybody had heard of it.
    is_lost: bool = False

    @property
    def is_push(self):
        return self.kind in ("push", "continuation")

    @property
    def earliest(self):
        if self.at is not None:
            return min(self.at, self.began) if self.is_push else self.at
        # A request without a time may be as old as the last look at the queue.
        return self.began if self.is_push else self.began - 3000

    @property
    def latest(self):
        if self.at is not None:
            # One that is ahead counts as made when it is taken.
            return self.at if self.at <= self.began else self.done
        return self.done if self.is_push else self.ended


def is_before(one, other):
    """Whether `one` surely counts before `other`."""
    if one.is_push and not other.is_push:
        # Of one millisecond the request is the newer; what was taken is older than a request without a time, and so is a
        # push without a time than any that is written after it was taken.
        if one.latest <= other.earliest:
            return True
        return one.done < other.began and (other.at is None or one.at is None)
    if not one.is_push and other.is_push:
        # A push without a time is newer than all requests that were written before it.
        return one.latest < other.earliest or (other.at is None and one.ended < other.began)
    if not one.is_push and not other.is_push:
        return one.number < other.number
    return one.latest < other.earliest


def orders(acts):
    """Every order that fits."""
    if not acts:
        yield []
        return
    for index, first in enumerate(acts):
        rest = acts[:index] + acts[index + 1:]
        if not any(is_before(other, first) for other in rest):
            for order in orders(rest):
                yield [first] + order


@dataclass(frozen=True)
class Standing:
    state: str = UNKNOWN
    # The request that waits for the first push of a job that nobody knows, and when it had arrived.
    stub: Optional[str] = None
    stub_ended: int = 0
    # The number of the push that the job began with.
    begun_by: Optional[int] = None
    # It was removed while it ran: its worker may not have heard of that yet.
    is_removed: bool = False
    # Its finished file is there.
    has_file: bool = False


def ended(word):
    return Standing(CANCELLED if word == "cancelled" else UNKNOWN)


def stopped(word, push):
    """A push that met a request which waited for it."""
    return Standing(PAUSED, begun_by=push.number) if word == "paused" else ended(word)


def step(standing, act):
    """How the job stands after an act."""
    state = standing.state
    if act.kind == "push":
        if state in (ACTIVE, PAUSED):
            return Standing(ACTIVE, begun_by=standing.begun_by)
        if standing.stub and act.at is None:
            return stopped(standing.stub, act)
        return Standing(ACTIVE, begun_by=act.number)
    if act.kind == "continuation":
        return Standing(ACTIVE, begun_by=standing.begun_by) if state == PAUSED else standing
    if act.kind == "running":
        if state == PAUSED:
            return Standing(ACTIVE, begun_by=standing.begun_by)
        return Standing(UNKNOWN, has_file=standing.has_file) if standing.stub == "paused" else standing
    if state == UNKNOWN:
        # What ends a job is not taken back by a pause.
        if standing.stub in ENDS and act.kind == "paused":
            return standing
        word = standing.stub if standing.stub in ("removed", "deleted") and act.kind == "cancelled" else act.kind
        # Whatever comes after the job was forgotten, its finished file is nobody's to delete.
        return Standing(UNKNOWN, stub=word, stub_ended=act.ended, has_file=standing.has_file)
    if act.kind == "paused":
        return Standing(PAUSED, begun_by=standing.begun_by) if state == ACTIVE else standing
    if act.kind == "cancelled":
        return ended("cancelled") if state in (ACTIVE, PAUSED) else standing
    return Standing(UNKNOWN, is_removed=state == ACTIVE, has_file=standing.has_file and act.kind == "removed")


def outcomes(acts, is_quick):
    """How the job may stand at the end. A quick one may be completed at any time after it began."""
    known, effective = set(), []
    for act in sorted((act for act in acts if not act.is_lost), key=lambda act: act.number):
        # The same `at` once more is a repeat, and asks for nothing.
        if act.is_push and act.at is not None:
            if act.at in known:
                continue
            known.add(act.at)
        effective.append(act)
    # By a clock that is behind a push may count as first that came last: then it can not be told whether the job was known when
    # a push without a time met a request.
    is_behind = any(act.is_push and act.at is not None and act.at < act.began - 1000 for act in effective)
    stops = {act.kind for act in effective if not act.is_push and act.kind != "running"}
    result = set()
    for order in orders(effective):
        standings = {Standing()}
        for act in order:
            after = {step(standing, act) for standing in standings}
            if not act.is_push:
                # As long as the run goes on, a request is for it, and waits for no push.
                after |= {standing for standing in standings if standing.is_removed}
            if act.kind == "push" and act.at is None:
                # One that arrived before the request, whenever that was made, has nothing to wait for.
                if any(standing.stub and standing.stub_ended > act.began for standing in standings):
                    after.add(Standing(ACTIVE, begun_by=act.number))
            if act.kind == "push" and act.at is None and is_behind:
                after |= {Standing(ACTIVE, begun_by=act.number)} | {stopped(word, act) for word in stops}
            standings = after
            if is_quick:
                standings |= {Standing(COMPLETED, begun_by=standing.begun_by, has_file=True)
                              for standing in standings if standing.state == ACTIVE}
        if is_quick:
            # There is time enough at the end.
            standings = {Standing(COMPLETED, begun_by=standing.begun_by, has_file=True) if standing.state == ACTIVE else
                         standing for standing in standings}
        result |= standings
    return result
