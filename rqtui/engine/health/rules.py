"""Define the health rules: pure functions from a counted queue to findings, with the key and the fix for each.

The verdict in the overview, the findings on the board, `rqtui health` and `rqtui snapshot` all come from this module,
and those about the server from `server_rules`. The thresholds come from `config/thresholds.py`; `docs/health.md`
describes the rules for users.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from rqtui.config.thresholds import DEFAULTS, Limit, Thresholds
from rqtui.engine.health.probe_results import (
    NO_PROBE_RESULTS,
    SUSPICIOUS_WAIT_MS,
    ProbeResults,
    RecentDeaths,
    find_failing_since_ms,
)
from rqtui.engine.rates import MAX_PLAUSIBLE_AGE_MS, NO_RATE, is_plausible_due_time
from rqtui.model import Cause, Finding, Queue, Rate, RecentActivity, State, Verdict
from rqtui.system_base.system import quote_for_shell

MIN_FAILED = 2  # failed attempts from which on a share is reported: one of ten is no pattern either
MIN_ATTEMPTS = 10  # attempts from which on a share of failures is reported: one of three is no pattern
MIN_DEAD_SHARE = 0.01  # of the finished jobs: of a hundred thousand in five minutes some always become dead
MIN_GROWING_MS = 60_000  # a backlog that grows for less time is a burst
UNUSUAL_FACTOR = 3  # times the usual waiting time
NEAR_CAP_SHARE = 0.9
RETRIED_FACTOR = 1.5  # times the limit of failing attempts: a smaller share of which no job died is information
SUDDEN_SHARE = 0.2  # more of the last minute's attempts failed than of the last five: that share is reported
MIN_STORM_PER_MINUTE = 10  # attempts of one kind: fewer do not keep workers from other jobs
MAX_NAMED_QUEUES = 3
MIN_IDLE_MS = 15_000  # ready jobs that wait while idle workers take none; a worker's poll is a few seconds at most
MIN_IDLE_WATCH_MS = 5_000  # of that, the time that a single command watches where the oldest ready job waits longer
FAILURE_FIX = "fix the failures first"
IDLE_FIX = "some workers hold no job: find out why (rqtui workers)"
LIMIT_FIX = "the queue works at its limit: raise the limit"
_REMEDIES_OF_EVERY_SYSTEM = (IDLE_FIX, LIMIT_FIX)  # more workers, as a system's own remedy says, would not help
_SEVERITY_RANKS = {"ok": 0, "info": 1, "unknown": 2, "warning": 3, "critical": 4}

# Among findings with the same severity, the first of these kinds is the verdict: jobs fail, jobs are stuck or lost, no
# worker runs, the queue grows, something is old. Other kinds are findings of systems, which report stuck or lost jobs.
_URGENT_KINDS = ("wrong-type", "uncounted", "failing", "dead-grows", "retry-storm")

_PATIENT_KINDS = (
    "no-live-worker",
    "idle-workers",
    "stale-process",
    "long-run",
    "schedule-stopped",
    "overtaken",
    "starving",
    "oldest-ready",
    "backlog-grows",
    "dead-near-cap",
    "dead-many",
    "paused",
)

KINDS_WITH_START = frozenset({"failing", "paused", "silent-leases"})  # kinds whose text has no duration

FINDING_KINDS = {  # of findings about queues and the server; `docs/health.md` lists them with those of the systems
    "failing": "a large share of the attempts of the last five minutes failed",
    "dead-many": "many jobs died within a day; older dead jobs are only counted",
    "dead-near-cap": "the queue is near its limit of dead jobs: the oldest will be deleted",
    "dead-grows": "many jobs died in the last five minutes",
    "silent-leases": "jobs are held by workers that stopped sending heartbeats",
    "interrupted": "a job lost at least two leases: it may kill the workers that run it",
    "long-run": "a job runs for much longer than its kind usually does",
    "retry-storm": "one kind of job fails at every attempt and is tried again at once",
    "overtaken": "a job waits for longer than is usual, while jobs that came later are taken",
    "schedule-stopped": "a schedule enqueues nothing any more, because its program stopped",
    "expired-not-reaped": "leases expired, and no reaper runs",
    "due-not-dispatched": "jobs are due, and no dispatcher runs",
    "no-live-worker": "jobs are ready, and no worker sends heartbeats",
    "idle-workers": "jobs are ready, workers are registered, and none of them takes a job",
    "oldest-ready": "a ready job waits for longer than is usual for the queue",
    "backlog-grows": "more jobs come than go, and those that are ready are more than a minute's work",
    "paused": "the queue is paused by a person; this is information, no warning",
    "wrong-type": "a key holds another type than the system's",
    "uncounted": "the queue could not be counted, for another reason than a wrong type",
    "undecodable": "what is stored cannot be read",
    "lost": "a killed process held jobs that Redis does not have any more; only this rqtui has them in memory",
    "read-only-replica": "the server is a read-only replica: it refuses every change",
    "eviction": "the server evicts keys when its memory is full",
    "memory": "the server's memory is full, or nearly",
    "no-persistence": "the server keeps nothing on disk",
    "clock-skew": "the clocks of the server and of this machine differ",
    "unusable-system": "a package brings a system that cannot be used",
    "node-away": "a node of the Cluster does not answer",
}

Rule = Callable[[Queue, Rate, Thresholds, ProbeResults], Finding | None]


def attach_findings(
    queue: Queue,
    rate: Rate = NO_RATE,
    thresholds: Thresholds = DEFAULTS,
    probe_results: ProbeResults = NO_PROBE_RESULTS,
    remedies: Mapping[str, str] = MappingProxyType({}),
    known_fields: frozenset[str] | None = None,
    unknown_facts: tuple[str, ...] = (),
) -> Queue:
    """Return a queue with its findings, the worst first, its verdict, and the kinds of data that are unknown.

    `known_fields` are the fields of a job that the queue's system stores; None if that is not known. `unknown_facts`
    are those that the system says it does not store. `remedies` maps a
    kind of finding to the fix that fits the queue's system. An empty fix removes the finding, because a finding of the
    system itself reports the same problem.
    """
    unknown = (*_find_unknown_facts(queue, rate, known_fields), *(unknown_facts if queue.counts else ()))
    findings = [
        graded_finding for finding in queue.findings if (graded_finding := _grade_system_finding(finding, thresholds))
    ]
    for find_problem in _RULES:
        finding = find_problem(queue, rate, thresholds, probe_results)
        if finding is not None and (fitting := _fit_remedy(finding, queue, remedies)) is not None:
            findings.append(fitting)
    if not findings:
        if not unknown and not queue.findings:
            return queue
        text = f"ok · {FAILURES} unknown" if FAILURES in unknown else "ok"
        return queue._replace(findings=(), unknown=unknown, verdict=Verdict("ok", text))
    findings = sorted(_advise_failures_first(findings), key=_build_finding_sort_key)
    if any(finding.kind == "failing" for finding in findings):
        unknown = tuple(fact for fact in unknown if fact != FAILURES_OF_MINUTES)
    return queue._replace(findings=tuple(findings), unknown=unknown, verdict=_build_verdict(findings))


def _fit_remedy(finding: Finding, queue: Queue, remedies: Mapping[str, str]) -> Finding | None:
    """Return a finding with the remedy of the queue's system; None if a finding of the system reports the same."""
    remedy = remedies.get(finding.kind, finding.remedy)
    if remedy == finding.remedy or finding.remedy in _REMEDIES_OF_EVERY_SYSTEM:
        return finding
    return replace(finding, remedy=remedy.format(queue=quote_for_shell(queue.name)), key="") if remedy else None


