"""What only a real Redis shows: restarts, kills, roles, many tasks, and what a worker thinks of an element."""
import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
import time

import haul_client as haul
import pytest
from haul_client import _jobs
from haul_client.testing import FakeQueue
import redis
import redis.asyncio
from redis import retry
from redis.backoff import NoBackoff
from support import PYTHON, REPOSITORY, Blocking, LosingProxy, Origin, Server, Worker, close_client, eventually


@pytest.fixture(scope="module")
def origin():
    origin = Origin()
    yield origin
    origin.gate.set()
    origin.shutdown()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


# The service of the README: orders in a database, pushed again after each start, settled exactly once in it.
SERVICE = '''
import asyncio, os, sqlite3, sys, time
import haul_client as haul

file, url, kind = sys.argv[1:]
db = sqlite3.connect(file, isolation_level=None)
slow = float(os.environ.get("SLOW", "0"))


def open_jobs():
    return db.execute("SELECT id, at FROM orders WHERE state IS NULL").fetchall()


def jobs():
    return [haul.Download(source, id=id, at=at, path="orders/") for id, at, source in
            db.execute("SELECT id, at, url FROM orders WHERE state IS NULL")]


def settle(end):
    time.sleep(slow)
    db.execute("UPDATE orders SET state = ?, times = times + 1 WHERE id = ?", (end.result.state, end.id))
    print(end.id, flush=True)


def blocking():
    with haul.Queue(url, reply_to="shop") as queue:
        queue.push_many(jobs())
        for end in queue.settled(open_jobs=open_jobs, every=5):
            with end:
                settle(end)


async def tasks():
    async with haul.AsyncQueue(url, reply_to="shop") as queue:
        await queue.push_many(jobs())
        async for end in queue.settled(open_jobs=open_jobs, every=5):
            async with end:
                settle(end)

blocking() if kind == "sync" else asyncio.run(tasks())
'''


class Service:
    def __init__(self, directory, server, orders, kind):
        self.file, self.url, self.kind = str(directory / "orders.db"), server.url, kind
        self.script = directory / "service.py"
        self.script.write_text(SERVICE)
        self.db = sqlite3.connect(self.file, isolation_level=None)
        self.db.execute("CREATE TABLE orders (id TEXT, at INTEGER, url TEXT, state TEXT, times INTEGER DEFAULT 0)")
        self.db.executemany("INSERT INTO orders (id, at, url) VALUES (?, ?, ?)", orders)
        self.process = None

    def start(self):
        self.process = subprocess.Popen([PYTHON, str(self.script), self.file, self.url, self.kind])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def count(self):
        return self.db.execute("SELECT count(*) FROM orders WHERE state IS NOT NULL").fetchone()[0]


def orders(origin, number, sources=("/good", "/missing")):
    at = int(time.time() * 1000)
    return [(f"o{n}", at + n, origin.url(f"{sources[n % len(sources)]}?{n}")) for n in range(number)]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_service_settles_everything_though_it_and_redis_are_killed(kind, tmp_path, server, origin):
    worker = Worker(server)
    service = Service(tmp_path, server, orders(origin, 40), kind)
    try:
        service.start()
        eventually("some ends", lambda: service.count() >= 3)
        service.kill()
        server.kill()
        server.start()
        service.start()
        eventually("more ends", lambda: service.count() >= 10)
        server.kill()  # The service stays, and connects again.
        time.sleep(0.3)
        server.start()
        eventually("all ends", lambda: service.count() == 40, within=40)
        states = dict(service.db.execute("SELECT state, count(*) FROM orders GROUP BY state"))
        assert states == {"completed": 20, "failed": 20}
        eventually("all acknowledged", lambda: server.cli("LLEN", "haul:{default}:reply:shop:taken") == "0")
    finally:
        service.kill()
        worker.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_end_whose_reply_is_lost_is_handed_out_though_the_service_made_a_client_with_retries(kind, server):
    for number in range(3):
        end = {"v": 1, "event": "completed", "id": f"lost{number}", "queue": "default", "at": 5, "seq": number, "epoch": 1,
               "bytes": 1, "seconds": 0.1}
        server.cli("LPUSH", "haul:{default}:reply:shop", json.dumps(end))
    proxy = LosingProxy(server, b"lost0")
    options = {"port": proxy.port, "retry": retry.Retry(NoBackoff(), 3), "socket_timeout": 4}
    loop = asyncio.new_event_loop()
    if kind == "sync":
        client = redis.Redis(**options)
        queue = haul.Queue(client, reply_to="shop")
    else:
        options["retry"] = redis.asyncio.retry.Retry(NoBackoff(), 3)
        client = redis.asyncio.Redis(**options)
        queue = Blocking(haul.AsyncQueue(client, reply_to="shop"), loop)
    try:
        ids = []
        for end in queue.settled(idle=3):
            ids.append(end.id)
            end.ack()
        assert sorted(ids) == ["lost0", "lost1", "lost2"] and proxy.times == 0
    finally:
        close_client(client, loop)
        proxy.close()
        loop.close()


