"""Run the health probes: bounded extra reads of one queue beyond its counts, at most a few per minute.

A probe finds what counts alone do not show: the problems that a system's own script detects, the counters of the last
minutes, the causes of failures and their start, and how long jobs usually wait. Each snapshot sends a few of the due
probes in its own round trip, starting with those that waited longest. A command that takes a single snapshot runs every
probe that its queues need. A result is valid until the same probe runs again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple, TypeVar

from rqtui.engine import history
from rqtui.engine.health.urgency import compute_queue_weight
from rqtui.engine.history import History
from rqtui.engine.rates import MINUTE_MS, WINDOW_MS, Checkpoint, RecordedEnds, Totals
from rqtui.errors import RqtuiError, describe_and_log
from rqtui.model import Cause, Finding, Job, Page, Place, Queue, Ref, State
from rqtui.system_base.system import Replies, Request, System, isolate_request
from rqtui.text.causes import find_short_error_cause
from rqtui.text.masking import mask_text

log = logging.getLogger("rqtui.engine")

T = TypeVar("T")

FAULTS_INTERVAL_S = 10.0  # between two runs of a system's own probe on one queue
MAX_PROBES = 20  # of one kind per snapshot
MIN_READY = 60  # ready jobs from which on the growth of a queue matters
SHARED_PLACE_JOBS = 1000  # jobs of all queues in a shared place that are searched for those of one queue
SAMPLE_JOBS = 100  # latest failed jobs of a place whose errors are counted
SAMPLE_BLOCKS, BLOCK_JOBS = 24, 10  # blocks of a place of dead jobs, from start to end, and jobs read of each
MAX_QUEUES_AT_ONCE = 50  # most urgent queues whose causes a single thorough snapshot reads
MAX_CAUSES = 3
RECENT_DEATHS_MS = 86_400_000  # dead jobs of the last day are a finding; older ones are a number
HOURS_MS = 6 * 3_600_000  # range for the usual wait and the start of failures
MIN_ENDED_RUNS = 5  # ended runs of a kind that are needed to know how long it usually runs
MIN_LONG_RUN_MS = 60_000  # a shorter run is never reported
LONG_RUN_FACTOR = 20  # times the median run of the kind from which on a run is reported
LONGEST_RUN_FACTOR = 3  # and times the longest sampled run: the runs of some kinds vary a lot
SUSPICIOUS_WAIT_MS = 60_000  # a wait from which on it is compared with the usual wait


class RecentDeaths(NamedTuple):
    """The number of jobs of a queue that died within the last day, estimated from a sample of its dead jobs."""

    jobs: int  # at least so many, if `is_exact` is false
    is_exact: bool = True
    is_dated: bool = True  # False: the system does not store when a job died


class WorkerActivity(NamedTuple):
    """The number of registered workers of a queue, and how many of them are idle or quiet.

    A quiet worker finishes its jobs but takes no new ones.
    """

    total: int
    idle: int
    quiet: int


class LongRun(NamedTuple):
    """A reserved job that runs much longer than ended jobs of its kind; of several the one with the largest factor."""

    id: bytes
    name: str
    worker: str
    begin_ms: int
    usual_ms: int  # the median run of the same kind
    sampled: int  # ended runs of the kind that were read
    jobs: int  # jobs of the queue that run too long, this one included


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


NO_PROBE_RESULTS = ProbeResults()


class _Probe(NamedTuple):
    """One kind of probe: its interval per queue, its limit per snapshot, its request, and which queues need it."""

    interval_s: float
    max_queues: int
    build_request: Callable[[System, Queue], Request[Any] | None]
    is_needed: Callable[[System, Queue], bool]


@dataclass(slots=True)
class _QueueProbes:
    """The probe results of one queue, and when each kind of probe ran (seconds by `time.monotonic`)."""

    ran_at_s: dict[str, float] = field(default_factory=dict)
    faults: tuple[Finding, ...] = ()
    results: ProbeResults = NO_PROBE_RESULTS


class Probes:
    """Decides from the last counts which queues need which probes, builds their requests and stores their results."""

    def __init__(self, systems: Mapping[str, System]) -> None:
        self._systems = systems
        self._states: dict[Ref, _QueueProbes] = {}
        self._queues: dict[Ref, Queue] = {}
        self._refs_by_kind: dict[str, set[Ref]] = {name: set() for name in PROBE_KINDS}
        self._since_ms_by_kind: dict[
            Ref, tuple[tuple[str, int | None], ...]
        ] = {}  # (kind of finding, since when in ms)
        self._first_probed: set[Ref] = set()  # queues in which a kind of probe just ran for the first time
        self._updated: set[Ref] = set()  # queues of which a probe result came since `take_updated_queues`

    def build_due_requests(
        self, refs: Sequence[Ref], now_s: float, kind_names: Iterable[str], *, is_all: bool = False
    ) -> ProbeRequests:
        """Build the requests of all probes that are due for the given queues, by queue and kind of probe.

        At most `max_queues` requests of each kind are built; `is_all` lifts these limits for a command that takes one
        snapshot.
        """
        for ref in refs:
            if ref not in self._queues:
                self.update_queue(ref, Queue(ref.queue, ref.system))
        requested_refs, requests = set(refs), ProbeRequests()
        for kind_name in kind_names:
            kind = PROBE_KINDS[kind_name]
            max_queues = (
                kind.max_queues if not is_all else MAX_QUEUES_AT_ONCE if kind_name in KINDS_BY_FINDINGS else len(refs)
            )
            due_queues = [
                (self._find_last_probe_s(ref, kind_name), ref) for ref in self._refs_by_kind[kind_name] & requested_refs
            ]
            due_queues = [pair for pair in due_queues if now_s - pair[0] >= kind.interval_s]
            due_queues.sort(key=lambda pair: (pair[0], -compute_queue_weight(self._queues[pair[1]])))
            for _ran_at_s, ref in due_queues[:max_queues]:
                request = self._build_probe_request(kind, ref)
                if request is not None:
                    requests[ref, kind_name] = request
        return requests

    def store_results(
        self, results: Mapping[tuple[Ref, str], Any], now_s: float
    ) -> list[tuple[Ref, Checkpoint | RecordedEnds]]:
        """Store probe results, and return the checkpoints of the last minutes that they contain, the latest first."""
        checkpoints: list[tuple[Ref, Checkpoint | RecordedEnds]] = []
        for (ref, kind_name), result in results.items():
            stored = self._states.setdefault(ref, _QueueProbes())
            self._first_probed |= set() if kind_name in stored.ran_at_s else {ref}
            self._updated.add(ref)
            stored.ran_at_s[kind_name] = now_s
            if kind_name == "faults":
                stored.faults = result
            elif kind_name in ("lately", "ends") and result is not None:
                checkpoints += ((ref, checkpoint) for checkpoint in result)
            elif kind_name == "causes" and result is not None:
                stored.results = stored.results._replace(causes=result)
            elif kind_name == "deaths" and result is not None:
                stored.results = stored.results._replace(death_causes=result[0], recent_deaths=result[1])
            elif kind_name == "workers" and result is not None:
                stored.results = stored.results._replace(workers=result)
            elif kind_name == "runs":
                stored.results = stored.results._replace(long_run=result)
            elif kind_name == "hours" and result is not None:
                stored.results = stored.results._replace(failure_shares=result[0], usual_wait_ms=result[1])
        return checkpoints

    def take_updated_queues(self) -> set[Ref]:
        """Return the queues that got a probe result since the last call of this method."""
        updated, self._updated = self._updated, set()
        return updated

    def find_previous_queue(self, ref: Ref) -> Queue:
        """Return a queue with the findings of its last evaluation."""
        return self._queues[ref]

    def store_unchanged_queue(self, ref: Ref, queue: Queue) -> Queue:
        """Store and return a queue that needs the same probes and has the same findings as at the previous snapshot."""
        self._queues[ref] = queue
        return queue

    def update_queue(self, ref: Ref, queue: Queue) -> Queue:
        """Store an evaluated queue and decide which probes it needs. Return it with start times for new findings."""
        previous = self._queues.get(ref)
        if previous is None or _select_probe_criteria(queue) != _select_probe_criteria(previous):
            system = self._systems[ref.system]
            for name, kind in PROBE_KINDS.items():
                (set.add if kind.is_needed(system, queue) else set.discard)(self._refs_by_kind[name], ref)
        if previous is not None and (queue.findings or previous.findings):
            queue = self._add_start_times(
                ref, queue, is_start_unknown=not previous.counted_ms or ref in self._first_probed
            )
        self._first_probed.discard(ref)
        self._queues[ref] = queue
        return queue

    def _add_start_times(self, ref: Ref, queue: Queue, *, is_start_unknown: bool) -> Queue:
        """Set `since_ms` of findings without one to the time when rqtui first saw a finding of that kind.

        A finding of the first run of a probe gets no start time, because the problem may be older.
        """
        start_times = dict(self._since_ms_by_kind.get(ref, ()))
        start_times_now = {
            finding.kind: start_times.get(finding.kind, None if is_start_unknown else queue.counted_ms)
            for finding in queue.findings
        }
        self._since_ms_by_kind[ref] = tuple(start_times_now.items())
        if all(finding.since_ms is not None or start_times_now[finding.kind] is None for finding in queue.findings):
            return queue
        dated_findings = (
            replace(finding, since_ms=start_times_now[finding.kind]) if finding.since_ms is None else finding
            for finding in queue.findings
        )
        return queue._replace(findings=tuple(dated_findings))

    def find_system_findings(self, ref: Ref) -> tuple[Finding, ...]:
        """Return the findings that the system's own probe returned for a queue when it last ran."""
        probes = self._states.get(ref)
        return probes.faults if probes else ()

    def find_probe_results(self, ref: Ref) -> ProbeResults:
        """Return the stored results of a queue's probes, except for the findings of the system's own probe."""
        probes = self._states.get(ref)
        return probes.results if probes else NO_PROBE_RESULTS

    def _find_last_probe_s(self, ref: Ref, kind_name: str) -> float:
        """Return when a kind of probe last ran for a queue, in monotonic seconds; minus infinity if it never ran."""
        probes = self._states.get(ref)
        return probes.ran_at_s.get(kind_name, NEVER_S) if probes else NEVER_S

    def _build_probe_request(self, kind: _Probe, ref: Ref) -> Request[Any] | None:
        """Build the request of one probe for one queue, or return None if its system refuses to build one."""
        try:
            return kind.build_request(self._systems[ref.system], self._queues[ref])
        except RqtuiError as error:  # The counts of the queue report the same error.
            log.debug("%s: %s", ref, error)
            return None


