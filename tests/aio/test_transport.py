"""Test that a request continues while its caller is cancelled."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aio_facade import run_on_event_loop

from rqtui.aio.transport import shield_from_cancellation


async def cancel_caller(most_s: float, doing: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Cancel a caller once `doing` has begun, and return what the loop reported about unawaited tasks."""
    items: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: items.append(context))
    task = asyncio.create_task(shield_from_cancellation(most_s, doing))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    del task
    gc.collect()
    return items


@run_on_event_loop
async def test_a_cancelled_caller_waits_for_the_end() -> None:
    ended = []

    async def doing() -> None:
        await asyncio.sleep(0.05)
        ended.append(True)

    assert await cancel_caller(20, doing) == [] and ended


@run_on_event_loop
async def test_it_does_not_wait_for_ever() -> None:
    ended = []

    async def doing() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(True)
            raise

    assert await cancel_caller(0.05, doing) == [] and ended


@run_on_event_loop
async def test_a_second_cancellation_ends_the_wait() -> None:
    doing = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            doing.set()

    task = asyncio.create_task(shield_from_cancellation(20, endless))
    for _ in range(2):
        await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(doing.wait(), 20)


@run_on_event_loop
async def test_an_error_of_what_went_on_is_looked_at() -> None:
    async def doing() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("no reply")

    assert await cancel_caller(20, doing) == []


@run_on_event_loop
async def test_a_caller_that_is_not_cancelled_has_the_answer_or_the_error() -> None:
    async def failing() -> None:
        raise ValueError("no reply")

    assert await shield_from_cancellation(1, lambda: asyncio.sleep(0.01, "answer")) == "answer"
    with pytest.raises(ValueError, match="no reply"):
        await shield_from_cancellation(1, failing)
