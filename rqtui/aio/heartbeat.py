"""Send heartbeats and extend leases in an asyncio task beside a consumer; see `rqtui.client.heartbeat`.

Code that blocks the event loop also blocks the heartbeats. A warning reports that once, with the seconds, because a
lease may end meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from rqtui.client.heartbeat import HeartbeatLoop

log = logging.getLogger("rqtui")

BLOCKED_S = 1.0  # a shorter delay of the event loop is not reported


class Heartbeat(HeartbeatLoop):
    """The heartbeat of an asyncio consumer, which runs in a task.

    `on_end` is awaited if the event loop cancels the task, so that the leased jobs are released.
    """

    def __init__(self, *args: Any, on_end: Callable[[], Awaitable[None]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._on_end = on_end
        self._wake_event = asyncio.Event()
        self._has_warned = False
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task: send the worker's first heartbeat at once, then continue until `close`."""
        self._task = asyncio.create_task(self._run_loop(), name="rqtui-heartbeat")

    async def close(self) -> None:
        """End the heartbeat's task, and return when none of its calls is pending."""
        self._is_closed = True
        self._wake_loop()
        if self._task is not None and not self._is_over:
            await asyncio.wait({self._task})

    async def _run_loop(self) -> None:
        try:
            while not self._is_closed:
                await self._run_step_and_log_errors()
                await self._wait_for_next_step()
        except asyncio.CancelledError:
            self._is_over = True
            await self._on_end()
            raise
        self._is_over = True

    def _wake_loop(self) -> None:
        self._wake_event.set()

    async def _wait_for_next_step(self) -> None:
        if self._is_closed:
            return
        wait_s = self._compute_rest_time_s()
        self._is_resting = not (self.leases or self._outcomes)
        began_s = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake_event.wait()
        self._wake_event.clear()
        self._is_resting = False
        self._warn_if_late(time.monotonic() - began_s - wait_s)

    def _warn_if_late(self, late_s: float) -> None:
        """Warn once if the event loop was blocked for long while leases were held."""
        if late_s > BLOCKED_S and self.leases and not self._has_warned:
            self._has_warned = True
            log.warning(
                "worker %s: the event loop was blocked for %.1f s; no lease was extended in that time, and jobs with "
                "an expired lease run again. Run blocking code on a thread: await asyncio.to_thread(…)",
                self._identity["worker"],
                late_s,
            )
