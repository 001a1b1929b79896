"""Parts of the journal, of undo records and of a migration where one value is missing or at a bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rqtui.durations import MAX_INSTANT_MS
from rqtui.errors import UsageError
from rqtui.model import Job, MigrationTerms, Outcome, Ref, State
from rqtui.operations import canary, canary_jobs, journal, migration, undo


@pytest.mark.parametrize(
    ("value", "is_valid"), [(-1, False), (0, True), (MAX_INSTANT_MS, True), (MAX_INSTANT_MS + 1, False)]
)
def test_a_time_of_the_journal_is_one_that_can_be_shown(value: int, is_valid: bool) -> None:
    if is_valid:
        assert journal._parse_count_or_ms(str(value)) == value
        return
    with pytest.raises(ValueError, match="no instant"):
        journal._parse_count_or_ms(value)


@pytest.mark.parametrize(
    ("allowed", "field"),
    [(None, b"-"), (0, b"0"), (1, b"1"), (1_000_000, b"1000000"), (1_000_001, b"1000000")],
)
def test_a_copy_has_the_attempts_of_its_original_up_to_a_million(allowed: int | None, field: bytes) -> None:
    job = Job(b"a", "mail", "rq", "queued", State.READY, b"a", body=b"x", enqueued_ms=5)
    records = {
        each: migration._build_copy_record(job, MigrationTerms(max_attempts=each), 1_000) for each in (allowed, 123_456)
    }
    assert records[allowed] == records[123_456].replace(b"123456", field)


@pytest.mark.parametrize(
    ("place_after", "reported", "is_kept"),
    [("dead", "", True), ("ready", "", False), (None, "", False), ("ready", "ready", True), ("dead", "ready", False)],
)
def test_an_undo_record_has_the_state_of_a_job_only_where_the_verb_moved_it(
    place_after: str | None, reported: str, is_kept: bool
) -> None:
    script = SimpleNamespace(targets=("dead",))
    state: Any = SimpleNamespace(
        engine=SimpleNamespace(systems={"native": SimpleNamespace(scripts={"kill": script})}),
        ref=SimpleNamespace(system="native"),
        verb="kill",
    )
    rows: Any = {} if place_after is None else {b"a": SimpleNamespace(place=place_after, line=b"1 -")}
    outcome = Outcome("kill", b"a", "moved", "", values={"place": reported} if reported else {})
    after = undo.SavedChunk._find_after_state(state, outcome, {}, rows)
    assert after == (undo.AfterState(place_after, b"1 -") if is_kept else undo.AfterState())


@pytest.mark.parametrize(
    ("stored_ms", "is_taken"),
    [(None, False), (0, False), (999, False), (1_000, True), (2_000, True), (3_000, True), (3_001, False)],
)
def test_a_stored_time_of_a_step_is_after_the_last_step_and_not_in_the_future(
    stored_ms: int | None, is_taken: bool
) -> None:
    assert canary_jobs._check_stored_time(stored_ms, 1_000, 2_000) == (stored_ms if is_taken else None)


@pytest.mark.parametrize(("taken_ago_s", "is_endless"), [(59.75, False), (60.0, True), (60.25, True)])
def test_a_first_job_is_endless_once_its_limit_is_over(taken_ago_s: float, is_endless: bool) -> None:
    key = (Ref("native", "mail"), b"a")
    state: Any = SimpleNamespace(_pending=[key], _taken_s={key: 1_024.0 - taken_ago_s}, _run_s=60.0, _wait_s=300.0)
    progress: Any = SimpleNamespace(total=2, failed=0, unknown=0, first_failure=None, wait_left_s=1.0)
    reason = canary.Canary._explain_stop(state, progress, 1_024.0)
    assert reason == ("a has not ended 1 min after a worker took it; 1 of the first 2 jobs have not ended" * is_endless)


@pytest.mark.parametrize(
    ("size", "is_valid"), [(0, False), (1, True), (2, True), (99, True), (100, True), (101, False)]
)
def test_a_canary_has_1_to_100_jobs(size: int, is_valid: bool) -> None:
    if is_valid:
        canary.check_canary([], size)
        return
    with pytest.raises(UsageError, match=f"a canary has 1 to 100 jobs, not {size}"):
        canary.check_canary([], size)
