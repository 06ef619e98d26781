"""What the clients for a Redis Cluster, sync and asyncio, have in common.

redis-py knows which node has a slot. The commands of one partition go to its node together, over an ordinary client for
that node: so they may block, and a subscription has a connection of its own.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from redis import exceptions

from ._errors import InvalidURL, Unreachable
from ._redis import check_url, options_for

_SCHEMES = {"redis+cluster://": "redis://", "rediss+cluster://": "rediss://"}
_IS_MOVED, _IS_BEING_MOVED, _IS_DOWN = (
    "the queue's slot is on another node of the cluster", "the queue's slot is being moved",
    "the Redis Cluster is down: not all slots are served",
)
#: Replies of a node that does not have the slot, or not all of it yet, and what they mean. An ordinary client of redis-py 5
#: gives them as text. A MovedError is an AskError.
_MOVED = (
    (exceptions.MovedError, "MOVED ", _IS_MOVED), (exceptions.AskError, "ASK ", _IS_BEING_MOVED),
    (exceptions.TryAgainError, "TRYAGAIN ", _IS_BEING_MOVED), (exceptions.ClusterDownError, "CLUSTERDOWN ", _IS_DOWN),
)


def is_cluster_url(url: str) -> bool:
    return url.startswith(tuple(_SCHEMES))


def nodes_and_options(url: str) -> Tuple[List[Tuple[str, int]], Dict[str, Any]]:
    """The nodes that a URL like `redis+cluster://host:6379,host:6379` names, and the options of their clients."""
    scheme = next(each for each in _SCHEMES if url.startswith(each))
    authority, slash, rest = url[len(scheme) :].partition("/")
    if not slash:
        authority, slash, rest = authority.partition("?")
    user, at, hosts = authority.rpartition("@")
    nodes, options = [], options_for(url)
    for host in hosts.split(","):
        parsed: Dict[str, Any] = check_url(f"{_SCHEMES[scheme]}{user}{at}{host}{slash}{rest}")
        if not parsed.get("host"):
            raise InvalidURL("the URL of a cluster must be redis+cluster://[user:password@]host:port,host:port or rediss+cluster://…")
        nodes.append((parsed.pop("host"), parsed.pop("port", 6379)))
        parsed.pop("connection_class", None)
        options.update(parsed)
    if scheme.startswith("rediss"):
        options["ssl"] = True
    return nodes, options


def node_options(given: Dict[str, Any]) -> Dict[str, Any]:
    """The options of a client for one node, from those of a client for the cluster."""
    known = (
        "username", "password", "credential_provider", "client_name", "socket_timeout", "socket_connect_timeout",
        "socket_keepalive", "health_check_interval", "protocol", "ssl",
    )
    options = {name: value for name, value in given.items() if name in known or name.startswith("ssl_")}
    if "ssl" in getattr(given.get("connection_class"), "__name__", "").lower():
        options["ssl"] = True
    return options


def check_moved(values: Sequence[Any]) -> None:
    """Raises Unreachable if the slot is not where it was, or is being moved: the commands may be sent again then."""
    for value in values:
        if not isinstance(value, exceptions.ResponseError):
            continue
        for kind, text, meaning in _MOVED:
            if isinstance(value, kind) or str(value).startswith(text):
                raise Unreachable(meaning) from value
