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
from rqtui.engine.dead_sample import DeadSample, build_dead_sample_request, is_outdated
from rqtui.engine.health.urgency import compute_queue_urgency
from rqtui.engine.history import History
from rqtui.engine.rates import MIN_STREAK, MINUTE_MS, WINDOW_MS, Checkpoint, EarlierActivity, RecordedEnds, Totals
from rqtui.errors import RqtuiError, describe_and_log_error
from rqtui.model import Cause, FailedStreak, Finding, Job, KindStatistics, Page, Place, Queue, Ref, Schedule, State
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
    complete: CompleteCauses | None = None


@dataclass(slots=True)
class _Schedules:
    """The schedules of one system that have a problem, by queue, and when they were read (s by `time.monotonic`)."""

    ran_at_s: float = float("-inf")
    by_queue: dict[str, list[Schedule]] = field(default_factory=dict)


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
        self._schedules: dict[str, _Schedules] = {}  # by system

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
            due_queues = [pair for pair in due_queues if now_s - pair[0] >= self._find_interval_s(kind_name, pair[1])]
            due_queues.sort(key=lambda pair: (pair[0], -compute_queue_urgency(self._queues[pair[1]])))
            for _ran_at_s, ref in due_queues[:max_queues]:
                request = self._build_probe_request(kind, ref)
                if request is not None:
                    requests[ref, kind_name] = request
        if "faults" in kind_names:
            requests |= self._build_schedule_requests(refs, now_s)
        return requests

    def _find_interval_s(self, kind_name: str, ref: Ref) -> float:
        """Return the time (s) between two runs of a kind of probe; a system may want its own probe earlier."""
        own_interval_s = self._systems[ref.system].probe_interval_s(ref.queue) if kind_name == "faults" else None
        return PROBE_KINDS[kind_name].interval_s if own_interval_s is None else own_interval_s

    def _build_schedule_requests(self, refs: Iterable[Ref], now_s: float) -> ProbeRequests:
        """Return the due requests for the schedules of whole systems, under a reference without a queue name."""
        requests: ProbeRequests = {}
        counted = [ref for ref in refs if self._queues[ref].counted_ms]
        for name in {ref.system for ref in counted if self._systems[ref.system].checks_schedules}:
            state = self._schedules.setdefault(name, _Schedules())
            if now_s - state.ran_at_s >= SCHEDULES_INTERVAL_S:
                state.ran_at_s = now_s
                requests[Ref(name, ""), "schedules"] = _build_schedules_request(self._systems[name])
        return requests

    def _store_schedules(self, system: str, schedules: Sequence[Schedule]) -> None:
        """Store the schedules of a system that have a problem, by queue."""
        state = self._schedules[system]
        before, state.by_queue = state.by_queue, {}
        living = {(each.name, each.queue, each.call) for each in schedules if each.enabled and not each.problem}
        for each in schedules:
            if each.problem and each.queue and (each.name, each.queue, each.call) not in living:
                state.by_queue.setdefault(each.queue, []).append(each)
        self._updated |= {Ref(system, queue) for queue in {*before, *state.by_queue}}

    def store_results(self, results: Mapping[tuple[Ref, str], Any], now_s: float) -> list[tuple[Ref, EarlierActivity]]:
        """Store probe results, and return the checkpoints of the last minutes that they contain, the latest first."""
        checkpoints: list[tuple[Ref, EarlierActivity]] = []
        for (ref, kind_name), result in results.items():
            if kind_name == "schedules":
                self._store_schedules(ref.system, result or ())
                continue
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
            elif kind_name == "order":
                stored.results = stored.results._replace(overtaken=result)
            elif kind_name == "storm":
                stored.results = stored.results._replace(storm=result)
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
                if kind.is_needed(system, queue):
                    self._refs_by_kind[name].add(ref)
                elif ref in self._refs_by_kind[name]:
                    self._refs_by_kind[name].discard(ref)
                    self._drop_outdated_result(ref, name)
        if previous is not None and (queue.findings or previous.findings):
            queue = self._add_start_times(
                ref, queue, is_start_unknown=not previous.counted_ms or ref in self._first_probed
            )
        self._first_probed.discard(ref)
        self._queues[ref] = queue
        return queue

    def _drop_outdated_result(self, ref: Ref, kind_name: str) -> None:
        """Drop the result about one job from a probe that runs no more, because the job may have ended since."""
        stored, drop_result = self._states.get(ref), _DROP_RESULT_ABOUT_ONE_JOB.get(kind_name)
        if stored is not None and drop_result is not None:
            stored.results = drop_result(stored.results)
            self._updated.add(ref)

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

    def find_system_findings(self, ref: Ref, now_ms: int) -> tuple[Finding, ...]:
        """Return the findings of the last run of the system's own probe, and those about schedules."""
        state, schedules = self._states.get(ref), self._schedules.get(ref.system)
        faults = state.faults if state else ()
        stopped = schedules.by_queue.get(ref.queue, ()) if schedules and schedules.by_queue else ()
        if not stopped:
            return faults
        return (*faults, *_find_stopped_schedules(self._systems[ref.system], ref.queue, stopped, now_ms))

    def store_complete_causes(self, ref: Ref, complete: CompleteCauses) -> None:
        """Store the causes of all dead jobs of a queue, which replace those of the sample until they are outdated."""
        self._states.setdefault(ref, _QueueProbes()).complete = complete
        self._updated.add(ref)

    def find_probe_results(self, ref: Ref, queue: Queue) -> ProbeResults:
        """Return the stored results of the probes of a queue, except for the findings of the system's own probe.

        The causes of death come from a report that read all dead jobs, if there was one and their number in `queue` is
        about the same as in the report.
        """
        probes = self._states.get(ref)
        if probes is None:
            return NO_PROBE_RESULTS
        if probes.complete and is_outdated(probes.complete.dead, queue.count_failed()):
            probes.complete = None
        return probes.results._replace(death_causes=probes.complete.causes) if probes.complete else probes.results

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


