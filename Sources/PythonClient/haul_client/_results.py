"""How jobs and batches are, and how they ended."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Dict, List, Literal, Mapping, NamedTuple, Optional, Sequence, Union, cast

from . import _contract as contract
from ._errors import JobCancelled, JobFailed, Rejected
from ._schema import (
    EVENTS,
    JSON,
    BatchEndedEvent,
    CancelledEvent,
    CompletedEvent,
    DuplicateEvent,
    Event,
    FailedEvent,
    RejectedEvent,
)

State = Literal["queued", "scheduled", "running", "paused", "completed", "failed", "cancelled"]
EndState = Literal["completed", "failed", "cancelled", "rejected"]
#: Handling results and errors: the table of docs/guides/producing.md.
Advice = Literal[
    "use", "nothing", "sign_again", "gone", "not_as_ordered", "ask_server", "too_late", "alert_operator",
    "alert_developer", "push_again",
]

_ADVICE: Dict[str, Advice] = {
    "http_401": "sign_again", "http_403": "sign_again", "http_404": "gone", "http_410": "gone",
    "checksum_mismatch": "not_as_ordered", "size_mismatch": "not_as_ordered", "wrong_content_type": "not_as_ordered",
    "too_large": "not_as_ordered", "gate_refused": "not_as_ordered", "gate_failed": "alert_operator", "outcome_unknown": "ask_server", "deadline": "too_late",
    "crash_loop": "alert_operator", "local_limit": "alert_operator", "io": "alert_operator", "proxy": "alert_operator",
}


class Position(NamedTuple):
    """The position of an event among the events of its job: a later event has a greater one."""

    epoch: int
    sequence: int

    def follows(self, earlier: Position) -> bool:
        """Whether no event is missing between the two."""
        return self.epoch == earlier.epoch and self.sequence == earlier.sequence + 1


START = Position(-1, -1)
#: The position of a job that has no event yet.
NO_EVENT = Position(0, 0)


@dataclass(frozen=True)
class Response:
    """The response to a request or an upload."""

    #: Such as 200.
    status: int
    #: Names are in lower case. Values of one name are joined by commas, those of set-cookie by line feeds.
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body, read as UTF-8."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> JSON:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class SentFile:
    """The result of one file of an upload with `each`."""

    file: str
    #: The status of the server's response. None if there was none.
    status: Optional[int] = None
    #: Why the file did not arrive. None if it did.
    error: Optional[str] = None


@dataclass(frozen=True)
class JobResult:
    """How a job ended."""

    id: str
    #: `rejected` only from `settled`: a worker found that the element was not a valid job. `message` has the reason.
    state: EndState
    #: The finished file, relative to the workers' root.
    file: Optional[str] = None
    #: The size of the file or of the response's body. Of an upload the bytes that were sent.
    bytes: Optional[int] = None
    #: How long the run took.
    seconds: Optional[float] = None
    #: The digest that the file was checked against. None if neither the job nor the server gave one.
    checksum: Optional[str] = None
    etag: Optional[str] = None
    #: Whether the file or the response existed already, and is still what the server has.
    unchanged: bool = False
    #: Why the job failed: a code of docs/reference/errors.md such as http_404.
    error: Optional[str] = None
    #: A sentence about the error for a person.
    message: Optional[str] = None
    #: Whether the same job may succeed later.
    retryable: bool = False
    #: The response to a request or an upload, if there was one and it is still kept.
    response: Optional[Response] = None
    #: Whether there was a response that is no longer kept.
    response_dropped: bool = False
    #: The result of each file of an upload with `each`.
    files: Sequence[SentFile] = ()
    #: What the producer put into the job.
    meta: JSON = None
    #: Whether the job was removed from Redis. Then nothing else is known.
    removed: bool = False

    def raise_for_error(self) -> JobResult:
        """Returns the result of a completed job. Raises JobFailed, JobCancelled or Rejected for others."""
        if self.state == "completed":
            return self
        if self.state == "failed":
            raise JobFailed(self)
        if self.state == "rejected":
            raise Rejected(self.message or "")
        raise JobCancelled(self)

    @property
    def what_to_do(self) -> Advice:
        """The table "Handling results and errors" of docs/guides/producing.md, in one word."""
        if self.state == "completed":
            return "use"
        if self.state == "cancelled":
            return "nothing"
        if self.state == "rejected":
            return "alert_developer"
        return _ADVICE.get(self.error or "", "push_again" if self.retryable else "alert_developer")


@dataclass(frozen=True)
class JobStatus:
    """A job as in its hash in Redis, which is reliable. Among events it stands for those that were missed."""

    event: ClassVar[Literal["status"]] = "status"
    id: str
    state: State
    #: The fields of the hash that are not empty.
    fields: Mapping[str, str]

    def __getitem__(self, field: str) -> str:
        return self.fields[field]

    def get(self, field: str) -> Optional[str]:
        """A field of the hash as in docs/reference/keys.md. None if it is absent or empty."""
        return self.fields.get(field)

    def _integer(self, field: str) -> Optional[int]:
        try:
            return int(self.fields[field])
        except (KeyError, ValueError):
            return None

    @property
    def received(self) -> int:
        """Bytes received so far. Of an upload the bytes sent."""
        return self._integer(contract.RECEIVED) or 0

    @property
    def total(self) -> Optional[int]:
        """Bytes of the whole, if the server gave its size."""
        return self._integer(contract.TOTAL)

    @property
    def speed(self) -> Optional[int]:
        """Bytes per second, while the job runs."""
        return self._integer(contract.SPEED)

    @property
    def attempts(self) -> int:
        """Failed attempts in a row."""
        return self._integer(contract.ATTEMPT) or 0

    @property
    def worker(self) -> Optional[str]:
        return self.get(contract.WORKER)

    @property
    def error(self) -> Optional[str]:
        """Why the job or its last attempt failed."""
        return self.get(contract.ERROR)

    @property
    def message(self) -> Optional[str]:
        return self.get(contract.MESSAGE)

    @property
    def file(self) -> Optional[str]:
        """The finished or planned file, relative to the workers' root."""
        return self.get(contract.FILE)

    @property
    def position(self) -> Position:
        return Position(self._integer(contract.EPOCH) or 0, self._integer(contract.SEQUENCE) or 0)

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended and its event is published: a completed job may wait for replicas."""
        return self.state in contract.FINAL_STATES and not (
            self.state == "completed" and self.get(contract.WAITING) == contract.WAITING_FOR_REPLICAS
        )

    def has_ended_since(self, at: Optional[int]) -> bool:
        """Whether the push of this time has come to its end. None is any push."""
        return self.has_ended and (at is None or is_settled(self.fields, at))

    def result(self) -> JobResult:
        """How the job ended. Only for a job that has ended."""
        is_completed, is_failed = self.state == "completed", self.state == "failed"
        seconds = self.get(contract.SECONDS) if is_completed else None
        status = self._integer(contract.STATUS)
        response = None
        if status is not None and contract.HEADERS in self.fields:
            response = _response(
                status, json.loads(self.fields[contract.HEADERS]), self.get(contract.BODY), self.get(contract.BODY_BASE64)
            )
        return JobResult(
            id=self.id,
            state=cast(EndState, self.state),
            file=self.file if is_completed else None,
            bytes=self.received if is_completed else None,
            seconds=float(seconds) if seconds else None,
            checksum=self.get(contract.CHECKSUM) if is_completed else None,
            etag=self.get(contract.ETAG) if is_completed else None,
            unchanged=is_completed and self.get(contract.UNCHANGED) == "1",
            error=self.error if is_failed else None,
            message=self.message if is_failed else None,
            retryable=is_failed and self.get(contract.RETRYABLE) == "1",
            response=response,
            response_dropped=self.get(contract.RESPONSE_DROPPED) is not None,
            files=_files(_json(self.get(contract.FILES))),
            meta=_json(self.get(contract.META)),
        )


#: An event as it was published, or the job's status instead of events that were missed.
Update = Union[Event, JobStatus]


@dataclass(frozen=True)
class BatchStatus:
    """The counts of a batch. Each job counts once, in its current state."""

    id: str
    pending: int
    completed: int
    failed: int
    cancelled: int
    #: Elements that were not valid jobs.
    rejected: int
    #: How many jobs the batch has. None if no job has given the size.
    size: Optional[int]
    #: How many times the batch has ended.
    round: int
    #: When it ended, in unix ms. None if it has not ended.
    finished: Optional[int]

    @property
    def has_ended(self) -> bool:
        return self.finished is not None


@dataclass(frozen=True)
class QueueStats:
    """The numbers of jobs and workers of a queue."""

    #: How many jobs are in each state. For queued the number of waiting elements.
    counts: Mapping[str, int]
    #: How many workers have sent a heartbeat in the last 10 seconds. If it is 0, pushed jobs wait.
    workers: int


def is_settled(job: Mapping[str, str], at: int) -> bool:
    """Whether a push of this time is a repeat of one that the hash knows."""
    return int(job.get(contract.SETTLED_UNTIL) or 0) >= at or job.get(contract.AHEAD) == str(at)


def job_status(id: str, job: Mapping[str, str]) -> Optional[JobStatus]:
    """None for an unknown job, and for the tombstone of a removed one."""
    if not job.get(contract.STATE):
        return None
    return JobStatus(id, cast(State, job[contract.STATE]), {k: v for k, v in job.items() if v != ""})


@dataclass(frozen=True)
class Schedule:
    """A job that workers push at certain times: docs/guides/schedules.md."""

    name: str
    #: Seconds between two runs, or None.
    every: Optional[int]
    #: A cron expression, or None.
    cron: Optional[str]
    zone: str
    paused: bool
    #: When it is due next, unix ms. None if it is paused, or not planned yet.
    next: Optional[int]
    #: The job of the last run, and when that run was due, unix ms.
    last_id: Optional[str]
    last_due: Optional[int]
    pushed: int
    skipped: int
    missed: int
    #: Why a worker found the definition invalid.
    error: Optional[str]


def schedule_of(
    name: str, definition: Mapping[str, Any], state: Mapping[str, str], pause: Optional[str] = None
) -> Schedule:
    def number(field: str) -> Optional[int]:
        text = state.get(field, "")
        return int(text) if text.isdigit() else None

    paused = pause == "1" if pause in ("0", "1") else definition.get("paused") is True
    return Schedule(
        name, definition.get("every"), definition.get("cron"), definition.get("zone", "UTC"),
        paused, None if paused else number("next"),
        state.get("last_id"), number("last_due"), number("pushed") or 0, number("skipped") or 0, number("missed") or 0,
        state.get("error"),
    )


def batch_status(name: str, batch: Mapping[str, str]) -> Optional[BatchStatus]:
    if not batch.get(contract.CREATED):
        return None

    def number(field: str) -> int:
        return int(batch.get(field) or 0)

    return BatchStatus(
        id=name,
        pending=number(contract.PENDING),
        completed=number("completed"),
        failed=number("failed"),
        cancelled=number("cancelled"),
        rejected=number(contract.REJECTED),
        size=number(contract.SIZE) or None,
        round=number(contract.ROUND),
        finished=number(contract.FINISHED) or None,
    )


_MEMBERS = {kind: {field.name for field in fields(kind)} for kind in EVENTS.values()}


def parse_event(text: str) -> Optional[Event]:
    """None for a text that is not an event, or one of a later version's kinds."""
    try:
        members = json.loads(text)
        kind = EVENTS[members["event"]]
        return kind(**{name: value for name, value in members.items() if name in _MEMBERS[kind]})
    except (ValueError, KeyError, TypeError):
        return None


