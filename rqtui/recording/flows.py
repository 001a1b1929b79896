"""Read the flows of one queue from a recording, for commands about systems that record nothing themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rqtui.engine.history import UNFINISHED_STATES
from rqtui.model import Ref
from rqtui.recording.records import FLOWS, MINUTE_MS, Period, RecordedPlace
from rqtui.recording.store import Reader, Writer


class RecordedFlows(NamedTuple):
    """The recorded minutes of a queue in a time span, and the part of the span that was watched.

    `estimated` has the names of the flows that the system does not count: their numbers are lower bounds.
    """

    minutes: tuple[Period, ...]
    estimated: tuple[str, ...]
    places: tuple[RecordedPlace, ...] = ()

    @property
    def begin_ms(self) -> int:
        """The start of the first watched part."""
        return self.minutes[0].begin_ms

    @property
    def end_ms(self) -> int:
        """The last poll."""
        return self.minutes[-1].end_ms

    @property
    def watched_ms(self) -> int:
        """The time between polls that followed each other, all minutes together."""
        return sum(minute.watched_ms for minute in self.minutes)

    def count_unfinished(self, minute: Period) -> int | None:
        """Return the scheduled, ready and reserved jobs at the end of a minute, or None if a number is unknown."""
        counts = [
            count for place, count in zip(self.places, minute.counts, strict=False) if place.state in UNFINISHED_STATES
        ]
        return None if None in counts or len(self.places) != len(minute.counts) else sum(map(int, filter(None, counts)))

    def sum_flow(self, flow: str) -> int:
        """Return the jobs of a flow, such as `completed`, in the watched time."""
        return sum(getattr(minute, flow) for minute in self.minutes)

    def compute_rate_s(self, flow: str) -> float | None:
        """Return the jobs of a flow per second of the watched time, or None if nothing was watched."""
        return self.sum_flow(flow) / (self.watched_ms / 1000) if self.watched_ms else None


def read_flows(reader: Reader | Writer, ref: Ref, begin_ms: int, end_ms: int) -> RecordedFlows | None:
    """Return the recorded minutes of a queue that begin in a time span; None if there are none.

    Hours are left out: they say nothing about a minute.
    """
    minutes: Sequence[Period] = [
        period for period in reader.read_periods(ref, begin_ms, end_ms) if period.span_ms == MINUTE_MS
    ]
    if not minutes:
        return None
    queue = next(queue for queue in reversed(reader.list_queues()) if queue.ref == ref)
    estimated = tuple(flow for flow in FLOWS if flow not in queue.counted)
    return RecordedFlows(tuple(minutes), estimated, queue.places)