def test_the_removal_of_a_push_is_not_taken_for_the_end_before_it(server):
    end = {"v": 1, "event": "completed", "id": "film", "queue": "default", "at": 5, "seq": 9, "epoch": 5, "bytes": 1, "seconds": 0.1}
    server.cli("LPUSH", "haul:{default}:reply:shop", json.dumps(end))
    queue, pushed, found = haul.Queue(server.url, reply_to="shop"), [], []
    for end in queue.settled(open_jobs=lambda: pushed, every=0.1, idle=3):
        found.append((end.result.state, end.result.removed))
        end.ack()
        if len(found) == 1:
            # It was pushed again, and removed before a worker had seen that. Its tombstone has the numbers of the end.
            server.cli("HSET", "haul:{default}:job:film", "settled_until", "8000", "epoch", "5", "seq", "9")
            pushed.append(("film", 7000))
    assert found == [("completed", False), ("cancelled", True)]


def test_ends_that_were_taken_and_not_acknowledged_survive_a_kill(tmp_path, server, origin):
    worker = Worker(server)
    service = Service(tmp_path, server, orders(origin, 3), "sync")
    service.script.write_text(service.script.read_text().replace("open_jobs=open_jobs, every=5", ""))  # Only the list.
    try:
        service.process = subprocess.Popen(
            [PYTHON, str(service.script), service.file, service.url, "sync"],
            env={**os.environ, "SLOW": "3600"})
        eventually("one end to be taken", lambda: server.cli("LLEN", "haul:{default}:reply:shop:taken") == "1")
        service.kill()
        assert service.count() == 0
        assert int(server.cli("PTTL", "haul:{default}:reply:shop:taken")) > 86_400_000
        server.kill()
        server.start()
        service.start()
        eventually("all ends", lambda: service.count() == 3)
    finally:
        service.kill()
        worker.close()


def test_a_result_and_events_outlast_a_restart_of_redis(server):
    origin = Origin()
    worker = Worker(server)

    async def main():
        async with haul.AsyncQueue(server.url) as queue:
            handle = await queue.push(haul.Download(origin.url("/held"), id="held"))
            result = asyncio.create_task(handle.result(timeout=60))

            async def follow():
                return [update async for update in handle.events()]

            events = asyncio.create_task(follow())
            while (await queue.stats()).counts["running"] == 0:
                await asyncio.sleep(0.05)
            server.kill()
            server.start()
            origin.gate.set()
            assert (await result).state == "completed"
            last = (await events)[-1]
            assert last.event == "completed" or last.state == "completed"

    try:
        asyncio.run(asyncio.wait_for(main(), 60))
    finally:
        worker.close()
        origin.shutdown()


