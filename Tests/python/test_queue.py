"""The same tests for Queue and AsyncQueue, on a real Redis with a real worker, and for their fakes."""
import hashlib
import itertools
import json
import os
import threading

import haul_client as haul
import pytest
import redis
from support import CHECKSUM, GOOD, KINDS, Bench, Origin, Server, Worker, eventually

NUMBER = itertools.count(1)


@pytest.fixture(scope="module")
def origin():
    origin = Origin()
    yield origin
    origin.gate.set()
    origin.shutdown()


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def worker(server):
    worker = Worker(server, "default")
    yield worker
    worker.close()


@pytest.fixture(params=KINDS)
def bench(request, server, origin, worker):
    # A test has ids of its own: the real ones share a queue, since a worker serves it already.
    bench = Bench(request.param, server, origin, "default", worker)
    bench.n = next(NUMBER)
    bench.id = lambda name: f"{name}-{bench.n}"
    yield bench
    bench.close()


def download(bench, source="/good", id="a", **more):
    return haul.Download(bench.origin.url(source), id=bench.id(id), **more)


def test_a_download_is_completed_and_verified(bench):
    queue = bench.queue()
    path = f"d{bench.n}/"
    handle = queue.push(download(bench, path=path, checksum=CHECKSUM, meta={"customer": 7}))
    result = handle.result(timeout=30).raise_for_error()
    assert (result.state, result.bytes, result.checksum, result.meta) == (
        "completed", len(GOOD), CHECKSUM, {"customer": 7})
    assert result.file == path + "good"
    assert result.what_to_do == "use"
    if bench.is_real:
        with open(os.path.join(bench.worker.root, result.file), "rb") as file:
            assert file.read() == GOOD


def test_a_repeat_with_the_same_at_does_nothing(bench):
    queue = bench.queue()
    job = download(bench, f"/missing{bench.n}")
    first = queue.push(job)
    result = first.result(timeout=30)
    assert (result.state, result.error, result.retryable, result.what_to_do) == ("failed", "http_404", False, "gone")
    again = queue.push(haul.Download(job.url, id=job.id, at=first.at))
    assert again.result(timeout=30).error == "http_404"
    queue.push(download(bench, id="behind")).result(timeout=30)
    if bench.is_real:
        assert bench.origin.requests.count(f"/missing{bench.n}") == 1
    with pytest.raises(haul.JobFailed) as failure:
        result.raise_for_error()
    assert failure.value.error == "http_404"


def test_a_handle_with_an_at_ignores_an_older_end(bench):
    queue = bench.queue()
    handle = queue.push(download(bench))
    assert handle.result(timeout=30).state == "completed"
    assert queue.handle(handle.id, handle.at).result(timeout=5).state == "completed"
    with pytest.raises(haul.TimedOut) as late:
        queue.handle(handle.id, handle.at + 3_600_000).result(timeout=0.3)
    assert f"job {handle.id} is completed" in str(late.value)
    assert not isinstance(late.value, haul.NoWorker)


def test_a_request_has_its_response_even_if_it_failed(bench):
    queue = bench.queue()
    done = queue.push(haul.Request(bench.origin.url("/orders"), id=bench.id("r"), json={"film": 7}, deadline=60))
    result = done.result(timeout=30)
    assert (result.state, result.response.status, result.response.json()) == ("completed", 201, {"got": {"film": 7}})
    assert result.response.headers["content-type"] == "application/json"
    refused = queue.push(haul.Request(bench.origin.url("/refuse"), id=bench.id("no"), body=b"\0", deadline=60))
    result = refused.result(timeout=30)
    assert (result.state, result.error, result.response.status) == ("failed", "http_422", 422)
    assert result.response.json() == {"why": "no"}


def test_an_upload_sends_a_file_of_the_root(bench):
    if bench.is_real:
        with open(os.path.join(bench.worker.root, "send.bin"), "wb") as file:
            file.write(GOOD)
    upload = haul.Upload(bench.origin.url("/in/"), id=bench.id("u"), file="send.bin", deadline=60)
    result = bench.queue().push(upload).result(timeout=30)
    assert (result.state, result.response.json()) == ("completed", {"bytes": len(GOOD)})


