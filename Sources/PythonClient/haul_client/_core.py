"""The rules, without input and output.

An operation is a generator. It yields what it needs (commands, a message, a pause), gets the answer, and returns its
result. `_sync` and `_async` perform the needs, each in its own way. So both follow the same rules.
"""

from __future__ import annotations

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
from ._clock import TimestampOrder
from ._contract import Keys
from ._errors import (
    HaulError, InvalidJob, InvalidSetting, NotAllPushed, NotReplicated, NoWorker, RedisFailed, Refused, Rejected, TimedOut,
    Unreachable,
)
from ._jobs import Element, derived_id, element, masked_url, scheduled, url_digest
from ._partitions import checksum, partitions
from ._results import (
    NO_EVENT, START, BatchStatus, JobResult, JobStatus, Outcome, QueueStats, batch_status, is_settled, job_status, outcome_of,
    Schedule, parse_event, position_of, removed, schedule_of,
)
from ._schedules import check_schedule, id_of_run, is_zone
from ._schema import BatchEndedEvent, Event, Job, RejectedEvent

T = TypeVar("T")
Command = Tuple[Union[str, int, float], ...]
Fields = Dict[str, str]

log = logging.getLogger("haul_client")


class Run(NamedTuple):
    """Needs the replies to commands, which are sent together."""

    commands: Sequence[Command]
    #: A key of the queue or partition that the commands are for. In a cluster it leads to their node.
    key: str
    #: For how long the commands may block: seconds.
    block: float = 0


class RunEach(NamedTuple):
    """Needs what becomes of commands for several partitions: an Answer for each. One that fails does not keep the others
    from theirs. The commands for one node are sent together; but if some block, all of them wait at the same time."""

    runs: Sequence[Run]


#: The replies to the commands of a Run, or why it has failed.
Answer = Union[List[Any], HaulError]


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


Need = Union[Run, RunEach, Listen, Receive, Pause, Emit, Call]
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
    #: Of the queue, or of the partition that has the list.
    keys: Keys


@dataclass
class SettledLoop:
    """What a loop has handed out."""

    name: str
    #: The marks of ends that were handed out and not acknowledged, with their replies that were taken later.
    open: Dict[str, List[Tuple[Keys, str]]]
    #: Acknowledged lately, so that no end is handed out twice because it is on the list and in the hash.
    done: OrderedDict[str, None]


