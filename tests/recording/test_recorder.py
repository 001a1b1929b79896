"""Record snapshots: the records of a minute agree with its snapshots, and no problem of the file reaches the caller."""

from __future__ import annotations

import resource
import signal
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bare_objects import Actor, Bare
from families import run_in_one_test
from recordings import END_MS, MAIL, NOW_MS
from waiting import wait_until

from rqtui.connection.connect import ServerInfo
from rqtui.engine.rates import Totals
from rqtui.errors import RecordingError
from rqtui.model import Cause, Cost, Count, EventCoverage, Finding, Queue, Ref, Snapshot, State, Verdict
from rqtui.operations.journal import Journal
from rqtui.recording import recorder as recording
from rqtui.recording.recorder import Accumulator, Recorder
from rqtui.recording.records import MINUTE_MS, Period
from rqtui.recording.store import Batch, Limits, Reader, Writer

URL = "redis://jobs-1:6379"
FAILING = Finding(
    "failing", "warning", "mail", "4 of 10 attempts failed", jobs=4,
    causes=(Cause("ValueError", 3), Cause("token=abc", 1)),
)  # fmt: skip


def build_snapshot(at_ms: int, *findings: Finding, ready: int = 3, name: str = "mail", **values: object) -> Snapshot:
    counts = (Count("ready", State.READY, ready), Count("dead", State.DEAD, 2, is_exact=False))
    fields: dict[str, object] = {"oldest_ready_ms": ready * 100, "workers": 2, "verdict": Verdict("warning"), **values}
    queue = Queue(name, "native", counts, at_ms, findings=findings, counters={"in": 0, "out": 0}, **fields)  # type: ignore[arg-type]
    return Snapshot(at_ms, (queue,), cost=Cost(ms=2.5, rtt_ms=0.4))


def accumulate(*polls: tuple[Snapshot, Totals], accumulator: Accumulator | None = None) -> Accumulator:
    accumulator = accumulator or Accumulator()
    for snapshot, totals in polls:
        accumulator.add_snapshot(snapshot, lambda _ref, totals=totals: totals, (), ())  # type: ignore[misc]
    return accumulator


def list_periods(accumulator: Accumulator, ref: Ref = MAIL) -> list[Period]:
    accumulator.flush_minutes()
    return [period for period in accumulator.take_batch().periods if period.ref == ref]


def test_the_flows_of_a_minute_are_the_growth_of_the_totals_over_its_polls() -> None:
    accumulator = accumulate(
        (build_snapshot(NOW_MS + 1_000, ready=5), Totals(100, 50, 7, 3)),
        (build_snapshot(NOW_MS + 31_000, ready=9), Totals(104, 51, 8, 3)),
        (build_snapshot(NOW_MS + 59_000, ready=2, workers=1), Totals(110, 58, 8, 4)),
        (build_snapshot(NOW_MS + 61_000, ready=2), Totals(111, 58, 8, 4)),
    )
    first, second = list_periods(accumulator)
    assert (first.enqueued, first.completed, first.failed, first.died) == (10, 8, 1, 1)
    assert (first.begin_ms - NOW_MS, first.end_ms - NOW_MS, first.watched_ms, first.polls) == (1_000, 59_000, 58_000, 3)
    assert (first.counts, first.estimated, first.ready_max) == ((2, 2), 0b10, 9)
    assert (first.oldest_ready_ms, first.oldest_ready_max_ms, first.workers, first.workers_min) == (200, 900, 1, 1)
    assert (second.at_ms, second.enqueued, second.watched_ms, second.severity) == (
        NOW_MS + MINUTE_MS,
        1,
        2_000,
        "warning",
    )


def test_a_queue_at_rest_is_written_every_15_seconds_and_all_of_its_minute_in_the_end() -> None:
    accumulator, written = Accumulator(), []
    for second in range(0, 62, 2):
        ready = 4 if second >= 20 else 3
        snapshot = build_snapshot(NOW_MS + second * 1000, ready=ready, oldest_ready_ms=1_000 + second)
        accumulate((snapshot, Totals(ready)), accumulator=accumulator)
        written += [(second, period.at_ms - NOW_MS, period.polls) for period in accumulator.take_batch().periods]
    assert written == [(0, 0, 1), (16, 0, 9), (20, 0, 11), (36, 0, 19), (52, 0, 27), (60, 0, 30), (60, 60_000, 1)]
    accumulate((build_snapshot(NOW_MS + 62_000, ready=4, oldest_ready_ms=9_000), Totals(4)), accumulator=accumulator)
    assert accumulator.take_batch().periods == ()
    (last,) = list_periods(accumulator)
    assert (last.polls, last.watched_ms, last.oldest_ready_max_ms) == (2, 4_000, 9_000)


