"""Operations for thousands of jobs at once. Each test returns a list of what is wrong."""
import json
import os
import time
from collections import Counter

from resp import Redis, pairs

Q = "haul:{default}:"


def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def now(redis):
    seconds, microseconds = redis.call("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


def push(bench, redis, ids, shape="500/0", **more):
    """`shape`: the bytes of each file, and its bytes per second."""
    redis.call("LPUSH", Q + "jobs", *(
        json.dumps({"url": f"{bench.origin.url}/f/{number}/{shape}", "id": id, "path": id} | more)
        for number, id in enumerate(ids)))


def states(redis, ids):
    return redis.calls([("HGET", Q + "job:" + id, "state") for id in ids])


def bulk_cancel(bench):
    """Jobs that are cancelled in bulk, and pushed 20 ms later: a cancel applies only to earlier pushes."""
    redis, ids = Redis(bench.server.socket, 30), [f"bulk{n}" for n in range(bench.options.bulk)]
    timestamp = now(redis)
    redis.call("HSET", Q + "want", *(word for id in ids for word in (id, f"cancelled {timestamp}")))
    time.sleep(0.03)
    push(bench, redis, ids, at=timestamp + 20)
    done = lambda: all(state in ("completed", "cancelled") for state in states(redis, ids))
    if not until(done, 60):
        return ["not all of them came to their ends in 60 s"]
    cancelled = states(redis, ids).count("cancelled")
    return [f"{cancelled} of {len(ids)} newer pushes were cancelled"] if cancelled else []


def unserved_store(bench):
    """Operations to delete files on a store that no worker serves. The operations are done at once, and do not affect later
    pushes."""
    redis, ids = Redis(bench.server.socket, 30), [f"far{n}" for n in range(bench.options.bulk)]
    root = os.path.join(bench.directory, "far")
    os.mkdir(root)
    # The other workers are down in the meantime.
    for worker in bench.workers:
        worker.end(15)
    far = bench.worker("far", root)
    far.start()
    push(bench, redis, ids)
    wrong = []
    if not until(lambda: states(redis, ids).count("completed") == len(ids), 60):
        wrong.append("they were not completed in 60 s")
    far.end(15)
    for worker in bench.workers:
        worker.start()
    timestamp = now(redis)
    redis.call("HSET", Q + "want", *(word for id in ids for word in (id, f"deleted {timestamp}")))
    if not until(lambda: not redis.call("EXISTS", Q + "want"), 20):
        wrong.append(f"{redis.call('HLEN', Q + 'want')} operations wait after 20 s")
    again = ids[:10]
    push(bench, redis, again, at=now(redis) + 1)
    if not until(lambda: states(redis, again) == ["completed"] * len(again), 20):
        wrong.append(f"after another push the jobs are {states(redis, again)}")
    # The store's worker comes back. It deletes the files of removed jobs, and keeps those of jobs that were pushed
    # again.
    far.start()
    left = lambda: [id for id in ids[10:] if os.path.exists(os.path.join(root, id))]
    if not until(lambda: not left(), 20):
        wrong.append(f"{len(left())} files were not deleted")
    if states(redis, again) != ["completed"] * len(again):
        wrong.append(f"when their store was served again they became {states(redis, again)}")
    for id in again:
        job = pairs(redis.call("HGETALL", Q + "job:" + id))
        if not any(os.path.exists(os.path.join(folder, id)) for folder in (bench.root, root)):
            wrong.append(f"{id} is {job.get('state')}, and its file is gone")
    far.end(15)
    return wrong


def crossing(bench):
    """Running jobs are pushed again, or continued, right after a pause that their workers have not applied. Then some
    are cancelled."""
    redis, ids = Redis(bench.server.socket, 30), [f"cross{n}" for n in range(max(10, bench.options.bulk // 10))]

    def are_quiet():
        hashes = redis.calls([("HMGET", Q + "job:" + id, "want", "next_push") for id in ids])
        return not redis.call("HLEN", Q + "want") and all(fields == [None, None] for fields in hashes)

    def ask(word):
        redis.call("HSET", Q + "want", *(each for id in ids for each in (id, f"{word} {now(redis)}")))

    def are_applied():
        return until(lambda: not redis.call("HLEN", Q + "want"), 20)

    def others(*expected):
        return Counter(state for state in states(redis, ids) if state not in expected)

    wrong = []
    push(bench, redis, ids, "120000/1024", at=now(redis))
    if not until(lambda: states(redis, ids) == ["running"] * len(ids), 60):
        return [f"they do not run: {others('running')}"]
    ask("paused")
    redis.call("LPUSH", Q + "jobs", *(json.dumps({"id": id}) for id in ids))
    until(are_quiet, 20)
    if others("running", "queued"):
        wrong.append(f"continued behind a pause, of {len(ids)} are {others('running', 'queued')}")
    push(bench, redis, ids, "120000/1024", at=now(redis))
    until(lambda: states(redis, ids) == ["running"] * len(ids), 60)
    ask("paused")
    time.sleep(0.002)
    push(bench, redis, ids, "120000/1024", at=now(redis))
    if not are_applied():
        return wrong + ["the pauses are not applied"]
    time.sleep(0.002)
    ask("cancelled")
    are_applied()
    until(are_quiet, 20)
    if not until(lambda: not others("cancelled"), 5):
        wrong.append(f"pushed behind a pause and then cancelled, of {len(ids)} are {others('cancelled')}")
        ask("cancelled")
    return wrong


def limited(bench):
    """Many tiny jobs under a small `max_running`. Each permit that becomes free is used at once. If only ticks checked,
    three permits would give three jobs a second."""
    redis, ids = Redis(bench.server.socket, 30), [f"limited{n}" for n in range(300)]
    redis.call("HSET", Q + "settings", "max_running", 3)
    push(bench, redis, ids)
    is_done = until(lambda: states(redis, ids).count("completed") == len(ids), 60)
    redis.call("HDEL", Q + "settings", "max_running")
    return [] if is_done else [f"{states(redis, ids).count('completed')} of {len(ids)} jobs done in 60 s under a limit of 3"]