def _advise_failures_first(findings: list[Finding]) -> list[Finding]:
    """Replace the advice to add workers by the advice to fix the failures, if a queue has a `failing` finding.

    More workers would not help: the attempts that they start would fail as well.
    """
    if not any(finding.kind == "failing" for finding in findings):
        return findings
    return [
        replace(finding, remedy=FAILURE_FIX, key="")
        if finding.kind in ("oldest-ready", "overtaken", "backlog-grows")
        else finding
        for finding in findings
    ]


def compute_valid_until_ms(queue: Queue, rate: Rate, thresholds: Thresholds, results: ProbeResults) -> float:
    """Return the age of the oldest ready job (ms) at which the health rules must run again for an idle queue.

    Returns 0 (at every snapshot) if a finding states that age, and infinity if no threshold is left. The ages at which
    a probe is needed count as thresholds.
    """
    if any(finding.kind in ("oldest-ready", "idle-workers") for finding in queue.findings):
        return 0
    age_ms = queue.oldest_ready_ms or 0
    ages = [*thresholds.late, *_compute_wait_limit(rate, thresholds, results), SUSPICIOUS_WAIT_MS, MAX_PLAUSIBLE_AGE_MS]
    if rate.idle_since_ms is not None:
        ages.append(age_ms + MIN_IDLE_MS - (queue.counted_ms - rate.idle_since_ms))
    return min(
        (threshold_ms for threshold_ms in ages if threshold_ms is not None and threshold_ms > age_ms), default=math.inf
    )


def _build_finding_sort_key(finding: Finding) -> tuple[float, ...]:
    """Return the sort key of a finding: severity, the kind, the least time left to fix it, then the most jobs."""
    kind = "stale-process" if finding.kind == "worker-gone" and not finding.ids else finding.kind  # no job is stuck
    rank = (
        _URGENT_KINDS.index(kind)
        if kind in _URGENT_KINDS
        else len(_URGENT_KINDS) + (1 + _PATIENT_KINDS.index(kind) if kind in _PATIENT_KINDS else 0)
    )
    until_ms = math.inf if finding.until_ms is None else finding.until_ms
    return -_SEVERITY_RANKS[finding.severity], rank, until_ms, -finding.jobs