def test_a_gap_a_reset_counter_and_a_clock_set_back_are_no_flow() -> None:
    accumulator = accumulate(
        (build_snapshot(NOW_MS), Totals(100)),
        (build_snapshot(NOW_MS + 10 * MINUTE_MS), Totals(900)),
        (build_snapshot(NOW_MS + 10 * MINUTE_MS + 2_000), Totals(3)),
        (build_snapshot(NOW_MS + 9 * MINUTE_MS), Totals(5)),
    )
    assert [(period.enqueued, period.watched_ms) for period in list_periods(accumulator)] == [
        (0, 0),
        (0, 2_000),
        (0, 0),
    ]


def test_jobs_that_ended_while_redis_was_away_are_not_of_the_minute_it_came_back() -> None:
    accumulator = accumulate((build_snapshot(NOW_MS), Totals(100)))
    accumulator.add_outage("Connection refused.", NOW_MS + 2_000)
    accumulate((build_snapshot(NOW_MS + 20_000), Totals(140)), accumulator=accumulator)
    batch = accumulator.take_batch()
    assert [(period.enqueued, period.watched_ms) for period in batch.periods] == [(0, 0)]
    (outage,) = batch.findings
    assert (outage.ref, outage.kind, outage.text) == (None, "redis-away", "Connection refused.")
    assert batch.ended == (outage,) and (outage.begin_ms, outage.seen_ms) == (NOW_MS + 2_000, NOW_MS + 20_000)


def test_a_number_that_is_not_known_is_not_recorded_as_zero() -> None:
    counts = (Count("done", State.DONE, 0, coverage=EventCoverage()), Count("ready", State.READY, 1))
    queue = Queue("mail", "celery", counts, NOW_MS, workers=None)
    (period,) = list_periods(accumulate((Snapshot(NOW_MS, (queue,)), Totals())), Ref("celery", "mail"))
    assert (period.counts, period.workers, period.oldest_ready_ms) == ((None, 1), None, None)


def test_which_flows_a_system_counts_is_recorded_with_the_queue() -> None:
    batch = accumulate((build_snapshot(NOW_MS), Totals())).take_batch()
    assert batch.queues[MAIL].counted == ("enqueued", "completed")
    assert [place.name for place in batch.queues[MAIL].places] == ["ready", "dead"]


def test_a_queue_that_could_not_be_counted_has_no_record() -> None:
    accumulator = accumulate((build_snapshot(NOW_MS, error="wrong type"), Totals()))
    assert not accumulator.take_batch().periods


def test_a_finding_is_written_when_it_begins_every_five_seconds_and_when_it_ended() -> None:
    written = []
    accumulator = Accumulator()
    for seconds in range(0, 40, 2):
        findings = (FAILING,) if seconds < 20 and seconds != 8 else ()
        accumulate((build_snapshot(NOW_MS + seconds * 1000, *findings), Totals()), accumulator=accumulator)
        batch = accumulator.take_batch()
        written += [(seconds, (one.seen_ms - NOW_MS) / 1000, one in batch.ended) for one in batch.findings]
    assert written == [(0, 0, False), (6, 6, False), (12, 12, False), (18, 18, False), (28, 18, True)]


def test_the_last_sight_of_a_finding_is_written_in_the_end() -> None:
    accumulator = Accumulator()
    for second in (0, 2, 4):
        accumulate((build_snapshot(NOW_MS + second * 1000, FAILING), Totals()), accumulator=accumulator)
        accumulator.take_batch()
    accumulator.flush_minutes()
    (record,) = accumulator.take_batch().findings
    assert record.seen_ms == NOW_MS + 4_000 and record.text == FAILING.text


def test_a_finding_begins_when_its_problem_began_if_that_is_known() -> None:
    values = Finding("failing", "warning", "mail", "x", since_ms=NOW_MS - 5_000)
    (record,) = accumulate((build_snapshot(NOW_MS, values), Totals())).take_batch().findings
    assert (record.begin_ms, record.seen_ms) == (NOW_MS - 5_000, NOW_MS)