def test_an_invalid_job_names_its_field_and_pushes_nothing(bench):
    queue = bench.queue()
    with pytest.raises(haul.InvalidJob) as wrong:
        queue.push_many([download(bench, id="fine"), download(bench, id="wrong", retries=-1)])
    assert wrong.value.field == "retries"
    assert "-1" in str(wrong.value)
    assert queue.status([bench.id("fine")]) == []


def test_jobs_are_found_by_their_whole_url(bench):
    queue = bench.queue()
    url = bench.origin.url(f"/good{bench.n}?sig=1")
    first = queue.push(haul.Download(url, id=bench.id("first")))
    second = queue.push(haul.Download(urls=[bench.origin.url("/good"), url], id=bench.id("second"), checksum=CHECKSUM))
    assert queue.ids_with_url(url) == sorted([first.id, second.id])
    first.result(timeout=30)
    second.result(timeout=30)
    assert queue.ids_with_url(url) == sorted([first.id, second.id])
    assert queue.ids_with_url(url.partition("?")[0]) == []


def test_events_begin_with_what_is_known_and_end_with_the_job(bench):
    queue = bench.queue()
    handle = queue.push(download(bench, "/held"))
    seen = []
    for update in handle.events():
        seen.append(update)
        if isinstance(update, haul.ProgressEvent) or isinstance(update, haul.JobStatus) and update.state == "running":
            if not any(each.event == "cancelled" for each in seen):
                handle.cancel()
    assert seen[-1].event == "cancelled"
    places = [(each.epoch, each.seq) for each in seen if each.event != "status" and each.epoch]
    assert places == sorted(set(places))
    (last,) = handle.events()
    assert isinstance(last, haul.JobStatus) and last.state == "cancelled"
    with pytest.raises(haul.JobCancelled):
        handle.result(timeout=5).raise_for_error()


def test_events_and_a_result_without_an_at_end_when_the_job_is_removed(bench):
    queue = bench.queue()
    queue.push(download(bench, "/held"))
    handle = queue.handle(bench.id("a"))
    eventually("it to run", lambda: (handle.status() or 0) and handle.status().state == "running")
    names = []
    for update in handle.events():
        names.append(update.event)
        if len(names) == 1:
            handle.remove()
    assert names[-1] == "cancelled"
    assert handle.status() is None


def test_an_end_from_the_hash_does_not_come_again_though_its_reply_was_taken_later(bench):
    if bench.kind != "real-sync":
        return
    name, client = f"shop-{bench.n}", redis.Redis.from_url(bench.server.url)
    queue = bench.queue(reply_to=name)
    handle = queue.push(download(bench, id="a"))
    handle.result(timeout=30)
    replies, taken = f"haul:{{default}}:reply:{name}", f"haul:{{default}}:reply:{name}:taken"
    text = eventually("the reply", lambda: client.lindex(replies, 0))
    client.delete(replies)
    for end in queue.settled(open_jobs=lambda: [(handle.id, handle.at)], every=0.05, idle=20):
        if end.id == bench.id("a"):
            first = end
            client.lpush(replies, text)
            queue.push(download(bench, id="b"))
            continue
        assert client.llen(taken) == 2
        with first:
            pass
        with end:
            pass
        break
    assert client.llen(taken) == 0


def test_a_job_is_paused_resumed_and_removed(bench):
    queue = bench.queue()
    handle = queue.push(download(bench, "/held"))
    eventually("it to run", lambda: (handle.status() or 0) and handle.status().state == "running")
    handle.pause()
    eventually("it to be paused", lambda: handle.status().state == "paused")
    handle.resume()
    eventually("it to run", lambda: handle.status().state == "running")
    handle.remove()
    result = handle.result(timeout=20)
    assert result.removed or result.state == "cancelled"
    eventually("it to be forgotten", lambda: handle.status() is None)
    assert handle.result(timeout=5).removed


def test_ends_are_settled_once_and_stay_until_they_are_acknowledged(bench):
    name = f"shop-{bench.n}"
    queue = bench.queue(reply_to=name)
    queue.push_many([download(bench, id="a"), download(bench, "/missing", id="b")])
    queue.push(download(bench, id="c"), urgent=True)
    seen = {}
    for end in queue.settled(idle=20):
        seen[end.id] = end.result.state
        if len(seen) < 3:
            with end:
                continue
        break  # The last one is not acknowledged.
    assert seen == {bench.id("a"): "completed", bench.id("b"): "failed", bench.id("c"): "completed"}
    queue.close()
    # The service starts again.
    again = [end for end in bench.queue(reply_to=name).settled(idle=0.3)]
    assert [end.id for end in again] == [list(seen)[-1]]
    again[0].ack()
    assert list(bench.queue(reply_to=name).settled(idle=0.3)) == []


