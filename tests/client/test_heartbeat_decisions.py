"""The decisions of a heartbeat at a clock that the test sets: what is sent, when, and what each reply does."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from families import run_in_one_test
from waiting import wait_until

from rqtui.client import heartbeat
from rqtui.client.outcome_buffer import MAX_JOBS_PER_CALL, OutcomeBuffer
from rqtui.coroutines import run_without_event_loop
from rqtui.errors import ServerError
from rqtui.scripts.script import Reply

BEGAN_S = 1000.0


class Job:
    """A held job as the heartbeat sees it, with a lease of 30 s."""

    def __init__(self, token: str = "t", left_s: float = 30.0, **more: Any) -> None:
        self.token, self.id_bytes, self.ttr_ms, self.until_s = token, b"a", 30_000, BEGAN_S + left_s
        self.settling, self.cancelled, self.outcome = False, False, ""
        self.learned: list[Any] = []
        vars(self).update(more)

    def apply_extend_reply(self, *told: Any) -> None:
        self.learned.append(told)


class Scene:
    """A heartbeat whose calls are noted and answered by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ttr_ms: int | None = None) -> None:
        self.now_s = BEGAN_S
        self.sent: list[list[Any]] = []
        self.words: dict[str, Any] = {"beat": "run", "extend": "extended"}
        self.orders: list[str] = []
        self.ticks = 0
        self.outbox = OutcomeBuffer(lambda verb, rows: (verb, {}, rows), lambda job: None)  # type: ignore[arg-type,return-value]
        monkeypatch.setattr(heartbeat.time, "monotonic", lambda: self.now_s)
        self.beats = heartbeat.HeartbeatLoop(
            self.send,
            lambda verb, args, rows: (verb, args, [*rows]),  # type: ignore[arg-type,return-value]
            self.outbox,
            identity={"worker": "w1"},
            ttr_ms=ttr_ms,
            find_current_id=lambda: b"now",
            on_order=self.orders.append,
            on_tick=self.tick,
        )

    def tick(self) -> None:
        self.ticks += 1

    async def send(self, calls: Sequence[Any]) -> list[Any]:
        self.sent.append([(verb, args, len(rows)) for verb, args, rows in calls])
        return [self.answer(verb, rows) for verb, _args, rows in calls]

    def answer(self, verb: str, rows: Sequence[Any]) -> Any:
        word = self.words.get(verb, "moved")
        if isinstance(word, Exception) or verb == "beat":
            return word if isinstance(word, Exception) else Reply(word)
        return Reply("", each=[Reply(word) for _ in rows])

    def step(self, after_s: float = 0.0) -> list[str]:
        """Let time pass, take one step, and return the verbs that were sent."""
        self.now_s += after_s
        self.sent.clear()
        run_without_event_loop(self.beats._send_due_calls())
        return [verb for calls in self.sent for verb, _args, _rows in calls]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_worker_sends_a_heartbeat_at_once_and_at_each_third_of_its_minute(scene: Scene) -> None:
    assert scene.step() == ["beat"] and scene.orders == ["run"]
    assert scene.sent[0][0][1] == {"worker": "w1", "ttl_ms": 60_000, "job": b"now"}
    assert scene.beats._compute_rest_time_s() == 20
    assert scene.step(19.99) == [] and scene.beats._compute_rest_time_s() == pytest.approx(0.01)
    scene.words["beat"] = "quiet"
    assert scene.step(0.01) == ["beat"] and scene.orders == ["run", "quiet"]
    assert scene.beats.build_leave_call() == ("beat", {"worker": "w1", "ttl_ms": 60_000, "leave": True}, [])


@run_in_one_test(
    "job, is_extended",
    [
        ({}, False), ({"left_s": 20.0}, False), ({"left_s": 19.99}, True), ({"left_s": -1.0}, True),
        ({"left_s": 5.0, "settling": True}, False), ({"left_s": 5.0, "cancelled": True}, False),
        ({"left_s": 5.0, "outcome": "sent"}, True), ({"left_s": 5.0, "outcome": "acked"}, False),
        ({"left_s": 30.01}, False), ({"left_s": 9.0, "ttr_ms": 9_000}, False), ({"left_s": 5.9, "ttr_ms": 9_000}, True),
    ],
)  # fmt: skip
def test_a_lease_is_extended_after_a_third_of_its_time(
    monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], is_extended: bool
) -> None:
    scene = Scene(monkeypatch)
    scene.step()
    held, fresh = Job(**job), Job("fresh")
    scene.beats.extend_leases_until_settled([held, fresh])
    assert scene.step() == ["extend"] * is_extended and scene.ticks == 1
    if is_extended:  # with all others that are held
        assert scene.sent[0][0] == ("extend", {"ttr_ms": None}, 2)
        assert held.learned == [("extended", BEGAN_S, held.ttr_ms)] and fresh.learned


def test_a_lease_that_is_over_or_released_is_held_no_more(scene: Scene) -> None:
    jobs = [Job(token, 5.0) for token in ("over", "let-go", "kept")]
    scene.beats.extend_leases_until_settled(jobs)
    scene.beats.stop_extending_lease(jobs[1])
    scene.beats.stop_extending_lease(jobs[1])
    assert [*scene.beats.leases] == ["over", "kept"]
    scene.words["extend"] = "stale"
    assert scene.step() == ["extend", "beat"] and scene.beats.leases == {}
    assert [job.learned for job in jobs] == [[("stale", BEGAN_S, 30_000)], [], [("stale", BEGAN_S, 30_000)]]
    scene.beats.extend_leases_until_settled([Job("dropped", 5.0)])  # no worker can settle it any more
    assert scene.step() == [] and scene.beats.leases == {}


