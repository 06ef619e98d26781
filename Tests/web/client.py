"""A service that has only the client that was generated from docs/reference/openapi.json. See client.sh."""

import sys
import time

from haul_api import AuthenticatedClient
from haul_api.api.batches import batch as get_batch
from haul_api.api.jobs import control, job as get_job, list_, push, wait
from haul_api.api.queues import overview, workers
from haul_api.models import ControlJobs, ControlJobsAction, Error, ErrorError, Job, JobState, ListState, NewDownload
from haul_api.types import UNSET

from fleet import Fleet


def check(condition, what):
    if not condition:
        raise SystemExit(f"client.py: {what}")


def use(client):
    started = int(time.time() * 1000)
    pushed = push.sync(
        "default", client=client,
        body=NewDownload(url="http://127.0.0.1:81/a?size=300000", id="a", path="films/a.bin", batch="night", meta={"customer": 7}))
    check([job.id for job in pushed.pushed] == ["a"] and pushed.pushed[0].at > started - 60_000, f"pushed {pushed}")
    done = wait.sync("default", "a", client=client, since=pushed.pushed[0].at, timeout=30)
    check(isinstance(done, Job) and done.state is JobState.COMPLETED and done.ended is True, f"waited for {done}")
    check(done.bytes_ == 300000 and done.received == 300000 and done.file == "films/a.bin", f"the file of {done}")
    check(done.host == "127.0.0.1" and done.url == "http://127.0.0.1:81/a?[masked]", f"the URL of {done}")
    check(done.meta == {"customer": 7} and done.seconds >= 0 and done.error is UNSET, f"the rest of {done}")
    check(get_job.sync("default", "a", client=client) == done, "a job that has ended is read as it was")
    page = list_.sync("default", client=client, state=ListState.COMPLETED)
    check([job.id for job in page.jobs] == ["a"] and page.jobs[0].timestamp == done.finished, f"the list {page}")
    night = get_batch.sync("default", "night", client=client)
    check((night.completed, night.pending) == (1, 0), f"the batch {night}")
    fleet = workers.sync("default", client=client)
    check([worker.name for worker in fleet.workers] == ["one"] and fleet.workers[0].slots > 0, f"the workers {fleet}")
    queue = overview.sync("default", client=client)
    check(queue.counts.completed == 1 and queue.workers.working == 1, f"the queue {queue}")

    failed = push.sync("default", client=client, body=NewDownload(url="http://127.0.0.1:81/missing", id="b", retries=0))
    lost = wait.sync("default", "b", client=client, since=failed.pushed[0].at)
    check(lost.state is JobState.FAILED and lost.error == "http_404" and lost.retryable is False, f"the failed job {lost}")
    removal = control.sync("default", client=client, body=ControlJobs(action=ControlJobsAction.REMOVE, ids=["b"]))
    check(removal.requested == 1, f"the removal {removal}")

    refused = push.sync("default", client=client, body=NewDownload(url="ftp://files.example/c"))
    check(isinstance(refused, Error) and refused.error is ErrorError.BAD_JOB and "url" in refused.message, f"the refusal {refused}")
    missing = get_job.sync("default", "nobody", client=client)
    check(isinstance(missing, Error) and missing.error is ErrorError.NOT_FOUND, f"the unknown job {missing}")


def main():
    fleet = Fleet(sys.argv[1])
    try:
        use(AuthenticatedClient(base_url=f"http://127.0.0.1:{fleet.port}/api", token=fleet.token))
    finally:
        fleet.close()
    print("the generated client pushes, waits and reads")


if __name__ == "__main__":
    main()
