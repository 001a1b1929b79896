"""Read why jobs fail: the errors of the latest failures and of the dead jobs, and the failing share of each minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from rqtui.engine import history
from rqtui.engine.dead_sample import DeadSample, build_dead_sample_request
from rqtui.engine.health.probe_requests import (
    HOURS_MS,
    build_combined_page_request,
    build_newest_page_request,
    build_shared_place_request,
    ignore_request_errors,
)
from rqtui.engine.health.probe_results import SUSPICIOUS_WAIT_MS, RecentDeaths
from rqtui.engine.history import History
from rqtui.engine.rates import WINDOW_MS
from rqtui.model import Cause, Job, Page, Queue, State
from rqtui.system_base.system import Replies, Request, System
from rqtui.text.causes import find_short_error_cause
from rqtui.text.masking import mask_text

MAX_CAUSES = 3
RECENT_DEATHS_MS = 86_400_000  # dead jobs of the last day are a finding; older ones are a number


def build_failure_causes_request(system: System, queue: Queue) -> Request[tuple[Cause, ...] | None]:
    """Build the request for the most frequent errors of the latest failures.

    These are the errors of dead jobs and of jobs that will be retried.
    """
    requests = []
    for place in system.places:
        job_count = queue.count_in_place(place.name)
        if job_count and place.has_failures and place.state in (State.DEAD, State.SCHEDULED):
            build_request = build_shared_place_request if place.is_shared else build_newest_page_request
            requests.append(build_request(system, queue, place))

    def count_recent_causes(pages: list[Page]) -> tuple[Cause, ...]:
        jobs = [job for page in pages for job in page.jobs if job.error]
        failed = [job for job in jobs if job.state is State.DEAD or job.attempts]
        window_start_ms = queue.counted_ms - WINDOW_MS
        recent = [job for job in failed if job.state is not State.DEAD or _ended_since(job, window_start_ms)]
        return count_causes(recent or failed)

    return build_combined_page_request(requests, count_recent_causes)


def build_dead_jobs_request(system: System, queue: Queue) -> Request[tuple[tuple[Cause, ...], RecentDeaths] | None]:
    """Build the request that samples the dead jobs of a queue: their main errors, and how many died within a day."""
    request = build_dead_sample_request(system, queue)

    def summarise_dead_jobs(replies: Replies) -> tuple[tuple[Cause, ...], RecentDeaths]:
        sample = request.parse(replies)
        causes = count_causes(sample.list_jobs())
        return causes, _count_recent_deaths(queue, sample)

    return ignore_request_errors(Request(request.calls, summarise_dead_jobs))


def _count_recent_deaths(queue: Queue, sample: DeadSample) -> RecentDeaths:
    """Count the dead jobs of a queue that died within a day, from a sample of them.

    Blocks divide a place into parts of equal size. A part whose first and last jobs are recent counts as a whole, so
    the result is a lower bound unless all dead jobs were read, every sampled job is recent, or none is and the places
    are in the order of death.
    """
    begin_ms = queue.counted_ms - RECENT_DEATHS_MS
    samples = sample.places
    jobs = [job for place_blocks in samples for block in place_blocks for job in block]
    if not jobs or any(job.since_ms is None for job in jobs):
        return RecentDeaths(0, is_dated=False)
    recent_jobs = sum(_ended_since(job, begin_ms) for job in jobs)
    dead_jobs = queue.count_failed()
    if len(jobs) >= dead_jobs or not recent_jobs:
        return RecentDeaths(recent_jobs, len(jobs) >= dead_jobs or sample.is_ordered)
    if recent_jobs == len(jobs) and all(len(place_blocks) > 1 for place_blocks in samples):
        return RecentDeaths(dead_jobs)
    is_recent_block = [
        bool(block) and all(_ended_since(job, begin_ms) for job in block)
        for place_blocks in samples
        for block in place_blocks
    ]
    estimate = max(recent_jobs, (sum(is_recent_block) - 1) * dead_jobs // len(is_recent_block))
    return RecentDeaths(min(dead_jobs, estimate), is_exact=False)


def _ended_since(job: Job, begin_ms: int) -> bool:
    """Return whether a job ended at a time or later, as far as its system stores that."""
    return job.since_ms is not None and job.since_ms >= begin_ms


def count_causes(jobs: Sequence[Job]) -> tuple[Cause, ...]:
    """Return the three most frequent errors of the given jobs, shortened and with secrets masked.

    Returns none if most of the jobs have no error, because a finding names the first one as the main cause.
    """
    causes = Counter(find_short_error_cause(job.error) for job in jobs).most_common(MAX_CAUSES)
    if causes and not causes[0][0]:
        return ()
    return tuple(Cause(mask_text(text), job_count) for text, job_count in causes if text)


def needs_failure_causes_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has a finding about failures, and its system stores error messages."""
    return "error" in system.known_fields and any(finding.kind in _FAILURE_KINDS for finding in queue.findings)