def _build_verdict(findings: Sequence[Finding]) -> Verdict:
    """Build the one-line verdict of a queue: its worst finding, a detail or the number of other findings, and the fix.

    If all findings are information, the severity of the verdict is ok.
    """
    worst, other_findings = findings[0], len(findings) - 1
    severity = find_worst_severity(findings)
    addition = f" · {other_findings} more" if other_findings else f", {worst.detail}" if worst.detail else ""
    fix = f": {worst.remedy}" if worst.remedy else f" · {worst.key}" if worst.key else ""
    return _reuse_equal_verdict(Verdict(severity, f"{worst.text}{addition}{fix}", worst.kind, worst.until_ms))


@lru_cache(1_000)
def _reuse_equal_verdict(verdict: Verdict) -> Verdict:
    """Return the same object for equal verdicts, to save memory: many of ten thousand queues have the same verdict."""
    return verdict


def find_worst_severity(findings: Sequence[Finding]) -> str:
    """Return the worst severity among findings: ok, warning or critical. Findings that only inform count as ok."""
    worst = max((finding.severity for finding in findings), key=_SEVERITY_RANKS.__getitem__, default="ok")
    return "ok" if worst == "info" else worst


def format_finding(finding: Finding, now_ms: int) -> str:
    """Return a finding as one sentence: `51 % of attempts fail since 04:12 (9 min), mostly …`, or `…, 41s left`."""
    from rqtui.text.formats import format_time_left  # Imported late because most queues have no findings.

    time_left = f", {format_time_left(finding.until_ms, now_ms)}" if finding.until_ms is not None else ""
    detail = f", {finding.detail}" if finding.detail else ""
    return f"{format_dated_problem(finding, now_ms)}{time_left}{detail}"


def format_dated_problem(finding: Finding, now_ms: int) -> str:
    """Return the problem of a finding and since when it lasts: `51 % of attempts fail since 04:12 (9 min)`."""
    if finding.since_ms is None or finding.kind not in KINDS_WITH_START:
        return finding.text
    from rqtui.text.formats import format_start_time

    age = f" ({format_age(now_ms - finding.since_ms)})" if now_ms >= finding.since_ms else ""
    return f"{finding.text} since {format_start_time(finding.since_ms, now_ms)}{age}"


FAILURES, WORKERS, LEASES, WAITS = "failures", "workers", "leases", "waiting times"
REPEATED_RUNS, EARLIER_RUNS = "repeated runs", "runs before rqtui listened"
FAILURES_OF_MINUTES, GROWTH, IDLE_WORKERS = "failures of the last minutes", "growth", "idle workers"
HOLDERS = "workers that hold jobs"
EARLIER_RUNS_MS = 3_600_000  # what happened before events arrived matters for so long
MIN_MINUTES_MS = 60_000  # the time that a queue must be watched, or recorded, to know its failures


def is_minute_known(rate: Rate) -> bool | None:
    """Return whether a minute of a queue was watched or recorded, or None for a command that counts a queue at once."""
    duration_ms = rate.recent.duration_ms
    return duration_ms >= MIN_MINUTES_MS if duration_ms >= MIN_WATCHED_MS else None


def _find_unknown_facts(queue: Queue, rate: Rate, known_fields: frozenset[str] | None) -> tuple[str, ...]:
    """Return the kinds of data that a queue's system does not store, such as failures, workers or waiting times.

    A kind is missing if the queue has no counter, place, worker list or age of that kind, or if a finding needs it.
    """
    if not queue.counts:
        return ()
    counted_states = {count.state for count in queue.counts if count.coverage is None or count.is_count_known}
    unknown_facts = []
    if "failed" not in queue.counters and State.DEAD not in counted_states:
        unknown_facts.append(FAILURES)
    elif queue.count_failed() and is_minute_known(rate) is False:
        unknown_facts.append(FAILURES_OF_MINUTES)
    if queue.workers is None and not any(finding.kind == "wrong-type" for finding in queue.findings):
        unknown_facts.append(WORKERS)
    if State.RESERVED not in counted_states:
        unknown_facts.append(LEASES)
    elif (known_fields is not None and "tried" not in known_fields) or _has_unexplained_runs(queue):
        unknown_facts.append(REPEATED_RUNS)
    if queue.oldest_ready_ms is None and queue.count_in_state(State.READY):
        unknown_facts.append(WAITS)
    coverage_starts_ms = [count.coverage.since_ms for count in queue.counts if count.coverage is not None]
    if any(since_ms is None or queue.counted_ms - since_ms < EARLIER_RUNS_MS for since_ms in coverage_starts_ms):
        unknown_facts.append(EARLIER_RUNS)
    return tuple(unknown_facts)


def _has_unexplained_runs(queue: Queue) -> bool:
    """Return whether jobs ran twice, and no screen saw whether their first worker was killed or blocked."""
    kinds = {finding.kind for finding in queue.findings}
    return "doubled" in kinds and "runs-twice" not in kinds