_DROP_RESULT_ABOUT_ONE_JOB: Mapping[str, Callable[[ProbeResults], ProbeResults]] = {  # by kind of probe
    "runs": lambda results: results._replace(long_run=None),
    "order": lambda results: results._replace(overtaken=None),
    "storm": lambda results: results._replace(storm=None),
}
ProbeRequests = dict[tuple[Ref, str], Request[Any]]
NEVER_S = float("-inf")


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _build_system_findings_request(system: System, queue: Queue) -> Request[tuple[Finding, ...]] | None:
    """Build the request for the findings of a system's own script; an error becomes an `undecodable` finding."""

    def build_undecodable_finding(error: Exception) -> tuple[Finding, ...]:
        text = f"its problems cannot be read: {describe_and_log_error(error, log)}"
        return (Finding("undecodable", "warning", queue.name, text),)

    try:
        request = system.probe_request(queue.name)
    except RqtuiError:
        raise
    except Exception as error:  # from another package
        findings = build_undecodable_finding(error)
        return Request((), lambda _replies: findings)
    return None if request is None else isolate_request(lambda: request, build_undecodable_finding)


SCHEDULES_INTERVAL_S = 10.0  # between two reads of the schedules of a system
LATE_SCHEDULE_MS = 4_000  # a run that is due for less may still come


def _find_stopped_schedules(
    system: System, queue: str, schedules: Sequence[Schedule], now_ms: int
) -> tuple[Finding, ...]:
    """Build the finding about schedules with a problem whose next run is overdue or unknown."""
    from rqtui.text.formats import format_date_and_time, format_quantity  # Imported late because findings are rare.
    from rqtui.text.sanitise import safe

    late = [each for each in schedules if each.next_ms is None or now_ms - each.next_ms >= LATE_SCHEDULE_MS]
    if not late:
        return ()
    first = min(late, key=lambda each: each.next_ms or 0)
    last_run = f"last run {format_date_and_time(first.last_ms)}" if first.last_ms else "no run is known"
    due = f", next was due {format_date_and_time(first.next_ms)}" if first.next_ms else ""
    text = f"schedule {safe(first.name)} ({safe(first.pattern)}) stopped: {safe(first.problem)}; {last_run}{due}"
    others = f"{format_quantity(len(late) - 1, 'other schedule')} too" if len(late) > 1 else ""
    remedy = system.finding_remedies.get("schedule-stopped", "start the program that enqueues it (rqtui schedules)")
    found = Finding("schedule-stopped", "warning", queue, text, remedy, detail=others, since_ms=first.next_ms)
    return (replace(found, jobs=len(late)),)


def _needs_system_probe(system: System, queue: Queue) -> bool:
    """Return whether the system says that its own probe should run for a queue with these counts."""
    return system.needs_probe(queue)


