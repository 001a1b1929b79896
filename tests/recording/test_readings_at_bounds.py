"""What is read of a recording where one time is at a bound: each row has a number and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from families import run_in_one_test

from rqtui.engine.rates import Totals
from rqtui.model import Finding, Queue, Ref, State
from rqtui.operations.journal import Sighting
from rqtui.recording import course, history, moment
from rqtui.recording.records import Period, RecordedFinding, RecordedPlace, RecordedQueue
from rqtui.recording.replay import ReplayEngine
from rqtui.recording.store import RecordingError
from rqtui.reports import course as courses
from rqtui.reports.course import Course, Mark, Point
from rqtui.reports.incident import Incident

MINUTE_MS = 60_000
NOW_MS = 1_800_000_000_000
MAIL = Ref("native", "mail")
RECORDED = RecordedQueue(MAIL, (RecordedPlace("ready", State.READY, True),), ("failed",))
BEGAN = RecordedFinding(MAIL, "failing", "warning", "9 of 9 fail", "", 9, NOW_MS - 9_000, NOW_MS - 1_000)


def build_period(back: int = 1, watched_ms: int = MINUTE_MS, **more: Any) -> Period:
    """Build the record of a minute that began `back` minutes ago."""
    at_ms = NOW_MS - back * MINUTE_MS
    period = Period(
        MAIL, at_ms, MINUTE_MS, at_ms, at_ms + MINUTE_MS, watched_ms, 30, 6, 5, 4, 3, (7,), 0, 7, None, None,
        1, 1, 0, 0, is_paused=False, severity="ok",
    )  # fmt: skip
    return period._replace(**more)


def build_reader(periods: Sequence[Period] = (), findings: Sequence[RecordedFinding] = ()) -> Any:
    return SimpleNamespace(
        path="file",
        find_queue=lambda _ref: RECORDED,
        list_queues=lambda: [RECORDED],
        list_refs_of_span=lambda _begin_ms, _end_ms: [MAIL],
        read_periods=lambda _ref, begin_ms, end_ms: [one for one in periods if begin_ms <= one.at_ms < end_ms],
        read_periods_at=lambda _at_ms: [*periods],
        read_findings=lambda _begin_ms, _end_ms, *_ref: [*findings],
        read_errors=lambda _begin_ms, _end_ms: [],
        read_last_changes=lambda _now_ms, _most: [],
    )


@run_in_one_test(
    "at_ms, is_other",
    [
        (BEGAN.begin_ms - 120_000 - 1, True),
        (BEGAN.begin_ms - 120_000, False),
        (BEGAN.begin_ms, False),
        (BEGAN.seen_ms + 120_000, False),
        (BEGAN.seen_ms + 120_000 + 1, True),
    ],
)
def test_a_finding_of_the_journal_is_the_recorded_one_if_it_was_seen_at_about_that_time(
    at_ms: int, is_other: bool
) -> None:
    sighting = Sighting(at_ms, "mail", "native", "failing", "warning", "9 of 9 fail")
    merged = course.merge_sightings([BEGAN, BEGAN._replace(ref=None)], [sighting, replace(sighting, kind="paused")])
    assert len(merged) == 2 + is_other
    assert len(course.merge_sightings([BEGAN._replace(end_ms=NOW_MS)], [])) == 2


@run_in_one_test("watched_ms, value", [(14_999, None), (15_000, 16.0), (30_000, 8.0), (60_000, 4.0)])
def test_a_minute_has_a_rate_if_fifteen_seconds_of_it_were_watched(watched_ms: int, value: float | None) -> None:
    [point] = course.read_points(build_reader([build_period(watched_ms=watched_ms)]), MAIL, courses.FAILED, 0, NOW_MS)
    assert point == Point(NOW_MS - MINUTE_MS, MINUTE_MS, value)


def test_ready_jobs_are_known_where_the_places_are_those_of_the_queue() -> None:
    values = [
        course.read_points(build_reader([build_period(counts=counts)]), MAIL, courses.READY, 0, NOW_MS)[0].value
        for counts in ((7,), (0,), (None,), (7, 1), ())
    ]
    assert values == [7.0, 0.0, None, None, None]


def build_course(known_minutes: int, begin_ms: int = NOW_MS - 10 * MINUTE_MS) -> Course:
    points = tuple(Point(begin_ms + at * MINUTE_MS, MINUTE_MS, 1.0) for at in range(known_minutes))
    return Course(courses.FAILED, begin_ms, NOW_MS, points)


@run_in_one_test("known_minutes, is_recorded", [(4, False), (5, True), (6, True)])
def test_a_recorded_course_replaces_the_counted_one_if_it_knows_half_of_the_time(
    known_minutes: int, is_recorded: bool
) -> None:
    counted = replace(build_course(10), source="counted by native")
    marks = tuple(Mark(counted.begin_ms + by_ms, courses.CHANGE, str(by_ms)) for by_ms in (-1, 0, 1))
    past = course.RecordedPast(build_course(known_minutes), (), None, marks)
    found = course.add_past(Incident(MAIL, NOW_MS, Queue("mail", "native"), course=counted), past).course
    assert found is not None and (found.source == "recorded") is is_recorded
    assert [mark.text for mark in found.marks] == ([] if is_recorded else ["0", "1"])


@run_in_one_test(
    "end_ms, since_ms",
    [(None, BEGAN.begin_ms), (NOW_MS - 1, None), (NOW_MS, BEGAN.begin_ms), (NOW_MS + 1, BEGAN.begin_ms)],
)
def test_a_finding_that_did_not_end_before_began_when_it_was_recorded(end_ms: int | None, since_ms: int | None) -> None:
    queue = Queue("mail", "native", findings=(Finding("failing", "warning", "mail", "9 of 9 fail"),))
    reader = build_reader([build_period()], [BEGAN._replace(end_ms=end_ms)])
    sightings = [Sighting(NOW_MS + by_ms, "mail", "native", "paused", "info", str(by_ms)) for by_ms in (-1, 0, 1)]
    past = course.read_past(reader, MAIL, queue, NOW_MS, [], sightings)
    assert past.begin_ms == since_ms
    assert "1" not in [mark.text for mark in past.marks] and past.course is not None


@run_in_one_test(
    "age_ms, watched_ms, back, expected",
    [
        (30_000, 60_000, 1, 3), (30_001, 60_000, 1, 0), (0, 60_000, 1, 3),
        (0, 48_000, 1, 3), (0, 47_999, 1, 0),
        (0, 60_000, 0, 2),
    ],
)  # fmt: skip
def test_recorded_minutes_are_checkpoints_if_they_are_new_and_were_watched(
    age_ms: int, watched_ms: int, back: int, expected: int
) -> None:
    minutes = [build_period(back + 2), build_period(back + 1), build_period(back, watched_ms)]
    counted_ms = minutes[-1].begin_ms if back == 0 else minutes[-1].end_ms + age_ms
    queue = Queue("mail", "native", counted_ms=counted_ms)
    found = history.read_checkpoints(build_reader(minutes), MAIL, queue, Totals(99, 98, 97, 96, 7))
    assert len(found) == expected
    if expected == 3:
        assert [tuple(checkpoint.totals) for checkpoint in found] == [
            (93, 93, 93, 93, 7), (87, 88, 89, 90, 7), (81, 83, 85, 87, None)
        ]  # fmt: skip
    gap = [build_period(9), *minutes[1:]]
    assert len(history.read_checkpoints(build_reader(gap), MAIL, queue, Totals(ready=7))) == max(0, expected - 1)


@run_in_one_test("seen_ms, end_ms, is_present", [
    (NOW_MS - 1, NOW_MS, False), (NOW_MS, NOW_MS, True), (NOW_MS + 1, NOW_MS, True), (NOW_MS - 1, None, True),
])  # fmt: skip
def test_a_finding_is_present_at_a_moment_if_it_was_seen_then_or_has_not_ended(
    seen_ms: int, end_ms: int | None, is_present: bool
) -> None:
    findings = [BEGAN._replace(seen_ms=seen_ms, end_ms=end_ms)] * 2
    found = moment.read_moment(build_reader([build_period()], findings), NOW_MS)
    [queue] = found.snapshot.queues
    assert len(queue.findings) == 2 * is_present
    assert queue.verdict.text == ("9 of 9 fail · 1 more" if is_present else "ok")
    [queue] = moment.read_moment(build_reader([build_period()], findings[:1]), NOW_MS).snapshot.queues
    assert queue.verdict.text == ("9 of 9 fail" if is_present else "ok")


def build_replay(at_ms: int, moments_ms: Sequence[int]) -> Any:
    """Build the part of a replay that knows the recorded moments, of a recording with a minute at its end."""
    engine: Any = object.__new__(ReplayEngine)
    engine._begin_ms, engine._end_ms, engine._at_ms = moments_ms[0], moments_ms[-1], at_ms
    engine._reader = SimpleNamespace(
        path="file",
        find_span_end_ms=lambda end_ms: end_ms + MINUTE_MS,
        find_recorded_ms=lambda at_ms: next((each for each in moments_ms if each >= at_ms), None),
    )
    return engine


@run_in_one_test(
    "at_ms, first_ms",
    [
        (999, None),
        (1_000, 1_000),
        (1_001, 9_000),
        (9_001, 9_000),
        (9_000 + MINUTE_MS - 1, 9_000),
        (9_000 + MINUTE_MS, None),
    ],
)
def test_a_replay_begins_within_the_recording(at_ms: int, first_ms: int | None) -> None:
    engine = build_replay(1_000, (1_000, 9_000))
    if first_ms is not None:
        assert engine._find_first_moment(at_ms) == first_ms
        return
    with pytest.raises(RecordingError, match="nothing is recorded at"):
        engine._find_first_moment(at_ms)


@run_in_one_test(
    "at_ms, step, found_ms",
    [
        (2_000, 1, 3_000), (3_000, 1, 9_000), (9_000, 1, None), (1_000, -1, None), (3_000, -1, 1_000),
        (9_000, -1, 3_000), (2_000, -1, 1_000), (1_000, 1, 3_000),
    ],
)  # fmt: skip
def test_a_mark_is_found_before_or_after_the_moment_and_never_at_it(
    at_ms: int, step: int, found_ms: int | None
) -> None:
    engine = build_replay(at_ms, (1_000, 2_000, 3_000, 9_000))
    assert engine._find_mark((1_000, 2_500, 3_000, 8_999, 9_000), step) == found_ms
