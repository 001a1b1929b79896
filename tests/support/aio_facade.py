"""Blocking facades of `rqtui.aio` with the methods of `rqtui.client`. An event loop on a thread awaits the results.

So one test can check both: the fixture `kind` is a class that is created and used like `rqtui.client.Queue`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Self, TypeVar

from waiting import PATIENCE_S

from rqtui import aio
from rqtui.aio.pool import build_pool
from rqtui.aio.wakeup import WakeWaiter
from rqtui.client.codecs import JSON, Codec

T = TypeVar("T")
POLL_S = 0.005  # between two reads of a thread's event on the loop
HANGS_S = 120.0  # no test takes so long, on a busy machine either


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Let pytest run an asynchronous test, whose arguments stay fixtures."""

    @functools.wraps(test)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **options), HANGS_S))

    return run


async def until(predicate: Callable[[], T], what: str = "") -> T:
    """Call `predicate` until it returns a true value, and return that value. Fail after `PATIENCE_S`."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (value := predicate()):
        assert time.monotonic() < deadline_s, f"{what or predicate} did not come true; last: {value!r}"
        await asyncio.sleep(POLL_S)
    return value


class Event(asyncio.Event):
    """An event of a loop that is set when the event of a thread is."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        return self._stop.is_set()


class Loop:
    """An event loop on a thread, which runs until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, awaitable: Any) -> Any:
        """Await `awaitable` on the loop and return its result. Raises its error."""

        async def wait() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result()

    def call(self, make: Any, *args: Any) -> Any:
        """Call `make` on the loop and return its result."""

        async def call() -> Any:
            return make(*args)

        return self.run(call())

    def event(self, stop: threading.Event) -> asyncio.Event:
        """Create an event of the loop that is set when `stop` is."""
        event: Event = self.call(Event, stop)

        async def follow() -> None:
            while not stop.is_set():
                await asyncio.sleep(POLL_S)
            event.set()

        self._following = asyncio.run_coroutine_threadsafe(follow(), self._loop)
        return event

    @classmethod
    def of_this_thread(cls) -> Loop:
        """Return the loop that all queues of this thread share, so that a job can be passed between them."""
        if not getattr(_thread_loops, "users", 0):
            _thread_loops.loop, _thread_loops.users = cls(), 0
        _thread_loops.users += 1
        loop: Loop = _thread_loops.loop
        return loop

    def leave(self) -> None:
        """Remove one user of the shared loop, and close the loop after the last."""
        _thread_loops.users -= 1
        if not _thread_loops.users:
            self.close()

    def close(self) -> None:
        """Cancel and await all tasks, as `asyncio.run` does, and end the thread."""

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.get_running_loop().shutdown_asyncgens()

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


_thread_loops = threading.local()


class _BlockingFacade:
    """A facade that forwards to `_wrapped`, awaits results on the loop, and wraps jobs in facades."""

    _loop: Loop
    _wrapped: Any

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._wrapped, name)
        if not inspect.ismethod(attribute):
            return attribute

        def call(*args: Any, **options: Any) -> Any:
            if isinstance(options.get("stop"), threading.Event):
                options["stop"] = self._loop.event(options["stop"])
            result = attribute(*map(_unwrap, args), **options)
            if inspect.isasyncgen(result):
                return self._iterate(result)
            if inspect.isawaitable(result):
                result = self._loop.run(result)
            return self._wrap(result)

        return call

    def _iterate(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._wrap(self._loop.run(anext(items)))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run(items.aclose())

    def _wrap(self, result: Any) -> Any:
        if isinstance(result, list) and result and isinstance(result[0], aio.Job):
            return [Job(self._loop, each) for each in result]
        return Job(self._loop, result) if isinstance(result, aio.Job) else result


def _unwrap(value: Any) -> Any:
    if isinstance(value, _BlockingFacade):
        return value._wrapped
    return [_unwrap(each) for each in value] if isinstance(value, list) else value


class Job(_BlockingFacade):
    """A facade of a job, which can be used with `with`."""

    def __init__(self, loop: Loop, job: aio.Job) -> None:
        self.__dict__.update(_loop=loop, _wrapped=job)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._wrapped, name, value)

    def __enter__(self) -> Self:
        self._loop.run(self._wrapped.__aenter__())
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._loop.run(self._wrapped.__aexit__(*error))


class Queue(_BlockingFacade):
    """A facade of a queue."""

    def __init__(self, name: str, url_or_client: Any = "redis://localhost:6379", codec: Codec = JSON) -> None:
        self._wrapped = aio.Queue(name, url_or_client, codec)
        self._loop = Loop.of_this_thread()

    def close(self) -> None:
        """Close the queue and its share of the loop."""
        self._loop.run(self._wrapped.aclose())
        self._loop.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


class WakeWaiterFacade(_BlockingFacade):
    """A facade of a WakeWaiter with a loop of its own; `pool` has its connections."""

    def __init__(self, url_or_client: Any, key: str) -> None:
        self._loop = Loop()
        self.pool = build_pool(url_or_client, key)
        self._wrapped = self._loop.call(WakeWaiter, self.pool, key)

    def wait(self, timer_s: float | None, stop: threading.Event | None = None) -> Any:
        """Wait for the wake key. The facade watches `stop`, which in rqtui the consumer does."""
        return self._loop.run(self._wrapped.wait(timer_s, self._create_stop_event(stop)))

    def pause(self, seconds: float, stop: threading.Event | None = None) -> Any:
        return self._loop.run(self._wrapped.pause(seconds, self._create_stop_event(stop)))

    def _create_stop_event(self, stop: threading.Event | None) -> asyncio.Event | None:
        if stop is None:
            return None
        event = self._loop.event(stop)
        self._loop._following.add_done_callback(lambda _done: self._wrapped._rung.set())
        return event

    def close(self) -> None:
        """Close the waiter, its connections and the loop."""
        self._loop.run(self._wrapped.close())
        self._loop.run(self.pool.aclose())
        self._loop.close()
