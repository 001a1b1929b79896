"""Health: what the counts of a queue say is wrong, in words, with the keys and the remedy.

Pure functions from a counted queue to findings, and one look at the server's settings. The overview's verdict, the
board's findings, `rqtui health` and `rqtui snapshot` all read from here. From when on a number is a finding, the
thresholds say (`config/thresholds.py`); the page for people is `docs/health.md`.
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
from rqtui.connection.nodes import nodes
from rqtui.engine.inspection import NOTHING, SUSPECT_MS, Known, failing_since_ms
from rqtui.engine.rates import NO_RATE, PLAUSIBLE_MS, is_plausible
from rqtui.layout.layout import typed
from rqtui.model import Cause, Finding, Queue, Rate, State, Verdict

if TYPE_CHECKING:
    from rqtui.connection.connect import ServerInfo

LEAST_ATTEMPTS = 10  # that a share of failures is told of: one of three is no pattern
LEAST_DEAD = 10  # that a share of dead jobs is told of
LEAST_DYING = 0.01  # of the jobs that ended: of a hundred thousand in five minutes some always die
LEAST_GROWING_MS = 60_000  # a backlog that grows for less is a burst
UNUSUAL = 3  # times as long as usual
NEAR_CAP = 0.9
MEMORY_NEAR = 0.9
_RANK = {"ok": 0, "unknown": 1, "warning": 2, "critical": 3}
DATED = frozenset({"failing", "paused", "silent-leases"})  # kinds whose text says not for how long it has been so

KINDS = {  # of findings about a queue and about the server; `docs/health.md` lists them with those of the systems
    "failing": "a large share of the attempts of the last five minutes failed",
    "dead-many": "many jobs are dead",
    "dead-share": "most of the jobs of the queue are dead",
    "dead-near-cap": "the queue keeps hardly more dead jobs: the oldest will be forgotten",
    "dead-grows": "many jobs died in the last five minutes",
    "silent-leases": "jobs are held by workers that do not beat, late by their own word or silent for a minute",
    "expired-not-reaped": "leases are over, and nobody reaps",
    "due-not-dispatched": "jobs are due, and nobody dispatches",
    "no-live-worker": "jobs are ready, and no worker beats",
    "oldest-ready": "a ready job waits for longer than is usual for the queue",
    "backlog-grows": "more jobs come than go, and those that are ready are more than a minute's work",
    "paused": "the queue is paused",
    "wrong-type": "a key holds another type than the system's",
    "undecodable": "what is stored cannot be read",
    "lost": "a killed process held jobs that Redis does not have any more: this rqtui alone remembers them",
    "eviction": "the server evicts keys when its memory is full",
    "memory": "the server's memory is full, or nearly",
    "no-persistence": "the server keeps nothing on disk",
    "clock-skew": "the clocks of the server and of this machine differ",
    "unusable-system": "a package brings a system that cannot be used",
    "node-away": "a node of the Cluster does not answer",
}

Check = Callable[[Queue, Rate, Thresholds, Known], Finding | None]


def judged(
    queue: Queue,
    rate: Rate = NO_RATE,
    limits: Thresholds = DEFAULTS,
    known: Known = NOTHING,
    remedies: Mapping[str, str] = MappingProxyType({}),
) -> Queue:
    """The queue with its findings, the worst first, what nobody can know of it, and the verdict of the worst.

    `remedies` are what helps in this system, by kind; where that is nothing, its own faults tell the same.
    """
    unknown = _unknown(queue)
    found = [graded for one in queue.findings if (graded := _graded(one, limits))]
    for check in _CHECKS:
        finding = check(queue, rate, limits, known)
        if finding is not None and (helps := remedies.get(finding.kind, finding.remedy)) != finding.remedy:
            finding = replace(finding, remedy=helps.format(queue=typed(queue.name)), key="") if helps else None
        if finding is not None:
            found.append(finding)
    if not found:
        if not unknown and not queue.findings:
            return queue
        text = f"ok · {FAILURES} unknown" if FAILURES in unknown else "ok"
        return queue._replace(findings=(), unknown=unknown, verdict=Verdict("ok", text))
    found.sort(key=_order)
    return queue._replace(findings=tuple(found), unknown=unknown, verdict=_verdict(found))


def until_ms(queue: Queue, rate: Rate, limits: Thresholds, known: Known) -> float:
    """How old the oldest ready job of a judged queue gets until it is judged otherwise, or may need another look, if
    nothing but time goes on; 0 where a finding tells an age."""
    if any(finding.kind == "oldest-ready" for finding in queue.findings):
        return 0
    ages = (*limits.late, *_longest_wait(rate, limits, known), SUSPECT_MS, PLAUSIBLE_MS)
    age_ms = queue.oldest_ready_ms or 0
    return min((each for each in ages if each is not None and each > age_ms), default=math.inf)


def _order(found: Finding) -> tuple[float, ...]:
    """The worst first; of equals what can be mended for the shortest time, then the fault before what comes of it."""
    return -_RANK[found.severity], math.inf if found.until_ms is None else found.until_ms, -found.jobs


def _verdict(found: Sequence[Finding]) -> Verdict:
    """The worst finding in a line: what, why or how many more there are, and what helps."""
    worst, more = found[0], len(found) - 1
    behind = f" · {more} more" if more else f", {worst.detail}" if worst.detail else ""
    helps = f": {worst.remedy}" if worst.remedy else f" · {worst.key}" if worst.key else ""
    return _same(Verdict(worst.severity, f"{worst.text}{behind}{helps}", worst.kind, worst.until_ms))


@lru_cache(1_000)
def _same(verdict: Verdict) -> Verdict:
    """The same object for the same words: of ten thousand queues many are ill alike."""
    return verdict


def severity(findings: Sequence[Finding]) -> str:
    """The worst severity among findings: ok, warning or critical."""
    return max((finding.severity for finding in findings), key=_RANK.__getitem__, default="ok")


def sentence(finding: Finding, now_ms: int) -> str:
    """A finding where there is room: `51 % of attempts fail since 04:12, mostly CardDeclined`, `…, 41s left`."""
    from rqtui.text.formats import left, since  # late: most queues are well

    is_dated = finding.since_ms is not None and finding.kind in DATED
    began = f" since {since(finding.since_ms or 0, now_ms)}" if is_dated else ""
    ends = f", {left(finding.until_ms, now_ms)}" if finding.until_ms is not None else ""
    return f"{finding.text}{began}{ends}{f', {finding.detail}' if finding.detail else ''}"


# -- what cannot be known ----------------------------------------------------------------------------------------------

FAILURES, WORKERS, LEASES, WAITS = "failures", "workers", "leases", "waiting times"


def _unknown(queue: Queue) -> tuple[str, ...]:
    """What its system keeps nothing of, by what was counted: no counter, no place, no list, no age."""
    if not queue.counts:
        return ()
    places = {count.state for count in queue.counts if count.heard is None or count.is_known}
    missing = []
    if "failed" not in queue.counters and State.DEAD not in places:
        missing.append(FAILURES)
    if queue.workers is None and not any(found.kind == "wrong-type" for found in queue.findings):
        missing.append(WORKERS)
    if State.RESERVED not in places:
        missing.append(LEASES)
    if queue.oldest_ready_ms is None and queue.count_in(State.READY):
        missing.append(WAITS)
    return tuple(missing)


# -- the checks --------------------------------------------------------------------------------------------------------


def _graded(finding: Finding, limits: Thresholds) -> Finding | None:
    """A finding of a closer look, which knows no thresholds; None where it is below them."""
    if finding.kind != "silent-leases":
        return finding
    severity = limits.silent.severity(finding.jobs)
    return replace(finding, severity=severity) if severity else None


def _broken(queue: Queue, _rate: Rate, _limits: Thresholds, _known: Known) -> Finding | None:
    if queue.error and not any(finding.text == queue.error for finding in queue.findings):
        return Finding("wrong-type", "critical", queue.name, queue.error)
    return None


def _fails(queue: Queue, rate: Rate, limits: Thresholds, known: Known) -> Finding | None:
    lately, share = rate.lately, rate.lately.failing
    if share is None or lately.done + lately.failed < LEAST_ATTEMPTS:
        return None
    severity = limits.failing.severity(100 * share)
    if not severity:
        return None
    least = next(each for each in limits.failing if each is not None)
    since_ms = failing_since_ms(known.failing, least / 100)
    text = f"{100 * share:.0f} % of attempts fail"
    found = Finding("failing", severity, queue.name, text, key="e", since_ms=since_ms, jobs=lately.failed)
    return _explained(found, known.causes)


def _dead(queue: Queue, _rate: Rate, limits: Thresholds, known: Known) -> Finding | None:
    """One finding about the dead: that they are near the most the queue keeps, many, or most of its jobs."""
    dead = queue.count_failed()
    if not dead:
        return None
    total = sum(count.count for count in queue.counts)
    cap = queue.counters.get("dead_max", 0)
    near = "warning" if cap and dead >= NEAR_CAP * cap else ""
    many = limits.dead.severity(dead)
    share = limits.dead_share.severity(100 * dead / total) if dead >= LEAST_DEAD else ""
    worst = max(near, many, share, key=lambda each: _RANK.get(each, 0))
    if not worst:
        return None
    exact = queue.is_exact(State.DEAD)
    number = _number(dead, exact)
    jobs = _counted(total, "job", all(count.exact for count in queue.counts))
    told = f"{number} of {jobs} are dead" if share else f"{number} dead"
    kind, text, remedy = "dead-many" if many else "dead-share", told, ""
    if near:
        kind, remedy = "dead-near-cap", "e groups them, R requeues them"
        text = f"{number} dead of at most {_number(cap)}: the oldest will be forgotten"
    return _explained(Finding(kind, worst, queue.name, text, remedy, key="e", jobs=dead), known.deaths)


def _dying(queue: Queue, rate: Rate, limits: Thresholds, known: Known) -> Finding | None:
    lately = rate.lately
    severity = limits.dying.severity(lately.died) if lately.died else ""
    if not severity or lately.died < LEAST_DYING * (lately.done + lately.died):
        return None
    text = f"{_counted(lately.died, 'job')} died in the last {_age(max(1_000, lately.ms))}"
    return _explained(Finding("dead-grows", severity, queue.name, text, key="e", jobs=lately.died), known.causes)


def _not_reaped(queue: Queue, _rate: Rate, limits: Thresholds, _known: Known) -> Finding | None:
    late = -(queue.next_expiry_ms or 0)
    if not queue.expired or not (severity := limits.late.severity(late)):
        return None
    text = f"{_counted(queue.expired, 'lease')} expired, nobody reaps for {_age(late)}"
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


def _not_dispatched(queue: Queue, rate: Rate, limits: Thresholds, _known: Known) -> Finding | None:
    """Counted from when the jobs could have been dispatched; who looks once has their word alone for it."""
    if not queue.overdue or queue.paused:
        return None
    late = -(queue.next_due_ms or 0)
    if rate.due_since_ms is not None:
        late = min(late, queue.counted_ms - rate.due_since_ms)
    severity = limits.late.severity(late)
    if not severity:
        return None
    due_ms: int | None = queue.counted_ms - late
    due = _number(queue.overdue, queue.is_exact(State.SCHEDULED))
    if rate.due_since_ms is not None:
        text = f"{due} due, nobody dispatches for {_age(late)}"
    elif is_plausible(queue.counted_ms - late, queue.counted_ms):
        from rqtui.text.formats import moment  # rarely

        text = f"{due} due since {moment(due_ms)}, nobody dispatches"
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


def _no_worker(queue: Queue, rate: Rate, limits: Thresholds, _known: Known) -> Finding | None:
    waits_ms = queue.oldest_ready_ms or 0
    if queue.workers != 0 or queue.paused or rate.out_s != 0 or not waits_ms:
        return None
    severity = limits.late.severity(waits_ms)
    if not severity or not (waiting := queue.count_in(State.READY)):
        return None
    return Finding(
        "no-live-worker",
        severity,
        queue.name,
        f"no live worker for {_counted(waiting, 'ready job')}",
        "start one: rqtui work",
        key="w",
        since_ms=queue.counted_ms - waits_ms,
        jobs=waiting,
    )


def _old(queue: Queue, rate: Rate, limits: Thresholds, known: Known) -> Finding | None:
    """Beyond what is usual for this queue; without a history, or with a limit of its own, beyond the limit."""
    waits_ms = queue.oldest_ready_ms or 0
    if not waits_ms or queue.paused or queue.workers == 0:
        return None
    if not is_plausible(queue.counted_ms - waits_ms, queue.counted_ms):  # a score of 1970 is no age
        return None
    usual_ms = _usual_ms(rate, known)
    severity = _longest_wait(rate, limits, known).severity(waits_ms)
    if not severity:
        return None
    text = f"the oldest ready job waits for {_age(waits_ms)}"
    detail = "" if usual_ms is None else f"usually {_age(usual_ms) if usual_ms >= 1_000 else 'less than 1 s'}"
    return Finding(
        "oldest-ready",
        severity,
        queue.name,
        text,
        "add workers, w shows them",
        key="w",
        detail=detail,
        since_ms=queue.counted_ms - waits_ms,
        jobs=queue.count_in(State.READY),
    )


def _usual_ms(rate: Rate, known: Known) -> int | None:
    return known.usual_ms if known.usual_ms is not None else rate.usual_ms


def _longest_wait(rate: Rate, limits: Thresholds, known: Known) -> Limit:
    usual_ms, is_own = _usual_ms(rate, known), limits.waiting != DEFAULTS.waiting
    return limits.waiting if is_own or usual_ms is None else Limit(max(SUSPECT_MS, UNUSUAL * usual_ms))


def _grows(queue: Queue, rate: Rate, limits: Thresholds, _known: Known) -> Finding | None:
    """More comes than goes, and what is ready is already more than a limit's worth of work."""
    lately = rate.lately
    if lately.ms < LEAST_GROWING_MS or lately.grew <= 0 or queue.paused or queue.workers == 0:
        return None
    ready = queue.count_in(State.READY)
    growth_s, out_s = 1000 * lately.grew / lately.ms, 1000 * (lately.done + lately.died) / lately.ms
    severity = limits.backlog.severity(1000 * ready / max(1.0, out_s))
    if growth_s < 1 or not severity:
        return None
    who = "it is drained" if queue.workers is None else f"{_counted(queue.workers, 'worker')} {_verb(queue.workers)} it"
    text = f"grows {growth_s:.0f}/s faster than {who}"
    return Finding("backlog-grows", severity, queue.name, text, "add workers, w shows them", key="w", jobs=ready)


