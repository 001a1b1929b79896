"""Transport: sends calls of scripts in one trip and reads the replies; it alone knows redis-py's errors.

`script.run_all` is the only caller, and hands it `script.Call`s. Nothing is sent again after a connection broke.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from hiredis import pack_command
from redis import Redis, exceptions

from rqtui.connection import cluster as topology
from rqtui.connection.cluster import Cluster
from rqtui.errors import Denied, Elsewhere, NodeAway, RqtuiError, ScriptError, Unreachable, WrongType
from rqtui.scripts import acl_denials
from rqtui.scripts import replies as script_errors
from rqtui.scripts.values import Wire
from rqtui.text.names import to_bytes

MOVES = 3  # a slot may move again while it is followed; more than that is a Cluster that does not know itself


def send(client: Redis | Cluster, calls: Sequence[Any]) -> list[Any]:
    """An answer or an error for each call, in order; see `script.run_all`.

    What a node of a Cluster did not do since another has the queue by now is sent to that one.
    """
    results = _send(client, calls)
    for _ in range(MOVES):
        moved = [i for i, result in enumerate(results) if isinstance(result, Elsewhere)]
        if not moved or not topology.follows(client):
            break
        for i, result in zip(moved, _send(client, [calls[i] for i in moved]), strict=True):
            results[i] = result
    return results


def _send(client: Redis | Cluster, calls: Sequence[Any]) -> list[Any]:
    return _send_to_nodes(client, calls) if isinstance(client, Cluster) else _send_to_one(client, calls)


def _send_to_nodes(cluster: Cluster, calls: Sequence[Any]) -> list[Any]:
    """One trip to each node that has keys of these calls."""
    results: list[Any] = [None] * len(calls)
    groups: dict[Redis, list[int]] = {}
    for i, call in enumerate(calls):
        try:
            groups.setdefault(cluster.of_key(call.keys[0]) if call.keys else cluster.live(), []).append(i)
        except exceptions.RedisError as error:
            results[i] = script_errors.from_connecting(error)
    for client, at in groups.items():
        for i, result in zip(at, _send_to_one(client, [calls[i] for i in at]), strict=True):
            results[i] = result
    if any(isinstance(result, Elsewhere | Unreachable) for result in results):
        cluster.forget()
    if all(isinstance(result, Unreachable) for result in results):
        return results
    return [NodeAway(str(result)) if isinstance(result, Unreachable) else result for result in results]


def _send_to_one(client: Redis, calls: Sequence[Any]) -> list[Any]:
    try:
        with _connection(client) as connection:
            return _run_on(connection, client, calls)
    except _NotConnected as error:
        return [script_errors.from_connecting(error.reason) for _ in calls]


class _NotConnected(Exception):
    """No connection was there to send on, for this reason of redis-py's."""

    def __init__(self, reason: exceptions.RedisError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Lost:
    """In place of a reply: the connection broke, for this reason, before it was read."""

    reason: Exception
    may_have_run: bool = True


@contextmanager
def _connection(client: Redis) -> Iterator[Any]:
    """A connection that is established, so that what fails later has been sent.

    redis-py raises the same errors for both, and sends again where its retries are on; hence not `execute_command`.
    """
    own: Any = client.connection
    if own is not None:  # single_connection_client=True: the pool's own check of a stale connection is ours to make
        lock: threading.RLock = client.single_connection_lock
        with lock:
            try:
                _reconnect_if_stale(own)
            except exceptions.RedisError as error:
                raise _NotConnected(error) from error
            yield own
        return
    pool: Any = client.connection_pool
    try:
        connection = pool.get_connection()
    except exceptions.RedisError as error:
        raise _NotConnected(error) from error
    try:
        yield connection
    finally:
        pool.release(connection)


def _reconnect_if_stale(connection: Any) -> None:
    connection.connect()
    try:
        stale = connection.can_read()
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError):
        stale = True
    if stale:  # data nobody asked for, or the end of the stream
        connection.disconnect()
        connection.connect()


_without_read_only: WeakSet[Any] = WeakSet()
"""Connection pools whose server has no EVALSHA_RO: Redis 6.2 and fakeredis."""


