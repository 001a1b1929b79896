"""Define the health rules: pure functions from a counted queue to findings, with the key and the fix for each.

The server's settings are checked here as well. The verdict in the overview, the findings on the board, `rqtui health`
and `rqtui snapshot` all come from this module. The thresholds come from `config/thresholds.py`; `docs/health.md`
describes the rules for users.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rqtui.config.thresholds import DEFAULTS, Limit, Thresholds
from rqtui.connection.nodes import list_nodes
from rqtui.engine.health.probes import (
    NO_PROBE_RESULTS,
    SUSPICIOUS_WAIT_MS,
    ProbeResults,
    RecentDeaths,
    find_failing_since_ms,
)
from rqtui.engine.rates import MAX_PLAUSIBLE_AGE_MS, NO_RATE, is_plausible_due_time
from rqtui.model import Cause, Finding, Queue, Rate, State, Verdict
from rqtui.system_base.system import quote_for_shell

if TYPE_CHECKING:
    from rqtui.connection.connect import ServerInfo

MIN_ATTEMPTS = 10  # attempts from which on a share of failures is reported: one of three is no pattern
MIN_DEAD_SHARE = 0.01  # of the finished jobs: of a hundred thousand in five minutes some always become dead
MIN_GROWING_MS = 60_000  # a backlog that grows for less time is a burst
UNUSUAL_FACTOR = 3  # times the usual waiting time
NEAR_CAP_SHARE = 0.9
NEAR_MEMORY_SHARE = 0.9
RETRIED_FACTOR = 1.5  # times the limit of failing attempts: a smaller share of which no job died is information
SUDDEN_SHARE = 0.2  # more of the last minute's attempts failed than of the last five: that share is reported
MIN_IDLE_MS = 15_000  # ready jobs that wait while idle workers take none; a worker's poll is a few seconds at most
FAILURE_FIX = "fix the failures first"
IDLE_FIX = "some workers hold no job: find out why (rqtui workers)"
REPLICA_FIX = "connect to its primary, or name the sentinels (redis+sentinel://)"
_SEVERITY_RANKS = {"ok": 0, "info": 1, "unknown": 2, "warning": 3, "critical": 4}
# Of findings with the same severity, the first kind is the verdict: jobs fail, jobs are stuck or lost, nobody works,
# the queue grows, something is old. Kinds that are not named are findings of systems, which report stuck or lost jobs.
_URGENT_KINDS = ("wrong-type", "failing", "dead-grows")
_PATIENT_KINDS = (
    "no-live-worker",
    "idle-workers",
    "long-run",
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
    "dead-near-cap": "the queue keeps hardly more dead jobs: the oldest will be forgotten",
    "dead-grows": "many jobs died in the last five minutes",
    "silent-leases": "jobs are held by workers that stopped sending heartbeats",
    "interrupted": "a job lost at least two leases: it may kill the workers that run it",
    "long-run": "a job runs for much longer than its kind usually does",
    "expired-not-reaped": "leases are over, and nobody reaps",
    "due-not-dispatched": "jobs are due, and nobody dispatches",
    "no-live-worker": "jobs are ready, and no worker sends heartbeats",
    "idle-workers": "jobs are ready, workers are registered, and none of them takes a job",
    "oldest-ready": "a ready job waits for longer than is usual for the queue",
    "backlog-grows": "more jobs come than go, and those that are ready are more than a minute's work",
    "paused": "the queue is paused by a person; this is information, no warning",
    "wrong-type": "a key holds another type than the system's",
    "undecodable": "what is stored cannot be read",
    "lost": "a killed process held jobs that Redis does not have any more: this rqtui alone remembers them",
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
) -> Queue:
    """Return the queue with its findings, the worst first, the facts that its system does not store, and its verdict.

    `remedies` are the fixes of this system, by kind of finding; an empty text means that a finding of the system itself
    reports the same problem, and the finding is left out.
    """
    unknown = _find_unknown_facts(queue)
    findings = [graded for one in queue.findings if (graded := _grade_system_finding(one, thresholds))]
    for check in _RULES:
        finding = check(queue, rate, thresholds, probe_results)
        if finding is not None and (helps := remedies.get(finding.kind, finding.remedy)) != finding.remedy:
            finding = (
                replace(finding, remedy=helps.format(queue=quote_for_shell(queue.name)), key="") if helps else None
            )
        if finding is not None:
            findings.append(finding)
    if not findings:
        if not unknown and not queue.findings:
            return queue
        text = f"ok · {FAILURES} unknown" if FAILURES in unknown else "ok"
        return queue._replace(findings=(), unknown=unknown, verdict=Verdict("ok", text))
    findings = sorted(_advise_failures_first(findings), key=_sort_key)
    return queue._replace(findings=tuple(findings), unknown=unknown, verdict=_build_verdict(findings))


def _advise_failures_first(findings: list[Finding]) -> list[Finding]:
    """Return the findings; while many attempts fail, none of them advises more workers: they would fail as well."""
    if not any(finding.kind == "failing" for finding in findings):
        return findings
    return [
        replace(one, remedy=FAILURE_FIX, key="") if one.kind in ("oldest-ready", "backlog-grows") else one
        for one in findings
    ]


def compute_valid_until_ms(queue: Queue, rate: Rate, limits: Thresholds, results: ProbeResults) -> float:
    """Return the age of the oldest ready job (ms) at which an idle queue must be evaluated again; 0 means every time.

    Returns 0 if a finding states the age, and infinity if no threshold is left. The ages at which a probe is needed
    count as thresholds.
    """
    if any(finding.kind == "oldest-ready" for finding in queue.findings):
        return 0
    age_ms = queue.oldest_ready_ms or 0
    ages = [*limits.late, *_compute_wait_limit(rate, limits, results), SUSPICIOUS_WAIT_MS, MAX_PLAUSIBLE_AGE_MS]
    if rate.idle_since_ms is not None:
        ages.append(age_ms + MIN_IDLE_MS - (queue.counted_ms - rate.idle_since_ms))
    return min((each for each in ages if each is not None and each > age_ms), default=math.inf)


def _sort_key(finding: Finding) -> tuple[float, ...]:
    """Return the sort key of a finding: severity, the kind, the least time left to fix it, then the most jobs."""
    kind = finding.kind
    rank = (
        _URGENT_KINDS.index(kind)
        if kind in _URGENT_KINDS
        else len(_URGENT_KINDS) + (1 + _PATIENT_KINDS.index(kind) if kind in _PATIENT_KINDS else 0)
    )
    until_ms = math.inf if finding.until_ms is None else finding.until_ms
    return -_SEVERITY_RANKS[finding.severity], rank, until_ms, -finding.jobs


def _build_verdict(findings: Sequence[Finding]) -> Verdict:
    """Build the one-line verdict: the worst finding, its detail or the number of other findings, and the fix.

    The severity of a queue with nothing but information is ok.
    """
    worst, more = findings[0], len(findings) - 1
    severity = find_worst_severity(findings)
    behind = f" · {more} more" if more else f", {worst.detail}" if worst.detail else ""
    helps = f": {worst.remedy}" if worst.remedy else f" · {worst.key}" if worst.key else ""
    return _intern_verdict(Verdict(severity, f"{worst.text}{behind}{helps}", worst.kind, worst.until_ms))


@lru_cache(1_000)
def _intern_verdict(verdict: Verdict) -> Verdict:
    """Return one shared object for equal verdicts, to save memory.

    Of ten thousand queues many have the same verdict.
    """
    return verdict


def find_worst_severity(findings: Sequence[Finding]) -> str:
    """Return the worst severity among findings: ok, warning or critical. Information is ok."""
    worst = max((finding.severity for finding in findings), key=_SEVERITY_RANKS.__getitem__, default="ok")
    return "ok" if worst == "info" else worst


def format_finding(finding: Finding, now_ms: int) -> str:
    """Return a finding as one sentence: `51 % of attempts fail since 04:12, mostly CardDeclined`, or `…, 41s left`."""
    from rqtui.text.formats import format_since, format_time_left  # Imported late because most queues have no findings.

    is_dated = finding.since_ms is not None and finding.kind in KINDS_WITH_START
    began = f" since {format_since(finding.since_ms or 0, now_ms)}" if is_dated else ""
    ends = f", {format_time_left(finding.until_ms, now_ms)}" if finding.until_ms is not None else ""
    return f"{finding.text}{began}{ends}{f', {finding.detail}' if finding.detail else ''}"


# -- what cannot be known ----------------------------------------------------------------------------------------------

FAILURES, WORKERS, LEASES, WAITS = "failures", "workers", "leases", "waiting times"


def _find_unknown_facts(queue: Queue) -> tuple[str, ...]:
    """Return which facts a queue's system does not store, judged by missing counters, places, worker lists and ages."""
    if not queue.counts:
        return ()
    places = {count.state for count in queue.counts if count.coverage is None or count.is_known}
    missing = []
    if "failed" not in queue.counters and State.DEAD not in places:
        missing.append(FAILURES)
    if queue.workers is None and not any(finding.kind == "wrong-type" for finding in queue.findings):
        missing.append(WORKERS)
    if State.RESERVED not in places:
        missing.append(LEASES)
    if queue.oldest_ready_ms is None and queue.count_in_state(State.READY):
        missing.append(WAITS)
    return tuple(missing)