def test_a_rejection_that_is_not_about_the_awaited_push_ends_no_wait(server):
    origin = Origin()
    worker = Worker(server)

    async def main():
        async with haul.AsyncQueue(server.url) as queue:
            handle = await queue.push(haul.Download(origin.url("/held"), id="held"))
            result = asyncio.create_task(handle.result(timeout=60))

            async def follow():
                return [update async for update in handle.events()]

            events = asyncio.create_task(follow())
            channel = "haul:{default}:events:held"
            while (await queue.stats()).counts["running"] == 0 or server.cli("PUBSUB", "NUMSUB", channel).split()[-1] != "1":
                await asyncio.sleep(0.05)
            # A word that means nothing, and an element of another producer for the same job.
            server.cli("HSET", "haul:{default}:want", "held", "pause")
            server.cli("LPUSH", "haul:{default}:jobs", '{"id":"held","url":"http://h/","retries":"5"}')
            while server.cli("LLEN", "haul:{default}:rejected") != "2":
                await asyncio.sleep(0.05)
            origin.gate.set()
            assert (await result).state == "completed"
            names = [update.event for update in await events if hasattr(update, "event")]
            assert names.count("rejected") == 2 and names[-1] == "completed", names

    try:
        asyncio.run(asyncio.wait_for(main(), 60))
    finally:
        worker.close()
        origin.shutdown()