def needs_deaths_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has a finding about its dead jobs."""
    return any(finding.kind in _DEATH_KINDS for finding in queue.findings)


def build_failure_history_request(
    system: System, queue: Queue
) -> Request[tuple[tuple[tuple[int, float], ...], int | None] | None]:
    """Build the request for a queue's failure share per minute in the last hours, and its usual waiting time."""
    request = history.build_history_request(system, queue.name, HOURS_MS // history.MINUTE_MS)

    def parse_failure_history(replies: Replies) -> tuple[tuple[tuple[int, float], ...], int | None]:
        counters_by_minute = request.parse(replies)
        minutes = history.compute_growth_per_minute([counters_by_minute], queue.counted_ms - HOURS_MS, queue.counted_ms)
        ended_by_minute = [
            (minute_ms, history.sum_flow_counters(growth, "out"), history.sum_flow_counters(growth, "failed"))
            for minute_ms, growth in minutes
        ]
        shares = tuple(
            (minute_ms, failed / (completed + failed))
            for minute_ms, completed, failed in ended_by_minute
            if completed + failed
        )
        return shares, compute_usual_wait_ms(counters_by_minute, queue, minutes)

    return ignore_request_errors(Request(request.calls, parse_failure_history))


def compute_usual_wait_ms(
    counters_by_minute: History, queue: Queue, minutes: Sequence[tuple[int, Mapping[str, int]]]
) -> int | None:
    """Compute how long a job usually waited: the median over minutes of ready jobs / completed jobs per minute.

    This is Little's law (J. D. C. Little, 1961). No counter holds how many jobs were scheduled at the time, so the
    present number is assumed. Returns None if fewer than ten minutes have completed jobs.
    """
    scheduled = queue.count_in_state(State.SCHEDULED)
    depths = dict(history.compute_unfinished_per_minute(minutes, history.count_unfinished([queue])))
    end_ms = queue.counted_ms - 2 * WINDOW_MS
    start_ms = min(counters_by_minute.minutes, default=queue.counted_ms)
    waits = [
        max(0, depths[minute_ms] - scheduled) * history.MINUTE_MS / completed
        for minute_ms, growth in minutes
        if start_ms <= minute_ms < end_ms and (completed := history.sum_flow_counters(growth, "out"))
    ]
    return round(median(waits)) if len(waits) >= MIN_BUSY_MINUTES else None


MIN_BUSY_MINUTES = 10  # minutes with completed jobs that are needed to compute a usual wait


def needs_history_probe(system: System, queue: Queue) -> bool:
    """Return whether a system keeps counters per minute, and a queue has a long wait or failing attempts to explain."""
    is_wait_suspicious = (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS
    return history.has_minute_counters(system) and (
        is_wait_suspicious or any(finding.kind == "failing" for finding in queue.findings)
    )


_FAILURE_KINDS = frozenset({"failing", "dead-grows"})  # findings explained by the errors of the latest failures
_DEATH_KINDS = frozenset({"dead-many", "dead-near-cap"})  # findings explained by the errors of all dead jobs