_IDLE_KINDS = frozenset({"idle-workers", "no-live-worker", "no-consumer", "at-limit", "rate-limited"})
FAILURES_OF_MINUTES, GROWTH, IDLE_WORKERS = "failures of the last minutes", "growth", "idle workers"
MIN_WATCHED_MS = 1_000  # a command counts a queue twice within milliseconds, which says nothing about minutes
MIN_GROWN = 60  # ready jobs from which on it matters whether a queue grows


def find_unwatched_facts(queue: Queue, rate: Rate) -> tuple[str, ...]:
    """Return which facts a single snapshot cannot know of a queue, because its system stores no history of them."""
    kinds, missing = {finding.kind for finding in queue.findings}, []
    is_unknown = rate.recent.duration_ms < MIN_WATCHED_MS
    ready = 0 if queue.is_paused else queue.count_in_state(State.READY)
    if is_unknown and queue.count_failed() and FAILURES not in queue.unknown:
        missing.append(FAILURES_OF_MINUTES)
    if is_unknown and ready >= MIN_GROWN:
        missing.append(GROWTH)
    if ready and queue.workers is not None and not queue.count_in_state(State.RESERVED) and not kinds & _IDLE_KINDS:
        missing.append(IDLE_WORKERS)
    return tuple(missing)


