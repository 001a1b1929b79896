"""Parts of the journal, of undo records and of a migration where one value is missing or at a bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rqtui.durations import MAX_INSTANT_MS
from rqtui.model import Job, MigrationTerms, Outcome, State
from rqtui.operations import journal, migration, undo


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
