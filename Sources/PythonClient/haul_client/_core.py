"""The rules, without input and output.

An operation is a generator. It yields what it needs (commands, a message, a pause), gets the answer, and returns its
result. `_sync` and `_async` perform the needs, each in its own way. So both follow the same rules.
"""

from __future__ import annotations

import binascii
import datetime
import json
import logging
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import (
    Any, Awaitable, Callable, Dict, Generator, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple,
    TypeVar, Union,
)

from . import _contract as contract
from ._contract import Keys
from ._errors import (
    HaulError, InvalidQueueName, InvalidSetting, NotReplicated, NoWorker, Rejected, TimedOut, Unreachable,
)
from ._jobs import Element, derived_id, element, masked_url, scheduled, url_digest
from ._results import (
    NO_EVENT, START, BatchStatus, JobResult, JobStatus, Outcome, QueueStats, batch_status, is_settled, job_status, outcome_of,
    Schedule, parse_event, position_of, removed, schedule_of,
)
from ._schema import BatchEndedEvent, Event, Job, RejectedEvent

T = TypeVar("T")
Command = Tuple[Union[str, int, float], ...]
Fields = Dict[str, str]

log = logging.getLogger("haul_client")


class Run(NamedTuple):
    """Needs the replies to commands, which are sent together."""

    commands: Sequence[Command]
    #: For how long the commands may block: seconds.
    block: float = 0


class Listen(NamedTuple):
    """Needs a subscription, which lasts as long as the operation."""

    channel: str


class Receive(NamedTuple):
    """Needs the next message of the subscription: a text, Notice.SUBSCRIBED or INTERRUPTED, or None after the time."""

    timeout: float


class Pause(NamedTuple):
    seconds: float


class Emit(NamedTuple):
    """Hands a value to the consumer of a sequence."""

    value: Any


class Call(NamedTuple):
    """Needs the result of a function, which may be a coroutine."""

    function: Callable[[], Any]


class Notice:
    """What a subscription reports besides messages."""

    SUBSCRIBED = object()
    INTERRUPTED = object()


Need = Union[Run, Listen, Receive, Pause, Emit, Call]
Operation = Generator[Need, Any, T]

#: A job and the `at` of its push.
Open = Tuple[str, int]
OpenJobs = Callable[[], Union[Iterable[Open], Awaitable[Iterable[Open]]]]


@dataclass(frozen=True)
class Delivery:
    """An end that `settled` hands out."""

    outcome: Outcome
    #: The reply as it is on the list. None for an end that was read from the job's hash.
    text: Optional[str]
    #: What distinguishes it from other ends.
    mark: str
    loop: SettledLoop


@dataclass
class SettledLoop:
    """What a loop has handed out."""

    name: str
    #: Handed out, and not acknowledged.
    open: Set[str]
    #: Acknowledged lately, so that no end is handed out twice because it is on the list and in the hash.
    done: OrderedDict[str, None]