def test_no_timestamp_is_ahead_of_the_clock_of_redis_however_many_are_taken(server):
    queue, clock = haul.Queue(server.url), redis.Redis.from_url(server.url)
    ahead = []

    def push(thread):
        for number in range(150):
            handle = queue.push(haul.Download("http://h/", id=f"j{thread}-{number}"))
            seconds, microseconds = clock.time()
            ahead.append(handle.at - (seconds * 1000 + microseconds // 1000))

    threads = [threading.Thread(target=push, args=[thread]) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ahead) == 1200 and max(ahead) <= 0
    queue.close()


def test_a_queue_is_reached_through_the_unix_socket_of_redis(tmp_path, origin):
    server = Server("--unixsocket", str(tmp_path / "redis.sock"))
    worker = Worker(server)
    url = f"unix://{tmp_path}/redis.sock"

    async def main():
        async with haul.AsyncQueue(url) as queue:
            handle = await queue.push(haul.Download(origin.url("/good"), id="b"))
            return await handle.result(timeout=20)

    try:
        with haul.Queue(url) as queue:
            assert queue.push(haul.Download(origin.url("/good"), id="a")).result(timeout=20).state == "completed"
        assert asyncio.run(main()).state == "completed"
    finally:
        worker.close()
        server.close()


def test_five_hundred_tasks_wait_over_few_connections(server, origin):
    worker = Worker(server)

    async def main():
        async with haul.AsyncQueue(server.url) as queue:
            handles = await queue.push_many(haul.Download(origin.url(f"/missing?{n}")) for n in range(500))
            waiting = asyncio.gather(*(handle.result(timeout=60) for handle in handles))
            await asyncio.sleep(0.5)
            names = [c for c in server.cli("CLIENT", "LIST").splitlines() if "sub=0" not in c and "haul-client" in c]
            assert len(names) <= 1
            results = await waiting
            assert [result.error for result in results] == ["http_404"] * 500

    try:
        asyncio.run(main())
    finally:
        worker.close()


def test_without_a_worker_a_result_says_so(server):
    queue = haul.Queue(server.url)
    handle = queue.push(haul.Download("https://example.org/a", id="a"))
    with pytest.raises(haul.NoWorker, match="no worker has seen job a .* and no worker serves the queue default"):
        handle.result(timeout=0.3)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.1)
    assert server.cli("LINDEX", "haul:{default}:jobs", "0").startswith('{"id":"a","at":')


def test_redis_that_is_not_there_and_a_wrong_password_are_told_apart(server):
    server.cli("CONFIG", "SET", "requirepass", "secret")
    with pytest.raises(haul.Refused):
        haul.Queue(server.url).stats()
    began = time.monotonic()
    with pytest.raises(haul.Unreachable, match="cannot reach Redis"):
        haul.Queue("redis://127.0.0.1:1", patience=0.3).stats()
    assert time.monotonic() - began < 5
    with pytest.raises(haul.NotReplicated):
        haul.Queue(server.url.replace("//", "//:secret@")).push(
            haul.Download("https://example.org/a"), replicas=1, within=0.1)


def test_the_role_of_a_service_is_enough(server, origin):
    acl = (REPOSITORY / "deploy/redis/users.acl").read_text()
    role = re.search(r"^user service on \S+ (.*)$", acl, re.M).group(1)
    arguments = re.findall(r"\([^)]*\)|\S+", role)
    assert server.cli("ACL", "SETUSER", "service", "on", ">secret", *arguments) == "OK"
    worker = Worker(server)
    try:
        queue = haul.Queue(server.url.replace("//", "//service:secret@"), reply_to="shop")
        handle = queue.push(haul.Download(origin.url("/good"), id="a"))
        for end in queue.settled(open_jobs=lambda: [(handle.id, handle.at)], idle=20):
            with end:
                assert end.result.state == "completed"
            break
        assert queue.stats().counts["completed"] == 1
        assert list(handle.events())[-1].state == "completed"
        handle.retry()
        with pytest.raises(haul.Refused):
            queue.change_settings(paused=True)
        assert queue.push(haul.Download(origin.url("/missing"))).result(timeout=20).error == "http_404"
    finally:
        worker.close()


def test_a_schedule_pushes_its_job(server, origin):
    worker = Worker(server)
    try:
        queue = haul.Queue(server.url)
        with pytest.raises(haul.InvalidJob):
            queue.add_schedule("night", haul.Download("ftp://e.org/a"), every=3600)
        with pytest.raises(haul.InvalidJob):
            queue.add_schedule("night", haul.Download(origin.url("/good"), id="own"), every=3600)
        queue.add_schedule("night", haul.Download(origin.url("/good"), path="night/"), cron="0 3 * * *", zone="Europe/Berlin")
        eventually("the next run to be planned", lambda: queue.schedules()["night"].next is not None)
        assert queue.run_schedule("night").result(timeout=30).state == "completed"
        assert queue.schedules()["night"].last_id == "night"
        queue.pause_schedule("night")
        assert queue.schedules()["night"].paused
        # A pause is not a part of the definition, and stays when that is replaced.
        queue.add_schedule("night", haul.Download(origin.url("/good"), path="night/"), cron="0 4 * * *")
        assert queue.schedules()["night"].paused and queue.schedules()["night"].next is None
        queue.resume_schedule("night")
        assert not queue.schedules()["night"].paused
        eventually("a resumed schedule to be planned", lambda: queue.schedules()["night"].next is not None)
        wrong = json.dumps({"cron": "61 * * * *", "job": {"url": origin.url("/good")}})
        server.cli("HSET", "haul:{default}:schedules", "wrong", wrong)
        eventually("the wrong expression to be reported", lambda: "the minute must be" in (queue.schedules()["wrong"].error or ""))
        for name in ("night", "wrong"):
            queue.remove_schedule(name)
        assert queue.schedules() == {}
    finally:
        worker.close()


WRONG = [
    {"url": "ftp://e.org/a"}, {"url": "http://"}, {"url": "http://a b/"}, {"url": "http://h:0/"}, {"url": "http://h:65536/"},
    {"url": "http://1.2.3/"}, {"url": "http://01.2.3.4/"}, {"url": "http://[::1/"}, {"url": "http://[1::2::3]/"},
    {"url": "http://a..b/"}, {"url": "http://u%00:p@h/"}, {"url": "http://-/" + "x" * 8190}, {"url": 7}, {},
    {"url": "http://h/", "urls": []}, {"urls": ["http://h/", "x"]}, {"url": "http://h/", "id": "a/b"},
    {"url": "http://h/", "id": "a\n"}, {"url": "http://h/", "path": "/a"}, {"url": "http://h/", "path": "a/../b"},
    {"url": "http://h/", "path": "ä" * 200}, {"url": "http://h/", "path": ".haul-x"},
    {"url": "http://h/", "if_exists": "maybe"}, {"url": "http://h/", "fresh_for": -1},
    {"url": "http://h/", "checksum": "sha256:12"}, {"url": "http://h/", "size": 1.5}, {"url": "http://h/", "size": True},
    {"url": "http://h/", "content_type": "html"}, {"url": "http://h/", "method": "HEAD"},
    {"url": "http://h/", "method": "get"}, {"url": "http://h/", "headers": {"Range": "x"}},
    {"url": "http://h/", "headers": {"If-Match": "x"}}, {"url": "http://h/", "headers": {"A": "x\n"}},
    {"url": "http://h/", "body": "x"}, {"url": "http://h/", "connections": 17}, {"url": "http://h/", "limit_rate": 0},
    {"url": "http://h/", "retries": 1001}, {"url": "http://h/", "connect_timeout": 0.01},
    {"url": "http://h/", "deadline": "60"}, {"url": "http://h/", "reply_to": ""}, {"url": "http://h/", "batch": {"size": 1}},
    {"url": "http://h/", "batch": {"name": "b", "size": 0}}, {"url": "http://h/", "meta": "x" * 4097},
    {"url": "http://h/", "at": 1763712000}, {"url": "http://h/", "json": 1}, {"url": "http://h/", "file": "a"},
    {"kind": "request", "url": "http://h/", "path": "a"}, {"kind": "request", "url": "http://h/", "json": 1},
    {"kind": "request", "url": "http://h/", "id": "a", "json": 1, "form": {}},
    {"kind": "request", "url": "http://h/", "expect": [99]}, {"kind": "request", "url": "http://h/", "expect": ["2xx"]},
    {"kind": "request", "url": "http://h/", "headers": {"Host": "x"}},
    {"kind": "request", "url": "http://h/", "id": "a", "body_base64": "x"},
    {"kind": "request", "url": "http://h/", "max_response": 1048577}, {"kind": "upload", "url": "http://h/"},
    {"kind": "upload", "url": "http://h/", "file": "a/"}, {"kind": "upload", "url": "http://h/", "file": "a", "files": [{"file": "b"}]},
    {"kind": "upload", "url": "http://h/", "file": "a", "each": True}, {"kind": "upload", "url": "http://h/", "file": "a", "form": {}},
    {"kind": "upload", "url": "http://h/", "file": "a", "method": "GET"},
    {"kind": "upload", "url": "http://h/", "file": "a", "protocol": "tus", "expect": [200]},
    {"kind": "upload", "url": "http://h/", "files": [{"file": "a", "x": "y"}]},
    {"url": "http://h/", "headers": {f"h{n}": "x" for n in range(257)}}, {"url": "http://h/", "id": "a", "body": "x" * 16384},
    {"url": "http://h/", "meta": list(range(2500))}, {"url": "http://h/", "then": {}},
    {"url": "http://h/", "else": [{"url": "http://h/"}] * 9}, {"url": "http://h/", "notify": True},
    {"url": "http://h/", "notify": {"url": "http://h/"}}, {"url": "http://h/", "webhook": "a"},
    {"url": "s3://films"}, {"url": "s3://films/"}, {"url": "s3://fi/k"}, {"url": "s3://films/k?x=1"}, {"urls": ["s3://films/k#a"]},
    {"url": "s3://films/k", "kind": "request"}, {"url": "s3://films/k", "kind": "upload", "file": "f"},
]


def test_only_downloads_may_name_objects_of_buckets():
    for url in ("s3://films/a%20b/ü.mkv", "s3://My_old.bucket//k?versionId=a.b%2Fc"):
        _jobs.check({"url": url})
        _jobs.check({"urls": ["http://h/", url], "id": "a"})


def test_the_events_of_a_push_that_was_rejected_before_end_with_the_rejection(server, origin):
    worker = Worker(server)
    queue = haul.Queue(server.url)
    try:
        # The job must be known: an unknown one would fail.
        assert queue.push(haul.Download(origin.url("/good"), id="a")).result(timeout=30).state == "completed"
        handle = queue.push(haul.Download("http://\u2100.invalid/", id="a"))
        eventually("the rejection", lambda: server.cli("LLEN", "haul:{default}:rejected") == "1")
        update = list(handle.events())[-1]
        assert (update.event, update.id, update.queue) == ("rejected", "a", "default"), update
        assert update.reason.startswith("url") and update.at > 0, update
    finally:
        worker.close()


def test_a_worker_rejects_what_the_client_refuses_for_the_same_field(server):
    refused = []
    for fields in WRONG:
        with pytest.raises(haul.InvalidJob) as wrong:
            _jobs.check(fields)
        refused.append(wrong.value.field or "element")
    for fields in WRONG:
        server.cli("LPUSH", "haul:{default}:jobs", json.dumps(fields, ensure_ascii=False))
    worker = Worker(server)
    try:
        eventually("all rejected", lambda: server.cli("LLEN", "haul:{default}:rejected") == str(len(WRONG)))
    finally:
        worker.close()
    client = haul.Queue(server.url)._driver.connection.execute([("LRANGE", "haul:{default}:rejected", 0, -1)], "haul:{default}:rejected", 0)[0]
    reasons = [json.loads(entry)["reason"] for entry in reversed(client)]
    different = [
        (fields, ours, reason) for fields, ours, reason in zip(WRONG, refused, reasons) if reason.split(":")[0] != ours
    ]
    assert different == []


def test_the_elements_of_the_contract_are_accepted_and_have_the_ids_that_workers_derive(server):
    page = (REPOSITORY / "docs/reference/bus.md").read_text("utf-8")
    elements = [json.loads(text) for text in re.findall(r"```json element\n(.*?)\n```", page, re.S)]
    for fields in elements:
        if "url" in fields or "urls" in fields:
            _jobs.check({name: value for name, value in fields.items() if name != "v"})
    queue = haul.Queue(server.url)
    jobs = [
        haul.Download("http://127.0.0.1:1/a", path="in/"), haul.Download("http://127.0.0.1:1/ä", retries=0),
        haul.Download("http://127.0.0.1:1/b", headers={"A": "b"}), haul.Request("http://127.0.0.1:1/c"),
    ]
    texts = [_jobs.element(job) for job in jobs]
    for each in texts:
        assert "id" not in each.fields
        server.cli("LPUSH", "haul:{default}:jobs", each.text)
    worker = Worker(server)
    try:
        for each in texts:
            eventually(f"{each.text} to be known as {each.id}", lambda: queue.status([each.id]))
    finally:
        worker.close()


def test_a_wrong_url_is_refused_before_anything_is_sent():
    for kind in (haul.Queue, haul.AsyncQueue):
        with pytest.raises(haul.InvalidURL, match="redis://"):
            kind("http://h/")
    with pytest.raises(haul.InvalidQueueName, match="'a b'"):
        haul.Queue(queue="a b")


def test_a_partition_is_the_one_in_which_the_command_puts_a_job(server):
    names = [haul.partition("films#8", f"job-{number}") for number in range(20)]
    assert len(set(names)) > 3 and all(re.fullmatch("films#[0-7]of8", name) for name in names)
    for number, name in enumerate(names):
        command = ["push", "--redis", server.url, "--queue", "films#8", "--id", f"job-{number}", "http://127.0.0.1:1/"]
        subprocess.run([os.environ["HAUL"], *command], check=True, capture_output=True, timeout=20)
        assert f'"id":"job-{number}"' in server.cli("LINDEX", f"haul:{{{name}}}:jobs", "0")
    worker = Worker(server, "films#8", "--max-file-size", "1")
    try:
        with haul.Queue(server.url, names[0]) as queue:
            queue.cancel(["job-0"])
            assert queue.handle("job-0").result(timeout=20).state in ("cancelled", "failed")
    finally:
        worker.close()
    for wrong in ("films", "films#", "films#1", "films#65", "films#x", "a b#8", "films#3of8"):
        with pytest.raises(haul.InvalidQueueName, match="8"):
            haul.partition(wrong, "a")


GOOD_SCHEDULES = [
    {"every": 1}, {"every": 31_622_400}, {"cron": "*/15 * * * *"}, {"cron": "0 3 * JAN-mar mon,WED-fri"},
    {"cron": "5/10 0 29 2 *", "zone": "Europe/Berlin"}, {"cron": "0 0 31 2 0", "zone": "UTC"}, {"cron": "0 0 * * 7"},
    {"every": 60, "unique": True, "overlap": "allow", "catch_up": "none"},
]
BAD_SCHEDULES = [
    ({"every": 0}, "every"), ({"every": 31_622_401}, "every"), ({"every": 1.5}, "every"), ({"every": 5, "zone": "UTC"}, "zone"),
    ({"cron": "*/1_0 * * * *"}, "minute"), ({"cron": "30 3 * * *\n"}, "day of week"), ({"cron": "61 * * * *"}, "minute"), ({"cron": "* * * *"}, "five fields"), ({"cron": "0 0 30 2 *"}, "date that exists"),
    ({"cron": "5-1 * * * *"}, "minute"), ({"cron": "*/60 * * * *"}, "minute"), ({"cron": "0 0 * * 8"}, "day of week"),
    ({"cron": "0 3 * * *", "zone": "Nowhere/Land"}, "zone"), ({"cron": "0 3 * * *", "zone": "../etc"}, "zone"),
    ({"cron": "0 3 * * *", "zone": "localtime"}, "zone"), ({"cron": "0 3 * * *", "zone": "posix/Europe/Berlin"}, "zone"),
    ({"every": 5, "overlap": "allow"}, "overlap"), ({"every": 5, "overlap": "yes"}, "overlap"),
    ({"every": 5, "catch_up": "two"}, "catch_up"),
]


def test_a_schedule_is_checked_as_the_worker_checks_it(server):
    with haul.Queue(server.url) as queue:
        job = haul.Download("https://example.org/a")
        queue.add_schedule("kept", job, every=3600)
        for definition, reason in BAD_SCHEDULES:
            with pytest.raises(haul.InvalidSetting, match=reason):
                queue.add_schedule("kept", job, **definition)
        assert queue.schedules()["kept"].every == 3600
        for number, definition in enumerate(GOOD_SCHEDULES):
            queue.add_schedule(f"good-{number}", job, **definition)
        # A worker waits for the rules of a zone that its machine does not have.
        wrong = [definition for definition, _ in BAD_SCHEDULES if definition.get("zone") != "Nowhere/Land"]
        for number, definition in enumerate(wrong):
            text = json.dumps({**definition, "job": {"url": "https://example.org/a"}})
            server.cli("HSET", "haul:{default}:schedules", f"bad-{number}", text)
            server.cli("ZADD", "haul:{default}:schedule_due", "0", f"bad-{number}")
        worker = Worker(server)
        try:
            def planned():
                found = queue.schedules()
                return found if all(each.error or each.next for each in found.values()) else None

            found = eventually("all to be planned", planned, within=60)
            assert {name for name, each in found.items() if each.error} == {f"bad-{n}" for n in range(len(wrong))}
        finally:
            worker.close()


def test_a_fake_pushes_what_follows_a_job_and_the_job_of_a_schedule():
    def work(job):
        if job.kind == "request":
            job.respond(200, json={})
        elif "bad" in job.url:
            job.fail("http_404")
        else:
            job.complete(file="films/7.bin", bytes=7)

    queue = FakeQueue(worker=work)
    tell = haul.Request("https://shop.example/ready", id="tell-${id}", json={"file": "${file}", "bytes": "${bytes}"})
    queue.push(haul.Download("https://films.example/7", id="7", then=tell)).result(timeout=5)
    assert queue.handle("tell-7").result(timeout=5).state == "completed"
    assert queue.pushed[1]["json"] == {"file": "films/7.bin", "bytes": "7"}
    queue.push(haul.Download("https://films.example/bad", id="8", then=tell, else_=[
        haul.Request("https://shop.example/failed", json={"why": "${error}"})])).result(timeout=5)
    assert queue.pushed[3]["json"] == {"why": "http_404"} and queue.pushed[3]["id"].startswith("8.else-1.")

    queue.add_schedule("nightly", haul.Download("https://films.example/9"), cron="0 3 * * *")
    assert queue.schedules()["nightly"].cron == "0 3 * * *"
    assert queue.run_schedule("nightly").result(timeout=5).state == "completed"
    assert queue.schedules()["nightly"].pushed == 1
    queue.pause_schedule("nightly")
    assert queue.schedules()["nightly"].paused
    queue.remove_schedule("nightly")
    assert queue.schedules() == {}

    held = FakeQueue()
    held.add_schedule("hourly", haul.Download("https://films.example/9"), every=3600)
    held.run_schedule("hourly")
    held.run_schedule("hourly")  # The last run has not ended.
    assert (held.schedules()["hourly"].pushed, held.schedules()["hourly"].skipped) == (1, 1)