def _paused(queue: Queue, _rate: Rate, _limits: Thresholds, _known: Known) -> Finding | None:
    if not queue.paused or any(found.key == "P" for found in queue.findings):
        return None  # a fault that the same key mends says that it is paused
    found = Finding("paused", "warning", queue.name, "paused", "P resumes it", key="P", since_ms=queue.paused_ms)
    return replace(found, jobs=queue.count_in(State.READY))


_CHECKS: tuple[Check, ...] = (
    _broken,
    _fails,
    _dead,
    _dying,
    _not_reaped,
    _not_dispatched,
    _no_worker,
    _old,
    _grows,
    _paused,
)


def _explained(finding: Finding, causes: tuple[Cause, ...]) -> Finding:
    """With the causes, as far as they are known, and the most frequent in its detail."""
    return replace(finding, detail=f"mostly {causes[0].text}", causes=causes) if causes else finding


def server_findings(client: Any) -> list[Finding]:
    """What of the server endangers jobs, of each node of a Cluster; nothing where it cannot be read (INFO denied)."""
    from rqtui.connection.connect import probe, translated

    with translated():
        servers = nodes(client)
    return [finding for server in servers for finding in _placed(server, servers, _probed(server, probe, len(servers)))]


def urgent(client: Any) -> tuple[Finding, ...]:
    """What is critical about the server's memory, in one short look at each node; nothing where there is no answer.

    The commands say it when they connect, the screen once in a while.
    """
    from redis.exceptions import RedisError

    from rqtui.connection.connect import server_info

    found: list[Finding] = []
    with contextlib.suppress(RedisError, OSError):
        servers = nodes(client)
        for server in servers:
            with contextlib.suppress(RedisError, OSError):
                told = server.info("memory")
                info = server_info({}, {str(name): str(value) for name, value in told.items()}, {})
                found += _placed(server, servers, [one for one in findings_of(info) if one.severity == "critical"])
    return tuple(found)


