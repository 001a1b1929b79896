"""Read the flows of one queue from a recording, for commands about systems that record nothing themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from rqtui.engine.history import UNFINISHED_STATES
from rqtui.model import Ref, State
from rqtui.recording.records import FLOWS, HOUR_MS, MINUTE_MS, Period, RecordedPlace, RecordedQueue
from rqtui.recording.store import DAY_MS, Reader, Writer

# The longest time span that is shown in steps of this length.
_STEPS = ((3 * HOUR_MS, MINUTE_MS), (2 * DAY_MS, 10 * MINUTE_MS), (31 * DAY_MS, HOUR_MS), (1 << 53, DAY_MS))


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


class MinuteTotals(NamedTuple):
    """A recorded minute, hour or longer step of several queues together. Flows are jobs; None: a number is unknown."""

    at_ms: int
    span_ms: int
    watched_ms: int
    enqueued: int
    completed: int
    failed: int
    unfinished: int | None
    oldest_ready_ms: int | None  # the highest age


def choose_step_ms(span_ms: int) -> int:
    """Return the length of the steps in which a time span is shown, so that they are few enough for a plot."""
    return next(step_ms for longest_ms, step_ms in _STEPS if span_ms <= longest_ms)


def read_totals(reader: Reader | Writer, refs: Collection[Ref], begin_ms: int, end_ms: int) -> tuple[MinuteTotals, ...]:
    """Read what was recorded of some queues together, in the steps of the time span. A gap has no step."""
    queues = {queue.ref: queue for queue in reader.list_queues()}
    periods: dict[tuple[int, int], list[Period]] = defaultdict(list)
    for period in reader.read_steps(set(refs), begin_ms, end_ms, choose_step_ms(end_ms - begin_ms)):
        periods[period.at_ms, period.span_ms].append(period)
    return tuple(_sum_periods(*key, group, queues) for key, group in sorted(periods.items()))


def read_flows(reader: Reader | Writer, ref: Ref, begin_ms: int, end_ms: int) -> RecordedFlows | None:
    """Return the recorded minutes of a queue that begin in a time span; None if there are none.

    Hours are left out: they say nothing about a minute.
    """
    return _build_flows(
        reader, ref, [each for each in reader.read_periods(ref, begin_ms, end_ms) if each.span_ms == MINUTE_MS]
    )


def read_flows_in_steps(reader: Reader | Writer, ref: Ref, begin_ms: int, end_ms: int) -> RecordedFlows | None:
    """Return what was recorded of a queue, in the steps of the time span; None if nothing was recorded."""
    return _build_flows(reader, ref, reader.read_steps({ref}, begin_ms, end_ms, choose_step_ms(end_ms - begin_ms)))


def _build_flows(reader: Reader | Writer, ref: Ref, minutes: Sequence[Period]) -> RecordedFlows | None:
    queue = reader.find_queue(ref)
    if not minutes or queue is None:
        return None
    estimated = tuple(flow for flow in FLOWS if flow not in queue.counted)
    return RecordedFlows(tuple(minutes), estimated, queue.places)


def _sum_periods(
    at_ms: int, span_ms: int, periods: Sequence[Period], queues: Mapping[Ref, RecordedQueue]
) -> MinuteTotals:
    """Return the totals of the records of several queues with the same start."""
    counts = [
        (place.state, count)
        for period in periods
        for place, count in zip(queues[period.ref].places, period.counts, strict=False)
    ]
    unfinished = [count for state, count in counts if state in UNFINISHED_STATES]
    ages = [period.oldest_ready_max_ms for period in periods if period.oldest_ready_max_ms is not None]
    is_nothing_ready = all(count == 0 for state, count in counts if state is State.READY)
    return MinuteTotals(
        at_ms,
        span_ms,
        max(period.watched_ms for period in periods),
        sum(period.enqueued for period in periods),
        sum(period.completed for period in periods),
        sum(period.failed for period in periods),
        None if None in unfinished else sum(map(int, filter(None, unfinished))),
        max(ages) if ages else 0 if is_nothing_ready else None,
    )
