"""AsyncQueue: the client for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from types import TracebackType
from typing import (
    Any, AsyncGenerator, Awaitable, Callable, Deque, Dict, Iterable, List, Optional, Protocol, Sequence, Set, Tuple, Type,
    TypeVar, Union,
)

import redis.asyncio
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from . import _contract as contract
from ._cluster import check_moved, is_cluster_url, node_options, nodes_and_options
from ._core import (
    Answer, Call, Command, Core, Delivery, Emit, Listen, Notice, OpenJobs, Operation, Pause, Receive, Run, RunEach,
)
from ._errors import Closed, HaulError, Unreachable
from ._jobs import Element
from ._kept import KeptUpdate, kept_events
from ._redis import (
    ERRORS, answers, max_block_time, check_url, encoded, is_not_primary, options_for, replies, translated,
)
from ._results import BatchStatus, JobResult, JobStatus, Outcome, QueueStats, Schedule, Update
from ._schema import Job

T = TypeVar("T")


class AsyncSubscription(Protocol):
    async def receive(self, timeout: float) -> Any: ...

    def close(self) -> None: ...


class AsyncConnection(Protocol):
    """What performs commands: Redis, or a fake."""

    block: float

    async def execute(self, commands: Sequence[Command], key: str, block: float) -> List[Any]: ...

    async def execute_each(self, runs: Sequence[Run]) -> List[Answer]: ...

    def subscribe(self, channel: str) -> AsyncSubscription: ...

    async def close(self) -> None: ...


class AsyncRedisConnection:
    def __init__(self, client: Union[str, "redis.asyncio.Redis"]) -> None:
        if isinstance(client, str):
            check_url(client)
        self._given = client
        self._client: Any = None
        self._subscriber: Optional[Subscriber] = None
        self.block = Core.BLOCK if isinstance(client, str) else max_block_time(client)

    @property
    def client(self) -> Any:
        """Made when it is first used: the locks of Python 3.9 belong to the event loop in which they are made."""
        if self._client is None:
            self._client = self._given
            if isinstance(self._given, str):
                retry = Retry(NoBackoff(), 0)
                self._client = redis.asyncio.Redis.from_url(self._given, retry=retry, **options_for(self._given))
        return self._client

    async def execute(self, commands: Sequence[Command], key: str, block: float) -> List[Any]:
        try:
            return replies(commands, await send(self.client, commands, block))
        except ERRORS as error:
            raise translated(error) from error

    async def execute_each(self, runs: Sequence[Run]) -> List[Answer]:
        if any(run.block > 0 for run in runs):
            return await at_once(self, runs)
        try:
            values = await send(self.client, [each for run in runs for each in run.commands], 0)
            return answers(runs, values, lambda _: None)
        except ERRORS as error:
            return [translated(error)] * len(runs)

    def subscribe(self, channel: str) -> AsyncSubscription:
        if self._subscriber is None:
            self._subscriber = Subscriber(self._pubsub)
        return Mailbox(self._subscriber, channel)

    async def _pubsub(self, _: str) -> Any:
        return self.client.pubsub()

    async def close(self) -> None:
        if self._subscriber is not None:
            await self._subscriber.close()
        if isinstance(self._given, str) and self._client is not None:
            await closed(self._client)


async def at_once(connection: AsyncConnection, runs: Sequence[Run]) -> List[Answer]:
    """What becomes of runs that block, each over a connection of its own."""

    async def answer(run: Run) -> Answer:
        try:
            return await connection.execute(run.commands, run.key, run.block)
        except HaulError as error:
            return error

    return list(await asyncio.gather(*map(answer, runs)))


async def send(client: Any, commands: Sequence[Command], block: float) -> List[Any]:
    """Sends commands together, which may block for so many seconds. The result has an exception for each refusal."""
    async with client.pipeline(transaction=False) as pipeline:
        pipeline.connection_pool = AsyncPoolWithoutRetries(pipeline.connection_pool, block)
        for command in commands:
            pipeline.execute_command(*encoded(command))
        values: List[Any] = await pipeline.execute(raise_on_error=False)
        return values


class AsyncPoolWithoutRetries:
    """As PoolWithoutRetries."""

    def __init__(self, pool: Any, block: float) -> None:
        self._pool, self._block, self._retry, self._timeout = pool, block, None, None

    async def get_connection(self, *arguments: Any, **options: Any) -> Any:
        connection = await self._pool.get_connection(*arguments, **options)
        self._retry, connection.retry = connection.retry, Retry(NoBackoff(), 0)
        # Here a connection uses its timeout anew for each reply.
        self._timeout = connection.socket_timeout
        if self._timeout is not None:
            connection.socket_timeout = self._timeout + self._block
        return AsyncLentConnection(connection)

    async def release(self, lent: AsyncLentConnection) -> None:
        connection = lent.connection
        connection.retry, connection.socket_timeout = self._retry, self._timeout
        if lent.must_close:
            await connection.disconnect()
        await self._pool.release(connection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


class AsyncLentConnection:
    """As LentConnection, but for the timeout."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.must_close = False

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        try:
            return await self.connection.read_response(*arguments, **options)
        except ERRORS as error:
            self.must_close = self.must_close or is_not_primary(error)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


