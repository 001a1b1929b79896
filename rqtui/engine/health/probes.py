"""Run the health probes: bounded extra reads of one queue, at most a few per minute, beyond its counts.

A snapshot sends some due probes in its own round trip, those that waited longest first; a command that takes one
snapshot runs all that its queues need. A result stays valid until the next probe. Probes find the faults of a system,
the counters of the last minutes, the causes of failures and since when they occur, and how long jobs usually wait.
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
from rqtui.text.causes import find_short_cause
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
    """How many dead jobs of a queue died within the last day, by a sample of them in the order of the place."""

    jobs: int  # at least so many, if `is_exact` is false
    is_exact: bool = True
    is_dated: bool = True  # False: the system does not store when a job died


class WorkerActivity(NamedTuple):
    """How many registered workers of a queue are idle, and how many are quiet: they finish jobs and take no new one."""

    total: int
    idle: int
    quiet: int


class LongRun(NamedTuple):
    """The reserved job that has been running longest compared with the usual run of its kind."""

    id: bytes
    name: str
    worker: str
    begin_ms: int
    usual_ms: int  # the median run of the same kind
    sampled: int  # ended runs of the kind that were read
    jobs: int  # jobs of the queue that run too long, this one included


class ProbeResults(NamedTuple):
    """The results of all probes of a queue. `usual_wait_ms` is None if unknown."""

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
    """A kind of probe: its interval per queue, its limit per snapshot, its request, and which queues need it."""

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
    """Schedules the probes of all queues by their last counts, and stores the results."""

    def __init__(self, systems: Mapping[str, System]) -> None:
        self._systems = systems
        self._states: dict[Ref, _QueueProbes] = {}
        self._queues: dict[Ref, Queue] = {}
        self._refs_by_kind: dict[str, set[Ref]] = {name: set() for name in PROBE_KINDS}
        self._since_ms_by_kind: dict[
            Ref, tuple[tuple[str, int | None], ...]
        ] = {}  # (kind of finding, since when in ms)
        self._first_probed: set[Ref] = set()  # queues in which a kind of probe just ran for the first time
        self._updated: set[Ref] = set()  # queues of which a probe result came since `take_updated`

    def build_due_requests(
        self, refs: Sequence[Ref], now_s: float, kinds: Iterable[str], *, is_all: bool = False
    ) -> ProbeRequests:
        """Return the requests of the probes that are due now, by queue and kind.

        With `is_all` the limits per snapshot are lifted: every probe that the counts call for is returned.
        """
        for ref in refs:
            if ref not in self._queues:
                self.update(ref, Queue(ref.queue, ref.system))
        asked, requests = set(refs), ProbeRequests()
        for name in kinds:
            kind = PROBE_KINDS[name]
            most = kind.max_queues if not is_all else MAX_QUEUES_AT_ONCE if name in KINDS_BY_FINDINGS else len(refs)
            due = [(self._find_last_run_s(ref, name), ref) for ref in self._refs_by_kind[name] & asked]
            due = [pair for pair in due if now_s - pair[0] >= kind.interval_s]
            due.sort(key=lambda pair: (pair[0], -compute_queue_weight(self._queues[pair[1]])))
            for _at_s, ref in due[:most]:
                request = self._build_request(kind, ref)
                if request is not None:
                    requests[ref, name] = request
        return requests

    def store_results(
        self, answers: Mapping[tuple[Ref, str], Any], now_s: float
    ) -> list[tuple[Ref, Checkpoint | RecordedEnds]]:
        """Store the results of probes, and return what they contain about the last minutes, the latest first."""
        marks: list[tuple[Ref, Checkpoint | RecordedEnds]] = []
        for (ref, name), answer in answers.items():
            looks = self._states.setdefault(ref, _QueueProbes())
            self._first_probed |= set() if name in looks.ran_at_s else {ref}
            self._updated.add(ref)
            looks.ran_at_s[name] = now_s
            if name == "faults":
                looks.faults = answer
            elif name in ("lately", "ends") and answer is not None:
                marks += ((ref, mark) for mark in answer)
            elif name == "causes" and answer is not None:
                looks.results = looks.results._replace(causes=answer)
            elif name == "deaths" and answer is not None:
                looks.results = looks.results._replace(death_causes=answer[0], recent_deaths=answer[1])
            elif name == "workers" and answer is not None:
                looks.results = looks.results._replace(workers=answer)
            elif name == "runs":
                looks.results = looks.results._replace(long_run=answer)
            elif name == "hours" and answer is not None:
                looks.results = looks.results._replace(failure_shares=answer[0], usual_wait_ms=answer[1])
        return marks

    def take_updated(self) -> set[Ref]:
        """Return the queues that got a probe result since the last call, and forget them."""
        learned, self._updated = self._updated, set()
        return learned

    def find_previous_queue(self, ref: Ref) -> Queue:
        """Return a queue as it was evaluated last, with its findings."""
        return self._queues[ref]

    def keep(self, ref: Ref, queue: Queue) -> Queue:
        """Store a queue that needs the same probes and has the same findings as before, and return it."""
        self._queues[ref] = queue
        return queue

    def update(self, ref: Ref, queue: Queue) -> Queue:
        """Store an evaluated queue and decide which probes it needs.

        Returns the queue, with start times for new findings.
        """
        before = self._queues.get(ref)
        if before is None or _probe_criteria(queue) != _probe_criteria(before):
            system = self._systems[ref.system]
            for name, kind in PROBE_KINDS.items():
                (set.add if kind.is_needed(system, queue) else set.discard)(self._refs_by_kind[name], ref)
        if before is not None and (queue.findings or before.findings):
            queue = self._add_start_times(ref, queue, is_news=not before.counted_ms or ref in self._first_probed)
        self._first_probed.discard(ref)
        self._queues[ref] = queue
        return queue

    def _add_start_times(self, ref: Ref, queue: Queue, *, is_news: bool) -> Queue:
        """Add `since_ms` to findings without it. Findings of a first probe get none, because they may be old."""
        before = dict(self._since_ms_by_kind.get(ref, ()))
        began = {one.kind: before.get(one.kind, None if is_news else queue.counted_ms) for one in queue.findings}
        self._since_ms_by_kind[ref] = tuple(began.items())
        if all(one.since_ms is not None or began[one.kind] is None for one in queue.findings):
            return queue
        dated = (replace(one, since_ms=began[one.kind]) if one.since_ms is None else one for one in queue.findings)
        return queue._replace(findings=tuple(dated))

    def list_system_findings(self, ref: Ref) -> tuple[Finding, ...]:
        """Return the findings of the last run of the system's own probe."""
        state = self._states.get(ref)
        return state.faults if state else ()

    def list_results(self, ref: Ref) -> ProbeResults:
        """Return the results of all other probes of a queue."""
        state = self._states.get(ref)
        return state.results if state else NO_PROBE_RESULTS

    def _find_last_run_s(self, ref: Ref, name: str) -> float:
        state = self._states.get(ref)
        return state.ran_at_s.get(name, NEVER_S) if state else NEVER_S

    def _build_request(self, kind: _Probe, ref: Ref) -> Request[Any] | None:
        try:
            return kind.build_request(self._systems[ref.system], self._queues[ref])
        except RqtuiError as error:  # The counts of the queue report the same error.
            log.debug("%s: %s", ref, error)
            return None


