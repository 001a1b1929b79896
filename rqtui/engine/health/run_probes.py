"""Read which jobs do not run as usual: idle workers, long runs, overtaken jobs, and jobs that are retried at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from rqtui.engine.health.probe_requests import (
    build_combined_page_request,
    build_newest_page_request,
    combine_requests,
    ignore_request_errors,
)
from rqtui.engine.health.probe_results import SUSPICIOUS_WAIT_MS, LongRun, OvertakenJob, RetryStorm, WorkerActivity
from rqtui.engine.rates import MINUTE_MS
from rqtui.model import Job, KindStatistics, Page, Place, Queue, State
from rqtui.system_base.system import Replies, Request, System

MIN_ENDED_RUNS = 5  # ended runs of a kind that are needed to know how long it usually runs
MIN_LONG_RUN_MS = 60_000  # a shorter run is never reported
LONG_RUN_FACTOR = 20  # times the median run of the kind from which on a run is reported
LONGEST_RUN_FACTOR = 3  # and times the longest sampled run: the runs of some kinds vary a lot
_IDLE_STATES = frozenset({"", "idle", "waits", "connected"})  # the systems' own words for a worker without a job


def build_workers_request(system: System, queue: Queue) -> Request[WorkerActivity | None]:
    """Build the request that counts the idle and quiet workers of a queue."""
    request = system.workers_request(queue.name)

    def count_idle_workers(replies: Replies) -> WorkerActivity:
        workers = [worker for worker in request.parse(replies) if not worker.is_late(queue.counted_ms)]
        quiet = sum(worker.order != "run" or worker.state == "quiet" for worker in workers)
        idle = sum(worker.order == "run" and not worker.job and worker.state in _IDLE_STATES for worker in workers)
        before = [
            worker.queues[: worker.queues.index(queue.name)] if queue.name in worker.queues else ()
            for worker in workers
        ]
        served_first = (
            before[0] if system.has_ordered_queues and before and all(each == before[0] for each in before) else ()
        )
        return WorkerActivity(len(workers), idle, quiet, served_first)

    return ignore_request_errors(Request(request.calls, count_idle_workers))


def needs_workers_probe(system: System, queue: Queue) -> bool:
    """Return whether workers may leave ready jobs untouched: none is reserved, or the oldest one waits long."""
    if not queue.workers or queue.is_paused or not queue.count_in_state(State.READY):
        return False
    waits_long = system.has_ordered_queues and (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS
    return waits_long or not queue.count_in_state(State.RESERVED)


def build_long_run_request(system: System, queue: Queue) -> Request[LongRun | None]:
    """Build the request that compares the runs of reserved jobs with the latest ended runs of the same kind.

    Of a system that deletes ended jobs, the runs are compared with the mean that the system stores per kind. No run
    began before its job was enqueued: the clock of the worker that wrote so is behind.
    """
    places = _list_places_with_runs(system, queue)
    requests: list[Request[Any]] = [build_newest_page_request(system, queue, place) for place in places]
    kinds = None if any(place.state is State.DONE for place in places) else system.kinds_request(queue.name)
    if kinds is not None:
        requests.append(kinds)

    def find_long_run(replies: list[Any]) -> LongRun | None:
        pages: list[Page] = replies[: len(places)]
        jobs = [job for page in pages for job in page.jobs]
        usual = _compute_usual_runs(jobs)
        for kind in replies[len(places)] if kinds is not None else ():
            if kind.mean_ms is not None and kind.processed - kind.failed >= MIN_ENDED_RUNS:
                usual[kind.kind] = _UsualRun(kind.mean_ms, kind.mean_ms, kind.processed - kind.failed)
        found = []
        for job in jobs:
            typical = usual.get(job.name)
            if job.state is State.RESERVED and job.name and job.reserved_ms and typical:
                begin_ms = max(job.reserved_ms, job.enqueued_ms or 0)
                run_ms = queue.counted_ms - begin_ms
                if run_ms >= max(
                    MIN_LONG_RUN_MS, LONG_RUN_FACTOR * typical.ms, LONGEST_RUN_FACTOR * typical.longest_ms
                ):
                    found.append((run_ms / max(1, typical.ms), begin_ms, job, typical))
        if not found:
            return None
        _factor, begin_ms, job, typical = max(found, key=itemgetter(0))
        is_mean = kinds is not None
        return LongRun(job.id, job.name, job.worker, begin_ms, typical.ms, typical.runs, len(found), is_mean)

    return combine_requests(requests, find_long_run)


class _UsualRun(NamedTuple):
    """How long the ended runs of one kind of job took, in ms: the median or the mean, and the longest."""

    ms: int
    longest_ms: int
    runs: int


def _compute_usual_runs(jobs: Sequence[Job]) -> dict[str, _UsualRun]:
    """Return the usual run of each kind with enough ended jobs."""
    runs: dict[str, list[int]] = {}
    for job in jobs:
        if job.state is State.DONE and job.reserved_ms and job.since_ms and job.since_ms >= job.reserved_ms:
            runs.setdefault(job.name, []).append(job.since_ms - job.reserved_ms)
    return {
        name: _UsualRun(round(median(ended)), max(ended), len(ended))
        for name, ended in runs.items()
        if len(ended) >= MIN_ENDED_RUNS
    }


def _list_places_with_runs(system: System, queue: Queue) -> list[Place]:
    """Return the places of a queue that contain running or ended jobs.

    Returns none if the system stores no names of jobs, or neither ended jobs nor the mean run of a kind.
    """
    if "name" not in system.known_fields:
        return []
    places = [place for place in system.places if place.state in (State.RESERVED, State.DONE)]
    places = [place for place in places if queue.count_in_place(place.name)]
    states = {place.state for place in places}
    is_known = State.DONE in states or system.kinds_request(queue.name) is not None
    return places if State.RESERVED in states and is_known else []


def needs_long_run_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has running jobs, and ended ones to compare them with."""
    return bool(queue.count_in_state(State.RESERVED) and _list_places_with_runs(system, queue))


