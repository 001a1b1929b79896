"""Transport: sends calls of scripts in one trip and reads the replies; it alone knows redis-py's errors.

`script.run_all` hands it `script.Call`s. Nothing is sent again after a connection broke. What is said by replies, and
what has to be sent again, does not depend on how bytes travel: `rqtui.aio.transport` sends them on an event loop.
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
from rqtui.connection.arrived import take_arrived
from rqtui.connection.cluster import Cluster
from rqtui.connection.pool import Line, Pool, reconnect_if_stale
from rqtui.coroutines import run_at_once
from rqtui.errors import Denied, Elsewhere, NodeAway, RqtuiError, ScriptError, Unreachable, WrongType
from rqtui.scripts import acl_denials
from rqtui.scripts import replies as script_errors
from rqtui.scripts.values import Wire
from rqtui.text.names import to_bytes

Exchange = Callable[[Sequence[bytes]], Awaitable[list[Any]]]
"""Sends packed commands and gives as many replies; errors stand among them, and `lost` ones."""

MOVES = 3  # a slot may move again while it is followed; more than that is a Cluster that does not know itself


def send(client: Redis | Cluster, calls: Sequence[Any]) -> list[Any]:
    """An answer or an error for each call, in order; see `script.run_all`.

    What a node of a Cluster did not do since another has the queue by now is sent to that one.
    """
    trip: Callable[[Any, Sequence[Any]], list[Any]] = _send_to_nodes if isinstance(client, Cluster) else _send_to_one
    results = trip(client, calls)
    if is_elsewhere(results) and topology.follows(client):

        async def again(moved: Sequence[Any]) -> list[Any]:
            return trip(client, moved)

        run_at_once(follow(again, calls, results))
    return results


def run(client: Redis | Cluster, call: Any) -> Any:
    """Send one call and return its answer; see `script.run`."""
    result = send_one(client, call)
    if isinstance(result, Exception):
        raise result
    return result


def send_one(client: Redis | Cluster, call: Any) -> Any:
    """An answer or an error for one call, as `send` gives it.

    The bytes that say that it happened are known before they come; where nothing but bytes passes, they are looked at
    as they are. Whatever else comes goes the way of all replies.
    """
    pool: Any = None if isinstance(client, Cluster) or client.connection is not None else client.connection_pool
    done = call.script.done_answer(call.row_count)
    if type(pool) is not Pool or not pool.only_passes_bytes or done is None:
        return send(client, (call,))[0]
    try:
        line = pool.take()
    except exceptions.RedisError as error:
        return script_errors.from_connecting(error)
    try:
        expected, answer = done
        replies = _exchange(line.connection, (_packed(call, False),), 1, line if line.is_plain else None, expected)
        return answer if replies is _AS_EXPECTED else _told(line.connection, pool, (call,), replies)[0]
    finally:
        pool.give_back(line)


def is_elsewhere(results: Sequence[Any]) -> bool:
    """Whether another node has the keys of some call by now."""
    return any([isinstance(result, Elsewhere) for result in results])


async def follow(
    trip: Callable[[Sequence[Any]], Awaitable[list[Any]]], calls: Sequence[Any], results: list[Any]
) -> None:
    """Sends again what another node has by now, and puts what it answers among `results`."""
    for _ in range(MOVES):
        moved = [i for i, result in enumerate(results) if isinstance(result, Elsewhere)]
        if not moved:
            break
        for i, result in zip(moved, await trip([calls[i] for i in moved]), strict=True):
            results[i] = result


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
    """Send them on a connection that is established, so that what fails later has been sent.

    redis-py raises the same errors for both, and sends again where its retries are on; hence not `execute_command`.
    """
    own: Any = client.connection
    if own is not None:  # single_connection_client=True: the pool's own check of a stale connection is ours to make
        lock: threading.RLock = client.single_connection_lock
        with lock:
            try:
                reconnect_if_stale(own)
            except exceptions.RedisError as error:
                return [script_errors.from_connecting(error) for _ in calls]
            return _run_on(own, client.connection_pool, calls)
    pool: Any = client.connection_pool
    try:
        connection = pool.get_connection()
    except exceptions.RedisError as error:
        return [script_errors.from_connecting(error) for _ in calls]
    try:
        return _run_on(connection, pool, calls)
    finally:
        pool.release(connection)


@dataclass(frozen=True, slots=True)
class _Lost:
    """In place of a reply: the connection broke, for this reason, before it was read."""

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
    replies = _exchange(connection, first_tries(pool, calls), sum([call.replies for call in calls]))
    return _told(connection, pool, calls, _by_call(calls, replies) if any([call.packed for call in calls]) else replies)


def _told(connection: Any, pool: Any, calls: Sequence[Any], replies: list[Any]) -> list[Any]:
    """What the replies to these calls say, after what has to be sent again."""
    results = answers(calls, replies)
    if results is not None:
        return results

    async def exchange(commands: Sequence[bytes]) -> list[Any]:
        return _exchange(connection, commands)

    results = run_at_once(completed(exchange, pool, calls, replies))
    if is_demoted(replies):
        connection.disconnect()
    return results


def first_tries(pool: Any, calls: Sequence[Any]) -> list[bytes]:
    """The commands of these calls by digest, as they go over the wire."""
    enforced = any([call.script.read_only for call in calls]) and pool not in _without_read_only
    return [_packed(call, enforced and call.script.read_only) for call in calls]


def _by_call(calls: Sequence[Any], replies: Sequence[Any]) -> list[Any]:
    """A reply for each call: of plain reads the list of theirs, or what stands for one that never came."""
    found, at = [], 0
    for call in calls:
        theirs, at = replies[at : at + call.replies], at + call.replies
        missing = next((reply for reply in theirs if isinstance(reply, _Lost)), None)
        found.append((missing or theirs) if call.packed else theirs[0])
    return found


def lost(replies: list[Any], count: int, reason: Exception) -> list[Any]:
    """The replies that came, and what stands for those of `count` commands that did not."""
    return [*replies, *([_Lost(reason)] * (count - len(replies)))]


def is_demoted(replies: Sequence[Any]) -> bool:
    """Whether a server answered that it is a replica by now: by its name another one may be found."""
    return any(isinstance(reply, exceptions.ReadOnlyError) for reply in replies)


async def completed(exchange: Exchange, pool: Any, calls: Sequence[Any], replies: list[Any]) -> list[Any]:
    """What `replies` say, an answer or an error for each call; what did not run since the server did not know it is
    sent again on the same connection, and its reply put in its place."""
    await _complete(exchange, pool, calls, replies)
    return [await _result(exchange, call, reply) for call, reply in zip(calls, replies, strict=True)]


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


def answers(calls: Sequence[Any], replies: Sequence[Any]) -> list[Any] | None:
    """What `replies` say where all of them are answers of scripts; else None, and `completed` has to look."""
    if any([isinstance(reply, _FAILED) for reply in replies]):
        return None
    return [_parsed(call, reply) for call, reply in zip(calls, replies, strict=True)]


def _packed(call: Any, read_only: bool) -> bytes:
    """The command by digest as it goes over the wire.

    redis-py's own packing looks at the type of each of ten thousand arguments; ours are text and bytes.
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
        head = opening.heads[read_only] = _without_count(_pack(whole[: len(whole) - len(call.argv) + at]))
    tail = call.argv[at:] if at else call.argv
    words = 3 + len(opening.keys) + at + len(tail)
    count = _COUNTS[words] if words < len(_COUNTS) else b"*%d\r\n" % words
    packed: bytes = count + head + _without_count(_pack(tail))
    return packed


