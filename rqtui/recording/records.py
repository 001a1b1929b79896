"""Define the records of a recording, and how records of the same queue are merged to longer periods.

`recorder.py` builds them from snapshots, `store.py` writes and reads them. A poll is a record of one refresh; polls are
merged to minutes, and minutes to hours, by the same function. Times are ms by the clock of the Redis server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rqtui.model import Ref, State

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
SEVERITIES = ("ok", "info", "unknown", "warning", "critical")  # from the least to the most severe


class RecordedPlace(NamedTuple):
    """A place of a recorded queue: its name, its state, and whether the jobs in it failed."""

    name: str
    state: State
    has_failures: bool = True


class RecordedQueue(NamedTuple):
    """A recorded queue: its identity, its places, and which of its flows were counted by its system.

    `counted` has names of `FLOWS`. Other flows were estimated from changed job counts, and are lower bounds.
    """

    ref: Ref
    places: tuple[RecordedPlace, ...]
    counted: tuple[str, ...] = ()


FLOWS = ("enqueued", "completed", "failed", "died")


class Period(NamedTuple):
    """The activity of a queue in one minute or hour. Counts are those at the end of the period.

    `watched_ms` is the part of the period between polls that followed each other; the flows cover only that part.
    """

    ref: Ref
    at_ms: int  # the start of the minute or hour
    span_ms: int  # a duration: of a minute or an hour
    begin_ms: int  # the start of the part that was watched
    end_ms: int  # the last poll
    watched_ms: int  # a duration
    polls: int
    enqueued: int  # jobs put into the queue in the watched part
    completed: int  # attempts that succeeded
    failed: int  # attempts that failed
    died: int  # jobs that became dead
    counts: tuple[int | None, ...]  # by place, in the order of `RecordedQueue.places`; None: unknown
    estimated: int  # a bit per place, the first place lowest: set if its count was estimated from a sample
    ready_max: int  # the most ready jobs at one poll
    oldest_ready_ms: int | None  # an age; None: no job is ready, or unknown
    oldest_ready_max_ms: int | None  # the highest age
    workers: int | None  # None: the system stores no list of workers
    workers_min: int | None
    overdue: int
    expired: int
    is_paused: bool
    severity: str  # the worst of the period: ok, info, unknown, warning or critical

    def compute_rate_s(self, flow: str) -> float | None:
        """Return the jobs per second of a flow in the watched part, or None if nothing was watched."""
        return getattr(self, flow) / (self.watched_ms / 1000) if self.watched_ms else None


class ServerPeriod(NamedTuple):
    """What is known of the server in one minute or hour. A value is None if it was not read."""

    at_ms: int
    span_ms: int
    polls: int
    watched_ms: int
    took_max_ms: float  # the longest refresh
    rtt_ms: float | None  # the last measured round trip
    used_bytes: int | None  # memory, of all nodes together
    maxmemory_bytes: int | None
    role: str  # primary | replica; empty: unknown


class RecordedFinding(NamedTuple):
    """A finding with the time in which it was present. `ref` is None for a finding about the server."""

    ref: Ref | None
    kind: str
    severity: str
    text: str
    detail: str
    jobs: int
    begin_ms: int
    seen_ms: int  # when the finding was present last
    end_ms: int | None = None  # None: it is present, or nothing was recorded since `seen_ms`


class ErrorCount(NamedTuple):
    """A cause of failures in a queue, and the jobs with this cause among those that a health check read."""

    ref: Ref
    at_ms: int  # the start of the minute or hour
    cause: str
    jobs: int


class RecordedChange(NamedTuple):
    """A change of the journal: when it ended, and its fields as `rqtui operations --json` stores them."""

    at_ms: int
    key: str  # equal for the same change read twice
    fields: Mapping[str, Any]


class RecordedPage(NamedTuple):
    """The first jobs of a place of a queue, as JSON. `job_pages.py` converts jobs to this text and back."""

    ref: Ref
    at_ms: int  # the start of the minute
    place: str
    taken_ms: int  # when the jobs were read
    total: int | None  # the jobs of the place then; None: unknown
    is_exact: bool  # False: `total` is an estimate
    jobs: str


def merge_periods(first: Period, *others: Period, at_ms: int | None = None, span_ms: int | None = None) -> Period:
    """Return the period of consecutive records of the same queue, the oldest first.

    The places of the queue must be the same in all of them. `at_ms` and `span_ms` replace those of the first.
    """
    periods: Sequence[Period] = (first, *others)
    last = periods[-1]
    return Period(
        first.ref,
        first.at_ms if at_ms is None else at_ms,
        first.span_ms if span_ms is None else span_ms,
        first.begin_ms,
        last.end_ms,
        sum([period.watched_ms for period in periods]),
        sum([period.polls for period in periods]),
        sum([period.enqueued for period in periods]),
        sum([period.completed for period in periods]),
        sum([period.failed for period in periods]),
        sum([period.died for period in periods]),
        last.counts,
        last.estimated,
        max([period.ready_max for period in periods]),
        last.oldest_ready_ms,
        max([period.oldest_ready_max_ms for period in periods if period.oldest_ready_max_ms is not None], default=None),
        last.workers,
        min([period.workers_min for period in periods if period.workers_min is not None], default=None),
        last.overdue,
        last.expired,
        last.is_paused,
        max([period.severity for period in periods], key=SEVERITIES.index),
    )


def merge_server_periods(first: ServerPeriod, *others: ServerPeriod, span_ms: int, at_ms: int) -> ServerPeriod:
    """Return the period of consecutive records of the server, the oldest first."""
    periods = (first, *others)
    last = periods[-1]
    return ServerPeriod(
        at_ms,
        span_ms,
        sum(period.polls for period in periods),
        sum(period.watched_ms for period in periods),
        max(period.took_max_ms for period in periods),
        next((period.rtt_ms for period in reversed(periods) if period.rtt_ms is not None), None),
        last.used_bytes,
        last.maxmemory_bytes,
        last.role,
    )