class AsyncClusterConnection:
    """Sends commands to the node that has their slot."""

    def __init__(self, client: Union[str, RedisCluster]) -> None:
        self._owned = isinstance(client, str)
        self._nodes, self._options = nodes_and_options(client) if isinstance(client, str) else ([], {})
        self._client: Any = None if isinstance(client, str) else client
        self._clients: Dict[Tuple[str, int], Any] = {}
        self._subscriber: Optional[Subscriber] = None
        self.block = Core.BLOCK if isinstance(client, str) else max_block_time(client)

    async def _cluster(self) -> Any:
        """Made when it is first used: it belongs to the event loop in which it is made."""
        if self._client is None:
            nodes = [ClusterNode(host, port) for host, port in self._nodes]
            options = {key: value for key, value in self._options.items() if key != "db"}
            self._client = RedisCluster(startup_nodes=nodes, require_full_coverage=False, **options)
        await self._client.initialize()
        return self._client

    async def node(self, key: str) -> Any:
        """An ordinary client of the node that has this key: the nodes of redis-py's cluster know no subscriptions. It
        does not retry, because a BLMOVE whose reply was lost must not be sent again before what it has taken was read."""
        cluster = await self._cluster()
        node = cluster.get_node_from_key(key)
        if node is None:
            raise Unreachable(f"no node of the cluster has the slot of {key}")
        address = (node.host, int(node.port))
        if address not in self._clients:
            options = node_options(cluster.get_connection_kwargs())
            self._clients[address] = redis.asyncio.Redis(
                host=address[0], port=address[1], retry=Retry(NoBackoff(), 0), **options
            )
        return self._clients[address]

    async def execute(self, commands: Sequence[Command], key: str, block: float) -> List[Any]:
        try:
            values = await send(await self.node(key), commands, block)
            check_moved(values)
            return replies(commands, values)
        except Unreachable:
            await self._refresh()
            raise
        except ERRORS as error:
            await self._refresh()
            raise translated(error) from error

    async def execute_each(self, runs: Sequence[Run]) -> List[Answer]:
        if any(run.block > 0 for run in runs):
            return await at_once(self, runs)
        found: Dict[int, Answer] = {}
        nodes: Dict[Any, List[int]] = {}
        for number, run in enumerate(runs):
            try:
                nodes.setdefault(await self.node(run.key), []).append(number)
            except Unreachable as error:
                found[number] = error
            except ERRORS as error:  # The whole cluster cannot be reached.
                return [translated(error)] * len(runs)

        async def ask(client: Any, numbers: List[int]) -> None:
            own = [runs[number] for number in numbers]
            try:
                values = await send(client, [each for run in own for each in run.commands], 0)
                found.update(zip(numbers, answers(own, values, check_moved)))
            except ERRORS as error:
                found.update(dict.fromkeys(numbers, translated(error)))

        await asyncio.gather(*(ask(client, numbers) for client, numbers in nodes.items()))
        if any(isinstance(answer, HaulError) for answer in found.values()):
            await self._refresh()
        return [found[number] for number in range(len(runs))]

    async def _refresh(self) -> None:
        """Asks the cluster again which node has which slots."""
        try:
            if self._client is not None:
                await self._client.nodes_manager.initialize()
        except ERRORS:
            pass

    def subscribe(self, channel: str) -> AsyncSubscription:
        if self._subscriber is None:
            self._subscriber = Subscriber(self._pubsub)
        return Mailbox(self._subscriber, channel)

    async def _pubsub(self, channel: str) -> Any:
        # A message that is published on one node reaches the subscribers of all.
        return (await self.node(channel)).pubsub()

    async def close(self) -> None:
        if self._subscriber is not None:
            await self._subscriber.close()
        for client in self._clients.values():
            await closed(client)
        if self._owned and self._client is not None:
            await closed(self._client)


