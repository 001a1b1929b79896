"""What a consumer sends, waits for, hands out and releases, step by step, with given replies and a given clock.

`consumers_at_bounds.txt` has every line. `RQTUI_WRITE_SNAPSHOTS=1 pytest tests/client/test_consumers_at_bounds.py`
writes the text; review the difference as code.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Bare
from kept_text import assert_lines_match_file

from rqtui.client import consumer
from rqtui.client.consumer import ConsumerLoop
from rqtui.client.wakeup import WakeReason
from rqtui.errors import Denied, ServerError, WrongType
from rqtui.scripts.script import Reply

KEPT = Path(__file__).with_name("consumers_at_bounds.txt")
NOW_S = 1_024.0


class Stage:
    """A consumer without a queue, and a log of what it does. Its buffer of outcomes, heartbeat and waiter are fakes."""

    def __init__(self, **attributes: Any) -> None:
        self.log: list[str] = []
        self.batches: list[Any] = []
        self.replies: list[Any] = []
        self.heartbeat = SimpleNamespace(
            close=lambda: self.note("close heartbeat"), build_leave_call=lambda: "leave",
            stop_extending_lease=lambda job: self.note(f"extend {job.id} no more"),
            extend_leases_until_settled=lambda jobs: self.note(f"extend {len(jobs)}"),
        )  # fmt: skip
        self.outcomes = SimpleNamespace(
            is_closed=False, take_outcome_batches=lambda: self.batches, send=self.send,
            add_outcome=lambda verb, job, error=b"": self.note(f"{verb} {job.id} {error.decode()}".strip()),
        )  # fmt: skip
        names = ("wait", "pause", "cancel_wait", "restore_marker")
        waiter = SimpleNamespace(
            interrupt=lambda: self.note("interrupt"), **{name: self.build_wait(name) for name in names}
        )
        usual = {
            **vars(object.__new__(ConsumerLoop)), "_heartbeat": self.heartbeat, "_outcomes": self.outcomes,
            "_waiter": waiter, "_queue": SimpleNamespace(name="mail", call=self.build_call), "worker": "w1",
            "_pid": os.getpid(), "_buffer": deque(), "_current": None, "_current_since_s": NOW_S, "_batch_size": 8,
            "_max_batch": 100, "_ttr_ms": None, "_is_burst": False, "_stop_signal": None, "_is_stopping": False,
            "_order": "run", "_enter_count": 1, "_is_holding_timer": False, "_next_due_s": None, "_is_stuck": False,
            "_is_wait_cancelled": True, "_is_timer_over": False, "_is_busy": False, "_last_sweep_s": 0.0,
            "_allowed_steps": set(), "_run_with_timeout": self.run_with_timeout,
            "_build_leased_job": lambda row, _began_s: row,
        }  # fmt: skip
        self.consumer: Any = Bare(ConsumerLoop, **{**usual, **attributes})
        self.does_finish = True

    def note(self, line: str) -> None:
        self.log.append(line)

    def build_call(self, verb: str, args: dict[str, Any]) -> str:
        return f"{verb} {args}"

    def build_wait(self, name: str) -> Callable[..., Any]:
        async def wait(*args: Any) -> Any:
            self.note(f"{name} {' '.join(str(each) for each in args if each is not None)}".strip())
            return self.take_reply() if name == "wait" else False

        return wait

    def take_reply(self) -> Any:
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def send(self, batches: list[Any], calls: list[Any], _send: Any) -> list[Any]:
        self.note(f"send {calls}")
        found = self.take_reply()
        return [None] * len(batches) + found

    async def run_with_timeout(self, run_step: Callable[[], Any], timeout_s: float) -> bool:
        self.note(f"at most {timeout_s:g} s:")
        await run_step()
        return self.does_finish

    def run(self, method: str, *args: Any) -> str:
        try:
            found = getattr(self.consumer, method)(*args)
            found = asyncio.run(found) if asyncio.iscoroutine(found) else found
        except ServerError as error:
            found = f"{type(error).__name__}: {error}"
        lines, self.log = self.log, []
        return f"{found} | {' | '.join(lines)}".rstrip(" |")


def job(name: str, **more: Any) -> Any:
    return SimpleNamespace(**{"id": name, "id_bytes": name.encode(), "cancelled": False, "lost": False, **more})


def reply(word: str = "moved", next_ms: int = -1, *rows: Any) -> Reply:
    return Reply(word, "", {"next_ms": next_ms}, [*rows])


def ends() -> Iterator[str]:
    for pid in (os.getpid(), 1):
        for has_outcomes in (False, True):
            for does_finish in (True, False):
                stage = Stage(_pid=pid)
                stage.replies, stage.does_finish = [[reply()]], does_finish
                closing = Outcomes(is_left=has_outcomes, **vars(stage.outcomes))
                stage.consumer.__dict__["_outcomes"] = closing
                found = stage.run("_close")
                yield f"close, own {pid != 1}, outcomes {has_outcomes}, ends {does_finish}: {found} {closing.is_closed}"
    for is_cancelled in (False, True):
        for is_holding in (False, True):
            for batches in ([], [SimpleNamespace(call="ack")]):
                for result in ([reply()], ServerError("away.")):
                    stage = Stage(_is_wait_cancelled=is_cancelled, _is_holding_timer=is_holding)
                    stage.batches, stage.replies = batches, [result]
                    found = stage.run("_send_final_calls")
                    yield f"last calls {is_cancelled} {is_holding} {len(batches)} {type(result).__name__}: {found}"
    for order in ("run", "quiet", "stop"):
        for entered in (0, 1):
            stage = Stage(_enter_count=entered)
            found = stage.run("_follow_operator_order", order)
            yield f"order {order}, entered {entered}: {found} {stage.consumer._order} {stage.consumer.is_stopping}"
    for is_set in (False, True):
        stage = Stage(_stop_signal=SimpleNamespace(is_set=lambda is_set=is_set: is_set))
        yield f"stop event {is_set}: {stage.consumer.is_stopping}"
    yield f"forked: {Stage(_pid=1).consumer.is_stopping}"


class Outcomes(SimpleNamespace):
    """A buffer of outcomes that is empty or not."""

    is_left: bool

    def __bool__(self) -> bool:
        return self.is_left


def jobs(clock: SimpleNamespace) -> Iterator[str]:
    for ago_s in (0.75, 1.0, 1.25):
        for current in (None, job("slow")):
            for number in (0, 1, 3):
                stage = Stage(_current=current, _current_since_s=clock.now_s - ago_s)
                waiting = [job(f"j{at}") for at in range(number)]
                stage.consumer._buffer.extend(waiting)
                found = stage.run("_release_waiting_jobs")
                sent = [each.outcome for each in waiting if hasattr(each, "outcome")]
                yield f"{number} wait for {ago_s} s behind {current and current.id}: {found} {sent}"
    stage = Stage()
    stage.consumer._buffer.extend([job("a"), job("b"), job("c")])
    yield f"two of three: {stage.run('_release_unstarted_jobs', 2)}; {[each.id for each in stage.consumer._buffer]}"
    yield f"more than there are: {stage.run('_release_unstarted_jobs', 2)}"
    for name, waiting in {
        "none": [], "one": [job("a")], "cancelled": [job("a", cancelled=True), job("b")], "lost": [job("a", lost=True)],
        "lost, then one": [job("a", lost=True), job("b")], "cancelled and lost": [job("a", cancelled=True, lost=True)],
    }.items():  # fmt: skip
        for is_stopping in (False, True):
            stage = Stage(_is_stopping=is_stopping)
            stage.consumer._buffer.extend(waiting)
            found = stage.run("_start_next_job")
            current = stage.consumer._current
            yield f"start of {name}, stopping {is_stopping}: {found}, now {current and current.id}"
    for ttr_ms in (None, 500, 1_000, 2_000):
        for count, seconds in ((0, 1.0), (1, 0.0), (1, 1.0), (4, 0.1), (8, 0.1), (16, 0.1), (17, 0.1), (8, 0.05)):
            stage = Stage(_ttr_ms=ttr_ms)
            stage.run("_resize_batch", count, seconds)
            yield f"batch after {count} jobs in {seconds} s, lease {ttr_ms}: {stage.consumer._batch_size}"
    stage = Stage(_batch_size=60)
    stage.run("_resize_batch", 9, 0.0)
    yield f"largest batch: {stage.consumer._batch_size}"


def claims(clock: SimpleNamespace) -> Iterator[str]:
    for is_over in (False, True):
        for is_busy in (False, True):
            for due_in_s in (None, -1.0, 0.25):
                for swept_ago_s in (1.0,) if is_over else (0.75, 1.0):
                    for word in ("moved", "empty", "paused"):
                        stage = Stage(
                            _is_timer_over=is_over, _is_busy=is_busy, _last_sweep_s=clock.now_s - swept_ago_s,
                            _next_due_s=None if due_in_s is None else clock.now_s + due_in_s,
                        )  # fmt: skip
                        words: list[bool] = []

                        async def claim(has_sweep: bool, words: list[bool] = words, word: str = word) -> str:
                            words.append(has_sweep)
                            return word if len(words) == 1 else "again"

                        stage.consumer.__dict__["_send_outcomes_and_claim"] = claim
                        found = stage.run("_run_claim_round_trip")
                        sweeps = ["sweep" if each else "claim" for each in words]
                        yield (
                            f"timer over {is_over}, busy {is_busy}, due in {due_in_s}, swept {swept_ago_s} s ago, "
                            f"{word}: {found} {sweeps} {stage.consumer._is_timer_over}"
                        )
    for order in ("run", "quiet"):
        for has_sweep in (False, True):
            for batches in ([], [SimpleNamespace(call="ack")]):
                for results in (
                    [reply("moved", 5, job("a"))], [reply("dispatched"), reply("reaped"), reply("empty")],
                    [ServerError("away."), reply("reaped"), reply("moved", 5, job("a"))],
                    [reply("dispatched"), reply("reaped"), ServerError("away.")], [],
                ):  # fmt: skip
                    if len(results) == (0 if order == "quiet" else 3 if has_sweep else 1):
                        stage = Stage(_order=order, _ttr_ms=5_000)
                        stage.batches, stage.replies = batches, [results]
                        found = stage.run("_send_outcomes_and_claim", has_sweep)
                        kept = [each.id for each in stage.consumer._buffer]
                        yield f"{order} {has_sweep}: {found}; {kept}, swept {stage.consumer._last_sweep_s}"


def fills(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    stories: dict[str, list[Any]] = {
        "a job": ["job"], "empty, then a job": ["empty", "waited", "job"], "paused": ["paused", "waited", "job"],
        "away twice": [ServerError("away."), ServerError("away."), "job"],
        "away while it waits": ["empty", ServerError("away."), "empty", "waited", ServerError("away."), "job"],
        "denied at once": [Denied("denied.")], "wrong type at once": [WrongType("wrong.")],
        "denied later": ["empty", "waited", Denied("denied."), "job"],
        "a wait is denied": ["empty", Denied("denied.")], "later": ["empty", "waited", "empty", Denied("no."), "job"],
        "stopped": ["stop"], "stopped while it waits": ["empty", "stop"],
        "an error with jobs": ["job and error"],
    }  # fmt: skip
    monkeypatch.setattr(consumer, "compute_reconnect_delay_s", lambda failures: 10 + failures)
    for name, replies in stories.items():
        for is_burst in (False, True):
            stage = Stage(_is_burst=is_burst, _is_holding_timer=True)
            stage.replies = [*replies]

            async def step(stage: Any = stage, what: str = "claim", *_args: Any) -> Any:
                stage.note(what)
                found = stage.take_reply() if stage.replies else "nothing"
                if found == "stop":
                    stage.consumer.__dict__["_is_stopping"] = True
                if "job" in found:
                    stage.consumer._buffer.append(job("a"))
                if "error" in found:
                    raise ServerError("away.")
                return found

            stage.consumer.__dict__.update(
                _run_claim_round_trip=step, _wait_for_work=lambda word, step=step: step(what=f"wait after {word}")
            )
            yield (
                f"{name}, burst {is_burst}: {stage.run('_fill_job_buffer')}; {sorted(stage.consumer._allowed_steps)} "
                f"{stage.consumer._is_holding_timer}"
            )


def waits(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(consumer, "random", SimpleNamespace(uniform=lambda least, most: most - least))
    for word in ("empty", "quiet"):
        for is_holding in (False, True):
            for due_in_s in (None, -1.0, 2.0, 10.0, 10.25):
                for reason in WakeReason:
                    if word == "quiet" and (due_in_s or reason is not WakeReason.TIMER):
                        continue
                    for is_stopping in (False, True) if due_in_s == 2.0 else (False,):
                        stage = Stage(
                            _is_holding_timer=is_holding, _is_stopping=is_stopping,
                            _next_due_s=None if due_in_s is None else clock.now_s + due_in_s,
                        )  # fmt: skip
                        stage.replies, stage.does_finish = [reason], False
                        found = stage.run("_wait_for_work", word)
                        after = stage.consumer
                        yield (
                            f"{word}, holds {is_holding}, due in {due_in_s}, {reason.name}, stopping {is_stopping}: "
                            f"{found}; {after._is_holding_timer} {after._is_timer_over} {after._is_wait_cancelled}"
                        )


def test_steps_of_consumers_match_the_stored_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SimpleNamespace(now_s=NOW_S)
    monkeypatch.setattr(consumer, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    with caplog.at_level(logging.INFO, "rqtui"):
        lines = [*ends(), *jobs(clock), *claims(clock), *fills(monkeypatch), *waits(clock, monkeypatch)]
    lines += [f"logged: {message}" for message in caplog.messages]
    assert_lines_match_file(lines, KEPT)
