"""The buffer of outcomes: what goes into each batch, and what each result does to its jobs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from families import run_in_one_test

from rqtui.client.outcome_buffer import MAX_JOBS_PER_CALL, OutcomeBuffer
from rqtui.coroutines import run_without_event_loop
from rqtui.errors import Denied, ReplicaOnly, ServerError, UsageError, WrongType
from rqtui.scripts.script import Reply


class Scene:
    """A buffer and the jobs that it reported as settled."""

    def __init__(self) -> None:
        self.settled: list[str] = []
        self.buffer = OutcomeBuffer(
            lambda verb, rows: (verb, [*rows]),  # type: ignore[arg-type,return-value]
            lambda job: self.settled.append(job.token),
        )

    def add_outcome(self, verb: str, *tokens: str, error: bytes = b"") -> list[Any]:
        jobs = [SimpleNamespace(id=t, id_bytes=t.encode(), token=t, outcome="sent", queue="mail") for t in tokens]
        for job in jobs:
            self.buffer.add_outcome(verb, job, error)  # type: ignore[arg-type]
        return jobs


def test_outcomes_go_in_batches_by_verb_with_acks_first() -> None:
    scene = Scene()
    assert not scene.buffer and scene.buffer.take_outcome_batches() == [] and scene.buffer.take_count == 0
    scene.add_outcome("reject", "r1", error=b"boom")
    scene.add_outcome("release", "l1")
    assert scene.buffer
    scene.add_outcome("ack", *(f"a{n}" for n in range(MAX_JOBS_PER_CALL + 1)))
    scene.add_outcome("reject", "r2", error=b"bang")
    batches = scene.buffer.take_outcome_batches()
    assert [(batch.verb, len(batch.jobs)) for batch in batches] == [
        ("ack", MAX_JOBS_PER_CALL), ("ack", 1), ("reject", 2), ("release", 1),
    ]  # fmt: skip
    assert [batch.call for batch in batches[1:]] == [
        ("ack", [(f"a{MAX_JOBS_PER_CALL}".encode(), f"a{MAX_JOBS_PER_CALL}")]),
        ("reject", [(b"r1", "r1", b"boom"), (b"r2", "r2", b"bang")]),
        ("release", [(b"l1", "l1")]),
    ]
    assert not scene.buffer and scene.buffer.take_count == 1


@run_in_one_test(
    "result, outcome, level, text",
    [
        (ServerError("away"), "sent", logging.INFO, "away; it is sent again"),
        (Denied("no rights"), "sent", logging.WARNING, "no rights; it is sent again"),
        (ReplicaOnly("a replica"), "sent", logging.WARNING, "a replica; it is sent again"),
        (WrongType("a string"), "refused", logging.ERROR, "2 outcomes (reject) were refused: a string"),
        (UsageError("bad"), "refused", logging.ERROR, "2 outcomes (reject) were refused: bad"),
        ("moved", "moved", None, ""),
        ("done", "done", None, ""),
        ("stale", "stale", logging.WARNING, "queue mail: reject of job 'b' came too late: because"),
        ("gone", "gone", logging.WARNING, "queue mail: reject of job 'b' came too late: because"),
    ],
)
def test_each_result_of_a_batch_is_recorded_or_tried_again(
    caplog: pytest.LogCaptureFixture, result: Any, outcome: str, level: int | None, text: str
) -> None:
    caplog.clear()
    caplog.set_level(logging.INFO, "rqtui")
    scene = Scene()
    jobs = scene.add_outcome("reject", "a", "b", error=b"boom")
    [batch] = scene.buffer.take_outcome_batches()
    reply = result if isinstance(result, Exception) else Reply("", each=[Reply(result, "because")] * 2)
    scene.buffer.record_batch_result(batch, reply)
    assert [job.outcome for job in jobs] == [outcome] * 2
    assert scene.settled == ([] if outcome == "sent" else ["a", "b"])
    assert [batch.call for batch in scene.buffer.take_outcome_batches()] == [batch.call] * (outcome == "sent")
    if level is not None:
        assert (caplog.records[-1].levelno, caplog.records[-1].getMessage()) == (level, text)
    assert bool(caplog.records) is (level is not None)


def test_a_job_that_is_missing_when_its_outcome_is_sent_again_was_settled_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    [job] = scene.add_outcome("ack", "a")
    for _ in range(2):
        [batch] = scene.buffer.take_outcome_batches()
        scene.buffer.put_back_batch(batch)
    for word, warnings in (("gone", 0), ("gone", 1)):
        [batch] = scene.buffer.take_outcome_batches() or [batch]
        caplog.clear()
        scene.buffer.record_batch_result(batch, Reply("", each=[Reply(word, "because")]))
        assert (job.outcome, len(caplog.records)) == ("gone", warnings)


def test_a_stale_outcome_that_is_sent_again_is_still_too_late(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.add_outcome("ack", "a")
    scene.buffer.put_back_batch(*scene.buffer.take_outcome_batches())
    scene.buffer.record_batch_result(*scene.buffer.take_outcome_batches(), Reply("", each=[Reply("stale", "because")]))
    assert len(caplog.records) == 1


def test_only_the_first_results_of_a_round_trip_are_those_of_the_batches() -> None:
    scene = Scene()
    [acked, _rejected] = [*scene.add_outcome("ack", "a"), *scene.add_outcome("reject", "r")]
    batches = scene.buffer.take_outcome_batches()

    async def send(calls: Sequence[Any]) -> list[Any]:
        assert calls == ["x"]
        return [Reply("", each=[Reply("moved")]), ServerError("away"), Reply("run")]

    results = run_without_event_loop(scene.buffer.send(batches, ["x"], send))  # type: ignore[list-item]
    assert (acked.outcome, scene.settled, len(results)) == ("moved", ["a"], 3)
    assert [batch.verb for batch in scene.buffer.take_outcome_batches()] == ["reject"]
    scene.buffer.report_settled(acked)
    assert scene.settled == ["a", "a"]