def test_texts_and_causes_are_masked() -> None:
    finding = Finding(
        "failing", "warning", "mail", "login at redis://ann:geheim@h failed", detail="mostly password=geheim",
        causes=(Cause("password=geheim", 2), Cause("password=other", 1)),
    )  # fmt: skip
    batch = accumulate((build_snapshot(NOW_MS, finding), Totals())).take_batch()
    assert "geheim" not in repr(batch) and "other" not in repr(batch)
    assert [(error.cause, error.jobs) for error in batch.errors] == [("password=••••••••", 2)]


def test_causes_are_written_once_per_minute_and_when_they_change() -> None:
    accumulator, numbers = Accumulator(), []
    for seconds in (0, 2, 4, 62):
        accumulate((build_snapshot(NOW_MS + seconds * 1000, FAILING), Totals()), accumulator=accumulator)
        numbers.append(len(accumulator.take_batch().errors))
    assert numbers == [2, 0, 0, 2]


def test_the_facts_of_the_server_are_the_sum_of_its_nodes() -> None:
    accumulator = Accumulator()
    nodes = [ServerInfo("redis", used_bytes=100, maxmemory_bytes=500), ServerInfo("redis", used_bytes=50)]
    accumulator.add_snapshot(build_snapshot(NOW_MS), lambda _ref: Totals(), (), nodes)
    (period,) = accumulator.take_batch().server
    assert (period.used_bytes, period.maxmemory_bytes, period.role, period.took_max_ms) == (150, None, "", 2.5)


def test_a_process_continues_the_minute_that_another_one_began() -> None:
    before = accumulate(
        (build_snapshot(NOW_MS), Totals(10)), (build_snapshot(NOW_MS + 10_000), Totals(14))
    ).take_batch()  # fmt: skip
    accumulator = accumulate((build_snapshot(NOW_MS + 20_000), Totals(20)))
    accumulator.set_earlier_periods(before.periods, before.server)
    accumulate((build_snapshot(NOW_MS + 30_000), Totals(23)), accumulator=accumulator)
    batch = accumulator.take_batch()
    ((period,), (server,)) = batch.periods, batch.server
    assert (period.enqueued, period.watched_ms, period.polls, period.begin_ms) == (7, 20_000, 4, NOW_MS)
    assert (server.watched_ms, server.polls) == (20_000, 4)
    accumulator.return_batch(batch)
    assert accumulator.take_batch() == batch
    accumulate((build_snapshot(NOW_MS + 40_000), Totals(24)), accumulator=accumulator)
    assert [(one.enqueued, one.watched_ms) for one in list_periods(accumulator)] == [(8, 30_000)]


@pytest.mark.parametrize(("begin_ms", "is_continued"), [(9_999, False), (10_000, True), (10_001, True)])
def test_a_minute_is_continued_if_the_earlier_part_had_ended(begin_ms: int, is_continued: bool) -> None:
    before = accumulate(
        (build_snapshot(NOW_MS), Totals(10)), (build_snapshot(NOW_MS + 10_000), Totals(14))
    ).take_batch()  # fmt: skip
    accumulator = accumulate((build_snapshot(NOW_MS + begin_ms), Totals(14)))
    accumulator.set_earlier_periods(before.periods, ())
    accumulate((build_snapshot(NOW_MS + 20_000), Totals(20)), accumulator=accumulator)
    (period,) = list_periods(accumulator)
    assert (period.enqueued, period.begin_ms - NOW_MS) == ((10, 0) if is_continued else (6, begin_ms))


def test_records_that_cannot_be_written_are_dropped_after_ten_minutes_and_old_queues_after_an_hour() -> None:
    accumulator = Accumulator()
    for minute in range(30):
        accumulate(
            (build_snapshot(NOW_MS + minute * MINUTE_MS, FAILING, name=f"q{minute}"), Totals()), accumulator=accumulator
        )
        accumulator.return_batch(accumulator.take_batch())
    batch = accumulator.take_batch()
    assert len(batch.periods) == len(batch.server) == 11 and len(batch.findings) <= 12
    later_ms = NOW_MS + 3 * 3_600_000
    accumulate(
        (build_snapshot(later_ms), Totals()), (build_snapshot(later_ms + MINUTE_MS), Totals()), accumulator=accumulator
    )
    assert len(accumulator._states) == 1


