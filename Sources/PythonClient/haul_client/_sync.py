"""Queue: the client that blocks."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import TracebackType
from typing import (
    Any, Callable, Dict, Generator, Iterable, List, Optional, Protocol, Sequence, Tuple, Type, TypeVar, Union,
)

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

from . import _contract as contract
from ._cluster import check_moved, is_cluster_url, node_options, nodes_and_options
from ._core import (
    Answer, Call, Command, Core, Delivery, Emit, Listen, Notice, Open, Operation, Pause, Receive, Run, RunEach,
)
from ._errors import Closed, HaulError, Unreachable
from ._jobs import Element
from ._kept import KeptUpdate, kept_events
from ._redis import (
    ERRORS, answers, max_block_time, check_url, encoded, is_lost_slot, is_not_primary, options_for, replies, translated,
)
from ._results import BatchStatus, JobResult, JobStatus, Outcome, QueueStats, Schedule, Update
from ._schema import Job

T = TypeVar("T")


class Subscription(Protocol):
    def receive(self, timeout: float) -> Any: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """What performs commands: Redis, or a fake."""

    block: float

    def execute(self, commands: Sequence[Command], key: str, block: float) -> List[Any]: ...

    def execute_each(self, runs: Sequence[Run]) -> List[Answer]: ...

    def subscribe(self, channel: str) -> Subscription: ...

    def close(self) -> None: ...


class RedisConnection:
    def __init__(self, client: Union[str, "redis.Redis"]) -> None:
        self._owned = isinstance(client, str)
        if isinstance(client, str):
            check_url(client)
            client = redis.Redis.from_url(client, retry=Retry(NoBackoff(), 0), **options_for(client))
        self.client: Any = client
        self.block = max_block_time(client)

    def execute(self, commands: Sequence[Command], key: str, block: float) -> List[Any]:
        try:
            return replies(commands, send(self.client, commands, block))
        except ERRORS as error:
            raise translated(error) from error

    def execute_each(self, runs: Sequence[Run]) -> List[Answer]:
        if any(run.block > 0 for run in runs):
            return at_once(self, runs)
        try:
            return answers(runs, send(self.client, [each for run in runs for each in run.commands], 0), lambda _: None)
        except ERRORS as error:
            return [translated(error)] * len(runs)

    def subscribe(self, channel: str) -> Subscription:
        return RedisSubscription(self.client.pubsub, channel)

    def close(self) -> None:
        if self._owned:
            self.client.close()


def at_once(connection: Connection, runs: Sequence[Run]) -> List[Answer]:
    """What becomes of runs that block, each over a connection of its own."""

    def answer(run: Run) -> Answer:
        try:
            return connection.execute(run.commands, run.key, run.block)
        except HaulError as error:
            return error

    if len(runs) == 1:
        return [answer(runs[0])]
    with ThreadPoolExecutor(len(runs)) as threads:
        return list(threads.map(answer, runs))


def send(client: Any, commands: Sequence[Command], block: float) -> List[Any]:
    """Sends commands together, which may block for so many seconds. The result has an exception for each refusal."""
    with client.pipeline(transaction=False) as pipeline:
        pipeline.connection_pool = PoolWithoutRetries(pipeline.connection_pool, block)
        for command in commands:
            pipeline.execute_command(*encoded(command))
        values: List[Any] = pipeline.execute(raise_on_error=False)
        return values


class PoolWithoutRetries:
    """Lends a connection of another pool, which sends nothing twice meanwhile. A client that a service has made may
    retry: but a BLMOVE whose reply was lost must not be sent again before what it has taken was read."""

    def __init__(self, pool: Any, block: float) -> None:
        self._pool, self._block, self._retry = pool, block, None

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        connection = self._pool.get_connection(*arguments, **options)
        self._retry, connection.retry = connection.retry, Retry(NoBackoff(), 0)
        return LentConnection(connection, self._block)

    def release(self, lent: LentConnection) -> None:
        lent.connection.retry = self._retry
        if lent.must_close:
            lent.connection.disconnect()
        self._pool.release(lent.connection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


class LentConnection:
    """A connection whose timeout counts from the moment at which its commands no longer block. Redis answers a WAIT after
    as many seconds as its caller has chosen, which may be more than the timeout."""

    def __init__(self, connection: Any, block: float) -> None:
        self.connection, self._block = connection, block
        #: Whether its server is not the primary. The same address may lead to another server after a failover.
        self.must_close = False

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        if self._block > 0:
            self.connection.can_read(timeout=self._block)
        try:
            return self.connection.read_response(*arguments, **options)
        except ERRORS as error:
            self.must_close = self.must_close or is_not_primary(error)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


class ClusterConnection:
    """Sends commands to the node that has their slot."""

    def __init__(self, client: Union[str, RedisCluster]) -> None:
        self._owned = isinstance(client, str)
        self._nodes, self._options = nodes_and_options(client) if isinstance(client, str) else ([], {})
        self._client: Any = None if isinstance(client, str) else client
        self.block = Core.BLOCK if isinstance(client, str) else max_block_time(client)
        self._clients: Dict[Tuple[str, int], Any] = {}
        self._lock = threading.Lock()

    def node(self, key: str) -> Any:
        """An ordinary client of the node that has this key. It does not retry, because a BLMOVE whose reply was lost must
        not be sent again before what it has taken was read."""
        with self._lock:
            if self._client is None:  # It connects at once.
                make: Any = ClusterNode
                nodes = [make(host, port) for host, port in self._nodes]
                self._client = RedisCluster(startup_nodes=nodes, require_full_coverage=False, **self._options)
            found = self._client.get_node_from_key(key)
            address = (found.host, int(found.port))
            if address not in self._clients:
                options = node_options(self._client.get_connection_kwargs())
                self._clients[address] = redis.Redis(*address, retry=Retry(NoBackoff(), 0), **options)
            return self._clients[address]

    def execute(self, commands: Sequence[Command], key: str, block: float) -> List[Any]:
        try:
            values = send(self.node(key), commands, block)
            check_moved(values)
            return replies(commands, values)
        except Unreachable:
            self._refresh()
            raise
        except ERRORS as error:
            self._refresh()
            raise translated(error) from error

    def execute_each(self, runs: Sequence[Run]) -> List[Answer]:
        if any(run.block > 0 for run in runs):
            return at_once(self, runs)
        found: Dict[int, Answer] = {}
        nodes: Dict[Any, List[int]] = {}
        for number, run in enumerate(runs):
            try:
                nodes.setdefault(self.node(run.key), []).append(number)
            except ERRORS as error:
                if not is_lost_slot(error):  # The whole cluster cannot be reached.
                    return [translated(error)] * len(runs)
                found[number] = translated(error)
        for client, numbers in nodes.items():
            own = [runs[number] for number in numbers]
            try:
                values = send(client, [each for run in own for each in run.commands], 0)
                found.update(zip(numbers, answers(own, values, check_moved)))
            except ERRORS as error:
                found.update(dict.fromkeys(numbers, translated(error)))
        if any(isinstance(answer, HaulError) for answer in found.values()):
            self._refresh()
        return [found[number] for number in range(len(runs))]

    def _refresh(self) -> None:
        """Asks the cluster again which node has which slots."""
        client = self._client
        try:
            if client is not None:
                client.nodes_manager.initialize()
        except ERRORS:
            pass

    def subscribe(self, channel: str) -> Subscription:
        # A message that is published on one node reaches the subscribers of all.
        return RedisSubscription(lambda: self.node(channel).pubsub(), channel, self._refresh)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        if self._owned and self._client is not None:
            self._client.close()


class RedisSubscription:
    """A subscription on a connection of its own, which connects again by itself. `connect` makes a PubSub."""

    def __init__(
        self, connect: Callable[[], Any], channel: str, when_lost: Callable[[], None] = lambda: None
    ) -> None:
        self._connect, self._channel, self._when_lost = connect, channel, when_lost
        self._pubsub: Any = None
        self._wait = 0.05

    def receive(self, timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        try:
            if self._pubsub is None:
                self._pubsub = self._connect()
                self._pubsub.subscribe(self._channel)
            while True:
                message = self._pubsub.get_message(timeout=max(0.0, deadline - time.monotonic()))
                if message and message["type"] == "subscribe":
                    self._wait = 0.05
                    return Notice.SUBSCRIBED
                if message and message["type"] == "message":
                    data = message["data"]
                    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data
                if time.monotonic() >= deadline:
                    return None
        except ERRORS as error:
            self.close()
            failure = translated(error)
            if not isinstance(failure, Unreachable):
                raise failure from error
            self._when_lost()
            time.sleep(min(self._wait, max(0.0, deadline - time.monotonic())))
            self._wait = min(1.0, self._wait * 2)
            return Notice.INTERRUPTED

    def close(self) -> None:
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            try:
                pubsub.close()
            except ERRORS:
                pass


class Driver:
    """Performs operations."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_closed = False

    def run(self, operation: Operation[T]) -> T:
        steps = self._steps(operation)
        with closing(steps):
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    result: T = end.value
                    return result

    def stream(self, operation: Operation[None]) -> Generator[Any, None, None]:
        yield from self._steps(operation)

    def _steps(self, operation: Operation[T]) -> Generator[Any, None, T]:
        subscription: Optional[Subscription] = None
        answer: Any = None
        failure: Optional[HaulError] = None
        try:
            while True:
                try:
                    need = operation.send(answer) if failure is None else operation.throw(failure)
                except StopIteration as end:
                    result: T = end.value
                    return result
                answer, failure = None, None
                try:
                    if self.is_closed:
                        raise Closed()
                    if isinstance(need, Run):
                        answer = self.connection.execute(need.commands, need.key, need.block)
                    elif isinstance(need, RunEach):
                        answer = self.connection.execute_each(need.runs)
                    elif isinstance(need, Listen):
                        subscription = self.connection.subscribe(need.channel)
                    elif isinstance(need, Receive):
                        assert subscription is not None
                        answer = subscription.receive(need.timeout)
                    elif isinstance(need, Pause):
                        time.sleep(need.seconds)
                    elif isinstance(need, Call):
                        answer = need.function()
                    elif isinstance(need, Emit):
                        yield need.value
                except HaulError as error:
                    failure = error
        finally:
            operation.close()
            if subscription is not None:
                subscription.close()