_COUNTS = [b"*%d\r\n" % count for count in range(64)]  # how a command begins; to print one is dear


def _pack(words: Sequence[Wire]) -> bytes:
    packed: bytes = pack_command(tuple(words))  # type: ignore[arg-type]
    return packed


def _without_count(packed: bytes) -> bytes:
    return packed[packed.index(b"\n") + 1 :]


def _with_text(calls: Sequence[Any], enforced: bool, each_in_full: bool) -> Iterator[bytes]:
    """The commands of these calls, the first of each script with its text: ten thousand texts are 60 MB."""
    known: set[str] = set()
    for call in calls:
        is_in_full = each_in_full or call.script.sha not in known
        known.add(call.script.sha)
        read_only = enforced and call.script.read_only
        yield _pack(call.command_in_full(read_only)) if is_in_full else _packed(call, read_only)


def _is_unknown_to_server(reply: Any) -> bool:
    """NOSCRIPT, or a server without read-only calls: in both cases nothing ran."""
    if not isinstance(reply, exceptions.ResponseError):
        return False
    text = str(reply).lower()
    return isinstance(reply, exceptions.NoScriptError) or ("unknown command" in text and "evalsha_ro" in text)


_AS_EXPECTED: list[Any] = []
"""In place of the replies: what was expected came."""


def _exchange(
    connection: Any, commands: Sequence[bytes], number: int = 0, line: Line | None = None, expected: bytes = b""
) -> list[Any]:
    """Send packed commands at once and read `number` replies (0: as many as they are); errors stand among them, `_Lost`
    where none came.

    With a plain `line` of this connection `_AS_EXPECTED`, when exactly the bytes `expected` came.
    """
    replies: list[Any] = []
    number = number or len(commands)
    if not commands:
        return replies
    try:
        connection.send_packed_command([b"".join(commands)], check_health=False)
        if line is not None and line.reads(expected):
            return _AS_EXPECTED
        while len(replies) < number:
            try:
                replies.append(connection.read_response(disconnect_on_error=False))
                if len(replies) < number:
                    take_arrived(connection, replies, number)
            except REPLIES as reply:
                replies.append(reply)
    except BROKEN as error:
        connection.disconnect()
        return lost(replies, number, error)
    except BaseException:
        connection.disconnect()  # replies are still on their way; the next user of the connection would read them
        raise
    return replies


def _parsed(call: Any, reply: Any) -> Any:
    try:
        return call.parse(reply)
    except ScriptError as broken:
        return broken


async def _result(exchange: Exchange, call: Any, reply: Any) -> Any:
    if not isinstance(reply, _FAILED):
        return _parsed(call, reply)
    script = call.script
    if isinstance(reply, _Lost):
        may_have_run = reply.may_have_run and not script.read_only
        return script_errors.from_lost_reply(reply.reason, script.name, may_have_run, script.read_only)
    error = script_errors.from_reply(reply, script.name, script.path, script.source, script.read_only)
    if isinstance(error, Denied):
        return acl_denials.named(error, str(reply), script.source, call.keys)
    return await _with_key(exchange, call, error) if isinstance(error, WrongType) else error


async def _with_key(exchange: Exchange, call: Any, error: RqtuiError) -> RqtuiError:
    """A WrongType that names the key: TYPE of each is asked and compared with the header."""
    script, each = call.script, call.script.keys_each
    types = [key.type for key in script.keys]
    types += [key.type for key in each] * ((len(call.keys) - len(types)) // len(each) if each else 0)
    replies = await exchange([_pack((b"TYPE", key)) for key in call.keys])
    for key, expected, found in zip(call.keys, types, replies, strict=True):
        if isinstance(found, bytes) and found != b"none" and expected not in ("any", "channel", found.decode()):
            name = to_bytes(key)
            return script_errors.wrong_type(name, found.decode(), expected, script.read_only)
    return error