def _probe_criteria(queue: Queue) -> tuple[object, ...]:
    """Return the fields of a queue that decide which probes it needs."""
    kinds = [one.kind for one in queue.findings]
    return queue.counts, queue.counters, kinds, (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS


ProbeRequests = dict[tuple[Ref, str], Request[Any]]
NEVER_S = float("-inf")


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _build_system_request(system: System, queue: Queue) -> Request[tuple[Finding, ...]] | None:
    request = system.probe_request(queue.name)

    def to_finding(error: Exception) -> tuple[Finding, ...]:
        text = f"its faults cannot be told: {describe_and_log(error, log)}"
        return (Finding("undecodable", "warning", queue.name, text),)

    return None if request is None else isolate_request(lambda: request, to_finding)


def _needs_system_probe(system: System, queue: Queue) -> bool:
    return system.needs_probe(queue)


def _build_checkpoint_request(system: System, queue: Queue) -> Request[tuple[Checkpoint, ...] | None]:
    """Build the request for the totals at the start of each of the last minutes, from counters stored by minute."""
    request = history.build_history_request(system, queue.name, WINDOW_MS // history.MINUTE_MS + 2)
    last_ms = queue.counted_ms // history.MINUTE_MS * history.MINUTE_MS
    # With scheduled jobs, the ready ones among the new jobs cannot be counted.
    has_scheduled = bool(queue.count_in_state(State.SCHEDULED))
    ready = queue.count_in_state(State.READY)

    def parse_reply(replies: Replies) -> tuple[Checkpoint, ...]:
        counters_by_minute = request.parse(replies)
        marks, then = [], counters_by_minute.counters
        depths = dict(history.compute_depths([*_list_minutes(counters_by_minute, last_ms, queue.counted_ms)], ready))
        for minute in range(WINDOW_MS // history.MINUTE_MS + 1):
            at_ms = last_ms - minute * history.MINUTE_MS
            then = counters_by_minute.minutes.get(at_ms, then)
            came, done, failed = (history.sum_flow(then, name) for name in ("in", "out", "failed"))
            waiting = ready if has_scheduled else depths.get(at_ms)
            marks.append(Checkpoint(at_ms, Totals(came, done, failed, then.get("dead", 0), waiting)))
        return tuple(marks)

    return _ignore_errors(Request(request.calls, parse_reply))


def _list_minutes(counted: history.History, last_ms: int, now_ms: int) -> Sequence[tuple[int, Mapping[str, int]]]:
    """Return the growth of the counters in the present minute and in those of the window before it."""
    return history.compute_growth_per_minute([counted], last_ms - WINDOW_MS, now_ms)


def _build_ends_request(system: System, queue: Queue) -> Request[tuple[RecordedEnds, ...] | None] | None:
    """Build the request for the last jobs that were done and that failed, which store when their last run ended.

    Only a time in which the queue keeps both is compared: done jobs are often kept for a shorter time than dead ones.
    """
    requests, places = [], []
    for place in system.places:
        number = queue.count_in_place(place.name)
        if number and place.has_failures and place.state in (State.DONE, State.DEAD):
            requests.append(_build_newest_page_request(system, queue, place))
            places.append((place.state, number > SAMPLE_JOBS))

    def count_ends(pages: list[Page]) -> tuple[RecordedEnds, ...]:
        now_ms, window_ms = queue.counted_ms, WINDOW_MS
        ends: dict[State, list[int]] = {State.DONE: [], State.DEAD: []}
        for page, (state, is_cut) in zip(pages, places, strict=True):
            times = [job.ended_ms if state is State.DONE else job.since_ms for job in page.jobs]
            known = [at_ms for at_ms in times if at_ms is not None]
            if len(known) < len(times):
                return ()
            ends[state] += known
            if known and (is_cut or state is State.DONE):
                window_ms = min(window_ms, now_ms - min(known))
        if not ends[State.DONE] or window_ms <= 0:
            return ()
        spans = [span for span in (MINUTE_MS, window_ms) if span <= window_ms]
        return tuple(
            RecordedEnds(span, *(sum(at_ms >= now_ms - span for at_ms in ends[s]) for s in (State.DONE, State.DEAD)))
            for span in dict.fromkeys(spans)
        )

    return _combine_pages(requests, count_ends)


def _needs_ends(system: System, queue: Queue) -> bool:
    """Return whether a queue has dead jobs beside done ones, and its system keeps no counters per minute."""
    if history.has_stats(system) or not queue.count_failed() or not queue.count_in_state(State.DONE):
        return False
    return not any(place.is_shared or place.is_from_events for place in system.places)


def _needs_checkpoint(system: System, queue: Queue) -> bool:
    counted = queue.counters.get("failed", 0) + queue.counters.get("dead", 0)
    return history.has_stats(system) and bool(counted or queue.count_in_state(State.READY) >= MIN_READY)


def _build_failure_causes_request(system: System, queue: Queue) -> Request[tuple[Cause, ...] | None]:
    """Build the request for the most frequent errors of the latest failures, in dead jobs and jobs to be retried."""
    requests = []
    for place in system.places:
        number = queue.count_in_place(place.name)
        if number and place.has_failures and place.state in (State.DEAD, State.SCHEDULED):
            build = _build_shared_place_request if place.is_shared else _build_newest_page_request
            requests.append(build(system, queue, place))

    def summarise(pages: list[Page]) -> tuple[Cause, ...]:
        jobs = [job for page in pages for job in page.jobs if job.error]
        failed = [job for job in jobs if job.state is State.DEAD or job.attempts]
        began_ms = queue.counted_ms - WINDOW_MS
        recent = [job for job in failed if job.state is not State.DEAD or (job.since_ms or 0) >= began_ms]
        return count_causes(recent or failed)

    return _combine_pages(requests, summarise)


def _build_deaths_request(system: System, queue: Queue) -> Request[tuple[tuple[Cause, ...], RecentDeaths] | None]:
    """Build the request for the most frequent errors of a sample of all dead jobs, and how many died within a day.

    The sample is taken in blocks from the whole place, because jobs that died together often have one cause.
    """
    requests: list[Request[Page]] = []
    block_counts: list[int] = []  # per place
    for place in system.places:
        number = queue.count_in_place(place.name)
        if not number or not place.has_failures or place.state is not State.DEAD:
            continue
        if place.is_shared:  # Positions are ranks among the jobs of all queues.
            number = next((count.shared_total for count in queue.counts if count.place == place.name), None) or number
        is_small = number <= SAMPLE_BLOCKS * BLOCK_JOBS
        steps = [0] if is_small else [number * part // SAMPLE_BLOCKS for part in range(SAMPLE_BLOCKS)]
        size = number if is_small else BLOCK_JOBS
        read_place = system.scan_request if place.is_shared else system.page_request
        block_counts.append(len(steps))
        requests += [read_place(queue.name, place.name, at, size, 0) for at in steps]

    def summarise(pages: list[Page]) -> tuple[tuple[Cause, ...], RecentDeaths]:
        causes = count_causes([job for page in pages for job in page.jobs if job.error])
        in_order = iter(pages)
        samples = [[next(in_order).jobs for _block in range(number)] for number in block_counts]
        return causes, _count_recent_deaths(queue, samples)

    return _combine_pages(requests, summarise)


def _count_recent_deaths(queue: Queue, samples: Sequence[Sequence[Sequence[Job]]]) -> RecentDeaths:
    """Count the dead jobs of a queue that died within a day, from the blocks of jobs read of each place.

    Blocks divide a place into parts of equal size, in the order of death: a part whose both ends are recent counts as a
    whole, so the result is a lower bound unless every sampled job is recent, or none.
    """
    begin_ms = queue.counted_ms - RECENT_DEATHS_MS
    jobs = [job for blocks in samples for block in blocks for job in block]
    if not jobs or any(job.since_ms is None for job in jobs):
        return RecentDeaths(0, is_dated=False)
    recent = sum((job.since_ms or 0) >= begin_ms for job in jobs)
    dead = queue.count_failed()
    if len(jobs) >= dead or not recent:
        return RecentDeaths(recent)
    if recent == len(jobs) and all(len(blocks) > 1 for blocks in samples):
        return RecentDeaths(dead)
    is_recent_block = [
        bool(block) and all((job.since_ms or 0) >= begin_ms for job in block) for blocks in samples for block in blocks
    ]
    parts = sum(is_recent_block)
    estimate = max(recent, max(0, parts - 1) * dead // len(is_recent_block) if len(is_recent_block) > 1 else 0)
    return RecentDeaths(min(dead, estimate), is_exact=False)


def _build_shared_place_request(system: System, queue: Queue, place: Place) -> Request[Page]:
    """Build the request for jobs of a queue in a shared place: of dead jobs the latest, of other jobs the next ones."""
    total = next((count.shared_total for count in queue.counts if count.place == place.name), None) or 0
    first = max(0, total - SHARED_PLACE_JOBS) if place.state is State.DEAD else 0
    limit = SHARED_PLACE_JOBS if place.state is State.DEAD else SAMPLE_JOBS
    return system.scan_request(queue.name, place.name, first, limit, 0)


def _build_newest_page_request(system: System, queue: Queue, place: Place) -> Request[Page]:
    """Build the request for the newest `SAMPLE_JOBS` ended jobs of a place, or for the next jobs of another place.

    The newest ended jobs are at the end of a place with a key, and at the start of one that is counted from events.
    """
    is_last = place.state in (State.DONE, State.DEAD) and not place.is_from_events
    first = max(0, queue.count_in_place(place.name) - SAMPLE_JOBS) if is_last else 0
    return system.page_request(queue.name, place.name, first, SAMPLE_JOBS, 0)


def _combine_pages(requests: Sequence[Request[Page]], summarise: Callable[[list[Page]], T]) -> Request[T | None]:
    """Build a request that reads the given pages and passes them to `summarise`, in the same order."""

    def parse_reply(replies: Replies) -> T:
        remaining = iter(replies)
        return summarise([request.parse([next(remaining) for _call in request.calls]) for request in requests])

    return _ignore_errors(Request(tuple(call for request in requests for call in request.calls), parse_reply))


def count_causes(jobs: Sequence[Job]) -> tuple[Cause, ...]:
    """Return the most frequent errors of these jobs, shortened and masked, at most three."""
    counted = Counter(find_short_cause(job.error) for job in jobs)
    return tuple(Cause(mask_text(text), number) for text, number in counted.most_common(MAX_CAUSES) if text)


_IDLE_STATES = frozenset({"", "idle", "waits", "connected"})  # the systems' own words for a worker without a job


def _build_workers_request(system: System, queue: Queue) -> Request[WorkerActivity | None]:
    """Build the request that counts the workers of a queue that hold no job."""
    request = system.workers_request(queue.name)

    def read(replies: Replies) -> WorkerActivity:
        workers = [worker for worker in request.parse(replies) if not worker.is_late(queue.counted_ms)]
        quiet = sum(worker.order != "run" or worker.state == "quiet" for worker in workers)
        idle = sum(worker.order == "run" and not worker.job and worker.state in _IDLE_STATES for worker in workers)
        return WorkerActivity(len(workers), idle, quiet)

    return _ignore_errors(Request(request.calls, read))


def _needs_workers(_system: System, queue: Queue) -> bool:
    has_waiting = queue.count_in_state(State.READY) and not queue.count_in_state(State.RESERVED)
    return bool(queue.workers and has_waiting and not queue.is_paused)


def _build_runs_request(system: System, queue: Queue) -> Request[LongRun | None]:
    """Build the request that compares the runs of reserved jobs with the latest ended runs of the same kind."""
    requests = [_build_newest_page_request(system, queue, place) for place in _list_run_places(system, queue)]

    def find_long_run(pages: list[Page]) -> LongRun | None:
        jobs = [job for page in pages for job in page.jobs]
        runs: dict[str, list[int]] = {}
        for job in jobs:
            if job.state is State.DONE and job.reserved_ms and job.since_ms and job.since_ms >= job.reserved_ms:
                runs.setdefault(job.name, []).append(job.since_ms - job.reserved_ms)
        found = []
        for job in jobs:
            ended = runs.get(job.name, ())
            if job.state is State.RESERVED and job.name and job.reserved_ms and len(ended) >= MIN_ENDED_RUNS:
                usual_ms, run_ms = round(median(ended)), queue.counted_ms - job.reserved_ms
                if run_ms >= max(MIN_LONG_RUN_MS, LONG_RUN_FACTOR * usual_ms, LONGEST_RUN_FACTOR * max(ended)):
                    found.append((run_ms / max(1, usual_ms), job, usual_ms, len(ended)))
        if not found:
            return None
        _factor, job, usual_ms, sampled = max(found, key=itemgetter(0))
        return LongRun(job.id, job.name, job.worker, job.reserved_ms or 0, usual_ms, sampled, len(found))

    return _combine_pages(requests, find_long_run)


def _list_run_places(system: System, queue: Queue) -> list[Place]:
    """Return the places of running and of ended jobs; none unless both have jobs and the system stores names."""
    if "name" not in system.known_fields:
        return []
    places = [place for place in system.places if place.state in (State.RESERVED, State.DONE) and not place.is_shared]
    places = [place for place in places if queue.count_in_place(place.name)]
    return places if {place.state for place in places} == {State.RESERVED, State.DONE} else []


def _needs_runs(system: System, queue: Queue) -> bool:
    return bool(queue.count_in_state(State.RESERVED) and _list_run_places(system, queue))


def _needs_failure_causes(system: System, queue: Queue) -> bool:
    return "error" in system.known_fields and any(finding.kind in _FAILURE_KINDS for finding in queue.findings)


def _needs_deaths(system: System, queue: Queue) -> bool:
    return any(finding.kind in _DEATH_KINDS for finding in queue.findings)


def _build_hours_request(
    system: System, queue: Queue
) -> Request[tuple[tuple[tuple[int, float], ...], int | None] | None]:
    """Build the request for the share of failures by minute, and the usual waiting time before the last minutes."""
    request = history.build_history_request(system, queue.name, HOURS_MS // history.MINUTE_MS)

    def parse_reply(replies: Replies) -> tuple[tuple[tuple[int, float], ...], int | None]:
        counters_by_minute = request.parse(replies)
        minutes = history.compute_growth_per_minute([counters_by_minute], queue.counted_ms - HOURS_MS, queue.counted_ms)
        ended = [(at, history.sum_flow(grown, "out"), history.sum_flow(grown, "failed")) for at, grown in minutes]
        shares = tuple((at, failed / (done + failed)) for at, done, failed in ended if done + failed)
        return shares, compute_usual_wait_ms(counters_by_minute, queue, minutes)

    return _ignore_errors(Request(request.calls, parse_reply))


def compute_usual_wait_ms(
    counters_by_minute: History, queue: Queue, minutes: Sequence[tuple[int, Mapping[str, int]]]
) -> int | None:
    """Compute how long a job usually waited: the median over minutes of waiting jobs divided by jobs out per minute.

    This is Little's law (J. D. C. Little, 1961). No counter holds how many jobs were scheduled at the time, so the
    present number is assumed. Returns None for fewer than ten minutes with completed jobs.
    """
    scheduled = queue.count_in_state(State.SCHEDULED)
    depths = dict(history.compute_depths(minutes, history.count_unfinished([queue])))
    before_ms = queue.counted_ms - 2 * WINDOW_MS
    first_ms = min(counters_by_minute.minutes, default=queue.counted_ms)
    waits = [
        max(0, depths[at] - scheduled) * history.MINUTE_MS / went
        for at, grown in minutes
        if first_ms <= at < before_ms and (went := history.sum_flow(grown, "out"))
    ]
    return round(median(waits)) if len(waits) >= MIN_BUSY_MINUTES else None


MIN_BUSY_MINUTES = 10  # minutes with completed jobs that are needed to compute a usual wait


def _needs_hours(system: System, queue: Queue) -> bool:
    waits_long = (queue.oldest_ready_ms or 0) >= SUSPICIOUS_WAIT_MS
    return history.has_stats(system) and (waits_long or any(one.kind == "failing" for one in queue.findings))


def _ignore_errors(original: Request[T]) -> Request[T | None]:
    """Return a request whose result is None if it fails, so that the counts of the same snapshot are still shown."""

    def ignore_error(error: Exception) -> None:
        log.debug("a closer look failed: %s", error)

    request: Request[T | None] = Request(original.calls, original.parse)
    return isolate_request(lambda: request, ignore_error)


_FAILURE_KINDS = frozenset({"failing", "dead-grows"})  # findings explained by the errors of the latest failures
_DEATH_KINDS = frozenset({"dead-many", "dead-near-cap"})  # findings explained by the errors of all dead jobs
PROBE_KINDS: Mapping[str, _Probe] = {
    "faults": _Probe(FAULTS_INTERVAL_S, MAX_PROBES, _build_system_request, _needs_system_probe),
    "lately": _Probe(3_600.0, MAX_PROBES, _build_checkpoint_request, _needs_checkpoint),
    "ends": _Probe(3_600.0, MAX_PROBES, _build_ends_request, _needs_ends),
    "causes": _Probe(30.0, 3, _build_failure_causes_request, _needs_failure_causes),
    "deaths": _Probe(300.0, 3, _build_deaths_request, _needs_deaths),
    "workers": _Probe(15.0, 3, _build_workers_request, _needs_workers),
    "runs": _Probe(15.0, 3, _build_runs_request, _needs_runs),
    "hours": _Probe(300.0, 1, _build_hours_request, _needs_hours),
}
KINDS_BY_COUNTS = ("lately", "ends", "faults", "workers", "runs")  # probes that the counts alone call for
KINDS_BY_FINDINGS = ("causes", "deaths", "hours")  # probes that findings call for


def find_failing_since_ms(shares: Sequence[tuple[int, float]], limit: float) -> int | None:
    """Return the minute (ms) since when at least `limit` of the attempts fail, or None if they no longer do.

    A minute with a share above half of `limit` does not end the period: the share of few attempts jumps.
    """
    since = None
    for at, share in shares:
        if share < limit / 2:
            since = None
        elif since is None and share >= limit:
            since = at
    return since