class Settled:
    """An end that `Queue.settled` hands out. Acknowledge it when your own record of it is durable.

    As a context manager it acknowledges at the end of the block, unless the block raised.
    """

    def __init__(self, driver: Driver, core: Core, delivery: Delivery) -> None:
        self._driver, self._core, self._delivery = driver, core, delivery

    @property
    def result(self) -> Outcome:
        """How the job ended, or the batch."""
        return self._delivery.outcome

    @property
    def id(self) -> str:
        """The id of the job, or the name of the batch."""
        return self._delivery.outcome.id

    def ack(self) -> None:
        """Takes the end off the list. Without that it comes again when the service starts again."""
        self._driver.run(self._core.acknowledge(self._delivery))

    def __enter__(self) -> Settled:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None:
            self.ack()

    def __repr__(self) -> str:
        return f"Settled({self.result!r})"


class JobHandle:
    """A handle of a job. Any number of handles may belong to one job."""

    def __init__(self, queue: Queue, id: str, at: Optional[int], place: Optional[str] = None) -> None:
        self._queue, self._place = queue, place
        self.id = id
        #: The `at` of the push, unix ms. The handle ignores an older end of the job. Keep it with your record.
        self.at = at

    def __repr__(self) -> str:
        return f"JobHandle(id={self.id!r}, at={self.at!r})"

    def status(self) -> Optional[JobStatus]:
        """The job as in its hash. None until a worker has seen it, and after it was removed or has expired."""
        return self._queue._run(self._queue._core.status(self.id, self._place))

    def result(self, timeout: Optional[float] = None) -> JobResult:
        """Waits until the job has ended. A failed job is a result: `raise_for_error` makes it an exception.

        Raises TimedOut or NoWorker after `timeout` seconds, and Rejected if the element was not a valid job.
        """
        return self._queue._run(self._queue._core.result(self.id, self.at, timeout, self._place))

    def events(self) -> Generator[Update, None, None]:
        """The job's status, then its events until its end, each once and in order.

        A JobStatus stands for events that were missed, because the connection was lost.
        """
        return self._queue._stream(self._queue._core.events(self.id, self.at, self._place))

    def pause(self) -> None:
        """Pauses the job. Its bytes are kept."""
        self._queue.pause([self.id])

    def resume(self) -> None:
        """Resumes the paused job."""
        self._queue.resume([self.id])

    def retry(self) -> None:
        """Runs the failed job again."""
        self._queue.retry([self.id])

    def cancel(self) -> None:
        """Cancels the job, and removes its partial file."""
        self._queue.cancel([self.id])

    def remove(self, files: bool = False) -> None:
        """Removes the job from Redis. `files` deletes the finished file as well."""
        self._queue.remove([self.id], files=files)


