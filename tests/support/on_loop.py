"""`rqtui.aio` behind the methods of `rqtui.client`: an event loop on a thread of its own runs what is awaited.

So one test says of both what holds for both: `queues.kind` is a class that is made and used like `rqtui.client.Queue`.
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
from rqtui.aio.pool import pool_of
from rqtui.aio.wakeup import Doorbell
from rqtui.client.codecs import JSON, Codec

T = TypeVar("T")
LOOK_S = 0.005  # how soon an event of a test's thread is seen on the loop
HANGS_S = 120.0  # no test takes so long, on a busy machine either


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Lets pytest run an asynchronous test; its arguments stay fixtures."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **named), HANGS_S))

    return run


async def until(predicate: Callable[[], T], what: str = "") -> T:
    """The first true value of `predicate`, asked again and again while the loop runs; fails after `PATIENCE_S`."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (value := predicate()):
        assert time.monotonic() < deadline_s, f"{what or predicate} did not come true; last: {value!r}"
        await asyncio.sleep(LOOK_S)
    return value


class Event(asyncio.Event):
    """An event of a loop that is set once one of a thread is."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        return self._stop.is_set()


class Loop:
    """An event loop that runs until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, awaitable: Any) -> Any:
        """What it gives; its error is raised here."""

        async def awaited() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()

    def made(self, make: Any, *args: Any) -> Any:
        """What a function makes that has to be called on the loop."""

        async def on_loop() -> Any:
            return make(*args)

        return self.run(on_loop())

    def event(self, stop: threading.Event) -> asyncio.Event:
        """An event of the loop that is set once `stop` is."""
        event: Event = self.made(Event, stop)

        async def follow() -> None:
            while not stop.is_set():
                await asyncio.sleep(LOOK_S)
            event.set()

        self._following = asyncio.run_coroutine_threadsafe(follow(), self._loop)
        return event

    @classmethod
    def of_this_thread(cls) -> Loop:
        """One that all queues of a thread share, so that a job can be pushed from one to another."""
        if not getattr(_here, "users", 0):
            _here.loop, _here.users = cls(), 0
        _here.users += 1
        found: Loop = _here.loop
        return found

    def leave(self) -> None:
        """One user less; closed after the last."""
        _here.users -= 1
        if not _here.users:
            self.close()

    def close(self) -> None:
        """Ends as `asyncio.run` does: what is left is cancelled, and awaited."""

        async def end() -> None:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await asyncio.get_running_loop().shutdown_asyncgens()

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


_here = threading.local()


class _Facade:
    """Forwards to `_theirs`: what is awaitable is awaited on the loop, jobs get a facade of their own."""

    _loop: Loop
    _theirs: Any

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._theirs, name)
        if not inspect.ismethod(found):
            return found

        def called(*args: Any, **options: Any) -> Any:
            if isinstance(options.get("stop"), threading.Event):
                options["stop"] = self._loop.event(options["stop"])
            result = found(*map(_plain, args), **options)
            if inspect.isasyncgen(result):
                return self._each(result)
            if inspect.isawaitable(result):
                result = self._loop.run(result)
            return self._faced(result)

        return called

    def _each(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._faced(self._loop.run(anext(items)))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run(items.aclose())

    def _faced(self, result: Any) -> Any:
        if isinstance(result, list) and result and isinstance(result[0], aio.Job):
            return [Job(self._loop, each) for each in result]
        return Job(self._loop, result) if isinstance(result, aio.Job) else result


def _plain(value: Any) -> Any:
    if isinstance(value, _Facade):
        return value._theirs
    return [_plain(each) for each in value] if isinstance(value, list) else value


class Job(_Facade):
    """A job for `with`."""

    def __init__(self, loop: Loop, theirs: aio.Job) -> None:
        self.__dict__.update(_loop=loop, _theirs=theirs)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._theirs, name, value)

    def __enter__(self) -> Self:
        self._loop.run(self._theirs.__aenter__())
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._loop.run(self._theirs.__aexit__(*error))


class Queue(_Facade):
    """A queue with a loop of its own."""

    def __init__(self, name: str, url_or_client: Any = "redis://localhost:6379", codec: Codec = JSON) -> None:
        self._theirs = aio.Queue(name, url_or_client, codec)
        self._loop = Loop.of_this_thread()

    def close(self) -> None:
        """Ends the loop, too."""
        self._loop.run(self._theirs.aclose())
        self._loop.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


class Bell(_Facade):
    """A doorbell with a loop of its own; `pool` has its connections."""

    def __init__(self, url_or_client: Any, key: str) -> None:
        self._loop = Loop()
        self.pool = pool_of(url_or_client, key)
        self._theirs = self._loop.made(Doorbell, self.pool, key)

    def wait(self, timer_s: float | None, stop: threading.Event | None = None) -> Any:
        """`stop` is watched by the consumer of a loop, not by its doorbell."""
        return self._loop.run(self._theirs.wait(timer_s, self._stopping(stop)))

    def pause(self, seconds: float, stop: threading.Event | None = None) -> Any:
        return self._loop.run(self._theirs.pause(seconds, self._stopping(stop)))

    def _stopping(self, stop: threading.Event | None) -> asyncio.Event | None:
        if stop is None:
            return None
        event = self._loop.event(stop)
        self._loop._following.add_done_callback(lambda _done: self._theirs._rung.set())
        return event

    def close(self) -> None:
        """Ends the loop, too."""
        self._loop.run(self._theirs.close())
        self._loop.run(self.pool.aclose())
        self._loop.close()
