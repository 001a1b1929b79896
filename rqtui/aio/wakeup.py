"""Wait for new jobs on an event loop: for the wake marker and a local timer at once (the protocol: `lua/README.md`).

The asyncio form of `rqtui.client.wakeup`: `BZPOPMIN …:wake` is sent on a connection of its own, and a task reads the
reply, while a timer, a stop or an interrupt can end the wait. `consumer` uses this module. No script is run here.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis import exceptions

from rqtui.aio.pool import Pool
from rqtui.aio.transport import encode_command, execute_command, execute_on_connection
from rqtui.client import wakeup
from rqtui.client.wakeup import GRACE_S, UNBLOCK_LAG_S, WakeReason, translate_wait_error


class WakeWaiter:
    """Waits for new jobs on the wake key of a queue.

    Only `interrupt` may be called from other threads or signal handlers.
    """

    def __init__(self, pool: Pool, key: str) -> None:
        pool.check_event_loop()
        self._pool, self._key = pool, key
        self._loop = asyncio.get_running_loop()
        self._connection: Any = None
        self._reading: asyncio.Task[Any] | None = None  # the task that reads the reply to the pending BZPOPMIN
        self._client_id: int | None = None  # None: CLIENT UNBLOCK is not possible, so BZPOPMIN's timeout is the timer
        self._may_unblock = True
        self._requested_s = 0.0
        self._block_s = wakeup.BLOCK_S
        self._wake_event = asyncio.Event()  # something ends the wait: a reply, or an interrupt
        self._is_interrupted = False

    def interrupt(self) -> None:
        """End the current wait for new jobs, or the next one."""
        self._is_interrupted = True
        with contextlib.suppress(RuntimeError):  # the loop is closed, so there is no wait to end
            self._loop.call_soon_threadsafe(self._wake_event.set)

    async def wait(self, timer_s: float | None, stop: asyncio.Event | None = None) -> WakeReason:
        """Wait for the wake marker, for `timer_s` (None: no timer), for `stop` or `interrupt`.

        `stop` is only checked when the wait ends or continues; the consumer calls `interrupt` when it is set. After a
        reason other than MARKER and NOTHING, call `cancel_wait` before the next job is claimed. Raises Unreachable,
        Denied, ServerError.
        """
        if timer_s is not None and timer_s <= UNBLOCK_LAG_S and self._reading is None:
            return WakeReason.INTERRUPTED if await self.pause(timer_s, stop) else WakeReason.TIMER
        until_s = None if timer_s is None else time.monotonic() + timer_s
        async with self._translate_wait_errors():
            reading = await self._start_reading_reply(timer_s)
            if self._client_id is None:
                until_s = None  # the timeout of BZPOPMIN is the timer
            dead_s = self._requested_s + self._block_s + GRACE_S
            while True:
                if self._is_wait_interrupted(stop):
                    return WakeReason.INTERRUPTED
                if reading.done():
                    return self._read_wake_reply()
                now_s = time.monotonic()
                if until_s is not None and now_s >= until_s:
                    return WakeReason.TIMER
                if now_s > dead_s:
                    raise exceptions.ConnectionError("Redis does not answer any more.")
                await self._wait_for_event(min(dead_s, dead_s if until_s is None else until_s) - now_s)

    async def pause(self, seconds: float, stop: asyncio.Event | None = None) -> bool:
        """Wait some seconds without a request to Redis; return whether an interrupt or `stop` ended the wait."""
        until_s = time.monotonic() + seconds
        while not self._is_wait_interrupted(stop):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            await self._wait_for_event(left_s)
        return True

    async def cancel_wait(self) -> None:
        """End the pending BZPOPMIN, and put back a wake marker that it took at the last moment for other consumers."""
        if self._reading is None:
            return
        async with self._translate_wait_errors():
            while self._client_id is not None and not self._reading.done():
                await self._unblock_bzpopmin()
                if self._reading is None:
                    return
                await asyncio.wait({self._reading}, timeout=UNBLOCK_LAG_S)
            if self._client_id is None or self._reading.cancelled():  # cancelled: the loop ends
                await self._close_wake_connection()
                await self._set_wake_marker()  # BZPOPMIN may have taken the marker; a second one is harmless
            elif self._read_wake_reply() is WakeReason.MARKER:
                await self._set_wake_marker()

    async def restore_marker(self) -> None:
        """Put the wake marker back for another consumer, which then keeps the timer."""
        async with self._translate_wait_errors():
            await self._set_wake_marker()

    async def close(self) -> None:
        """Close the waiter's connection. No other method may be called afterwards."""
        await self._close_wake_connection()
        self._connection = None

    def _is_wait_interrupted(self, stop: asyncio.Event | None) -> bool:
        is_interrupted, self._is_interrupted = self._is_interrupted, False
        return is_interrupted or (stop is not None and stop.is_set())

    async def _wait_for_event(self, seconds: float) -> None:
        """Wait for a reply of Redis or an interrupt, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake_event.wait()
        self._wake_event.clear()

    async def _start_reading_reply(self, timer_s: float | None) -> asyncio.Task[Any]:
        """Send a BZPOPMIN unless one is pending; return the task that reads its reply."""
        if self._reading is not None:
            return self._reading
        await self._open_wake_connection()
        self._block_s = wakeup.BLOCK_S
        if self._client_id is None and timer_s is not None:
            self._block_s = max(0.01, min(wakeup.BLOCK_S, timer_s))  # 0 would block without a timeout
        command = encode_command("BZPOPMIN", self._key, f"{self._block_s:.3f}")
        await self._connection.send_packed_command([command], check_health=False)
        self._requested_s = time.monotonic()
        self._reading = asyncio.create_task(self._connection.read_response(), name="rqtui-wakeup")
        self._reading.add_done_callback(lambda _task: self._wake_event.set())
        return self._reading

    async def _open_wake_connection(self) -> None:
        if self._connection is None:
            self._connection = self._pool.create_extra_connection()
            self._client_id = None
        if self._connection.is_connected and self._client_id is not None:
            return
        await self._pool.ensure_connected(self._connection)
        try:
            self._client_id = int(await execute_on_connection(self._pool, self._connection, "CLIENT", "ID"))
        except exceptions.ResponseError:  # an ACL denies it
            self._client_id = None
        if not self._may_unblock:
            self._client_id = None

    def _read_wake_reply(self) -> WakeReason:
        assert self._reading is not None
        reading, self._reading = self._reading, None
        return WakeReason.NOTHING if reading.result() is None else WakeReason.MARKER

    async def _unblock_bzpopmin(self) -> None:
        try:
            await execute_command(self._pool, "CLIENT", "UNBLOCK", self._client_id or 0)
        except exceptions.ResponseError:  # an ACL denies it: from now on the timeout of BZPOPMIN is the timer
            await self._close_wake_connection()
            self._may_unblock = False
            await self._set_wake_marker()

    async def _set_wake_marker(self) -> None:
        await execute_command(self._pool, "ZADD", self._key, 0, "wake")

    async def _close_wake_connection(self) -> None:
        reading, self._reading = self._reading, None
        self._client_id = None
        if reading is not None and not reading.cancel() and not reading.cancelled():
            reading.exception()
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    @asynccontextmanager
    async def _translate_wait_errors(self) -> AsyncIterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            await self._close_wake_connection()
            raise translate_wait_error(error) from error
