"""A Redis that refuses commands for a while, and commands for which Redis takes its time."""
import asyncio
import gc
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import haul_client as haul
import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from haul_client import _redis
from redis import exceptions
from redis._parsers.base import BaseParser
from support import Blocking, Cluster, LosingProxy, Sentinel, Server, close_client, eventually

JOBS, REPLIES = "haul:{default}:jobs", "haul:{default}:reply:shop"
END = {"v": 1, "event": "completed", "id": "film", "queue": "default", "at": 5, "seq": 1, "epoch": 1, "bytes": 1, "seconds": 0.1}


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(params=["sync", "async"])
def queue_of(request, loop):
    """Makes queues of one kind. The client is a URL, or a function that makes a client of redis-py, given its module."""

    clients = []

    def make(client, *arguments, **options):
        is_sync = request.param == "sync"
        if not isinstance(client, str):
            client = client(redis if is_sync else redis.asyncio)
            clients.append(client)
        if is_sync:
            return haul.Queue(client, *arguments, **options)
        return Blocking(haul.AsyncQueue(client, *arguments, **options), loop)

    yield make
    for client in clients:
        close_client(client, loop)


def refuse_without_replicas(server):
    server.cli("CONFIG", "SET", "min-replicas-to-write", "1")
    return lambda: server.cli("CONFIG", "SET", "min-replicas-to-write", "0")


def refuse_without_memory(server):
    server.cli("CONFIG", "SET", "maxmemory", "1")
    return lambda: server.cli("CONFIG", "SET", "maxmemory", "0")


def refuse_without_disk(server):
    os.mkdir(server.directory + "/dump.rdb")  # So the file that Redis saves to cannot get its name.
    server.cli("CONFIG", "SET", "save", "3600 1000000")
    server.cli("BGSAVE")
    eventually("the save to fail", lambda: "rdb_last_bgsave_status:err" in server.cli("INFO", "persistence"))
    return lambda: server.cli("CONFIG", "SET", "save", "")


REFUSALS = pytest.mark.parametrize(
    "refuse", [refuse_without_replicas, refuse_without_memory, refuse_without_disk], ids=["NOREPLICAS", "OOM", "MISCONF"])


def rejected_calls(server, command):
    found = re.search(rf"^cmdstat_{command}:.*rejected_calls=(\d+)", server.cli("INFO", "commandstats"), re.M)
    return int(found.group(1)) if found else 0


@REFUSALS
def test_settled_goes_on_after_redis_has_refused_writes(refuse, queue_of, server, caplog):
    with queue_of(server.url, reply_to="shop") as queue, ThreadPoolExecutor(1) as threads:

        def settle():
            for end in queue.settled(idle=60):
                with end:
                    return end.id

        settled = threads.submit(settle)
        eventually("a wait for a reply", lambda: "blocked_clients:1" in server.cli("INFO", "clients"))
        accept = refuse(server)
        eventually("a refusal", lambda: settled.done() or any("trying again" in text for text in caplog.messages))
        accept()
        server.cli("LPUSH", REPLIES, json.dumps(END))
        assert settled.result(30) == "film"
    assert server.cli("LLEN", REPLIES) == "0"


@REFUSALS
def test_a_push_waits_until_redis_accepts_it(refuse, queue_of, server):
    accept = refuse(server)
    with queue_of(server.url, patience=60) as queue, ThreadPoolExecutor(1) as threads:
        pushed = threads.submit(lambda: queue.push(haul.Download("https://example.org/a", id="film")).id)
        eventually("a refusal", lambda: pushed.done() or rejected_calls(server, "lpush") > 0)
        accept()
        assert pushed.result(30) == "film"
    assert server.cli("LLEN", JOBS) == "1"


def test_a_push_without_patience_says_that_redis_refuses_it(queue_of, server):
    refuse_without_replicas(server)
    with queue_of(server.url, patience=0) as queue:
        with pytest.raises(haul.Unreachable, match="Redis refuses commands for now: NOREPLICAS"):
            queue.push(haul.Download("https://example.org/a", id="film"))


