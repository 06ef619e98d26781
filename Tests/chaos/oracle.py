"""The possible ends of a job, by the order and the tables of docs/reference/ordering.md.

An act is a push or a control operation. Its timestamp is known exactly (`at`), or as an interval. The oracle plays every order of
the acts that fits their timestamps. Each order gives a set of possible ends. The oracle knows nothing but the contract.
"""
from dataclasses import dataclass, replace
from typing import Optional

UNKNOWN, ACTIVE, PAUSED = "unknown", "active", "paused"
CANCELLED, COMPLETED, FAILED = "cancelled", "completed", "failed"
ENDS = {"cancelled", "removed", "deleted"}
INFINITY = 1 << 62
# For how long (ms) a run may go on after an operation for it was applied: its worker may be killed meanwhile.
STOPPING = 10_000


@dataclass
class Act:
    """`kind` is push, continuation, or an operation's word. For an operation for the job's batch it begins with `batch `.
    Times are unix ms by Redis' clock. The act is sent after `began`, has arrived by `ended`, and is claimed or applied
    by `done`. Acts in one millisecond have no order."""
    kind: str
    began: int
    number: int
    at: Optional[int] = None
    ended: int = 0
    done: int = INFINITY
    # Overwritten by the next operation before it was applied.
    is_lost: bool = False
    # The act may have had no effect.
    is_doubtful: bool = False

    @property
    def is_push(self):
        return self.kind in ("push", "continuation")

    @property
    def is_batch(self):
        return self.kind.startswith("batch ")

    @property
    def earliest(self):
        if self.is_batch and self.at is None:
            return self.began
        if self.at is not None:
            return min(self.at, self.began) if self.is_push else self.at
        # An operation without a time may be as old as the last tick of the queue.
        return self.began if self.is_push else self.began - 3000

    @property
    def latest(self):
        if self.at is not None:
            # A push by a clock that is ahead counts as made when it is claimed.
            return self.at if self.at <= self.began else self.done
        # An operation for a batch counts as made when it is applied.
        return self.done if self.is_push or self.is_batch else self.ended


def is_before(one, other):
    """Whether `one` certainly counts before `other`."""
    if one.is_batch and not other.is_push or other.is_batch and not one.is_push:
        return one.done < other.began
    if one.is_push and not other.is_push:
        # In one millisecond the operation is newer. A push that was claimed is older than an operation without a time. A
        # push without a time is older than any operation that is written after the claim.
        if one.latest <= other.earliest:
            return True
        return one.done < other.began and (other.at is None or one.at is None)
    if not one.is_push and other.is_push:
        # A push without a time is newer than all operations that were written before it, except a batch's, which must be
        # applied first.
        arrived = one.done if one.is_batch and one.at is None else one.ended
        return one.latest < other.earliest or (other.at is None and arrived < other.began)
    if not one.is_push and not other.is_push:
        return one.number < other.number
    return one.latest < other.earliest


def orders(acts):
    """Every order that fits the timestamps."""
    if not acts:
        yield []
        return
    for index, first in enumerate(acts):
        rest = acts[:index] + acts[index + 1:]
        if not any(is_before(other, first) for other in rest):
            for order in orders(rest):
                yield [first] + order


# Where the finished file of a job may be: nowhere; at the job, whose record names it; without a record, since the job
# was forgotten; or there until a worker of the store deletes it, unless the job is pushed again before.
NO_FILE, OWN, FOREIGN, GOING = "no file", "own", "foreign", "going"


@dataclass(frozen=True)
class Model:
    state: str = UNKNOWN
    # The operation that waits for the first push of an unknown job, and when it had arrived.
    tombstone: Optional[str] = None
    tombstone_ended: int = 0
    # The number of the push with which the job began.
    begun_by: Optional[int] = None
    # Whether the job was removed while it ran. Its worker may not have applied that yet.
    is_removed: bool = False
    # Until when the run of a paused job may go on.
    may_run_until: int = 0
    file: str = NO_FILE

    @property
    def end(self):
        """The end of a quick job that nothing stops. The job fails if a foreign file is in its way."""
        if self.file == FOREIGN:
            return replace(self, state=FAILED)
        return replace(self, state=COMPLETED, file=OWN)


def stopped(model, word, push):
    """A push for which an operation was waiting."""
    if word == "paused":
        return Model(PAUSED, begun_by=push.number, file=model.file)
    return cancelled(model) if word == "cancelled" else forgotten(model)


def cancelled(model):
    return Model(CANCELLED, file=model.file)


def forgotten(model, **more):
    """The finished file of a forgotten job belongs to no job."""
    return Model(UNKNOWN, file=FOREIGN if model.file == OWN else model.file, **more)


def pushed(model, act):
    if model.state in (ACTIVE, PAUSED):
        return Model(ACTIVE, begun_by=model.begun_by, file=model.file)
    if model.tombstone and act.at is None:
        return stopped(model, model.tombstone, act)
    return Model(ACTIVE, begun_by=act.number, file=model.file)