def _run_on(connection: Any, client: Redis, calls: Sequence[Any]) -> list[Any]:
    pool = client.connection_pool
    enforced = pool not in _without_read_only
    replies = _exchange(connection, [call.command(enforced and call.script.read_only) for call in calls])
    last = replies[-1]
    for each_in_full in (
        False,
        True,
    ):  # at first one call brings a script's text for all; what did not come so, brings it
        again = [i for i, reply in enumerate(replies) if _is_unknown_to_server(reply)]
        if not again:
            break
        if any(not isinstance(replies[i], exceptions.NoScriptError) for i in again):
            _without_read_only.add(pool)
            enforced = False
        if isinstance(last, _Lost):
            following: list[Any] = [_Lost(last.reason, may_have_run=False)] * len(again)
        else:
            following = _exchange(connection, list(_with_text([calls[i] for i in again], enforced, each_in_full)))
        last = following[-1]
        for i, reply in zip(again, following, strict=True):
            replies[i] = reply
    if any(isinstance(reply, exceptions.ReadOnlyError) for reply in replies):
        connection.disconnect()  # demoted: by its name another server may be found now
    return [_result(connection, call, reply) for call, reply in zip(calls, replies, strict=True)]


def _with_text(calls: Sequence[Any], enforced: bool, each_in_full: bool) -> Iterator[Sequence[Wire]]:
    """The commands of these calls, the first of each script with its text: ten thousand texts are 60 MB."""
    known: set[str] = set()
    for call in calls:
        is_in_full = each_in_full or call.script.sha not in known
        known.add(call.script.sha)
        yield (call.command_in_full if is_in_full else call.command)(enforced and call.script.read_only)


def _is_unknown_to_server(reply: Any) -> bool:
    """NOSCRIPT, or a server without read-only calls: in both cases nothing ran."""
    if not isinstance(reply, exceptions.ResponseError):
        return False
    text = str(reply).lower()
    return isinstance(reply, exceptions.NoScriptError) or ("unknown command" in text and "evalsha_ro" in text)


def _exchange(connection: Any, commands: Sequence[Sequence[Wire]]) -> list[Any]:
    """Send commands at once and read as many replies; errors stand among them, `_Lost` where none came."""
    replies: list[Any] = []
    if not commands:
        return replies
    try:
        # redis-py's own packing looks at the type of each of ten thousand arguments; ours are text and bytes.
        packed = b"".join([pack_command(tuple(command)) for command in commands])  # type: ignore[arg-type]
        connection.send_packed_command([packed], check_health=False)
        for _ in commands:
            try:
                replies.append(connection.read_response(disconnect_on_error=False))
            except (exceptions.ResponseError, exceptions.AuthenticationError, exceptions.BusyLoadingError) as reply:
                replies.append(reply)  # the last two are ConnectionErrors to redis-py, but replies all the same
    except (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse, OSError) as error:
        connection.disconnect()
        replies += [_Lost(error)] * (len(commands) - len(replies))
    except BaseException:
        connection.disconnect()  # replies are still on their way; the next user of the connection would read them
        raise
    return replies


def _result(connection: Any, call: Any, reply: Any) -> Any:
    script = call.script
    if isinstance(reply, _Lost):
        may_have_run = reply.may_have_run and not script.read_only
        return script_errors.from_lost_reply(reply.reason, script.name, may_have_run)
    if isinstance(reply, Exception):
        error = script_errors.from_reply(reply, script.name, script.path, script.source)
        if isinstance(error, Denied):
            return acl_denials.named(error, str(reply), script.source, call.keys)
        return _with_key(connection, call, error) if isinstance(error, WrongType) else error
    try:
        return call.parse(reply)
    except ScriptError as error:
        return error


def _with_key(connection: Any, call: Any, error: RqtuiError) -> RqtuiError:
    """A WrongType that names the key: TYPE of each is asked and compared with the header."""
    script, each = call.script, call.script.keys_each
    types = [key.type for key in script.keys]
    types += [key.type for key in each] * ((len(call.keys) - len(types)) // len(each) if each else 0)
    replies = _exchange(connection, [[b"TYPE", key] for key in call.keys])
    for key, expected, found in zip(call.keys, types, replies, strict=True):
        if isinstance(found, bytes) and found != b"none" and expected not in ("any", "channel", found.decode()):
            name = to_bytes(key)
            return script_errors.wrong_type(script.name, name, found.decode(), expected)
    return error