async def closed(client: Any) -> None:
    await (getattr(client, "aclose", None) or client.close)()


class Subscriber:
    """The subscriptions of all tasks, over one connection. It has one while there is a subscription. `connect` makes a
    PubSub for a channel."""

    def __init__(self, connect: Callable[[str], Awaitable[Any]]) -> None:
        self._connect = connect
        self._boxes: Dict[str, Set[Mailbox]] = {}
        self._subscribed: Set[str] = set()
        self._task: Optional[asyncio.Task[None]] = None
        self._change: Optional[asyncio.Event] = None

    def add(self, box: Mailbox) -> None:
        self._boxes.setdefault(box.channel, set()).add(box)
        if box.channel in self._subscribed:
            box.put(Notice.SUBSCRIBED)
        if self._task is None or self._task.done():
            self._change = asyncio.Event()
            self._subscribed = set()
            self._task = asyncio.get_running_loop().create_task(self._run())
        if self._change:
            self._change.set()

    def remove(self, box: Mailbox) -> None:
        boxes = self._boxes.get(box.channel, set())
        boxes.discard(box)
        if not boxes:
            self._boxes.pop(box.channel, None)
        if self._change:
            self._change.set()

    async def close(self) -> None:
        for box in self._all():
            box.put(Closed())
        self._boxes.clear()
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _all(self) -> List[Mailbox]:
        return [box for boxes in self._boxes.values() for box in boxes]

    async def _run(self) -> None:
        wait = 0.05
        while self._boxes:
            began = time.monotonic()
            pubsub: Any = None
            try:
                pubsub = await self._connect(next(iter(self._boxes)))
                await self._serve(pubsub)
            except (*ERRORS, HaulError) as error:
                failure = error if isinstance(error, HaulError) else translated(error)
                for box in self._all():
                    box.put(Notice.INTERRUPTED if isinstance(failure, Unreachable) else failure)
                wait = 0.05 if time.monotonic() - began > 5 else min(1.0, wait * 2)
                await asyncio.sleep(wait)
            finally:
                self._subscribed = set()
                try:
                    if pubsub is not None:
                        await closed(pubsub)
                except ERRORS:
                    pass

    async def _serve(self, pubsub: Any) -> None:
        """Subscribes to what is wanted, and hands out messages, until nothing is wanted."""
        assert self._change is not None
        asked: Set[str] = set()
        reading: Optional[asyncio.Task[Any]] = None
        changed: Optional[asyncio.Task[Any]] = None
        try:
            while self._boxes:
                self._change.clear()
                new, gone = set(self._boxes) - asked, asked - set(self._boxes)
                if new:
                    await pubsub.subscribe(*new)
                if gone:
                    await pubsub.unsubscribe(*gone)
                    self._subscribed -= gone
                asked = (asked | new) - gone
                if reading is None:
                    reading = asyncio.ensure_future(pubsub.get_message(timeout=10))
                if changed is None or changed.done():
                    changed = asyncio.ensure_future(self._change.wait())
                await asyncio.wait({reading, changed}, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    message, reading = reading.result(), None
                    if message:
                        self._deliver(message)
        finally:
            for task in (reading, changed):
                if task:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    def _deliver(self, message: Dict[str, Any]) -> None:
        channel, data = (
            each.decode("utf-8", "replace") if isinstance(each, bytes) else each
            for each in (message["channel"], message["data"])
        )
        if message["type"] == "subscribe":
            self._subscribed.add(channel)
            data = Notice.SUBSCRIBED
        elif message["type"] != "message":
            return
        for box in list(self._boxes.get(channel, ())):
            box.put(data)


class Mailbox:
    """The messages for one operation. It keeps the newest ones; the rules notice a gap."""

    def __init__(self, subscriber: Subscriber, channel: str) -> None:
        self.channel = channel
        self._subscriber = subscriber
        self._messages: Deque[Any] = deque(maxlen=10_000)
        self._arrival = asyncio.Event()
        subscriber.add(self)

    def put(self, message: Any) -> None:
        self._messages.append(message)
        self._arrival.set()

    async def receive(self, timeout: float) -> Any:
        if not self._messages:
            self._arrival.clear()
            try:
                await asyncio.wait_for(self._arrival.wait(), timeout)
            except asyncio.TimeoutError:
                return None
        message = self._messages.popleft()
        if isinstance(message, HaulError):
            raise message
        return message

    def close(self) -> None:
        self._subscriber.remove(self)


class AsyncDriver:
    """Performs operations."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.is_closed = False

    async def run(self, operation: Operation[T]) -> T:
        result: List[T] = []
        async for _ in self._steps(operation, result):
            pass
        return result[0]

    def stream(self, operation: Operation[None]) -> AsyncGenerator[Any, None]:
        return self._steps(operation, [])

    async def _steps(self, operation: Operation[T], result: List[T]) -> AsyncGenerator[Any, None]:
        """Yields what the operation emits, and appends its result."""
        subscription: Optional[AsyncSubscription] = None
        answer: Any = None
        failure: Optional[HaulError] = None
        try:
            while True:
                try:
                    need = operation.send(answer) if failure is None else operation.throw(failure)
                except StopIteration as end:
                    result.append(end.value)
                    return
                answer, failure = None, None
                try:
                    if self.is_closed:
                        raise Closed()
                    if isinstance(need, Run):
                        answer = await self.connection.execute(need.commands, need.key, need.block)
                    elif isinstance(need, RunEach):
                        answer = await self.connection.execute_each(need.runs)
                    elif isinstance(need, Listen):
                        subscription = self.connection.subscribe(need.channel)
                    elif isinstance(need, Receive):
                        assert subscription is not None
                        answer = await subscription.receive(need.timeout)
                    elif isinstance(need, Pause):
                        await asyncio.sleep(need.seconds)
                    elif isinstance(need, Call):
                        answer = need.function()
                        if inspect.isawaitable(answer):
                            answer = await answer
                    elif isinstance(need, Emit):
                        yield need.value
                except HaulError as error:
                    failure = error
        finally:
            operation.close()
            if subscription is not None:
                subscription.close()


class AsyncSettled:
    """An end that `AsyncQueue.settled` hands out. Acknowledge it when your own record of it is durable.

    As a context manager it acknowledges at the end of the block, unless the block raised.
    """

    def __init__(self, driver: AsyncDriver, core: Core, delivery: Delivery) -> None:
        self._driver, self._core, self._delivery = driver, core, delivery

    @property
    def result(self) -> Outcome:
        """How the job ended, or the batch."""
        return self._delivery.outcome

    @property
    def id(self) -> str:
        """The id of the job, or the name of the batch."""
        return self._delivery.outcome.id

    async def ack(self) -> None:
        """Takes the end off the list. Without that it comes again when the service starts again."""
        await self._driver.run(self._core.acknowledge(self._delivery))

    async def __aenter__(self) -> AsyncSettled:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None:
            await self.ack()

    def __repr__(self) -> str:
        return f"AsyncSettled({self.result!r})"


class AsyncJobHandle:
    """A handle of a job. Any number of handles may belong to one job."""

    def __init__(self, queue: AsyncQueue, id: str, at: Optional[int], place: Optional[str] = None) -> None:
        self._queue, self._place = queue, place
        self.id = id
        #: The `at` of the push, unix ms. The handle ignores an older end of the job. Keep it with your record.
        self.at = at

    def __repr__(self) -> str:
        return f"AsyncJobHandle(id={self.id!r}, at={self.at!r})"

    async def status(self) -> Optional[JobStatus]:
        """The job as in its hash. None until a worker has seen it, and after it was removed or has expired."""
        return await self._queue._run(self._queue._core.status(self.id, self._place))

    async def result(self, timeout: Optional[float] = None) -> JobResult:
        """Waits until the job has ended. A failed job is a result: `raise_for_error` makes it an exception.

        Raises TimedOut or NoWorker after `timeout` seconds, and Rejected if the element was not a valid job.
        """
        return await self._queue._run(self._queue._core.result(self.id, self.at, timeout, self._place))

    def events(self) -> AsyncGenerator[Update, None]:
        """The job's status, then its events until its end, each once and in order.

        A JobStatus stands for events that were missed, because the connection was lost.
        """
        return self._queue._stream(self._queue._core.events(self.id, self.at, self._place))

    async def pause(self) -> None:
        """Pauses the job. Its bytes are kept."""
        await self._queue.pause([self.id])

    async def resume(self) -> None:
        """Resumes the paused job."""
        await self._queue.resume([self.id])

    async def retry(self) -> None:
        """Runs the failed job again."""
        await self._queue.retry([self.id])

    async def cancel(self) -> None:
        """Cancels the job, and removes its partial file."""
        await self._queue.cancel([self.id])

    async def remove(self, files: bool = False) -> None:
        """Removes the job from Redis. `files` deletes the finished file as well."""
        await self._queue.remove([self.id], files=files)


class AsyncBatchHandle:
    """A handle of a batch: the jobs that were pushed with its name in `batch`."""

    def __init__(self, queue: AsyncQueue, id: str) -> None:
        self._queue = queue
        self.id = id

    async def status(self) -> Optional[BatchStatus]:
        """The counts. None until a worker has seen one of the batch's jobs, and after the batch has expired."""
        return await self._queue._run(self._queue._core.batch(self.id))

    async def result(self, after: int = 0, timeout: Optional[float] = None) -> BatchStatus:
        """Waits until as many jobs have ended as the size of the batch says, and none is pending.

        `after` is the round whose end is already known: after `retry`, pass the last `round` to wait for the next.
        """
        return await self._queue._run(self._queue._core.batch_result(self.id, after, timeout))

    async def pause(self) -> None:
        await self._control(contract.PAUSED)

    async def resume(self) -> None:
        await self._control(contract.RUNNING)

    async def retry(self) -> None:
        """Runs the batch's failed jobs again."""
        await self._control(contract.RETRIED)

    async def cancel(self) -> None:
        """Cancels the batch's jobs that have not ended, also those that no worker has seen yet."""
        await self._control(contract.CANCELLED)

    async def _control(self, operation: str) -> None:
        await self._queue._run(self._queue._core.control_batch(operation, self.id))


class AsyncQueue:
    """A client of a Haul queue. Tasks of one event loop may share it."""

    def __init__(
        self,
        client: Union[str, "redis.asyncio.Redis", RedisCluster] = "redis://127.0.0.1:6379",
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
        self._driver = AsyncDriver(self._connect(client))
        self._core.BLOCK = self._driver.connection.block

    def _connect(self, client: Union[str, "redis.asyncio.Redis", RedisCluster]) -> AsyncConnection:
        if isinstance(client, RedisCluster) or isinstance(client, str) and is_cluster_url(client):
            return AsyncClusterConnection(client)
        return AsyncRedisConnection(client)

    async def _run(self, operation: Operation[T]) -> T:
        return await self._driver.run(operation)

    def _stream(self, operation: Operation[None]) -> AsyncGenerator[Any, None]:
        return self._driver.stream(operation)

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._core.name

    async def close(self) -> None:
        """Closes the connections that this object has made."""
        self._driver.is_closed = True
        await self._driver.connection.close()

    async def __aenter__(self) -> AsyncQueue:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def push(self, job: Job, *, urgent: bool = False, replicas: int = 0, within: float = 1.0) -> AsyncJobHandle:
        """Pushes a job. It may be repeated with the same id and `at`, and then does nothing.

        `urgent` puts it before all waiting jobs. `replicas` waits `within` seconds until so many replicas have it.
        Raises InvalidJob before anything is pushed.
        """
        return (await self.push_many([job], urgent=urgent, replicas=replicas, within=within))[0]

    async def push_many(
        self, jobs: Iterable[Job], *, urgent: bool = False, replicas: int = 0, within: float = 1.0
    ) -> List[AsyncJobHandle]:
        """Pushes any number of jobs in their order, in few round trips. If one is not valid, none is pushed.

        If a partition of the queue cannot be reached, the others get their jobs, and NotAllPushed says which are pushed.
        """
        elements: List[Element] = await self._run(self._core.push_many(list(jobs), urgent, replicas, within))
        return [AsyncJobHandle(self, each.id, each.at, each.place) for each in elements]

    def handle(self, id: str, at: Optional[int] = None) -> AsyncJobHandle:
        """A handle of any job. With the `at` of a push it ignores an older end of the job."""
        return AsyncJobHandle(self, id, at)

    def batch(self, name: str) -> AsyncBatchHandle:
        """A handle of a batch. Its jobs are those that were pushed with `batch=Batch(name, …)`."""
        return AsyncBatchHandle(self, name)

    def settled(
        self,
        name: Optional[str] = None,
        *,
        open_jobs: Optional[OpenJobs] = None,
        every: float = 60.0,
        idle: Optional[float] = None,
    ) -> AsyncGenerator[AsyncSettled, None]:
        """The ends of jobs and batches with this `reply_to`, each at least once, until it is acknowledged.

        `open_jobs`, a function or a coroutine function, returns the id and `at` of the jobs that your own records have as open. Their hashes are read at
        the start, after a lost connection, and `every` so many seconds. So even an end whose reply was lost is handed
        out. `idle` ends the loop after so many seconds without an end. It raises Unreachable instead if a part of the queue
        cannot be read then, and has not been readable for `patience` seconds, because ends may wait there.
        """
        loop = self._core.settled_loop(name)
        return self._settled(self._core.settled(open_jobs, every, idle, loop))

    async def _settled(self, operation: Operation[None]) -> AsyncGenerator[AsyncSettled, None]:
        async for delivery in self._stream(operation):
            yield AsyncSettled(self._driver, self._core, delivery)

    def kept_events(
        self, *, since: Optional[int] = None, after: Optional[str] = None, follow: bool = True
    ) -> AsyncGenerator[KeptUpdate, None]:
        """The events that the queue has kept, oldest first, and then those that follow: docs/guides/durable-events.md.

        It begins with the oldest event, with those that are not older than `since` (unix ms by Redis' clock), or behind
        the position of an update that was delivered before (`after`). Unless `follow`, it ends behind the newest one.
        The events of each job come in their order. While Redis cannot be reached it waits. Raises EventsNotKept if
        the queue has no setting event_stream.
        """
        return self._stream(kept_events(self._core, since, after, follow))

    async def pause(self, ids: Sequence[str]) -> None:
        """Pauses jobs. Their bytes are kept."""
        await self._run(self._core.control(contract.PAUSED, ids))

    async def resume(self, ids: Sequence[str]) -> None:
        """Resumes paused jobs, before all waiting ones."""
        await self._run(self._core.control(contract.RUNNING, ids))

    async def retry(self, ids: Sequence[str]) -> None:
        """Runs failed jobs again, from their offsets, before all waiting ones."""
        await self._run(self._core.control(contract.RUNNING, ids))

    async def cancel(self, ids: Sequence[str]) -> None:
        """Cancels jobs, and removes their partial files."""
        await self._run(self._core.control(contract.CANCELLED, ids))

    async def remove(self, ids: Sequence[str], *, files: bool = False) -> None:
        """Removes jobs from Redis. Jobs that have not ended are cancelled. `files` deletes finished files as well."""
        await self._run(self._core.control(contract.DELETED if files else contract.REMOVED, ids))

    async def ids_with_url(self, url: str) -> List[str]:
        """The ids of the jobs that have this URL, whole and with its query, as their URL or as a mirror. A job that waits
        for a host or for another kind of worker is found once a worker has claimed it."""
        return await self._run(self._core.ids_with_url(url))

    async def status(self, ids: Sequence[str]) -> List[JobStatus]:
        """Those of these jobs that Redis knows, in one round trip."""
        return await self._run(self._core.statuses(ids))

    async def stats(self) -> QueueStats:
        """How many jobs are in each state, and how many workers serve the queue."""
        return await self._run(self._core.stats())

    async def add_schedule(
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
        await self._run(self._core.add_schedule(name, definition, job))

    async def schedules(self) -> Dict[str, Schedule]:
        """All schedules, by their names."""
        return await self._run(self._core.schedules())

    async def pause_schedule(self, name: str) -> None:
        """Pushes nothing until the schedule is resumed."""
        await self._run(self._core.pause_schedule(name, True))

    async def resume_schedule(self, name: str) -> None:
        """Pushes again from the next due time on."""
        await self._run(self._core.pause_schedule(name, False))

    async def run_schedule(self, name: str) -> AsyncJobHandle:
        """Requests a run now, besides those that are due. It is skipped if the last run has not ended."""
        id, at = await self._run(self._core.run_schedule(name))
        return AsyncJobHandle(self, id, at, name)

    async def remove_schedule(self, name: str) -> None:
        """Deletes a schedule. Its jobs stay."""
        await self._run(self._core.remove_schedule(name))

    async def settings(self) -> Dict[str, str]:
        """The settings of the queue, as docs/operate/queues.md lists them. Needs Redis' role for operators."""
        return await self._run(self._core.settings())

    async def change_settings(self, **changes: Union[bool, int, str, None]) -> None:
        """Sets settings, such as `rate=5_000_000`, `starts="10/s"`, `paused=True`. None removes one.

        Raises InvalidSetting if a value is not valid. Then none is set. If a partition of the queue does not answer, the
        others get the change, and the error names it. Needs Redis' role for operators.
        """
        await self._run(self._core.change_settings(changes))
