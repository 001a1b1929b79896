"""Run a coroutine without an event loop, so that the blocking and the asyncio API can share one implementation.

The asyncio API awaits I/O in the coroutine. The blocking API does the I/O directly, so the coroutine never waits and
runs to its end in one step.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_without_event_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits for I/O, and return its result.

    Raises what the coroutine raises, or RuntimeError if the coroutine waits.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waited for an event loop, but none runs")
