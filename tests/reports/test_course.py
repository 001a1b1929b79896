"""Test the course of a queue: points from counters, trends with their windows, and the plot with its gaps."""

from __future__ import annotations

import pytest

from rqtui.engine.history import DAY_MS, MINUTE_MS, History
from rqtui.model import Ref
from rqtui.operations.journal import Operation, Sighting
from rqtui.reports import course as courses
from rqtui.reports.course import DIED, FAILED, READY, Course, Mark, Point

REF = Ref("native", "mail")
NOW_MS = 1_800_000_000_000 // DAY_MS * DAY_MS + DAY_MS // 2


def build_course(*values: float | None, marks: tuple[Mark, ...] = ()) -> Course:
    """Build a course whose last minute ends now."""
    begin_ms = NOW_MS - len(values) * MINUTE_MS
    points = tuple(Point(begin_ms + at * MINUTE_MS, MINUTE_MS, value) for at, value in enumerate(values))
    return Course(FAILED, begin_ms, NOW_MS, points, marks)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([2.0] * 10 + [40.0] * 10, "growing: 40 per minute in the last 10 min, 2 in the 10 min before"),
        ([40.0] * 10 + [0.0] * 10, "falling: 0 per minute in the last 10 min, 40 in the 10 min before"),
        ([40.0] * 10 + [41.0] * 10, "steady: 41 per minute in the last 10 min, 40 in the 10 min before"),
        ([0.0] * 10 + [0.25] * 10, "growing: 0.2 per minute in the last 10 min, 0 in the 10 min before"),
        ([None] * 6 + [4.0] * 14, "4 per minute in the last 10 min; the 10 min before are unknown"),
        ([4.0] * 14 + [None] * 6, "growing or not is unknown: less than half of the last 10 min is known"),
        ([4.0] * 15 + [None] * 5, "steady: 4 per minute in the last 10 min, 4 in the 10 min before"),
    ],
)
def test_a_trend_has_both_numbers_and_their_windows(values: list[float | None], sentence: str) -> None:
    assert courses.describe_trend(build_course(*values)) == sentence


def test_a_known_zero_is_drawn_and_a_gap_is_blank() -> None:
    course = build_course(0, None, 8, 4)
    assert [*courses.draw_course(course, 28, 2)][:2] == ["      8           █████", "      0 ▁▁▁▁▁     ██████████"]
    assert courses.list_column_maxima(course.points, course.begin_ms, course.end_ms, 2) == [0, 8]
    assert [*courses.draw_course(build_course(None), 28, 2)][:2] == ["      0", "      0"]
    assert [*courses.draw_course(course, 1, 1)][0] == "      8 ▁▁▁  ███▄▄"


def test_a_finding_wins_over_a_change_in_the_same_cell() -> None:
    marks = (Mark(NOW_MS - 1, "change", "requeue"), Mark(NOW_MS - 1, "finding", "40 % fail"))
    course = build_course(1, 1, marks=marks)
    assert [*courses.draw_course(course, 28, 1)][1] == " " * 27 + "▲"
    assert [*courses.build_mark_lines(course)][1].endswith("  40 % fail")


def test_the_plot_of_a_finding_begins_before_it_and_covers_a_day_at_most() -> None:
    for since_ms, minutes in ((None, 60), (NOW_MS, 60), (NOW_MS - 60 * MINUTE_MS, 75), (NOW_MS - 9 * DAY_MS, 1440)):
        assert courses.choose_span(since_ms, NOW_MS) == (NOW_MS - minutes * MINUTE_MS, NOW_MS)


def test_counters_become_values_per_minute_and_a_few_seconds_are_unknown() -> None:
    end_ms = NOW_MS + 30_000
    counted = {"rejected": 7, "expired": 1, "dead": 3}
    minutes = {
        NOW_MS - 2 * MINUTE_MS: {"rejected": 1, "expired": 0, "dead": 0},
        NOW_MS: {"rejected": 5, "expired": 0, "dead": 2},
    }
    history = History(REF, counted, minutes, NOW_MS - 2 * MINUTE_MS)
    failed = courses.build_counted_course(history, FAILED, NOW_MS - 2 * MINUTE_MS, end_ms)
    assert failed is not None and [point.value for point in failed.points] == [4.0, 0.0, 6.0]
    assert failed.source == "counted by native" and failed.known_ms == 150_000
    died = courses.build_counted_course(history, DIED, NOW_MS - 2 * MINUTE_MS, NOW_MS + 5_000)
    assert died is not None and [point.value for point in died.points] == [2.0, 0.0, None]
    assert courses.build_counted_course(history, READY, NOW_MS, end_ms) is None
    assert courses.build_counted_course(History(REF, {"enqueued": 1}), FAILED, NOW_MS, end_ms) is None
    assert courses.build_counted_course(History(REF, {"rejected": 1}), DIED, NOW_MS, end_ms) is None


def test_marks_are_those_of_the_queue_in_the_time_of_the_plot() -> None:
    begin = Sighting(NOW_MS, "mail", "native", "failing", "critical", "40 % fail")
    others = [
        Sighting(NOW_MS, "other", "native", "failing", "critical", "x"),
        Sighting(NOW_MS, "mail", "native", "failing", "critical", "x", is_over=True),
        Sighting(NOW_MS - 10, "mail", "native", "failing", "critical", "too early"),
    ]
    change = Operation(NOW_MS + 1, "ann", "requeue", "mail", "native", answers={"requeued": 2})
    marks = courses.build_marks(REF, NOW_MS, NOW_MS + 2, [change], [begin, *others])
    assert marks == (Mark(NOW_MS, "finding", "40 % fail"), Mark(NOW_MS + 1, "change", "requeue: 2 × requeued"))
