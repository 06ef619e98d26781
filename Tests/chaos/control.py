"""A thread of the run. It makes control operations for single jobs, and pushes some cancelled jobs again."""
import json
import random
import time

from ledger import Q
from resp import Redis, RedisError


def control(run):
    redis, pick = Redis(run.topology.locate), random.Random(run.options.seed + 2)
    waiting = []
    while not run.ending.is_set():
        time.sleep(0.15)
        try:
            ids = redis.call("ZRANGE", Q + "leases", 0, -1)
            if ids and run.producing.is_set() and pick.random() < 0.5:
                id = pick.choice(ids)
                want = pick.choice(["paused", "paused", "cancelled"])
                job = run.ledger.jobs.get(id)
                # A step, a webhook or a run of a schedule that is cancelled could not be told from one that was lost.
                if not job or id in run.steps.parents:
                    want = "paused"
                if job:
                    job.has_operation = True
                if want == "cancelled":
                    job.cancelled = True
                if want == "paused" or not job.pushed_again:
                    redis.call("HSET", Q + "want", id, want)
                    if pick.random() < 0.5:
                        redis.call("PUBLISH", Q + "control", id)
                    waiting.append((id, want))
            for id, want in list(waiting):
                state = run.topology.call_durably(redis, "HGET", Q + "job:" + id, "state")
                if state == want == "paused":
                    if id in run.ledger.jobs:
                        run.ledger.jobs[id].continuations += 1
                    if pick.random() < 0.5:
                        redis.call("RPUSH", Q + "jobs", json.dumps({"id": id}))
                    else:
                        redis.call("HSET", Q + "want", id, "running")
                    waiting.remove((id, want))
                elif state == want == "cancelled":
                    job = run.ledger.jobs[id]
                    if pick.random() < 0.5:
                        job.element = json.dumps(json.loads(job.element) | {"at": round(time.time() * 1000) + 1})
                        job.pushed_again = True
                        run.batches.repeats(job)
                        run.push(redis, job)
                    waiting.remove((id, want))
                elif state in ("completed", "failed", "cancelled"):
                    waiting.remove((id, want))
        except (ConnectionError, RedisError):
            pass
