"""Send script calls and read their replies on an asyncio loop; `rqtui.scripts.transport` interprets the replies.

A call that is cancelled before its reply arrived closes its connection; otherwise the next call would read the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from hiredis import pack_command
from redis import exceptions

from rqtui.aio.pool import Pool
from rqtui.client.durability import send_call_durably
from rqtui.connection.cluster import has_failover
from rqtui.connection.redis_errors import error_replies as script_errors
from rqtui.scripts.script import Call, Reply
from rqtui.scripts.transport import (
    BROKEN,
    REPLIES,
    append_lost_replies,
    has_moved_calls,
    has_replica_refusal,
    pack_calls,
    parse_all_replies,
    resend_and_parse_replies,
    resend_moved_calls,
)


async def run_call(pool: Pool, call: Call) -> Reply:
    """Send one script call and return its reply. Raises the errors that `script.send_calls` returns."""
    return unwrap_reply((await send_all_calls(pool, (call,)))[0])


async def send_all_calls(pool: Pool, calls: Sequence[Call]) -> list[Reply | Exception]:
    """Send script calls in one round trip.

    Returns a reply or an error per call, in order, as `script.send_calls` does.
    """
    return await _send_with_failover(pool, partial(_send_on_pooled_connection, pool), calls) if calls else []


async def execute_command(pool: Pool, *words: str | bytes | int) -> Any:
    """Send one Redis command that is safe to repeat, and return its reply. Raises the errors of redis-py."""
    async with _borrow_connection(pool) as connection:
        return await execute_on_connection(pool, connection, *words)


async def run_call_durably(pool: Pool, call: Call) -> Reply:
    """Run a call that puts jobs, then wait until its writes are on disk or on a replica.

    See `durability.send_call_durably`.
    """
    try:
        async with _borrow_connection(pool) as connection:

            async def send_calls(calls: Sequence[Call]) -> list[Any]:
                await pool.ensure_connected(connection)
                return await _send_on_connection(pool, connection, calls)

            async def send_call(call: Call) -> Reply:
                return unwrap_reply((await _send_with_failover(pool, send_calls, [call]))[0])

            return await send_call_durably(
                send_call, partial(execute_on_connection, pool, connection), call, has_failover(pool)
            )
    except (exceptions.RedisError, OSError) as error:  # from the connection; `send_durably` converts all other errors
        raise script_errors.build_connection_error(error) from error


def unwrap_reply(result: Reply | Exception) -> Reply:
    """Return the reply of a script call, or raise the error that was returned in its place."""
    if isinstance(result, Exception):
        raise result
    return result


async def _send_with_failover(
    pool: Pool, send_calls: Callable[[Sequence[Call]], Awaitable[list[Any]]], calls: Sequence[Call]
) -> list[Any]:
    results = await send_calls(calls)
    if has_moved_calls(results) and has_failover(pool):
        await resend_moved_calls(send_calls, calls, results)
    return results


async def _send_on_pooled_connection(pool: Pool, calls: Sequence[Call]) -> list[Any]:
    """Send script calls on a connection of the pool, which is open before: a later error means a lost reply."""
    try:
        connection = await pool.get_connection()
    except (exceptions.RedisError, OSError) as error:
        return [script_errors.build_connection_error(error) for _ in calls]
    try:
        return await _send_on_connection(pool, connection, calls)
    finally:
        await pool.release(connection)


async def _send_on_connection(pool: Pool, connection: Any, calls: Sequence[Call]) -> list[Any]:
    send_and_receive = partial(_send_and_receive, pool, connection)
    replies = await send_and_receive(pack_calls(pool, calls))
    results = parse_all_replies(calls, replies)
    if results is None:
        results = await resend_and_parse_replies(send_and_receive, pool, calls, replies)
        if has_replica_refusal(results):
            await connection.disconnect(nowait=True)
    return results


@asynccontextmanager
async def _borrow_connection(pool: Pool) -> AsyncIterator[Any]:
    connection = await pool.get_connection()
    try:
        yield connection
    finally:
        await pool.release(connection)


async def execute_on_connection(pool: Pool, connection: Any, *words: str | bytes | int) -> Any:
    """Send one Redis command on a given connection and return its reply. Raises the errors of redis-py."""
    [reply] = await _send_and_receive(pool, connection, [encode_command(*words)])
    if isinstance(reply, exceptions.RedisError):
        raise reply
    if reason := getattr(reply, "reason", None):
        raise reason
    return reply


def encode_command(*words: str | bytes | int) -> bytes:
    """Encode the words of a Redis command in the Redis protocol (RESP)."""
    packed: bytes = pack_command(tuple(str(word) if isinstance(word, int) else word for word in words))  # type: ignore[arg-type]
    return packed


async def _send_and_receive(pool: Pool, connection: Any, commands: Sequence[bytes]) -> list[Any]:
    """Send encoded commands at once and read one reply for each; errors and lost replies are in the list."""
    replies: list[Any] = []
    if not commands:
        return replies
    try:
        async with asyncio.timeout(pool.reply_s):
            await connection.send_packed_command([b"".join(commands)], check_health=False)
            for _ in commands:
                try:
                    replies.append(await connection.read_response(disconnect_on_error=False))
                except REPLIES as reply:
                    replies.append(reply)
    except BROKEN as error:
        await connection.disconnect(nowait=True)
        is_late = type(error) is TimeoutError
        return append_lost_replies(
            replies,
            len(commands),
            exceptions.TimeoutError(f"no reply within {pool.reply_s:g} s.") if is_late else error,
        )
    except BaseException:
        await connection.disconnect(nowait=True)  # replies are still on their way; the next call would read them
        raise
    return replies


async def shield_from_cancellation(timeout_s: float, run_step: Callable[[], Awaitable[Any]]) -> Any:
    """Await `run_step`; if the caller is cancelled, wait at most `timeout_s` for its end before raising."""
    task = asyncio.ensure_future(run_step())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            if not task.done():
                await asyncio.wait({task}, timeout=timeout_s)
        finally:  # a second cancellation ends this wait, and the task must not continue on its own
            if not task.cancel() and not task.cancelled():
                task.exception()  # otherwise asyncio logs that the task's exception was never retrieved
        raise