def _select_probe_criteria(queue: Queue) -> tuple[object, ...]:
    """Return the fields of a queue that decide which probes it needs: counts, counters, findings, and a long wait."""
    finding_kinds = [finding.kind for finding in queue.findings]
    return queue.counts, queue.counters, finding_kinds, (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS


ProbeRequests = dict[tuple[Ref, str], Request[Any]]
NEVER_S = float("-inf")


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _build_system_findings_request(system: System, queue: Queue) -> Request[tuple[Finding, ...]] | None:
    """Build the request for the findings of a system's own script; an error becomes an `undecodable` finding."""
    request = system.probe_request(queue.name)

    def build_undecodable_finding(error: Exception) -> tuple[Finding, ...]:
        text = f"its faults cannot be told: {describe_and_log(error, log)}"
        return (Finding("undecodable", "warning", queue.name, text),)

    return None if request is None else isolate_request(lambda: request, build_undecodable_finding)


def _needs_system_probe(system: System, queue: Queue) -> bool:
    """Return whether the system says that its own probe should run for a queue with these counts."""
    return system.needs_probe(queue)


def _build_checkpoint_request(system: System, queue: Queue) -> Request[tuple[Checkpoint, ...] | None]:
    """Build the request for a queue's totals at the start of each recent minute, from counters stored by minute."""
    request = history.build_history_request(system, queue.name, WINDOW_MS // history.MINUTE_MS + 2)
    last_ms = queue.counted_ms // history.MINUTE_MS * history.MINUTE_MS
    # With scheduled jobs, the ready ones among the new jobs cannot be counted.
    has_scheduled = bool(queue.count_in_state(State.SCHEDULED))
    ready = queue.count_in_state(State.READY)

    def parse_checkpoints(replies: Replies) -> tuple[Checkpoint, ...]:
        counters_by_minute = request.parse(replies)
        checkpoints, counters = [], counters_by_minute.counters
        depths = dict(
            history.compute_unfinished_per_minute(
                [*_compute_recent_growth(counters_by_minute, last_ms, queue.counted_ms)], ready
            )
        )
        for minute in range(WINDOW_MS // history.MINUTE_MS + 1):
            minute_ms = last_ms - minute * history.MINUTE_MS
            counters = counters_by_minute.minutes.get(minute_ms, counters)
            enqueued, completed, failed = (
                history.sum_flow_counters(counters, name) for name in ("in", "out", "failed")
            )
            ready_then = ready if has_scheduled else depths.get(minute_ms)
            checkpoints.append(
                Checkpoint(minute_ms, Totals(enqueued, completed, failed, counters.get("dead", 0), ready_then))
            )
        return tuple(checkpoints)

    return _ignore_request_errors(Request(request.calls, parse_checkpoints))


def _compute_recent_growth(
    history_by_minute: history.History, last_ms: int, now_ms: int
) -> Sequence[tuple[int, Mapping[str, int]]]:
    """Return how much each counter grew in the current minute and in the minutes of the window before."""
    return history.compute_growth_per_minute([history_by_minute], last_ms - WINDOW_MS, now_ms)


def _build_recorded_ends_request(system: System, queue: Queue) -> Request[tuple[RecordedEnds, ...] | None] | None:
    """Build the request that counts the runs of the last minutes by the end times stored with done and failed jobs.

    Only a period for which the queue still has both is counted: done jobs are often deleted earlier than dead ones.
    """
    requests, places = [], []
    for place in system.places:
        job_count = queue.count_in_place(place.name)
        if job_count and place.has_failures and place.state in (State.DONE, State.DEAD):
            requests.append(_build_newest_page_request(system, queue, place))
            places.append((place.state, job_count > SAMPLE_JOBS))

    def count_recorded_ends(pages: list[Page]) -> tuple[RecordedEnds, ...]:
        now_ms, window_ms = queue.counted_ms, WINDOW_MS
        end_times: dict[State, list[int]] = {State.DONE: [], State.DEAD: []}
        for page, (state, is_cut) in zip(pages, places, strict=True):
            times = [job.ended_ms if state is State.DONE else job.since_ms for job in page.jobs]
            known_times = [at_ms for at_ms in times if at_ms is not None]
            if len(known_times) < len(times):
                return ()
            end_times[state] += known_times
            if known_times and (is_cut or state is State.DONE):
                window_ms = min(window_ms, now_ms - min(known_times))
        if not end_times[State.DONE] or window_ms <= 0:
            return ()
        windows_ms = [window_part_ms for window_part_ms in (MINUTE_MS, window_ms) if window_part_ms <= window_ms]
        return tuple(
            RecordedEnds(
                window_part_ms,
                *(
                    sum(at_ms >= now_ms - window_part_ms for at_ms in end_times[state])
                    for state in (State.DONE, State.DEAD)
                ),
            )
            for window_part_ms in dict.fromkeys(windows_ms)
        )

    return _build_combined_page_request(requests, count_recorded_ends)


def _needs_ends_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has both done and dead jobs while its system keeps no counters per minute."""
    if history.has_minute_counters(system) or not queue.count_failed() or not queue.count_in_state(State.DONE):
        return False
    return not any(place.is_shared or place.is_from_events for place in system.places)


def _needs_checkpoint_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue with counters per minute has failures or enough ready jobs for its growth to matter."""
    counted = queue.counters.get("failed", 0) + queue.counters.get("dead", 0)
    return history.has_minute_counters(system) and bool(counted or queue.count_in_state(State.READY) >= MIN_READY)


def _build_failure_causes_request(system: System, queue: Queue) -> Request[tuple[Cause, ...] | None]:
    """Build the request for the most frequent errors of the latest failures.

    These are the errors of dead jobs and of jobs that will be retried.
    """
    requests = []
    for place in system.places:
        job_count = queue.count_in_place(place.name)
        if job_count and place.has_failures and place.state in (State.DEAD, State.SCHEDULED):
            build_request = _build_shared_place_request if place.is_shared else _build_newest_page_request
            requests.append(build_request(system, queue, place))

    def count_recent_causes(pages: list[Page]) -> tuple[Cause, ...]:
        jobs = [job for page in pages for job in page.jobs if job.error]
        failed = [job for job in jobs if job.state is State.DEAD or job.attempts]
        window_start_ms = queue.counted_ms - WINDOW_MS
        recent = [job for job in failed if job.state is not State.DEAD or (job.since_ms or 0) >= window_start_ms]
        return count_causes(recent or failed)

    return _build_combined_page_request(requests, count_recent_causes)


def _build_dead_jobs_request(system: System, queue: Queue) -> Request[tuple[tuple[Cause, ...], RecentDeaths] | None]:
    """Build the request that samples the dead jobs of a queue: their main errors, and how many died within a day.

    The sample consists of blocks from the whole place, because jobs that died together often have the same cause.
    """
    requests: list[Request[Page]] = []
    block_counts: list[int] = []  # per place
    for place in system.places:
        job_count = queue.count_in_place(place.name)
        if not job_count or not place.has_failures or place.state is not State.DEAD:
            continue
        if place.is_shared:  # Positions are ranks among the jobs of all queues.
            job_count = (
                next((count.shared_total for count in queue.counts if count.place == place.name), None) or job_count
            )
        is_read_completely = job_count <= SAMPLE_BLOCKS * BLOCK_JOBS
        offsets = [0] if is_read_completely else [job_count * block // SAMPLE_BLOCKS for block in range(SAMPLE_BLOCKS)]
        block_jobs = job_count if is_read_completely else BLOCK_JOBS
        build_page_request = system.scan_request if place.is_shared else system.page_request
        block_counts.append(len(offsets))
        requests += [build_page_request(queue.name, place.name, offset, block_jobs, 0) for offset in offsets]

    def summarise_dead_jobs(pages: list[Page]) -> tuple[tuple[Cause, ...], RecentDeaths]:
        causes = count_causes([job for page in pages for job in page.jobs if job.error])
        remaining_pages = iter(pages)
        samples = [[next(remaining_pages).jobs for _block in range(block_count)] for block_count in block_counts]
        return causes, _count_recent_deaths(queue, samples)

    return _build_combined_page_request(requests, summarise_dead_jobs)


def _count_recent_deaths(queue: Queue, samples: Sequence[Sequence[Sequence[Job]]]) -> RecentDeaths:
    """Count the dead jobs of a queue that died within a day, from the blocks of jobs read of each place.

    Blocks divide a place into parts of equal size, in the order of death. A part whose first and last jobs are recent
    counts as a whole, so the result is a lower bound unless every sampled job is recent, or none.
    """
    begin_ms = queue.counted_ms - RECENT_DEATHS_MS
    jobs = [job for place_blocks in samples for block in place_blocks for job in block]
    if not jobs or any(job.since_ms is None for job in jobs):
        return RecentDeaths(0, is_dated=False)
    recent_jobs = sum((job.since_ms or 0) >= begin_ms for job in jobs)
    dead_jobs = queue.count_failed()
    if len(jobs) >= dead_jobs or not recent_jobs:
        return RecentDeaths(recent_jobs)
    if recent_jobs == len(jobs) and all(len(place_blocks) > 1 for place_blocks in samples):
        return RecentDeaths(dead_jobs)
    is_recent_block = [
        bool(block) and all((job.since_ms or 0) >= begin_ms for job in block)
        for place_blocks in samples
        for block in place_blocks
    ]
    recent_blocks = sum(is_recent_block)
    estimate = max(
        recent_jobs, max(0, recent_blocks - 1) * dead_jobs // len(is_recent_block) if len(is_recent_block) > 1 else 0
    )
    return RecentDeaths(min(dead_jobs, estimate), is_exact=False)


def _build_shared_place_request(system: System, queue: Queue, place: Place) -> Request[Page]:
    """Build the request for one queue's jobs in a place of all queues: the latest dead jobs, or the next others."""
    jobs_of_all_queues = next((count.shared_total for count in queue.counts if count.place == place.name), None) or 0
    offset = max(0, jobs_of_all_queues - SHARED_PLACE_JOBS) if place.state is State.DEAD else 0
    limit = SHARED_PLACE_JOBS if place.state is State.DEAD else SAMPLE_JOBS
    return system.scan_request(queue.name, place.name, offset, limit, 0)


def _build_newest_page_request(system: System, queue: Queue, place: Place) -> Request[Page]:
    """Build the request for the newest 100 done or dead jobs of a place, or for the next jobs of another place.

    Done and dead jobs are appended to a place with a key; a place that is counted from events lists the newest first.
    """
    is_newest_last = place.state in (State.DONE, State.DEAD) and not place.is_from_events
    offset = max(0, queue.count_in_place(place.name) - SAMPLE_JOBS) if is_newest_last else 0
    return system.page_request(queue.name, place.name, offset, SAMPLE_JOBS, 0)


def _build_combined_page_request(
    requests: Sequence[Request[Page]], summarise: Callable[[list[Page]], T]
) -> Request[T | None]:
    """Combine page requests into one whose result is `summarise(pages)`, or None if reading them fails."""

    def parse_pages(replies: Replies) -> T:
        remaining = iter(replies)
        return summarise([request.parse([next(remaining) for _call in request.calls]) for request in requests])

    return _ignore_request_errors(Request(tuple(call for request in requests for call in request.calls), parse_pages))


def count_causes(jobs: Sequence[Job]) -> tuple[Cause, ...]:
    """Return the three most frequent errors of the given jobs, shortened and with secrets masked."""
    jobs_by_cause = Counter(find_short_error_cause(job.error) for job in jobs)
    return tuple(Cause(mask_text(text), job_count) for text, job_count in jobs_by_cause.most_common(MAX_CAUSES) if text)


_IDLE_STATES = frozenset({"", "idle", "waits", "connected"})  # the systems' own words for a worker without a job


def _build_workers_request(system: System, queue: Queue) -> Request[WorkerActivity | None]:
    """Build the request that counts the idle and quiet workers of a queue."""
    request = system.workers_request(queue.name)

    def count_idle_workers(replies: Replies) -> WorkerActivity:
        workers = [worker for worker in request.parse(replies) if not worker.is_late(queue.counted_ms)]
        quiet = sum(worker.order != "run" or worker.state == "quiet" for worker in workers)
        idle = sum(worker.order == "run" and not worker.job and worker.state in _IDLE_STATES for worker in workers)
        return WorkerActivity(len(workers), idle, quiet)

    return _ignore_request_errors(Request(request.calls, count_idle_workers))


def _needs_workers_probe(_system: System, queue: Queue) -> bool:
    """Return whether a queue that is not paused has workers and ready jobs, but no reserved job."""
    has_waiting = queue.count_in_state(State.READY) and not queue.count_in_state(State.RESERVED)
    return bool(queue.workers and has_waiting and not queue.is_paused)


def _build_long_run_request(system: System, queue: Queue) -> Request[LongRun | None]:
    """Build the request that finds reserved jobs which run much longer than the latest ended jobs of the same kind."""
    requests = [_build_newest_page_request(system, queue, place) for place in _list_places_with_runs(system, queue)]

    def find_long_run(pages: list[Page]) -> LongRun | None:
        jobs = [job for page in pages for job in page.jobs]
        durations_by_kind: dict[str, list[int]] = {}
        for job in jobs:
            if job.state is State.DONE and job.reserved_ms and job.since_ms and job.since_ms >= job.reserved_ms:
                durations_by_kind.setdefault(job.name, []).append(job.since_ms - job.reserved_ms)
        long_runs = []
        for job in jobs:
            ended_ms = durations_by_kind.get(job.name, ())
            if job.state is State.RESERVED and job.name and job.reserved_ms and len(ended_ms) >= MIN_ENDED_RUNS:
                usual_ms, run_ms = round(median(ended_ms)), queue.counted_ms - job.reserved_ms
                if run_ms >= max(MIN_LONG_RUN_MS, LONG_RUN_FACTOR * usual_ms, LONGEST_RUN_FACTOR * max(ended_ms)):
                    long_runs.append((run_ms / max(1, usual_ms), job, usual_ms, len(ended_ms)))
        if not long_runs:
            return None
        _factor, job, usual_ms, sampled = max(long_runs, key=itemgetter(0))
        return LongRun(job.id, job.name, job.worker, job.reserved_ms or 0, usual_ms, sampled, len(long_runs))

    return _build_combined_page_request(requests, find_long_run)


def _list_places_with_runs(system: System, queue: Queue) -> list[Place]:
    """Return the places of running and of ended jobs of a queue.

    Returns none unless both have jobs and the system stores the kinds of jobs.
    """
    if "name" not in system.known_fields:
        return []
    places = [place for place in system.places if place.state in (State.RESERVED, State.DONE) and not place.is_shared]
    places = [place for place in places if queue.count_in_place(place.name)]
    return places if {place.state for place in places} == {State.RESERVED, State.DONE} else []


def _needs_long_run_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has running jobs, and ended ones to compare them with."""
    return bool(queue.count_in_state(State.RESERVED) and _list_places_with_runs(system, queue))


def _needs_failure_causes_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has a finding about failures, and its system stores error messages."""
    return "error" in system.known_fields and any(finding.kind in _FAILURE_KINDS for finding in queue.findings)


def _needs_deaths_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has a finding about its dead jobs."""
    return any(finding.kind in _DEATH_KINDS for finding in queue.findings)


def _build_failure_history_request(
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

    return _ignore_request_errors(Request(request.calls, parse_failure_history))


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


def _needs_history_probe(system: System, queue: Queue) -> bool:
    """Return whether a system keeps counters per minute, and a queue has a long wait or failing attempts to explain."""
    is_wait_suspicious = (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS
    return history.has_minute_counters(system) and (
        is_wait_suspicious or any(finding.kind == "failing" for finding in queue.findings)
    )


def _ignore_request_errors(original: Request[T]) -> Request[T | None]:
    """Return a request whose result is None if it fails. A failed probe does not hide the counts of its snapshot."""

    def ignore_error(error: Exception) -> None:
        log.debug("a closer look failed: %s", error)

    request: Request[T | None] = Request(original.calls, original.parse)
    return isolate_request(lambda: request, ignore_error)


_FAILURE_KINDS = frozenset({"failing", "dead-grows"})  # findings explained by the errors of the latest failures
_DEATH_KINDS = frozenset({"dead-many", "dead-near-cap"})  # findings explained by the errors of all dead jobs
PROBE_KINDS: Mapping[str, _Probe] = {
    "faults": _Probe(FAULTS_INTERVAL_S, MAX_PROBES, _build_system_findings_request, _needs_system_probe),
    "lately": _Probe(3_600.0, MAX_PROBES, _build_checkpoint_request, _needs_checkpoint_probe),
    "ends": _Probe(3_600.0, MAX_PROBES, _build_recorded_ends_request, _needs_ends_probe),
    "causes": _Probe(30.0, 3, _build_failure_causes_request, _needs_failure_causes_probe),
    "deaths": _Probe(300.0, 3, _build_dead_jobs_request, _needs_deaths_probe),
    "workers": _Probe(15.0, 3, _build_workers_request, _needs_workers_probe),
    "runs": _Probe(15.0, 3, _build_long_run_request, _needs_long_run_probe),
    "hours": _Probe(300.0, 1, _build_failure_history_request, _needs_history_probe),
}
KINDS_BY_COUNTS = ("lately", "ends", "faults", "workers", "runs")  # probes that the counts alone call for
KINDS_BY_FINDINGS = ("causes", "deaths", "hours")  # probes that findings call for


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
