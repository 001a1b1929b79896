"""Transport on an event loop: how bytes travel; what they mean says `rqtui.scripts.transport`.

A call that is cancelled before its reply came closes its connection: the reply would be read by the next one.
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
from rqtui.client.durability import durably
from rqtui.connection.cluster import has_failover
from rqtui.scripts import replies as script_errors
from rqtui.scripts.script import Answer, Call
from rqtui.scripts.transport import (
    BROKEN,
    REPLIES,
    answers,
    completed,
    first_tries,
    follow,
    is_demoted,
    is_elsewhere,
    lost,
)


async def run(pool: Pool, call: Call) -> Answer:
    """Send one call and return its answer. Raises the errors of `script.run_all`."""
    return raised((await run_all(pool, (call,)))[0])


async def run_all(pool: Pool, calls: Sequence[Call]) -> list[Answer | Exception]:
    """Send calls in one trip; an answer or an error for each, in order, as `script.run_all` gives them."""
    return await _followed(pool, partial(_trip, pool), calls) if calls else []


async def execute(pool: Pool, *words: str | bytes | int) -> Any:
    """One command that does no harm when it is sent again. Raises the errors of redis-py."""
    async with _connection(pool) as connection:
        return await told(pool, connection, *words)


async def run_durably(pool: Pool, call: Call) -> Answer:
    """Run `call`, then wait until its writes are on disk or on a replica; see `durability.durably`."""
    try:
        async with _connection(pool) as connection:

            async def trip(calls: Sequence[Call]) -> list[Any]:
                await pool.ready(connection)
                return await _run_on(pool, connection, calls)

            async def send(call: Call) -> Answer:
                return raised((await _followed(pool, trip, [call]))[0])

            return await durably(send, partial(told, pool, connection), call, has_failover(pool))
    except (exceptions.RedisError, OSError) as error:  # of the rest, `durably` makes ours
        raise script_errors.from_connecting(error) from error


def raised(result: Answer | Exception) -> Answer:
    """An answer; an error is raised."""
    if isinstance(result, Exception):
        raise result
    return result


async def _followed(
    pool: Pool, trip: Callable[[Sequence[Call]], Awaitable[list[Any]]], calls: Sequence[Call]
) -> list[Any]:
    results = await trip(calls)
    if is_elsewhere(results) and has_failover(pool):
        await follow(trip, calls, results)
    return results


async def _trip(pool: Pool, calls: Sequence[Call]) -> list[Any]:
    """Send them on a connection that is established, so that what fails later has been sent."""
    try:
        connection = await pool.get_connection()
    except (exceptions.RedisError, OSError) as error:
        return [script_errors.from_connecting(error) for _ in calls]
    try:
        return await _run_on(pool, connection, calls)
    finally:
        await pool.release(connection)


async def _run_on(pool: Pool, connection: Any, calls: Sequence[Call]) -> list[Any]:
    exchange = partial(_exchange, pool, connection)
    replies = await exchange(first_tries(pool, calls))
    results = answers(calls, replies)
    if results is None:
        results = await completed(exchange, pool, calls, replies)
        if is_demoted(replies):
            await connection.disconnect(nowait=True)
    return results


@asynccontextmanager
async def _connection(pool: Pool) -> AsyncIterator[Any]:
    connection = await pool.get_connection()
    try:
        yield connection
    finally:
        await pool.release(connection)


async def told(pool: Pool, connection: Any, *words: str | bytes | int) -> Any:
    """The reply to one command. Raises the errors of redis-py."""
    [reply] = await _exchange(pool, connection, [packed(*words)])
    if isinstance(reply, exceptions.RedisError):
        raise reply
    if reason := getattr(reply, "reason", None):
        raise reason
    return reply


def packed(*words: str | bytes | int) -> bytes:
    """A command as it goes over the wire."""
    made: bytes = pack_command(tuple(str(word) if isinstance(word, int) else word for word in words))  # type: ignore[arg-type]
    return made


async def _exchange(pool: Pool, connection: Any, commands: Sequence[bytes]) -> list[Any]:
    """Send packed commands at once and read as many replies; errors stand among them, and what `lost` makes."""
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
        return lost(
            replies,
            len(commands),
            exceptions.TimeoutError(f"no reply within {pool.reply_s:g} s.") if is_late else error,
        )
    except BaseException:
        await connection.disconnect(nowait=True)  # replies are still on their way; the next call would read them
        raise
    return replies


async def undisturbed(most_s: float, doing: Callable[[], Awaitable[Any]]) -> Any:
    """What `doing` gives; a cancelled caller waits for its end, so long at most, before it is cancelled."""
    task = asyncio.ensure_future(doing())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            if not task.done():
                await asyncio.wait({task}, timeout=most_s)
        finally:  # who is cancelled once more waits no longer, and leaves nothing under way
            if not task.cancel() and not task.cancelled():
                task.exception()  # it is looked at, so that nobody is told that it was not
        raise
