"""The events that a queue keeps in a stream: docs/guides/durable-events.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, List, NamedTuple, Optional, Tuple, Union

from . import _contract as contract
from ._contract import Keys
from ._core import Command, Core, Emit, Operation
from ._errors import EventsNotKept, HaulError
from ._results import parse_event
from ._schema import Event


@dataclass(frozen=True)
class KeptEvent:
    """An event that the queue has kept."""

    event: Event
    #: Where it is. Store the text with your records, to go on behind it later.
    position: str


@dataclass(frozen=True)
class EventGap:
    """Events before the next one may be missing: the queue has dropped them, or Redis has lost them.

    Read the status of the jobs that your own records have as open.
    """

    #: Where the gap is.
    position: str


KeptUpdate = Union[KeptEvent, EventGap]

#: Of each partition the last entry that was read, or the unix ms from which on it is read.
_POSITION = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?(,[0-9]{1,20}(-[0-9]{1,20})?)*", re.ASCII)
_LAST = 2**64 - 1


class _Page(NamedTuple):
    """What one read has found: entries with their events as JSON."""

    #: Events may be missing before these ones.
    has_gap: bool
    entries: List[Tuple[str, str]]
    #: Whether the queue keeps events now.
    is_keeping: bool


class _Follower:
    """Reads the stream of one partition from a place on, and says where it may have missed events.

    The last entry that was read proves that no later one was dropped, because a stream drops its oldest entries first.
    So each read asks for it once more, behind the new entries and in the same round trip.
    """

    PAGE = 500
    #: How far a reader goes back whose last entry was lost in a failover: ms. The clock of the new primary may be behind
    #: that of the old one, and so may the ids of its entries.
    LOOK_BACK = 60_000

    def __init__(self, keys: Keys, place: str, is_stored: bool) -> None:
        self.keys = keys
        #: Unix ms as long as no entry was read, and then the id of the last entry.
        self.place = place
        # How a reader that has no entry yet finds out whether events were dropped before it could read them. "first": the
        # stream was not empty, and if its first entry is later than the place, older ones were dropped. "count": it was
        # empty, and has dropped nothing since if one page has all of it and it is not full.
        self._check = "first" if place != "0" else "count" if is_stored else ""

    def read(self, core: Core, block: float) -> Operation[_Page]:
        """Reads the next events, and waits for one for `block` seconds. Waits as long as Redis cannot be reached."""
        log, place = self.keys.log, self.place
        is_entry = "-" in place
        time = 0 if is_entry else int(place)
        # XREAD begins behind the id that it gets.
        start = place if is_entry else f"{time - 1}-{_LAST}" if time > 0 else "0-0"
        wait: Command = ("BLOCK", max(1, round(block * 1000))) if block > 0 else ()
        read: Command = ("XREAD", "COUNT", self.PAGE, *wait, "STREAMS", log, start)
        # The last entry is asked for after the read, which may wait. The first entry is asked for before it: an event
        # that comes meanwhile says nothing of those before it.
        first: Command = ("XRANGE", log, "-", "+", "COUNT", 1)
        both = [read, ("XRANGE", log, place, place)] if is_entry else [first, read]
        replies = yield from core.run(
            self.keys, *both, ("HGET", self.keys.settings, contract.EVENT_STREAM), block=block, until=float("inf")
        )
        (found, proof), setting = replies[:2] if is_entry else replies[1::-1], replies[2]
        entries, proved = _entries(found), _entries(proof)
        limit = int(setting) if setting is not None and setting.isdigit() else 0
        has_gap = False
        if is_entry:
            has_gap = not proved
        else:
            if self._check == "first" and proved:
                has_gap = _published(*proved[0]) > time
            elif self._check == "count":
                has_gap = len(entries) >= min(max(limit, 1), self.PAGE)
            self._check = "first" if proved else "count"
        if entries:
            self.place = entries[-1][0]
        elif is_entry and has_gap:
            self.place, self._check = str(max(0, _time_of(place) - self.LOOK_BACK)), ""
        return _Page(has_gap, entries, limit > 0)


def kept_events(core: Core, since: Optional[int], after: Optional[str], follow: bool) -> Operation[None]:
    """Emits the events that the queue has kept, and those that follow, each as a KeptEvent, and an EventGap where some
    may be missing."""
    if since is not None and after is not None:
        raise HaulError("give one of since and after, not both")
    if after is not None and not _POSITION.fullmatch(after):
        raise HaulError(f"after must be the position of a kept event, not {after!r}")
    return _kept_events(core, [str(max(0, since or 0))] if after is None else after.split(","), after is None, follow)


def _kept_events(core: Core, places: List[str], is_new: bool, follow: bool) -> Operation[None]:
    count = len(core.parts)
    if is_new:
        places *= count
    elif len(places) != count:
        # It is of a queue with another number of partitions.
        places, is_new = ["0"] * count, True
        yield Emit(EventGap(",".join(places)))
    followers = [_Follower(keys, place, not is_new) for keys, place in zip(core.parts, places)]
    turn, has_delivered = 0, False
    while True:
        turn = (turn + 1) % count
        found, is_keeping = 0, True
        # Only the last stream is waited for, and only if no other one has anything.
        for number in [*range(turn + 1, count), *range(turn + 1)]:
            block = 0.0
            if follow and number == turn and not found:
                block = core.BLOCK if count == 1 else min(core.BLOCK, core.BLOCK_IN_TURN)
            page = yield from followers[number].read(core, block)
            is_keeping = is_keeping and page.is_keeping
            if page.has_gap:
                found += 1
                yield Emit(EventGap(",".join(places)))
            for entry, text in page.entries:
                places[number] = entry
                event = parse_event(text)
                if event is not None:
                    found += 1
                    yield Emit(KeptEvent(event, ",".join(places)))
            places[number] = followers[number].place
        has_delivered = has_delivered or found > 0
        if found:
            continue
        if not is_keeping and (follow or not has_delivered):
            raise EventsNotKept(
                f"the queue {core.name} keeps no events: an operator sets event_stream to their number"
            )
        if not follow:
            return


def _entries(reply: Any) -> List[Tuple[str, str]]:
    """The entries in a reply of XREAD or XRANGE: id and event. Their form, and what surrounds them, depend on the version
    of redis-py and of the protocol."""
    if isinstance(reply, dict):
        reply = list(reply.values())
    if not isinstance(reply, list):
        return []
    if len(reply) == 2 and isinstance(reply[0], str):
        fields = reply[1]
        if isinstance(fields, list) and fields and isinstance(fields[0], str):
            fields = dict(zip(fields[::2], fields[1::2]))
        if isinstance(fields, dict):
            return [(reply[0], fields.get("data", ""))]
    return [entry for each in reply for entry in _entries(each)]


def _time_of(entry: str) -> int:
    return int(entry.partition("-")[0])


def _published(entry: str, text: str) -> int:
    """When an event was published by its own account: unix ms. Its entry is added after that, which on a busy machine can
    be a later millisecond."""
    event = parse_event(text)
    return _time_of(entry) if event is None else event.at
