"""The names of a queue's partitions, and which of them a job belongs to: docs/operate/partitions.md."""

from __future__ import annotations

import binascii
from typing import List

from . import _contract as contract
from ._errors import InvalidQueueName

_MAX = 64


def checksum(name: str) -> int:
    """The checksum that leads to a partition: CRC-16/XMODEM."""
    return binascii.crc_hqx(name.encode(), 0)


def partitions(queue: str) -> List[str]:
    """The names of the partitions of a queue like `films#8`. Any other queue, also one of these, is the only one."""
    match = contract.QUEUE_NAME.fullmatch(queue)
    count, number = (int(text) if text else None for text in match.group("count", "number")) if match else (None, None)
    if not match or count is not None and not (2 <= count <= _MAX and (number is None or number < count)):
        raise InvalidQueueName(
            "a queue's name is 1 to 64 of the characters A-Z a-z 0-9 . _ -, and behind them #8, for example, for a queue of "
            f"8 partitions, from 2 to {_MAX}, not {queue!r}"
        )
    if count is None or number is not None:
        return [queue]
    return [f"{match.group('name')}#{number}of{count}" for number in range(count)]


def partition(queue: str, id: str) -> str:
    """The name of the partition of a queue like `films#8` to which the job with this id belongs.

    For a member of a batch, and for a schedule, `id` is the name of the batch or of the schedule.
    """
    names = partitions(queue)
    if len(names) < 2:
        raise InvalidQueueName(f"a queue of 8 partitions is films#8, for example, not {queue!r}")
    return names[checksum(id) % len(names)]
