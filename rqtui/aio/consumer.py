"""The consumer of an event loop: what `rqtui.client.consumer` does, awaited.

A task that is cancelled while it waits for jobs gives back what it leased: the trip under way is awaited, and what it
brought is released. Whoever leaves the loop by `break` is followed by a task of its own that does the same.
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
from rqtui.aio.leased_job import Home, Job
from rqtui.aio.pool import Pool
from rqtui.aio.transport import run_all, undisturbed
from rqtui.aio.wakeup import Doorbell
from rqtui.client.consumer import CLOSE_S, ConsumerLoop, Source
from rqtui.errors import UsageError
from rqtui.scripts.script import Answer, Call

log = logging.getLogger("rqtui")


class _Users:
    """The tasks that take jobs of a generator: one that fails or is cancelled between two jobs closes it.

    Python closes it when nobody holds it any more, and the traceback of what happened may hold it for long.
    """

    jobs: weakref.ref[AsyncGenerator[Job, None]]

    def __init__(self) -> None:
        self._last: weakref.ref[asyncio.Task[Any]] | None = None

    def watch(self) -> None:
        """The task that runs now is handed a job."""
        task = asyncio.current_task()
        if task is not None and (self._last is None or self._last() is not task):
            self._last = weakref.ref(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is None:
            return  # `asyncio.wait_for(anext(jobs), …)` is a task for each job
        jobs = self.jobs()
        if jobs is not None:
            closing = asyncio.ensure_future(jobs.aclose())
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)


_closing: set[asyncio.Future[None]] = set()  # a loop itself keeps no task alive


class AwaitedSource(Source, Home, Protocol):
    """The queue of a consumer that is awaited."""

    pool: Pool


class Consumer(ConsumerLoop[Job]):
    """Jobs for `async for`, and an `async with`: inside it held leases beat, also after the iteration has ended.

    `stop()` may be called from any thread and from a signal handler. Not for two tasks at once: make one each.
    """

    _queue: AwaitedSource
    _bell: Doorbell
    _heart: Heartbeat

    def __init__(self, queue: AwaitedSource, *, stop: asyncio.Event | None = None, **options: Any) -> None:
        if stop is not None and not isinstance(stop, asyncio.Event):
            raise UsageError(
                f"stop is an asyncio.Event, not {type(stop).__name__}; stop() may be called from any thread."
            )
        super().__init__(queue, stop=stop, **options)
        self._stop_event = stop
        self._watching: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._depth == 0 and self._leaving is not None:
            await asyncio.wait({self._leaving})  # it is used again while it leaves
        if self._depth == 0:
            told = self._open()
            self._leaving = None
            self._bell = Doorbell(self._queue.pool, self._queue.keys["wake"])
            self._heart = Heartbeat(self._send, self._queue.call, self._outbox, on_end=self._leave, **told)
            self._heart.start()
            if self._stop_event is not None:
                self._watching = asyncio.create_task(self._watch(self._stop_event), name="rqtui-stop")
        self._depth += 1  # last: what could not be entered is not inside
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if (
            self._depth
        ):  # a loop inside that was left by `break`: Python closes its generator in a task, which begins now
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if self._depth == 0:
            await self._leave()

    def __aiter__(self) -> AsyncGenerator[Job, None]:
        """Jobs, one by one. Ending the loop in whatever way gives back what was not begun."""
        users = _Users()
        jobs = self._jobs(users)
        users.jobs = weakref.ref(jobs)
        return jobs

    async def _jobs(self, users: _Users) -> AsyncGenerator[Job, None]:
        async with self:
            try:
                while await self._fill():
                    began_s = time.monotonic()
                    handed_out = 0
                    while self._next():
                        handed_out += 1
                        users.watch()
                        # No name for the job in this frame: while it waits for more, it must not keep the job alive.
                        yield self._current  # type: ignore[misc]
                    self._current = None
                    self._resize(handed_out, time.monotonic() - began_s)
            finally:
                self._current = None
                self._give_back(len(self._buffer))

    async def _watch(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._bell.interrupt()

    async def _send(self, calls: Sequence[Call]) -> list[Answer | Exception]:
        return await run_all(self._queue.pool, calls)

    def _job(self, row: Sequence[Any], began_s: float) -> Job:
        return Job(self._queue, *row, post=self._outbox, began_s=began_s)

    async def _trip(self) -> str:
        word: str = await undisturbed(CLOSE_S, super()._trip)
        return word

    async def _hurry(self, saying: Callable[[], Coroutine[Any, Any, None]], most_s: float) -> bool:
        task = asyncio.create_task(saying(), name="rqtui-hurry")
        await asyncio.wait({task}, timeout=most_s)
        return not task.cancel() and not task.cancelled()

    async def _leave(self) -> None:
        """Leave once, in a task of its own: it goes on where the caller is cancelled meanwhile."""
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._close(), name="rqtui-leave")
        await asyncio.wait({self._leaving})

    async def _close(self) -> None:
        try:
            await super()._close()
        except asyncio.CancelledError:  # the loop ends; what was under way goes once more
            await super()._close()
        if self._watching is not None:
            self._watching.cancel()
        await self._bell.close()

    async def _say_goodbye(self) -> None:
        self._give_back(len(self._buffer))  # where the loop ends before the generator does
        await self._heart.close()
        await super()._say_goodbye()
