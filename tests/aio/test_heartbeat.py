"""The heartbeat of an asyncio consumer: when it wakes, when it ends, and when it warns of a blocked loop."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aio_facade import run_on_event_loop, until
from families import run_in_one_test

from rqtui.aio.heartbeat import BLOCKED_S, Heartbeat
from rqtui.client.outcome_buffer import OutcomeBuffer


class Beat(Heartbeat):
    """A heartbeat whose steps are counted and send nothing."""

    def __init__(self) -> None:
        super().__init__(
            None, None, OutcomeBuffer(lambda verb, rows: verb, lambda job: None),  # type: ignore[arg-type,return-value]
            identity={"worker": "w1"}, ttr_ms=None, find_current_id=lambda: b"",
            on_order=lambda word: None, on_tick=lambda: None, on_end=self.end,
        )  # fmt: skip
        self.steps = self.ends = 0

    async def end(self) -> None:
        self.ends += 1

    async def _send_due_calls(self) -> None:
        self.steps += 1
        self._next_beat_s = asyncio.get_running_loop().time() + 600
        self.leases.clear()

    def rested_after(self, steps: int) -> bool:
        return self.steps == steps and self._is_resting and not self._wake_event.is_set()


@run_on_event_loop
async def test_it_wakes_at_once_for_a_job_and_ends_when_it_is_closed() -> None:
    beat = Beat()
    beat.start()
    await until(lambda: beat.rested_after(1), "a rest until the next heartbeat")
    for number in (2, 3):
        job: Any = HeldJob("t")
        beat.extend_leases_until_settled([job])
        await until(lambda number=number: beat.rested_after(number), "one step more, and a rest")
    await beat.close()
    assert beat._task is not None and beat._task.done() and (beat.steps, beat.ends) == (3, 0)
    await beat.close()


@run_on_event_loop
async def test_a_cancelled_heartbeat_releases_the_leased_jobs_once() -> None:
    beat = Beat()
    await beat.close()
    beat = Beat()
    beat.start()
    await until(lambda: beat.rested_after(1), "a rest until the next heartbeat")
    assert beat._task is not None
    beat._task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beat._task
    assert beat.ends == 1
    await beat.close()
    assert beat.ends == 1


@run_on_event_loop
async def test_a_closed_heartbeat_does_not_rest() -> None:
    beat = Beat()
    beat._is_closed = True
    beat._next_beat_s = asyncio.get_running_loop().time() + 600
    await beat._wait_for_next_step()
    assert not beat._is_resting


class HeldJob(SimpleNamespace):
    """A job that can be referred to weakly."""

    def __init__(self, token: str) -> None:
        super().__init__(token=token)


@run_in_one_test(
    "late_s, leases, warnings",
    [(BLOCKED_S, 1, 0), (BLOCKED_S + 0.01, 0, 0), (BLOCKED_S + 0.01, 1, 1), (-1.0, 1, 0), (60.0, 1, 1)],
)
def test_a_blocked_loop_is_reported_once_if_leases_were_held(
    caplog: pytest.LogCaptureFixture, late_s: float, leases: int, warnings: int
) -> None:
    caplog.clear()
    beat = Beat()
    jobs: list[Any] = [HeldJob(f"{n}") for n in range(leases)]
    beat.extend_leases_until_settled(jobs)
    for _ in range(2):
        beat._warn_if_late(late_s)
    actual = [record.getMessage() for record in caplog.records]
    assert len(actual) == warnings and all(
        text.startswith(f"worker w1: the event loop was blocked for {late_s:.1f} s; ") for text in actual
    )