# -- the checks --------------------------------------------------------------------------------------------------------


def _grade_system_finding(finding: Finding, limits: Thresholds) -> Finding | None:
    """Return a finding of a system's probe with its severity by the thresholds; None if it is below them."""
    if finding.kind != "silent-leases":
        return finding
    severity = limits.silent.classify(finding.jobs)
    return replace(finding, severity=severity) if severity else None


def _check_error(queue: Queue, _rate: Rate, _limits: Thresholds, _known: ProbeResults) -> Finding | None:
    if queue.error and not any(finding.text == queue.error for finding in queue.findings):
        return Finding("wrong-type", "critical", queue.name, queue.error)
    return None


def _check_failures(queue: Queue, rate: Rate, limits: Thresholds, results: ProbeResults) -> Finding | None:
    recent, share = rate.recent, rate.recent.failure_share
    if share is None or recent.completed + recent.failed < MIN_ATTEMPTS:
        return None
    minute, sample = recent.minute_completed + recent.minute_failed, ""
    if minute >= MIN_ATTEMPTS:
        if not recent.minute_failed:
            return None  # The cause is over.
        if recent.minute_failed / minute > share + SUDDEN_SHARE:
            share = recent.minute_failed / minute
            sample = f"{_format_number(recent.minute_failed)} of {_format_number(minute)} in the last minute"
    severity = limits.failing.classify(100 * share)
    if not severity:
        return None
    if not recent.dead and 100 * share < RETRIED_FACTOR * (limits.failing[0] or 100):
        severity = "info"  # A few attempts fail, and none for good: the retries do their work.
    least = next(each for each in limits.failing if each is not None)
    since_ms = find_failing_since_ms(results.failure_shares, least / 100)
    text = f"{100 * share:.0f} % of attempts fail"
    finding = Finding("failing", severity, queue.name, text, key="e", since_ms=since_ms, jobs=recent.failed)
    finding = _add_causes(finding, results.causes)
    return replace(finding, detail=", ".join(filter(None, (sample, finding.detail))))


