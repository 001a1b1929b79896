"""Test what a recording says about the time before an incident: the course, its marks, and what helped before."""

from __future__ import annotations

from pathlib import Path

from recordings import MAIL, NOW_MS, QUEUE, build_period, open_writer

from rqtui.model import Finding, Queue
from rqtui.operations.journal import Operation, Sighting, to_document
from rqtui.recording.course import add_past, merge_operations, merge_sightings, read_past, read_points
from rqtui.recording.records import MINUTE_MS, Period, RecordedChange, RecordedFinding
from rqtui.recording.store import Batch
from rqtui.reports import course as courses
from rqtui.reports.course import DIED, FAILED, READY, Course, Point
from rqtui.reports.incident import Incident

END_MS = NOW_MS + 300 * MINUTE_MS


def build_queue(kind: str = "failing", since_ms: int | None = END_MS - 30 * MINUTE_MS) -> Queue:
    return Queue("mail", "native", findings=(Finding(kind, "critical", "mail", "80 % fail", since_ms=since_ms),))


def build_failures(begin: int, end: int, failed: int = 3) -> list[Period]:
    return [build_period(NOW_MS + minute * MINUTE_MS, failed=failed, died=1) for minute in range(begin, end)]


def build_change(minute: int) -> Operation:
    at_ms = NOW_MS + minute * MINUTE_MS
    return Operation(at_ms, "ann@desk", "requeue", "mail", "native", (), 12, {"requeued": 12}, began_ms=at_ms)


def build_finding(begin: int, end: int | None, kind: str = "failing") -> RecordedFinding:
    begin_ms, seen_ms = NOW_MS + begin * MINUTE_MS, NOW_MS + (end or 300) * MINUTE_MS
    return RecordedFinding(MAIL, kind, "critical", "40 % fail", "", 40, begin_ms, seen_ms, end and seen_ms)


def test_the_course_has_the_recorded_minutes_and_no_point_in_a_gap(tmp_path: Path) -> None:
    periods = [*build_failures(200, 260), *build_failures(270, 300, 30)]
    with open_writer(tmp_path / "a.rqt", Batch({MAIL: QUEUE}, periods, findings=[build_finding(270, None)])) as store:
        past = read_past(store, MAIL, build_queue(), END_MS, [build_change(280)], [])
    course = past.course
    assert course is not None and course.series is FAILED and course.source == "recorded" and course.is_lower_bound
    assert past.begin_ms == NOW_MS + 270 * MINUTE_MS
    assert len(course.points) == 50 and course.known_ms == 50 * MINUTE_MS  # the last hour, ten minutes of it a gap
    assert [mark.kind for mark in course.marks] == ["finding", "change"]
    assert courses.describe_trend(course) == "steady: 30 per minute in the last 10 min, 30 in the 10 min before"
    assert "50m00 of 1h00" in courses.describe_source(course)
    lines = [*courses.draw_course(course, 68, 4)]
    assert lines[0].startswith("     30 ") and lines[3][28:38] == " " * 10 and "▁" not in lines[3][38:]
    assert {*lines[4].strip()} == {"▲", " ", "◆"}
    assert [*courses.build_mark_lines(course)][
        0
    ] == "▲ a finding began, or was first seen   ◆ a change   blank: unknown"


def test_what_helped_before_comes_with_its_effect(tmp_path: Path) -> None:
    change = build_change(60)
    periods = [*build_failures(40, 60, 40), *build_failures(60, 80, 1)]
    batch = Batch(
        {MAIL: QUEUE},
        periods,
        findings=[build_finding(40, 62)],
        ended=[build_finding(40, 62)],
        changes=[RecordedChange(change.at_ms, "1", to_document(change))],
    )
    with open_writer(tmp_path / "a.rqt", batch) as store:
        past = read_past(store, MAIL, build_queue(), END_MS, [], [])
        other = read_past(store, MAIL, build_queue("paused"), END_MS, [], [])
    [precedent] = past.precedents
    assert precedent.ended_ms == NOW_MS + 62 * MINUTE_MS and [each.who for each in precedent.changes] == ["ann@desk"]
    assert precedent.effect is not None and (precedent.effect.before, precedent.effect.after) == (40.0, 1.0)
    assert other.precedents == ()


def test_jobs_that_died_and_ready_jobs_are_the_course_of_other_findings(tmp_path: Path) -> None:
    with open_writer(tmp_path / "a.rqt", Batch({MAIL: QUEUE}, build_failures(290, 300))) as store:
        assert [point.value for point in read_points(store, MAIL, DIED, NOW_MS, END_MS)] == [1.0] * 10
        assert [point.value for point in read_points(store, MAIL, READY, NOW_MS, END_MS)] == [3.0] * 10
        short = build_period(END_MS, watched_ms=2_000)
        store.append(Batch({MAIL: QUEUE}, [short]))
        assert read_points(store, MAIL, FAILED, END_MS, END_MS + 1) == (Point(END_MS, MINUTE_MS, None),)
    assert courses.choose_series("dead-grows") is DIED and courses.choose_series("oldest-ready") is READY
    assert courses.choose_series("some-other") is FAILED


def test_the_counters_of_a_system_stay_where_the_recording_knows_less_than_half(tmp_path: Path) -> None:
    counted = Course(FAILED, END_MS - 60 * MINUTE_MS, END_MS, (Point(END_MS - MINUTE_MS, MINUTE_MS, 1.0),), source="x")
    report = Incident(MAIL, END_MS, build_queue(), course=counted)
    for begin, source in ((275, "x"), (265, "recorded")):
        path = tmp_path / f"{begin}.rqt"
        batch = Batch({MAIL: QUEUE}, build_failures(begin, 300), findings=[build_finding(280, None)])
        with open_writer(path, batch) as store:
            found = add_past(report, read_past(store, MAIL, build_queue(), END_MS, [], [])).course
        assert found is not None and found.source == source
        assert [mark.kind for mark in found.marks] == ["finding"]


def test_a_finding_and_a_change_of_journal_and_recording_are_listed_once() -> None:
    recorded = build_finding(40, 62)
    same = Sighting(recorded.begin_ms + 3_000, "mail", "native", "failing", "critical", "40 % fail")
    other = Sighting(NOW_MS, "mail", "native", "failing", "critical", "9 % fail")
    merged = merge_sightings([recorded], [other, same])
    assert [(each.at_ms, each.is_over) for each in merged] == [
        (NOW_MS, False), (recorded.begin_ms, False), (recorded.seen_ms, True)
    ]  # fmt: skip
    change, later = build_change(1), build_change(2)
    assert merge_operations([later, change], [change]) == [later, change]
