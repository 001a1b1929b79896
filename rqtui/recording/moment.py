"""Rebuild the snapshot of a past moment from a recording, for the commands with `--at`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from rqtui.engine.health.rules import find_worst_severity
from rqtui.errors import RecordingError, UsageError
from rqtui.model import Count, EventCoverage, Finding, Queue, Rate, Ref, Snapshot, Verdict
from rqtui.recording.records import HOUR_MS, SEVERITIES, ErrorCount, Period, RecordedFinding, RecordedQueue
from rqtui.recording.store import Reader
from rqtui.text.formats import format_date_and_time
from rqtui.text.names import join_names

NOT_RECORDED_THEN = "not recorded at this time"
UPDATE_MS = 7_000  # a present finding is written every five seconds, at the next refresh


class Moment(NamedTuple):
    """What was recorded of a moment: the queues, the findings about the server, and the causes of failures.

    Counts are those of the last refresh of the minute or hour that contains the moment (`begin_ms`, `span_ms`).
    Findings are those that were present at the moment itself. `unrecorded` are the queues that were recorded in the
    hour before, but not at the moment: a screen with an open board, for example, records only the queues of that board.
    """

    at_ms: int
    begin_ms: int
    span_ms: int
    snapshot: Snapshot
    server_findings: tuple[Finding, ...]
    causes: tuple[ErrorCount, ...]
    periods: Mapping[Ref, Period]
    unrecorded: tuple[Ref, ...] = ()


def read_moment(reader: Reader, at_ms: int, names: Sequence[str] = ()) -> Moment:
    """Read what was recorded at a moment of the named queues (`NAME` or `SYSTEM:NAME`), or of all queues.

    Raises RecordingError if nothing was recorded then, and UsageError for a queue that was not.
    """
    periods = reader.read_periods_at(at_ms)
    if not periods:
        coverage = reader.read_coverage()
        span = "it is empty"
        if coverage.begin_ms is not None:
            span = f"it covers {format_date_and_time(coverage.begin_ms)} to {format_date_and_time(coverage.end_ms)}"
        raise RecordingError(
            f"nothing is recorded at {format_date_and_time(at_ms)} in {reader.path}; {span}, perhaps with gaps."
        )
    refs = _find_refs([period.ref for period in periods], names)
    queues = {queue.ref: queue for queue in reader.list_queues()}
    findings = [
        finding
        for finding in reader.read_findings(at_ms - UPDATE_MS, at_ms + 1)
        if finding.seen_ms >= at_ms or finding.end_ms is None
    ]
    counted = [
        _build_queue(period, queues[period.ref], [finding for finding in findings if finding.ref == period.ref])
        for period in periods
        if period.ref in refs
    ]
    begin_ms, span_ms = periods[0].at_ms, periods[0].span_ms
    rates = {period.ref: _build_rate(period) for period in periods if period.ref in refs}
    taken_ms = max(queue.counted_ms for queue in counted)
    causes = [count for count in reader.read_errors(begin_ms, begin_ms + 1) if count.ref in refs]
    return Moment(
        at_ms,
        begin_ms,
        span_ms,
        Snapshot(taken_ms, tuple(counted), rates=rates),
        tuple(_convert_finding(finding) for finding in findings if finding.ref is None),
        tuple(causes),
        {period.ref: period for period in periods if period.ref in refs},
        () if names else _list_unrecorded_refs(reader, at_ms, refs),
    )


def _list_unrecorded_refs(reader: Reader, at_ms: int, recorded: Collection[Ref]) -> tuple[Ref, ...]:
    """Return the queues that were recorded in the hour before a moment, but not at the moment."""
    return tuple(ref for ref in reader.list_refs_of_span(at_ms - HOUR_MS, at_ms + 1) if ref not in recorded)


def _find_refs(recorded: Sequence[Ref], names: Sequence[str]) -> set[Ref]:
    """Return the recorded queues with these names, or all. Raises UsageError for an unknown or ambiguous name."""
    found: set[Ref] = set()
    for name in names:
        matching = [ref for ref in recorded if name in (str(ref), ref.queue)]
        if not matching:
            raise UsageError(f'no queue "{name}" was recorded then.')
        if len(matching) > 1:
            raise UsageError(f'several queues "{name}" were recorded: write {" or ".join(map(str, matching))}.')
        found.update(matching)
    return found or set(recorded)


def _build_queue(period: Period, recorded: RecordedQueue, findings: Sequence[RecordedFinding]) -> Queue:
    """Build the queue of a snapshot from its recorded minute or hour, with the findings of the moment."""
    counts = tuple(
        Count(
            place.name,
            place.state,
            count or 0,
            not period.estimated >> number & 1,
            has_failures=place.has_failures,
            coverage=None if count is not None else EventCoverage(),  # an unknown number, which is not 0
        )
        for number, (place, count) in enumerate(zip(recorded.places, period.counts, strict=False))
    )
    present = sorted(map(_convert_finding, findings), key=lambda finding: -SEVERITIES.index(finding.severity))
    verdict = Verdict()
    if present:
        more = f" · {len(present) - 1} more" if len(present) > 1 else ""
        verdict = Verdict(find_worst_severity(present), present[0].text + more, present[0].kind)
    return Queue(
        period.ref.queue,
        period.ref.system,
        counts,
        period.end_ms,
        period.is_paused,
        period.workers,
        period.oldest_ready_ms,
        overdue=period.overdue,
        expired=period.expired,
        findings=tuple(present),
        verdict=verdict,
    )


def _convert_finding(finding: RecordedFinding) -> Finding:
    return Finding(
        finding.kind,
        finding.severity if finding.severity in SEVERITIES else "warning",
        finding.ref.queue if finding.ref else "",
        finding.text,
        detail=finding.detail,
        since_ms=finding.begin_ms,
        jobs=finding.jobs,
    )


def _build_rate(period: Period) -> Rate:
    in_s, out_s, failed_s = (period.compute_rate_s(flow) or 0.0 for flow in ("enqueued", "completed", "failed"))
    return Rate(in_s, out_s, failed_s, window_ms=period.watched_ms)


def describe_moment(moment: Moment) -> str:
    """Return a sentence about what the numbers of a moment are."""
    span = "hour" if moment.span_ms == HOUR_MS else "minute"
    missing = ""
    if moment.unrecorded:
        missing = f" Not recorded then, but in the hour before: {join_names([*map(str, moment.unrecorded)])}."
    return (
        f"from the recording: counts of {format_date_and_time(moment.snapshot.taken_ms)}, the last refresh of that "
        f"{span}; findings of {format_date_and_time(moment.at_ms)}.{missing}"
    )
