"""A client of Haul: push downloads, uploads and HTTP requests to a fleet of workers, and get their results.

    import haul_client as haul

    with haul.Queue("redis://127.0.0.1:6379", reply_to="shop") as queue:
        handle = queue.push(haul.Download("https://example.org/film.bin", id="film-7"))
        print(handle.result(timeout=600).raise_for_error().file)
"""

from . import _requirements  # First, because the other modules need what it asks for.
from ._async import AsyncBatchHandle, AsyncJobHandle, AsyncQueue, AsyncSettled
from ._errors import (
    Closed, EventsNotKept, HaulError, InvalidJob, InvalidQueueName, InvalidSetting, InvalidURL, JobCancelled, JobFailed,
    NotAllPushed, NotReplicated, NoWorker, RedisFailed, Refused, Rejected, TimedOut, Unreachable,
)
from ._kept import EventGap, KeptEvent, KeptUpdate
from ._partitions import partition
from ._results import (
    Advice, BatchStatus, EndState, JobResult, JobStatus, Outcome, QueueStats, Response, Schedule, SentFile, State, Update,
)
from ._schema import (
    Batch, BatchEndedEvent, CancelledEvent, CompletedEvent, Download, DuplicateEvent, Event, FailedEvent, File, Job,
    Notify, PausedEvent, ProgressEvent, QueuedEvent, RejectedEvent, Request, RequeuedEvent, RestartedEvent, ResumedEvent,
    RetryingEvent, StartedEvent, Upload, WaitingEvent, WarningEvent,
)
from ._sync import BatchHandle, JobHandle, Queue, Settled

__version__ = "0.2.0"

__all__ = [
    "Advice", "AsyncBatchHandle", "AsyncJobHandle", "AsyncQueue", "AsyncSettled", "Batch", "BatchEndedEvent",
    "BatchHandle", "BatchStatus", "CancelledEvent", "Closed", "CompletedEvent", "Download", "DuplicateEvent",
    "EndState", "Event", "EventGap", "EventsNotKept", "FailedEvent", "File", "HaulError", "InvalidJob",
    "InvalidQueueName", "InvalidSetting", "InvalidURL", "Job", "JobCancelled", "JobFailed", "JobHandle", "JobResult",
    "JobStatus", "KeptEvent", "KeptUpdate", "NoWorker", "NotAllPushed", "NotReplicated", "Notify", "Outcome", "PausedEvent",
    "ProgressEvent", "Queue", "QueueStats", "QueuedEvent", "RedisFailed", "Refused", "Rejected", "RejectedEvent", "Request", "RequeuedEvent", "Response", "RestartedEvent", "ResumedEvent",
    "RetryingEvent", "Schedule", "SentFile", "Settled", "StartedEvent", "State", "TimedOut", "Unreachable", "Update",
    "Upload", "WaitingEvent", "WarningEvent", "partition",
]
