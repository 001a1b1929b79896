"""Coroutines that are written once for two kinds of callers: those that wait and those that await.

What a program with an event loop awaits, another one does at once: then nothing in the coroutine ever waits, and it
runs to its end in one step. No event loop is needed for that.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that awaits only what blocks until it is done. Raises what the coroutine raises."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waited for an event loop, and nobody runs one")