def _check_dead(queue: Queue, _rate: Rate, limits: Thresholds, results: ProbeResults) -> Finding | None:
    """Report many dead jobs, by how many of them died within a day, or dead jobs near the queue's cap.

    Older dead jobs are information: nothing has to be done now. Dead jobs without dates are graded by their number.
    """
    dead = queue.count_failed()
    cap = queue.counters.get("dead_max", 0)
    near = bool(cap and dead >= NEAR_CAP_SHARE * cap)
    if not dead or not (near or limits.dead.classify(dead)):
        return None
    number, recent = _format_number(dead, queue.is_exact(State.DEAD)), results.recent_deaths
    severity, text = "info", f"{number} dead"
    if recent is None:  # The probe that reads the dates has not run yet.
        jobs = dead
    elif not recent.is_dated:
        severity, text, jobs = limits.dead.classify(dead) or "info", f"{number} dead, since when is unknown", dead
    else:
        severity, jobs = limits.dead.classify(recent.jobs) or "info", recent.jobs or dead
        text = f"{number} dead, {_describe_recent_deaths(recent, dead)}"
    kind, remedy = "dead-many", ""
    if near:
        kind, remedy = "dead-near-cap", "e groups them, R requeues them"
        severity = severity if severity == "critical" else "warning"
        text = f"{number} dead of at most {_format_number(cap)}: the oldest will be forgotten"
    return _add_causes(Finding(kind, severity, queue.name, text, remedy, key="e", jobs=jobs), results.death_causes)


def _describe_recent_deaths(recent: RecentDeaths, dead: int) -> str:
    """Describe how many of the dead jobs died within a day: `none within a day`, `at least 400 within a day`."""
    if recent.jobs >= dead:
        return "all within a day"
    if not recent.jobs:
        return "none within a day"
    return f"{'' if recent.is_exact else 'at least '}{_format_number(recent.jobs)} within a day"


def _check_new_dead(queue: Queue, rate: Rate, limits: Thresholds, results: ProbeResults) -> Finding | None:
    recent = rate.recent
    severity = limits.dying.classify(recent.dead) if recent.dead else ""
    if not severity or recent.dead < MIN_DEAD_SHARE * (recent.completed + recent.dead):
        return None
    text = f"{_format_count(recent.dead, 'job')} died in the last {_format_age(max(1_000, recent.duration_ms))}"
    return _add_causes(Finding("dead-grows", severity, queue.name, text, key="e", jobs=recent.dead), results.causes)


def _check_reaper(queue: Queue, _rate: Rate, limits: Thresholds, _known: ProbeResults) -> Finding | None:
    late = -(queue.next_expiry_ms or 0)
    if not queue.expired or not (severity := limits.late.classify(late)):
        return None
    text = f"{_format_count(queue.expired, 'lease')} expired, nobody reaps for {_format_age(late)}"
    return Finding(
        "expired-not-reaped",
        severity,
        queue.name,
        text,
        ". starts the reaper",
        key=".",
        since_ms=queue.counted_ms - late,
        jobs=queue.expired,
    )


def _check_dispatcher(queue: Queue, rate: Rate, limits: Thresholds, _known: ProbeResults) -> Finding | None:
    """Return a finding if due jobs are not dispatched.

    The delay counts from `rate.due_since_ms`, when the oldest due job could have been dispatched; after a single poll,
    from its due time.
    """
    if not queue.overdue or queue.is_paused:
        return None
    late = -(queue.next_due_ms or 0)
    if rate.due_since_ms is not None:
        late = min(late, queue.counted_ms - rate.due_since_ms)
    severity = limits.late.classify(late)
    if not severity:
        return None
    due_ms: int | None = queue.counted_ms - late
    due = _format_number(queue.overdue, queue.is_exact(State.SCHEDULED))
    if rate.due_since_ms is not None:
        text = f"{due} due, nobody dispatches for {_format_age(late)}"
    elif is_plausible_due_time(queue.counted_ms - late, queue.counted_ms):
        from rqtui.text.formats import format_moment  # Imported late because it is rarely needed.

        text = f"{due} due since {format_moment(due_ms)}, nobody dispatches"
    else:
        text, due_ms = f"{due} due, nobody dispatches", None
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


