"""The file of a recording: what is appended can be read; limits hold; foreign and damaged files are a sentence."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from families import run_in_one_test
from recordings import END_MS, MAIL, NOW_MS, PLACES, QUEUE, build_minutes, build_period, open_writer

from rqtui.errors import RecordingBusy, RecordingError
from rqtui.model import Ref
from rqtui.recording import store
from rqtui.recording.records import (
    HOUR_MS,
    MINUTE_MS,
    ErrorCount,
    RecordedChange,
    RecordedFinding,
)
from rqtui.recording.store import Batch, Coverage, Limits, Reader, Writer


def test_appended_records_are_read_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "recordings" / "a.rqt"
    hostile = Ref("rq", "m\udcffail\x1b[31m \udc80'\";--")
    finding = RecordedFinding(MAIL, "failing", "warning", "40 % failed", "mostly x", 4, NOW_MS, NOW_MS + 9)
    about_server = RecordedFinding(None, "memory", "critical", "full", "", 0, NOW_MS, NOW_MS + 5)
    errors = [ErrorCount(MAIL, NOW_MS, f"cause {number} \udcff", number) for number in (2, 1)]
    change = RecordedChange(NOW_MS + 7, "7 ann requeue", {"verb": "requeue", "ids": ["a\udcff"]})
    batch = build_minutes(NOW_MS, 2, MAIL, hostile)._replace(
        findings=[finding, about_server], errors=errors, changes=[change]
    )
    with open_writer(path, batch), Reader.open(path) as reader:
        assert {queue.ref for queue in reader.list_queues()} == {MAIL, hostile}
        assert reader.read_periods(MAIL, 0, END_MS) == [period for period in batch.periods if period.ref == MAIL]
        assert sorted(reader.read_all_periods(0, END_MS)) == sorted(batch.periods)
        assert reader.read_periods(MAIL, NOW_MS + 1, END_MS)[0].at_ms == NOW_MS + MINUTE_MS
        assert reader.read_server_periods(0, END_MS) == batch.server
        assert reader.read_findings(0, END_MS) == [finding, about_server]
        assert reader.read_findings(NOW_MS + 6, END_MS) == [finding]
        assert reader.read_errors(0, END_MS) == errors
        assert reader.read_changes(0, END_MS) == [change] and reader.read_changes(0, NOW_MS) == []
        assert reader.read_coverage(hostile) == reader.read_coverage() == Coverage(NOW_MS, NOW_MS + 2 * MINUTE_MS)
        assert reader.read_coverage(Ref("rq", "other")) == Coverage()
        assert reader.read_meta()["url"] == "redis://jobs-1:6379" and reader.version == store.VERSION
        assert [period.ref for period in reader.read_periods_at(NOW_MS + MINUTE_MS + 5)] == [MAIL, hostile]
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_record_of_the_writer_that_watched_longer_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.rqt"
    shorter, longer = build_period(NOW_MS, watched_ms=10, enqueued=1), build_period(NOW_MS, watched_ms=20, enqueued=2)
    for order in ([shorter, longer], [longer, shorter]):
        with open_writer(path) as one, open_writer(path) as two:
            for writer, period in zip((one, two), order, strict=True):
                writer.append(Batch({MAIL: QUEUE}, [period]))
            assert one.read_periods(MAIL, 0, END_MS) == two.read_periods(MAIL, 0, END_MS) == [longer]


def test_threads_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path, problems = tmp_path / "a.rqt", []

    def write(number: int) -> None:
        try:
            with open_writer(path) as writer:
                for minute in range(30):
                    writer.append(build_minutes(NOW_MS + minute * MINUTE_MS, 1, Ref("native", f"q{number}")))
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [problem for problem in problems if not isinstance(problem, RecordingBusy)] == []
    with Reader.open(path) as reader:
        counts = {queue.ref: len(reader.read_periods(queue.ref, 0, END_MS)) for queue in reader.list_queues()}
    assert len(problems) + sum(number == 30 for number in counts.values()) == 4


def test_a_finding_is_one_row_from_its_begin_to_its_end_whoever_sees_it(tmp_path: Path) -> None:
    finding = RecordedFinding(MAIL, "dead", "warning", "7 jobs are dead", "", 7, NOW_MS, NOW_MS)
    with open_writer(tmp_path / "a.rqt", Batch({MAIL: QUEUE}, findings=[finding])) as one:
        with open_writer(tmp_path / "a.rqt") as two:
            later = finding._replace(text="9 jobs are dead", jobs=9, severity="critical", seen_ms=NOW_MS + 60)
            two.append(Batch({MAIL: QUEUE}, findings=[later._replace(begin_ms=NOW_MS + 60)]))
            one.append(Batch({MAIL: QUEUE}, ended=[finding]))  # the other writer saw it later
            assert two.read_findings(0, END_MS) == [later]
            two.append(Batch({MAIL: QUEUE}, ended=[later]))
            assert two.read_findings(0, END_MS) == [later._replace(end_ms=NOW_MS + 60)]
        again = finding._replace(begin_ms=NOW_MS + 100, seen_ms=NOW_MS + 100)
        one.append(Batch({MAIL: QUEUE}, findings=[again]))
        assert len(one.read_findings(0, END_MS)) == 2
        one.end_stale_findings(NOW_MS + 200)
        assert one.read_findings(0, END_MS)[1].end_ms is None
        one.end_stale_findings(NOW_MS + 10 * MINUTE_MS)
        assert one.read_findings(0, END_MS)[1].end_ms == NOW_MS + 100


@pytest.mark.slow
def test_minutes_older_than_two_days_are_merged_to_hours_with_the_same_sums(tmp_path: Path) -> None:
    old_ms = NOW_MS - 49 * HOUR_MS
    refs = [Ref("native", f"q{number}") for number in range(store.QUEUES_PER_STEP + 3)]
    batch = build_minutes(old_ms, 60, *refs)._replace(errors=[ErrorCount(refs[0], old_ms + MINUTE_MS, "x", 3)])
    with open_writer(tmp_path / "a.rqt", batch, build_minutes(NOW_MS, 2, *refs)) as writer:
        while not writer.trim(NOW_MS + MINUTE_MS, Limits()):
            pass
        for ref in (refs[0], refs[-1]):
            hour, *minutes = writer.read_periods(ref, 0, END_MS)
            assert (hour.at_ms, hour.span_ms, hour.enqueued, hour.polls) == (old_ms, HOUR_MS, 360, 1800)
            assert [minute.span_ms for minute in minutes] == [MINUTE_MS] * 2
        assert [period.span_ms for period in writer.read_server_periods(0, END_MS)] == [HOUR_MS, MINUTE_MS, MINUTE_MS]
        assert writer.read_errors(0, END_MS) == [ErrorCount(refs[0], old_ms, "x", 3)]
        assert not writer.merge_oldest_hour(NOW_MS - store.MINUTES_KEPT_MS)


def test_records_older_than_the_limit_of_days_are_deleted(tmp_path: Path) -> None:
    old_ms = NOW_MS - 31 * store.DAY_MS
    finding = RecordedFinding(MAIL, "dead", "warning", "", "", 0, old_ms, old_ms, old_ms)
    old = build_minutes(old_ms, 3)._replace(
        findings=[finding], changes=[RecordedChange(old_ms, "k", {})], errors=[ErrorCount(MAIL, old_ms, "x", 1)]
    )
    with open_writer(tmp_path / "a.rqt", old, build_minutes(NOW_MS, 2)) as writer:
        assert writer.trim(NOW_MS, Limits(days=32))
        assert writer.read_coverage().begin_ms == old_ms
        assert writer.trim(NOW_MS, Limits(days=30))
        assert writer.read_coverage().begin_ms == NOW_MS
        assert not (writer.read_findings(0, NOW_MS) or writer.read_changes(0, NOW_MS) or writer.read_errors(0, NOW_MS))


@pytest.mark.slow
def test_a_file_over_its_limit_loses_its_oldest_detail_first_and_shrinks(tmp_path: Path) -> None:
    path, refs = tmp_path / "a.rqt", [Ref("native", f"q{number}") for number in range(20)]
    begin_ms = NOW_MS - 12 * HOUR_MS
    with open_writer(path, *(build_minutes(begin_ms + hour * HOUR_MS, 60, *refs) for hour in range(12))) as writer:
        before, limit = writer.measure_bytes(), 600_000
        assert before > 2 * limit
        while not writer.trim(NOW_MS, Limits(limit), budget_s=0):
            pass
        assert writer.measure_bytes() <= limit
        spans = [period.span_ms for period in writer.read_periods(refs[0], 0, END_MS)]
        assert spans == sorted(spans, reverse=True) and {*spans} == {HOUR_MS, MINUTE_MS}
        writer.trim(NOW_MS, Limits(60_000), budget_s=60)
        assert writer.measure_bytes() < before / 4
        assert writer.read_coverage().end_ms == NOW_MS
    assert path.stat().st_size < before / 2


def test_a_queue_whose_places_changed_keeps_its_past(tmp_path: Path) -> None:
    changed = QUEUE._replace(places=PLACES[:2])
    shorter = build_period(NOW_MS + MINUTE_MS, counts=(1, 2))
    with open_writer(tmp_path / "a.rqt", build_minutes(NOW_MS, 1), Batch({MAIL: changed}, [shorter])) as writer:
        assert [len(period.counts) for period in writer.read_periods(MAIL, 0, END_MS)] == [5, 2]


def write_foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE period (at_ms)")
    connection.close()


def write_newer_recording(path: Path) -> None:
    Writer.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {store.VERSION + 1}")
    connection.close()


def write_recording_with_trigger(path: Path) -> None:
    Writer.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON period BEGIN DELETE FROM period; END")
    connection.close()


def truncate_recording(path: Path) -> None:
    refs = [Ref("native", f"q{number}") for number in range(100)]
    with open_writer(path, build_minutes(NOW_MS, 60, *refs)):
        pass
    os.truncate(path, path.stat().st_size // 3)


def write_sparse_file(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 2 << 30)


BAD_FILES = {
    "text": (lambda path: path.write_text("queue,count\n" * 1000), "is no recording of rqtui, or is damaged"),
    "foreign": (write_foreign_database, "is a database of another program"),
    "newer": (write_newer_recording, "has format 2, and this rqtui reads format 1: update rqtui"),
    "trigger": (write_recording_with_trigger, "has other tables"),
    "2 GB of zeros": (write_sparse_file, "is no recording of rqtui, or is damaged"),
    "folder": (lambda path: path.mkdir(), "is no regular file"),
    "pipe": (os.mkfifo, "is no regular file"),
}


def read_first_bytes(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(1 << 20)


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_is_no_recording_is_refused_in_a_sentence_and_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    write, sentence = BAD_FILES[kind]
    path = tmp_path / "a.rqt"
    write(path)
    before = read_first_bytes(path)
    for open_file in (Reader.open, Writer.open):
        with pytest.raises(RecordingError, match=sentence) as raised:
            open_file(path)
        assert str(path) in str(raised.value) and str(raised.value).endswith(".")
    assert read_first_bytes(path) == before


def test_a_truncated_recording_is_refused_when_it_is_opened_or_read(tmp_path: Path) -> None:
    path = tmp_path / "a.rqt"
    truncate_recording(path)
    with pytest.raises(RecordingError, match="damaged"), Reader.open(path) as reader:
        reader.read_all_periods(0, END_MS)
    with pytest.raises(RecordingError, match="damaged"), Writer.open(path) as writer:
        writer.append(build_minutes(NOW_MS, 60, *[Ref("native", f"q{number}") for number in range(100)]))


@pytest.mark.slow
def test_random_damage_never_raises_another_error(tmp_path: Path) -> None:
    path, source = tmp_path / "a.rqt", random.Random(29)
    refs = [Ref("native", f"q{number}") for number in range(20)]
    finding = RecordedFinding(MAIL, "dead", "warning", "text", "detail", 0, NOW_MS, NOW_MS)
    batch = build_minutes(NOW_MS, 30, MAIL, *refs)._replace(
        findings=[finding], errors=[ErrorCount(MAIL, NOW_MS, "x", 1)], changes=[RecordedChange(NOW_MS, "k", {"a": 1})]
    )
    with open_writer(path, batch):
        pass
    intact, refused = path.read_bytes(), 0
    for _ in range(60):
        damaged = bytearray(intact)
        for _byte in range(source.choice((1, 20, 400))):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        path.write_bytes(damaged)
        try:
            with Reader.open(path) as reader:
                reader.list_queues(), reader.read_all_periods(0, END_MS), reader.read_findings(0, END_MS)
                reader.read_errors(0, END_MS), reader.read_changes(0, END_MS), reader.read_server_periods(0, END_MS)
                reader.read_meta(), reader.read_coverage()
        except RecordingError:
            refused += 1
    assert refused > 10


def test_a_missing_or_empty_recording_and_a_link_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"there is no recording .*a\.rqt\."):
        Reader.open(tmp_path / "a.rqt")
    (tmp_path / "empty.rqt").touch()
    with pytest.raises(RecordingError, match="nothing was recorded yet"):
        Reader.open(tmp_path / "empty.rqt")
    (tmp_path / "target").touch()
    (tmp_path / "a.rqt").symlink_to(tmp_path / "target")
    with pytest.raises(RecordingError, match="is no regular file"):
        Writer.open(tmp_path / "a.rqt")
    assert not (tmp_path / "target").read_bytes()


def test_a_file_of_another_user_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "recordings" / "a.rqt"
    with open_writer(path, build_minutes(NOW_MS, 1)):
        pass
    real = path.parent.stat().st_uid
    monkeypatch.setattr(store, "create_private_folder", lambda _folder: None)
    monkeypatch.setattr(os, "geteuid", lambda: real + 1)
    with pytest.raises(RecordingError, match=f"belongs to user {real}, not to user {real + 1}; nothing is recorded"):
        Writer.open(path)
    with Reader.open(path) as reader:  # a person may read a recording that another user left readable
        assert reader.read_periods(MAIL, 0, END_MS)


def test_a_file_that_others_may_use_loses_these_rights(tmp_path: Path) -> None:
    path = tmp_path / "a.rqt"
    Writer.open(path).close()
    for mode in (0o664, 0o601, 0o602, 0o604, 0o610, 0o677, 0o600):
        path.chmod(mode)
        Writer.open(path).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_file_has_the_settings_of_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "time", SimpleNamespace(time=lambda: 1_800_000_000.25))
    names = ("journal_mode", "journal_size_limit", "synchronous", "auto_vacuum", "application_id", "user_version")
    copied = Writer.create_copy(tmp_path / "copy", "")
    for writer, journal_mode in ((Writer.open(tmp_path / "a"), b"wal"), (copied, b"delete")):
        with writer:
            settings = [value for name in names for (value,) in writer._query(f"PRAGMA {name}")]
            assert settings == [journal_mode, 4 << 20, 1, 2, int.from_bytes(b"rqti", "big"), 1]
            assert writer.read_meta()["created_ms"] == "1800000000250"


@run_in_one_test(
    "name, sentence",
    [
        ("SQLITE_BUSY", "is locked by another process"),
        ("SQLITE_BUSY_SNAPSHOT", "is locked by another process"),
        ("SQLITE_LOCKED", "is locked by another process"),
        ("SQLITE_FULL", "the disk is full, or reports errors (planted)"),
        ("SQLITE_IOERR_WRITE", "the disk is full, or reports errors (planted)"),
        ("SQLITE_READONLY_DBMOVED", "cannot be opened for this: planted"),
        ("SQLITE_CANTOPEN", "cannot be opened for this: planted"),
        ("SQLITE_PERM", "cannot be opened for this: planted"),
        ("SQLITE_CORRUPT_INDEX", "is no recording of rqtui, or is damaged (planted)"),
        ("", "is no recording of rqtui, or is damaged (planted)"),
    ],
)
def test_each_error_of_sqlite_is_a_sentence(name: str, sentence: str) -> None:
    error = sqlite3.OperationalError("planted")
    if name:
        error.sqlite_errorname = name
    with pytest.raises(RecordingError) as raised, store.translate_store_errors(Path("a.rqt")):
        raise error
    assert sentence in str(raised.value)
    assert isinstance(raised.value, RecordingBusy) is (sentence == "is locked by another process")


def test_a_locked_file_is_reported_as_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.rqt"
    monkeypatch.setattr(store, "BUSY_S", 0.05)
    with open_writer(path) as writer:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordingBusy, match="is locked by another process"):
            writer.append(build_minutes(NOW_MS, 1))
        other.execute("ROLLBACK")
        other.close()
        writer.append(build_minutes(NOW_MS, 1))
        assert len(writer.read_periods(MAIL, 0, END_MS)) == 1


def test_a_full_disk_is_a_sentence_and_what_was_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.rqt"
    refs = [Ref("native", f"q{number}") for number in range(100)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open_writer(path, build_minutes(NOW_MS, 1)) as writer:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
            with pytest.raises(RecordingError, match="cannot be written: the disk is full, or reports errors"):
                for minute in range(1, 300):
                    writer.append(build_minutes(NOW_MS + minute * MINUTE_MS, 1, *refs))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, previous)
    with open_writer(path) as writer:
        assert writer.read_periods(MAIL, 0, END_MS) == [build_period(NOW_MS)]
        writer.append(build_minutes(NOW_MS + 300 * MINUTE_MS, 1))


def test_the_queue_and_cause_of_a_batch_that_was_rolled_back_are_stored_with_the_next_one(tmp_path: Path) -> None:
    error = ErrorCount(MAIL, NOW_MS, "ValueError: x", 3)
    batch = build_minutes(NOW_MS, 1)._replace(errors=[error])
    with open_writer(tmp_path / "a.rqt") as writer:
        with pytest.raises(RecordingError, match="not JSON serializable"):
            writer.append(batch._replace(changes=[RecordedChange(NOW_MS, "a", {"what": object()})]))
        assert (writer.read_periods(MAIL, 0, END_MS), writer.read_errors(0, END_MS)) == ([], [])
        writer.append(batch)
        assert writer.read_periods(MAIL, 0, END_MS) == [build_period(NOW_MS)]
        assert writer.read_errors(0, END_MS) == [error]


def test_a_killed_writer_loses_nothing_that_it_appended(tmp_path: Path) -> None:
    path = tmp_path / "a.rqt"
    program = f"""
