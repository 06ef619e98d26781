"""The names of docs/reference/bus.md that the package uses: keys, channels, fields of hashes. They stand here and nowhere else."""

from __future__ import annotations

import re

# Fields of a job's hash.
STATE = "state"
#: All pushes of a job that are no newer than this time (unix ms) are settled.
SETTLED_UNTIL = "settled_until"
#: The time of the last push of a clock that is ahead of Redis' own.
AHEAD = "ahead"
WAITING = "waiting"
#: The value of WAITING for a completed job whose event is not yet published.
WAITING_FOR_REPLICAS = "replicas"
EPOCH, SEQUENCE = "epoch", "seq"
RECEIVED, TOTAL, SPEED, ATTEMPT, WORKER = "received", "total", "speed", "attempt", "worker"
ERROR, MESSAGE, RETRYABLE, UNCHANGED = "error", "message", "retryable", "unchanged"
FILE, PATH, URL, KIND, META, SECONDS, CHECKSUM, ETAG, FILES = (
    "file", "path", "url", "kind", "meta", "seconds", "checksum", "etag", "files",
)
STATUS, HEADERS, BODY, BODY_BASE64, RESPONSE_DROPPED = "status", "headers", "body", "body_base64", "response_dropped"
URL_DIGESTS = "url_digests"
CREATED, UPDATED, FINISHED = "created", "updated", "finished"
# Further fields of a batch's hash.
PENDING, REJECTED, SIZE, ROUND = "pending", "rejected", "size", "round"

#: The setting that says how many events the queue keeps.
EVENT_STREAM = "event_stream"

FINAL_STATES = ("completed", "failed", "cancelled")
STATES = ("queued", "scheduled", "running", "paused", *FINAL_STATES)

# Control operations: values of the hash `want`.
PAUSED, CANCELLED, RUNNING, REMOVED, DELETED, RETRIED = "paused", "cancelled", "running", "removed", "deleted", "retried"

#: Seconds after which a worker that sent no heartbeat does not count.
SILENCE = 10
#: How many elements one LPUSH has at most.
PAGE = 500
#: An element's largest number of bytes, and without the contents of its strings.
MAX_ELEMENT, MAX_SKELETON = 16 << 10, 6 << 10
MAX_META = 4096
MAX_DEPTH = 64
#: For how long a reply that was taken and not acknowledged is kept: ms.
KEEP_TAKEN = 7 * 86_400_000

#: When a schedule was changed that is to be planned: ms divided by this, a score between 0 and 1.
SCHEDULE_SCALE = 1e13

#: A queue, a queue with partitions, or one of these.
QUEUE_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9._-]{1,64})(#((?P<number>0|[1-9][0-9]?)of)?(?P<count>[1-9][0-9]?))?", re.ASCII
)
SCHEDULE = re.compile(r"[A-Za-z0-9._:-]{1,96}")
ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Keys:
    """The keys and channels of a queue."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.prefix = f"haul:{{{queue}}}:"
        self.jobs = self.prefix + "jobs"
        self.want = self.prefix + "want"
        self.control = self.prefix + "control"
        self.rejected = self.prefix + "rejected"
        self.workers = self.prefix + "workers"
        self.settings = self.prefix + "settings"
        self.urls = self.prefix + "urls"
        #: The stream of events, if the setting EVENT_STREAM is positive.
        self.log = self.prefix + "log"
        self.schedules = self.prefix + "schedules"
        self.schedule_due = self.prefix + "schedule_due"
        self.schedule_paused = self.prefix + "schedule_paused"
        self.deferred_hosts = self.prefix + "deferred_hosts"
        self.deferred_kinds = self.prefix + "deferred_kinds"
        self.deferred_groups = self.prefix + "deferred_groups"

    def held(self, worker: str) -> str:
        """Elements that only this worker takes."""
        return f"{self.prefix}held:{worker}"

    def deferred_host(self, host: str) -> str:
        return f"{self.prefix}deferred_host:{host}"

    def deferred_kind(self, kind: str) -> str:
        return f"{self.prefix}deferred_kind:{kind}"

    def deferred_group(self, group: str) -> str:
        return f"{self.prefix}deferred_group:{group}"

    def job(self, id: str) -> str:
        return f"{self.prefix}job:{id}"

    def url(self, digest: str) -> str:
        """Further jobs of a URL, by its digest. The first one is in `urls`."""
        return f"{self.prefix}url:{digest}"

    def schedule(self, name: str) -> str:
        return f"{self.prefix}schedule:{name}"

    def batch(self, name: str) -> str:
        return f"{self.prefix}batch:{name}"

    def reply(self, name: str) -> str:
        return f"{self.prefix}reply:{name}"

    def taken(self, name: str) -> str:
        """Replies that a consumer has taken and not acknowledged. No worker pushes onto this list."""
        return f"{self.prefix}reply:{name}:taken"

    def events(self, id: str) -> str:
        return f"{self.prefix}events:{id}"

    def batch_events(self, name: str) -> str:
        return self.events(self.batch_field(name))

    @staticmethod
    def batch_field(name: str) -> str:
        """The field of `want` for a batch, and the end of its channel."""
        return f"batch/{name}"

    def index(self, state: str) -> str:
        """Where the jobs in a state are listed: a list for queued ones, otherwise a sorted set."""
        return {"queued": self.jobs, "running": self.prefix + "leases"}.get(state, self.prefix + state)