def test_an_exception_in_the_block_keeps_the_end(bench):
    queue = bench.queue(reply_to=f"shop-{bench.n}")
    queue.push(download(bench))
    with pytest.raises(ZeroDivisionError):
        for end in queue.settled(idle=20):
            with end:
                1 / 0
    (end,) = queue.settled(idle=0.3)
    assert end.result.state == "completed"


def test_a_lost_reply_is_found_in_the_hash(bench):
    queue = bench.queue(reply_to=f"shop-{bench.n}")
    handle = queue.push(download(bench))
    handle.result(timeout=20)
    for end in queue.settled(idle=5):  # As if the reply had never come.
        end.ack()
        break
    found = list(queue.settled(open_jobs=lambda: [(handle.id, handle.at), ("nothing", 1)], idle=0.3))
    assert [(end.id, end.result.state) for end in found] == [(handle.id, "completed")]
    found[0].ack()


def test_a_rejected_element_is_settled_as_rejected(bench):
    name = f"shop-{bench.n}"
    element = '{"id":"bad/id","url":"https://e.org/a","reply_to":"%s","meta":7}' % name
    if bench.is_real:
        bench.server.cli("LPUSH", "haul:{default}:jobs", element)
    else:
        bench.fleet.execute([("LPUSH", "haul:{default}:jobs", element)])
    for end in bench.queue(reply_to=name).settled(idle=20):
        with end:
            assert (end.result.state, end.result.meta, end.result.what_to_do) == ("rejected", 7, "alert_developer")
            assert end.result.message.startswith("id: must be")
        break


def test_an_unknown_limit_is_rejected_and_another_unknown_field_is_not(bench):
    name, url = f"limits-{bench.n}", bench.origin.url("/good")
    elements = [
        json.dumps({"id": bench.id(id), "url": url, "path": bench.id(id), "reply_to": name, more: 1})
        for id, more in (("l", "max_moons"), ("m", "moons"))
    ]
    if bench.is_real:
        bench.server.cli("LPUSH", "haul:{default}:jobs", *elements)
    else:
        bench.fleet.execute([("LPUSH", "haul:{default}:jobs", *elements)])
    states, messages = {}, {}
    for end in bench.queue(reply_to=name).settled(idle=20):
        with end:
            states[end.id], messages[end.id] = end.result.state, end.result.message
        if len(states) == 2:
            break
    assert states == {bench.id("l"): "rejected", bench.id("m"): "completed"}
    assert messages[bench.id("l")].startswith("max_moons: is not known")


def test_a_batch_has_one_end_and_a_round_for_each_retry(bench):
    queue = bench.queue()
    name = bench.id("night")
    batch = haul.Batch(name, size=3, reply_to=bench.id("nights"))
    queue.push_many([
        download(bench, id="x", batch=batch), download(bench, "/missing", id="y", batch=name),
        download(bench, id="z", batch=name),
    ])
    status = queue.batch(name).result(timeout=30)
    assert (status.completed, status.failed, status.pending, status.round, status.size) == (2, 1, 0, 1, 3)
    (end, *_) = queue.settled(bench.id("nights"), idle=1)
    assert isinstance(end.result, haul.BatchStatus)
    assert (end.id, end.result.completed, end.result.round) == (name, 2, 1)
    end.ack()
    queue.batch(name).retry()
    assert queue.batch(name).result(after=1, timeout=30).round == 2


