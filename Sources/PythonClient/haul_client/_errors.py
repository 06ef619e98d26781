"""What calls raise."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Dict, List, Optional

if TYPE_CHECKING:
    from ._results import JobResult


class HaulError(Exception):
    """The base of all errors of this package. Its text is one sentence that says what to do, and has no secret."""


class InvalidURL(HaulError, ValueError):
    """The text is not a Redis URL."""


class InvalidQueueName(HaulError, ValueError):
    """The text is not the name of a queue."""


class InvalidJob(HaulError, ValueError):
    """A job is not valid. Nothing was pushed."""

    def __init__(self, field: Optional[str], reason: str) -> None:
        super().__init__(f"{field or 'element'}: {reason}")
        #: The wrong field. None if the whole job is wrong.
        self.field = field
        #: The rule that the field breaks.
        self.reason = reason


class InvalidSetting(HaulError, ValueError):
    """A setting is not valid. Nothing was set."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason


class Unreachable(HaulError):
    """Redis does not answer, the connection broke, or Redis refuses the call for now, for example because it is loading
    its data, is out of memory or has too few replicas. Redis may or may not have executed the call: repeat it."""


class NotAllPushed(Unreachable):
    """Partitions of the queue could not be reached. The others have their jobs, so push only the rest again."""

    def __init__(
        self, text: str, partitions: List[str], pushed: Dict[str, int], not_pushed: Dict[str, Optional[int]]
    ) -> None:
        super().__init__(text)
        #: The names of the partitions that could not be reached.
        self.partitions = partitions
        #: The ids of the jobs that are certainly pushed, with the `at` of each push, unix ms.
        self.pushed = pushed
        #: The ids of all others. With an `at`, Redis may have the push nevertheless, or the job had it before: push it
        #: again with this `at`, so that it does nothing a second time.
        self.not_pushed = not_pushed


class Refused(HaulError):
    """Redis refuses the password, or its user lacks a right."""


class RedisFailed(HaulError):
    """Redis answered with another error."""


class TimedOut(HaulError, builtins.TimeoutError):
    """The timeout has passed. A job that the call waited for goes on."""


class NoWorker(TimedOut):
    """The timeout has passed, and no worker serves the queue."""


class NotReplicated(HaulError):
    """The jobs were pushed, but too few replicas confirmed that in time. Push again with the same `at`."""


class Rejected(HaulError):
    """A worker found that the pushed element is not a valid job. The push changed nothing."""


class EventsNotKept(HaulError):
    """The queue keeps no events, because it has no setting event_stream."""


class JobFailed(HaulError):
    """The job failed. Only `JobResult.raise_for_error` raises this."""

    def __init__(self, result: JobResult) -> None:
        super().__init__(f"job {result.id} failed: {result.error}: {result.message}")
        self.result = result
        #: The code, such as http_404.
        self.error = result.error


class JobCancelled(HaulError):
    """The job was cancelled or removed. Only `JobResult.raise_for_error` raises this."""

    def __init__(self, result: JobResult) -> None:
        super().__init__(f"job {result.id}: {result.message or 'it was cancelled'}")
        self.result = result


class Closed(HaulError):
    """The queue was closed."""

    def __init__(self) -> None:
        super().__init__("the queue was closed")
