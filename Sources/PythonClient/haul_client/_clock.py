"""Timestamps by Redis' clock."""

from __future__ import annotations

import threading
from typing import Dict, Optional, Sequence, Set

#: The ids of a longer push are not kept. It closes its millisecond, because it takes longer than that anyway.
_MAX_PUSHED = 100
#: How many milliseconds are kept, because the replies to two calls may be read in another order.
_MAX_KEPT = 50
#: A clock that is behind by so many ms is not waited for. It is another server's.
_MAX_BEHIND = 1000


class TimestampOrder:
    """The timestamps that a client has given out for a queue or a partition.

    They say whether a call may have the time at which it asks. Of a push and an operation with the same timestamp the
    operation is the newer one. So any number of operations may follow pushes and each other within a millisecond. A push
    has to wait for the next one if an operation has this one, or a push of the same job. No timestamp is ahead of Redis'
    clock, because Redis dates nothing later than now.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.latest = 0
        #: The ids that were pushed in each millisecond. None if no further push may have this time.
        self._recent: Dict[int, Optional[Set[str]]] = {}
        #: Until when nothing is kept.
        self._forgotten = 0

    def wait(self, now: int, earlier: int, pushed: Optional[Sequence[str]]) -> int:
        """How long a call has to wait before it asks again, ms. 0 if it gets the time `now`.

        `earlier` is the latest timestamp when the call asked for the time. `pushed` has the ids of a push, and is None
        for an operation.
        """
        with self._lock:
            # A failover may have led to a server whose clock is behind.
            if earlier - now >= _MAX_BEHIND:
                self._begin()
            elif earlier > now:
                return earlier - now
            others: Optional[Set[str]] = None if now <= self._forgotten else self._recent.get(now, set())
            if pushed is None:
                others = None
            elif others is None or not others.isdisjoint(pushed):
                return 1
            else:
                others = None if len(pushed) > _MAX_PUSHED else others.union(pushed)
            self.latest = max(self.latest, now)
            if now > self._forgotten:
                self._recent[now] = others
            if len(self._recent) > _MAX_KEPT:
                self._forgotten = self.latest - _MAX_KEPT // 2
                self._recent = {at: ids for at, ids in self._recent.items() if at > self._forgotten}
            return 0