# -- the file ---------------------------------------------------------------------------------------------------------


def start_recorder(path: Path, report: Callable[[str], None] = lambda _sentence: None, **options: object) -> Recorder:
    return Recorder(path, URL, Limits(days=366), report, **options)  # type: ignore[arg-type]


def record(recorder: Recorder, *snapshots: Snapshot, warnings: Sequence[Finding] = ()) -> None:
    for snapshot in snapshots:
        recorder.record_snapshot(snapshot, lambda _ref: Totals(), warnings)


def read_periods(path: Path) -> list[Period]:
    try:
        with Reader.open(path) as reader:
            return reader.read_periods(MAIL, 0, END_MS)
    except RecordingError:  # there is no file yet, or nothing in it
        return []


def test_a_snapshot_is_in_the_file_soon_after_and_all_of_it_after_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.rqt"
    recorder = start_recorder(path)
    record(recorder, build_snapshot(NOW_MS, FAILING), warnings=[Finding("memory", "critical", "", "full")])
    wait_until(lambda: bool(read_periods(path)), 30, "the snapshot is in the file")
    record(recorder, *(build_snapshot(NOW_MS + second * 1000) for second in range(1, 60)))
    recorder.close(30)
    with Reader.open(path) as reader:
        (period,) = reader.read_periods(MAIL, 0, END_MS)
        assert (period.polls, period.watched_ms) == (60, 59_000)
        assert {finding.kind for finding in reader.read_findings(0, END_MS)} == {"failing", "memory"}
        assert len(reader.read_errors(0, END_MS)) == 2
        assert reader.read_meta()["url"] == URL


def test_changes_of_the_journal_are_recorded_once_and_those_of_another_redis_are_not(tmp_path: Path) -> None:
    journal, other = Journal(tmp_path, URL), Journal(tmp_path, "redis://other")
    journal.record_change("requeue", "mail", "native", [b"a"], {"ready again": 1}, undo=("u1",))
    other.record_change("delete", "mail", "native", [b"b"])
    reader = recording.JournalReader(tmp_path, URL)
    (change,) = reader.read_new_changes()
    assert change.fields["verb"] == "requeue" and reader.read_new_changes() == ()
    journal.mark_undone("u1")
    (undone,) = reader.read_new_changes()
    assert undone.key == change.key and undone.fields["undone_at_ms"] > 0
    reader.forget([undone])
    assert [one.key for one in reader.read_new_changes()] == [change.key]
    recorder = start_recorder(tmp_path / "recordings" / "a.rqt", state_folder=tmp_path)
    record(recorder, build_snapshot(NOW_MS))
    recorder.close(30)
    with Reader.open(tmp_path / "recordings" / "a.rqt") as file:
        assert [one.fields["verb"] for one in file.read_changes(0, END_MS)] == ["requeue"]


def test_a_foreign_file_is_reported_once_and_the_caller_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sentences = tmp_path / "a.rqt", list[str]()
    path.write_text("not a database\n" * 1000)
    monkeypatch.setattr(recording, "RETRY_S", 0.0)
    recorder = start_recorder(path, sentences.append)
    for second in range(50):
        record(recorder, build_snapshot(NOW_MS + second * 1000))
        wait_until(lambda: bool(sentences), 30, "the problem is reported")
    assert sentences == [recorder.problem and f"Nothing is recorded: {recorder.problem}"]
    assert "is no recording of rqtui, or is damaged" in sentences[0]
    path.unlink()  # as the sentence says
    record(recorder, build_snapshot(NOW_MS + 51_000))
    wait_until(lambda: path.exists() and not recorder.problem, 30, "a new file was created")
    recorder.close(30)
    assert [period.polls for period in read_periods(path)] == [51]
    assert len(sentences) == 1


