"""The task beside a consumer: beats and extends leases while the event loop runs; see `rqtui.client.heartbeat`.

A function that blocks the loop blocks the beats: that is told once, with the seconds, since a lease may end meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from rqtui.client.heartbeat import Beats

log = logging.getLogger("rqtui")

STILL_S = 1.0  # so late must the loop come back to be told of


class Heartbeat(Beats):
    """The task; `on_end` is awaited when the loop ends it: nobody else may have told Redis what is held."""

    def __init__(self, *words: Any, on_end: Callable[[], Awaitable[None]], **options: Any) -> None:
        super().__init__(*words, **options)
        self._on_end = on_end
        self._nudge = asyncio.Event()
        self._is_told = False
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Beat at once, then go on until `close`."""
        self._task = asyncio.create_task(self._run(), name="rqtui-heartbeat")

    async def close(self) -> None:
        """End the task; returns when nothing it sent is under way any more."""
        self._is_closed = True
        self._wake()
        if self._task is not None and not self._is_over:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while not self._is_closed:
                await self._looked()
                await self._rest()
        except asyncio.CancelledError:
            self._is_over = True
            await self._on_end()
            raise
        self._is_over = True

    def _wake(self) -> None:
        self._nudge.set()

    async def _rest(self) -> None:
        if self._is_closed:
            return
        wait_s = self._rest_s()
        self._is_resting = not (self.held or self._outbox)
        began_s = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._nudge.wait()
        self._nudge.clear()
        self._is_resting = False
        self._notice(time.monotonic() - began_s - wait_s)

    def _notice(self, late_s: float) -> None:
        """Tell once that the loop stood still while leases were held."""
        if late_s > STILL_S and self.held and not self._is_told:
            self._is_told = True
            log.warning(
                "worker %s: the event loop stood still for %.1f s; meanwhile no lease was extended, and a lease that "
                "ends is given to others. Run what blocks on a thread: await asyncio.to_thread(…)",
                self._identity["worker"],
                late_s,
            )