def _probed(server: Any, probe: Callable[[Any], ServerInfo], number: int) -> list[Finding]:
    from rqtui.errors import Unreachable

    try:
        return findings_of(probe(server))
    except Unreachable as error:
        if number == 1:
            raise
        return [Finding("node-away", "critical", "", str(error), "bring it back, or let a replica take over")]


def _placed(server: Any, servers: list[Any], found: list[Finding]) -> list[Finding]:
    """The findings of one server; of one node among several it is told which."""
    if len(servers) == 1:
        return found
    at = server.connection_pool.connection_kwargs
    return [replace(one, text=f"{at.get('host')}:{at.get('port')}: {one.text}") for one in found]


def findings_of(info: ServerInfo) -> list[Finding]:
    """The same of a server that was asked before.

    Of the policies only `allkeys-…` are a danger: `volatile-…` evict what has a time to live, as no key of a job has.
    """
    found = []
    policy, used, most = info.policy, info.used_bytes or 0, info.maxmemory_bytes
    if policy.startswith("allkeys") and most:
        text = f"the server evicts keys when memory is full (maxmemory-policy {policy}): jobs can vanish"
        found.append(Finding("eviction", "critical", "", text, "CONFIG SET maxmemory-policy noeviction"))
    if most and used >= most:
        text = "memory is full (maxmemory): new jobs are refused, what is there goes on"
        found.append(Finding("memory", "critical", "", text, "let workers drain, or raise maxmemory"))
    elif most and used >= MEMORY_NEAR * most:
        text = f"memory is {100 * used // most} % full: new jobs will soon be refused"
        found.append(Finding("memory", "warning", "", text, "raise maxmemory, or drain"))
    if info.is_persistent is False:
        text = "the server keeps nothing on disk: a restart loses every job"
        found.append(Finding("no-persistence", "warning", "", text, "CONFIG SET appendonly yes"))
    return found


def _counted(number: int, noun: str, exact: bool = True) -> str:
    from rqtui.text.formats import numbered  # late: most queues are well

    return numbered(number, noun, exact=exact)


def _number(number: int, exact: bool = True) -> str:
    from rqtui.text.formats import count

    return count(number, exact, 11)


def _verb(workers: int) -> str:
    return "drains" if workers == 1 else "drain"


def _age(ms: int) -> str:
    seconds = ms // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