class Intake:
    """The list of replies of one partition, as a loop knows it."""

    #: How many replies one look reads at most, and how many bytes they may have by the longest one of the last look.
    MOST, MOST_BYTES = 50, 65536
    #: A node that does not answer at all is asked again after several times as long as that took, but after so many
    #: seconds at most: the other partitions wait meanwhile.
    FACTOR, LONGEST = 3, 30.0

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        #: Whether the list of what was taken has to be read.
        self.is_new = True
        #: How many replies the last look has found, less those that were taken since.
        self.seen = 0
        #: How many the next look reads.
        self.page = 1
        #: Why nothing can be taken, since when, and when that is tried again.
        self.failure: Optional[Unreachable] = None
        self.since, self.retry, self._delay = 0.0, 0.0, 0.05

    def saw(self, texts: Sequence[str]) -> None:
        self.seen = len(texts)
        if texts:
            self.page = max(1, min(self.MOST, self.MOST_BYTES // max(map(len, texts))))

    def fail(self, error: Unreachable, began: float) -> None:
        """Whatever was asked for since `began` may have been taken nevertheless."""
        now = time.monotonic()
        if self.failure is None:
            self.since = now
        self.failure, self.is_new, self.seen = error, True, 0
        self.retry = now + max(self._delay, min(self.LONGEST, self.FACTOR * (now - began)))
        self._delay = min(1.0, self._delay * 2)

    def recover(self) -> None:
        self.failure, self.is_new, self._delay = None, False, 0.05


class Core:
    """The operations on one queue, which may have partitions.

    A job of such a queue is in the partition that its id leads to. But members of a batch, next steps and runs of a
    schedule are where their batch, parent or schedule is. So a job that is not known where its id leads is looked for in
    all partitions. What an operation calls the place of a job is the name that leads to its partition, if it is known.
    """

    #: The hash is read after so many seconds even if no message arrives.
    POLL = 15.0
    #: For how long one command waits for a reply on a list: seconds. With partitions all lists are empty then, and the
    #: other ones wait meanwhile.
    BLOCK, BLOCK_IN_TURN, AT_ONCE = 2.0, 0.2, 0.001
    #: How often `settled` logs that it cannot go on: seconds.
    WARN_EVERY = 30.0

    def __init__(self, queue: str, reply_to: Optional[str], patience: float) -> None:
        #: The keys of the partitions, or of a queue without any.
        self.parts = [Keys(name) for name in partitions(queue)]
        if reply_to is not None and not contract.ID.fullmatch(reply_to):
            raise HaulError(f"reply_to must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -, not {reply_to!r}")
        self.name = queue
        self.reply_to = reply_to
        #: For how long a call tries to reach Redis, or waits for a Redis that refuses it: seconds.
        self.patience = patience
        #: The timestamps of each partition, by the clock of its server.
        self._timestamps = {keys.prefix: TimestampOrder() for keys in self.parts}

    def partition_of(self, name: str) -> Keys:
        """Where a job with this id belongs, or a batch or a schedule of this name."""
        return self.parts[checksum(name) % len(self.parts)]

    # Commands

    def run(
        self, keys: Keys, *commands: Command, block: float = 0, until: Optional[float] = None
    ) -> Operation[List[Any]]:
        """Sends commands, which may be sent again, and waits while Redis cannot be reached or refuses them."""
        until = time.monotonic() + self.patience if until is None else until
        delay = 0.05
        while True:
            try:
                replies: List[Any] = yield Run(commands, keys.jobs, block)
                return replies
            except Unreachable as error:
                if time.monotonic() + delay > until:
                    raise self.named(error, keys)
            except (Refused, RedisFailed) as error:
                raise self.named(error, keys)
            yield Pause(delay)
            delay = min(1.0, delay * 2)

    def named(self, error: HaulError, keys: Keys) -> HaulError:
        """The error, with the name of the partition in its text."""
        if len(self.parts) == 1 or str(error).startswith(f"the partition {keys.queue}: "):
            return error
        return type(error)(f"the partition {keys.queue}: {error}")

    def time(self, keys: Keys) -> Operation[int]:
        """The clock of the server of these keys: unix ms."""
        (reply,) = yield from self.run(keys, ("TIME",))
        return _unix_ms(reply)

    def next_timestamp(self, keys: Keys, pushed: Optional[Sequence[str]] = None) -> Operation[int]:
        """The server's time for a push of these ids, or for a control operation.

        Calls for one job that follow each other are in the order of their timestamps.
        """
        order = self._timestamps[keys.prefix]
        while True:
            earlier = order.latest
            now = yield from self.time(keys)
            wait = order.wait(now, earlier, pushed)
            if wait == 0:
                return now
            yield Pause(wait / 1000)

    def find(
        self, ids: Sequence[str], until: Optional[float] = None, parts: Optional[Sequence[Keys]] = None,
        failures: Optional[Dict[str, Unreachable]] = None,
    ) -> Operation[List[Found]]:
        """The hash of each job, and the partition that knows it. A job that none knows is where its id leads.

        Only `parts` are asked. With `failures` those that cannot be reached are left out, and get their entry there.
        """
        found = [Found(self.partition_of(id), {}) for id in ids]
        parts = self.parts if parts is None else parts

        def read(numbers: Sequence[int], keys: Keys) -> Operation[None]:
            for start in range(0, len(numbers), contract.PAGE):
                if failures and keys.prefix in failures:
                    return
                page = numbers[start : start + contract.PAGE]
                try:
                    replies = yield from self.run(keys, *(("HGETALL", keys.job(ids[n])) for n in page), until=until)
                except Unreachable as error:
                    if failures is None:
                        raise
                    failures[keys.prefix] = error
                    return
                for number, fields in zip(page, replies):
                    if contract.STATE in fields or found[number].keys is keys:
                        found[number] = Found(keys, fields)

        for keys in parts:
            yield from read([n for n, each in enumerate(found) if each.keys is keys], keys)
        missing = [n for n, each in enumerate(found) if not each.is_known]
        if len(self.parts) > 1 and missing:
            homes = {n: found[n].keys for n in missing}
            for keys in parts:
                yield from read([n for n in missing if homes[n] is not keys and not found[n].is_known], keys)
        return found

    # Pushing

    def push_many(self, jobs: Sequence[Job], urgent: bool, replicas: int, within: float) -> Operation[List[Element]]:
        elements = [element(job, self.reply_to) for job in jobs]
        numbers: Dict[str, List[int]] = {}
        for number, each in enumerate(elements):
            numbers.setdefault(self.partition_of(each.place).prefix, []).append(number)
        open = [keys for keys in self.parts if keys.prefix in numbers]
        pushes: Dict[str, Run] = {}
        failures: Dict[str, HaulError] = {}
        confirmed, delay, until = replicas, 0.05, time.monotonic() + self.patience
        while open:
            undated = {
                keys.prefix: [elements[n].id for n in numbers[keys.prefix] if elements[n].at is None]
                for keys in open if keys.prefix not in pushes
            }
            timestamps = yield from self._timestamps_of([keys for keys in open if undated.get(keys.prefix)], undated)
            for keys in open:
                at = timestamps.get(keys.prefix, 0)
                if isinstance(at, HaulError):
                    # All jobs are checked before one is pushed, also those that get their `at` later.
                    for number in numbers[keys.prefix] if keys.prefix not in failures else ():
                        self._dated(elements[number], int(time.time() * 1000)).text
                    failures[keys.prefix] = at
                elif keys.prefix not in pushes:
                    for number in numbers[keys.prefix]:
                        elements[number] = self._dated(elements[number], at)
                    texts = [elements[number].text for number in numbers[keys.prefix]]
                    pushes[keys.prefix] = self._push(texts, keys, urgent, replicas, within)
            ready = [keys for keys in open if keys.prefix in pushes]
            answers: List[Answer] = (yield RunEach([pushes[keys.prefix] for keys in ready])) if ready else []
            for keys, answer in zip(ready, answers):
                if isinstance(answer, HaulError):
                    failures[keys.prefix] = answer
                    continue
                failures.pop(keys.prefix, None)
                if replicas > 0:
                    confirmed = min(confirmed, int(answer[-1]))
            open = [keys for keys in open if isinstance(failures.get(keys.prefix), Unreachable)]
            if time.monotonic() + delay > until:
                break
            if open:
                yield Pause(delay)
                delay = min(1.0, delay * 2)
        if failures:
            raise self._not_pushed(elements, failures)
        if confirmed < replicas:
            raise NotReplicated(
                f"{confirmed} of {replicas} replicas have the push after {within:g} s; it is pushed all the same"
            )
        return elements

    @staticmethod
    def _dated(element: Element, at: int) -> Element:
        return element.made(at if element.at is None else element.at)

    def _timestamps_of(
        self, parts: Sequence[Keys], ids: Mapping[str, Sequence[str]]
    ) -> Operation[Dict[str, Union[int, HaulError]]]:
        """As `next_timestamp`, for a push of these ids in each of several partitions, by their prefixes."""
        found: Dict[str, Union[int, HaulError]] = {}
        while len(found) < len(parts):
            missing = [keys for keys in parts if keys.prefix not in found]
            earlier = [self._timestamps[keys.prefix].latest for keys in missing]
            answers: List[Answer] = yield RunEach([Run([("TIME",)], keys.jobs) for keys in missing])
            waits = []
            for keys, before, answer in zip(missing, earlier, answers):
                if isinstance(answer, HaulError):
                    found[keys.prefix] = answer
                    continue
                now = _unix_ms(answer[0])
                wait = self._timestamps[keys.prefix].wait(now, before, ids[keys.prefix])
                if wait:
                    waits.append(wait)
                else:
                    found[keys.prefix] = now
            if waits:
                yield Pause(min(waits) / 1000)
        return found

    def _push(self, texts: List[str], keys: Keys, urgent: bool, replicas: int, within: float) -> Run:
        """Pushes jobs of one partition. The last reply says how many replicas have confirmed that, if they are asked."""
        if urgent:  # The last element that is pushed to the front is taken first.
            texts.reverse()
        verb = "RPUSH" if urgent else "LPUSH"
        pages: List[Command] = [
            (verb, keys.jobs, *texts[start : start + contract.PAGE]) for start in range(0, len(texts), contract.PAGE)
        ]
        if replicas < 1:
            return Run(pages, keys.jobs)
        return Run([*pages, ("WAIT", replicas, max(1, int(within * 1000)))], keys.jobs, within)

    def _not_pushed(self, elements: Sequence[Element], failures: Mapping[str, HaulError]) -> HaulError:
        """Says which jobs are pushed, and which are not, so that only these are pushed again."""
        # An error that does not end by itself matters more than a partition that is away.
        failure = next((each for each in failures.values() if not isinstance(each, Unreachable)), None)
        failure = failure or next(iter(failures.values()))
        if len(self.parts) == 1:
            return failure
        pushed: Dict[str, int] = {}
        rest: Dict[str, Optional[int]] = {}
        for each in elements:
            if self.partition_of(each.place).prefix in failures:
                rest[each.id] = each.at
            elif each.at is not None:
                pushed[each.id] = each.at
        names = [keys.queue for keys in self.parts if keys.prefix in failures]
        where = f"the partition {names[0]}" if len(names) == 1 else f"the partitions {', '.join(names)}"
        shown = ", ".join(list(rest)[:10]) + (f" and {len(rest) - 10} more" if len(rest) > 10 else "")
        perhaps = "perhaps not" if any(at is not None for at in rest.values()) else "not"
        text = f"{where}: {failure}"
        if len(elements) > 1:
            text += f". {len(pushed)} of {len(pushed) + len(rest)} jobs are pushed, but {perhaps} {shown}"
            text += ". Push only these again" if pushed else ""
        return NotAllPushed(text, names, pushed, rest) if isinstance(failure, Unreachable) else type(failure)(text)

    # Control

    def control(self, operation: str, ids: Sequence[str]) -> Operation[None]:
        if isinstance(ids, str):
            raise TypeError(f"ids must be a sequence of ids, not the text {ids!r}")
        known: List[Found] = []
        if len(self.parts) > 1 and ids:
            known = yield from self.find(ids)
        for keys in self.parts:
            # An operation for a job that no partition knows is for whichever gets it.
            own = [id for id, each in zip(ids, known) if each.keys is keys or not each.is_known] if known else list(ids)
            if not own:
                continue
            timestamp = yield from self.next_timestamp(keys)
            for start in range(0, len(own), contract.PAGE):
                page = own[start : start + contract.PAGE]
                pairs = [text for id in page for text in (id, f"{operation} {timestamp}")]
                yield from self.run(keys, ("HSET", keys.want, *pairs))
                yield from self.run(keys, *(("PUBLISH", keys.control, id) for id in page))

    def control_batch(self, operation: str, name: str) -> Operation[None]:
        keys = self.partition_of(name)
        timestamp = yield from self.next_timestamp(keys)
        yield from self.run(keys, ("HSET", keys.want, Keys.batch_field(name), f"{operation} {timestamp}"))

    # Reading

    def statuses(self, ids: Sequence[str]) -> Operation[List[JobStatus]]:
        """The known ones of these jobs."""
        found = yield from self.find(ids)
        return [status for id, each in zip(ids, found) for status in [job_status(id, each.fields)] if status]

    def ids_with_url(self, url: str) -> Operation[List[str]]:
        """The jobs of a URL: those that a worker has claimed by its digest, the others by their elements."""
        found: Set[str] = set()
        for keys in self.parts:
            found |= yield from self._ids_with_url(url, keys)
        return sorted(found)

    def _ids_with_url(self, url: str, keys: Keys) -> Operation[Set[str]]:
        digest = url_digest(url)
        owner, others = yield from self.run(keys, ("HGET", keys.urls, digest), ("HGETALL", keys.url(digest)))
        candidates = sorted({digest, *others, *([owner] if owner else [])})
        found: Set[str] = set()
        for start in range(0, len(candidates), contract.PAGE):
            page = candidates[start : start + contract.PAGE]
            hashes = yield from self.run(
                keys, *(("HMGET", keys.job(id), contract.STATE, contract.URL, contract.URL_DIGESTS) for id in page)
            )
            for id, (state, masked, digests) in zip(page, hashes):
                if state and (digest in digests.split() if digests else id == digest and masked == masked_url(url)):
                    found.add(id)
        for list_key in (yield from self._waiting_lists(keys)):
            start = 0
            while True:
                (elements,) = yield from self.run(keys, ("LRANGE", list_key, start, start + contract.PAGE - 1))
                for text in elements:
                    if url in text or "\\" in text:
                        found |= _ids_of(text, url)
                if len(elements) < contract.PAGE:
                    break
                start += len(elements)
        return found

    def status(self, id: str, place: Optional[str] = None) -> Operation[Optional[JobStatus]]:
        reading = yield from self.read_state(id, None, place)
        return reading.status

    def read_state(
        self, id: str, at: Optional[int], place: Optional[str], until: Optional[float] = None, was_known: bool = False
    ) -> Operation[StateReading]:
        """Reads a job's hash, and says whether the push has come to its end.

        A removed job leaves a record of that for an hour. Without one, Redis may have lost the job's last seconds.
        """
        if place is None:
            ((keys, fields),) = yield from self.find([id], until)
        else:
            keys = self.partition_of(place)
            (fields,) = yield from self.run(keys, ("HGETALL", keys.job(id)), until=until)
        reading = reading_of(id, at, fields, keys)
        if reading.status is None and at is None and was_known and is_settled(fields, 1):
            return StateReading(None, removed(id), keys)
        return reading

    def batch(self, name: str, until: Optional[float] = None) -> Operation[Optional[BatchStatus]]:
        keys = self.partition_of(name)
        (fields,) = yield from self.run(keys, ("HGETALL", keys.batch(name)), until=until)
        return batch_status(name, fields)

    def workers(self) -> Operation[int]:
        names: Set[str] = set()
        for keys in self.parts:
            now = yield from self.time(keys)
            (seen,) = yield from self.run(keys, ("ZRANGE", keys.workers, now - contract.SILENCE * 1000, "+inf", "BYSCORE"))
            names.update(seen)
        return len(names)

    def _waiting_lists(self, keys: contract.Keys) -> Operation[List[str]]:
        """The keys of the lists in which elements wait: in the queue, for a host, a kind or a group, and for a worker."""
        workers, hosts, kinds, groups = yield from self.run(
            keys,
            ("ZRANGE", keys.workers, 0, -1),
            ("ZRANGE", keys.deferred_hosts, 0, -1),
            ("HGETALL", keys.deferred_kinds),
            ("ZRANGE", keys.deferred_groups, 0, -1),
        )
        lists = [keys.jobs]
        lists += [keys.held(name) for name in workers]
        lists += [keys.deferred_host(name) for name in hosts]
        lists += [keys.deferred_kind(name) for name in kinds]
        lists += [keys.deferred_group(name) for name in groups]
        return lists

    def waiting(self, keys: contract.Keys) -> Operation[int]:
        """How many elements wait."""
        lists = yield from self._waiting_lists(keys)
        count = 0
        # Redis serves no other client during a pipeline, and there may be thousands of hosts.
        for start in range(0, len(lists), 500):
            lengths = yield from self.run(keys, *(("LLEN", key) for key in lists[start : start + 500]))
            count += sum(int(length) for length in lengths)
        return count

    def stats(self) -> Operation[QueueStats]:
        counts = dict.fromkeys(contract.STATES, 0)
        for keys in self.parts:
            # The waiting jobs first: one that is claimed meanwhile is counted twice, and not left out.
            counts["queued"] += yield from self.waiting(keys)
            states = [state for state in contract.STATES if state != "queued"]
            replies = yield from self.run(keys, *(("ZCARD", keys.index(state)) for state in states))
            for state, reply in zip(states, replies):
                counts[state] += int(reply)
        workers = yield from self.workers()
        return QueueStats(counts, workers)

    # Waiting for one job

    def result(
        self, id: str, at: Optional[int], timeout: Optional[float], place: Optional[str] = None
    ) -> Operation[JobResult]:
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        # Look before the subscription is there: a job that has ended already needs no wait.
        reading = yield from self.read_state(id, at, place, deadline)
        if reading.result:
            return reading.result
        yield Listen(reading.keys.events(id))
        was_known = reading.status is not None
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
                    rejection = yield from self._rejection(id, at, reading.keys, deadline, event)
                    if rejection:
                        raise Rejected(rejection.reason)
                if event is None or event.event not in (*contract.FINAL_STATES, "duplicate"):
                    continue
                # A removal publishes the job's end, and then forgets the job.
                was_known = was_known or event.event in contract.FINAL_STATES
            elif message is None and time.monotonic() < next_poll:
                continue
            next_poll = time.monotonic() + self.POLL
            reading = yield from self.read_state(id, at, place, deadline, was_known)
            if reading.result:
                return reading.result
            was_known = was_known or reading.status is not None
            if not isinstance(message, str):
                # The event may have been published before the subscription.
                rejection = yield from self._rejection(id, at, reading.keys, deadline)
                if rejection:
                    raise Rejected(rejection.reason)

    def _rejection(
        self, id: str, at: Optional[int], keys: Keys, until: float, event: Optional[RejectedEvent] = None
    ) -> Operation[Optional[RejectedEvent]]:
        """The event that the push of `at` was rejected. An event names only the job, and others may push an invalid
        element or operation for the same job. So the list of rejected elements decides, or else the hash, which says whether a
        worker has taken the push."""
        if at is None and event is None:
            return None
        entries: List[Dict[str, Any]] = []
        # An entry has up to 4 KiB, and waiting callers search the list again and again.
        newest = 20 if event is None else 100
        try:
            (found,) = yield from self.run(keys, ("LRANGE", keys.rejected, 0, newest - 1), until=until)
            entries = [_object(entry) for entry in found]
        except (Refused, RedisFailed):  # The role of a service may not read the list.
            pass
        for entry in entries:
            # Only the beginning of a long element is kept. Ours begin with the id and `at`.
            shown = str(entry.get("element", ""))
            element = _object(shown)
            named, made = element.get("id"), element.get("at")
            if not element:
                own = re.match(r'\{"id":"([A-Za-z0-9._:-]+)","at":([0-9]{1,14}),', shown)
                named, made = (own[1], int(own[2])) if own else (None, None)
            if at is not None and (named, made) == (id, at):
                return RejectedEvent(id, keys.queue, int(entry.get("at", 0)), str(entry.get("reason", "")))
            is_known = bool(element) or made is not None
            is_of_event = event is not None and (entry.get("at"), entry.get("reason")) == (event.at, event.reason)
            if is_of_event and (not shown.startswith("{") or at is not None and is_known and made != at):
                return None  # It is about another push.
        if event is None:
            return None
        (fields,) = yield from self.run(keys, ("HMGET", keys.job(id), "state", "pushed"), until=until)
        is_taken = int(fields[1] or 0) >= at if at is not None else fields[0] is not None
        return None if is_taken else event

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
        yield Listen(self.partition_of(name).batch_events(name))
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

    def events(self, id: str, at: Optional[int], place: Optional[str] = None) -> Operation[None]:
        """Emits the job's status, then its events in order, each once. A status replaces events that were missed."""
        keys = self.partition_of(id if place is None else place)
        if place is None and len(self.parts) > 1:
            keys = (yield from self.find([id], float("inf")))[0].keys
        yield Listen(keys.events(id))
        position = START
        was_known = False
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
                    if (yield from self._rejection(id, at, keys, float("inf"), event)):
                        return
                continue
            if event_position is not None and event_position <= position:
                continue
            was_known = was_known or event is not None
            if event_position is None or not (position <= NO_EVENT or event_position.follows(position)):
                # Events may have been missed. The hash is at least as new as this event.
                reading = yield from self.read_state(id, at, place, float("inf"), was_known)
                status = reading.status
                was_known = was_known or status is not None
                # The end of an earlier push does not concern this one.
                is_old = status is not None and status.has_ended and not reading.result
                if status and not is_old and (status.position > position or reading.result):
                    if status.position > position or event is None:
                        yield Emit(status)
                    position = max(position, status.position)
                if reading.result:
                    return
                # The event of a rejection may have been published before the subscription.
                rejection = None if event else (yield from self._rejection(id, at, keys, float("inf")))
                if rejection:
                    yield Emit(rejection)
                    return
            if event and event_position is not None and event_position > position:
                position = event_position
                yield Emit(event)
                if event.event in (*contract.FINAL_STATES, "duplicate"):
                    # The event may be the end of an earlier push. The hash decides.
                    reading = yield from self.read_state(id, at, place, float("inf"), was_known)
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
        intakes = [Intake(keys) for keys in self.parts]
        next_poll, next_look, next_warning, turn = 0.0, 0.0, 0.0, 0
        last = time.monotonic()
        while True:
            ready = [each for each in intakes if each.failure is None]
            deliveries: List[Delivery] = []
            if open_jobs and time.monotonic() >= next_poll:
                jobs = list((yield Call(open_jobs)))
                deliveries += (yield from self._ended(jobs, loop, ready))
                next_poll = time.monotonic() + every
                ready = [each for each in ready if each.failure is None]
            if any(each.is_new for each in ready) or len(intakes) > 1 and (
                time.monotonic() >= next_look or not any(each.seen for each in ready)
            ):
                deliveries += (yield from self._look(loop, ready))
                next_look = time.monotonic() + self.BLOCK_IN_TURN
            if not deliveries:
                deliveries += (yield from self._take(loop, [each for each in ready if each.seen]))
            ready = [each for each in ready if each.failure is None]
            if not deliveries and not any(each.seen for each in ready):
                block = self.BLOCK if len(intakes) == 1 else min(self.BLOCK, self.BLOCK_IN_TURN)
                rest = block if idle is None else last + idle - time.monotonic()
                if rest > 0 or len(ready) == len(intakes):
                    block = max(0.01, min(block, rest))
                if ready:
                    turn += 1
                    deliveries += (yield from self._wait(loop, ready[turn % len(ready)], block))
                else:
                    retry = min(each.retry for each in intakes)
                    yield Pause(min(1.0, max(0.01, retry - time.monotonic())))
            if (yield from self._hand_out(deliveries, loop, intakes)):
                last = time.monotonic()
            # Those that were away come last, because a node that does not answer at all takes its time.
            late = [each for each in intakes if each.failure and time.monotonic() >= each.retry]
            is_back = False
            if late:
                found = yield from self._retry(loop, late)
                is_back = any(each.failure is None for each in late)
                if is_back:
                    next_poll = 0.0
                if (yield from self._hand_out(found, loop, intakes)):
                    last = time.monotonic()
                deliveries += found
            away = [each for each in intakes if each.failure]
            now = time.monotonic()
            if not away:
                next_warning = 0.0
            elif now >= next_warning:
                log.warning("no ends can be taken from Redis; trying again: %s", self._failure(away[0]))
                next_warning = now + self.WARN_EVERY
            # After an outage everything is read once more before the loop may end.
            if idle is not None and not deliveries and not is_back and now >= last + idle:
                if not away:
                    return
                # Ends may wait where Redis is away, so the loop does not end as if there were none.
                if now >= min(each.since for each in away) + self.patience:
                    raise self._failure(away[0])

    def _failure(self, intake: Intake) -> HaulError:
        assert intake.failure is not None
        return self.named(intake.failure, intake.keys)

    def _look(self, loop: SettledLoop, intakes: Sequence[Intake]) -> Operation[List[Delivery]]:
        """Reads what was taken earlier, and with partitions how many replies wait, which takes nothing.

        A BLMOVE cannot ask that: an idle Redis ends even the shortest wait only with its next tick, up to 0.1 seconds
        later.
        """
        runs = []
        for each in intakes:
            commands: List[Command] = []
            if each.is_new:
                commands.append(("LRANGE", each.keys.taken(loop.name), 0, -1))
            if len(self.parts) > 1:
                commands.append(("LRANGE", each.keys.reply(loop.name), -each.page, -1))
            runs.append(Run(commands, each.keys.jobs))
        deliveries: List[Delivery] = []
        for each, replies in (yield from self._answers(intakes, runs)):
            if len(self.parts) > 1:
                each.saw(replies[-1])
            if each.is_new:
                deliveries += (yield from self._accept(replies[0][::-1], loop, each))
                each.is_new = each.failure is not None
        return deliveries

    def _take(self, loop: SettledLoop, intakes: Sequence[Intake]) -> Operation[List[Delivery]]:
        """Moves the oldest reply of each list that is not empty to the list of what was taken."""
        runs = [Run(self._move(loop, each.keys, self.AT_ONCE), each.keys.jobs) for each in intakes]
        deliveries: List[Delivery] = []
        for each, (text, _) in (yield from self._answers(intakes, runs)):
            # Another consumer may have been faster.
            each.seen = each.seen - 1 if text is not None else 0
            deliveries += (yield from self._accept([text], loop, each))
        return deliveries

    def _wait(self, loop: SettledLoop, intake: Intake, block: float) -> Operation[List[Delivery]]:
        """Waits for a reply in one partition for `block` seconds."""
        began = time.monotonic()
        try:
            text, _ = yield Run(self._move(loop, intake.keys, block), intake.keys.jobs, block)
        except Unreachable as error:
            intake.fail(error, began)
            return []
        except (Refused, RedisFailed) as error:
            raise self.named(error, intake.keys)
        return (yield from self._accept([text], loop, intake))

    def _retry(self, loop: SettledLoop, intakes: Sequence[Intake]) -> Operation[List[Delivery]]:
        """Reads what was taken, and takes a reply, where that has failed before. A Redis that only refuses writes is
        still away."""
        runs = []
        for each in intakes:
            read: Command = ("LRANGE", each.keys.taken(loop.name), 0, -1)
            runs.append(Run([read, *self._move(loop, each.keys, self.AT_ONCE)], each.keys.jobs))
        deliveries: List[Delivery] = []
        for each, (texts, text, _) in (yield from self._answers(intakes, runs)):
            each.recover()
            deliveries += (yield from self._accept([*texts[::-1], text], loop, each))
        return deliveries

    def _answers(self, intakes: Sequence[Intake], runs: Sequence[Run]) -> Operation[List[Tuple[Intake, List[Any]]]]:
        """The replies of the partitions that have answered."""
        began = time.monotonic()
        answers: List[Answer] = (yield RunEach(runs)) if runs else []
        found = []
        for each, answer in zip(intakes, answers):
            if isinstance(answer, Unreachable):
                each.fail(answer, began)
            elif isinstance(answer, HaulError):
                raise self.named(answer, each.keys)
            else:
                found.append((each, answer))
        return found

    @staticmethod
    def _move(loop: SettledLoop, keys: Keys, block: float) -> List[Command]:
        """Moves the oldest reply to the list of what was taken, so that it is not lost if this program is killed."""
        taken, replies = keys.taken(loop.name), keys.reply(loop.name)
        return [("BLMOVE", replies, taken, "RIGHT", "LEFT", block), ("PEXPIRE", taken, contract.KEEP_TAKEN)]

    def _accept(self, texts: Iterable[Optional[str]], loop: SettledLoop, intake: Intake) -> Operation[List[Delivery]]:
        """The ends in replies that were taken. If Redis is away, what was taken is read again later."""
        began = time.monotonic()
        try:
            return (yield from self._deliveries([text for text in texts if text is not None], loop, intake.keys))
        except Unreachable as error:
            intake.fail(error, began)
            return []

    def _hand_out(
        self, deliveries: Sequence[Delivery], loop: SettledLoop, intakes: Sequence[Intake]
    ) -> Operation[bool]:
        """Emits the ends that were not handed out before. Returns whether there was one."""
        has_emitted = False
        for delivery in deliveries:
            later = loop.open.get(delivery.mark)
            if delivery.mark in loop.done:
                # It was acknowledged since this reply was read.
                began = time.monotonic()
                try:
                    yield from self.acknowledge(delivery, until=0)
                except Unreachable as error:
                    for each in intakes:
                        if each.keys is delivery.keys:
                            each.fail(error, began)
            elif later is None:
                loop.open[delivery.mark] = []
                yield Emit(delivery)
                has_emitted = True
            elif delivery.text is not None and (delivery.keys, delivery.text) not in later:
                later.append((delivery.keys, delivery.text))
        return has_emitted

    def _deliveries(self, texts: Iterable[str], loop: SettledLoop, keys: Keys) -> Operation[List[Delivery]]:
        found = []
        for text in texts:
            event = parse_event(text)
            outcome = outcome_of(event) if event else None
            mark = _mark(event, text) if event else text
            if outcome is None or mark in loop.done:
                if outcome is None:
                    log.warning("a reply that is not a final event is skipped: %.200s", text)
                yield Run([("LREM", keys.taken(loop.name), 1, text)], keys.jobs)
                continue
            found.append(Delivery(outcome, text, mark, loop, keys))
        return found

    def _ended(
        self, jobs: Sequence[Open], loop: SettledLoop, intakes: Sequence[Intake]
    ) -> Operation[List[Delivery]]:
        """The ends of open jobs in the partitions of these lists, from their hashes."""
        found, began = [], time.monotonic()
        failures: Dict[str, Unreachable] = {}
        # Without patience, because the loop itself waits for Redis.
        read = yield from self.find([id for id, _ in jobs], 0, [each.keys for each in intakes], failures)
        for each in intakes:
            if each.keys.prefix in failures:
                each.fail(failures[each.keys.prefix], began)
        for (id, at), (keys, fields) in zip(jobs, read):
            reading = reading_of(id, at, fields, keys)
            # What is left of a removed job has the numbers of the last event before its removal, which is another end.
            number = fields.get(contract.SEQUENCE) if reading.status else f"removed {at}"
            mark = f"{id} {fields.get(contract.EPOCH)} {number}"
            if reading.result and mark not in loop.done:
                found.append(Delivery(reading.result, None, mark, loop, keys))
        return found

    def acknowledge(self, delivery: Delivery, until: Optional[float] = None) -> Operation[None]:
        if delivery.text is not None:
            remove = ("LREM", delivery.keys.taken(delivery.loop.name), 1, delivery.text)
            yield from self.run(delivery.keys, remove, until=until)
        delivery.loop.done[delivery.mark] = None
        # The reply of an end that was read from the job's hash may have been taken since.
        for keys, text in delivery.loop.open.pop(delivery.mark, []):
            yield from self.run(keys, ("LREM", keys.taken(delivery.loop.name), 1, text), until=until)
        while len(delivery.loop.done) > 10_000:
            delivery.loop.done.popitem(last=False)

    def settled_loop(self, name: Optional[str]) -> SettledLoop:
        name = name or self.reply_to
        if name is None:
            raise HaulError("settled needs the name of a list: give the queue a reply_to, or name it here")
        if not contract.ID.fullmatch(name):
            raise HaulError(f"the name of a list must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -, not {name!r}")
        return SettledLoop(name, {}, OrderedDict())

    # Schedules

    def add_schedule(self, name: str, definition: Mapping[str, Any], job: Job) -> Operation[None]:
        if not contract.SCHEDULE.fullmatch(name):
            raise HaulError(f"the name of a schedule must be 1 to 96 of the characters A-Z a-z 0-9 . _ : -, not {name!r}")
        whole = {key: value for key, value in definition.items() if value is not None}
        check_schedule(whole)
        whole["job"] = scheduled(job, name, self.reply_to)
        batch = whole["job"].get("batch")
        batch = batch["name"] if isinstance(batch, dict) else batch
        if batch is not None and self.partition_of(batch) != self.partition_of(name):
            raise InvalidJob("batch", f"is counted in another partition than that of the schedule: name the schedule {batch}, or leave the batch out")
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        keys = self.partition_of(name)
        # Its runs count from now on, whenever a worker plans it.
        changed = (yield from self.time(keys)) / contract.SCHEDULE_SCALE
        yield from self.run(keys, ("HSET", keys.schedules, name, text), ("ZADD", keys.schedule_due, "LT", changed, name))

    def pause_schedule(self, name: str, paused: bool) -> Operation[None]:
        yield from self.schedule_definition(name)
        keys = self.partition_of(name)
        # The definition is not written, because others may change it at the same time.
        changed = (yield from self.time(keys)) / contract.SCHEDULE_SCALE
        yield from self.run(
            keys, ("HSET", keys.schedule_paused, name, int(paused)), ("ZADD", keys.schedule_due, "LT", changed, name)
        )

    def run_schedule(self, name: str) -> Operation[Tuple[str, int]]:
        definition, keys = (yield from self.schedule_definition(name)), self.partition_of(name)
        # The score plus 0 is the score. A run that was requested, and has not been pushed yet, is this run.
        (due,) = yield from self.run(keys, ("ZADD", keys.schedule_due, "XX", "INCR", 0, name))
        at = int(-float(due)) if due is not None and float(due) < 0 else (yield from self.next_timestamp(keys, [name]))
        yield from self.run(keys, ("ZADD", keys.schedule_due, -at, name))
        return id_of_run(name, at, definition), at

    def remove_schedule(self, name: str) -> Operation[None]:
        keys = self.partition_of(name)
        yield from self.run(
            keys, ("HDEL", keys.schedules, name), ("HDEL", keys.schedule_paused, name),
            ("ZADD", keys.schedule_due, 0, name),
        )

    def schedule_definition(self, name: str) -> Operation[Dict[str, Any]]:
        keys = self.partition_of(name)
        (text,) = yield from self.run(keys, ("HGET", keys.schedules, name))
        if text is None:
            raise HaulError(f"the queue has no schedule {name}")
        return _object(text)

    def schedules(self) -> Operation[Dict[str, Schedule]]:
        found: Dict[str, Schedule] = {}
        for keys in self.parts:
            definitions, pauses = yield from self.run(
                keys, ("HGETALL", keys.schedules), ("HGETALL", keys.schedule_paused)
            )
            names = list(definitions)
            if not names:
                continue
            states = yield from self.run(keys, *(("HGETALL", keys.schedule(name)) for name in names))
            for name, state in zip(names, states):
                found[name] = schedule_of(name, _object(definitions[name]), dict(state), pauses.get(name))
        return dict(sorted(found.items()))

    # Settings

    def settings(self) -> Operation[Fields]:
        found: Fields = {}
        for keys in self.parts:
            (fields,) = yield from self.run(keys, ("HGETALL", keys.settings))
            # All partitions have the same, unless a change has not reached all of them.
            found = {**fields, **found}
        return found

    def change_settings(self, changes: Mapping[str, Any]) -> Operation[None]:
        values = {name: setting_value(name, value) for name, value in changes.items()}
        new = [text for name, value in values.items() if value is not None for text in (name, value)]
        old = [name for name, value in values.items() if value is None]
        failed: List[str] = []
        failure: Optional[HaulError] = None
        for keys in self.parts if values else []:
            commands: List[Command] = []
            if new:
                commands.append(("HSET", keys.settings, *new))
            if old:
                commands.append(("HDEL", keys.settings, *old))
            try:
                yield from self.run(keys, *commands)
            except HaulError as error:
                # The other partitions get the change nevertheless, such as a pause during a failure.
                failed.append(keys.prefix[6:-2])
                failure = failure or error
        if failure and len(failed) < len(self.parts):
            raise type(failure)(
                f"{len(self.parts) - len(failed)} of {len(self.parts)} partitions have the change, but not "
                f"{', '.join(failed)} ({failure}). Make the same change again when all of them answer"
            ) from failure
        if failure:
            raise failure


def _unix_ms(time: Sequence[Any]) -> int:
    """The reply to TIME."""
    return int(time[0]) * 1000 + int(time[1]) // 1000


class Found(NamedTuple):
    """A job's hash, and the partition that knows it."""

    keys: Keys
    fields: Fields

    @property
    def is_known(self) -> bool:
        return contract.STATE in self.fields


class StateReading(NamedTuple):
    #: None for a job that is not known.
    status: Optional[JobStatus]
    #: How the push ended. None if it has not.
    result: Optional[JobResult]
    #: Of the partition in which the job is, or should be.
    keys: Keys


def reading_of(id: str, at: Optional[int], fields: Mapping[str, str], keys: Keys) -> StateReading:
    status = job_status(id, fields)
    if status is None:
        is_removed = at is not None and is_settled(fields, at)
        return StateReading(None, removed(id) if is_removed else None, keys)
    return StateReading(status, status.result() if status.has_ended_since(at) else None, keys)


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
    # A worker will reject an element whose fields have other types.
    id, path = fields.get("id"), fields.get("path", "")
    if id is None and isinstance(path, str):
        try:
            return {derived_id(fields, text)}
        except UnicodeEncodeError:
            return set()
    return {id} if isinstance(id, str) and contract.ID.fullmatch(id) else set()


def _object(text: str) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    # Brackets may be nested too deeply for Python.
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_SECONDS = (60, 315_360_000)
_WHOLE = (0, 99_999_999_999_999)
_NUMBERS = {
    "max_running": _WHOLE, "rate": (1, _WHOLE[1]), "max_seconds": (1, _WHOLE[1]), "min_speed": (1, _WHOLE[1]),
    "max_bytes": (1, _WHOLE[1]), "host_connections": _WHOLE, "max_responses_bytes": _WHOLE, "max_replies_bytes": _WHOLE,
    "event_stream": (0, 1_000_000),
    "keep_completed": _SECONDS, "keep_failed": _SECONDS, "keep_cancelled": _SECONDS,
}


_TIME = "([01]?[0-9]|2[0-3]):[0-5][0-9]|24:00"
_ZONE_PART = "(?-i:[A-Z])[A-Za-z0-9_+-]*"
_RATE = re.compile(
    r"((?-i:full)|(?P<count>[0-9]+(\.[0-9]+)?) ?(?P<unit>[kmgtp](i?b)?|[kmgtp]i|b)?(/s)?)"
    rf"( +(?P<begin>{_TIME})-(?P<end>{_TIME})( +(?P<zone>{_ZONE_PART}(/{_ZONE_PART})*))?)?",
    re.ASCII | re.IGNORECASE,
)


def _is_rate(text: str) -> bool:
    """Whether a text is a limit of bytes per second, perhaps one that depends on the time of day."""
    rules = _rules(text)
    return all(rule is not None and _is_rule(rule) for rule in rules) and all(
        rule is not None and rule["begin"] for rule in rules[:-1])


def _rules(text: str) -> "List[Optional[re.Match[str]]]":
    return [_RATE.fullmatch(part.strip(" ")) for part in text.split(",")]


def _is_rule(rule: "re.Match[str]") -> bool:
    if rule["begin"] and _minutes(rule["begin"]) == _minutes(rule["end"]):
        return False
    if rule["count"] is None:
        return True
    unit = (rule["unit"] or "b").lower()
    # "k", "ki" and "kib" are 1024, and "kb" is 1000.
    factor = 1 if unit == "b" else (1000 if unit[1:] == "b" else 1024) ** (1 + "kmgtp".index(unit[0]))
    if "." in rule["count"] and factor == 1:
        return False
    return 1 <= round(float(rule["count"]) * factor) <= _WHOLE[1]


def _minutes(time: str) -> int:
    hour, _, minute = time.partition(":")
    return 60 * int(hour) + int(minute)


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
            zones = [rule["zone"] for rule in _rules(value) if rule is not None and rule["zone"]]
            unknown = next((zone for zone in zones if not is_zone(zone)), None)
            if unknown is None:
                return value
            raise InvalidSetting(name, f"has the time zone {unknown!r}, which this machine does not know")
        raise InvalidSetting(
            name, f'must be bytes per second like 5000000 or "5M", or by the time of day like "full 22:00-06:00 Europe/Berlin, 2M", not {value!r}'
        )
    if name not in _NUMBERS:
        raise InvalidSetting(name, "is not a setting of a queue")
    low, high = _NUMBERS[name]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidSetting(name, f"must be a whole number from {low} to {high}, not {value!r}")
    return str(value)

