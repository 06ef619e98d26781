"""A queue with partitions, on one server and on a cluster of three, with a worker that serves all of it."""
import asyncio
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import haul_client as haul
import pytest
import redis.asyncio.cluster
import redis.cluster
from haul_client.testing import FakeQueue
from support import GOOD, Blocking, Cluster, Origin, Server, Worker, eventually

QUEUE, COUNT = "films#8", 8


@pytest.fixture(scope="module")
def origin():
    origin = Origin()
    yield origin
    origin.gate.set()
    origin.shutdown()


@pytest.fixture(scope="module", params=["one server", "a cluster"])
def redis_of_partitions(request):
    server = Server() if request.param == "one server" else Cluster()
    yield server
    server.close()


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def cluster_of_all():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def idle_cluster(cluster_of_all):
    """A cluster without a worker, whose servers a test may kill."""
    yield cluster_of_all
    for server in cluster_of_all.servers:
        if server.process.poll() is not None:
            server.start()
    for server in cluster_of_all.servers:
        eventually("the cluster to be up", lambda: "cluster_state:ok" in server.cli("CLUSTER", "INFO"))
        server.cli("FLUSHALL")


def queue_of(kind, url, loop, **options):
    if kind == "sync":
        return haul.Queue(url, QUEUE, **options)
    return Blocking(haul.AsyncQueue(url, QUEUE, **options), loop)


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def worker(redis_of_partitions):
    worker = Worker(redis_of_partitions, QUEUE)
    yield worker
    worker.close()


@pytest.fixture(params=["sync", "async"])
def queue(request, redis_of_partitions, worker, loop):
    queue = queue_of(request.param, redis_of_partitions.url, loop, reply_to="shop-" + request.param)
    with queue:
        queue.kind = request.param
        yield queue


def download(origin, id, **more):
    return haul.Download(origin.url("/good?" + id), id=id, path=id + "/", **more)


def lay_ends(server, number, ids):
    """Ends on the list of replies of one partition, as a worker would push them."""
    partition = f"films#{number}of{COUNT}"
    key = f"haul:{{{partition}}}:reply:shop"
    owner = server.owner(key) if isinstance(server, Cluster) else server
    end = {"v": 1, "event": "completed", "queue": partition, "at": 5, "epoch": 1, "bytes": 1, "seconds": 0.1}
    owner.cli("LPUSH", key, *(json.dumps({**end, "id": id, "seq": place}) for place, id in enumerate(ids)))
    return owner


def settle(queue, count, within):
    """The ids of so many ends. Fewer if they take too long."""
    found, deadline = [], time.monotonic() + within
    for end in queue.settled(idle=5):
        with end:
            found.append(end.id)
        if len(found) == count or time.monotonic() > deadline:
            break
    return found


@pytest.fixture(params=["sync", "async"])
def idle_queue(request, loop):
    """Makes queues that no worker serves."""
    return lambda url, **options: queue_of(request.param, url, loop, reply_to="shop", **options)


def test_ends_that_are_all_in_one_partition_are_handed_out_without_waits_at_the_others(redis_of_partitions, idle_queue):
    ids = [f"member-{number}" for number in range(100)]
    lay_ends(redis_of_partitions, 3, ids)
    with idle_queue(redis_of_partitions.url) as queue:
        assert settle(queue, 100, within=15) == ids


def test_a_partition_with_many_ends_does_not_hold_up_those_of_others(redis_of_partitions, idle_queue):
    for number in range(COUNT):
        lay_ends(redis_of_partitions, number, [f"{number}-{place}" for place in range(40 if number == 3 else 2)])
    with idle_queue(redis_of_partitions.url) as queue:
        found = settle(queue, 40 + 2 * (COUNT - 1), within=15)
    assert len(set(found)) == 40 + 2 * (COUNT - 1)
    assert {id[0] for id in found[:COUNT]} == set(map(str, range(COUNT)))


