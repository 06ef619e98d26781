"""The rules of schedules: docs/guides/schedules.md. A worker checks the same."""

from __future__ import annotations

import datetime
import re
from typing import Any, Mapping, Sequence, Set

from ._errors import HaulError, InvalidSetting

_YEARS = 366 * 86_400
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ZONE = re.compile(r"[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*)*", re.ASCII)


def check_schedule(definition: Mapping[str, Any]) -> None:
    """Raises InvalidSetting if a worker would find the definition invalid. The job is checked elsewhere."""
    every, cron, zone = definition.get("every"), definition.get("cron"), definition.get("zone")
    if (every is None) == (cron is None):
        raise HaulError("a schedule needs either every or cron")
    if every is not None:
        if isinstance(every, bool) or not isinstance(every, int) or not 1 <= every <= _YEARS:
            raise InvalidSetting("every", f"must be a whole number of seconds from 1 to {_YEARS}, not {every!r}")
        if zone is not None:
            raise InvalidSetting("zone", "is only for cron")
    else:
        _check_cron(cron)
    if zone is not None and not is_zone(zone):
        raise InvalidSetting("zone", f"must be an IANA name like Europe/Berlin, not {zone!r}")
    for name, choices in (("catch_up", ("one", "none")), ("overlap", ("skip", "allow"))):
        if definition.get(name, choices[0]) not in choices:
            raise InvalidSetting(name, f"must be {' or '.join(choices)}, not {definition[name]!r}")
    if definition.get("overlap") == "allow" and not definition.get("unique"):
        raise InvalidSetting("overlap", "allow requires unique, because one job cannot run twice at once")


def id_of_run(name: str, at: int, definition: Mapping[str, Any]) -> str:
    """The id of the job of a run that is due at `at`, unix ms."""
    if not definition.get("unique"):
        return name
    date = datetime.datetime.fromtimestamp(at // 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{name}:{date}{f'.{at % 1000:03}' if at % 1000 else ''}Z"


def is_zone(zone: Any) -> bool:
    """Whether a zone has a valid name, and is known here if this machine knows any."""
    if not isinstance(zone, str) or not _ZONE.fullmatch(zone):
        return False
    try:
        import zoneinfo
    except ImportError:
        return True
    try:
        zoneinfo.ZoneInfo("Europe/Berlin")
    except (zoneinfo.ZoneInfoNotFoundError, OSError):
        # This machine has no zones, and the workers may have them.
        return True
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _check_cron(text: Any) -> None:
    fields = [field for field in re.split("[ \t]", text) if field] if isinstance(text, str) else []
    if len(fields) != 5:
        raise InvalidSetting(
            "cron", f"must have five fields (minute, hour, day of month, month, day of week), not {len(fields)}")
    _values(fields[0], "minute", 0, 59)
    _values(fields[1], "hour", 0, 23)
    days = _values(fields[2], "day of month", 1, 31)
    months = _values(fields[3], "month", 1, 12, _MONTHS)
    _values(fields[4], "day of week", 0, 7, _WEEKDAYS)
    # If both days are restricted, a day that fits either of them counts.
    is_or = not fields[2].startswith("*") and not fields[4].startswith("*")
    if not is_or and not any(day <= _DAYS[month - 1] for month in months for day in days):
        raise InvalidSetting("cron", f"must name a date that exists, which {text!r} does not")


def _whole(text: str) -> int:
    # int() also reads 1_0, +5 and digits of other scripts.
    if not re.fullmatch("[0-9]{1,2}", text):
        raise ValueError
    return int(text)


def _values(field: str, name: str, low: int, high: int, names: Sequence[str] = ()) -> Set[int]:
    def number(text: str) -> int:
        if text.lower() in names:
            return names.index(text.lower()) + (1 if name == "month" else 0)
        value = _whole(text)
        if not low <= value <= high:
            raise ValueError
        return value

    found: Set[int] = set()
    try:
        for item in field.split(","):
            ends, slash, text = item.partition("/")
            step = _whole(text) if slash else 1
            first, dash, last = ends.partition("-")
            if ends == "*":
                begin, end = low, 6 if name == "day of week" else high
            else:
                begin = number(first)
                end = number(last) if dash else high if slash else begin
            if begin > end or not 1 <= step <= 59:
                raise ValueError
            found.update(range(begin, end + 1, step))
    except ValueError:
        raise InvalidSetting(
            "cron", f"the {name} must be *, a number from {low} to {high}, a range, a step like */5, or a list of them, "
            f"not {field!r}") from None
    return found