class Core:
    """The operations on one queue."""

    #: The hash is read after so many seconds even if no message arrives.
    POLL = 15.0
    #: For how long one command waits for a reply on a list: seconds.
    BLOCK = 2.0

    def __init__(self, queue: str, reply_to: Optional[str], patience: float) -> None:
        if not contract.QUEUE_NAME.fullmatch(queue):
            raise InvalidQueueName(
                "a queue's name is 1 to 64 of the characters A-Z a-z 0-9 . _ -, and for one of its partitions what "
                f"partition() returns, not {queue!r}"
            )
        if reply_to is not None and not contract.ID.fullmatch(reply_to):
            raise HaulError(f"reply_to must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -, not {reply_to!r}")
        self.name = queue
        self.keys = Keys(queue)
        self.reply_to = reply_to
        #: For how long a call tries to reach Redis: seconds.
        self.patience = patience
        self._last_timestamp = 0

    # Commands

    def run(self, *commands: Command, block: float = 0, until: Optional[float] = None) -> Operation[List[Any]]:
        """Sends commands, which may be sent again, and waits while Redis cannot be reached."""
        until = time.monotonic() + self.patience if until is None else until
        delay = 0.05
        while True:
            try:
                replies: List[Any] = yield Run(commands, block)
                return replies
            except Unreachable:
                if time.monotonic() + delay > until:
                    raise
            yield Pause(delay)
            delay = min(1.0, delay * 2)

    def time(self) -> Operation[int]:
        """Redis' clock: unix ms."""
        ((seconds, microseconds),) = yield from self.run(("TIME",))
        return int(seconds) * 1000 + int(microseconds) // 1000

    def next_timestamp(self) -> Operation[int]:
        """Redis' time for a push or a control operation. Two of them within a millisecond get different ones."""
        now = yield from self.time()
        if now <= self._last_timestamp < now + 1000:
            now = self._last_timestamp + 1
        self._last_timestamp = now
        return now

    # Pushing

    def push_many(self, jobs: Sequence[Job], urgent: bool, replicas: int, within: float) -> Operation[List[Element]]:
        elements = [element(job, self.reply_to) for job in jobs]
        if not elements:
            return []
        if any(each.at is None for each in elements):
            timestamp = yield from self.next_timestamp()
            elements = [each.made(timestamp if each.at is None else each.at) for each in elements]
        else:
            elements = [each.made(each.at or 0) for each in elements]
        texts = [each.text for each in elements]
        if urgent:  # The last element that is pushed to the front is taken first.
            texts.reverse()
        verb = "RPUSH" if urgent else "LPUSH"
        pages: List[Command] = [
            (verb, self.keys.jobs, *texts[start : start + contract.PAGE]) for start in range(0, len(texts), contract.PAGE)
        ]
        if replicas < 1:
            yield from self.run(*pages)
            return elements
        replies = yield from self.run(*pages, ("WAIT", replicas, max(1, int(within * 1000))), block=within)
        if int(replies[-1]) < replicas:
            raise NotReplicated(
                f"{replies[-1]} of {replicas} replicas have the push after {within:g} s; it is pushed all the same"
            )
        return elements

    # Control

    def control(self, operation: str, ids: Sequence[str]) -> Operation[None]:
        if isinstance(ids, str):
            raise TypeError(f"ids must be a sequence of ids, not the text {ids!r}")
        if not ids:
            return
        timestamp = yield from self.next_timestamp()
        for start in range(0, len(ids), contract.PAGE):
            page = ids[start : start + contract.PAGE]
            pairs = [text for id in page for text in (id, f"{operation} {timestamp}")]
            yield from self.run(("HSET", self.keys.want, *pairs))
            yield from self.run(*(("PUBLISH", self.keys.control, id) for id in page))

    def control_batch(self, operation: str, name: str) -> Operation[None]:
        timestamp = yield from self.next_timestamp()
        yield from self.run(("HSET", self.keys.want, Keys.batch_field(name), f"{operation} {timestamp}"))

    # Reading

    def statuses(self, ids: Sequence[str]) -> Operation[List[JobStatus]]:
        """The known ones of these jobs."""
        found: List[JobStatus] = []
        for start in range(0, len(ids), contract.PAGE):
            page = ids[start : start + contract.PAGE]
            replies = yield from self.run(*(("HGETALL", self.keys.job(id)) for id in page))
            found += filter(None, map(job_status, page, replies))
        return found

    def ids_with_url(self, url: str) -> Operation[List[str]]:
        """The jobs of a URL: those that a worker has claimed by its digest, the others by their elements."""
        digest = url_digest(url)
        owner, others = yield from self.run(("HGET", self.keys.urls, digest), ("HGETALL", self.keys.url(digest)))
        candidates = sorted({digest, *others, *([owner] if owner else [])})
        found: Set[str] = set()
        for start in range(0, len(candidates), contract.PAGE):
            page = candidates[start : start + contract.PAGE]
            hashes = yield from self.run(
                *(("HMGET", self.keys.job(id), contract.STATE, contract.URL, contract.URL_DIGESTS) for id in page)
            )
            for id, (state, masked, digests) in zip(page, hashes):
                if state and (digest in digests.split() if digests else id == digest and masked == masked_url(url)):
                    found.add(id)
        start = 0
        while True:
            (elements,) = yield from self.run(("LRANGE", self.keys.jobs, start, start + contract.PAGE - 1))
            for text in elements:
                if url in text or "\\" in text:
                    found |= _ids_of(text, url)
            if len(elements) < contract.PAGE:
                return sorted(found)
            start += len(elements)

    def status(self, id: str) -> Operation[Optional[JobStatus]]:
        found = yield from self.statuses([id])
        return found[0] if found else None

    def read_state(self, id: str, at: Optional[int], until: Optional[float] = None) -> Operation[StateReading]:
        """Reads a job's hash, and says whether the push has come to its end."""
        (fields,) = yield from self.run(("HGETALL", self.keys.job(id)), until=until)
        return reading_of(id, at, fields)

    def batch(self, name: str, until: Optional[float] = None) -> Operation[Optional[BatchStatus]]:
        (fields,) = yield from self.run(("HGETALL", self.keys.batch(name)), until=until)
        return batch_status(name, fields)

    def workers(self) -> Operation[int]:
        now = yield from self.time()
        (count,) = yield from self.run(("ZCOUNT", self.keys.workers, now - contract.SILENCE * 1000, "+inf"))
        return int(count)

    def stats(self) -> Operation[QueueStats]:
        counts = yield from self.run(
            *(("LLEN" if state == "queued" else "ZCARD", self.keys.index(state)) for state in contract.STATES)
        )
        workers = yield from self.workers()
        return QueueStats(dict(zip(contract.STATES, map(int, counts))), workers)

    # Waiting for one job

    def result(self, id: str, at: Optional[int], timeout: Optional[float]) -> Operation[JobResult]:
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        # Look before the subscription is there: a job that has ended already needs no wait.
        reading = yield from self.read_state(id, at, deadline)
        if reading.result:
            return reading.result
        yield Listen(self.keys.events(id))
        next_poll = time.monotonic() + self.POLL
        while True:
            now = time.monotonic()
            if now >= deadline:
                raise (yield from self._timed_out(id, reading.status))
            message = yield Receive(max(0.0, min(next_poll, deadline) - now))
            if message is Notice.INTERRUPTED:
                continue
            if isinstance(message, str):
                event = parse_event(message)
                if isinstance(event, RejectedEvent):
                    raise Rejected(event.reason)
                if event is None or event.event not in (*contract.FINAL_STATES, "duplicate"):
                    continue
            elif message is None and time.monotonic() < next_poll:
                continue
            next_poll = time.monotonic() + self.POLL
            reading = yield from self.read_state(id, at, deadline)
            if reading.result:
                return reading.result
            if not isinstance(message, str):
                yield from self._check_rejected(id, at)

    def _check_rejected(self, id: str, at: Optional[int]) -> Operation[None]:
        """The event may have been published before the subscription. An element begins with its id and `at`."""
        if at is None:
            return
        try:
            (entries,) = yield from self.run(("LRANGE", self.keys.rejected, 0, 19))
        except HaulError:  # The role of a service may not read the list.
            return
        for entry in map(_object, entries):
            if str(entry.get("element", "")).startswith(f'{{"id":"{id}","at":{at},'):
                raise Rejected(str(entry.get("reason", "")))

    def _timed_out(self, id: str, status: Optional[JobStatus]) -> Operation[TimedOut]:
        what = f"job {id} is {status.state}" if status else f"no worker has seen job {id}"
        try:
            workers: Optional[int] = yield from self.workers()
        except HaulError:
            workers = None
        if workers == 0:
            return NoWorker(f"{what} when the timeout ended, and no worker serves the queue {self.name}")
        return TimedOut(f"{what} when the timeout ended")

    def batch_result(self, name: str, after: int, timeout: Optional[float]) -> Operation[BatchStatus]:
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        yield Listen(self.keys.batch_events(name))
        while True:
            status = yield from self.batch(name, deadline)
            if status and status.has_ended and status.round > after:
                return status
            now = time.monotonic()
            if now >= deadline:
                what = f"{status.pending} jobs of the batch {name} are pending" if status else (
                    f"no worker has seen the batch {name}"
                )
                raise TimedOut(f"{what} when the timeout ended")
            yield Receive(min(self.POLL, deadline - now))

    # Following one job

    def events(self, id: str, at: Optional[int]) -> Operation[None]:
        """Emits the job's status, then its events in order, each once. A status replaces events that were missed."""
        yield Listen(self.keys.events(id))
        position = START
        while True:
            message = yield Receive(self.POLL)
            if message is Notice.INTERRUPTED:
                continue
            event = parse_event(message) if isinstance(message, str) else None
            if isinstance(message, str) and event is None:
                continue
            event_position = position_of(event) if event else None
            if event and event_position is None:  # It is not part of the job's order.
                yield Emit(event)
                if isinstance(event, RejectedEvent) and at is not None:
                    return
                continue
            if event_position is not None and event_position <= position:
                continue
            reading: Optional[StateReading] = None
            if event_position is None or not (position <= NO_EVENT or event_position.follows(position)):
                # Events may have been missed. The hash is at least as new as this event.
                reading = yield from self.read_state(id, at, float("inf"))
                status = reading.status
                # The end of an earlier push does not concern this one.
                is_old = status is not None and status.has_ended and not reading.result
                if status and not is_old and (status.position > position or reading.result):
                    if status.position > position or event is None:
                        yield Emit(status)
                    position = max(position, status.position)
                if reading.result:
                    return
            if event and event_position is not None and event_position > position:
                position = event_position
                yield Emit(event)
                if event.event in (*contract.FINAL_STATES, "duplicate"):
                    # The event may be the end of an earlier push. The hash decides.
                    reading = yield from self.read_state(id, at, float("inf"))
                    if reading.result:
                        return

    # Draining a list of replies

    def settled(
        self, open_jobs: Optional[OpenJobs], every: float, idle: Optional[float], loop: SettledLoop
    ) -> Operation[None]:
        """Emits each end at least once, until it is acknowledged.

        A reply moves to a list of what was taken, and stays there until it is acknowledged. After a start and after
        a lost connection that list is read first: the reply to a move may be lost. Ends of open jobs are also read
        from their hashes, because Redis may have lost a reply, and keeps only the newest 1000 for a day.
        """
        taken, replies = self.keys.taken(loop.name), self.keys.reply(loop.name)
        is_new, next_poll, delay = True, 0.0, 0.05
        last = time.monotonic()
        while True:
            try:
                deliveries: List[Delivery] = []
                if is_new:
                    (texts,) = yield Run([("LRANGE", taken, 0, -1)])
                    deliveries += (yield from self._deliveries(reversed(texts), loop))
                    is_new = False
                if open_jobs and time.monotonic() >= next_poll:
                    jobs = list((yield Call(open_jobs)))
                    deliveries += (yield from self._ended(jobs, loop))
                    next_poll = time.monotonic() + every
                if not deliveries:
                    block = self.BLOCK
                    if idle is not None:
                        block = max(0.01, min(block, last + idle - time.monotonic()))
                    text, _ = yield Run(
                        [("BLMOVE", replies, taken, "RIGHT", "LEFT", block), ("PEXPIRE", taken, contract.KEEP_TAKEN)],
                        block,
                    )
                    if text is not None:
                        deliveries = yield from self._deliveries([text], loop)
                delay = 0.05
            except Unreachable as error:
                log.warning("Redis cannot be reached; trying again: %s", error)
                is_new, next_poll = True, 0.0
                yield Pause(delay)
                delay = min(1.0, delay * 2)
                continue
            for delivery in deliveries:
                if delivery.mark not in loop.open:
                    loop.open.add(delivery.mark)
                    yield Emit(delivery)
                    last = time.monotonic()
            if idle is not None and not deliveries and time.monotonic() >= last + idle:
                return

    def _deliveries(self, texts: Iterable[str], loop: SettledLoop) -> Operation[List[Delivery]]:
        found = []
        for text in texts:
            event = parse_event(text)
            outcome = outcome_of(event) if event else None
            mark = _mark(event, text) if event else text
            if outcome is None or mark in loop.done:
                if outcome is None:
                    log.warning("a reply that is not a final event is skipped: %.200s", text)
                yield Run([("LREM", self.keys.taken(loop.name), 1, text)])
                continue
            found.append(Delivery(outcome, text, mark, loop))
        return found

    def _ended(self, jobs: Sequence[Open], loop: SettledLoop) -> Operation[List[Delivery]]:
        found = []
        for start in range(0, len(jobs), contract.PAGE):
            page = jobs[start : start + contract.PAGE]
            replies = yield Run([("HGETALL", self.keys.job(id)) for id, _ in page])
            for (id, at), fields in zip(page, replies):
                reading = reading_of(id, at, fields)
                mark = f"{id} {fields.get(contract.EPOCH)} {fields.get(contract.SEQUENCE)}"
                if reading.result and mark not in loop.done:
                    found.append(Delivery(reading.result, None, mark, loop))
        return found

    def acknowledge(self, delivery: Delivery) -> Operation[None]:
        if delivery.text is not None:
            yield from self.run(("LREM", self.keys.taken(delivery.loop.name), 1, delivery.text))
        delivery.loop.open.discard(delivery.mark)
        delivery.loop.done[delivery.mark] = None
        while len(delivery.loop.done) > 10_000:
            delivery.loop.done.popitem(last=False)

    def settled_loop(self, name: Optional[str]) -> SettledLoop:
        name = name or self.reply_to
        if name is None:
            raise HaulError("settled needs the name of a list: give the queue a reply_to, or name it here")
        if not contract.ID.fullmatch(name):
            raise HaulError(f"the name of a list must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -, not {name!r}")
        return SettledLoop(name, set(), OrderedDict())

    # Schedules

    def add_schedule(self, name: str, definition: Mapping[str, Any], job: Job) -> Operation[None]:
        if not contract.SCHEDULE.fullmatch(name):
            raise HaulError(f"the name of a schedule must be 1 to 96 of the characters A-Z a-z 0-9 . _ : -, not {name!r}")
        whole = {key: value for key, value in definition.items() if value is not None}
        if ("every" in whole) == ("cron" in whole):
            raise HaulError("a schedule needs either every or cron")
        whole["job"] = scheduled(job, name, self.reply_to)
        yield from self.write_schedule(name, whole)

    def write_schedule(self, name: str, definition: Mapping[str, Any]) -> Operation[None]:
        text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
        yield from self.run(("HSET", self.keys.schedules, name, text), ("ZADD", self.keys.schedule_due, 0, name))

    def pause_schedule(self, name: str, paused: bool) -> Operation[None]:
        definition = yield from self.schedule_definition(name)
        yield from self.write_schedule(name, {**definition, "paused": paused})

    def run_schedule(self, name: str) -> Operation[Tuple[str, int]]:
        definition = yield from self.schedule_definition(name)
        at = yield from self.next_timestamp()
        yield from self.run(("ZADD", self.keys.schedule_due, -at, name))
        if not definition.get("unique"):
            return name, at
        date = datetime.datetime.fromtimestamp(at // 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{name}:{date}{f'.{at % 1000:03}' if at % 1000 else ''}Z", at

    def remove_schedule(self, name: str) -> Operation[None]:
        yield from self.run(("HDEL", self.keys.schedules, name), ("ZADD", self.keys.schedule_due, 0, name))

    def schedule_definition(self, name: str) -> Operation[Dict[str, Any]]:
        (text,) = yield from self.run(("HGET", self.keys.schedules, name))
        if text is None:
            raise HaulError(f"the queue has no schedule {name}")
        return _object(text)

    def schedules(self) -> Operation[Dict[str, Schedule]]:
        (definitions,) = yield from self.run(("HGETALL", self.keys.schedules))
        names = sorted(dict(definitions))
        if not names:
            return {}
        states = yield from self.run(*[("HGETALL", self.keys.schedule(name)) for name in names])
        return {name: schedule_of(name, _object(definitions[name]), dict(state)) for name, state in zip(names, states)}

    # Settings

    def settings(self) -> Operation[Fields]:
        (fields,) = yield from self.run(("HGETALL", self.keys.settings))
        return dict(fields)

    def change_settings(self, changes: Mapping[str, Any]) -> Operation[None]:
        values = {name: setting_value(name, value) for name, value in changes.items()}
        new = [text for name, value in values.items() if value is not None for text in (name, value)]
        old = [name for name, value in values.items() if value is None]
        commands: List[Command] = []
        if new:
            commands.append(("HSET", self.keys.settings, *new))
        if old:
            commands.append(("HDEL", self.keys.settings, *old))
        if commands:
            yield from self.run(*commands)


def partition(queue: str, id: str) -> str:
    """The name of the partition of a queue like `films#8` to which the job with this id belongs.

    For a member of a batch, and for a schedule, `id` is the name of the batch or of the schedule.
    """
    name, _, count = queue.partition("#")
    if not contract.QUEUE_NAME.fullmatch(name) or not count.isascii() or not count.isdigit() or not 2 <= int(count) <= 64:
        raise InvalidQueueName(f"a queue of 8 partitions is films#8, for example, not {queue!r}; there may be 2 to 64")
    return f"{name}#{binascii.crc_hqx(id.encode(), 0) % int(count)}of{int(count)}"


class StateReading(NamedTuple):
    #: None for a job that is not known.
    status: Optional[JobStatus]
    #: How the push ended. None if it has not.
    result: Optional[JobResult]


def reading_of(id: str, at: Optional[int], fields: Mapping[str, str]) -> StateReading:
    status = job_status(id, fields)
    if status is None:
        is_removed = at is not None and is_settled(fields, at)
        return StateReading(None, removed(id) if is_removed else None)
    return StateReading(status, status.result() if status.has_ended_since(at) else None)


def _mark(event: Event, text: str) -> str:
    if isinstance(event, BatchEndedEvent) or event.epoch is None:
        return text
    return f"{event.id} {event.epoch} {event.seq}"


def _ids_of(text: str, url: str) -> Set[str]:
    """The id of a waiting element, if it is a job with this URL."""
    fields = _object(text)
    urls = fields.get("urls")
    if url != fields.get("url") and not (isinstance(urls, list) and url in urls):
        return set()
    return {fields.get("id") or derived_id(fields)}


def _object(text: str) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


_SECONDS = (60, 315_360_000)
_WHOLE = (0, 99_999_999_999_999)
_NUMBERS = {
    "max_running": _WHOLE, "rate": (1, _WHOLE[1]), "max_seconds": (1, _WHOLE[1]), "min_speed": (1, _WHOLE[1]),
    "max_bytes": (1, _WHOLE[1]), "host_connections": _WHOLE, "max_responses_bytes": _WHOLE, "event_stream": (0, 1_000_000),
    "keep_completed": _SECONDS, "keep_failed": _SECONDS, "keep_cancelled": _SECONDS,
}


_RATE = re.compile(
    r"(full|(?P<count>[0-9]+(\.[0-9]+)?) ?([kmgtp]i?b?|b)?(/s)?)"
    r"( +(?P<begin>([01]?[0-9]|2[0-3]):[0-5][0-9]|24:00)-(?P<end>([01]?[0-9]|2[0-3]):[0-5][0-9]|24:00)"
    r"( +(?-i:[A-Z])[A-Za-z0-9_+/-]*)?)?",
    re.ASCII | re.IGNORECASE,
)


def _is_rate(text: str) -> bool:
    """Whether a text is a limit of bytes per second, perhaps one that depends on the time of day."""
    rules = [_RATE.fullmatch(part.strip(" ")) for part in text.split(",")]
    return all(
        rule and float(rule["count"] or 1) > 0 and (rule["begin"] is None or rule["begin"] != rule["end"])
        for rule in rules
    ) and all(rule is not None and rule["begin"] for rule in rules[:-1])


def setting_value(name: str, value: Any) -> Optional[str]:
    """The text of a setting. None removes it."""
    if value is None:
        return None
    if name == "paused" or name.startswith("quiet:"):
        if isinstance(value, bool):
            return "1" if value else "0"
        raise InvalidSetting(name, f"must be True or False, not {value!r}")
    if name == "starts":
        count, _, unit = str(value).partition("/")
        if count.isascii() and count.isdigit() and 1 <= int(count) <= 1_000_000 and (
            str(value) == count or unit in ("s", "min", "h")
        ):
            return str(value)
        raise InvalidSetting(name, f'must be jobs per time like "10/s", "30/min" or "5/h", not {value!r}')
    if name == "rate" and isinstance(value, str):
        if _is_rate(value):
            return value
        raise InvalidSetting(
            name, f'must be bytes per second like 5000000 or "5M", or by the time of day like "full 22:00-06:00 Europe/Berlin, 2M", not {value!r}'
        )
    if name not in _NUMBERS:
        raise InvalidSetting(name, "is not a setting of a queue")
    low, high = _NUMBERS[name]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidSetting(name, f"must be a whole number from {low} to {high}, not {value!r}")
    return str(value)