def test_a_full_disk_is_reported_once_and_recording_continues_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sentences = tmp_path / "a.rqt", list[str]()
    monkeypatch.setattr(recording, "RETRY_S", 0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    recorder = start_recorder(path, sentences.append)
    record(recorder, build_snapshot(NOW_MS))
    wait_until(lambda: bool(read_periods(path)), 30, "the file exists")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        for number in range(2_000):
            record(recorder, build_snapshot(NOW_MS + 1_000, name=f"queue-with-a-long-name-{number}"))
        wait_until(lambda: bool(sentences), 30, "the full disk is reported")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    record(recorder, build_snapshot(NOW_MS + 2_000))
    wait_until(lambda: not recorder.problem and len(read_periods(path)) == 1, 30, "recording continues")
    recorder.close(30)
    assert len(sentences) == 1 and "the disk is full, or reports errors" in sentences[0]
    with Reader.open(path) as reader:
        assert len(reader.list_queues()) == 2_001


def test_a_lock_of_another_process_delays_records_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sentences = tmp_path / "a.rqt", list[str]()
    monkeypatch.setattr("rqtui.recording.store.BUSY_S", 0.01)
    monkeypatch.setattr(recording, "BUSY_RETRY_S", 0.01)
    Writer.open(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    recorder = start_recorder(path, sentences.append)
    record(recorder, *(build_snapshot(NOW_MS + minute * MINUTE_MS) for minute in range(3)))
    wait_until(lambda: recorder._busy_since_s > 0, 30, "the recorder met the lock")
    other.execute("ROLLBACK")
    other.close()
    wait_until(lambda: len(read_periods(path)) == 3, 30, "the records are in the file")
    recorder.close(30)
    assert not sentences


def test_a_fault_of_the_recorder_itself_does_not_reach_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = list[str]()

    def fail(_writer: Writer, _batch: Batch) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Writer, "append", fail)
    recorder = start_recorder(tmp_path / "a.rqt", sentences.append)
    record(recorder, build_snapshot(NOW_MS))
    wait_until(lambda: bool(sentences), 30, "the fault is reported")
    record(recorder, build_snapshot(NOW_MS + 1_000))
    recorder.close(30)
    assert sentences == ["Nothing is recorded: this should not happen: ZeroDivisionError: planted."]


def test_the_open_file_is_read_on_the_recorders_thread(tmp_path: Path) -> None:
    recorder = start_recorder(tmp_path / "a.rqt")
    record(recorder, build_snapshot(NOW_MS))
    results: list[tuple[object, str]] = []
    wait_until(lambda: bool(read_periods(recorder.path)), 30, "the snapshot is in the file")
    recorder.read(
        lambda store: (threading.current_thread().name, len(store.read_periods(MAIL, 0, END_MS))),
        lambda result, problem: results.append((result, problem)),
    )
    recorder.read(lambda _store: 1 // 0, lambda result, problem: results.append((result, problem)))
    wait_until(lambda: len(results) == 2, 30, "both reads are answered")
    assert results[0] == (("rqtui-recorder", 1), "")
    assert results[1][0] is None and "ZeroDivisionError" in results[1][1]
    record(recorder, build_snapshot(NOW_MS + 1_000))
    recorder.close(30)
    assert [period.polls for period in read_periods(recorder.path)] == [2]


def test_a_file_that_cannot_be_opened_is_the_answer_of_a_read(tmp_path: Path) -> None:
    path, problems = tmp_path / "a.rqt", list[str]()
    path.write_text("not a database\n" * 1000)
    recorder = start_recorder(path)
    record(recorder, build_snapshot(NOW_MS))
    wait_until(lambda: bool(recorder.problem), 30, "the problem is known")
    recorder.read(lambda store: store.version, lambda _result, problem: problems.append(problem))
    wait_until(lambda: bool(problems), 30, "the read is answered")
    assert "is no recording of rqtui, or is damaged" in problems[0]
    recorder.close(30)


@pytest.mark.parametrize(("wait_s", "closes_file"), [(recording.RETRY_S, True), (recording.RETRY_S / 2, False)])
def test_records_that_were_not_written_are_returned_to_all_parts(
    wait_s: float, closes_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    monkeypatch.setattr(recording, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    writer = Actor(log, "writer")
    failed = Bare(
        Recorder, _lock=threading.Lock(), _accumulator=Actor(log, "accumulator"), _pages=Actor(log, "pages"),
        _journal=Actor(log, "journal"), _writer=writer, problem="", _report=log.append,
    )  # fmt: skip
    batch: Any = SimpleNamespace(pages=["page"], changes=["change"])
    failed._handle_failure(batch, wait_s, "the disk is full")
    batch.changes = []
    failed._handle_failure(batch, wait_s, "the disk is full")
    returned = [
        "accumulator.return_batch(SimpleNamespace)",
        "pages.return_pages(['page'])",
        "journal.forget(['change'])",
    ]
    closed = ["writer.close()"] if closes_file else []
    assert log == [*returned, *closed, "Nothing is recorded: the disk is full", *returned[:2]]
    assert failed._writer is (None if closes_file else writer) and failed._retry_s == 1000.0 + wait_s


def test_every_record_and_read_wakes_the_thread_of_the_file() -> None:
    log: list[str] = []
    idle = Bare(
        Recorder, _lock=threading.Lock(), _accumulator=Actor(log, "accumulator"), _pages=None, _reads=deque(),
        _stop=Actor(log, "stop"), _wake=Actor(log, "wake"), _thread=Actor(log, "thread"),
    )  # fmt: skip
    idle.record_snapshot(build_snapshot(NOW_MS), lambda _ref: Totals())
    idle.record_outage("Connection refused.")
    assert [line.partition("(")[0] for line in log] == [
        "accumulator.add_snapshot", "wake.set", "accumulator.add_outage", "wake.set",
    ]  # fmt: skip
    log.clear()
    idle.read(lambda _writer: 1, lambda _result, _problem: None)
    assert log == ["wake.set()"] and len(idle._reads) == 1
    idle.close(3.0)
    assert log[1:] == ["stop.set()", "wake.set()", "thread.join(3.0)"]


@run_in_one_test("retry_s, is_written", [(99.9, True), (100.0, True), (100.1, False)])
def test_a_failed_write_is_repeated_when_its_time_has_come_and_reads_are_answered_before(
    retry_s: float, is_written: bool
) -> None:
    log: list[str] = []
    rounds = iter((False, True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "time", SimpleNamespace(monotonic=lambda: 100.0))
        running = Bare(
            Recorder, _stop=SimpleNamespace(is_set=lambda: next(rounds)), _wake=Actor(log, "wake"), _retry_s=retry_s,
            _compute_wait_s=lambda: 7.0, _try_write=lambda: log.append("write"), _lock=threading.Lock(),
            _answer_reads=lambda: log.append("answer"), _accumulator=Actor(log, "accumulator"), _writer=None,
        )  # fmt: skip
        running._run()
    written = ["write"] if is_written else []
    assert log == ["wake.wait(7.0)", "wake.clear()", *written, "answer", "accumulator.flush_minutes()", "write"]


def test_the_last_records_are_written_before_the_file_is_closed() -> None:
    log: list[str] = []
    stop = threading.Event()
    stop.set()
    ended = Bare(
        Recorder, _stop=stop, _lock=threading.Lock(), _accumulator=Actor(log, "accumulator"),
        _try_write=lambda: log.append("write"), _writer=Actor(log, "writer"),
    )  # fmt: skip
    ended._run()
    assert log == ["accumulator.flush_minutes()", "write", "writer.close()"]


def test_returned_records_of_more_than_ten_minutes_are_dropped() -> None:
    accumulator = Accumulator()
    accumulator.taken_ms = NOW_MS
    rows = [
        SimpleNamespace(at_ms=at_ms, seen_ms=at_ms, ref=MAIL, cause="Timeout", kind="failing", begin_ms=at_ms)
        for at_ms in (NOW_MS - recording.MAX_PENDING_MS + by_ms for by_ms in (-1, 0, 1))
    ]
    batch: Any = SimpleNamespace(periods=rows, server=rows, errors=rows, findings=rows, ended=rows)
    accumulator.return_batch(batch)
    for pending in (
        accumulator._pending_periods.values(), accumulator._pending_server.values(),
        accumulator._pending_errors.values(), accumulator._pending_findings.values(), accumulator._pending_ends,
    ):  # fmt: skip
        assert [*pending] == rows[1:]


def test_the_minute_of_the_first_snapshot_is_continued() -> None:
    log: list[str] = []
    begin_ms = NOW_MS // MINUTE_MS * MINUTE_MS
    started = Bare(
        Recorder, _lock=threading.Lock(), _accumulator=Actor(log, "accumulator", taken_ms=begin_ms + 59_999)
    )  # fmt: skip
    writer = SimpleNamespace(
        read_all_periods=lambda *span: ["queues", span], read_server_periods=lambda *span: ["server", span]
    )
    started._continue_minute(writer)
    span = f"[{begin_ms}, {begin_ms + 1}]"
    assert log == [f"accumulator.set_earlier_periods(['queues', {span}], ['server', {span}])"]
    assert started._is_continued