class BatchHandle:
    """A handle of a batch: the jobs that were pushed with its name in `batch`."""

    def __init__(self, queue: Queue, id: str) -> None:
        self._queue = queue
        self.id = id

    def status(self) -> Optional[BatchStatus]:
        """The counts. None until a worker has seen one of the batch's jobs, and after the batch has expired."""
        return self._queue._run(self._queue._core.batch(self.id))

    def result(self, after: int = 0, timeout: Optional[float] = None) -> BatchStatus:
        """Waits until as many jobs have ended as the size of the batch says, and none is pending.

        `after` is the round whose end is already known: after `retry`, pass the last `round` to wait for the next.
        """
        return self._queue._run(self._queue._core.batch_result(self.id, after, timeout))

    def pause(self) -> None:
        self._control(contract.PAUSED)

    def resume(self) -> None:
        self._control(contract.RUNNING)

    def retry(self) -> None:
        """Runs the batch's failed jobs again."""
        self._control(contract.RETRIED)

    def cancel(self) -> None:
        """Cancels the batch's jobs that have not ended, also those that no worker has seen yet."""
        self._control(contract.CANCELLED)

    def _control(self, operation: str) -> None:
        self._queue._run(self._queue._core.control_batch(operation, self.id))


class Queue:
    """A client of a Haul queue. Threads may share it."""

    def __init__(
        self,
        client: Union[str, "redis.Redis", RedisCluster] = "redis://127.0.0.1:6379",
        queue: str = "default",
        *,
        reply_to: Optional[str] = None,
        patience: float = 5.0,
    ) -> None:
        """Does not connect yet.

        `client` is a URL for redis-py, `redis+cluster://host:port,host:port`, or a client of redis-py, such as
        `Sentinel(…).master_for(…)` or a RedisCluster. `queue` may have partitions, as `films#8` has. `reply_to` is the
        name of the list of ends that `settled` reads: each pushed job gets it that names none. `patience` is for how
        many seconds a call tries to reach Redis, or waits for a Redis that refuses it.
        """
        self._core = Core(queue, reply_to, patience)
        self._driver = Driver(self._connect(client))
        self._core.BLOCK = self._driver.connection.block

    def _connect(self, client: Union[str, "redis.Redis", RedisCluster]) -> Connection:
        if isinstance(client, RedisCluster) or isinstance(client, str) and is_cluster_url(client):
            return ClusterConnection(client)
        return RedisConnection(client)

    def _run(self, operation: Operation[T]) -> T:
        return self._driver.run(operation)

    def _stream(self, operation: Operation[None]) -> Generator[Any, None, None]:
        return self._driver.stream(operation)

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._core.name

    def close(self) -> None:
        """Closes the connections that this object has made."""
        self._driver.is_closed = True
        self._driver.connection.close()

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def push(self, job: Job, *, urgent: bool = False, replicas: int = 0, within: float = 1.0) -> JobHandle:
        """Pushes a job. It may be repeated with the same id and `at`, and then does nothing.

        `urgent` puts it before all waiting jobs. `replicas` waits `within` seconds until so many replicas have it.
        Raises InvalidJob before anything is pushed.
        """
        return self.push_many([job], urgent=urgent, replicas=replicas, within=within)[0]

    def push_many(
        self, jobs: Iterable[Job], *, urgent: bool = False, replicas: int = 0, within: float = 1.0
    ) -> List[JobHandle]:
        """Pushes any number of jobs in their order, in few round trips. If one is not valid, none is pushed.

        If a partition of the queue cannot be reached, the others get their jobs, and NotAllPushed says which are pushed.
        """
        elements: List[Element] = self._run(self._core.push_many(list(jobs), urgent, replicas, within))
        return [JobHandle(self, each.id, each.at, each.place) for each in elements]

    def handle(self, id: str, at: Optional[int] = None) -> JobHandle:
        """A handle of any job. With the `at` of a push it ignores an older end of the job."""
        return JobHandle(self, id, at)

    def batch(self, name: str) -> BatchHandle:
        """A handle of a batch. Its jobs are those that were pushed with `batch=Batch(name, …)`."""
        return BatchHandle(self, name)

    def settled(
        self,
        name: Optional[str] = None,
        *,
        open_jobs: Optional[Callable[[], Iterable[Open]]] = None,
        every: float = 60.0,
        idle: Optional[float] = None,
    ) -> Generator[Settled, None, None]:
        """The ends of jobs and batches with this `reply_to`, each at least once, until it is acknowledged.

        `open_jobs` returns the id and `at` of the jobs that your own records have as open. Their hashes are read at
        the start, after a lost connection, and `every` so many seconds. So even an end whose reply was lost is handed
        out. `idle` ends the loop after so many seconds without an end. It raises Unreachable instead if a part of the queue
        cannot be read then, and has not been readable for `patience` seconds, because ends may wait there.
        """
        loop = self._core.settled_loop(name)
        return self._settled(self._core.settled(open_jobs, every, idle, loop))

    def _settled(self, operation: Operation[None]) -> Generator[Settled, None, None]:
        for delivery in self._stream(operation):
            yield Settled(self._driver, self._core, delivery)

    def kept_events(
        self, *, since: Optional[int] = None, after: Optional[str] = None, follow: bool = True
    ) -> Generator[KeptUpdate, None, None]:
        """The events that the queue has kept, oldest first, and then those that follow: docs/guides/durable-events.md.

        It begins with the oldest event, with those that are not older than `since` (unix ms by Redis' clock), or behind
        the position of an update that was delivered before (`after`). Unless `follow`, it ends behind the newest one.
        The events of each job come in their order. While Redis cannot be reached it waits. Raises EventsNotKept if
        the queue has no setting event_stream.
        """
        return self._stream(kept_events(self._core, since, after, follow))

    def pause(self, ids: Sequence[str]) -> None:
        """Pauses jobs. Their bytes are kept."""
        self._run(self._core.control(contract.PAUSED, ids))

    def resume(self, ids: Sequence[str]) -> None:
        """Resumes paused jobs, before all waiting ones."""
        self._run(self._core.control(contract.RUNNING, ids))

    def retry(self, ids: Sequence[str]) -> None:
        """Runs failed jobs again, from their offsets, before all waiting ones."""
        self._run(self._core.control(contract.RUNNING, ids))

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancels jobs, and removes their partial files."""
        self._run(self._core.control(contract.CANCELLED, ids))

    def remove(self, ids: Sequence[str], *, files: bool = False) -> None:
        """Removes jobs from Redis. Jobs that have not ended are cancelled. `files` deletes finished files as well."""
        self._run(self._core.control(contract.DELETED if files else contract.REMOVED, ids))

    def ids_with_url(self, url: str) -> List[str]:
        """The ids of the jobs that have this URL, whole and with its query, as their URL or as a mirror. A job that waits
        for a host or for another kind of worker is found once a worker has claimed it."""
        return self._run(self._core.ids_with_url(url))

    def status(self, ids: Sequence[str]) -> List[JobStatus]:
        """Those of these jobs that Redis knows, in one round trip."""
        return self._run(self._core.statuses(ids))

    def stats(self) -> QueueStats:
        """How many jobs are in each state, and how many workers serve the queue."""
        return self._run(self._core.stats())

    def add_schedule(
        self,
        name: str,
        job: Job,
        *,
        every: Optional[int] = None,
        cron: Optional[str] = None,
        zone: Optional[str] = None,
        catch_up: str = "one",
        overlap: str = "skip",
        unique: bool = False,
    ) -> None:
        """Adds a schedule, or replaces the one of this name: docs/guides/schedules.md. Needs Redis' role for services.

        Either `every` (seconds) or `cron` is needed. Raises InvalidSetting or InvalidJob before anything is written.
        """
        definition = {
            "every": every, "cron": cron, "zone": zone, "catch_up": catch_up, "overlap": overlap, "unique": unique or None,
        }
        self._run(self._core.add_schedule(name, definition, job))

    def schedules(self) -> Dict[str, Schedule]:
        """All schedules, by their names."""
        return self._run(self._core.schedules())

    def pause_schedule(self, name: str) -> None:
        """Pushes nothing until the schedule is resumed."""
        self._run(self._core.pause_schedule(name, True))

    def resume_schedule(self, name: str) -> None:
        """Pushes again from the next due time on."""
        self._run(self._core.pause_schedule(name, False))

    def run_schedule(self, name: str) -> JobHandle:
        """Requests a run now, besides those that are due. It is skipped if the last run has not ended."""
        id, at = self._run(self._core.run_schedule(name))
        return JobHandle(self, id, at, name)

    def remove_schedule(self, name: str) -> None:
        """Deletes a schedule. Its jobs stay."""
        self._run(self._core.remove_schedule(name))

    def settings(self) -> Dict[str, str]:
        """The settings of the queue, as docs/operate/queues.md lists them. Needs Redis' role for operators."""
        return self._run(self._core.settings())

    def change_settings(self, **changes: Union[bool, int, str, None]) -> None:
        """Sets settings, such as `rate=5_000_000`, `starts="10/s"`, `paused=True`. None removes one.

        Raises InvalidSetting if a value is not valid. Then none is set. If a partition of the queue does not answer, the
        others get the change, and the error names it. Needs Redis' role for operators.
        """
        self._run(self._core.change_settings(changes))
