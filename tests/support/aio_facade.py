"""Blocking facades of `rqtui.aio` with the methods of `rqtui.client`, so that one test can check both.

An event loop on a thread awaits the results. The fixture `kind` is a class that is created and used like
`rqtui.client.Queue`.
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
from rqtui.aio.pool import build_asyncio_pool
from rqtui.aio.wakeup import WakeWaiter
from rqtui.client.codecs import JSON, Codec

T = TypeVar("T")
POLL_S = 0.005  # between two reads of a thread's event on the loop
HANGS_S = 120.0  # no test takes so long, on a busy machine either


def run_on_event_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an asynchronous test in an event loop, as a decorator. The arguments of the test stay fixtures."""

    @functools.wraps(test)
    def run_test(*args: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **options), HANGS_S))

    return run_test


async def until(predicate: Callable[[], T], description: str = "") -> T:
    """Wait in an event loop until `predicate` returns a true value, and return the value. Fail after `PATIENCE_S`."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (value := predicate()):
        assert time.monotonic() < deadline_s, f"{description or predicate} did not come true; last: {value!r}"
        await asyncio.sleep(POLL_S)
    return value


class Event(asyncio.Event):
    """An asyncio event that is set when an event of a thread is set."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        """Return whether this event or the mirrored event of a thread is set."""
        return self._stop.is_set()


class Loop:
    """An asyncio event loop on its own thread, which runs until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, awaitable: Any) -> Any:
        """Await an awaitable on the loop's thread and return the result. Raises its error."""

        async def await_result() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(await_result(), self._loop).result()

    def call(self, function: Any, *args: Any) -> Any:
        """Call a function on the loop's thread and return the result."""

        async def call_function() -> Any:
            return function(*args)

        return self.run(call_function())

    def create_mirrored_event(self, stop: threading.Event) -> asyncio.Event:
        """Create an asyncio event that is set when the thread event `stop` is set."""
        event: Event = self.call(Event, stop)

        async def follow_thread_event() -> None:
            while not stop.is_set():
                await asyncio.sleep(POLL_S)
            event.set()

        self._following = asyncio.run_coroutine_threadsafe(follow_thread_event(), self._loop)
        return event

    @classmethod
    def join_shared_loop(cls) -> Loop:
        """Return the loop that all queues of this thread share, so that queues can pass jobs to each other."""
        if not getattr(_thread_loops, "users", 0):
            _thread_loops.loop, _thread_loops.users = cls(), 0
        _thread_loops.users += 1
        loop: Loop = _thread_loops.loop
        return loop

    def leave_shared_loop(self) -> None:
        """Count one user less of the shared loop, and close the loop after the last user."""
        _thread_loops.users -= 1
        if not _thread_loops.users:
            self.close()

    def close(self) -> None:
        """Cancel and await all tasks of the loop, as `asyncio.run` does, and end the loop's thread."""

        async def cancel_all_tasks() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.get_running_loop().shutdown_asyncgens()

        self.run(cancel_all_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


_thread_loops = threading.local()


class _BlockingFacade:
    """A facade of an asynchronous object `_wrapped` that awaits each result and wraps jobs in facades."""

    _loop: Loop
    _wrapped: Any

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._wrapped, name)
        if not inspect.ismethod(attribute):
            return attribute

        def call_wrapped_method(*args: Any, **options: Any) -> Any:
            if isinstance(options.get("stop"), threading.Event):
                options["stop"] = self._loop.create_mirrored_event(options["stop"])
            result = attribute(*map(_unwrap_argument, args), **options)
            if inspect.isasyncgen(result):
                return self._iterate_blocking(result)
            if inspect.isawaitable(result):
                result = self._loop.run(result)
            return self._wrap_result(result)

        return call_wrapped_method

    def _iterate_blocking(self, items: Any) -> Iterator[Any]:
        """Yield the items of an asynchronous iterator, waiting for each."""
        try:
            while True:
                try:
                    yield self._wrap_result(self._loop.run(anext(items)))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run(items.aclose())

    def _wrap_result(self, result: Any) -> Any:
        """Return a result of the asynchronous object with its jobs and queues wrapped in blocking facades."""
        if isinstance(result, list) and result and isinstance(result[0], aio.Job):
            return [Job(self._loop, item) for item in result]
        return Job(self._loop, result) if isinstance(result, aio.Job) else result


def _unwrap_argument(value: Any) -> Any:
    """Return the asynchronous object inside a facade; any other argument is returned unchanged."""
    if isinstance(value, _BlockingFacade):
        return value._wrapped
    return [_unwrap_argument(item) for item in value] if isinstance(value, list) else value


class Job(_BlockingFacade):
    """A blocking facade of an asynchronous job, which can be used with `with`."""

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
    """A blocking facade of an asynchronous queue."""

    def __init__(self, name: str, url_or_client: Any = "redis://localhost:6379", codec: Codec = JSON) -> None:
        self._wrapped = aio.Queue(name, url_or_client, codec)
        self._loop = Loop.join_shared_loop()

    def close(self) -> None:
        """Close the asynchronous queue and leave the shared loop."""
        self._loop.run(self._wrapped.aclose())
        self._loop.leave_shared_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


class WakeWaiterFacade(_BlockingFacade):
    """A blocking facade of an asynchronous WakeWaiter with its own loop; `pool` has the waiter's connections."""

    def __init__(self, url_or_client: Any, key: str) -> None:
        self._loop = Loop()
        self.pool = build_asyncio_pool(url_or_client, key)
        self._wrapped = self._loop.call(WakeWaiter, self.pool, key)

    def wait(self, timer_s: float | None, stop: threading.Event | None = None) -> Any:
        """Wait for the wake key, and watch the event `stop`, which in rqtui the consumer watches."""
        return self._loop.run(self._wrapped.wait(timer_s, self._create_stop_event(stop)))

    def pause(self, seconds: float, stop: threading.Event | None = None) -> Any:
        return self._loop.run(self._wrapped.pause(seconds, self._create_stop_event(stop)))

    def _create_stop_event(self, stop: threading.Event | None) -> asyncio.Event | None:
        if stop is None:
            return None
        event = self._loop.create_mirrored_event(stop)
        self._loop._following.add_done_callback(lambda _done: self._wrapped._wake_event.set())
        return event

    def close(self) -> None:
        """Close the waiter, its connections and the loop."""
        self._loop.run(self._wrapped.close())
        self._loop.run(self.pool.aclose())
        self._loop.close()
