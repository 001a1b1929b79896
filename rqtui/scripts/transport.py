"""Send calls of scripts in one round trip and read the replies; the only module that handles redis-py's errors.

`script.run_all` passes `script.Call`s to it. Nothing is sent again after a connection broke. Interpreting replies, and
deciding what to send again, is independent of the I/O: `rqtui.aio.transport` uses it on an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from hiredis import pack_command
from redis import Redis, exceptions

from rqtui.connection import cluster as topology
from rqtui.connection.buffered_replies import append_received
from rqtui.connection.cluster import Cluster
from rqtui.connection.pool import Pool, PooledConnection, reconnect_if_stale
from rqtui.connection.redis_errors import acl_denials
from rqtui.connection.redis_errors import error_replies as script_errors
from rqtui.coroutines import run_blocking
from rqtui.errors import (
    Denied,
    Elsewhere,
    NodeAway,
    ReplicaOnly,
    RqtuiError,
    ScriptError,
    ServerError,
    Unreachable,
    WrongType,
)
from rqtui.scripts.values import Wire
from rqtui.text.names import to_bytes

Exchange = Callable[[Sequence[bytes]], Awaitable[list[Any]]]
"""Sends packed commands and gives as many replies; errors stand among them, and `lost` ones."""

MOVES = 3  # a slot may move again while it is followed; more than that is a Cluster that does not know itself


def send(client: Redis | Cluster, calls: Sequence[Any]) -> list[Any]:
    """Send calls and return a reply or an error for each, in order; see `script.run_all`.

    If a node of a Cluster refused a call because the queue has moved, the call is sent to the new node.
    """
    trip: Callable[[Any, Sequence[Any]], list[Any]] = _send_to_nodes if isinstance(client, Cluster) else _send_to_one
    results = trip(client, calls)
    if has_moved_calls(results) and topology.can_change_server(client):

        async def again(moved: Sequence[Any]) -> list[Any]:
            return trip(client, moved)

        run_blocking(resend_moved(again, calls, results))
    return results


def run(client: Redis | Cluster, call: Any) -> Any:
    """Send one call and return its reply; see `script.run`."""
    result = send_one(client, call)
    if isinstance(result, Exception):
        raise result
    return result


def send_one(client: Redis | Cluster, call: Any) -> Any:
    """Send one call and return a reply or an error, as `send` does.

    The bytes of a success reply are known beforehand. If the connection passes plain bytes, they are compared without
    parsing; any other reply is parsed as usual.
    """
    pool: Any = None if isinstance(client, Cluster) or client.connection is not None else client.connection_pool
    done = call.script.build_success_reply(call.row_count)
    if type(pool) is not Pool or not pool.is_passthrough or done is None:
        return send(client, (call,))[0]
    try:
        line = pool.take()
    except exceptions.RedisError as error:
        return script_errors.from_connection_error(error)
    try:
        expected, answer = done
        replies = _send_and_receive(
            line.connection, (_pack_call(call, False),), 1, line if line.is_plain else None, expected
        )
        return answer if replies is _AS_EXPECTED else _convert_replies(line.connection, pool, (call,), replies)[0]
    finally:
        pool.give_back(line)


def has_moved_calls(results: Sequence[Any]) -> bool:
    """Return whether another node has the keys of some call by now."""
    return any([isinstance(result, Elsewhere) for result in results])


async def resend_moved(
    trip: Callable[[Sequence[Any]], Awaitable[list[Any]]], calls: Sequence[Any], results: list[Any]
) -> None:
    """Send the calls that moved to another node again, and put their replies into `results`."""
    for _ in range(MOVES):
        moved = [i for i, result in enumerate(results) if isinstance(result, Elsewhere)]
        if not moved:
            break
        for i, result in zip(moved, await trip([calls[i] for i in moved]), strict=True):
            results[i] = result


def _send_to_nodes(cluster: Cluster, calls: Sequence[Any]) -> list[Any]:
    """Send calls to a Cluster, in one round trip per node that has their keys."""
    results: list[Any] = [None] * len(calls)
    groups: dict[Redis, list[int]] = {}
    for i, call in enumerate(calls):
        try:
            groups.setdefault(
                cluster.find_key_client(call.keys[0]) if call.keys else cluster.find_live_node(), []
            ).append(i)
        except exceptions.RedisError as error:
            results[i] = script_errors.from_connection_error(error)
    for client, at in groups.items():
        for i, result in zip(at, _send_to_one(client, [calls[i] for i in at]), strict=True):
            results[i] = result
    if any(isinstance(result, Elsewhere | Unreachable) for result in results):
        cluster.forget_slots()
    if all(isinstance(result, Unreachable) for result in results):
        return results
    return [NodeAway(str(result)) if isinstance(result, Unreachable) else result for result in results]


def _send_to_one(client: Redis, calls: Sequence[Any]) -> list[Any]:
    """Send calls on an established connection, so that any later failure means they were sent.

    redis-py raises the same errors for connecting and sending, and retries both if its retries are on; therefore
    `execute_command` is not used.
    """
    own: Any = client.connection
    if own is not None:  # single_connection_client=True: the pool's own check of a stale connection is ours to make
        lock: threading.RLock = client.single_connection_lock
        with lock:
            try:
                reconnect_if_stale(own)
            except exceptions.RedisError as error:
                return [script_errors.from_connection_error(error) for _ in calls]
            return _run_on(own, client.connection_pool, calls)
    pool: Any = client.connection_pool
    try:
        connection = pool.get_connection()
    except exceptions.RedisError as error:
        return [script_errors.from_connection_error(error) for _ in calls]
    try:
        return _run_on(connection, pool, calls)
    finally:
        pool.release(connection)


@dataclass(frozen=True, slots=True)
class _Lost:
    """A placeholder for a reply that was not read because the connection broke, with the reason."""

    reason: Exception
    may_have_run: bool = True


_FAILED = (Exception, _Lost)  # among replies: what Redis refused, and what never came
REPLIES = (exceptions.ResponseError, exceptions.AuthenticationError, exceptions.BusyLoadingError)
"""What redis-py raises for a reply; the last two are ConnectionErrors to it, but replies all the same."""
BROKEN = (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse, OSError)
"""What is raised where no reply comes any more."""

_without_read_only: WeakSet[Any] = WeakSet()
"""Connection pools whose server has no EVALSHA_RO: Redis 6.2 and fakeredis."""


def _run_on(connection: Any, pool: Any, calls: Sequence[Any]) -> list[Any]:
    replies = _send_and_receive(connection, build_first_tries(pool, calls), sum([call.reply_count for call in calls]))
    return _convert_replies(
        connection, pool, calls, _group_by_call(calls, replies) if any([call.packed for call in calls]) else replies
    )


def _convert_replies(connection: Any, pool: Any, calls: Sequence[Any], replies: list[Any]) -> list[Any]:
    """Convert the replies to results, after sending again what the server did not know."""
    results = parse_replies(calls, replies)
    if results is not None:
        return results

    async def exchange(commands: Sequence[bytes]) -> list[Any]:
        return _send_and_receive(connection, commands)

    results = run_blocking(complete_replies(exchange, pool, calls, replies))
    if is_demoted(results):
        connection.disconnect()
    return results


def build_first_tries(pool: Any, calls: Sequence[Any]) -> list[bytes]:
    """Return the packed commands of these calls, each with its script's digest."""
    enforced = any([call.script.read_only for call in calls]) and pool not in _without_read_only
    return [_pack_call(call, enforced and call.script.read_only) for call in calls]


