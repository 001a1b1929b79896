"""Waiting for work on an event loop: the wake marker, a local timer, and both at once (the protocol: `lua/README.md`).

What `rqtui.client.wakeup` does with a selector: a `BZPOPMIN …:wake` on a connection of its own, whose reply a task
reads, while a timer, a stop or an interrupt may end the wait. Used by `consumer`; it runs no scripts.
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
from rqtui.aio.transport import execute, packed, told
from rqtui.client import wakeup
from rqtui.client.wakeup import GRACE_S, UNBLOCK_LAG_S, Woken, translated


class Doorbell:
    """One waiter on the wake key of a queue. Only `interrupt` may be called from another thread or a signal handler."""

    def __init__(self, pool: Pool, key: str) -> None:
        pool.belong()
        self._pool, self._key = pool, key
        self._loop = asyncio.get_running_loop()
        self._connection: Any = None
        self._reading: asyncio.Task[Any] | None = None  # of the reply to the BZPOPMIN under way
        self._client_id: int | None = None  # None: nobody can be unblocked, so the server keeps the time
        self._may_unblock = True
        self._asked_s = 0.0
        self._asks_s = wakeup.BLOCK_S
        self._rung = asyncio.Event()  # something ends the wait: a reply, or an interrupt
        self._is_interrupted = False

    def interrupt(self) -> None:
        """End the wait under way, or the next one."""
        self._is_interrupted = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, timer_s: float | None, stop: asyncio.Event | None = None) -> Woken:
        """Wait for the marker, for `timer_s` (None: no timer), for `stop`, which the consumer watches, or `interrupt`.

        After anything but MARKER and NOTHING call `withdraw` before working. Raises Unreachable, Denied, ServerError.
        """
        if timer_s is not None and timer_s <= UNBLOCK_LAG_S and self._reading is None:
            return Woken.INTERRUPTED if await self.pause(timer_s, stop) else Woken.TIMER
        until_s = None if timer_s is None else time.monotonic() + timer_s
        async with self._errors_translated():
            reading = await self._asking(timer_s)
            if self._client_id is None:
                until_s = None  # the server's own time-out is the timer
            dead_s = self._asked_s + self._asks_s + GRACE_S
            while True:
                if self._ends(stop):
                    return Woken.INTERRUPTED
                if reading.done():
                    return self._read()
                now_s = time.monotonic()
                if until_s is not None and now_s >= until_s:
                    return Woken.TIMER
                if now_s > dead_s:
                    raise exceptions.ConnectionError("Redis does not answer any more.")
                await self._rest(min(dead_s, dead_s if until_s is None else until_s) - now_s)

    async def pause(self, seconds: float, stop: asyncio.Event | None = None) -> bool:
        """Wait without asking Redis; True when interrupted or stopped before the time was over."""
        until_s = time.monotonic() + seconds
        while not self._ends(stop):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            await self._rest(left_s)
        return True

    async def withdraw(self) -> None:
        """End the BZPOPMIN under way, and put a marker back that it took at the last moment: others wait for it."""
        if self._reading is None:
            return
        async with self._errors_translated():
            while self._client_id is not None and not self._reading.done():
                await self._unblock()
                if self._reading is None:
                    return
                await asyncio.wait({self._reading}, timeout=UNBLOCK_LAG_S)
            if self._client_id is None or self._reading.cancelled():  # cancelled: the loop ends
                await self._disconnect()
                await self._set_marker()  # it may have taken the marker; one too many does no harm
            elif self._read() is Woken.MARKER:
                await self._set_marker()

    async def pass_on(self) -> None:
        """Leave the marker for another consumer, which then holds the timer."""
        async with self._errors_translated():
            await self._set_marker()

    async def close(self) -> None:
        """Give the connection back; the last call."""
        await self._disconnect()
        self._connection = None

    def _ends(self, stop: asyncio.Event | None) -> bool:
        is_interrupted, self._is_interrupted = self._is_interrupted, False
        return is_interrupted or (stop is not None and stop.is_set())

    async def _rest(self, seconds: float) -> None:
        """Until a reply, an interrupt, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._rung.wait()
        self._rung.clear()

    async def _asking(self, timer_s: float | None) -> asyncio.Task[Any]:
        """Have a BZPOPMIN under way, and its reply read."""
        if self._reading is not None:
            return self._reading
        await self._connect()
        self._asks_s = wakeup.BLOCK_S
        if self._client_id is None and timer_s is not None:
            self._asks_s = max(0.01, min(wakeup.BLOCK_S, timer_s))  # 0 would mean for ever
        command = packed("BZPOPMIN", self._key, f"{self._asks_s:.3f}")
        await self._connection.send_packed_command([command], check_health=False)
        self._asked_s = time.monotonic()
        self._reading = asyncio.create_task(self._connection.read_response(), name="rqtui-wakeup")
        self._reading.add_done_callback(lambda _task: self._rung.set())
        return self._reading

    async def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._pool.extra()
            self._client_id = None
        if self._connection.is_connected and self._client_id is not None:
            return
        await self._pool.ready(self._connection)
        try:
            self._client_id = int(await told(self._pool, self._connection, "CLIENT", "ID"))
        except exceptions.ResponseError:  # an ACL denies it
            self._client_id = None
        if not self._may_unblock:
            self._client_id = None

    def _read(self) -> Woken:
        assert self._reading is not None
        reading, self._reading = self._reading, None
        return Woken.NOTHING if reading.result() is None else Woken.MARKER

    async def _unblock(self) -> None:
        try:
            await execute(self._pool, "CLIENT", "UNBLOCK", self._client_id or 0)
        except exceptions.ResponseError:  # an ACL denies it: from now on the server keeps the time
            await self._disconnect()
            self._may_unblock = False
            await self._set_marker()

    async def _set_marker(self) -> None:
        await execute(self._pool, "ZADD", self._key, 0, "wake")

    async def _disconnect(self) -> None:
        reading, self._reading = self._reading, None
        self._client_id = None
        if reading is not None and not reading.cancel() and not reading.cancelled():
            reading.exception()
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    @asynccontextmanager
    async def _errors_translated(self) -> AsyncIterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            await self._disconnect()
            raise translated(error) from error
