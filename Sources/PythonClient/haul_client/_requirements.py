"""Refuses a redis-py that lacks what this package needs, before another module fails without saying why."""

from __future__ import annotations

import redis

_OLDEST = 5

_version = str(getattr(redis, "__version__", "0"))
_major = _version.partition(".")[0]
if not (_major.isdigit() and int(_major) >= _OLDEST):
    raise ImportError(
        f"haul_client needs redis-py {_OLDEST} or newer, and this is {_version}: pip install 'redis>={_OLDEST}'"
    )