def _group_by_call(calls: Sequence[Any], replies: Sequence[Any]) -> list[Any]:
    """Group replies by call: for plain reads a list, or the placeholder of a lost reply."""
    found, at = [], 0
    for call in calls:
        theirs, at = replies[at : at + call.reply_count], at + call.reply_count
        missing = next((reply for reply in theirs if isinstance(reply, _Lost)), None)
        found.append((missing or theirs) if call.packed else theirs[0])
    return found


def fill_lost_replies(replies: list[Any], count: int, reason: Exception) -> list[Any]:
    """Append a placeholder for each of the `count` commands whose reply did not arrive."""
    return [*replies, *([_Lost(reason)] * (count - len(replies)))]


def is_demoted(results: Sequence[Any]) -> bool:
    """Return whether the server refused a call as a read-only replica: a new connection may reach the primary."""
    return any(isinstance(result, ReplicaOnly) for result in results)


async def complete_replies(exchange: Exchange, pool: Any, calls: Sequence[Any], replies: list[Any]) -> list[Any]:
    """Return a reply or an error for each call.

    Commands that did not run because the server did not know the script are sent again on the same connection first.
    """
    await _complete(exchange, pool, calls, replies)
    return [await _read_result(exchange, call, reply) for call, reply in zip(calls, replies, strict=True)]


async def _complete(exchange: Exchange, pool: Any, calls: Sequence[Any], replies: list[Any]) -> None:
    last = replies[-1]
    enforced = pool not in _without_read_only
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
            following = await exchange(list(_with_text([calls[i] for i in again], enforced, each_in_full)))
        last = following[-1]
        for i, reply in zip(again, following, strict=True):
            replies[i] = reply


def parse_replies(calls: Sequence[Any], replies: Sequence[Any]) -> list[Any] | None:
    """Parse `replies` if all of them are script replies; else return None, and `completed` must handle them."""
    if any([isinstance(reply, _FAILED) for reply in replies]):
        return None
    return [_parse_reply(call, reply) for call, reply in zip(calls, replies, strict=True)]