_LIMIT_KINDS = frozenset({"at-limit", "rate-limited"})  # a limit that a person set keeps ready jobs back
_IDLE_KINDS = frozenset({"idle-workers", "no-live-worker", "no-consumer", "nobody-consumes"}) | _LIMIT_KINDS
MIN_WATCHED_MS = 1_000  # a command counts a queue twice within milliseconds, which says nothing about minutes
MIN_GROWN = 60  # ready jobs from which on it matters whether a queue grows


def find_unwatched_facts(queue: Queue, rate: Rate) -> tuple[str, ...]:
    """Return the kinds of data about a queue that are unknown after one snapshot, because its system stores no history.

    They are the failures of the last minutes, growth, idle workers, and workers that may have been killed.
    """
    finding_kinds, unwatched_facts = {finding.kind for finding in queue.findings}, []
    has_no_history = rate.recent.duration_ms < MIN_WATCHED_MS
    ready = 0 if queue.is_paused else queue.count_in_state(State.READY)
    if has_no_history and queue.count_failed() and FAILURES not in queue.unknown:
        unwatched_facts.append(FAILURES_OF_MINUTES)
    if ready >= MIN_GROWN and not _is_growth_known(rate.recent):
        unwatched_facts.append(GROWTH)
    if (
        ready
        and queue.workers is not None
        and not queue.count_in_state(State.RESERVED)
        and not finding_kinds & _IDLE_KINDS
    ):
        unwatched_facts.append(IDLE_WORKERS)
    if "late-locks" in finding_kinds:
        unwatched_facts.append(HOLDERS)
    return tuple(unwatched_facts)


def _is_growth_known(recent: RecentActivity) -> bool:
    """Return whether the earlier number of ready jobs is known. The end times of jobs alone do not give that number."""
    is_idle = recent.duration_ms >= MIN_WATCHED_MS and recent == RecentActivity(recent.duration_ms)
    return is_idle or recent.growing_ms > 0 or recent.latest_growth is not None


def _grade_system_finding(finding: Finding, thresholds: Thresholds) -> Finding | None:
    """Set the severity of a finding of a system's own probe by the thresholds. Return None for a finding below them."""
    if finding.kind != "silent-leases":
        return finding
    severity = thresholds.silent.find_severity(finding.jobs)
    return replace(finding, severity=severity) if severity else None


def _find_uncounted_queue(queue: Queue, _rate: Rate, _thresholds: Thresholds, _results: ProbeResults) -> Finding | None:
    """Report a queue whose counts failed, unless one of its findings already has the same text."""
    if queue.error and not any(finding.text == queue.error for finding in queue.findings):
        return Finding("uncounted", "critical", queue.name, queue.error)
    return None


