"""Health: what the counts of a queue say is wrong, in words, with the keys and the remedy.

Pure functions from a counted queue to findings, and one look at the server's settings. The overview's verdict, the
board's footer, `rqtui health` and `rqtui snapshot` all read from here. Thresholds are constants, with their reasons.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rqtui.connection.nodes import nodes
from rqtui.engine.rates import NO_RATE, is_plausible
from rqtui.model import Finding, Queue, Rate, State, Verdict

if TYPE_CHECKING:
    from rqtui.connection.connect import ServerInfo

LATE_MS = 5_000  # a loop that looks once a second, and its back-off, are late by less
OLD_READY_MS = 300_000
NEAR_CAP = 0.9
MEMORY_NEAR = 0.9
_RANK = {"ok": 0, "unknown": 1, "warning": 2, "critical": 3}


def judged(queue: Queue, rate: Rate = NO_RATE) -> Queue:
    """The queue with its findings, worst first, and the verdict of the worst."""
    found = [*queue.findings]
    for check in _CHECKS:
        finding = check(queue, rate)
        if finding is not None:
            found.append(finding)
    if not found:
        return queue
    found.sort(key=lambda finding: -_RANK[finding.severity])
    worst = found[0]
    text = f"{worst.text}: {worst.remedy}" if worst.remedy else worst.text
    return replace(queue, findings=tuple(found), verdict=Verdict(worst.severity, text, worst.kind))


def severity(findings: list[Finding]) -> str:
    """The worst severity among findings: ok, warning or critical."""
    return max((finding.severity for finding in findings), key=_RANK.__getitem__, default="ok")


def _broken(queue: Queue, _rate: Rate) -> Finding | None:
    if queue.error and not any(finding.text == queue.error for finding in queue.findings):
        return Finding("wrong-type", "critical", queue.name, queue.error)
    return None


def _not_reaped(queue: Queue, _rate: Rate) -> Finding | None:
    late = -(queue.next_expiry_ms or 0)
    if not queue.expired or late < LATE_MS:
        return None
    text = f"{_jobs(queue.expired, 'lease')} expired, nobody reaps for {_age(late)}"
    return Finding("expired-not-reaped", "warning", queue.name, text, ". starts the reaper")


def _not_dispatched(queue: Queue, rate: Rate) -> Finding | None:
    """Counted from when the jobs could have been dispatched; who looks once has their word alone for it."""
    late = -(queue.next_due_ms or 0)
    if rate.due_since_ms is not None:
        late = min(late, queue.counted_ms - rate.due_since_ms)
    if not queue.overdue or late < LATE_MS or queue.paused:
        return None
    due_ms = queue.counted_ms - late
    if rate.due_since_ms is not None:
        text = f"{queue.overdue} due, nobody dispatches for {_age(late)}"
    elif is_plausible(due_ms, queue.counted_ms):
        from rqtui.text.formats import moment  # rarely

        text = f"{queue.overdue} due since {moment(due_ms)}, nobody dispatches"
    else:
        text = f"{queue.overdue} due, nobody dispatches"
    return Finding("due-not-dispatched", "warning", queue.name, text, ", starts the dispatcher")


def _no_worker(queue: Queue, rate: Rate) -> Finding | None:
    if queue.workers != 0 or queue.paused or rate.out_s != 0 or (queue.oldest_ready_ms or 0) < LATE_MS:
        return None
    waiting = queue.count_in(State.READY)
    if not waiting:
        return None
    text = f"no live worker for {_jobs(waiting, 'ready job')}"
    return Finding("no-live-worker", "warning", queue.name, text, "start one: rqtui work")


def _old(queue: Queue, _rate: Rate) -> Finding | None:
    age = queue.oldest_ready_ms or 0
    if age < OLD_READY_MS or queue.paused or queue.workers == 0:
        return None
    text = f"the oldest ready job waits for {_age(age)}"
    return Finding("oldest-ready", "warning", queue.name, text, "add workers, w shows them")


def _grows(queue: Queue, rate: Rate) -> Finding | None:
    growth = rate.in_s - rate.out_s
    if growth < 1 or len(rate.history) < 10 or queue.count_in(State.READY) <= 60 * max(1.0, rate.out_s):
        return None
    who = "it is drained" if queue.workers is None else f"{_jobs(queue.workers, 'worker')} drain it"
    text = f"grows {growth:.0f}/s faster than {who}"
    return Finding("backlog-grows", "warning", queue.name, text, "add workers, w shows them")


def _near_cap(queue: Queue, _rate: Rate) -> Finding | None:
    cap = queue.counters.get("dead_max", 0)
    if not cap or (dead := queue.count_in(State.DEAD)) < NEAR_CAP * cap:
        return None
    text = f"{dead} dead of at most {cap}: the oldest will be forgotten"
    return Finding("dead-near-cap", "warning", queue.name, text, "e groups them, R requeues them")


def _paused(queue: Queue, _rate: Rate) -> Finding | None:
    return Finding("paused", "warning", queue.name, "paused", "P resumes it") if queue.paused else None


_CHECKS: tuple[Callable[[Queue, Rate], Finding | None], ...] = (
    _broken,
    _not_reaped,
    _not_dispatched,
    _no_worker,
    _old,
    _grows,
    _near_cap,
    _paused,
)


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


def _jobs(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _age(ms: int) -> str:
    seconds = ms // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
