"""Give a single command the last minutes of a queue from a recording: its checkpoints, and since when findings exist.

`rqtui health` uses it for systems that store no history. A recording counts only if a recorder runs now: what happened
since its last poll is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rqtui.engine.rates import WINDOW_MS, Checkpoint, Totals
from rqtui.model import Finding, Queue, Ref, State
from rqtui.recording.records import MINUTE_MS, Period, RecordedQueue
from rqtui.recording.store import STALE_FINDING_MS, Reader

MAX_AGE_MS = 30_000  # since the last recorded poll
MIN_WATCHED_SHARE = 0.8  # of a minute; with less, too much of it is unknown


def read_checkpoints(reader: Reader, ref: Ref, queue: Queue, totals: Totals) -> list[Checkpoint]:
    """Return the totals of a queue at the start of each of its last recorded minutes, the newest first.

    `totals` are those of `queue`, which was counted just now. The list is empty if the recording ended more than 30
    seconds ago, and ends at the first gap.
    """
    periods = reader.read_periods(ref, queue.counted_ms - WINDOW_MS - MINUTE_MS, queue.counted_ms + MINUTE_MS)
    minutes = [period for period in periods if period.span_ms == MINUTE_MS]
    if not minutes or queue.counted_ms - minutes[-1].end_ms > MAX_AGE_MS:
        return []
    recorded = next(each for each in reversed(reader.list_queues()) if each.ref == ref)
    checkpoints: list[Checkpoint] = []
    for number in range(len(minutes) - 1, -1, -1):
        minute, previous = minutes[number], minutes[number - 1] if number else None
        if minute.watched_ms < MIN_WATCHED_SHARE * (minute.end_ms - minute.begin_ms):
            break
        is_continued = previous is not None and previous.end_ms == minute.begin_ms
        totals = Totals(
            totals.enqueued - minute.enqueued,
            totals.completed - minute.completed,
            totals.failed - minute.failed,
            totals.dead - minute.died,
            _count_ready(recorded, previous) if previous is not None and is_continued else None,
        )
        if minute.begin_ms < queue.counted_ms:
            checkpoints.append(Checkpoint(minute.begin_ms, totals))
        if not is_continued:
            break
    return checkpoints


def apply_recorded_starts(reader: Reader, queues: Mapping[Ref, Queue]) -> dict[Ref, Queue]:
    """Return the queues with the start of each finding that a running recorder saw before.

    A single command dates a finding by its own snapshot if nothing else is known, so the earlier time is the right one.
    """
    now_ms = max((queue.counted_ms for queue in queues.values()), default=0)
    begins_ms = {
        (finding.ref, finding.kind): finding.begin_ms
        for finding in reader.read_findings(now_ms - STALE_FINDING_MS, now_ms + 1)
        if finding.end_ms is None
    }

    def date_finding(ref: Ref, finding: Finding) -> Finding:
        begin_ms = begins_ms.get((ref, finding.kind))
        if begin_ms is None or (finding.since_ms is not None and finding.since_ms <= begin_ms):
            return finding
        return replace(finding, since_ms=begin_ms)

    return {
        ref: queue._replace(findings=tuple(date_finding(ref, finding) for finding in queue.findings))
        for ref, queue in queues.items()
    }


def _count_ready(recorded: RecordedQueue, minute: Period) -> int | None:
    """Return the ready jobs at the end of a minute, or None if their number is unknown."""
    if len(recorded.places) != len(minute.counts):
        return None
    counts: Sequence[int | None] = [
        count for place, count in zip(recorded.places, minute.counts, strict=True) if place.state is State.READY
    ]
    return None if None in counts else sum(count or 0 for count in counts)