def _check_workers(queue: Queue, rate: Rate, limits: Thresholds, _known: ProbeResults) -> Finding | None:
    waits_ms = queue.oldest_ready_ms
    if waits_ms is None and queue.workers == 0 and rate.idle_since_ms is not None:  # The system stores no such age.
        waits_ms = queue.counted_ms - rate.idle_since_ms
    if queue.workers != 0 or queue.is_paused or rate.out_s != 0 or not waits_ms:
        return None
    severity = limits.late.classify(waits_ms)
    if not severity or not (waiting := queue.count_in_state(State.READY)):
        return None
    return Finding(
        "no-live-worker",
        severity,
        queue.name,
        f"no live worker for {_format_count(waiting, 'ready job')}",
        "start one: rqtui work",
        key="w",
        since_ms=queue.counted_ms - waits_ms,
        jobs=waiting,
    )


def _check_oldest_ready(queue: Queue, rate: Rate, limits: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a ready job that waits longer than usual.

    Without history, or with a configured limit, the limit decides.
    """
    waits_ms = queue.oldest_ready_ms or 0
    if not waits_ms or queue.is_paused or queue.workers == 0:
        return None
    if not is_plausible_due_time(queue.counted_ms - waits_ms, queue.counted_ms):  # A score of 1970 is no age.
        return None
    usual_ms = _find_usual_wait_ms(rate, results)
    severity = _compute_wait_limit(rate, limits, results).classify(waits_ms)
    if not severity:
        return None
    text = f"the oldest ready job waits for {_format_age(waits_ms)}"
    detail = "" if usual_ms is None else f"usually {_format_age(usual_ms) if usual_ms >= 1_000 else 'less than 1 s'}"
    return Finding(
        "oldest-ready",
        severity,
        queue.name,
        text,
        "add workers, w shows them",
        key="w",
        detail=detail,
        since_ms=queue.counted_ms - waits_ms,
        jobs=queue.count_in_state(State.READY),
    )


def _find_usual_wait_ms(rate: Rate, results: ProbeResults) -> int | None:
    return results.usual_wait_ms if results.usual_wait_ms is not None else rate.usual_wait_ms


def _compute_wait_limit(rate: Rate, limits: Thresholds, results: ProbeResults) -> Limit:
    usual_ms, is_own = _find_usual_wait_ms(rate, results), limits.waiting != DEFAULTS.waiting
    return limits.waiting if is_own or usual_ms is None else Limit(max(SUSPICIOUS_WAIT_MS, UNUSUAL_FACTOR * usual_ms))


def _check_idle_workers(queue: Queue, rate: Rate, _limits: Thresholds, results: ProbeResults) -> Finding | None:
    """Report ready jobs that no registered worker takes: the workers are quiet, were killed, or listen elsewhere.

    A worker that was killed stays registered until its record expires. Idle workers are reported only after the queue
    was watched while no job was taken: a single poll may fall between two jobs of a busy worker.
    """
    workers, ready = results.workers, queue.count_in_state(State.READY)
    if not workers or not ready or not queue.workers or queue.is_paused or queue.count_in_state(State.RESERVED):
        return None
    if any(finding.kind == "at-limit" for finding in queue.findings):
        return None
    jobs, since_ms = _format_count(ready, "ready job"), rate.idle_since_ms
    if workers.quiet == workers.total:
        text = f"{_format_count(workers.quiet, 'worker')} {_verb(workers.quiet, 'is')} quiet, nobody takes {jobs}"
        remedy = "start a worker that is not quiet"
    elif workers.idle and since_ms is not None and queue.counted_ms - since_ms >= MIN_IDLE_MS:
        text = f"{_format_count(workers.idle, 'idle worker')} {_verb(workers.idle, 'takes')} none of {jobs}"
        remedy = "restart them, w shows them"
    else:
        return None
    return Finding("idle-workers", "warning", queue.name, text, remedy, key="w", since_ms=since_ms, jobs=ready)


def _verb(number: int, singular: str) -> str:
    """Return a verb in the number of its subject: `is` or `are`, `takes` or `take`."""
    return singular if number == 1 else {"is": "are", "takes": "take", "does": "do"}[singular]


def _check_long_run(queue: Queue, _rate: Rate, _limits: Thresholds, results: ProbeResults) -> Finding | None:
    """Report a job that runs for much longer than the ended runs of its kind did. The worker may be stuck in it."""
    run = results.long_run
    if run is None or not queue.count_in_state(State.RESERVED):
        return None
    from rqtui.text.formats import format_duration  # Imported late because it is rarely needed.
    from rqtui.text.sanitise import format_id, safe

    where = f" on {safe(run.worker)}" if run.worker else ""
    text = (
        f"job {format_id(run.id)} ({safe(run.name)}) has been running for "
        f"{_format_age(queue.counted_ms - run.begin_ms)}{where}"
    )
    detail = f"usually {format_duration(run.usual_ms)} (median of {_format_count(run.sampled, 'ended run')})"
    if run.jobs > 1:
        detail += f"; so {_verb(run.jobs - 1, 'does')} {_format_count(run.jobs - 1, 'other job')}"
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


def _check_backlog(queue: Queue, rate: Rate, limits: Thresholds, _known: ProbeResults) -> Finding | None:
    """Report a queue that grows while its ready jobs are more work than the backlog limit allows.

    All numbers are of the same window. A queue that grew in it and does not grow any more is not reported.
    """
    recent = rate.recent
    if recent.growing_ms < MIN_GROWING_MS or recent.growing_ready <= 0 or queue.is_paused or queue.workers == 0:
        return None
    if recent.latest_growth is not None and recent.latest_growth <= 0:
        return None
    ready = queue.count_in_state(State.READY)
    growth_s = 1000 * recent.growing_ready / recent.growing_ms
    out_s = 1000 * recent.growing_ended / recent.growing_ms
    severity = limits.backlog.classify(1000 * ready / max(1.0, out_s))
    if growth_s < 1 or not severity:
        return None
    window = _format_age(recent.growing_ms)
    text = f"grows by {_format_rate(growth_s)}/s, {_format_rate(out_s)}/s leave (last {window})"
    reserved = queue.count_in_state(State.RESERVED)
    if queue.workers and queue.is_exact(State.RESERVED) and reserved < queue.workers:
        return Finding("backlog-grows", severity, queue.name, text, IDLE_FIX, jobs=ready)
    return Finding("backlog-grows", severity, queue.name, text, "add workers, w shows them", key="w", jobs=ready)


def _check_paused(queue: Queue, _rate: Rate, _limits: Thresholds, _known: ProbeResults) -> Finding | None:
    if not queue.is_paused or any(finding.key == "P" for finding in queue.findings):
        return None  # A finding of the system that the same key fixes already says that the queue is paused.
    finding = Finding("paused", "info", queue.name, "paused", "P resumes it", key="P", since_ms=queue.paused_ms)
    return replace(finding, jobs=queue.count_in_state(State.READY))


_RULES: tuple[Rule, ...] = (
    _check_error,
    _check_failures,
    _check_dead,
    _check_new_dead,
    _check_reaper,
    _check_dispatcher,
    _check_workers,
    _check_idle_workers,
    _check_long_run,
    _check_oldest_ready,
    _check_backlog,
    _check_paused,
)


def _add_causes(finding: Finding, causes: tuple[Cause, ...]) -> Finding:
    """Return the finding with its causes, if there are any, and the most frequent one as its detail."""
    return replace(finding, detail=f"mostly {causes[0].text}", causes=causes) if causes else finding


def find_server_problems(client: Any) -> list[Finding]:
    """Return the findings about the server, or about each node of a Cluster. Returns none where INFO is denied."""
    from rqtui.connection.connect import probe, translate_errors

    with translate_errors():
        servers = list_nodes(client)
    return [
        finding
        for server in servers
        for finding in _add_node_address(server, servers, _check_node(server, probe, len(servers)))
    ]


def find_urgent_server_problems(client: Any) -> tuple[Finding, ...]:
    """Return the findings about the server's role, memory and eviction policy, in one round trip per node.

    Returns none without a reply. The commands report the critical ones when they connect, the screen all at intervals.
    """
    from redis.exceptions import RedisError

    from rqtui.connection.connect import build_server_info

    findings: list[Finding] = []
    with contextlib.suppress(RedisError, OSError):
        servers = list_nodes(client)
        for server in servers:
            with contextlib.suppress(RedisError, OSError):
                pipe = server.pipeline(transaction=False)
                for section in ("memory", "replication"):  # Redis 6.2 takes one section at a time
                    pipe.info(section)
                replies = [reply for reply in pipe.execute(raise_on_error=False) if isinstance(reply, dict)]
                info = build_server_info(
                    {}, {str(name): str(value) for each in replies for name, value in each.items()}, {}
                )
                findings += _add_node_address(server, servers, check_server_info(info))
    return tuple(findings)


def _check_node(server: Any, probe: Callable[[Any], ServerInfo], number: int) -> list[Finding]:
    from rqtui.errors import Unreachable

    try:
        return check_server_info(probe(server))
    except Unreachable as error:
        if number == 1:
            raise
        return [Finding("node-away", "critical", "", str(error), "bring it back, or let a replica take over")]


def _add_node_address(server: Any, servers: list[Any], findings: list[Finding]) -> list[Finding]:
    """Return the findings of one server; if it is one of several nodes, with its address in the text."""
    if len(servers) == 1:
        return findings
    address = server.connection_pool.connection_kwargs
    return [
        replace(finding, text=f"{address.get('host')}:{address.get('port')}: {finding.text}") for finding in findings
    ]


def check_server_info(info: ServerInfo) -> list[Finding]:
    """Return the findings about a server from its INFO and settings, without a round trip.

    Of the eviction policies only `allkeys-…` are reported: `volatile-…` policies evict only keys with a time to live,
    and no key of a job has one.
    """
    findings = []
    if info.is_read_only:
        text = "the server is a read-only replica: every change is refused, also each put and each lease"
        findings.append(Finding("read-only-replica", "critical", "", text, REPLICA_FIX))
    policy, used, most = info.policy, info.used_bytes or 0, info.maxmemory_bytes
    if policy.startswith("allkeys") and most:
        text = f"the server evicts keys when memory is full (maxmemory-policy {policy}): jobs can vanish"
        findings.append(Finding("eviction", "critical", "", text, "CONFIG SET maxmemory-policy noeviction"))
    if most and used >= most:
        text = "memory is full (maxmemory): new jobs are refused, what is there goes on"
        findings.append(Finding("memory", "critical", "", text, "let workers drain, or raise maxmemory"))
    elif most and used >= NEAR_MEMORY_SHARE * most:
        text = f"memory is {100 * used // most} % full: new jobs will soon be refused"
        findings.append(Finding("memory", "warning", "", text, "raise maxmemory, or drain"))
    if info.is_persistent is False:
        text = "the server keeps nothing on disk: a restart loses every job"
        findings.append(Finding("no-persistence", "warning", "", text, "CONFIG SET appendonly yes"))
    return findings


def _format_count(number: int, noun: str, exact: bool = True) -> str:
    from rqtui.text.formats import format_quantity  # Imported late because most queues have no findings.

    return format_quantity(number, noun, exact=exact)


def _format_number(number: int, exact: bool = True) -> str:
    from rqtui.text.formats import format_count

    return format_count(number, exact, 11)


def _format_rate(jobs_s: float) -> str:
    """Format jobs per second: `0.4`, `28`, `1 200`."""
    return f"{jobs_s:.1f}" if jobs_s < 10 else _format_number(round(jobs_s))


def _format_age(ms: int) -> str:
    seconds = ms // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