def test_leases_go_in_batches_and_rest_is_short_while_any_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    for ttr_ms, rest_s in ((None, 0.1), (30_000, 0.1), (1_000, 0.1), (500, 0.05), (50, 0.01)):
        scene = Scene(monkeypatch, ttr_ms)
        scene.step()
        jobs = [Job(f"{n}", 0.001) for n in range(MAX_JOBS_PER_CALL + 1)]
        scene.beats.extend_leases_until_settled(jobs)
        assert scene.beats._compute_rest_time_s() == rest_s
        assert scene.step() == ["extend"] * 2
        assert [rows for _verb, _args, rows in scene.sent[0]] == [MAX_JOBS_PER_CALL, 1]
        assert {job.learned[0][2] for job in jobs} == {ttr_ms or 30_000}


@run_in_one_test("failed", [0, 1])
def test_a_batch_of_leases_that_fails_leaves_the_other_one_extended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failed: int
) -> None:
    scene = Scene(monkeypatch)
    scene.step()
    jobs = [Job(f"{n}", 5.0) for n in range(MAX_JOBS_PER_CALL + 1)]
    batches = [jobs[:MAX_JOBS_PER_CALL], jobs[MAX_JOBS_PER_CALL:]]
    scene.beats.extend_leases_until_settled(jobs)
    answer = scene.answer
    scene.answer = lambda verb, rows: (  # type: ignore[method-assign]
        ServerError("away") if len(rows) == len(batches[failed]) else answer(verb, rows)
    )
    assert scene.step() == ["extend"] * 2
    assert [[len(job.learned) for job in batch] for batch in batches] == [
        [int(at != failed)] * len(batch) for at, batch in enumerate(batches)
    ]
    assert len(scene.beats.leases) == len(jobs), "a lease whose call failed is extended later"
    assert caplog.records[-1].getMessage() == "heartbeat of w1: away"


def test_a_failure_is_tried_again_after_a_second_and_reported_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.words["beat"] = ServerError("away")
    assert scene.step() == ["beat"] and scene.orders == []
    assert scene.step(0.99) == [] and scene.beats._compute_rest_time_s() == pytest.approx(0.01)
    assert scene.step(0.01) == ["beat"]
    assert [record.getMessage() for record in caplog.records] == ["heartbeat of w1: away"]
    scene.words["beat"] = "stop"
    assert scene.step(1.0) == ["beat"] and scene.orders == ["stop"]
    scene.words["beat"] = ServerError("away")
    scene.step(20.0)
    assert len(caplog.records) == 2, "a new failure is said again"


def test_an_outcome_is_sent_along_after_it_waited_for_one_step(scene: Scene) -> None:
    scene.step()
    scene.outbox.add_outcome("ack", SimpleNamespace(id_bytes=b"a", token="t"))  # type: ignore[arg-type]
    assert scene.beats._compute_rest_time_s() == 0.1
    scene.outbox.take_count += 1  # another thread took others meanwhile: this one is younger than a step
    assert scene.step() == [] and scene.outbox
    scene.step(30.0)
    assert [verb for verb, _args, _rows in scene.sent[0]] == ["ack", "beat"]


def test_a_failure_is_reported_once_though_steps_without_calls_follow_it(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.step()
    scene.words["ack"] = ServerError("away")
    scene.outbox.add_outcome("ack", SimpleNamespace(id_bytes=b"a", token="t"))  # type: ignore[arg-type]
    assert [scene.step(1.0) for _ in range(5)] == [["ack"], [], ["ack"], [], ["ack"]]
    assert [record.getMessage() for record in caplog.records] == ["heartbeat of w1: away"]


def test_a_fault_of_a_step_is_logged_and_the_next_comes_after_a_second(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.words["beat"] = "run"
    scene.beats._on_order = None  # type: ignore[assignment]
    run_without_event_loop(scene.beats._run_step_and_log_errors())
    assert "a heartbeat failed; the next one is tried" in caplog.text
    assert scene.step(0.99) == []


def test_the_thread_wakes_at_once_for_a_job_and_ends_when_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[float] = []
    beat = heartbeat.Heartbeat(
        None, None, OutcomeBuffer(lambda verb, rows: verb, lambda job: None),  # type: ignore[arg-type,return-value]
        identity={"worker": "w1"}, ttr_ms=None, find_current_id=lambda: b"",
        on_order=lambda word: None, on_tick=lambda: None,
    )  # fmt: skip

    async def step() -> None:
        steps.append(heartbeat.time.monotonic())
        beat._next_beat_s = steps[-1] + 600
        beat.leases.clear()

    def rested(after: int) -> bool:
        return len(steps) == after and beat._is_resting and not beat._wake_event.is_set()

    monkeypatch.setattr(beat, "_send_due_calls", step)
    beat.start()
    wait_until(lambda: rested(1), what="a rest until the next beat")
    for number in (2, 3):
        beat.extend_leases_until_settled([Job()])
        wait_until(lambda number=number: rested(number), what="one step more, and a rest")
    beat.close()
    assert not beat._thread.is_alive()
