"""How long a consumer without a job waits: the one that holds the wake marker first, and the others a little later."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rqtui.client import consumer
from rqtui.client.wakeup import BLOCK_S, WakeReason


def find_wait(*, due_in_s: float | None, is_holding: bool, is_stuck: bool = False) -> float | None:
    """Return the timer (s) that a consumer sets, as a number of seconds from now."""
    timers: list[float | None] = []

    class Waiter:
        async def wait(self, timer_s: float | None, _stop: object) -> WakeReason:
            timers.append(timer_s)
            return WakeReason.NOTHING

    now_s = time.monotonic()
    waiting: Any = SimpleNamespace(
        _waiter=Waiter(), _stop_signal=None, is_stopping=False, _is_holding_timer=is_holding, _is_stuck=is_stuck,
        _next_due_s=None if due_in_s is None else now_s + due_in_s, _last_sweep_s=now_s + 60,
    )  # fmt: skip
    asyncio.run(consumer.ConsumerLoop._wait_for_work(waiting, "none"))
    return timers[0]


def test_the_consumer_that_holds_the_marker_wakes_when_the_next_job_is_due() -> None:
    assert find_wait(due_in_s=-5.0, is_holding=True) == 0.0
    assert find_wait(due_in_s=-5.0, is_holding=True, is_stuck=True) == consumer.SPIN_S
    timer_s = find_wait(due_in_s=3600.0, is_holding=True)
    assert timer_s is not None and 3590 < timer_s <= 3600
    assert find_wait(due_in_s=None, is_holding=True) is None


def test_other_consumers_wake_a_little_later_and_not_for_jobs_after_their_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "LAG_S", (5.0, 5.0))
    assert find_wait(due_in_s=-1.0, is_holding=False) == 5.0
    assert find_wait(due_in_s=BLOCK_S + 60, is_holding=False) is None