def test_ends_of_partitions_that_were_taken_and_not_acknowledged_come_again(redis_of_partitions, idle_queue):
    ids = [f"{number}-{place}" for number in (2, 5) for place in range(20)]
    for number in (2, 5):
        lay_ends(redis_of_partitions, number, [id for id in ids if id.startswith(f"{number}-")])
    with idle_queue(redis_of_partitions.url) as queue:
        for place, end in enumerate(queue.settled()):
            if place == 7:
                break
        found = settle(queue, 40, within=15)
        assert sorted(found) == sorted(ids)
        assert list(queue.settled(idle=0.3)) == []


@pytest.mark.parametrize("failure", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hanging"])
def test_ends_are_handed_out_while_another_partition_is_away(failure, idle_cluster, idle_queue):
    ids = [f"film-{number}" for number in range(100)]
    owner = lay_ends(idle_cluster, 3, ids)
    away = next(server for server in idle_cluster.servers if server is not owner)
    number = next(n for n in range(COUNT) if idle_cluster.owner(f"haul:{{films#{n}of8}}:jobs") is away)
    with idle_queue(idle_cluster.url + "/?socket_timeout=0.5", patience=0.5) as queue:
        queue.stats()
        away.process.send_signal(failure)
        try:
            assert settle(queue, 100, within=40) == ids
        finally:
            away.process.send_signal(signal.SIGCONT)
        if failure == signal.SIGKILL:
            away.process.wait()
            away.start()
        eventually("the server to be back", lambda: away.cli("CLUSTER", "INFO").startswith("cluster_state:ok"))
        lay_ends(idle_cluster, number, ["back"])
        assert settle(queue, 1, within=40) == ["back"]


def homes(cluster, ids):
    """The servers and the partitions of jobs."""
    parts = {id: haul.partition(QUEUE, id) for id in ids}
    servers = {part: cluster.owner(f"haul:{{{part}}}:jobs") for part in set(parts.values())}
    return {id: servers[part] for id, part in parts.items()}, parts


def waiting(server, parts):
    """The ids that wait in these partitions, which a server has."""
    texts = [text for part in set(parts) for text in server.cli("LRANGE", f"haul:{{{part}}}:jobs", "0", "-1").splitlines()]
    return {json.loads(text)["id"] for text in texts}


@pytest.mark.parametrize("at", [None, 1_763_712_000_000])
def test_a_push_reaches_the_other_partitions_while_some_are_away_and_says_which_jobs_are_not_pushed(at, idle_cluster, idle_queue):
    ids = [f"film-{number}" for number in range(40)]
    servers, parts = homes(idle_cluster, ids)
    away = servers[ids[0]]
    lost = [id for id in ids if servers[id] is away]
    with idle_queue(idle_cluster.url, patience=0.5) as queue:
        queue.stats()
        away.kill()
        began = time.monotonic()
        with pytest.raises(haul.Unreachable) as failure:
            queue.push_many([haul.Download("https://example.org/a", id=id, at=at) for id in ids])
        error = failure.value
        assert isinstance(error, haul.NotAllPushed) and time.monotonic() - began < 10
        assert sorted(error.partitions) == sorted({parts[id] for id in lost})
        assert list(error.not_pushed) == lost and sorted(error.pushed) == sorted(set(ids) - set(lost))
        assert set(error.not_pushed.values()) == {at} and all(error.pushed.values())
        assert str(error).startswith("the partition") and f"{len(error.pushed)} of 40 jobs are pushed" in str(error)
        for server in idle_cluster.servers:
            own = [id for id in ids if servers[id] is server and server is not away]
            assert waiting(server, [parts[id] for id in own]) == set(own) if own else True
        # None is pushed if one of them is not valid, also where a partition is away.
        with pytest.raises(haul.InvalidJob):
            queue.push_many([haul.Download("https://example.org/b", id=id, meta="x" * 5000) for id in ids])
        away.start()
        eventually("the server to be back", lambda: away.cli("CLUSTER", "INFO").startswith("cluster_state:ok"))
        queue.push_many([haul.Download("https://example.org/a", id=id, at=error.not_pushed[id]) for id in error.not_pushed])
        assert waiting(away, [parts[id] for id in lost]) == set(lost)


def test_a_push_waits_for_a_partition_that_comes_back_within_the_patience(idle_cluster, idle_queue):
    ids = [f"film-{number}" for number in range(20)]
    servers, parts = homes(idle_cluster, ids)
    away = servers[ids[0]]
    with idle_queue(idle_cluster.url, patience=60) as queue, ThreadPoolExecutor(1) as threads:
        queue.stats()
        away.kill()
        pushed = threads.submit(lambda: queue.push_many([haul.Download("https://example.org/a", id=id) for id in ids]))
        other = next(id for id in ids if servers[id] is not away)
        eventually("the others have their jobs", lambda: waiting(servers[other], [parts[other]]))
        away.start()
        assert len(pushed.result(60)) == 20
    assert ids[0] in waiting(away, [parts[ids[0]]])


def test_replicas_of_all_partitions_are_waited_for_together(redis_of_partitions, idle_queue):
    with idle_queue(redis_of_partitions.url) as queue:
        jobs = [haul.Download("https://example.org/a", id=f"film-{number}", reply_to="replicas") for number in range(40)]
        began = time.monotonic()
        with pytest.raises(haul.NotReplicated, match="0 of 1 replicas have the push after 2 s"):
            queue.push_many(jobs, replicas=1, within=2)
        assert time.monotonic() - began < 8
        assert sum(queue.stats().counts.values()) >= 40
        queue.cancel([job.id for job in jobs])


def test_a_right_that_a_user_lacks_in_one_partition_does_not_keep_jobs_from_the_others(idle_queue):
    server = Server()
    try:
        server.cli("ACL", "SETUSER", "shop", "on", ">secret", "+@all", "&*", *(f"~haul:{{films#{n}of8}}:*" for n in range(7)))
        ids = [f"film-{number}" for number in range(40)]
        refused = [id for id in ids if haul.partition(QUEUE, id) == "films#7of8"]
        with idle_queue(server.url.replace("//", "//shop:secret@")) as queue:
            with pytest.raises(haul.Refused, match=f"films#7of8: .* {40 - len(refused)} of 40 jobs are pushed") as failure:
                queue.push_many([haul.Download("https://example.org/a", id=id) for id in ids])
            assert refused[0] in str(failure.value)
        assert waiting(server, [f"films#{n}of8" for n in range(8)]) == set(ids) - set(refused)
    finally:
        server.close()


def test_a_wait_for_ends_does_not_end_before_it_has_read_the_open_jobs_of_a_partition_that_is_back(idle_cluster, idle_queue, caplog):
    id, at = "film", 1_763_712_000_000
    key = f"haul:{{{haul.partition(QUEUE, id)}}}:job:{id}"
    away = idle_cluster.owner(key)
    away.cli("HSET", key, "state", "completed", "settled_until", str(at), "epoch", "1", "seq", "1")
    with idle_queue(idle_cluster.url, patience=60) as queue, ThreadPoolExecutor(1) as threads:
        queue.stats()
        away.kill()
        ends = threads.submit(lambda: [end.id for end in queue.settled(open_jobs=lambda: [(id, at)], idle=0.1)])
        eventually("a warning", lambda: any("trying again" in text for text in caplog.messages))
        away.start()
        assert ends.result(60) == [id]


def test_errors_name_the_partition_that_is_away(idle_cluster, idle_queue):
    ids = [f"film-{number}" for number in range(40)]
    servers, parts = homes(idle_cluster, ids)
    away = servers[ids[0]]
    lost = {part for id, part in parts.items() if servers[id] is away}
    with idle_queue(idle_cluster.url, patience=0.2) as queue:
        queue.stats()
        away.kill()
        calls = (
            lambda: queue.stats(), lambda: queue.status(ids), lambda: queue.schedules(), lambda: queue.cancel(ids),
            lambda: queue.handle(ids[0]).status(), lambda: queue.push(haul.Download("https://example.org/a", id=ids[0])),
            lambda: list(queue.settled(idle=0.5)),
        )
        for call in calls:
            with pytest.raises(haul.Unreachable, match=r"^the partition films#\dof8: [^:]*cannot reach Redis") as failure:
                call()
            assert str(failure.value).split(":")[0].split()[-1] in lost


def test_errors_say_that_a_slot_is_being_moved(idle_cluster, idle_queue):
    key = "haul:{films#3of8}:jobs"
    source = idle_cluster.owner(key)
    target = next(server for server in idle_cluster.servers if server is not source)
    slot = source.cli("CLUSTER", "KEYSLOT", key)
    assert target.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", source.cli("CLUSTER", "MYID")) == "OK"
    assert source.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", target.cli("CLUSTER", "MYID")) == "OK"
    id = next(id for id in map(str, range(100)) if haul.partition(QUEUE, id) == "films#3of8")
    expected = "^the partition films#3of8: the queue's slot is being moved$"
    try:
        with idle_queue(idle_cluster.url, patience=0.2) as queue:
            for call in (queue.stats, lambda: queue.push(haul.Download("https://example.org/a", id=id))):
                with pytest.raises(haul.Unreachable, match=expected):
                    call()
        with haul.Queue(idle_cluster.url, "films#3of8", patience=0.2) as queue:
            with pytest.raises(haul.Unreachable, match="^the queue's slot is being moved$"):
                queue.stats()
    finally:
        for server in (source, target):
            server.cli("CLUSTER", "SETSLOT", slot, "STABLE")


def test_open_jobs_are_read_while_another_partition_is_away(idle_cluster, idle_queue):
    away = idle_cluster.owner("haul:{films#0of8}:jobs")
    ids = [f"film-{number}" for number in range(20)]
    owners = {id: idle_cluster.owner(f"haul:{{{haul.partition(QUEUE, id)}}}:jobs") for id in ids}
    served = [id for id, owner in owners.items() if owner is not away]
    at = 1_763_712_000_000
    for id, owner in owners.items():
        key = f"haul:{{{haul.partition(QUEUE, id)}}}:job:{id}"
        owner.cli("HSET", key, "state", "completed", "settled_until", str(at), "epoch", "1", "seq", "1")
    with idle_queue(idle_cluster.url, patience=0.5) as queue:
        queue.stats()
        away.kill()
        found = []
        with pytest.raises(haul.Unreachable):
            for end in queue.settled(open_jobs=lambda: [(id, at) for id in ids], idle=1):
                with end:
                    found.append(end.id)
        assert sorted(found) == sorted(served)


def test_each_job_is_in_its_partition_and_each_end_comes_once(queue, origin):
    ids = [f"{queue.kind}-{number}" for number in range(30)]
    handles = queue.push_many(download(origin, id) for id in ids)
    assert {haul.partition(QUEUE, id) for id in ids} == {f"films#{n}of{COUNT}" for n in range(COUNT)}
    assert all(handle.result(timeout=30).bytes == len(GOOD) for handle in handles[:5])
    found = []
    for end in queue.settled(idle=3):
        with end:
            found.append(end.id)
    assert sorted(found) == sorted(ids)
    assert list(queue.settled(idle=0.5)) == []
    assert {each.id for each in queue.status([*ids, "unknown"])} == set(ids)
    assert queue.stats().counts["completed"] >= 30 and queue.stats().workers == 1
    assert queue.ids_with_url(origin.url("/good?" + ids[3])) == [ids[3]]


def test_an_end_whose_reply_was_lost_is_read_from_the_hash(queue, origin):
    handle = queue.push(download(origin, queue.kind + "-open"))
    handle.result(timeout=30)
    for end in queue.settled(idle=1):
        end.ack()
    (end,) = queue.settled(open_jobs=lambda: [(handle.id, handle.at)], idle=1)
    assert end.id == handle.id


def test_members_of_a_batch_are_together_and_found_by_their_ids(queue, origin):
    name = queue.kind + "-night"
    ids = [f"{name}-{number}" for number in range(10)]
    handles = queue.push_many(download(origin, id, batch=haul.Batch(name, size=10)) for id in ids)
    assert handles[3].result(timeout=30).state == "completed"
    status = queue.batch(name).result(timeout=30)
    assert (status.completed, status.failed) == (10, 0)
    assert {each.id for each in queue.status(ids)} == set(ids)
    # A handle by the id alone does not know the batch.
    assert queue.handle(ids[0]).result(timeout=30).state == "completed"
    queue.remove(ids[:2])
    eventually("two are forgotten", lambda: len(queue.status(ids)) == 8)


def test_a_running_job_is_followed_paused_and_cancelled(queue, origin):
    id = queue.kind + "-held"
    handle = queue.push(haul.Download(origin.url("/held?" + id), id=id))
    updates = handle.events()
    eventually("it runs", lambda: next(updates).event in ("started", "progress", "status", "running"))
    handle.pause()
    eventually("it is paused", lambda: handle.status().state == "paused")
    queue.handle(id).resume()
    eventually("it runs again", lambda: handle.status().state == "running")
    queue.cancel([id])
    assert handle.result(timeout=30).state == "cancelled"


def test_schedules_and_settings_are_those_of_the_whole_queue(queue, origin):
    name = queue.kind + "-hourly"
    queue.add_schedule(name, haul.Download(origin.url("/good?" + name)), every=3600)
    assert name in queue.schedules()
    assert queue.run_schedule(name).result(timeout=30).state == "completed"
    queue.remove_schedule(name)
    assert name not in queue.schedules()
    # A batch is counted where its name leads.
    for batch in map(str, range(20)):
        job = haul.Download(origin.url("/good"), batch=batch)
        if haul.partition("films#8", batch) == haul.partition("films#8", name):
            queue.add_schedule(name, job, every=3600)
            queue.remove_schedule(name)
        else:
            with pytest.raises(haul.InvalidJob, match="another partition"):
                queue.add_schedule(name, job, every=3600)
    queue.change_settings(rate=50_000_000)
    assert queue.settings() == {"rate": "50000000"}
    queue.change_settings(rate=None)


def test_kept_events_of_all_partitions_are_read_from_a_stored_position(queue, origin):
    queue.change_settings(event_stream=1000)
    before = [each.position for each in queue.kept_events(follow=False)][-1:]
    ids = [f"{queue.kind}-kept-{number}" for number in range(20)]
    for handle in queue.push_many(download(origin, id) for id in ids):
        handle.result(timeout=30)
    found, position = [], before[0] if before else None
    # Each event is taken by a reader of its own, which goes on where the last one was.
    while len(found) < 20:
        update = next(iter(queue.kept_events(after=position)))
        position = update.position
        if update.event.event == "completed":
            found.append(update.event.id)
    assert sorted(found) == sorted(ids)
    with pytest.raises(haul.EventsNotKept):
        queue.change_settings(event_stream=None)
        list(queue.kept_events(after=position))
    assert isinstance(next(queue.kept_events(after="5-0")), haul.EventGap)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_slots_move_and_a_server_is_away(kind, cluster, origin, loop):
    worker = Worker(cluster, QUEUE)
    ids = [f"{kind}-{number}" for number in range(24)]
    at = 1_763_712_000_000
    try:
        with queue_of(kind, cluster.url, loop, reply_to="shop", patience=20) as queue:
            found = []

            def settle(count):
                for end in queue.settled(idle=20):
                    with end:
                        found.append(end.id)
                    if len(found) == count:
                        return

            queue.push_many(download(origin, id, at=at) for id in ids[:8])
            settle(8)
            source = cluster.owner(f"haul:{{{haul.partition(QUEUE, ids[8])}}}:jobs")
            target = next(server for server in cluster.servers if server is not source)
            cluster.move_slots(source, target)
            queue.push_many(download(origin, id, at=at) for id in ids[8:16])
            settle(16)
            target.kill()
            homes = {id: f"haul:{{{haul.partition(QUEUE, id)}}}:jobs" for id in ids[16:]}
            others = [server for server in cluster.servers if server is not target]
            served = [id for id, key in homes.items() if any(server.cli("LLEN", key) == "0" for server in others)]
            queue.push_many(download(origin, id, at=at) for id in served)
            settle(16 + len(served))
            target.start()
            queue.push_many(download(origin, id, at=at) for id in ids[16:])
            settle(24)
            assert sorted(found) == sorted(ids)
    finally:
        worker.close()


def test_clients_of_redis_py_for_a_cluster_are_taken(cluster, origin, loop):
    host, port = "127.0.0.1", cluster.servers[0].port
    worker = Worker(cluster, QUEUE)
    client, other = redis.cluster.RedisCluster(host, port), redis.asyncio.cluster.RedisCluster(host, port)
    try:
        with queue_of("sync", client, loop) as queue:
            assert queue.push(download(origin, "given")).result(timeout=30).state == "completed"
        with queue_of("async", other, loop) as queue:
            assert queue.push(download(origin, "given-too")).result(timeout=30).state == "completed"
        assert client.ping()
        # A queue without partitions has one slot, and a partition is a queue.
        with haul.Queue(client, haul.partition(QUEUE, "given")) as queue:
            assert queue.handle("given").status().state == "completed"
    finally:
        client.close()
        loop.run_until_complete(other.aclose() if hasattr(other, "aclose") else other.close())
        worker.close()


def test_wrong_names_and_urls_are_refused_before_anything_is_sent():
    for wrong in ("films#", "films#1", "films#65", "films#08", "films#x", "films#8of8", "films#08of9"):
        with pytest.raises(haul.InvalidQueueName, match="films|#8"):
            haul.Queue(queue=wrong)
    for wrong in ("redis+cluster://", "redis+cluster://h:port", "rediss+cluster:///"):
        with pytest.raises(haul.InvalidURL):
            haul.Queue(wrong, QUEUE)
    with pytest.raises(haul.Unreachable):
        with haul.Queue("redis+cluster://127.0.0.1:1", QUEUE, patience=0.1) as queue:
            queue.stats()


def test_a_fake_has_one_partition():
    queue = FakeQueue(QUEUE, worker=lambda job: job.complete(file="a", bytes=1))
    assert queue.push(haul.Download("https://films.example/a", id="a")).result(timeout=5).file == "a"


def test_a_wait_for_ends_says_that_a_partition_is_away_and_a_change_reaches_the_others(cluster):
    away = cluster.owner("haul:{films#0of8}:jobs")
    keys = [f"haul:{{films#{number}of8}}:settings" for number in range(COUNT)]
    owners = {key: cluster.owner(key) for key in keys}
    others = {key: owner for key, owner in owners.items() if owner is not away}
    with haul.Queue(cluster.url, QUEUE, reply_to="shop", patience=0.5) as queue:
        queue.stats()
        away.kill()
        began = time.monotonic()
        with pytest.raises(haul.Unreachable):
            list(queue.settled(idle=1))
        assert time.monotonic() - began < 15
        with pytest.raises(haul.Unreachable, match=f"{len(others)} of 8 partitions have the change, but not films#0of8"):
            queue.change_settings(paused=True)
        for key, owner in others.items():
            assert owner.cli("HGET", key, "paused") == "1"
        away.start()
        eventually("the server to be back", lambda: away.cli("CLUSTER", "INFO").startswith("cluster_state:ok"))
        # Some partitions are paused, and this one is not.
        assert eventually("all partitions", lambda: queue.settings()) == {"paused": "1"}
