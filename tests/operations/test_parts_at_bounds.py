"""Parts of the journal, of undo records and of a migration where one value is missing or at a bound."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rqtui.durations import MAX_INSTANT_MS
from rqtui.errors import Refused, UsageError
from rqtui.model import Job, MigrationTerms, Outcome, Ref, State
from rqtui.operations import canary, canary_jobs, drain, journal, migration, revert, undo, undo_files
from rqtui.systems import registry


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


def test_a_file_that_is_refused_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[int] = []

    def refuse(descriptor: int, _path: Path) -> None:
        refused.append(descriptor)
        raise PermissionError("no")

    monkeypatch.setattr(journal, "_remove_rights_of_others", refuse)
    with pytest.raises(PermissionError, match="no"):
        journal._open_own_file(tmp_path / "a")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(refused[0])


@pytest.mark.parametrize(("size", "is_renamed"), [(0, False), (9, False), (10, False), (11, True)])
def test_a_journal_is_renamed_if_it_is_longer_than_its_limit(
    size: int, *, is_renamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "FILE_BYTES", 10)
    path = tmp_path / journal.FILE_NAME
    path.write_bytes(b"x" * size)
    journal._append_and_rotate(path, b"line\n")
    assert path.read_bytes() == (b"line\n" if is_renamed or not size else b"x" * size + b"\nline\n")
    assert path.with_name(journal.FILE_NAME + ".1").exists() is is_renamed


class Clock:
    """A clock that only moves while a program sleeps, by powers of 2, which are exact."""

    def __init__(self) -> None:
        self.now_s, self.sleeps_s = 1_024.0, list[float]()

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.sleeps_s.append(seconds)
        self.now_s += 0.25


def test_the_lock_of_a_journal_is_awaited_for_half_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(journal, "time", clock)
    with (tmp_path / "a").open("w") as held, (tmp_path / "a").open("w") as other:
        assert journal._lock_file(held.fileno()) and not clock.sleeps_s
        assert not journal._lock_file(other.fileno())
    assert clock.sleeps_s == [0.001, 0.001]


def test_the_lock_of_a_migration_is_awaited_until_it_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(), list[dict[str, object]]()
    monkeypatch.setattr(drain, "time", clock)
    client = SimpleNamespace(set=lambda _key, _token, **options: asked.append(options))
    state: Any = SimpleNamespace(_client=client, _lock_key=b"lock", _lock_token="t", ref="rq:mail")
    with pytest.raises(Refused, match="another migration of rq:mail is running"):
        drain.BatchDrain.prepare_drain(state)
    assert asked == [{"nx": True, "px": drain.LOCK_MS}] * (len(clock.sleeps_s) + 1)
    assert clock.sleeps_s == [0.2] * (4 * (drain.LOCK_MS // 1000 + 1) + 1)


@pytest.mark.parametrize(("more_ms", "is_alive"), [(-1, True), (0, False), (1, False)])
def test_a_change_of_another_machine_is_interrupted_after_a_silence(
    more_ms: int, *, is_alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "time", Clock())
    begin_line = {"who": "me@another machine", "process": "1"}
    change = journal._BegunChange(begin_line, 1_024_000 - journal.SILENT_MS - more_ms)
    assert change.is_alive is is_alive


@pytest.mark.parametrize(
    ("most", "most_bytes", "kept"),
    [(4, 99, "abc"), (3, 99, "bc"), (2, 99, "c"), (1, 99, ""), (9, 15, "abc"), (9, 14, "bc"), (9, 5, "c"), (9, 4, "")],
)
def test_the_oldest_undo_records_are_deleted_beyond_both_limits(
    most: int, most_bytes: int, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo_files, "MAX_RECORDS", most)
    monkeypatch.setattr(undo_files, "MAX_FOLDER_BYTES", most_bytes)
    for at, name in enumerate("abc"):
        (tmp_path / f"{at + 1}-{name}.jsonl").write_bytes(b"12345")
    undo_files._delete_oldest_records(tmp_path)
    assert "".join(sorted(path.stem[-1] for path in tmp_path.iterdir())) == kept


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_change_of_too_many_jobs_cannot_be_undone(more: int, tmp_path: Path) -> None:
    number = undo.MAX_SAVED_JOBS + more
    system = registry.create_system("native")
    assert ("no undo" in undo.describe_undo(system, "kill", number)) is (more > 0)
    operation = journal.Operation(1, "me", "kill", "mail", "native", count=number)
    assert undo.is_too_large_to_undo(operation) is (more > 0)
    recorder = undo.UndoRecorder(tmp_path)
    recorder.begin_change("kill", Ref("native", "mail"), number)
    assert list(recorder._open_files.values()) == [None] * (more > 0)


@pytest.mark.parametrize(("sizes", "lengths"), [((4, 5), [2]), ((5, 5), [2]), ((5, 6), [1, 1]), ((11, 1), [1, 1])])
def test_a_chunk_of_an_undo_is_as_long_as_a_reply_may_be(
    sizes: tuple[int, ...], lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revert, "ANSWER_BYTES", 10)
    jobs: Any = [(SimpleNamespace(id=b"a", place="dead", size=size), None) for size in sizes]
    state: Any = SimpleNamespace(chunk_numbers={})
    chunks = revert._split_into_undo_chunks(registry.create_system("native"), "restore", state, jobs)
    assert [len(chunk) for chunk in chunks] == lengths


@pytest.mark.parametrize(("count", "expected", "is_begun"), [(0, 0, False), (1, 0, False), (2, 0, True), (1, 2, True)])
def test_the_beginning_of_a_change_of_several_jobs_is_in_the_journal(
    count: int, expected: int, *, is_begun: bool, tmp_path: Path
) -> None:
    ref, begun = Ref("native", "mail"), list[int]()
    begin: Any = SimpleNamespace(begin_change=lambda _verb, _queue, _system, total: begun.append(total))
    recorder = undo.UndoRecorder(tmp_path, journal=begin)
    recorder._expected_totals["kill", ref] = expected
    engine: Any = SimpleNamespace(systems={"native": registry.create_system("native")})
    recorder._begin_journal_entry(engine, "kill", ref, count)
    assert begun == [max(count, expected)] * is_begun


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_jobs_are_read_ahead_if_one_call_reads_them(more: int, tmp_path: Path) -> None:
    system: Any = registry.create_system("rq")
    ids = [b"a"] * (system.jobs_per_call + more)
    requests = undo.UndoRecorder(tmp_path).build_read_requests(system, "delete", "mail", ids)
    assert len(requests) == (more <= 0)


@pytest.mark.parametrize(
    ("jobs", "more_bytes", "is_full"), [(-2, 0, False), (-1, 0, False), (0, 0, True), (-2, -1, False), (-2, 1, True)]
)
def test_jobs_beyond_the_limits_of_an_undo_record_are_only_counted(
    jobs: int, more_bytes: int, *, is_full: bool, tmp_path: Path
) -> None:
    class IsRead(Exception):
        pass

    def read(_self: object) -> str:
        raise IsRead

    ref, unsaved = Ref("native", "mail"), list[int]()
    file_type = type(
        "File", (), {"to_queue": property(read), "write_unsaved": lambda _self, number: unsaved.append(number)}
    )
    file: Any = file_type()
    file.jobs, file.bytes = undo.MAX_SAVED_JOBS + jobs, undo_files.OPERATION_BYTES + more_bytes
    recorder = undo.UndoRecorder(tmp_path)
    recorder._open_files["kill", ref] = file
    engine: Any = SimpleNamespace(systems={"native": registry.create_system("native")})
    job = Job(b"a", "mail", "native", "ready", State.READY, b"a")
    if is_full:
        assert recorder.save_jobs(engine, "kill", ref, [job]) is None
    else:
        with pytest.raises(IsRead):
            recorder.save_jobs(engine, "kill", ref, [job])
    assert unsaved == [1] * is_full


@pytest.mark.parametrize(("ends", "number"), [(["x"], 1), (["y"], 2), (["x", "y"], 2), ([], 2)])
def test_an_interrupted_change_that_two_programs_recovered_is_one_operation(
    ends: list[str], number: int, tmp_path: Path
) -> None:
    operation = journal.Operation(5, "me", "kill", "mail", "native", count=3)
    lines = [json.dumps({**journal.to_document(operation), "ends": each}) for each in (["x"], ends)]
    (tmp_path / journal.FILE_NAME).write_text("\n".join(lines))
    assert len(journal._load_journal_entries(tmp_path)) == number