def position_of(event: Event) -> Optional[Position]:
    """None for an event that is not part of its job's order."""
    if event.epoch is None or event.seq is None:
        return None
    return Position(event.epoch, event.seq)


Outcome = Union[JobResult, BatchStatus]


def outcome_of(event: Event) -> Optional[Outcome]:
    """What a reply says of an end. None if it says of none."""
    if isinstance(event, (CompletedEvent, FailedEvent)):
        is_completed = isinstance(event, CompletedEvent)
        response = None
        if event.status is not None and event.headers is not None:
            response = _response(event.status, event.headers, event.body, event.body_base64)
        return JobResult(
            id=event.id,
            state=event.event,
            file=event.file if isinstance(event, CompletedEvent) else None,
            bytes=event.bytes if isinstance(event, CompletedEvent) else None,
            seconds=event.seconds if isinstance(event, CompletedEvent) else None,
            checksum=event.checksum if isinstance(event, CompletedEvent) else None,
            etag=event.etag if isinstance(event, CompletedEvent) else None,
            unchanged=is_completed and getattr(event, "unchanged", None) is True,
            error=event.error if isinstance(event, FailedEvent) else None,
            message=event.message if isinstance(event, FailedEvent) else None,
            retryable=isinstance(event, FailedEvent) and event.retryable,
            response=response,
            response_dropped=event.response_dropped is True,
            files=_files(event.files),
            meta=event.meta,
        )
    if isinstance(event, CancelledEvent):
        return JobResult(id=event.id, state="cancelled", meta=event.meta)
    if isinstance(event, DuplicateEvent) and event.state == "removed":
        return removed(event.id, event.meta)
    if isinstance(event, RejectedEvent):
        return JobResult(id=event.id, state="rejected", message=event.reason, meta=event.meta)
    if isinstance(event, BatchEndedEvent):
        return BatchStatus(
            id=event.batch,
            pending=0,
            completed=event.completed or 0,
            failed=event.failed or 0,
            cancelled=event.cancelled or 0,
            rejected=event.rejected or 0,
            size=event.size,
            round=event.round or 0,
            finished=event.at,
        )
    return None


def removed(id: str, meta: JSON = None) -> JobResult:
    return JobResult(id=id, state="cancelled", removed=True, message="the job was removed", meta=meta)


def _response(
    status: int, headers: Mapping[str, str], text: Optional[str], encoded: Optional[str]
) -> Response:
    return Response(status, headers, base64.b64decode(encoded) if encoded is not None else (text or "").encode())


def _files(value: JSON) -> List[SentFile]:
    return [SentFile(each["file"], each.get("status"), each.get("error")) for each in value or ()]


def _json(text: Optional[str]) -> JSON:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None