def _find_failing_attempts(queue: Queue, rate: Rate, thresholds: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a queue in which a large share of the attempts of the last five minutes failed.

    If the last minute was much worse, its share is reported. If no attempt failed in the last minute, the problem is
    over. Where there were few attempts, those in a row that failed are reported.
    """
    recent, share = rate.recent, rate.recent.failure_share
    if share is None or recent.completed + recent.failed < MIN_ATTEMPTS:
        return _find_failed_streak(queue, rate, thresholds, results)
    if max(recent.failed, recent.minute_failed) < MIN_FAILED:
        return None
    minute_attempts, sample = recent.minute_completed + recent.minute_failed, ""
    if minute_attempts >= MIN_ATTEMPTS:
        if not recent.minute_failed:
            return None  # The cause is over.
        if recent.minute_failed / minute_attempts > share + SUDDEN_SHARE:
            share = recent.minute_failed / minute_attempts
            sample = f"{_format_number(recent.minute_failed)} of {_format_number(minute_attempts)} in the last minute"
    severity = thresholds.failing.find_severity(100 * share)
    if not severity:
        return None
    if not recent.dead and 100 * share < RETRIED_FACTOR * (thresholds.failing[0] or 100):
        severity = "info"  # A few attempts fail and their retries succeed, so nothing has to be done.
    lowest_limit = next(limit for limit in thresholds.failing if limit is not None)
    since_ms = find_failing_since_ms(results.failure_shares, lowest_limit / 100)
    if since_ms is None and not sample:
        ended = _format_number(recent.completed + recent.failed)
        sample = f"{_format_number(recent.failed)} of {ended} in the last {format_age(max(1_000, recent.duration_ms))}"
    text = f"{100 * share:.0f} % of attempts fail"
    finding = Finding("failing", severity, queue.name, text, key="e", since_ms=since_ms, jobs=recent.failed)
    finding = _add_causes(finding, results.causes)
    return replace(finding, detail=", ".join(filter(None, (sample, finding.detail))))


def _find_failed_streak(queue: Queue, rate: Rate, thresholds: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a slow queue whose last attempts all failed, while its attempts still come at their pace."""
    streak, severity = rate.failed_streak, thresholds.failing.find_severity(100)
    if streak is None or not severity:
        return None
    text = f"the last {_format_count(streak.attempts, 'attempt')} failed"
    finding = Finding("failing", severity, queue.name, text, key="e", since_ms=streak.since_ms, jobs=streak.attempts)
    return _add_causes(finding, results.causes)


def _find_many_dead_jobs(queue: Queue, _rate: Rate, thresholds: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a queue with many dead jobs, graded by how many died within a day, or with dead jobs near the queue's cap.

    Older dead jobs are information: nothing has to be done now. Dead jobs without dates are graded by their number.
    """
    dead_jobs = queue.count_failed()
    cap = queue.counters.get("dead_max", 0)
    is_near_cap = bool(cap and dead_jobs >= NEAR_CAP_SHARE * cap)
    if not dead_jobs or not (is_near_cap or thresholds.dead.find_severity(dead_jobs)):
        return None
    dead_text = (
        f"{_format_count(dead_jobs, 'job', queue.has_exact_counts(State.DEAD))} {_inflect_verb(dead_jobs, 'is')} dead"
    )
    severity, text, recent_deaths = "info", dead_text, results.recent_deaths
    if recent_deaths is None:  # The probe that reads the dates has not run yet.
        jobs = dead_jobs
    elif not recent_deaths.is_dated:
        severity, text, jobs = (
            thresholds.dead.find_severity(dead_jobs) or "info",
            f"{dead_text}, since when is unknown",
            dead_jobs,
        )
    else:
        severity, jobs = thresholds.dead.find_severity(recent_deaths.jobs) or "info", recent_deaths.jobs or dead_jobs
        text = f"{dead_text}, {_describe_recent_deaths(recent_deaths, dead_jobs)}"
    kind, remedy = "dead-many", ""
    if is_near_cap:
        kind, remedy = "dead-near-cap", "e groups them, R requeues them"
        severity = severity if severity == "critical" else "warning"
        text = f"{dead_text} of at most {_format_number(cap)}; Redis will soon drop the oldest"
    return _add_causes(Finding(kind, severity, queue.name, text, remedy, key="e", jobs=jobs), results.death_causes)


def _describe_recent_deaths(recent_deaths: RecentDeaths, dead_jobs: int) -> str:
    """Describe how many of the dead jobs died within a day: `none of them in the last 24 h`."""
    if recent_deaths.jobs >= dead_jobs:
        return "all of them in the last 24 h"
    if not recent_deaths.jobs:
        return f"none of {'them' if recent_deaths.is_exact else 'those that were read'} in the last 24 h"
    return (
        f"{'' if recent_deaths.is_exact else 'at least '}{_format_number(recent_deaths.jobs)} of them in the last 24 h"
    )


def _find_recent_deaths(queue: Queue, rate: Rate, thresholds: Thresholds, results: ProbeResults) -> Finding | None:
    """Report many jobs that died in the last five minutes."""
    recent = rate.recent
    severity = thresholds.dying.find_severity(recent.dead) if recent.dead else ""
    if not severity or recent.dead < MIN_DEAD_SHARE * (recent.completed + recent.dead):
        return None
    text = f"{_format_count(recent.dead, 'job')} died in the last {format_age(max(1_000, recent.duration_ms))}"
    return _add_causes(Finding("dead-grows", severity, queue.name, text, key="e", jobs=recent.dead), results.causes)


def _find_unreaped_leases(queue: Queue, _rate: Rate, thresholds: Thresholds, _results: ProbeResults) -> Finding | None:
    """Report leases that expired some time ago and that no reaper ended."""
    late_ms = -(queue.next_expiry_ms or 0)
    if not queue.expired or not (severity := thresholds.late.find_severity(late_ms)):
        return None
    text = f"{_format_count(queue.expired, 'lease')} expired, and no reaper has run for {format_age(late_ms)}"
    return Finding(
        "expired-not-reaped",
        severity,
        queue.name,
        text,
        ". starts the reaper",
        key=".",
        since_ms=queue.counted_ms - late_ms,
        jobs=queue.expired,
    )


def _find_undispatched_jobs(queue: Queue, rate: Rate, thresholds: Thresholds, _results: ProbeResults) -> Finding | None:
    """Report jobs that are due but still scheduled.

    The delay counts from `rate.due_since_ms`, when the oldest due job could have been dispatched; after a single poll,
    from its due time.
    """
    if not queue.overdue or queue.is_paused:
        return None
    late_ms = -(queue.next_due_ms or 0)
    if rate.due_since_ms is not None:
        late_ms = min(late_ms, queue.counted_ms - rate.due_since_ms)
    severity = thresholds.late.find_severity(late_ms)
    if not severity:
        return None
    due_ms: int | None = queue.counted_ms - late_ms
    due_jobs = _format_count(queue.overdue, "job", queue.has_exact_counts(State.SCHEDULED))
    due_jobs += " is" if queue.overdue == 1 else " are"
    if rate.due_since_ms is not None:
        text = f"{due_jobs} due, and no dispatcher has run for {format_age(late_ms)}"
    elif is_plausible_due_time(queue.counted_ms - late_ms, queue.counted_ms):
        from rqtui.text.formats import format_date_and_time  # Imported late because it is rarely needed.

        text = f"{due_jobs} due since {format_date_and_time(due_ms)}, and no dispatcher runs"
    else:
        text, due_ms = f"{due_jobs} due, and no dispatcher runs", None
    return Finding(
        "due-not-dispatched",
        severity,
        queue.name,
        text,
        ", starts the dispatcher",
        key=",",
        since_ms=due_ms,
        jobs=queue.overdue,
    )


def _find_missing_workers(queue: Queue, rate: Rate, thresholds: Thresholds, _results: ProbeResults) -> Finding | None:
    """Report ready jobs of a queue that has no live worker and completes no jobs."""
    wait_ms = queue.oldest_ready_ms
    if wait_ms is None and queue.workers == 0 and rate.idle_since_ms is not None:  # The system stores no such age.
        wait_ms = queue.counted_ms - rate.idle_since_ms
    if queue.workers != 0 or queue.is_paused or rate.last_out_s != 0 or not wait_ms:
        return None
    if any(finding.kind == "no-consumer" for finding in queue.findings):
        return None  # Workers run, but serve other queues: the system itself reports that.
    if queue.count_in_state(State.RESERVED) > queue.expired:  # A worker took a job since the workers were listed.
        return None
    severity = thresholds.late.find_severity(wait_ms)
    if not severity or not (ready := queue.count_in_state(State.READY)):
        return None
    return Finding(
        "no-live-worker",
        severity,
        queue.name,
        f"no worker serves this queue, and {_format_count(ready, 'job')} {_inflect_verb(ready, 'is')} ready",
        f"start a worker: rqtui work {quote_for_shell(queue.name)} -- COMMAND",
        key="w",
        since_ms=queue.counted_ms - wait_ms,
        jobs=ready,
    )


def _find_late_ready_job(queue: Queue, rate: Rate, thresholds: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a ready job that waits longer than the oldest ready job of its queue usually does.

    If the usual wait is unknown, or a person configured a limit, the limit decides.
    """
    wait_ms = queue.oldest_ready_ms or 0
    if not wait_ms or queue.is_paused or queue.workers == 0 or _is_at_limit(queue):
        return None
    if not is_plausible_due_time(queue.counted_ms - wait_ms, queue.counted_ms):  # A score of 1970 is no age.
        return None
    usual_ms = _find_usual_wait_ms(rate, results)
    severity = _compute_wait_limit(rate, thresholds, results).find_severity(wait_ms)
    if not severity:
        return None
    ready = queue.count_in_state(State.READY)
    which = f"the oldest of {_format_count(ready, 'ready job')}" if ready > 1 else "a ready job"
    text = f"{which} has waited {format_age(wait_ms)}"
    workers = results.workers
    if workers is not None and workers.served_first and queue.workers:
        return _build_overtaken_finding(queue, severity, text, workers.served_first, wait_ms)
    detail = "" if usual_ms is None else f"usually {format_age(usual_ms) if usual_ms >= 1_000 else 'less than 1 s'}"
    return Finding(
        "oldest-ready",
        severity,
        queue.name,
        text,
        "add workers",
        key="w",
        detail=detail,
        since_ms=queue.counted_ms - wait_ms,
        jobs=queue.count_in_state(State.READY),
    )


def _build_overtaken_finding(
    queue: Queue, severity: str, text: str, served_first: Sequence[str], waits_ms: int
) -> Finding:
    """Build the finding about a queue whose workers take jobs of other queues first."""
    from rqtui.text.sanitise import safe

    verb = _inflect_verb(queue.workers or 0, "takes")
    before = safe(", ".join(served_first[:MAX_NAMED_QUEUES]))
    text = f"{text}: its {_format_count(queue.workers or 0, 'worker')} {verb} from {before} first"
    since_ms, jobs = queue.counted_ms - waits_ms, queue.count_in_state(State.READY)
    remedy = "start a worker that takes this queue first, w shows them"
    return Finding("overtaken", severity, queue.name, text, remedy, key="w", since_ms=since_ms, jobs=jobs)


def _find_overtaken_job(queue: Queue, rate: Rate, limits: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a ready job of low priority that waits longer than usual, while jobs that came later are taken."""
    job = results.overtaken
    if job is None or queue.is_paused or queue.workers == 0 or queue.count_in_state(State.READY) <= job.jobs_before:
        return None
    waits_ms = queue.counted_ms - job.ready_ms
    severity = _compute_wait_limit(rate, limits, results).find_severity(waits_ms)
    if not severity or not is_plausible_due_time(job.ready_ms, queue.counted_ms):
        return None
    from rqtui.text.sanitise import format_id, safe

    name = f" ({safe(job.name)})" if job.name else ""
    before = _format_count(job.jobs_before, "job")
    text = f"job {format_id(job.id)}{name} of priority {job.priority} waits for {format_age(waits_ms)} behind {before}"
    detail, remedy = "newer jobs of a higher priority are taken first", "add workers, or change its priority"
    return Finding(
        "overtaken", severity, queue.name, text, remedy, ids=(job.id,), detail=detail, since_ms=job.ready_ms, jobs=1
    )


def _find_retry_storm(queue: Queue, rate: Rate, _limits: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a kind of job that fails at every attempt and comes back at once: it takes the workers' time."""
    storm, recent = results.storm, rate.recent
    if storm is None or storm.per_minute < MIN_STORM_PER_MINUTE or not _has_waiting(queue):
        return None
    from rqtui.text.sanitise import safe

    name = safe(storm.name) or "a kind without a name"
    text = f"{name} fails and is tried again at once: {_format_number(round(storm.per_minute))} attempts a minute"
    done_per_minute = storm.done_per_minute
    if done_per_minute is None and recent.duration_ms >= MIN_WATCHED_MS:
        done_per_minute = 60_000 * recent.completed / recent.duration_ms
    if done_per_minute is not None:
        text += f", {100 * storm.per_minute / (storm.per_minute + done_per_minute):.0f} % of all attempts"
    finding = Finding("retry-storm", "warning", queue.name, text, "give it a backoff, or kill its jobs", key="e")
    return replace(finding, jobs=storm.sampled, causes=results.causes)


def _has_waiting(queue: Queue) -> bool:
    """Return whether a queue has scheduled, ready or reserved jobs."""
    return any(queue.count_in_state(state) for state in (State.READY, State.RESERVED, State.SCHEDULED))


def _find_usual_wait_ms(rate: Rate, results: ProbeResults) -> int | None:
    """Return how long the oldest ready job of a queue usually waits, by the history probe, else by the rates."""
    return results.usual_wait_ms if results.usual_wait_ms is not None else rate.usual_wait_ms


def _compute_wait_limit(rate: Rate, thresholds: Thresholds, results: ProbeResults) -> Limit:
    """Return the wait (ms) from which on a ready job is late: a configured limit, else a multiple of the usual wait."""
    usual_ms, is_configured = _find_usual_wait_ms(rate, results), thresholds.waiting != DEFAULTS.waiting
    return (
        thresholds.waiting
        if is_configured or usual_ms is None
        else Limit(max(SUSPICIOUS_WAIT_MS, UNUSUAL_FACTOR * usual_ms))
    )


def attach_idle_workers(queue: Queue, rate: Rate, results: ProbeResults) -> Queue:
    """Return a queue with the finding about idle workers, if a single command has watched it for long enough.

    The age of the oldest ready job must show that the jobs waited before, too.
    """
    finding = _find_idle_workers(queue, rate, DEFAULTS, results, MIN_IDLE_WATCH_MS)
    if finding is None or (queue.oldest_ready_ms or 0) < MIN_IDLE_MS:
        return queue
    findings = sorted((*queue.findings, finding), key=_build_finding_sort_key)
    return queue._replace(findings=tuple(findings), verdict=_build_verdict(findings))


def _find_idle_workers(
    queue: Queue, rate: Rate, _thresholds: Thresholds, results: ProbeResults, min_watch_ms: int | None = None
) -> Finding | None:
    """Report ready jobs that no registered worker takes: the workers are quiet, were killed, or listen elsewhere.

    A worker that was killed stays registered until its record expires. Idle workers are reported only after the queue
    was watched while no job was taken: a single poll may fall between two jobs of a busy worker.
    """
    workers, ready = results.workers, queue.count_in_state(State.READY)
    if not workers or not ready or not queue.workers or queue.is_paused or queue.count_in_state(State.RESERVED):
        return None
    if _is_at_limit(queue):
        return None
    detail = ""
    ready_jobs, since_ms = _format_count(ready, "ready job"), rate.idle_since_ms
    if workers.quiet == workers.total:
        quiet_workers = f"{_format_count(workers.quiet, 'worker')} {_inflect_verb(workers.quiet, 'is')} quiet"
        text = f"{quiet_workers}, and no worker takes the {ready_jobs}"
        remedy = "start a worker that is not quiet"
    elif workers.idle and since_ms is not None and queue.counted_ms - since_ms >= (min_watch_ms or MIN_IDLE_MS):
        text = (
            f"{_format_count(workers.idle, 'idle worker')} {_inflect_verb(workers.idle, 'takes')} none of {ready_jobs}"
        )
        remedy = "restart them, w shows them"
        detail = f"watched for {format_age(queue.counted_ms - since_ms)}"
    else:
        return None
    finding = Finding("idle-workers", "warning", queue.name, text, remedy, key="w", since_ms=since_ms, jobs=ready)
    return replace(finding, detail=detail)


def _is_at_limit(queue: Queue) -> bool:
    """Return whether a limit of the queue keeps its ready jobs back: they wait because a person wants it."""
    return any(finding.kind in _LIMIT_KINDS for finding in queue.findings)


def _inflect_verb(number: int, verb: str) -> str:
    """Return a verb in the number of its subject: `is` or `are`, `takes` or `take`."""
    return verb if number == 1 else {"is": "are", "takes": "take", "does": "do"}[verb]


def _find_long_run(queue: Queue, _rate: Rate, _thresholds: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a reserved job that runs for much longer than ended jobs of the same kind. Its worker may be stuck.

    A job that another finding names, because its worker is dead, does not run.
    """
    run = results.long_run
    if run is None or not queue.count_in_state(State.RESERVED):
        return None
    if any(run.id in finding.ids for finding in queue.findings):
        return None
    from rqtui.text.formats import format_duration  # Imported late because it is rarely needed.
    from rqtui.text.sanitise import format_id, safe

    where = f" on {safe(run.worker)}" if run.worker else ""
    text = (
        f"job {format_id(run.id)} ({safe(run.name)}) has been running for "
        f"{format_age(queue.counted_ms - run.begin_ms)}{where}"
    )
    measure = "mean" if run.is_mean else "median"
    detail = f"usually {format_duration(run.usual_ms)} ({measure} of {_format_count(run.sampled, 'ended run')})"
    if run.jobs > 1:
        detail += f"; so {_inflect_verb(run.jobs - 1, 'does')} {_format_count(run.jobs - 1, 'other job')}"
    remedy = "find out where its worker is stuck"
    return Finding(
        "long-run",
        "warning",
        queue.name,
        text,
        remedy,
        ids=(run.id,),
        detail=detail,
        since_ms=run.begin_ms,
        jobs=run.jobs,
    )


def _find_growing_backlog(queue: Queue, rate: Rate, thresholds: Thresholds, _results: ProbeResults) -> Finding | None:
    """Report a queue that grows while its ready jobs are more work than the backlog limit allows.

    Growth and ended jobs are those of the last two minutes. A queue that has stopped growing, because its last counts
    are not higher than those of 15 to 30 seconds ago, is not reported.
    """
    recent = rate.recent
    if recent.growing_ms < MIN_GROWING_MS or queue.is_paused or queue.workers == 0:
        return None
    if recent.latest_growth is not None and recent.latest_growth <= 0:
        return None
    ready = queue.count_in_state(State.READY)
    growth_s = 1000 * recent.growing_ready / recent.growing_ms
    out_s = 1000 * recent.growing_ended / recent.growing_ms
    severity = thresholds.backlog.find_severity(1000 * ready / max(1.0, out_s))
    if growth_s < 1 or not severity:
        return None
    window = format_age(recent.growing_ms)
    text = f"the queue grows by {_format_rate(growth_s)}/s while {_format_rate(out_s)}/s leave it (last {window})"
    reserved = queue.count_in_state(State.RESERVED)
    if (
        not _is_at_limit(queue)
        and queue.workers
        and queue.has_exact_counts(State.RESERVED)
        and reserved < queue.workers
    ):
        return Finding("backlog-grows", severity, queue.name, text, IDLE_FIX, jobs=ready)
    if _is_at_limit(queue):
        return Finding("backlog-grows", severity, queue.name, text, LIMIT_FIX, jobs=ready)
    return Finding("backlog-grows", severity, queue.name, text, "add workers", key="w", jobs=ready)


def _find_pause(queue: Queue, _rate: Rate, _thresholds: Thresholds, _results: ProbeResults) -> Finding | None:
    """Report a paused queue as information, unless a finding of its system already reports the pause."""
    if not queue.is_paused or any(finding.key == "P" for finding in queue.findings):
        return None  # A system's own finding that the same key fixes already reports the pause.
    finding = Finding("paused", "info", queue.name, "paused", "P resumes it", key="P", since_ms=queue.paused_ms)
    return replace(finding, jobs=queue.count_in_state(State.READY))


_RULES: tuple[Rule, ...] = (
    _find_uncounted_queue,
    _find_failing_attempts,
    _find_many_dead_jobs,
    _find_recent_deaths,
    _find_retry_storm,
    _find_unreaped_leases,
    _find_undispatched_jobs,
    _find_missing_workers,
    _find_idle_workers,
    _find_long_run,
    _find_overtaken_job,
    _find_late_ready_job,
    _find_growing_backlog,
    _find_pause,
)


def _add_causes(finding: Finding, causes: tuple[Cause, ...]) -> Finding:
    """Add the causes of failures to a finding, and show the most frequent cause as its detail."""
    return replace(finding, detail=f"mostly {causes[0].text}", causes=causes) if causes else finding


def _format_count(number: int, noun: str, exact: bool = True) -> str:
    from rqtui.text.formats import format_quantity  # Imported late because most queues have no findings.

    return format_quantity(number, noun, exact=exact)


def _format_number(number: int, exact: bool = True) -> str:
    from rqtui.text.formats import format_count

    return format_count(number, exact, 11)


def _format_rate(jobs_s: float) -> str:
    """Format jobs per second: `0.4`, `28`, `1 200`."""
    return f"{jobs_s:.1f}" if jobs_s < 10 else _format_number(round(jobs_s))


def format_age(ms: int) -> str:
    seconds = ms // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
