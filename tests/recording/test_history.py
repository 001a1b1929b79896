"""Read the last minutes of a queue: totals at the start of each minute, as far as a running recorder watched them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recordings import MAIL, NOW_MS, QUEUE, build_period, open_writer

from rqtui.engine.rates import Checkpoint, Totals
from rqtui.model import Finding, Queue
from rqtui.recording.history import apply_recorded_starts, read_checkpoints
from rqtui.recording.records import MINUTE_MS, Period, RecordedFinding
from rqtui.recording.store import Batch, Reader

COUNTED = Queue("mail", "native", counted_ms=NOW_MS + 30_000)
TOTALS = Totals(100, 80, 10, 5, 9)
LAST = build_period(
    NOW_MS, end_ms=NOW_MS + 28_000, watched_ms=28_000, enqueued=3, completed=2, failed=1, died=0, counts=(0, 8, 0, 0, 0)
)
MINUTES = (
    build_period(NOW_MS - 2 * MINUTE_MS, counts=(0, 2, 0, 0, 0)),
    build_period(NOW_MS - MINUTE_MS, counts=(0, 5, None, 0, 0)),
    LAST,
)


@contextmanager
def open_recording(
    folder: Path, periods: Sequence[Period] = MINUTES, findings: Sequence[RecordedFinding] = ()
) -> Iterator[Reader]:
    with open_writer(folder / "a.rqt", Batch({MAIL: QUEUE}, periods, findings=findings)):
        pass
    with Reader.open(folder / "a.rqt") as reader:
        yield reader


def test_the_totals_of_earlier_minutes_are_those_of_now_without_what_happened_since(tmp_path: Path) -> None:
    with open_recording(tmp_path) as reader:
        assert read_checkpoints(reader, MAIL, COUNTED, TOTALS) == [
            Checkpoint(NOW_MS, Totals(97, 78, 9, 5, 5)),
            Checkpoint(NOW_MS - MINUTE_MS, Totals(91, 74, 7, 4, 2)),
            Checkpoint(NOW_MS - 2 * MINUTE_MS, Totals(85, 70, 5, 3, None)),
        ]


def test_a_gap_ends_what_is_known(tmp_path: Path) -> None:
    unwatched = MINUTES[1]._replace(watched_ms=20_000)
    with open_recording(tmp_path, (MINUTES[0], unwatched, LAST)) as reader:
        assert [one.at_ms for one in read_checkpoints(reader, MAIL, COUNTED, TOTALS)] == [NOW_MS]
    (tmp_path / "b").mkdir()
    with open_recording(tmp_path / "b", (MINUTES[0], LAST)) as reader:
        assert read_checkpoints(reader, MAIL, COUNTED, TOTALS) == [Checkpoint(NOW_MS, Totals(97, 78, 9, 5, None))]


def test_ready_jobs_of_a_minute_with_other_places_are_unknown(tmp_path: Path) -> None:
    earlier = Batch({MAIL: QUEUE._replace(places=QUEUE.places[:2])}, [MINUTES[1]._replace(counts=(0, 5))])
    with open_writer(tmp_path / "a.rqt", earlier, Batch({MAIL: QUEUE}, [LAST])):
        pass
    with Reader.open(tmp_path / "a.rqt") as reader:
        assert read_checkpoints(reader, MAIL, COUNTED, TOTALS)[0] == Checkpoint(NOW_MS, Totals(97, 78, 9, 5, None))


def test_a_recording_that_ended_reports_nothing_about_now(tmp_path: Path) -> None:
    with open_recording(tmp_path) as reader:
        later = COUNTED._replace(counted_ms=NOW_MS + 59_000)
        assert read_checkpoints(reader, MAIL, later, TOTALS) == []
        assert read_checkpoints(reader, MAIL._replace(queue="other"), COUNTED, TOTALS) == []


def test_findings_begin_when_the_recorder_saw_them_first(tmp_path: Path) -> None:
    begin_ms, seen_ms = NOW_MS - 40 * MINUTE_MS, COUNTED.counted_ms - 3_000
    recorded = [
        RecordedFinding(MAIL, "dead-many", "warning", "", "", 0, begin_ms, seen_ms),
        RecordedFinding(MAIL, "failing", "warning", "", "", 0, begin_ms, seen_ms),
        RecordedFinding(MAIL, "paused", "warning", "", "", 0, begin_ms, seen_ms - 10 * MINUTE_MS),
    ]
    found = tuple(
        Finding(kind, "warning", "mail", kind, since_ms=since_ms)
        for kind, since_ms in (("dead-many", NOW_MS), ("failing", 7), ("paused", NOW_MS), ("new", None))
    )
    with open_recording(tmp_path, findings=recorded) as reader:
        dated = apply_recorded_starts(reader, {MAIL: COUNTED._replace(findings=found)})[MAIL]
    assert [finding.since_ms for finding in dated.findings] == [begin_ms, 7, NOW_MS, None]
