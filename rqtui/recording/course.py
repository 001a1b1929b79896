"""Read from a recording what the report of an incident says about the time before: the course, and what helped before.

Called by `rqtui incident` with the file, and by the open screen with the recorder of its process. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from rqtui.model import Queue, Ref, State
from rqtui.operations.journal import Operation, Sighting, parse_operation
from rqtui.recording.records import MINUTE_MS, Period, RecordedChange, RecordedFinding, RecordedPlace
from rqtui.recording.store import DAY_MS, Reader, Writer
from rqtui.reports import course as courses
from rqtui.reports.course import Course, Mark, Point, Series
from rqtui.reports.incident import Effect, Incident, Precedent, find_precedents

PAST_MS = 30 * DAY_MS  # findings and changes that are looked for
MAX_CHANGES = 1_000  # newest changes that are read
EFFECT_MS = courses.TREND_MINUTES * MINUTE_MS  # of the two windows around a change
SAME_MS = 120_000  # a finding of the journal this close to a recorded one is the same


class RecordedPast(NamedTuple):
    """What a recording knows of a queue: the course of its first finding, and earlier ones with their effects."""

    course: Course | None
    precedents: tuple[Precedent, ...]
    begin_ms: int | None  # when the first finding began, as far as it is known
    marks: tuple[Mark, ...] = ()  # in the time of the course, also if nothing of it was recorded


def read_past(
    store: Reader | Writer,
    ref: Ref,
    queue: Queue,
    now_ms: int,
    operations: Sequence[Operation],
    sightings: Sequence[Sighting],
) -> RecordedPast:
    """Read the past of a queue at `now_ms`, with the changes and findings of the journal added to the recorded ones.

    `operations` are the newest first, `sightings` the oldest first. Raises RecordingError.
    """
    kind = queue.findings[0].kind if queue.findings else ""
    series = courses.choose_series(kind)
    findings = store.read_findings(now_ms - PAST_MS, now_ms + 1, ref)
    present = [each for each in findings if each.kind == kind and (each.end_ms is None or each.end_ms >= now_ms)]
    begin_ms = present[-1].begin_ms if present else None
    since_ms = min(filter(None, (begin_ms, queue.findings[0].since_ms if queue.findings else None)), default=None)
    all_sightings = [each for each in merge_sightings(findings, sightings) if each.at_ms <= now_ms]
    recorded = parse_recorded_operations(store.read_last_changes(now_ms, MAX_CHANGES))
    all_operations = merge_operations(operations, recorded)
    span = courses.choose_span(since_ms, now_ms)
    dated = queue
    if queue.findings and since_ms is not None:
        dated = queue._replace(findings=(replace(queue.findings[0], since_ms=since_ms), *queue.findings[1:]))
    precedents = [
        replace(precedent, effect=_read_effect(store, ref, series, precedent.changes))
        for precedent in find_precedents(ref, dated, now_ms, all_operations, all_sightings)
    ]
    points, marks = (
        read_points(store, ref, series, *span),
        courses.build_marks(ref, *span, all_operations, all_sightings),
    )
    course = None
    if any(point.value is not None for point in points):
        course = Course(series, *span, points, marks, is_lower_bound=is_estimated(store, ref, series))
    return RecordedPast(course, tuple(precedents), since_ms, marks)


def add_past(report: Incident, past: RecordedPast) -> Incident:
    """Return the report of an incident with what was recorded of the time before.

    The recorded course replaces that of a system's counters if it knows at least half of the time.
    """
    course, recorded = report.course, past.course
    is_enough = recorded is not None and 2 * recorded.known_ms >= recorded.end_ms - recorded.begin_ms
    if course is None or is_enough:
        course = recorded
    elif past.marks:
        course = replace(course, marks=tuple(mark for mark in past.marks if mark.at_ms >= course.begin_ms))
    return replace(report, course=course, precedents=past.precedents, recorded_begin_ms=past.begin_ms)


def read_marks(
    store: Reader | Writer,
    refs: Sequence[Ref],
    begin_ms: int,
    end_ms: int,
    operations: Sequence[Operation],
    sightings: Sequence[Sighting],
) -> tuple[Mark, ...]:
    """Read when findings of some queues began and changes ended in a time span, with those of the journal added."""
    recorded = parse_recorded_operations(store.read_changes(begin_ms, end_ms))
    findings = [each for each in store.read_findings(begin_ms, end_ms) if each.ref in refs]
    all_operations, all_sightings = merge_operations(operations, recorded), merge_sightings(findings, sightings)
    marks = [courses.build_marks(ref, begin_ms, end_ms, all_operations, all_sightings) for ref in refs]
    return tuple(sorted(mark for of_queue in marks for mark in of_queue))


def read_points(store: Reader | Writer, ref: Ref, series: Series, begin_ms: int, end_ms: int) -> tuple[Point, ...]:
    """Read the points of a series in a time span, one for each recorded minute or hour. A gap has none."""
    queue, periods = store.find_queue(ref), store.read_periods(ref, begin_ms, end_ms)
    places = queue.places if queue is not None else ()
    return tuple(Point(period.at_ms, period.span_ms, _compute_value(period, series, places)) for period in periods)


def is_estimated(store: Reader | Writer, ref: Ref, series: Series) -> bool:
    """Return whether the flow was estimated from changed numbers of jobs, so that it is a lower bound."""
    queue = store.find_queue(ref)
    return queue is not None and not series.is_level and series.name not in queue.counted


def _compute_value(period: Period, series: Series, places: Sequence[RecordedPlace]) -> float | None:
    """Return the value of a minute or hour: jobs per minute of a flow, or ready jobs at its end."""
    if not series.is_level:
        rate_s = period.compute_rate_s(series.name) if period.watched_ms >= courses.MIN_WATCHED_MS else None
        return None if rate_s is None else rate_s * 60
    if len(places) != len(period.counts):
        return None
    counts = [count for place, count in zip(places, period.counts, strict=True) if place.state is State.READY]
    return None if None in counts else float(sum(map(int, filter(None, counts))))


def _read_effect(store: Reader | Writer, ref: Ref, series: Series, changes: Sequence[Operation]) -> Effect | None:
    """Read the mean of a series in the ten minutes before the first of some changes, and in those after the last."""
    if not changes:
        return None
    begin_ms, end_ms = min(each.began_ms or each.at_ms for each in changes), max(each.at_ms for each in changes)
    before = read_points(store, ref, series, begin_ms - EFFECT_MS - MINUTE_MS, begin_ms)
    after = read_points(store, ref, series, end_ms, end_ms + EFFECT_MS + MINUTE_MS)
    effect = Effect(
        series,
        courses.compute_mean(before, begin_ms - EFFECT_MS, begin_ms),
        courses.compute_mean(after, end_ms, end_ms + EFFECT_MS),
    )
    return None if effect.before is None and effect.after is None else effect


def merge_sightings(findings: Iterable[RecordedFinding], sightings: Sequence[Sighting]) -> list[Sighting]:
    """Return recorded findings and those of the journal together, the oldest first.

    A finding of the journal that was recorded too is left out: the recording also knows when it ended.
    """
    merged = []
    spans: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for finding in findings:
        if finding.ref is None:
            continue
        begin = Sighting(finding.begin_ms, finding.ref.queue, finding.ref.system, *finding[1:4])
        merged.append(begin)
        if finding.end_ms is not None:
            merged.append(replace(begin, at_ms=finding.end_ms, is_over=True))
        span = (finding.begin_ms - SAME_MS, finding.seen_ms + SAME_MS)
        spans.setdefault((begin.system, begin.queue, begin.kind), []).append(span)
    for sighting in sightings:
        recorded = spans.get((sighting.system, sighting.queue, sighting.kind), ())
        if not any(begin_ms <= sighting.at_ms <= end_ms for begin_ms, end_ms in recorded):
            merged.append(sighting)
    return sorted(merged, key=lambda sighting: sighting.at_ms)


def merge_operations(operations: Iterable[Operation], recorded: Iterable[Operation]) -> list[Operation]:
    """Return the changes of the journal and those of a recording, each of them once, the newest first."""
    by_key = {(each.at_ms, each.who, each.verb, each.queue): each for each in (*recorded, *operations)}
    return sorted(by_key.values(), key=lambda operation: operation.at_ms, reverse=True)


def parse_recorded_operations(changes: Iterable[RecordedChange]) -> Iterator[Operation]:
    """Yield the operations of recorded changes, in their order. A change that cannot be read is left out."""
    for change in changes:
        with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
            yield replace(parse_operation(dict(change.fields)), at_ms=change.at_ms, undo=())
