"""Hold the results of health probes as the rules read them: recent deaths, idle workers, long runs and the like.

A result is None or empty while no probe has found it. Built by the probes of this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rqtui.model import Cause

SUSPICIOUS_WAIT_MS = 60_000  # a wait from which on it is compared with the usual wait


class RecentDeaths(NamedTuple):
    """The number of jobs of a queue that became dead within the last day, estimated from a sample of its dead jobs."""

    jobs: int  # if `is_exact` is false, at least so many; 0: none of those in the sample
    is_exact: bool = True
    is_dated: bool = True  # False: the system does not store when a job died


class WorkerActivity(NamedTuple):
    """The number of registered workers of a queue, and how many of them are idle or quiet.

    A quiet worker finishes its jobs but takes no new ones.
    """

    total: int
    idle: int
    quiet: int
    served_first: tuple[str, ...] = ()  # queues from which every worker takes jobs before it takes one of this queue


class LongRun(NamedTuple):
    """A reserved job that runs much longer than ended jobs of its kind; of several the one with the largest factor."""

    id: bytes
    name: str
    worker: str
    begin_ms: int
    usual_ms: int  # the median run of the same kind
    sampled: int  # ended runs of the kind that were read
    jobs: int  # jobs of the queue that run too long, this one included
    is_mean: bool = False  # True: `usual_ms` is a mean that the system itself stores


class OvertakenJob(NamedTuple):
    """A ready job of low priority that has waited long, while jobs that came later were taken."""

    id: bytes
    name: str
    priority: int
    ready_ms: int  # since when the job is ready
    jobs_before: int  # ready jobs that are taken before this one


class RetryStorm(NamedTuple):
    """A kind of job that fails at every attempt and is tried again at once, by a sample of the retried jobs."""

    name: str
    per_minute: float  # attempts of all its sampled jobs together, scaled to the places from which they were read
    sampled: int
    done_per_minute: float | None = None  # runs of all kinds that succeeded in the last minute; None: unknown


class ProbeResults(NamedTuple):
    """The results of all probes of one queue, as the health rules read them."""

    causes: tuple[Cause, ...] = ()  # of recent failures
    death_causes: tuple[Cause, ...] = ()  # of all dead jobs
    failure_shares: tuple[
        tuple[int, float], ...
    ] = ()  # (minute in ms, share of failed attempts), for minutes with attempts
    usual_wait_ms: int | None = None  # how long the oldest ready job usually waits
    recent_deaths: RecentDeaths | None = None
    workers: WorkerActivity | None = None
    long_run: LongRun | None = None
    overtaken: OvertakenJob | None = None
    storm: RetryStorm | None = None


NO_PROBE_RESULTS = ProbeResults()


class CompleteCauses(NamedTuple):
    """The main causes of all dead jobs of a queue, from a report that read every one of the `dead` jobs."""

    dead: int
    causes: tuple[Cause, ...]


def find_failing_since_ms(shares: Sequence[tuple[int, float]], limit: float) -> int | None:
    """Return the minute (ms) since when at least the share `limit` of the attempts has failed; None if it is lower now.

    A minute with a share above half of `limit` does not end the period, because the share of a few attempts varies
    widely.
    """
    since_ms = None
    for minute_ms, share in shares:
        if share < limit / 2:
            since_ms = None
        elif since_ms is None and share >= limit:
            since_ms = minute_ms
    return since_ms
