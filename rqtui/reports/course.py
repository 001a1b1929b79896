"""Describe the course of one queue over time: what a finding counts, per minute, with marks at findings and changes.

The points come from a recording (`recording/course.py`) or from the counters of a system. A minute of which nothing is
known is a gap, never a zero. Called by the report of an incident and by `rqtui stats`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rqtui.engine import history as stats
from rqtui.engine.history import DAY_MS, MINUTE_MS, History
from rqtui.model import Ref
from rqtui.operations.journal import Operation, Sighting
from rqtui.text.formats import (
    format_age,
    format_clock,
    format_count,
    format_date_and_time,
    format_instant,
    format_start_time,
)
from rqtui.text.sanitise import safe

MIN_SPAN_MS = 60 * MINUTE_MS
LEAD_MS = 15 * MINUTE_MS  # of the plot before the begin of a finding
MIN_WATCHED_MS = 15_000  # of a minute; the rate of a shorter part is chance
TREND_MINUTES = 10  # two windows of this length are compared
TREND_FACTOR = 1.25  # a smaller change is called steady
MAX_FINDING_MARKS = 6  # lines below a plot
_BLOCKS = " ▁▂▃▄▅▆▇█"
FINDING, CHANGE = "finding", "change"
MARK_SIGNS = {FINDING: "▲", CHANGE: "◆"}
_LABEL_CELLS = 7


class Series(NamedTuple):
    """What is plotted: a flow per minute, or with `is_level` a number of jobs at the end of each minute."""

    name: str  # an attribute of a recorded period; `ready` is the number of ready jobs
    title: str
    is_level: bool = False


FAILED = Series("failed", "failed attempts per minute")
DIED = Series("died", "jobs that died per minute")
READY = Series("ready", "ready jobs", is_level=True)
_SERIES_BY_KIND = {
    **dict.fromkeys(("dead-many", "dead-grows", "dead-near-cap", "dead-full"), DIED),
    **dict.fromkeys(("backlog-grows", "oldest-ready", "no-live-worker", "idle-workers", "overtaken", "paused"), READY),
    "due-not-dispatched": READY,
}


class Point(NamedTuple):
    """The value of a minute or hour: per minute for a flow, a number of jobs for a level; None if it is unknown."""

    at_ms: int
    span_ms: int
    value: float | None


class Mark(NamedTuple):
    """A time at which a finding began or a change ended, with a text about it."""

    at_ms: int
    kind: str  # FINDING | CHANGE
    text: str


@dataclass(frozen=True, slots=True)
class Course:
    """The known points of a series between two times, the oldest first. A missing point is a gap.

    `source` is a phrase: `recorded`, or `counted by native`. `is_lower_bound` is set for a flow that is an estimate.
    """

    series: Series
    begin_ms: int
    end_ms: int
    points: tuple[Point, ...]
    marks: tuple[Mark, ...] = ()
    source: str = "recorded"
    is_lower_bound: bool = False

    @property
    def known_ms(self) -> int:
        """The time between begin and end of which a value is known."""
        return sum(
            _measure_overlap(point, self.begin_ms, self.end_ms) for point in self.points if point.value is not None
        )


class Trend(NamedTuple):
    """The means of the last ten minutes and of the ten minutes before; None where less than half is known."""

    last: float | None
    before: float | None

    @property
    def word(self) -> str:
        """Return `growing`, `falling`, `steady` or `unknown`."""
        if self.last is None or self.before is None:
            return "unknown"
        if self.last > self.before * TREND_FACTOR:
            return "growing"
        return "falling" if self.last * TREND_FACTOR < self.before else "steady"


def choose_series(kind: str) -> Series:
    """Return the series that shows the course of a finding of this kind."""
    return _SERIES_BY_KIND.get(kind, FAILED)


def choose_span(since_ms: int | None, now_ms: int) -> tuple[int, int]:
    """Return begin and end of the plot of a finding: the last hour or more, up to a day, with time before its begin."""
    begin_ms = now_ms - MIN_SPAN_MS
    if since_ms is not None:
        begin_ms = max(now_ms - DAY_MS, min(begin_ms, since_ms - LEAD_MS))
    return begin_ms - begin_ms % MINUTE_MS, now_ms


def build_counted_course(history: History, series: Series, begin_ms: int, end_ms: int) -> Course | None:
    """Build the course from the minute counters of a system, or return None if it does not count this series."""
    if series.is_level or (series is FAILED and "failed" not in history.flows):
        return None
    if series is DIED and "dead" not in history.counters:
        return None
    points = []
    for at_ms, growth in stats.compute_growth_per_minute([history], begin_ms, end_ms):
        number = stats.sum_flow_counters(growth, "failed") if series is FAILED else growth.get("dead", 0)
        elapsed_ms = min(MINUTE_MS, end_ms - at_ms)
        value = number * MINUTE_MS / elapsed_ms if elapsed_ms >= MIN_WATCHED_MS else None
        points.append(Point(at_ms, MINUTE_MS, value))
    return (
        Course(series, begin_ms, end_ms, tuple(points), source=f"counted by {history.ref.system}") if points else None
    )


def build_marks(
    ref: Ref, begin_ms: int, end_ms: int, operations: Iterable[Operation], sightings: Iterable[Sighting]
) -> tuple[Mark, ...]:
    """Return the marks of a queue between two times, by time: findings that began, and changes."""
    marks = {
        Mark(sighting.at_ms, FINDING, sighting.text)
        for sighting in sightings
        if (sighting.system, sighting.queue) == (ref.system, ref.queue) and not sighting.is_over
    }
    marks |= {
        Mark(change.at_ms, CHANGE, f"{change.verb}: {change.describe_outcomes()}")
        for change in operations
        if ref in change.refs
    }
    return tuple(sorted(mark for mark in marks if begin_ms <= mark.at_ms < end_ms))


def compute_mean(points: Iterable[Point], begin_ms: int, end_ms: int) -> float | None:
    """Return the mean of the known values between two times, or None if they cover less than half of it."""
    known = [(overlap_ms, point.value) for point in points if (overlap_ms := _measure_overlap(point, begin_ms, end_ms))]
    known_ms = sum(overlap_ms for overlap_ms, value in known if value is not None)
    if not known_ms or 2 * known_ms < end_ms - begin_ms:
        return None
    return sum(overlap_ms * value for overlap_ms, value in known if value is not None) / known_ms


def _measure_overlap(point: Point, begin_ms: int, end_ms: int) -> int:
    """Return the part of a point in ms that lies between two times."""
    return max(0, min(point.at_ms + point.span_ms, end_ms) - max(point.at_ms, begin_ms))


def compute_trend(course: Course) -> Trend:
    """Compare the last ten minutes of a course with the ten minutes before them."""
    end_ms, window_ms = course.end_ms, TREND_MINUTES * MINUTE_MS
    return Trend(
        compute_mean(course.points, end_ms - window_ms, end_ms),
        compute_mean(course.points, end_ms - 2 * window_ms, end_ms - window_ms),
    )


def describe_trend(course: Course) -> str:
    """Return a sentence that says whether the series grows, with both numbers and their windows."""
    trend = compute_trend(course)
    last, before = (None if value is None else format_value(value) for value in trend)
    unit = "on average" if course.series.is_level else "per minute"
    if last is None:
        return f"growing or not is unknown: less than half of the last {TREND_MINUTES} min is known"
    if before is None:
        return f"{last} {unit} in the last {TREND_MINUTES} min; the {TREND_MINUTES} min before are unknown"
    return f"{trend.word}: {last} {unit} in the last {TREND_MINUTES} min, {before} in the {TREND_MINUTES} min before"


def format_value(value: float) -> str:
    """Format a value of a course, with one digit after the point below ten."""
    if value < 10 and value != round(value):
        return f"{value:.1f}"
    return format_count(round(value)) if value else "0"


def describe_source(course: Course) -> str:
    """Return what is plotted, from when to when, where it comes from, and how much of the time is known."""
    span_ms, known_ms = course.end_ms - course.begin_ms, course.known_ms
    part = "" if known_ms >= span_ms - MINUTE_MS else f", {format_age(known_ms)} of {format_age(span_ms)}"
    bound = ", at least" if course.is_lower_bound else ""
    times = f"{format_start_time(course.begin_ms, course.end_ms)} to {format_clock(course.end_ms)[:5]}"
    return f"{course.series.title}{bound}, {times} ({course.source}{part})"


def draw_course(course: Course, width: int, height: int) -> Iterator[str]:
    """Yield the plot of a course as lines of at most `width` cells, with a line of marks and a time axis.

    A known zero is drawn as `▁`, a gap is blank.
    """
    cells = max(10, width - _LABEL_CELLS - 1)
    columns = list_column_maxima(course.points, course.begin_ms, course.end_ms, cells)
    top = max((value for value in columns if value is not None), default=0.0)
    for row in range(height - 1, -1, -1):
        label = format_value(top) if row == height - 1 else "0" if row == 0 else ""
        text = "".join(_draw_cell(value, top, row, height) for value in columns)
        yield f"{label:>{_LABEL_CELLS}} {text}".rstrip()
    if signs := _draw_marks(course, cells):
        yield f"{'':>{_LABEL_CELLS}} {signs}".rstrip()
    begin, end = _format_axis_time(course.begin_ms, course), _format_axis_time(course.end_ms, course)
    yield f"{'':>{_LABEL_CELLS}} {begin}{end:>{max(len(end) + 1, cells - len(begin))}}"


def list_column_maxima(points: Sequence[Point], begin_ms: int, end_ms: int, cells: int) -> list[float | None]:
    """Return the highest value of each of `cells` equal parts of a time; None where nothing is known."""
    columns: list[float | None] = [None] * cells
    step_ms = max(cells, end_ms - begin_ms) / cells
    for point in points:
        if point.value is None or point.at_ms >= end_ms or point.at_ms + point.span_ms <= begin_ms:
            continue
        first = max(0, int((point.at_ms - begin_ms) / step_ms))
        # The last column of a point is the one that contains its end, exclusively.
        last = min(cells - 1, max(first, -int(-(point.at_ms + point.span_ms - begin_ms) // step_ms) - 1))
        for column in range(min(first, cells - 1), last + 1):
            columns[column] = max(columns[column] or 0.0, point.value)
    return columns


def build_sparkline(columns: Sequence[float | None]) -> str:
    """Return one line with a cell for each value, scaled to the highest; a known zero is `▁`, a gap is blank."""
    top = max((value for value in columns if value is not None), default=0.0)
    return "".join(_draw_cell(value, top, 0, 1) for value in columns)


def _draw_cell(value: float | None, top: float, row: int, height: int) -> str:
    if value is None:
        return " "
    eighths = round(value / top * height * 8) if top else 0
    return _BLOCKS[min(8, max(1 if row == 0 else 0, eighths - row * 8))]


def _draw_marks(course: Course, cells: int) -> str:
    """Return the line of signs below a plot. Where two marks share a cell, the finding is shown."""
    signs = [" "] * cells
    step_ms = max(cells, course.end_ms - course.begin_ms) / cells
    for mark in sorted(course.marks, key=lambda mark: mark.kind == FINDING):
        signs[min(cells - 1, int((mark.at_ms - course.begin_ms) / step_ms))] = MARK_SIGNS[mark.kind]
    return "".join(signs).rstrip()


def _format_axis_time(at_ms: int, course: Course) -> str:
    is_long = course.end_ms - course.begin_ms > DAY_MS
    return format_date_and_time(at_ms)[5:16] if is_long else format_clock(at_ms)[:5]


def build_mark_lines(course: Course) -> Iterator[str]:
    """Yield the legend of the marks, and a line for each of the last findings that began."""
    kinds = {mark.kind for mark in course.marks}
    legend = [
        f"{MARK_SIGNS[kind]} {text}"
        for kind, text in ((FINDING, "a finding began, or was first seen"), (CHANGE, "a change"))
        if kind in kinds
    ]
    if course.known_ms < course.end_ms - course.begin_ms - MINUTE_MS:
        legend.append("blank: unknown")
    if legend:
        yield "   ".join(legend)
    findings = [mark for mark in course.marks if mark.kind == FINDING]
    for mark in findings[-MAX_FINDING_MARKS:]:
        yield f"{MARK_SIGNS[FINDING]} {format_instant(mark.at_ms, course.end_ms)}  {safe(mark.text)}"
