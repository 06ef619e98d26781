"""What the clients for redis-py, sync and asyncio, have in common."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from redis import connection, exceptions

from ._core import Answer, Command, Core, Run
from ._errors import HaulError, InvalidURL, RedisFailed, Refused, Unreachable

def options_for(url: str) -> Dict[str, Any]:
    """Options of a client that this package makes. It retries by itself, because it knows which commands may be repeated."""
    options: Dict[str, Any] = {
        "client_name": "haul-client",
        "socket_timeout": 10,
        "health_check_interval": 15,
    }
    # redis-py refuses these for a unix socket.
    if not url.startswith("unix:"):
        options.update(socket_connect_timeout=5, socket_keepalive=True)
    return options


def max_block_time(client: Any) -> float:
    """For how long BLMOVE and XREAD block. The timeout of a client counts from the end of that time, so a server that has
    vanished is noticed soon only if a client with a short timeout blocks for a short time as well."""
    timeout = client.get_connection_kwargs().get("socket_timeout")
    return min(Core.BLOCK, timeout / 2) if timeout else Core.BLOCK


def check_url(url: str) -> Dict[str, Any]:
    """The options of a client for this URL."""
    parse: Any = connection.parse_url
    try:
        return dict(parse(url))
    except ValueError as error:
        raise InvalidURL(f"the URL of Redis must be redis://[user:password@]host[:port][/db], rediss://…, unix://… or redis+cluster://…: {error}") from None


def encoded(command: Command) -> List[Any]:
    return [text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text for text in command]


def decoded(value: Any) -> Any:
    """Texts instead of bytes, at any depth."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return {decoded(name): decoded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [decoded(each) for each in value]
    return value


def replies(commands: Sequence[Command], values: Sequence[Any]) -> List[Any]:
    result = []
    for command, value in zip(commands, values):
        if isinstance(value, Exception):
            raise value
        value = decoded(value)
        if command[0] == "HGETALL" and isinstance(value, list):
            value = dict(zip(value[::2], value[1::2]))
        result.append(value)
    return result


def answers(runs: Sequence[Run], values: Sequence[Any], check: Callable[[Sequence[Any]], None]) -> List[Answer]:
    """What became of runs that were sent together. `check` raises what only a client for a cluster has to notice."""
    found: List[Answer] = []
    start = 0
    for run in runs:
        own = values[start : start + len(run.commands)]
        start += len(run.commands)
        try:
            check(own)
            found.append(replies(run.commands, own))
        except HaulError as error:
            found.append(error)
        except ERRORS as error:
            found.append(translated(error))
    return found


#: Refusals that may end by themselves: Redis has not executed the command, and may accept it later. They are those of
#: `RedisError.isTransient` in HaulClient, without MOVED, which only a client for a cluster can follow.
_TEMPORARY = (
    exceptions.BusyLoadingError, exceptions.ReadOnlyError, exceptions.OutOfMemoryError, exceptions.MasterDownError,
    exceptions.ClusterDownError, exceptions.TryAgainError, exceptions.AskError,
)
#: Those that redis-py, or a version of it, gives as a ResponseError with the whole text.
_TEMPORARY_TEXTS = (
    "NOREPLICAS ", "MISCONF ", "UNBLOCKED ", "BUSY ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "ASK ",
    "max number of clients",
)


def is_temporary(error: BaseException) -> bool:
    if isinstance(error, exceptions.MovedError):  # It is a kind of AskError.
        return False
    return isinstance(error, _TEMPORARY) or (
        isinstance(error, exceptions.ResponseError) and str(error).startswith(_TEMPORARY_TEXTS)
    )


def is_not_primary(error: BaseException) -> bool:
    """Whether another server may be the primary by now, to which a new connection may lead."""
    return isinstance(error, (exceptions.ReadOnlyError, exceptions.MasterDownError, exceptions.ClusterDownError)) or (
        isinstance(error, exceptions.ResponseError) and str(error).startswith(("MASTERDOWN ", "CLUSTERDOWN "))
    )


def is_lost_slot(error: BaseException) -> bool:
    """Whether a cluster can be reached, and none of its nodes has the slot."""
    return isinstance(error, exceptions.SlotNotCoveredError)


def refusal(error: BaseException) -> Optional[BaseException]:
    """That the password is wrong or a right is missing, perhaps that of asking a cluster for its nodes; None if neither."""
    if isinstance(error, exceptions.RedisClusterException):
        reason = error.__cause__ or error.__context__
        return None if reason is None else refusal(reason)
    kinds = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)
    is_refusal = isinstance(error, exceptions.ResponseError) and str(error).startswith("NOPERM ")
    return error if is_refusal or isinstance(error, kinds) else None


def translated(error: BaseException) -> HaulError:
    """An error of redis-py as one of this package, which it is the cause of."""
    found = _translated(error)
    found.__cause__ = error
    return found


def _translated(error: BaseException) -> HaulError:
    text = str(error) or type(error).__name__
    refused = refusal(error)
    if refused is not None:
        return Refused(f"Redis refuses the password or the command: {refused}")
    if is_temporary(error):
        return Unreachable(f"Redis refuses commands for now: {text}")
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError, exceptions.RedisClusterException)):
        return Unreachable(f"cannot reach Redis: {text}")
    return RedisFailed(f"Redis: {text}")


#: What calls of redis-py raise.
ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)
