"""Test the records of a canary's first jobs: which steps are known, since when, and how a job ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqtui.model import Attempt, Job, Ref, State
from rqtui.operations.canary_jobs import End, FirstJob, Step, record_poll

SENT_MS = 1_000_000
REF = Ref("native", "mail")
DEAD = Job(b"a", "mail", "native", "dead", State.DEAD, b"a", error="CardDeclined: no")
TRACE = 'Traceback (most recent call last):\n  File "/app/charge.py", line 88, in pay\n    raise E\nCardDeclined: no'


def build_found_job(state: State, **fields: object) -> Job:
    """Return the job as a poll found it in a place of this state."""
    return replace(DEAD, place=str(state), state=state, error="", **fields)


def record_polls(*polls: tuple[int, Job | None], stores_failed_jobs: bool = True) -> FirstJob:
    """Return the record after polls, each (ms since the job was sent, what was found)."""
    record = FirstJob(REF, DEAD, SENT_MS)
    for after_ms, job in polls:
        record = record_poll(record, job, SENT_MS + after_ms, stores_failed_jobs=stores_failed_jobs)
    return record


def test_stored_times_are_those_of_the_steps() -> None:
    record = record_polls(
        (250, build_found_job(State.READY, since_ms=5)),
        (500, build_found_job(State.RESERVED, reserved_ms=SENT_MS + 400, worker="w1")),
        (750, build_found_job(State.RESERVED, reserved_ms=SENT_MS + 400, worker="w1")),
        (1750, build_found_job(State.DONE, reserved_ms=SENT_MS + 400, since_ms=SENT_MS + 1600, worker="w1")),
    )
    assert record.steps == (Step(State.READY, SENT_MS), Step(State.RESERVED, SENT_MS + 400, worker="w1"))
    assert (record.end, record.ended_ms, record.is_end_seen) == (End.DONE, SENT_MS + 1600, False)
    assert record.taken_ms == SENT_MS + 400 and record.describe_end() == "done after 1.6s"


def test_times_that_are_not_stored_are_those_of_the_polls_and_marked() -> None:
    record = record_polls(
        (250, build_found_job(State.READY)), (500, build_found_job(State.RESERVED)), (750, None), (1000, None)
    )
    assert record.steps[-1] == Step(State.RESERVED, SENT_MS + 500, is_seen=True)
    assert (record.end, record.ended_ms, record.is_end_seen) == (End.DONE, SENT_MS + 750, True)
    assert record.describe_end() == "done, seen after 750 ms"


def test_skipped_states_are_in_the_record_only_where_the_system_stores_them() -> None:
    assert record_polls((250, None), (500, None)).steps == ()
    assert record_polls((250, build_found_job(State.DONE))).steps == ()
    stored = record_polls(
        (250, build_found_job(State.DONE, reserved_ms=SENT_MS + 10, since_ms=SENT_MS + 90, worker="w2"))
    )
    assert [(step.state, step.at_ms - SENT_MS) for step in stored.steps] == [(State.READY, 0), (State.RESERVED, 10)]
    assert stored.ended_ms == SENT_MS + 90


def test_a_time_of_an_earlier_run_is_not_taken_for_this_one() -> None:
    old = build_found_job(State.DEAD, history=(Attempt(5, 9, "w0", "CardDeclined: no"),), since_ms=9)
    record = record_polls((250, old))
    assert record.steps == () and (record.ended_ms, record.is_end_seen) == (SENT_MS + 250, True)


def test_a_time_far_after_the_poll_is_that_of_another_clock() -> None:
    record = record_polls((250, build_found_job(State.RESERVED, reserved_ms=SENT_MS + 90_000)))
    assert record.steps[-1] == Step(State.RESERVED, SENT_MS + 250, is_seen=True)


@pytest.mark.parametrize("state", [State.DEAD, State.SCHEDULED])
def test_a_failed_job_has_its_run_its_error_and_its_place(state: State) -> None:
    attempt = Attempt(SENT_MS + 100, SENT_MS + 1300, "w1", TRACE)
    record = record_polls((1500, replace(build_found_job(state, history=(attempt,)), error=TRACE)))
    assert record.steps[-1] == Step(State.RESERVED, SENT_MS + 100, worker="w1")
    assert (record.end, record.ended_ms) == (End.FAILED, SENT_MS + 1300)
    assert record.failed_at == "charge.py:88"
    assert record.describe_end() == "failed after 1.3s at charge.py:88: CardDeclined: no"


def test_a_job_that_is_ready_again_after_a_run_has_four_steps() -> None:
    record = record_polls(
        (250, build_found_job(State.RESERVED, reserved_ms=SENT_MS + 100)),
        (500, build_found_job(State.READY, since_ms=SENT_MS + 400)),
        (750, build_found_job(State.RESERVED, reserved_ms=SENT_MS + 600)),
    )
    assert [step.at_ms - SENT_MS for step in record.steps] == [0, 100, 400, 600]
    assert record.is_running and record.describe_end() == ""


def test_one_poll_without_the_job_is_not_its_end() -> None:
    record = record_polls((250, None), (500, build_found_job(State.READY)), (750, None))
    assert record.end is None and record.steps == (Step(State.READY, SENT_MS),)


def test_a_job_in_no_place_of_a_system_without_failed_jobs_has_an_unknown_end() -> None:
    record = record_polls((250, None), (500, None), stores_failed_jobs=False)
    assert record.end is End.UNKNOWN and record.describe_end() == "ended, seen after 250 ms; how is not stored"
