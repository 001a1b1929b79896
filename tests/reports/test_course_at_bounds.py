"""Courses of findings where a value, a time or a size is at a bound: `course_at_bounds.txt` has every line.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/reports/test_course_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kept_text import assert_lines_match_file, utc_time_zone

from rqtui.engine.history import History
from rqtui.model import Ref
from rqtui.operations.journal import Operation, Sighting
from rqtui.reports import course as courses
from rqtui.reports.course import CHANGE, DIED, FAILED, FINDING, READY, Course, Mark, Point, Trend

KEPT = Path(__file__).with_name("course_at_bounds.txt")
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
END_MS = 1_800_000_000_000 // DAY_MS * DAY_MS + 12 * HOUR_MS
MAIL = Ref("native", "mail")


def build_course(*values: float | None, span_ms: int = MINUTE_MS, lead_ms: int = 0, **more: object) -> Course:
    """Build a course whose last value ends at `END_MS`, and which begins `lead_ms` before the first."""
    begin_ms = END_MS - len(values) * span_ms
    points = tuple(Point(begin_ms + at * span_ms, span_ms, value) for at, value in enumerate(values))
    return replace(Course(FAILED, begin_ms - lead_ms, END_MS, points), **more)  # type: ignore[arg-type]


def trends() -> Iterator[str]:
    for last, before in ((None, 1.0), (1.0, None), (1.25, 1.0), (1.26, 1.0), (1.0, 1.25), (1.0, 1.26), (0.0, 0.0)):
        yield f"{last} after {before}: {Trend(last, before).word}"
    half = [*[4.0] * 5, *[None] * 5]
    for title, course in {
        "twenty minutes": build_course(*[4.0] * 10, *[8.0] * 10),
        "twenty-one minutes": build_course(99.0, *[4.0] * 10, *[8.0] * 10),
        "half of the last ten known": build_course(*[4.0] * 10, *half),
        "less than half of the last ten known": build_course(*[4.0] * 10, *[4.0] * 4, *[None] * 6),
        "half of those before known": build_course(*half, *[0.5] * 10),
        "less than half of those before known": build_course(*[4.0] * 4, *[None] * 6, *[0.5] * 10),
        "a level": build_course(*[4.0] * 20, series=READY),
        "nothing": build_course(*[None] * 20),
        "an hour as one point": build_course(3.0, 6.0, span_ms=HOUR_MS),
        "points of fifteen minutes": build_course(3.0, 6.0, span_ms=15 * MINUTE_MS),
    }.items():
        yield f"{title}: {courses.describe_trend(course)}"
        for known_ms in (course.known_ms,):
            yield f"{title}: {known_ms // MINUTE_MS} min known, {courses.describe_source(course)}"
    for begin_ms, end_ms in ((-60_000, 0), (-90_000, -30_000), (0, 60_000), (-600_001, 0), (-120_000, 0), (-60_001, 1)):
        points = build_course(2.0).points
        mean = courses.compute_mean(points, END_MS + begin_ms, END_MS + end_ms)
        yield f"mean between {begin_ms} and {end_ms}: {mean}"
    for value in (0, 0.0, 0.04, 0.5, 1, 9.9, 9.96, 10, 10.4, 10.6, 999.5, 12_345):
        yield f"value {value}: {courses.format_value(value)}"


def sources() -> Iterator[str]:
    for missing_ms in (0, 59_999, 60_000, 60_001, 120_000):
        course = build_course(*[1.0] * 60, lead_ms=missing_ms)
        for bound in (False, True):
            yield f"{missing_ms} unknown: {courses.describe_source(replace(course, is_lower_bound=bound))}"
        yield f"{missing_ms} unknown: {[*courses.build_mark_lines(course)]}"
    for count in (1, 6, 7):
        marks = tuple(Mark(END_MS - at * MINUTE_MS, FINDING, f"finding {at}") for at in range(count))
        yield f"{count} findings: {[*courses.build_mark_lines(build_course(1.0, marks=marks))]}"
    yield f"a change: {[*courses.build_mark_lines(build_course(1.0, marks=(Mark(END_MS, CHANGE, 'x'),)))]}"


def spans() -> Iterator[str]:
    for ago_ms in (None, 0, 45 * MINUTE_MS, 45 * MINUTE_MS + 1, HOUR_MS, DAY_MS - 15 * MINUTE_MS, DAY_MS, 2 * DAY_MS):
        for by_ms in (0, 1, MINUTE_MS - 1):
            now_ms = END_MS + by_ms
            begin_ms, end_ms = courses.choose_span(None if ago_ms is None else now_ms - ago_ms, now_ms)
            yield f"since {ago_ms} before {by_ms}: {begin_ms - END_MS} {end_ms - END_MS}"
    for kind in ("dead-many", "dead-grows", "dead-near-cap", "dead-full", "backlog-grows", "paused", "failing", "odd"):
        yield f"{kind}: {courses.choose_series(kind).name}"


def minute_counters() -> Iterator[str]:
    minutes = {END_MS - back * MINUTE_MS: {"failed": 10 - back, "dead": 5 - back // 2} for back in range(3, -1, -1)}
    for title, counters in {
        "all": {"failed": 14, "dead": 6, "acked": 1},
        "no failures": {"acked": 1, "dead": 6},
        "no deaths": {"failed": 14},
    }.items():
        for series in (FAILED, DIED, READY):
            for elapsed_ms in (14_999, 15_000, 15_001, 59_999, 60_000):
                history = History(MAIL, counters, minutes, END_MS - 3 * MINUTE_MS)
                course = courses.build_counted_course(history, series, END_MS - HOUR_MS, END_MS + elapsed_ms)
                points = [(point.at_ms - END_MS, point.value) for point in course.points] if course else None
                yield f"{title}, {series.name}, {elapsed_ms}: {points} {course and course.source}"
    empty = courses.build_counted_course(History(MAIL, {"failed": 1}), FAILED, END_MS, END_MS)
    yield f"no time: {empty}"


def marks() -> Iterator[str]:
    seen = Sighting(END_MS, "mail", "native", "failing", "critical", "51 % of attempts fail")
    change = Operation(END_MS, "me@here", "requeue", "mail", "native", answers={"ready again": 4})
    others = (replace(seen, queue="news"), replace(seen, system="rq"), replace(seen, is_over=True))
    for begin_ms, end_ms in ((0, 1), (0, 0), (1, 2), (-1, 0), (-1, 1)):
        found = courses.build_marks(
            MAIL, END_MS + begin_ms, END_MS + end_ms, [change, replace(change, queue="news")], [seen, *others]
        )
        yield f"between {begin_ms} and {end_ms}: {[tuple(mark)[1:] for mark in found]}"


def plots() -> Iterator[str]:
    for title, course in {
        "zero to eight": build_course(*map(float, range(9))),
        "nothing": build_course(None, None),
        "zeros": build_course(0.0, 0.0),
        "gaps": build_course(1.0, None, 3.0, None, None, 8.0),
        "sixteenths": build_course(*(16 - at / 2 for at in range(32))),
        "an hour per point": build_course(*map(float, range(1, 25)), span_ms=HOUR_MS),
        "a day and an hour": build_course(*map(float, range(1, 26)), span_ms=HOUR_MS),
        "points beyond both ends": replace(
            build_course(1.0, 2.0, 3.0, 4.0), begin_ms=END_MS - 3 * MINUTE_MS, end_ms=END_MS - MINUTE_MS
        ),
        "points that end and begin at the ends": replace(
            build_course(1.0, 2.0, 3.0), begin_ms=END_MS - 2 * MINUTE_MS, end_ms=END_MS - MINUTE_MS
        ),
        "marks": build_course(
            *[1.0] * 10,
            marks=(
                Mark(END_MS - 10 * MINUTE_MS, FINDING, "a"),
                Mark(END_MS - 5 * MINUTE_MS, CHANGE, "b"),
                Mark(END_MS - 5 * MINUTE_MS, FINDING, "c"),
                Mark(END_MS - 3 * MINUTE_MS, CHANGE, "d"),
                Mark(END_MS, CHANGE, "e"),
            ),
        ),
        "no time": Course(FAILED, END_MS, END_MS, (Point(END_MS, 1, 1.0),)),
    }.items():
        for width, height in ((0, 1), (18, 1), (19, 2), (28, 3), (40, 8)):
            yield f"-- {title}, {width} x {height}"
            yield from courses.draw_course(course, width, height)
        for cells in (1, 2, 3, 7, 24):
            columns = courses.list_column_maxima(course.points, course.begin_ms, course.end_ms, cells)
            yield f"{title} in {cells}: {columns} |{courses.build_sparkline(columns)}|"


def text() -> Iterator[str]:
    for part in (trends, sources, spans, minute_counters, marks, plots):
        yield f"== {part.__name__}"
        yield from part()


def test_courses_match_the_stored_text() -> None:
    with utc_time_zone():
        lines = [*text()]
    assert_lines_match_file(lines, KEPT)
