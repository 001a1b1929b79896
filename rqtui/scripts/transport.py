"""Send calls of Lua scripts to Redis in one round trip and read the replies, with redis-py.

`script.send_calls` passes `script.Call`s to this module. Nothing is sent again after a connection broke. The functions
that interpret replies and decide what to send again do no I/O, so `rqtui.aio.transport` uses them on an event loop.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakSet

from hiredis import pack_command
from redis import Redis, exceptions

from rqtui.connection import cluster as topology
from rqtui.connection.buffered_replies import append_received_replies
from rqtui.connection.cluster import Cluster
from rqtui.connection.pool import Pool, PooledConnection, reconnect_if_stale
from rqtui.connection.redis_errors import acl_denials
from rqtui.connection.redis_errors import error_replies as script_errors
from rqtui.coroutines import run_without_event_loop
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
"""Sends encoded commands and returns one reply for each; errors and `_Lost` placeholders are among the replies."""

MOVES = 3  # A hash slot may move again while its call is sent again; after more moves the error is returned.


def send_calls(client: Redis | Cluster, calls: Sequence[Any]) -> list[Any]:
    """Send calls of Lua scripts; see `script.send_calls`. Returns a reply or an error for each, in order.

    If a node of a Cluster refused a call because it no longer owns the queue's keys, the call is sent to their new
    node.
    """
    read_ahead = getattr(getattr(client, "connection_pool", None), "read_ahead", None)
    if read_ahead is not None:
        results: list[Any] = read_ahead.send_calls(calls, partial(send_calls_now, client))
        return results
    return send_calls_now(client, calls)


def send_calls_now(client: Redis | Cluster, calls: Sequence[Any]) -> list[Any]:
    """Send calls of Lua scripts like `send_calls`, without replies that were read before."""
    trip: Callable[[Any, Sequence[Any]], list[Any]] = (
        _send_to_cluster_nodes if isinstance(client, Cluster) else _send_to_server
    )
    results = trip(client, calls)
    if has_moved_calls(results) and topology.can_change_server(client):

        async def send_moved_calls(moved: Sequence[Any]) -> list[Any]:
            return trip(client, moved)

        run_without_event_loop(resend_moved_calls(send_moved_calls, calls, results))
    return results


def run_call(client: Redis | Cluster, call: Any) -> Any:
    """Send one call of a Lua script and return its reply; see `script.run_call`."""
    result = send_one_call(client, call)
    if isinstance(result, Exception):
        raise result
    return result


def send_one_call(client: Redis | Cluster, call: Any) -> Any:
    """Send one call of a Lua script and return its reply or an error, faster than `send_calls` does.

    The bytes of a success reply are known beforehand. If the connection passes plain bytes, they are compared without
    parsing; any other reply is parsed as usual.
    """
    pool: Any = None if isinstance(client, Cluster) or client.connection is not None else client.connection_pool
    success_reply = call.script.build_success_reply(call.row_count)
    if (
        type(pool) is not Pool
        or not pool.is_passthrough
        or success_reply is None
        or (pool.sent_scripts is not None and call.script.sha not in pool.sent_scripts)
    ):
        return send_calls(client, (call,))[0]
    try:
        pooled_connection = pool.take_connection()
    except exceptions.RedisError as error:
        return script_errors.build_connection_error(error)
    try:
        expected, expected_reply = success_reply
        replies = _send_and_receive(
            pooled_connection.connection,
            (_pack_call(call, False),),
            1,
            pooled_connection if pooled_connection.is_plain else None,
            expected,
        )
        return (
            expected_reply
            if replies is _AS_EXPECTED
            else _convert_replies_to_results(pooled_connection.connection, pool, (call,), replies)[0]
        )
    finally:
        pool.return_connection(pooled_connection)


def has_moved_calls(results: Sequence[Any]) -> bool:
    """Return whether a node of a Cluster refused some call because another node owns its keys now."""
    return any([isinstance(result, Elsewhere) for result in results])


async def resend_moved_calls(
    send_calls_once: Callable[[Sequence[Any]], Awaitable[list[Any]]], calls: Sequence[Any], results: list[Any]
) -> None:
    """Send those calls again whose keys moved to another Cluster node, and put the replies into `results`."""
    for _ in range(MOVES):
        moved = [i for i, result in enumerate(results) if isinstance(result, Elsewhere)]
        if not moved:
            break
        for i, result in zip(moved, await send_calls_once([calls[i] for i in moved]), strict=True):
            results[i] = result


def _send_to_cluster_nodes(cluster: Cluster, calls: Sequence[Any]) -> list[Any]:
    """Send calls to a Cluster, in one round trip for each node that owns keys of the calls."""
    results: list[Any] = [None] * len(calls)
    groups: dict[Redis, list[int]] = {}
    for i, call in enumerate(calls):
        try:
            groups.setdefault(
                cluster.find_key_client(call.keys[0]) if call.keys else cluster.find_live_node_client(), []
            ).append(i)
        except exceptions.RedisError as error:
            results[i] = script_errors.build_connection_error(error)
    for client, call_numbers in groups.items():
        for i, result in zip(call_numbers, _send_to_server(client, [calls[i] for i in call_numbers]), strict=True):
            results[i] = result
    if any(isinstance(result, Elsewhere | Unreachable) for result in results):
        cluster.discard_slot_map()
    if all(isinstance(result, Unreachable) for result in results):
        return results
    return [NodeAway(str(result)) if isinstance(result, Unreachable) else result for result in results]


def _send_to_server(client: Redis, calls: Sequence[Any]) -> list[Any]:
    """Send calls to one server, on a connection that is open before: any later failure means that the calls were sent.

    redis-py raises the same errors for connecting and sending, and retries both if its retries are on; therefore
    `execute_command` is not used.
    """
    own_connection: Any = client.connection
    if own_connection is not None:  # single_connection_client=True: no pool checks whether the connection is stale
        lock: threading.RLock = client.single_connection_lock
        with lock:
            try:
                reconnect_if_stale(own_connection)
            except exceptions.RedisError as error:
                return [script_errors.build_connection_error(error) for _ in calls]
            return _run_calls_on_connection(own_connection, client.connection_pool, calls)
    pool: Any = client.connection_pool
    try:
        connection = pool.get_connection()
    except exceptions.RedisError as error:
        return [script_errors.build_connection_error(error) for _ in calls]
    try:
        return _run_calls_on_connection(connection, pool, calls)
    finally:
        pool.release(connection)


@dataclass(frozen=True, slots=True)
class _Lost:
    """A placeholder for a reply that was not read because the connection broke; `reason` is the error."""

    reason: Exception
    may_have_run: bool = True


_FAILED = (Exception, _Lost)  # the replies that are errors or were lost
REPLIES = (exceptions.ResponseError, exceptions.AuthenticationError, exceptions.BusyLoadingError)
"""The exceptions that redis-py raises for a reply. To redis-py the last two are ConnectionErrors too."""
BROKEN = (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse, OSError)
"""The exceptions that mean that no further reply will arrive on this connection."""

_without_read_only: WeakSet[Any] = WeakSet()
"""Connection pools whose server has no EVALSHA_RO, as Redis 6.2 and fakeredis."""


def _run_calls_on_connection(connection: Any, pool: Any, calls: Sequence[Any]) -> list[Any]:
    replies = _send_and_receive(connection, pack_calls(pool, calls), sum([call.reply_count for call in calls]))
    return _convert_replies_to_results(
        connection,
        pool,
        calls,
        _group_replies_by_call(calls, replies) if any([call.packed for call in calls]) else replies,
    )


def _convert_replies_to_results(connection: Any, pool: Any, calls: Sequence[Any], replies: list[Any]) -> list[Any]:
    """Convert raw replies to results. Calls whose script the server did not have are sent again first."""
    results = parse_all_replies(calls, replies)
    if results is not None:
        return results

    async def send_commands_and_read_replies(commands: Sequence[bytes]) -> list[Any]:
        return _send_and_receive(connection, commands)

    results = run_without_event_loop(resend_and_parse_replies(send_commands_and_read_replies, pool, calls, replies))
    if has_replica_refusal(results):
        connection.disconnect()
    return results


def pack_calls(pool: Any, calls: Sequence[Any]) -> list[bytes]:
    """Encode each call as a command that names its script by digest (EVALSHA).

    A pool with `sent_scripts` sends the text of each script once, so that no second round trip is needed on a server
    that does not have it.
    """
    enforced = any([call.script.read_only for call in calls]) and pool not in _without_read_only
    sent_scripts = getattr(pool, "sent_scripts", None)
    if sent_scripts is not None:
        return list(_pack_calls_with_text(calls, enforced, False, sent_scripts))
    return [_pack_call(call, enforced and call.script.read_only) for call in calls]


def _group_replies_by_call(calls: Sequence[Any], replies: Sequence[Any]) -> list[Any]:
    """Group raw replies by call. A call of several read commands gets a list of replies, or its first lost reply."""
    grouped_replies, position = [], 0
    for call in calls:
        call_replies, position = replies[position : position + call.reply_count], position + call.reply_count
        lost_reply = next((reply for reply in call_replies if isinstance(reply, _Lost)), None)
        grouped_replies.append((lost_reply or call_replies) if call.packed else call_replies[0])
    return grouped_replies


def append_lost_replies(replies: list[Any], count: int, reason: Exception) -> list[Any]:
    """Return the replies that arrived, followed by a placeholder for each of the `count` commands without a reply."""
    return [*replies, *([_Lost(reason)] * (count - len(replies)))]


def has_replica_refusal(results: Sequence[Any]) -> bool:
    """Return whether the server refused a call because it is a read-only replica.

    Then a new connection may reach the new primary.
    """
    return any(isinstance(result, ReplicaOnly) for result in results)


async def resend_and_parse_replies(
    exchange: Exchange, pool: Any, calls: Sequence[Any], replies: list[Any]
) -> list[Any]:
    """Return a reply or an error for each call.

    Commands that did not run because the server did not know the script are sent again on the same connection first.
    """
    await _resend_refused_texts(exchange, pool, calls, replies)
    await _resend_unknown_scripts(exchange, pool, calls, replies)
    return [await _build_call_result(exchange, call, reply) for call, reply in zip(calls, replies, strict=True)]


async def _resend_refused_texts(exchange: Exchange, pool: Any, calls: Sequence[Any], replies: list[Any]) -> None:
    """Send the calls again by digest whose text was refused, for a user who may run EVALSHA but not EVAL."""
    numbers = [i for i, reply in enumerate(replies) if _is_text_refused(reply)]
    if numbers and getattr(pool, "sent_scripts", None) is not None:
        pool.sent_scripts = None
        resent = await exchange(pack_calls(pool, [calls[i] for i in numbers]))
        for i, reply in zip(numbers, resent, strict=True):
            replies[i] = reply


def _is_text_refused(reply: Any) -> bool:
    return isinstance(reply, exceptions.NoPermissionError) and re.search("'eval(_ro)?'", str(reply)) is not None


async def _resend_unknown_scripts(exchange: Exchange, pool: Any, calls: Sequence[Any], replies: list[Any]) -> None:
    last_reply = replies[-1]
    enforced = pool not in _without_read_only
    # The first time one call sends the text of a script for all. Calls that fail again then each send the text.
    for each_in_full in (False, True):
        call_numbers = [i for i, reply in enumerate(replies) if _is_script_unknown(reply)]
        if not call_numbers:
            break
        if any(not isinstance(replies[i], exceptions.NoScriptError) for i in call_numbers):
            _without_read_only.add(pool)
            enforced = False
        if isinstance(last_reply, _Lost):
            new_replies: list[Any] = [_Lost(last_reply.reason, may_have_run=False)] * len(call_numbers)
        else:
            new_replies = await exchange(
                list(_pack_calls_with_text([calls[i] for i in call_numbers], enforced, each_in_full, set()))
            )
        last_reply = new_replies[-1]
        for i, reply in zip(call_numbers, new_replies, strict=True):
            replies[i] = reply


def parse_all_replies(calls: Sequence[Any], replies: Sequence[Any]) -> list[Any] | None:
    """Parse the raw replies of all calls, or return None if one of them is an error or was lost.

    `resend_and_parse_replies` handles such replies.
    """
    if any([isinstance(reply, _FAILED) for reply in replies]):
        return None
    return [_parse_call_reply(call, reply) for call, reply in zip(calls, replies, strict=True)]


def _pack_call(call: Any, read_only: bool) -> bytes:
    """Encode a call as a command that names its script by digest.

    redis-py's own encoder checks the type of each of up to ten thousand arguments; those of a call are always text and
    bytes.
    """
    if call.packed:
        return bytes(call.packed)
    opening = call.opening
    if opening is None:
        return _pack_words(call.build_command(read_only))
    opening_length = len(opening.argv)
    head = opening.heads.get(read_only)
    if head is None:
        words = call.build_command(read_only)
        common_words = words[: len(words) - len(call.argv) + opening_length]
        head = opening.heads[read_only] = _remove_word_count(_pack_words(common_words))
    tail = call.argv[opening_length:] if opening_length else call.argv
    word_count = 3 + len(opening.keys) + opening_length + len(tail)
    count = _COUNTS[word_count] if word_count < len(_COUNTS) else b"*%d\r\n" % word_count
    packed: bytes = count + head + _remove_word_count(_pack_words(tail))
    return packed


_COUNTS = [
    b"*%d\r\n" % count for count in range(64)
]  # the first line of a command, by its number of words; formatting one takes time


def _pack_words(words: Sequence[Wire]) -> bytes:
    packed: bytes = pack_command(tuple(words))  # type: ignore[arg-type]
    return packed


def _remove_word_count(packed: bytes) -> bytes:
    return packed[packed.index(b"\n") + 1 :]


def _pack_calls_with_text(
    calls: Sequence[Any], enforced: bool, each_in_full: bool, sent_digests: set[str]
) -> Iterator[bytes]:
    """Yield the encoded calls, with the text of each script only once: 10 000 copies of a text would be 60 MB.

    Scripts in `sent_digests` are named by digest; those sent as text are added.
    """
    for call in calls:
        read_only = enforced and call.script.read_only
        if call.packed or (call.script.sha in sent_digests and not each_in_full):
            yield _pack_call(call, read_only)
            continue
        sent_digests.add(call.script.sha)
        yield _pack_words(call.build_text_command(read_only))


def _is_script_unknown(reply: Any) -> bool:
    """Return whether Redis lacks the script (NOSCRIPT), or EVALSHA_RO or EVAL_RO. In all cases nothing ran."""
    if not isinstance(reply, exceptions.ResponseError):
        return False
    text = str(reply).lower()
    return isinstance(reply, exceptions.NoScriptError) or (
        "unknown command" in text and ("evalsha_ro" in text or "eval_ro" in text)
    )


_AS_EXPECTED: list[Any] = []
"""Returned instead of the replies if exactly the expected bytes arrived."""


def _send_and_receive(
    connection: Any,
    commands: Sequence[bytes],
    number: int = 0,
    line: PooledConnection | None = None,
    expected: bytes = b"",
) -> list[Any]:
    """Send encoded commands at once on one connection, and read `number` replies (0: one per command).

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
                    append_received_replies(connection, replies, number)
            except REPLIES as reply:
                replies.append(reply)
    except BROKEN as error:
        connection.disconnect()
        return append_lost_replies(replies, number, error)
    except BaseException:
        connection.disconnect()  # The next user of the connection would read the replies that have not arrived.
        raise
    return replies