def _build_checkpoint_request(system: System, queue: Queue) -> Request[tuple[EarlierActivity, ...] | None]:
    """Build the request for a queue's totals at the start of each recent minute, from counters stored by minute.

    The result also has the failed attempts of the last hours in a row, if there are many.
    """
    request = history.build_history_request(system, queue.name, HOURS_MS // history.MINUTE_MS)
    last_ms = queue.counted_ms // history.MINUTE_MS * history.MINUTE_MS
    # With scheduled jobs, the ready ones among the new jobs cannot be counted.
    has_scheduled = bool(queue.count_in_state(State.SCHEDULED))
    ready = queue.count_in_state(State.READY)

    def parse_checkpoints(replies: Replies) -> tuple[EarlierActivity, ...]:
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
        streak = _find_streak_in_minutes(
            history.compute_growth_per_minute([counters_by_minute], queue.counted_ms - HOURS_MS, queue.counted_ms)
        )
        return (*checkpoints, *streak)

    return _ignore_request_errors(Request(request.calls, parse_checkpoints))


def _find_streak_in_minutes(minutes: Sequence[tuple[int, Mapping[str, int]]]) -> tuple[FailedStreak, ...]:
    """Return the failed attempts in a row up to now, from the counters per minute; nothing if they are few."""
    attempts, first_ms, last_ms = 0, 0, 0
    for minute_ms, growth in sorted(minutes, key=itemgetter(0), reverse=True):
        if history.sum_flow_counters(growth, "out"):
            break
        if failed := history.sum_flow_counters(growth, "failed"):
            attempts, first_ms, last_ms = attempts + failed, minute_ms, last_ms or minute_ms
    return (FailedStreak(attempts, first_ms, last_ms),) if attempts >= MIN_STREAK else ()


def _compute_recent_growth(
    history_by_minute: history.History, last_ms: int, now_ms: int
) -> Sequence[tuple[int, Mapping[str, int]]]:
    """Return how much each counter grew in the current minute, and in each earlier minute of the observed window."""
    return history.compute_growth_per_minute([history_by_minute], last_ms - WINDOW_MS, now_ms)


def _build_recorded_ends_request(system: System, queue: Queue) -> Request[tuple[EarlierActivity, ...] | None] | None:
    """Build the request that counts the runs of the last minutes by the end times stored with done and failed jobs.

    Only a period for which the queue still has both is counted: done jobs are often deleted earlier than dead ones.
    """
    recorded = system.ends_request(queue.name)
    if recorded is not None:
        return _ignore_request_errors(
            Request(recorded.calls, lambda replies: _count_ends(recorded.parse(replies), queue.counted_ms))
        )
    requests, places = [], []
    for place in system.places:
        job_count = queue.count_in_place(place.name)
        if job_count and place.has_failures and place.state in (State.DONE, State.DEAD):
            requests.append(_build_newest_page_request(system, queue, place))
            places.append((place.state, job_count > SAMPLE_JOBS))

    def count_recorded_ends(pages: list[Page]) -> tuple[EarlierActivity, ...]:
        now_ms, window_ms = queue.counted_ms, WINDOW_MS
        end_times: dict[State, list[int]] = {State.DONE: [], State.DEAD: []}
        for page, (state, is_cut) in zip(pages, places, strict=True):
            times = [_find_stored_end_ms(job) for job in page.jobs]
            known_times = [at_ms for at_ms in times if at_ms is not None]
            if len(known_times) < len(times):
                return ()
            end_times[state] += known_times
            if known_times and (is_cut or state is State.DONE):
                window_ms = min(window_ms, now_ms - min(known_times))
        if not end_times[State.DONE] or window_ms <= 0:
            return ()
        windows_ms = [window_part_ms for window_part_ms in (MINUTE_MS, window_ms) if window_part_ms <= window_ms]
        counted = [
            (part_ms, *(sum(at_ms >= now_ms - part_ms for at_ms in end_times[s]) for s in (State.DONE, State.DEAD)))
            for part_ms in dict.fromkeys(windows_ms)
        ]
        ends = (RecordedEnds(now_ms - part_ms, completed, failed) for part_ms, completed, failed in counted)
        return (*ends, *_find_streak_in_ends(end_times[State.DONE], end_times[State.DEAD]))

    return _build_combined_page_request(requests, count_recorded_ends)


def _find_streak_in_ends(done_ms: Sequence[int], dead_ms: Sequence[int]) -> tuple[FailedStreak, ...]:
    """Return the jobs that died after the last success, from the times of both; nothing if they are few.

    That a success is still stored shows that no later one was deleted.
    """
    failed_ms = [at_ms for at_ms in dead_ms if at_ms > max(done_ms)]
    return (FailedStreak(len(failed_ms), min(failed_ms), max(failed_ms)),) if len(failed_ms) >= MIN_STREAK else ()


def _find_stored_end_ms(job: Job) -> int | None:
    """Return when a done or dead job ended, or None if its system does not store that."""
    if job.state is State.DONE and job.ended_ms is None and job.reserved_ms is None:
        return None  # `since_ms` may be the time when it is deleted.
    return job.since_ms if job.state is State.DEAD or job.ended_ms is None else job.ended_ms


def _count_ends(minutes: Sequence[tuple[int, int, int]], now_ms: int) -> tuple[EarlierActivity, ...]:
    """Count the runs since the start of the previous minute, and since the start of the fourth minute before this."""
    this_ms = now_ms - now_ms % MINUTE_MS
    found = []
    if not minutes:
        return ()
    for back in (1, 4):
        begin_ms = this_ms - back * MINUTE_MS
        runs = [each for each in minutes if each[0] >= begin_ms]
        failed = sum(each[2] for each in runs)
        found.append(RecordedEnds(begin_ms, sum(each[1] for each in runs) - failed, failed, is_final=False))
    return tuple(found)


def _needs_ends_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has both done and dead jobs while its system keeps no counters per minute.

    Ended jobs that are keys of their own must all be known: a sample has other numbers.
    """
    if system.records_ends:
        return bool(queue.counters.get("failed"))
    if history.has_minute_counters(system) or not queue.count_failed() or not queue.count_in_state(State.DONE):
        return False
    if any(place.is_shared or place.is_from_events for place in system.places):
        return False
    return queue.has_exact_counts(State.DONE) and queue.has_exact_counts(State.DEAD)


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
    """Build the request that samples the dead jobs of a queue: their main errors, and how many died within a day."""
    request = build_dead_sample_request(system, queue)

    def summarise_dead_jobs(replies: Replies) -> tuple[tuple[Cause, ...], RecentDeaths]:
        sample = request.parse(replies)
        causes = count_causes(sample.list_jobs())
        return causes, _count_recent_deaths(queue, sample)

    return _ignore_request_errors(Request(request.calls, summarise_dead_jobs))


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
    recent_jobs = sum((job.since_ms or 0) >= begin_ms for job in jobs)
    dead_jobs = queue.count_failed()
    if len(jobs) >= dead_jobs or not recent_jobs:
        return RecentDeaths(recent_jobs, len(jobs) >= dead_jobs or sample.is_ordered)
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

    Done and dead jobs are appended to a place with a key; a place that is counted from events, and one whose jobs are
    keys of their own, list the newest first.
    """
    is_newest_first = place.is_from_events or place.is_key_per_job
    is_newest_last = place.state in (State.DONE, State.DEAD) and not is_newest_first
    offset = max(0, queue.count_in_place(place.name) - SAMPLE_JOBS) if is_newest_last else 0
    return system.page_request(queue.name, place.name, offset, SAMPLE_JOBS, 0)


def _build_combined_page_request(
    requests: Sequence[Request[Page]], summarise: Callable[[list[Page]], T]
) -> Request[T | None]:
    """Combine page requests into one whose result is `summarise(pages)`, or None if reading them fails."""
    return _combine_requests(requests, summarise)


def _combine_requests(requests: Sequence[Request[Any]], summarise: Callable[[list[Any]], T]) -> Request[T | None]:
    """Build a request that sends several requests at once and passes their results to `summarise`, in order."""

    def summarise_results(replies: Replies) -> T:
        remaining = iter(replies)
        return summarise([request.parse([next(remaining) for _call in request.calls]) for request in requests])

    return _ignore_request_errors(
        Request(tuple(call for request in requests for call in request.calls), summarise_results)
    )


def count_causes(jobs: Sequence[Job]) -> tuple[Cause, ...]:
    """Return the three most frequent errors of the given jobs, shortened and with secrets masked.

    Returns none if most of the jobs have no error, because a finding names the first one as the main cause.
    """
    jobs_by_cause = Counter(find_short_error_cause(job.error) for job in jobs)
    if jobs_by_cause and not jobs_by_cause.most_common(1)[0][0]:
        return ()
    return tuple(Cause(mask_text(text), job_count) for text, job_count in jobs_by_cause.most_common(MAX_CAUSES) if text)


_IDLE_STATES = frozenset({"", "idle", "waits", "connected"})  # the systems' own words for a worker without a job


def _build_workers_request(system: System, queue: Queue) -> Request[WorkerActivity | None]:
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

    return _ignore_request_errors(Request(request.calls, count_idle_workers))


def _needs_workers_probe(system: System, queue: Queue) -> bool:
    """Return whether workers may leave ready jobs untouched: none is reserved, or the oldest one waits long."""
    if not queue.workers or queue.is_paused or not queue.count_in_state(State.READY):
        return False
    waits_long = system.has_ordered_queues and (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS
    return waits_long or not queue.count_in_state(State.RESERVED)


def _build_long_run_request(system: System, queue: Queue) -> Request[LongRun | None]:
    """Build the request that compares the runs of reserved jobs with the latest ended runs of the same kind.

    Of a system that deletes ended jobs, the runs are compared with the mean that the system stores per kind. No run
    began before its job was enqueued: the clock of the worker that wrote so is behind.
    """
    places = _list_places_with_runs(system, queue)
    requests: list[Request[Any]] = [_build_newest_page_request(system, queue, place) for place in places]
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

    return _combine_requests(requests, find_long_run)


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


def _needs_long_run_probe(system: System, queue: Queue) -> bool:
    """Return whether a queue has running jobs, and ended ones to compare them with."""
    return bool(queue.count_in_state(State.RESERVED) and _list_places_with_runs(system, queue))


ORDER_PARTS = 4  # positions at which the order of the ready jobs is sampled, beside the last jobs
ORDER_JOBS = 20  # last ready jobs that are read


def _build_order_request(system: System, queue: Queue) -> Request[OvertakenJob | None]:
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
        return OvertakenJob(job.id, job.name, job.priority or 0, ready_ms, at)

    return _build_combined_page_request(requests, find_overtaken)


def _find_ready_since_ms(job: Job) -> int | None:
    """Return since when a ready job waits: since it was put, was due or was put back, whichever came last."""
    times = [at_ms for at_ms in (job.enqueued_ms, job.due_ms, job.since_ms) if at_ms is not None]
    return max(times, default=None)


def _needs_order_probe(system: System, queue: Queue) -> bool:
    """Return whether a ready job may be overtaken by later jobs: priorities, several ready jobs, and workers exist."""
    is_ordered = "priority" in system.known_fields
    return is_ordered and queue.count_in_state(State.READY) > 1 and not queue.is_paused and queue.workers != 0


STORM_JOBS = 20  # jobs of each place that are searched for jobs that are tried again and again
MIN_STORM_ATTEMPTS = 5  # attempts of one job
MIN_STORM_SHARE = 0.9  # of the reported runs of a kind that failed
MIN_STORM_PER_MINUTE = 2.0  # attempts of one job per minute, since it was put


def _build_storm_request(system: System, queue: Queue) -> Request[RetryStorm | None]:
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
                failed = (job.attempts or 0) - (job.state is State.RESERVED)
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

    return _combine_requests([*requests, *([] if kinds is None else [kinds])], find_storm)


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


def _needs_storm_probe(system: System, queue: Queue) -> bool:
    """Return whether jobs of a queue may fail and be retried at once: it has failures, and ready or reserved jobs.

    Where ended jobs are keys of their own, the counters count no attempt that is tried again.
    """
    if "tried" not in system.known_fields or queue.is_paused:
        return False
    counts_retries = not any(place.is_key_per_job for place in system.places)
    if counts_retries and not queue.counters.get("failed", 1):
        return False
    return bool(queue.count_in_state(State.READY) or queue.count_in_state(State.RESERVED))


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


def _build_schedules_request(system: System) -> Request[tuple[Schedule, ...] | None]:
    """Build the request for the schedules of a system; its result is None if it fails, or if the system has none."""

    def build_request() -> Request[tuple[Schedule, ...] | None]:
        return system.schedules_request() or Request((), lambda _replies: None)

    return isolate_request(build_request, lambda _error: None)


def _ignore_request_errors(fallible_request: Request[T]) -> Request[T | None]:
    """Return a request whose result is None if it fails. A failed probe does not hide the counts of its snapshot."""

    def ignore_error(error: Exception) -> None:
        log.debug("a probe failed: %s", error)

    request: Request[T | None] = Request(fallible_request.calls, fallible_request.parse)
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
    "order": _Probe(15.0, 3, _build_order_request, _needs_order_probe),
    "storm": _Probe(15.0, 3, _build_storm_request, _needs_storm_probe),
    "hours": _Probe(300.0, 1, _build_failure_history_request, _needs_history_probe),
}
KINDS_BY_COUNTS = (
    "lately",
    "ends",
    "faults",
    "workers",
    "runs",
    "order",
    "storm",
)  # probes that the counts alone call for
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
