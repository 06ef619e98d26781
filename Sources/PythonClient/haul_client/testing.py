"""Queues without Redis and workers, for the tests of a service.

    from haul_client.testing import FakeQueue

    queue = FakeQueue(reply_to="shop", worker=lambda job: job.complete(file=f"films/{job.id}.bin", bytes=7))
    assert queue.push(Download("https://example.org/a", id="a")).result().file == "films/a.bin"

Only the server and the workers are fake. A FakeQueue follows the rules of a Queue with the same code: what is pushed
is checked, repeats are duplicates, ends are delivered until they are acknowledged. The steps of a job (`then`,
`else_`) are pushed when it ends, and `run_schedule` pushes the job of a schedule. What it leaves out: delays, deadlines,
retries, limits, webhooks, the due times of schedules, and the order among waiting jobs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import time
import uuid
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from . import _contract as contract
from ._async import AsyncConnection, AsyncQueue, AsyncSubscription
from ._contract import Keys
from ._core import Answer, Command, Notice, Run
from ._errors import HaulError, InvalidJob, RedisFailed, Unreachable
from ._jobs import check, derived_id, is_unknown_limit, to_json, url_digest
from ._results import is_settled
from ._schedules import id_of_run
from ._schema import FIELDS
from ._sync import Connection, Queue, Subscription

Worker = Callable[["FakeJob"], None]

_TICK = 0.005


class FakeJob:
    """A job that a fake worker has taken. Its methods do what a worker would."""

    def __init__(self, fleet: FakeFleet, fields: Dict[str, Any], id: str) -> None:
        self._fleet = fleet
        #: The element as it was pushed.
        self.fields: Mapping[str, Any] = fields
        self.id = id

    @property
    def url(self) -> str:
        url: str = self.fields["url"] if "url" in self.fields else self.fields["urls"][0]
        return url

    @property
    def kind(self) -> str:
        return str(self.fields.get("kind", "download"))

    @property
    def state(self) -> str:
        return self._fleet.hash(self.id).get(contract.STATE, "")

    def progress(self, received: int, total: Optional[int] = None) -> None:
        """Publishes progress."""
        self._fleet.update(self.id, {contract.RECEIVED: received, contract.TOTAL: total})
        members = {"received": received, "total": total, "speed": 0, "average": 0, "connections": 1}
        self._fleet.emit(self.id, "progress", members)

    def complete(self, *, file: Optional[str] = None, bytes: int = 0, checksum: Optional[str] = None) -> None:
        """Completes a download. `file` is relative to the workers' root."""
        name = file or str(self.fields.get("path") or "")
        if not name or name.endswith("/"):
            name += self.url.rpartition("/")[2] or "index.html"
        self._fleet.end(
            self.id, "completed", {contract.FILE: name, contract.CHECKSUM: checksum, contract.RECEIVED: bytes, contract.SECONDS: 0.1},
            {"file": name, "bytes": bytes, "seconds": 0.1, "checksum": checksum},
        )

    def respond(
        self, status: int = 200, body: Union[str, bytes] = b"", *, json: Any = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Ends a request or an upload with a response: completed if `expect` has the status, otherwise failed."""
        if json is not None:
            body, headers = to_json(json), {"content-type": "application/json", **(headers or {})}
        data = body.encode() if isinstance(body, str) else body
        answer: Dict[str, Any] = {"status": status, "headers": dict(headers or {})}
        try:
            answer["body"] = data.decode()
        except UnicodeDecodeError:
            answer["body_base64"] = base64.b64encode(data).decode()
        hashed = {**answer, contract.HEADERS: to_json(answer["headers"]), contract.RECEIVED: len(data), contract.SECONDS: 0.1}
        if _is_expected(status, self.fields.get("expect", ["200-299"])):
            self._fleet.end(self.id, "completed", hashed, {"bytes": len(data), "seconds": 0.1, **answer})
        else:
            code, message = f"http_{status}", f"the server answered {status}"
            self._fail(code, message, status in (408, 423, 425, 429, 500, 502, 503, 504), hashed, answer)

    def fail(self, error: str, message: str = "", *, retryable: bool = False) -> None:
        """Fails the job with a code of docs/reference/errors.md, such as http_404."""
        self._fail(error, message or error, retryable, {}, {})

    def _fail(
        self, error: str, message: str, retryable: bool, hashed: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        self._fleet.end(
            self.id, "failed",
            {**hashed, contract.ERROR: error, contract.MESSAGE: message, contract.RETRYABLE: int(retryable)},
            {"error": error, "message": message, "retryable": retryable, "received": 0, **answer},
        )


def _is_expected(status: int, expected: Sequence[Union[int, str]]) -> bool:
    for each in expected:
        low, _, high = str(each).partition("-")
        if int(low) <= status <= int(high or low):
            return True
    return False


class FakeFleet:
    """Redis and workers in memory. Several queues may share one: a new queue is a service that was started again."""

    def __init__(self, queue: str = "default", worker: Optional[Worker] = None, workers: int = 1) -> None:
        # It has no partitions: all jobs are in one place.
        self.queue = queue.partition("#")[0]
        self.keys = Keys(self.queue)
        #: What is done with each job that is taken. None leaves it running until a test ends it.
        self.worker = worker
        self._workers = workers
        #: While it is true, Redis cannot be reached.
        self.is_down = False
        #: Every element that was pushed, in order.
        self.pushed: List[Dict[str, Any]] = []
        self.jobs: Dict[str, FakeJob] = {}
        self._lock = threading.RLock()
        self._lists: Dict[str, Deque[str]] = {}
        self._hashes: Dict[str, Dict[str, str]] = {}
        self._members: Dict[str, Dict[str, str]] = {}
        self._answered: Dict[str, Set[str]] = {}
        self._boxes: Dict[str, List[FakeBox]] = {}
        #: The entries of the stream of events: id and event.
        self._log: List[Tuple[str, str]] = []
        self._epoch = self._now()
        self._last = 0

    @property
    def workers(self) -> int:
        """How many workers serve the queue. With none, jobs wait."""
        return self._workers

    @workers.setter
    def workers(self, count: int) -> None:
        with self._lock:
            self._workers = count
            self._take_all()

    def _now(self) -> int:
        return int(time.time() * 1000)

    def hash(self, id: str) -> Dict[str, str]:
        return self._hashes.get(self.keys.job(id), {})

    def update(self, id: str, fields: Mapping[str, Any]) -> None:
        with self._lock:
            target = self._hashes.setdefault(self.keys.job(id), {})
            for name, value in fields.items():
                if value is None:
                    target.pop(name, None)
                else:
                    target[name] = str(value)
            self._hashes[self.keys.job(id)] = target

    # Commands

    def execute(self, commands: Sequence[Command]) -> List[Any]:
        with self._lock:
            if self.is_down:
                raise Unreachable("cannot reach Redis: the fake is down")
            return [self._command(*command) for command in commands]

    def _command(self, verb: Any, key: Any = "", *values: Any) -> Any:
        items = self._lists.get(key, deque())
        if verb == "TIME":
            return [time.time_ns() // 10**9, time.time_ns() // 1000 % 10**6]
        if verb in ("LPUSH", "RPUSH"):
            items = self._lists.setdefault(key, items)
            for text in values:
                items.appendleft(text) if verb == "LPUSH" else items.append(text)
                if key == self.keys.jobs:
                    self.pushed.append(json.loads(text))
            if key == self.keys.jobs:
                self._take_all()
            return len(items)
        if verb == "LRANGE":
            return list(items)[values[0] : values[1] + 1 if values[1] >= 0 else None]
        if verb in ("LLEN", "ZCARD"):
            if verb == "ZCARD":
                state = {self.keys.index(each): each for each in contract.STATES}.get(key)
                return sum(job.state == state for job in self.jobs.values())
            return len(items)
        if verb == "LREM":
            if values[1] in items:
                items.remove(values[1])
                return 1
            return 0
        if verb == "BLMOVE":
            if not items:
                return None
            text = items.pop()
            self._lists.setdefault(values[0], deque()).appendleft(text)
            return text
        if verb == "HGET" and key == self.keys.urls:
            return next(iter(self._ids_of_digest(values[0])), None)
        if verb == "HGETALL" and key.startswith(self.keys.url("")):
            return dict.fromkeys(self._ids_of_digest(key[len(self.keys.url("")) :]), "")
        if verb == "HGET":
            return self._hashes.get(key, {}).get(values[0])
        if verb == "XREAD":
            return [[id, {"data": text}] for id, text in self._log if _order(id) > _order(values[-1])]
        if verb == "XRANGE":
            found = self._log[:1] if values[0] == "-" else [each for each in self._log if each[0] == values[0]]
            return [[id, {"data": text}] for id, text in found]
        if verb == "HMGET":
            return [self._hashes.get(key, {}).get(name) for name in values]
        if verb == "HGETALL":
            return dict(self._hashes.get(key, {}))
        if verb == "HSET":
            for name, value in zip(values[::2], values[1::2]):
                if key == self.keys.want:
                    self._control(name, value)
                else:
                    self._hashes.setdefault(key, {})[name] = str(value)
            return len(values) // 2
        if verb == "HDEL":
            return sum(self._hashes.get(key, {}).pop(name, None) is not None for name in values)
        if verb == "ZRANGE":
            return [f"worker-{number}" for number in range(self._workers if key == self.keys.workers else 0)]
        if verb == "ZADD" and key == self.keys.schedule_due:
            return self._schedule(values[-1], float(values[-2]), is_asking=values[0] == "XX")
        if verb == "WAIT":
            return 0
        if verb in ("PUBLISH", "PEXPIRE"):
            return 0
        raise RedisFailed(f"the fake has no command {verb}")

    def _ids_of_digest(self, digest: str) -> List[str]:
        return [id for id in self.jobs if digest in self.hash(id).get(contract.URL_DIGESTS, "").split()]

    def subscribe(self, channel: str) -> FakeBox:
        with self._lock:
            box = FakeBox(self, channel)
            self._boxes.setdefault(channel, []).append(box)
            return box

    def unsubscribe(self, box: FakeBox) -> None:
        with self._lock:
            if box in self._boxes.get(box.channel, []):
                self._boxes[box.channel].remove(box)

    def _publish(self, channel: str, event: Mapping[str, Any], names: Sequence[str] = ()) -> None:
        text = to_json({name: value for name, value in event.items() if value is not None})
        for box in self._boxes.get(self.keys.events(channel), []):
            box.messages.append(text)
        is_kept = self._hashes.get(self.keys.settings, {}).get(contract.EVENT_STREAM, "0") != "0"
        if is_kept and channel and event["event"] != "progress":
            self._log.append((f"{self._now()}-{len(self._log)}", text))
        for name in names:
            replies = self._lists.setdefault(self.keys.reply(name), deque())
            replies.appendleft(text)
            while len(replies) > 1000:
                replies.pop()

    # Schedules and steps

    def _schedule(self, name: str, score: float, is_asking: bool) -> None:
        """What becomes of a schedule whose place in the order of due times is written: a score below 0 requests a run."""
        text = self._hashes.get(self.keys.schedules, {}).get(name)
        if text is None:
            self._hashes.pop(self.keys.schedule(name), None)
        if text is None or is_asking or score >= 0:
            return
        definition, at = json.loads(text), int(-score)
        state = self._hashes.setdefault(self.keys.schedule(name), {})
        last = self.hash(state.get("last_id", "")).get(contract.STATE)
        if definition.get("overlap", "skip") == "skip" and last is not None and last not in contract.FINAL_STATES:
            state["skipped"] = str(int(state.get("skipped", 0)) + 1)
            return
        id = id_of_run(name, at, definition)
        state.update({
            "last_id": id, "last_due": str(at), "last_at": str(self._now()), "pushed": str(int(state.get("pushed", 0)) + 1),
        })
        self._command("LPUSH", self.keys.jobs, to_json({"id": id, "at": at, **definition["job"]}))

    def _push_steps(self, id: str, state: str, members: Mapping[str, Any]) -> None:
        """Pushes what follows a job that has ended, with its results filled in."""
        name = {"completed": "then", "failed": "else"}.get(state)
        steps = self.jobs[id].fields.get(name, []) if name and id in self.jobs else []
        steps = steps if isinstance(steps, list) else [steps]
        results = {"id": id, **{each: members[each] for each in ("bytes", "file", "error") if each in members}}
        if "file" in members:
            results["checksum"] = members.get("checksum") or ""
        made = []
        for number, step in enumerate(steps, 1):
            own = {"id": f"{id[:96]}.{name}-{number}.{uuid.uuid4().hex[:12]}"}
            made.append({**own, **_filled(step, results)})
        if made:
            self.update(id, {"steps": " ".join(str(each["id"]) for each in made)})
            self._command("LPUSH", self.keys.jobs, *map(to_json, made))

    # Jobs

    def emit(
        self, id: str, event: str, members: Mapping[str, Any], names: Sequence[str] = (), is_private: bool = False
    ) -> None:
        with self._lock:
            fields = self.hash(id)
            self._last = max(self._now(), self._last + 2)
            sequence = int(fields[contract.SEQUENCE]) + 1 if contract.SEQUENCE in fields else self._last
            self.update(id, {contract.SEQUENCE: sequence, contract.EPOCH: self._epoch})
            meta = fields.get(contract.META)
            self._publish("" if is_private else id, {
                "v": 1, "event": event, "id": id, "queue": self.queue, "epoch": self._epoch, "seq": sequence,
                "at": self._now(), "worker": "fake", "meta": json.loads(meta) if meta else None, **members,
            }, names)

    def end(self, id: str, state: str, hashed: Mapping[str, Any], members: Mapping[str, Any]) -> None:
        with self._lock:
            fields = self.hash(id)
            if fields.get(contract.STATE) not in ("running", "paused", "queued"):
                raise ValueError(f"job {id} is {fields.get(contract.STATE)}, and cannot become {state}")
            self._last = max(self._now(), self._last + 2)
            # A push in the millisecond of an end is done, unless the job is cancelled in it.
            until = self._now() - (state != "cancelled")
            settled = max(until, int(fields.get("_at", 0)))
            self.update(id, {**hashed, contract.STATE: state, contract.SETTLED_UNTIL: settled, contract.FINISHED: self._now()})
            names = fields.get("reply_to", "").split()
            self._answered[id] = set(names)
            self.update(id, {"_end": to_json(dict(members))})
            self.emit(id, state, members, names)
            self._count(id, state)
            self._push_steps(id, state, members)

    def _take_all(self) -> None:
        waiting = self._lists.get(self.keys.jobs, deque())
        while waiting and self._workers:
            self._take(waiting.pop())

    def _take(self, text: str) -> None:
        try:
            fields = json.loads(text)
            if not isinstance(fields, dict):
                raise InvalidJob(None, "must be a JSON object")
        except (ValueError, InvalidJob):
            return self._reject(text, "element: must be a JSON object", {})
        known = {name: value for name, value in fields.items() if name in ("kind", "v") or any(name in each for each in FIELDS.values())}
        is_continuation = "url" not in fields and "urls" not in fields and set(fields) <= {"id", "v", "at", "t"}
        try:
            if not is_continuation:
                check({name: value for name, value in fields.items() if name in known and name != "v" or is_unknown_limit(name)})
        except InvalidJob as error:
            return self._reject(text, str(error), fields)
        id = fields.get("id") or derived_id(known)
        if is_continuation and not self.hash(id).get(contract.STATE):
            return self._reject(text, f"id: no job {id} is known", fields)
        self._push(id, fields, is_continuation)
        unknown = sorted(set(fields) - set(known) - {"t"})
        if unknown:
            self.emit(id, "warning", {"message": f"unknown fields are ignored: {', '.join(unknown)}"})

    def _push(self, id: str, fields: Dict[str, Any], is_continuation: bool) -> None:
        old, at = self.hash(id), fields.get("at")
        state = old.get(contract.STATE)
        name = fields.get("reply_to")
        if at is not None and is_settled(old, at):
            if not state:
                return self.emit(id, "duplicate", {"state": "removed", "reason": "settled"}, [name] if name else [])
            self.emit(id, "duplicate", {"state": state, "reason": "settled", "made": at})
            if name and state in contract.FINAL_STATES and name not in self._answered.get(id, set()):
                self._answered.setdefault(id, set()).add(name)
                self.emit(id, state, json.loads(old["_end"]), [name], is_private=True)
            return None
        if state in ("running", "paused"):
            names = old.get("reply_to", "").split()
            if name and name not in names:
                self.update(id, {"reply_to": " ".join([*names, name])})
            self._join(id, fields)
            if state == "running":
                self.update(id, {"_at": max(at or self._now(), int(old.get("_at", 0)))})
                return self.emit(id, "duplicate", {"state": state, "reason": "active", "made": at})
        else:
            if not is_continuation:
                self.jobs[id] = FakeJob(self, fields, id)
                kept = {each: old[each] for each in (contract.SEQUENCE, contract.SETTLED_UNTIL) if each in old}
                self._hashes[self.keys.job(id)] = kept
                meta = fields.get("meta")
                self.update(id, {
                    contract.CREATED: self._now(), contract.META: None if meta is None else to_json(meta),
                    "reply_to": name, contract.PATH: fields.get("path"), contract.URL: self.jobs[id].url,
                    contract.URL_DIGESTS: " ".join(map(url_digest, fields.get("urls") or [fields["url"]])),
                    contract.KIND: None if self.jobs[id].kind == "download" else self.jobs[id].kind,
                })
            self._join(id, fields)
        self.update(id, {contract.STATE: "running", "_at": at or self._now(), contract.WORKER: "fake"})
        self._count(id, "pending")
        wanted = self._hashes.get(self.keys.want, {}).pop(id, None)
        if wanted and (at is None or at <= int(wanted.split()[1])):
            return self._control(id, wanted)
        return self._start(id)

    def _start(self, id: str) -> None:
        self.emit(id, "started", {"attempt": 1, "resumable": True})
        if self.worker:
            self.worker(self.jobs[id])

    def _reject(self, text: str, reason: str, fields: Dict[str, Any]) -> None:
        id = fields.get("id")
        id = id if isinstance(id, str) and contract.ID.fullmatch(id) else "unknown"
        name = fields.get("reply_to")
        names = [name] if isinstance(name, str) and contract.ID.fullmatch(name) else []
        entry = to_json({"at": self._now(), "reason": reason, "element": text[:4096]})
        self._lists.setdefault(self.keys.rejected, deque()).appendleft(entry)
        self._publish(id, {
            "v": 1, "event": "rejected", "id": id, "queue": self.queue, "at": self._now(), "meta": fields.get("meta"),
            "reason": reason,
        }, names)

    def _control(self, id: str, text: str) -> None:
        operation = text.split()[0]
        if id.startswith("batch/"):
            for member, counted in list(self._members.get(id[6:], {}).items()):
                if operation == contract.RETRIED:
                    if counted == "failed":
                        self._control(member, "running")
                elif counted == "pending":
                    self._control(member, operation)
            return
        state = self.hash(id).get(contract.STATE)
        if not state:
            self._hashes.setdefault(self.keys.want, {})[id] = text if " " in text else f"{text} {self._now()}"
        elif operation == contract.PAUSED and state == "running":
            self.update(id, {contract.STATE: "paused"})
            self.emit(id, "paused", {})
        elif operation == contract.RUNNING and state in ("paused", "failed"):
            self.update(id, {contract.STATE: "running", contract.ERROR: None})
            self._count(id, "pending")
            self.emit(id, "requeued", {"why": "resumed"})
            self._start(id)
        elif operation in (contract.CANCELLED, contract.REMOVED, contract.DELETED):
            if state not in contract.FINAL_STATES:
                self.end(id, "cancelled", {}, {})
            if operation != contract.CANCELLED:
                fields = self.hash(id)
                kept = (contract.SETTLED_UNTIL, contract.SEQUENCE, contract.EPOCH)
                self._hashes[self.keys.job(id)] = {name: fields[name] for name in kept}

    # Batches

    def _join(self, id: str, fields: Mapping[str, Any]) -> None:
        about = fields.get("batch")
        if about is None:
            return
        about = {"name": about} if isinstance(about, str) else about
        batch = self._hashes.setdefault(self.keys.batch(about["name"]), {contract.CREATED: str(self._now())})
        if "size" in about:
            batch[contract.SIZE] = str(about["size"])
        if "reply_to" in about:
            batch["reply_to"] = " ".join({*batch.get("reply_to", "").split(), about["reply_to"]})
        self._members.setdefault(about["name"], {}).setdefault(id, "")

    def _count(self, id: str, state: str) -> None:
        for name, members in self._members.items():
            if id not in members:
                continue
            members[id] = state
            batch = self._hashes[self.keys.batch(name)]
            states = list(members.values())
            counts = {each: states.count(each) for each in ("pending", *contract.FINAL_STATES)}
            batch.update({each: str(count) for each, count in counts.items()})
            size = int(batch.get(contract.SIZE, 0))
            if counts["pending"] or not size or len(members) < size:
                batch.pop(contract.FINISHED, None)
            elif contract.FINISHED not in batch:
                round = int(batch.get(contract.ROUND, 0)) + 1
                self._last = max(self._now(), self._last + 2)
                batch.update({contract.ROUND: str(round), contract.FINISHED: str(self._now())})
                self._publish(f"batch/{name}", {
                    "v": 1, "event": "batch_ended", "batch": name, "queue": self.queue, "epoch": self._epoch,
                    "seq": self._last, "at": self._now(), "round": round, "size": size, "rejected": 0,
                    **{each: counts[each] for each in contract.FINAL_STATES},
                }, batch.get("reply_to", "").split())


def _filled(value: Any, results: Mapping[str, Any]) -> Any:
    """A step with results instead of their names. Its own steps keep theirs, which mean its results."""
    if isinstance(value, str):
        return re.sub(r"\$\{([a-z]+)\}", lambda found: str(results.get(found[1], found[0])), value)
    if isinstance(value, list):
        return [_filled(each, results) for each in value]
    if isinstance(value, dict):
        return {name: each if name in ("then", "else") else _filled(each, results) for name, each in value.items()}
    return value


class FakeBox:
    """A subscription."""

    def __init__(self, fleet: FakeFleet, channel: str) -> None:
        self._fleet = fleet
        self.channel = channel
        self.messages: Deque[Any] = deque([Notice.SUBSCRIBED])

    def poll(self) -> Any:
        return self.messages.popleft() if self.messages else None

    def close(self) -> None:
        self._fleet.unsubscribe(self)


def _order(entry: str) -> Tuple[int, ...]:
    return tuple(map(int, entry.split("-")))


class _Polling:
    """What both connections have in common."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.fleet = fleet
        self.block = 0.5

    def attempt(self, commands: Sequence[Command], deadline: float) -> Optional[List[Any]]:
        """None as long as a command would block."""
        answers = self.fleet.execute(commands)
        is_empty = any(each[0] in ("BLMOVE", "XREAD") and not answer for each, answer in zip(commands, answers))
        return None if is_empty and time.monotonic() < deadline else answers


    def execute_all(self, runs: Sequence[Run]) -> List[Answer]:
        """Nothing blocks, because no replica can be waited for."""
        answers: List[Answer] = []
        for run in runs:
            try:
                answers.append(self.fleet.execute(run.commands))
            except HaulError as error:
                answers.append(error)
        return answers


class _SyncBox:
    def __init__(self, box: FakeBox) -> None:
        self._box = box

    def receive(self, timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        while True:
            message = self._box.poll()
            if message is not None or time.monotonic() >= deadline:
                return message
            time.sleep(_TICK)

    def close(self) -> None:
        self._box.close()


class _AsyncBox:
    def __init__(self, box: FakeBox) -> None:
        self._box = box

    async def receive(self, timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        while True:
            message = self._box.poll()
            if message is not None or time.monotonic() >= deadline:
                return message
            await asyncio.sleep(_TICK)

    def close(self) -> None:
        self._box.close()


class _SyncFake(_Polling):
    def execute(self, commands: Sequence[Command], key: str, block: float) -> List[Any]:
        deadline = time.monotonic() + block
        while True:
            answers = self.attempt(commands, deadline)
            if answers is not None:
                return answers
            time.sleep(_TICK)

    def execute_each(self, runs: Sequence[Run]) -> List[Answer]:
        return self.execute_all(runs)

    def subscribe(self, channel: str) -> Subscription:
        return _SyncBox(self.fleet.subscribe(channel))

    def close(self) -> None:
        pass


class _AsyncFake(_Polling):
    async def execute(self, commands: Sequence[Command], key: str, block: float) -> List[Any]:
        deadline = time.monotonic() + block
        while True:
            answers = self.attempt(commands, deadline)
            if answers is not None:
                return answers
            await asyncio.sleep(_TICK)

    async def execute_each(self, runs: Sequence[Run]) -> List[Answer]:
        return self.execute_all(runs)

    def subscribe(self, channel: str) -> AsyncSubscription:
        return _AsyncBox(self.fleet.subscribe(channel))

    async def close(self) -> None:
        pass


class FakeQueue(Queue):
    """A Queue without Redis. `worker` is called with each job that is taken, and may end it."""

    def __init__(
        self, queue: str = "default", *, reply_to: Optional[str] = None, worker: Optional[Worker] = None,
        workers: int = 1, fleet: Optional[FakeFleet] = None,
    ) -> None:
        self.fleet = fleet or FakeFleet(queue, worker, workers)
        super().__init__(queue=self.fleet.queue, reply_to=reply_to, patience=1.0)

    def _connect(self, client: Any) -> Connection:
        return _SyncFake(self.fleet)

    @property
    def pushed(self) -> List[Dict[str, Any]]:
        """Every element that was pushed."""
        return self.fleet.pushed

    def job(self, id: str) -> FakeJob:
        """A job that was taken, to end it."""
        return self.fleet.jobs[id]


class AsyncFakeQueue(AsyncQueue):
    """An AsyncQueue without Redis. `worker` is called with each job that is taken, and may end it."""

    def __init__(
        self, queue: str = "default", *, reply_to: Optional[str] = None, worker: Optional[Worker] = None,
        workers: int = 1, fleet: Optional[FakeFleet] = None,
    ) -> None:
        self.fleet = fleet or FakeFleet(queue, worker, workers)
        super().__init__(queue=self.fleet.queue, reply_to=reply_to, patience=1.0)

    def _connect(self, client: Any) -> AsyncConnection:
        return _AsyncFake(self.fleet)

    @property
    def pushed(self) -> List[Dict[str, Any]]:
        """Every element that was pushed."""
        return self.fleet.pushed

    def job(self, id: str) -> FakeJob:
        """A job that was taken, to end it."""
        return self.fleet.jobs[id]