def _parse_call_reply(call: Any, reply: Any) -> Any:
    try:
        return call.parse(reply)
    except (ScriptError, ServerError) as broken:
        return broken


async def _build_call_result(exchange: Exchange, call: Any, reply: Any) -> Any:
    if not isinstance(reply, _FAILED):
        return _parse_call_reply(call, reply)
    script = call.script
    if isinstance(reply, _Lost):
        may_have_run = reply.may_have_run and not script.read_only
        return script_errors.build_lost_reply_error(reply.reason, script.name, may_have_run, script.read_only)
    error = script_errors.build_reply_error(reply, script.name, script.path, script.source, script.read_only)
    if isinstance(error, Denied):
        return acl_denials.add_missing_right(error, str(reply), script.source, call.keys)
    return await _find_wrong_type_key(exchange, call, error) if isinstance(error, WrongType) else error


async def _find_wrong_type_key(exchange: Exchange, call: Any, error: RqtuiError) -> RqtuiError:
    """Find the key of a WrongType error: compare the TYPE of each key of the call with the script's header."""
    script, tail_keys = call.script, call.script.keys_each
    types = [key.type for key in script.keys]
    types += [key.type for key in tail_keys] * ((len(call.keys) - len(types)) // len(tail_keys) if tail_keys else 0)
    replies = await exchange([_pack_words((b"TYPE", key)) for key in call.keys])
    for key, expected, key_type in zip(call.keys, types, replies, strict=True):
        if (
            isinstance(key_type, bytes)
            and key_type != b"none"
            and expected not in ("any", "channel", key_type.decode())
        ):
            name = to_bytes(key)
            return script_errors.build_wrong_type_error(name, key_type.decode(), expected, script.read_only)
    return error