ORDER_PARTS = 4  # positions at which the order of the ready jobs is sampled, beside the last jobs
ORDER_JOBS = 20  # last ready jobs that are read


def build_order_request(system: System, queue: Queue) -> Request[OvertakenJob | None]:
    """Build the request for the ready job that waits longest, by a sample of a place in the order of priority.

    The head of the place is the next job, and may be the newest one.
    """
    place = next(each for each in system.places if each.state is State.READY)
    ready = queue.count_in_place(place.name)
    last = max(0, ready - ORDER_JOBS)
    offsets = [*dict.fromkeys(last * part // ORDER_PARTS for part in range(ORDER_PARTS)), last]
    requests = [system.page_request(queue.name, place.name, at, 1, 0) for at in offsets[:-1]]
    requests.append(system.page_request(queue.name, place.name, last, ORDER_JOBS, 0))

    def find_overtaken(pages: list[Page]) -> OvertakenJob | None:
        jobs = [(page.offset + at, job) for page in pages for at, job in enumerate(page.jobs)]
        waits = [(at, job, _find_ready_since_ms(job)) for at, job in jobs]
        dated_jobs = [(ready_ms, at, job) for at, job, ready_ms in waits if ready_ms is not None]
        if not dated_jobs:
            return None
        head_ms = queue.counted_ms - (queue.oldest_ready_ms or 0)
        ready_ms, at, job = min(dated_jobs, key=itemgetter(0, 1))
        if at == 0 or head_ms <= ready_ms:
            return None
        return OvertakenJob(job.id, job.name, job.priority, ready_ms, at)

    return build_combined_page_request(requests, find_overtaken)


def _find_ready_since_ms(job: Job) -> int | None:
    """Return since when a ready job waits: since it was put, was due or was put back, whichever came last."""
    times = [at_ms for at_ms in (job.enqueued_ms, job.due_ms, job.since_ms) if at_ms is not None]
    return max(times, default=None)


def needs_order_probe(system: System, queue: Queue) -> bool:
    """Return whether a ready job may be overtaken by later jobs: priorities, several ready jobs, and workers exist."""
    is_ordered = "priority" in system.known_fields
    return is_ordered and queue.count_in_state(State.READY) > 1 and not queue.is_paused and queue.workers != 0


STORM_JOBS = 20  # jobs of each place that are searched for jobs that are tried again and again
MIN_STORM_ATTEMPTS = 5  # attempts of one job
MIN_STORM_SHARE = 0.9  # of the reported runs of a kind that failed
MIN_STORM_PER_MINUTE = 2.0  # attempts of one job per minute, since it was put


def build_storm_request(system: System, queue: Queue) -> Request[RetryStorm | None]:
    """Build the request for the kind of job that is tried again and again without a pause.

    The jobs are at the end of the ready place, are reserved, or wait for a short time. In a ready place in the order of
    due times they are at its head, because a retry at once keeps the due time. The rate of attempts of a job is their
    number divided by the age of the job.
    """
    requests, counts, has_done = [], [], False
    for place in system.places:
        number, is_done = queue.count_in_place(place.name), place.state is State.DONE
        if place.state is State.DEAD or place.is_from_events or is_done and place.is_shared:
            continue
        has_done = has_done or is_done
        if number:
            is_at_end = place.state is State.READY and place.score != "due ms" or is_done and not place.is_key_per_job
            first = max(0, number - STORM_JOBS) if is_at_end else 0
            read = system.scan_request if place.is_shared else system.page_request
            requests.append(read(queue.name, place.name, first, STORM_JOBS, 0))
            counts.append(number)

    # Where runs are known from events, they are counted per kind, and the messages store no time.
    kinds = system.kinds_request(queue.name) if system.heartbeat_event_interval_ms is not None else None

    def find_storm(replies: list[Any]) -> RetryStorm | None:
        pages: list[Page] = replies[: len(counts)]
        if kinds is not None:
            return _find_reported_storm(pages, replies[-1])
        rates: dict[str, float] = {}
        sampled: Counter[str] = Counter()
        ends = [_find_job_end_ms(job) for page in pages for job in page.jobs if job.state is State.DONE]
        for page, number in zip(pages, counts, strict=True):
            scale = max(1.0, number / max(1, len(page.jobs)))
            for job in page.jobs:
                age_ms = queue.counted_ms - (_find_job_creation_ms(job) or queue.counted_ms)
                failed = job.attempts - (job.state is State.RESERVED)
                per_minute = failed * MINUTE_MS / age_ms if age_ms > 0 else 0.0
                is_waiting = job.state is not State.DONE
                if is_waiting and failed >= MIN_STORM_ATTEMPTS and per_minute >= MIN_STORM_PER_MINUTE:
                    rates[job.name] = rates.get(job.name, 0.0) + per_minute * scale
                    sampled[job.name] += 1
        if not rates:
            return None
        name, per_minute = max(rates.items(), key=itemgetter(1))
        done = _compute_ends_per_minute(ends, queue.counted_ms) if has_done else None
        return RetryStorm(name, per_minute, sampled[name], done)

    return combine_requests([*requests, *([] if kinds is None else [kinds])], find_storm)


def _find_reported_storm(pages: Sequence[Page], kinds: Sequence[KindStatistics]) -> RetryStorm | None:
    """Find the kind whose reported runs nearly all failed, if jobs of it are tried again for the fifth time or more."""
    retried = Counter(job.name for page in pages for job in page.jobs if job.attempts > MIN_STORM_ATTEMPTS)
    failing = [each for each in kinds if retried[each.kind] and each.failed >= MIN_STORM_SHARE * each.processed]
    if not failing:
        return None
    worst = max(failing, key=lambda each: each.failed)
    minutes = max(1.0, worst.window_ms / MINUTE_MS)
    done = sum(each.processed - each.failed for each in kinds) / minutes
    return RetryStorm(worst.kind, worst.failed / minutes, retried[worst.kind], done)


def _find_job_end_ms(job: Job) -> int:
    return job.ended_ms or job.since_ms or 0


def _compute_ends_per_minute(ends: Sequence[int], now_ms: int) -> float:
    """Return how many jobs ended per minute, by the times of the jobs that ended last."""
    recent = [at_ms for at_ms in ends if now_ms - at_ms < MINUTE_MS]
    is_cut = len(recent) == len(ends) >= STORM_JOBS
    return len(recent) * MINUTE_MS / max(1_000, now_ms - min(recent)) if is_cut else float(len(recent))


def _find_job_creation_ms(job: Job) -> int | None:
    """Return when a job was put. Sidekiq renews `enqueued_ms` at each retry, and stores the first time as a fact."""
    created = next((fact.value for fact in job.facts if fact.name == "created"), None)
    return created if isinstance(created, int) else job.enqueued_ms


def needs_storm_probe(system: System, queue: Queue) -> bool:
    """Return whether jobs of a queue may fail and be retried at once: it has failures, and ready or reserved jobs.

    Where ended jobs are keys of their own, the counters count no attempt that is tried again.
    """
    if "tried" not in system.known_fields or queue.is_paused:
        return False
    counts_retries = not any(place.is_key_per_job for place in system.places)
    if counts_retries and queue.counters.get("failed") == 0:
        return False
    return bool(queue.count_in_state(State.READY) or queue.count_in_state(State.RESERVED))
