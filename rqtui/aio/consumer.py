"""Consume jobs in an asyncio program: the behaviour of `rqtui.client.consumer`, awaited.

A task that is cancelled while it waits for jobs releases what it leased: the current round trip is awaited, and its
jobs are released. If the loop is left by `break`, a task of its own does the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from rqtui.aio.heartbeat import Heartbeat
from rqtui.aio.leased_job import Job, SettlingQueue
from rqtui.aio.pool import Pool
from rqtui.aio.transport import send_all_calls, shield_from_cancellation
from rqtui.aio.wakeup import WakeWaiter
from rqtui.client.consumer import CLOSE_S, ConsumedQueue, ConsumerLoop
from rqtui.errors import UsageError
from rqtui.scripts.script import Call, Reply

log = logging.getLogger("rqtui")


class _JobTakers:
    """The tasks that take jobs from a consumer's generator. If one fails or is cancelled, the generator is closed.

    Python closes a generator only when it is no longer referenced, and the traceback of an error may reference it for
    long.
    """

    jobs: weakref.ref[AsyncGenerator[Job, None]]

    def __init__(self) -> None:
        self._last_task: weakref.ref[asyncio.Task[Any]] | None = None

    def watch_current_task(self) -> None:
        """Watch the running task, which is about to get a job, and close the generator if the task fails."""
        task = asyncio.current_task()
        if task is not None and (self._last_task is None or self._last_task() is not task):
            self._last_task = weakref.ref(task)
            task.add_done_callback(self._close_after_failure)

    def _close_after_failure(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is None:
            return  # a task that ended well: `asyncio.wait_for(anext(jobs), …)` runs a task per job
        jobs = self.jobs()
        if jobs is not None:
            closing = asyncio.ensure_future(jobs.aclose())
            _closing_tasks.add(closing)
            closing.add_done_callback(_closing_tasks.discard)


_closing_tasks: set[asyncio.Future[None]] = set()  # an event loop has only weak references to its tasks


class AwaitedQueue(ConsumedQueue, SettlingQueue, Protocol):
    """The attributes and methods of a queue that an asyncio consumer needs."""

    pool: Pool


class Consumer(ConsumerLoop[Job]):
    """Leased jobs for `async for`, and an `async with` inside which leases are extended after the iteration too.

    `stop()` may be called from any thread and from a signal handler. Two tasks must not share one consumer.
    """

    _queue: AwaitedQueue
    _waiter: WakeWaiter
    _heartbeat: Heartbeat

    def __init__(self, queue: AwaitedQueue, *, stop: asyncio.Event | None = None, **options: Any) -> None:
        if stop is not None and not isinstance(stop, asyncio.Event):
            raise UsageError(
                f"stop is an asyncio.Event, not {type(stop).__name__}; stop() may be called from any thread."
            )
        super().__init__(queue, stop=stop, **options)
        self._stop_event = stop
        self._stop_watcher: asyncio.Task[None] | None = None
        self._leave_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._enter_count == 0 and self._leave_task is not None:
            await asyncio.wait({self._leave_task})  # the consumer is entered again while it still leaves
        if self._enter_count == 0:
            heartbeat_options = self._build_heartbeat_options()
            self._leave_task = None
            self._waiter = WakeWaiter(self._queue.pool, self._queue.keys["wake"])
            self._heartbeat = Heartbeat(
                self._send_calls,
                self._queue.call,
                self._outcomes,
                on_end=self._close_once_in_own_task,
                **heartbeat_options,
            )
            self._heartbeat.start()
            if self._stop_event is not None:
                self._stop_watcher = asyncio.create_task(self._interrupt_on_stop(self._stop_event), name="rqtui-stop")
        self._enter_count += 1  # last: what could not be entered is not inside
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._enter_count -= 1
        if self._enter_count:
            # An inner loop may have ended by `break`: Python closes its generator in a task, which needs two turns.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if self._enter_count == 0:
            await self._close_once_in_own_task()

    def __aiter__(self) -> AsyncGenerator[Job, None]:
        """Yield leased jobs one by one. However the loop ends, jobs that were not started are released."""
        takers = _JobTakers()
        jobs = self._yield_jobs(takers)
        takers.jobs = weakref.ref(jobs)
        return jobs

    async def _yield_jobs(self, takers: _JobTakers) -> AsyncGenerator[Job, None]:
        async with self:
            try:
                while await self._fill_job_buffer():
                    began_s = time.monotonic()
                    handed_out = 0
                    while self._start_next_job():
                        handed_out += 1
                        takers.watch_current_task()
                        # No name for the job in this frame: while it waits for more, it must not keep the job alive.
                        yield self._current  # type: ignore[misc]
                    self._current = None
                    self._resize_batch(handed_out, time.monotonic() - began_s)
            finally:
                self._current = None
                self._release_unstarted_jobs(len(self._buffer))

    async def _interrupt_on_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._waiter.interrupt()

    async def _send_calls(self, calls: Sequence[Call]) -> list[Reply | Exception]:
        return await send_all_calls(self._queue.pool, calls)

    def _build_leased_job(self, row: Sequence[Any], began_s: float) -> Job:
        return Job(self._queue, *row, sink=self._outcomes, began_s=began_s)

    async def _run_claim_round_trip(self) -> str:
        word: str = await shield_from_cancellation(CLOSE_S, super()._run_claim_round_trip)
        return word

    async def _run_with_timeout(self, run_step: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> bool:
        task = asyncio.create_task(run_step(), name="rqtui-hurry")
        await asyncio.wait({task}, timeout=timeout_s)
        return not task.cancel() and not task.cancelled()

    async def _close_once_in_own_task(self) -> None:
        """Close the consumer once, in a task of its own that continues if the caller is cancelled."""
        if self._leave_task is None:
            self._leave_task = asyncio.create_task(self._close(), name="rqtui-leave")
        await asyncio.wait({self._leave_task})

    async def _close(self) -> None:
        try:
            await super()._close()
        except asyncio.CancelledError:  # the event loop ends, which cancelled the calls: send them again
            await super()._close()
        if self._stop_watcher is not None:
            self._stop_watcher.cancel()
        await self._waiter.close()

    async def _send_final_calls(self) -> None:
        self._release_unstarted_jobs(len(self._buffer))  # the event loop may end before the generator does
        await self._heartbeat.close()
        await super()._send_final_calls()