def of_batch(model, act):
    """An operation for the batch of a job that was pushed before: its effect on this member."""
    word = act.kind.removeprefix("batch ")
    is_asked = model.state == FAILED if word == "retried" else model.state in (ACTIVE, PAUSED)
    if not is_asked:
        return model
    return step(model, replace(act, kind="running" if word == "retried" else word))


def step(model, act):
    """How the job stands after an act."""
    state = model.state
    if act.is_batch:
        return of_batch(model, act)
    if act.kind == "push":
        return pushed(model, act)
    if act.kind in ("continuation", "running"):
        if state in (PAUSED, FAILED):
            return Model(ACTIVE, begun_by=model.begun_by, file=model.file)
        if act.kind == "running" and model.tombstone == "paused":
            return Model(UNKNOWN, file=model.file)
        return model
    if state == UNKNOWN:
        # A pause does not revoke an operation that ends the job.
        if model.tombstone in ENDS and act.kind == "paused":
            return model
        word = model.tombstone if model.tombstone in ("removed", "deleted") and act.kind == "cancelled" else act.kind
        return Model(UNKNOWN, tombstone=word, tombstone_ended=act.ended, file=model.file)
    if act.kind == "paused":
        if state != ACTIVE:
            return model
        return Model(PAUSED, begun_by=model.begun_by, may_run_until=act.ended + STOPPING, file=model.file)
    if act.kind == "cancelled":
        return cancelled(model) if state in (ACTIVE, PAUSED) else model
    if act.kind == "deleted" and state == COMPLETED:
        return Model(UNKNOWN, file=GOING)
    return forgotten(model, is_removed=state == ACTIVE or act.began < model.may_run_until)


def with_file_gone(model):
    """A file to be deleted may be gone by now. If a push comes first, the file stays, and is in the job's way."""
    if model.file == GOING:
        return {replace(model, file=NO_FILE), replace(model, file=FOREIGN)}
    return {model}


def may_be_overtaken(request, later):
    """Whether a newer push may have been claimed before the operation was applied. That changes nothing then: the claim
    of an element applies the job's operation first, if it is there."""
    return request.kind != "running" and any(act.is_push and act.began <= request.ended for act in later)


def may_be_late(push, later):
    """Whether a newer push may have been claimed before this one. That changes nothing then."""
    return push.at is not None and any(act.kind == "push" and act.began <= push.done for act in later)


def may_be_missed(request, earlier, later):
    """Whether a batch's operation may have reached its members when the job did not stand as all earlier acts make it
    stand."""
    return request.is_doubtful or any(act.done >= request.began for act in earlier) or any(
        act.began <= request.done for act in later)


def after(models, act, earlier, later):
    """How the job may stand after an act. `earlier` and `later` are the older and the newer acts."""
    before = models
    if act.kind == "push":
        models = {each for model in models for each in with_file_gone(model)}
    result = {step(model, act) for model in models}
    if act.kind == "push" and may_be_late(act, later):
        result |= before
    if not act.is_push:
        # While the run goes on, an operation applies to the run, and does not wait for a push.
        result |= {model for model in models if model.is_removed}
        if may_be_missed(act, earlier, later) if act.is_batch else may_be_overtaken(act, later):
            result |= models
    elif act.kind == "push" and act.at is None:
        # A push that arrived before the operation is not stopped by it, whatever the operation's timestamp.
        result |= {Model(ACTIVE, begun_by=act.number, file=model.file) for model in models
                   if model.tombstone and model.tombstone_ended >= act.began}
    return result


def outcomes(acts, is_quick):
    """How the job may stand at the end. A quick job may complete at any time after it began."""
    known, effective = set(), []
    for act in sorted((act for act in acts if not act.is_lost), key=lambda act: act.number):
        # A push with the same `at` is a repeat, and has no effect.
        if act.is_push and act.at is not None:
            if act.at in known:
                continue
            known.add(act.at)
        effective.append(act)
    # By a clock that is behind, a push that came last may count as first. Then it is unknown whether the job was known
    # when a push without a time met an operation.
    is_behind = any(act.is_push and act.at is not None and act.at < act.began - 1000 for act in effective)
    stops = {act.kind for act in effective if not act.is_push and not act.is_batch and act.kind != "running"}
    result = set()
    for order in orders(effective):
        models = {Model()}
        for index, act in enumerate(order):
            before, models = models, after(models, act, order[:index], order[index + 1:])
            if act.kind == "push" and act.at is None and is_behind:
                models |= {each for model in before for each in (
                    Model(ACTIVE, begun_by=act.number, file=model.file),
                    *(stopped(model, word, act) for word in stops))}
            if is_quick and act.kind == "removed":
                # The run continues until its worker applies the removal, and may have named its file by then.
                models |= {replace(model, file=FOREIGN) for model in models if model.is_removed}
            if is_quick:
                models |= {model.end for model in models if model.state == ACTIVE}
        if is_quick:
            # At the end there is time enough.
            models = {model.end if model.state == ACTIVE else model for model in models}
        result |= models
    return result