def test_only_a_refusal_that_may_end_by_itself_is_waited_for():
    # What older versions of redis-py do not know, they give as a ResponseError with the whole text.
    texts = [
        "BUSY Redis is busy running a script.", "MASTERDOWN Link with MASTER is down", "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot", "ASK 7 10.0.0.5:6379",
        "NOREPLICAS Not enough good replicas to write.", "MISCONF Errors writing to the AOF file: No space left on device",
        "UNBLOCKED force unblock from blocking operation",
    ]
    temporary = [exceptions.ResponseError(text) for text in texts] + [BaseParser.parse_error(text) for text in (
        *texts, "LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.", "ERR max number of clients reached",
        "ERR max number of clients + cluster connections reached",
    )]
    final = [BaseParser.parse_error(text) for text in (
        "ERR unknown command", "WRONGTYPE Operation against a key", "BUSYGROUP Consumer Group name already exists",
        "MOVED 7 10.0.0.5:6379",
    )]
    assert [error for error in temporary if not isinstance(_redis.translated(error), haul.Unreachable)] == []
    assert [error for error in final if not isinstance(_redis.translated(error), haul.RedisFailed)] == []


def test_a_push_finds_the_new_primary_behind_an_address(queue_of, server):
    other, proxy = Server(), LosingProxy(server, b"", times=0)
    try:
        with queue_of(f"redis://127.0.0.1:{proxy.port}", patience=5) as queue:
            queue.push(haul.Download("https://example.org/a", id="film-1"))
            proxy.target = ("127.0.0.1", other.port)
            server.cli("REPLICAOF", "127.0.0.1", str(other.port))
            queue.push(haul.Download("https://example.org/b", id="film-2"))
        assert other.cli("LLEN", JOBS) == "1" and '"film-2"' in other.cli("LINDEX", JOBS, "0")
    finally:
        proxy.close()
        other.close()


def test_a_push_that_waits_for_replicas_is_not_ended_by_a_short_timeout(queue_of, server):
    sentinel = Sentinel(server)
    nodes = [("127.0.0.1", sentinel.port)]
    try:
        for client in (
            server.url + "?socket_timeout=0.5",
            lambda module: module.Redis(port=server.port, socket_timeout=0.5),
            lambda module: module.sentinel.Sentinel(nodes).master_for("main", socket_timeout=0.5),
        ):
            server.cli("DEL", JOBS)
            with queue_of(client) as queue:
                with pytest.raises(haul.NotReplicated, match="0 of 1 replicas have the push after 1 s"):
                    queue.push(haul.Download("https://example.org/a", id="film"), replicas=1)
            assert server.cli("LLEN", JOBS) == "1"
    finally:
        sentinel.close()


def test_in_a_cluster_a_push_that_waits_for_replicas_is_not_ended_by_a_short_timeout(queue_of, cluster):
    server = cluster.owner(JOBS)
    for client in (
        cluster.url + "?socket_timeout=0.5",
        lambda module: module.cluster.RedisCluster("127.0.0.1", server.port, socket_timeout=0.5),
    ):
        server.cli("DEL", JOBS)
        with queue_of(client) as queue:
            with pytest.raises(haul.NotReplicated, match="0 of 1 replicas have the push after 1 s"):
                queue.push(haul.Download("https://example.org/a", id="film"), replicas=1)
        assert server.cli("LLEN", JOBS) == "1"


def test_a_wait_for_ends_is_not_ended_by_a_short_timeout_of_the_url(queue_of, server, cluster, caplog):
    gc.collect()  # What earlier tests have left open would complain in this one's log.
    for url in (server.url, cluster.url):
        with queue_of(url + "?socket_timeout=0.5", reply_to="shop") as queue:
            assert list(queue.settled(idle=1)) == []
    assert caplog.messages == []


def test_jobs_are_pushed_to_all_partitions_before_it_says_that_replicas_lack_them(queue_of, server):
    ids = [f"film-{number}" for number in range(20)]
    with queue_of(server.url, "films#4") as queue:
        with pytest.raises(haul.NotReplicated, match="0 of 1 replicas have the push"):
            queue.push_many([haul.Download("https://example.org/a", id=id) for id in ids], replicas=1, within=0.01)
    assert sum(int(server.cli("LLEN", f"haul:{{films#{number}of4}}:jobs")) for number in range(4)) == 20


def test_a_right_or_a_password_that_is_missing_in_a_cluster_is_not_taken_for_a_cluster_that_is_away(queue_of, cluster):
    for server in cluster.servers:
        server.cli("ACL", "SETUSER", "shop", "on", ">secret", "+@all", "-cluster", "~*", "&*")
        server.cli("ACL", "SETUSER", "shop-2", "on", ">secret", "+@all", "-time", "~*", "&*")
    for user in ("shop:secret", "shop-2:secret", "shop:wrong"):
        with queue_of(cluster.url.replace("//", f"//{user}@"), patience=0.5) as queue:
            with pytest.raises(haul.Refused):
                queue.push(haul.Download("https://example.org/a", id="film"))
    assert isinstance(_redis.translated(exceptions.ResponseError("NOPERM this user has no permissions")), haul.Refused)