def test_settings_are_checked_and_set(bench):
    queue = bench.queue()
    queue.change_settings(rate=50_000_000, starts="100/s")
    assert queue.settings() == {"rate": "50000000", "starts": "100/s"}
    with pytest.raises(haul.InvalidSetting) as wrong:
        queue.change_settings(rate=None, max_running="many")
    assert wrong.value.field == "max_running"
    queue.change_settings(rate="full 22:00-06:00 Europe/Berlin, 2M", starts=None)
    assert queue.settings() == {"rate": "full 22:00-06:00 Europe/Berlin, 2M"}
    for bad in ("", "0", "2M, full 22:00-06:00", "2M 22-06", "2M 06:00-06:00", "2M 22:00-06:00 berlin", "2M,",
                "2M 08:00-8:00, 5M", "2M 22:00-06:00 Europe/berlin", "2M 22:00-06:00 Europe//Berlin", "1.5", "0.0001k", "99999P"):
        with pytest.raises(haul.InvalidSetting, match="like \"full 22:00"):
            queue.change_settings(rate=bad)
    with pytest.raises(haul.InvalidSetting, match="'Europe/Nowhere', which this machine does not know"):
        queue.change_settings(rate="full 22:00-06:00 Europe/Nowhere, 2M")
    queue.change_settings(rate=None)
    assert queue.settings() == {}


def test_kept_events_go_on_behind_a_stored_position(bench):
    queue = bench.queue()
    queue.change_settings(event_stream=1000)
    first = queue.push(download(bench))
    first.result(timeout=30)
    kept = list(queue.kept_events(follow=False))
    assert [each.event.event for each in kept if each.event.id == first.id][-1] == "completed"
    second = queue.push(download(bench, id="b"))
    found = []
    for update in queue.kept_events(after=kept[-1].position):
        found.append(update)
        if update.event.event == "completed":
            break
    assert {each.event.id for each in found} == {second.id}
    queue.change_settings(event_stream=None)
    with pytest.raises(haul.EventsNotKept):
        list(queue.kept_events(after=found[-1].position))


def test_stats_count_workers(bench):
    queue = bench.queue()
    # A worker that ends a job is registered.
    queue.push(download(bench)).result(timeout=30)
    stats = queue.stats()
    assert stats.workers == 1
    assert set(stats.counts) == {"queued", "scheduled", "running", "paused", "completed", "failed", "cancelled"}


def test_stats_count_every_element_that_waits(server):
    keys = "haul:{waiting}:"
    for kind, name, key in (
        ("ZADD", "deferred_hosts", "deferred_host:h"),
        ("HSET", "deferred_kinds", "deferred_kind:h"),
        ("ZADD", "deferred_groups", "deferred_group:h"),
        ("ZADD", "workers", "held:h"),
    ):
        server.cli(kind, keys + name, *(("1", "h") if kind == "ZADD" else ("h", "1")))
        server.cli("LPUSH", keys + key, "{}", "{}")
    server.cli("LPUSH", keys + "jobs", "{}")
    with haul.Queue(server.url, "waiting") as queue:
        assert queue.stats().counts["queued"] == 9


def test_a_closed_queue_says_so(bench):
    queue = bench.queue()
    queue.push(download(bench))
    queue.close()
    with pytest.raises(haul.Closed):
        queue.push(download(bench))


def test_two_threads_share_a_queue(bench):
    if bench.kind.endswith("async"):
        pytest.skip("tasks share an AsyncQueue: test_redis.py")
    queue = bench.queue()
    results = []

    def work(name):
        results.append(queue.push(download(bench, id=name)).result(timeout=30).state)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["completed"] * 8


def test_waiting_elements_of_others_do_not_disturb_a_search(server):
    key, url = "haul:{mixed}:jobs", "https://h/a"
    element = '{"kind": "request", "url": "https://h/a"}'
    strange = ['"path":5', '"id":{}', '"id":5', '"path":"\\ud800"', '"a":' + "[" * 5000]
    server.cli("LPUSH", key, element, *['{"url":"https://h/a",' + member + "}" for member in strange])
    with haul.Queue(server.url, "mixed") as queue:
        # Without an id it has the digest of its text: docs/reference/bus.md, "Default ids".
        assert queue.ids_with_url(url) == [hashlib.sha1(element.encode()).hexdigest()[:16]]


def test_a_rejected_element_of_another_producer_ends_no_wait(server, worker, origin):
    entry = {"at": 1, "reason": "element: no", "element": '{"a":' + "[" * 4000}
    server.cli("LPUSH", "haul:{default}:rejected", json.dumps(entry))
    with haul.Queue(server.url, "default") as queue:
        assert queue.push(haul.Download(origin.url("/good"), id="beside-rejected")).result(timeout=30).state == "completed"