import sys; sys.path[:0] = {sys.path!r}
from pathlib import Path
from recordings import *
writer = Writer.open(Path({str(path)!r}))
for minute in range(1000):
    writer.append(build_minutes(NOW_MS + minute * MINUTE_MS, 1))
    print(minute, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = -1
    for line in process.stdout:
        last = int(line)
        if last == 20:
            process.kill()
    process.wait()
    assert last >= 20
    with Reader.open(path) as reader:
        assert len(reader.read_periods(MAIL, 0, END_MS)) >= last + 1


def test_the_page_about_the_format_names_every_table_and_column(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "recording.md").read_text("utf-8")
    assert str(store.APPLICATION_ID) in page
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page.partition("## The format")[2], re.MULTILINE))
    Writer.open(tmp_path / "a.rqt").close()
    with sqlite3.connect(tmp_path / "a.rqt") as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            missing = [column for column in columns if f"`{column}`" not in rows[table]]
            assert not missing, table
        (query,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
        assert connection.execute(query).fetchall() == []
    connection.close()
    assert {*rows} >= {*tables} >= {"period", "finding"}


def test_one_queue_is_found_with_its_last_places_and_its_own_findings(tmp_path: Path) -> None:
    other = MAIL._replace(queue="\udcff other")
    shorter = QUEUE._replace(places=QUEUE.places[:2])
    findings = [
        RecordedFinding(ref, "failing", "critical", "x", "", 1, NOW_MS, NOW_MS + 1) for ref in (MAIL, other, None)
    ]
    queues = {MAIL: QUEUE, other: QUEUE._replace(ref=other)}
    with open_writer(tmp_path / "a.rqt", Batch(queues, findings=findings)) as store:
        assert store.find_queue(MAIL) == QUEUE and store.find_queue(MAIL._replace(queue="none")) is None
        store.append(Batch({MAIL: shorter}, [build_period(NOW_MS, counts=(1, 2))]))
        assert store.find_queue(MAIL) == shorter
        assert [each.ref for each in store.read_findings(0, END_MS, other)] == [other]
        assert len(store.read_findings(0, END_MS)) == 3
        assert store.read_findings(0, END_MS, MAIL._replace(queue="none")) == []


def test_a_file_can_make_sqlite_do_little() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        store._protect_connection(connection)
        settings = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("trusted_schema", "cell_size_check")]
        assert settings == [(0,), (1,)] and connection.text_factory is bytes
        limits = [connection.getlimit(kind) for kind in (sqlite3.SQLITE_LIMIT_LENGTH, sqlite3.SQLITE_LIMIT_ATTACHED)]
        assert limits == [store.MAX_VALUE_BYTES, 0]
