"""Run the health probes: bounded extra reads of one queue beyond its counts, at most a few per minute.

A probe finds what counts alone do not show: the problems that a system's own script detects, the counters of the last
minutes, the causes of failures and their start, and how long jobs usually wait. Each snapshot sends a few of the due
probes in its own round trip, starting with those that waited longest. A command that takes a single snapshot runs every
probe that its queues need. A result is valid until the same probe runs again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rqtui.engine.dead_sample import is_outdated
from rqtui.engine.health.activity_probes import (
    build_checkpoint_request,
    build_recorded_ends_request,
    needs_checkpoint_probe,
    needs_ends_probe,
)
from rqtui.engine.health.failure_probes import (
    build_dead_jobs_request,
    build_failure_causes_request,
    build_failure_history_request,
    needs_deaths_probe,
    needs_failure_causes_probe,
    needs_history_probe,
)
from rqtui.engine.health.probe_results import NO_PROBE_RESULTS, SUSPICIOUS_WAIT_MS, CompleteCauses, ProbeResults
from rqtui.engine.health.run_probes import (
    build_long_run_request,
    build_order_request,
    build_storm_request,
    build_workers_request,
    needs_long_run_probe,
    needs_order_probe,
    needs_storm_probe,
    needs_workers_probe,
)
from rqtui.engine.health.urgency import compute_queue_urgency
from rqtui.engine.rates import EarlierActivity
from rqtui.errors import RqtuiError, describe_and_log_error
from rqtui.model import Finding, Queue, Ref, Schedule
from rqtui.system_base.system import Request, System, isolate_request

log = logging.getLogger("rqtui.engine")
FAULTS_INTERVAL_S = 10.0  # between two runs of a system's own probe on one queue
MAX_PROBES = 20  # of one kind per snapshot
MAX_QUEUES_AT_ONCE = 50  # most urgent queues whose causes a single thorough snapshot reads


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
    late = [each for each in schedules if each.next_ms is None or now_ms - each.next_ms >= LATE_SCHEDULE_MS]
    if not late:
        return ()
    from rqtui.text.formats import format_date_and_time, format_quantity  # Imported late because findings are rare.
    from rqtui.text.sanitise import safe

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


def _build_schedules_request(system: System) -> Request[tuple[Schedule, ...] | None]:
    """Build the request for the schedules of a system; its result is None if it fails, or if the system has none."""

    def build_request() -> Request[tuple[Schedule, ...] | None]:
        return system.schedules_request() or Request((), lambda _replies: None)

    return isolate_request(build_request, lambda _error: None)


PROBE_KINDS: Mapping[str, _Probe] = {
    "faults": _Probe(FAULTS_INTERVAL_S, MAX_PROBES, _build_system_findings_request, _needs_system_probe),
    "lately": _Probe(3_600.0, MAX_PROBES, build_checkpoint_request, needs_checkpoint_probe),
    "ends": _Probe(3_600.0, MAX_PROBES, build_recorded_ends_request, needs_ends_probe),
    "causes": _Probe(30.0, 3, build_failure_causes_request, needs_failure_causes_probe),
    "deaths": _Probe(300.0, 3, build_dead_jobs_request, needs_deaths_probe),
    "workers": _Probe(15.0, 3, build_workers_request, needs_workers_probe),
    "runs": _Probe(15.0, 3, build_long_run_request, needs_long_run_probe),
    "order": _Probe(15.0, 3, build_order_request, needs_order_probe),
    "storm": _Probe(15.0, 3, build_storm_request, needs_storm_probe),
    "hours": _Probe(300.0, 1, build_failure_history_request, needs_history_probe),
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