def _pack_call(call: Any, read_only: bool) -> bytes:
    """Return the command with the script's digest as sent over the wire.

    redis-py's own packing checks the type of each of up to ten thousand arguments; ours are always text and bytes.
    """
    if call.packed:
        return bytes(call.packed)
    opening = call.opening
    if opening is None:
        return _pack(call.command(read_only))
    at = len(opening.argv)
    head = opening.heads.get(read_only)
    if head is None:
        whole = call.command(read_only)
        head = opening.heads[read_only] = _remove_count(_pack(whole[: len(whole) - len(call.argv) + at]))
    tail = call.argv[at:] if at else call.argv
    words = 3 + len(opening.keys) + at + len(tail)
    count = _COUNTS[words] if words < len(_COUNTS) else b"*%d\r\n" % words
    packed: bytes = count + head + _remove_count(_pack(tail))
    return packed


_COUNTS = [b"*%d\r\n" % count for count in range(64)]  # how a command begins; to print one is dear


def _pack(words: Sequence[Wire]) -> bytes:
    packed: bytes = pack_command(tuple(words))  # type: ignore[arg-type]
    return packed


def _remove_count(packed: bytes) -> bytes:
    return packed[packed.index(b"\n") + 1 :]


def _with_text(calls: Sequence[Any], enforced: bool, each_in_full: bool) -> Iterator[bytes]:
    """Yield the commands of these calls, with the text of each script only once: 10 000 texts are 60 MB."""
    known: set[str] = set()
    for call in calls:
        is_in_full = each_in_full or call.script.sha not in known
        known.add(call.script.sha)
        read_only = enforced and call.script.read_only
        yield _pack(call.command_in_full(read_only)) if is_in_full else _pack_call(call, read_only)


def _is_unknown_to_server(reply: Any) -> bool:
    """Return whether the server lacks the script (NOSCRIPT) or read-only calls: in both cases nothing ran."""
    if not isinstance(reply, exceptions.ResponseError):
        return False
    text = str(reply).lower()
    return isinstance(reply, exceptions.NoScriptError) or ("unknown command" in text and "evalsha_ro" in text)


_AS_EXPECTED: list[Any] = []
"""In place of the replies: what was expected came."""


def _send_and_receive(
    connection: Any,
    commands: Sequence[bytes],
    number: int = 0,
    line: PooledConnection | None = None,
    expected: bytes = b"",
) -> list[Any]:
    """Send packed commands at once and read `number` replies (0: one per command).

    Errors are among the replies, and `_Lost` for each that did not arrive. With a plain `line` of this connection,
    returns `_AS_EXPECTED` if exactly the bytes `expected` arrived.
    """
    replies: list[Any] = []
    number = number or len(commands)
    if not commands:
        return replies
    try:
        connection.send_packed_command([b"".join(commands)], check_health=False)
        if line is not None and line.receive_expected(expected):
            return _AS_EXPECTED
        while len(replies) < number:
            try:
                replies.append(connection.read_response(disconnect_on_error=False))
                if len(replies) < number:
                    append_received(connection, replies, number)
            except REPLIES as reply:
                replies.append(reply)
    except BROKEN as error:
        connection.disconnect()
        return fill_lost_replies(replies, number, error)
    except BaseException:
        connection.disconnect()  # replies are still on their way; the next user of the connection would read them
        raise
    return replies


def _parse_reply(call: Any, reply: Any) -> Any:
    try:
        return call.parse(reply)
    except (ScriptError, ServerError) as broken:
        return broken


async def _read_result(exchange: Exchange, call: Any, reply: Any) -> Any:
    if not isinstance(reply, _FAILED):
        return _parse_reply(call, reply)
    script = call.script
    if isinstance(reply, _Lost):
        may_have_run = reply.may_have_run and not script.read_only
        return script_errors.from_lost_reply(reply.reason, script.name, may_have_run, script.read_only)
    error = script_errors.from_reply(reply, script.name, script.path, script.source, script.read_only)
    if isinstance(error, Denied):
        return acl_denials.add_missing_right(error, str(reply), script.source, call.keys)
    return await _with_key(exchange, call, error) if isinstance(error, WrongType) else error


async def _with_key(exchange: Exchange, call: Any, error: RqtuiError) -> RqtuiError:
    """Find the key of a WrongType error by comparing the TYPE of each key with the header."""
    script, each = call.script, call.script.keys_each
    types = [key.type for key in script.keys]
    types += [key.type for key in each] * ((len(call.keys) - len(types)) // len(each) if each else 0)
    replies = await exchange([_pack((b"TYPE", key)) for key in call.keys])
    for key, expected, found in zip(call.keys, types, replies, strict=True):
        if isinstance(found, bytes) and found != b"none" and expected not in ("any", "channel", found.decode()):
            name = to_bytes(key)
            return script_errors.build_wrong_type(name, found.decode(), expected, script.read_only)
    return error
