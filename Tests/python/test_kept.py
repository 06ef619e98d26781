"""The events that a queue keeps, on a real Redis."""
import asyncio
import json
import threading

import haul_client as haul
import pytest
import redis
import redis.asyncio
from support import Blocking, Server, close_client, eventually

LOG, SETTINGS = "haul:{default}:log", "haul:{default}:settings"


@pytest.fixture
def server():
    server = Server()
    server.cli("HSET", SETTINGS, "event_stream", "1000")
    yield server
    server.close()


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(params=["sync-2", "sync-3", "async-2", "async-3"])
def queue(request, server, loop):
    kind, protocol = request.param.split("-")
    options = {"port": server.port, "protocol": int(protocol), "socket_timeout": 1}
    client = (redis if kind == "sync" else redis.asyncio).Redis(**options)
    yield haul.Queue(client) if kind == "sync" else Blocking(haul.AsyncQueue(client), loop)
    close_client(client, loop)


def add(server, number, entry="*"):
    # An entry may be added a millisecond after its event was made.
    at = 5 if entry == "*" else int(entry.split("-")[0]) - 1
    event = {"v": 1, "event": "completed", "id": f"j{number}", "queue": "default", "at": at, "seq": 9, "epoch": 5, "bytes": 1,
             "seconds": 0.1}
    return server.cli("XADD", LOG, entry, "event", "completed", "id", event["id"], "data", json.dumps(event))


def read(queue, **options):
    """Ids, with None for a gap, and the position of the last update."""
    found = list(queue.kept_events(follow=False, **options))
    return [None if isinstance(each, haul.EventGap) else each.event.id for each in found], found[-1].position if found else None


def test_events_are_read_from_the_oldest_from_a_time_and_behind_a_position(server, queue):
    assert read(queue) == ([], None)
    for number in range(700):
        add(server, number, f"{1000 + number}-0")
    ids, last = read(queue)
    assert ids == [f"j{number}" for number in range(700)] and last == "1699-0"
    assert read(queue, since=1698)[0] == ["j698", "j699"]
    assert read(queue, after="1697-0") == (["j698", "j699"], last)
    assert read(queue, after=last) == ([], None)
    # What a later version adds is passed over.
    server.cli("XADD", LOG, "1700-0", "event", "new", "data", '{"event":"new"}')
    assert read(queue, after=last) == ([], None)


def test_a_gap_says_that_events_were_dropped_or_lost(server, queue):
    for number in range(4):
        add(server, number, f"{100_000 + number}-0")
    server.cli("XTRIM", LOG, "MAXLEN", "2")
    assert read(queue) == (["j2", "j3"], "100003-0")
    assert read(queue, since=100_000)[0] == [None, "j2", "j3"]
    assert read(queue, since=100_001)[0] == ["j2", "j3"]
    assert read(queue, after="100001-0")[0] == [None, "j2", "j3"]
    assert read(queue, after="100002-0")[0] == ["j3"]
    # A failover has lost the last entry. The new primary's clock may be behind.
    ids, position = read(queue, after="100050-0")
    assert ids == [None, "j2", "j3"] and position == "100003-0"
    assert read(queue, after="99999-0,5-0")[0] == [None, "j2", "j3"]


def test_events_that_were_dropped_before_a_reader_had_any_are_a_gap(server, queue):
    server.cli("HSET", SETTINGS, "event_stream", "3")
    early = queue.kept_events()
    seen = queue.kept_events(follow=False)
    assert list(seen) == []
    for number in range(2):
        add(server, number, f"{1000 + number}-0")
    # The position was stored by a reader that had found nothing. Whoever begins with what there is misses nothing.
    assert read(queue, after="0")[0] == ["j0", "j1"]
    for number in range(2, 6):
        add(server, number, f"{1000 + number}-0")
        server.cli("XTRIM", LOG, "MAXLEN", "3")
    assert read(queue, after="0")[0] == [None, "j3", "j4", "j5"]
    assert read(queue)[0] == ["j3", "j4", "j5"]
    assert next(iter(early)).event.id == "j3"
    early.close()


def test_the_first_event_that_a_reader_has_waited_for_is_not_a_gap(server, queue):
    found = queue.kept_events(since=1000)
    threading.Timer(0.5, lambda: add(server, 1, "9000-0")).start()
    assert isinstance(next(iter(found)), haul.KeptEvent)
    found.close()


def test_without_the_setting_it_says_who_sets_it(server, queue):
    add(server, 1, "1000-0")
    server.cli("HDEL", SETTINGS, "event_stream")
    assert read(queue)[0] == ["j1"]
    for options in ({"after": "1000-0", "follow": False}, {"after": "1000-0"}):
        with pytest.raises(haul.EventsNotKept, match="the queue default keeps no events: an operator sets event_stream"):
            list(queue.kept_events(**options))
    for options in ({"after": "now"}, {"after": "1-2-3"}, {"after": "1-0", "since": 4}):
        with pytest.raises(haul.HaulError):
            queue.kept_events(**options)


def test_following_goes_on_after_a_restart_of_redis(server, queue):
    add(server, 0)
    updates = queue.kept_events()
    assert next(updates).event.id == "j0"
    # The reader waits for the next event when it comes.
    timer = threading.Timer(0.3, lambda: add(server, 1))
    timer.start()
    assert next(updates).event.id == "j1"
    timer.join()
    server.kill()
    restart = threading.Timer(0.3, lambda: (server.start(), add(server, 2)))
    restart.start()
    assert next(updates).event.id == "j2"
    restart.join()
    updates.close()
