"""Judge by the locks of running jobs whether their workers were killed, and whether a job runs twice.

A worker renews the lock of each of its jobs when half of the time is over. `system` updates the holders of locks with
each probe. Redis does not store when a lock was renewed, so the findings depend on what this process saw before.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rqtui.model import Finding
from rqtui.scripts.script import Reply
from rqtui.system_base.foreign_system import convert_rows_to_dicts
from rqtui.systems.bullmq.workers import LOCK_MS, WorkerConnections
from rqtui.text.formats import format_quantity
from rqtui.text.names import to_text

_RUNNERS_S = 120.0  # longer than a lock and the check for stalled jobs, after which another worker takes the job
_MIN_RENEWAL_MS = 1_000  # a lock that ends later by as much was renewed, or belongs to a new run
_LATE_RENEWAL_MS = 1_000  # how late a living worker may renew a lock


class _Runners(NamedTuple):
    """The first and the current worker of a running job, and when the job was last seen (s by `time.monotonic`)."""

    first: str
    last: str
    seen_s: float


class _Holder(NamedTuple):
    """A worker with running jobs. It renews each of their locks when half of the time is over (lockRenewTime)."""

    name: str  # empty: it has none
    ids: tuple[bytes, ...]  # its jobs
    left_ms: int  # until its last lock ends
    ends_ms: int  # when that is
    longest_ms: int  # the longest time left that was seen: its lockDuration is not shorter
    renewed_ms: int = 0  # when it was last seen to have renewed a lock, or taken a job; 0: never
    missing_ms: int = 0  # since when it, or one of several unnamed workers, has no connection; 0: that is not so

    @classmethod
    def update(cls, previous: _Holder | None, runs: Sequence[Mapping[str, Any]], now_ms: int) -> _Holder:
        """Return the state of a worker from the runs that it holds now and from its state at the previous poll."""
        left_ms, ids = max(run["left_ms"] for run in runs), tuple(run["id"] for run in runs)
        ends_ms = now_ms + left_ms
        if previous is None:
            return cls(runs[0]["pb"], ids, left_ms, ends_ms, left_ms)
        has_renewed = ends_ms > previous.ends_ms + _MIN_RENEWAL_MS
        return previous._replace(
            ids=ids,
            left_ms=left_ms,
            ends_ms=ends_ms,
            longest_ms=max(previous.longest_ms, left_ms),
            renewed_ms=now_ms if has_renewed else previous.renewed_ms,
        )

    @property
    def renews_no_lock(self) -> bool:
        """Whether the worker's locks have less time left than the locks of a live worker ever have."""
        return self.left_ms < self.longest_ms // 2 - _LATE_RENEWAL_MS

    @property
    def is_late(self) -> bool:
        """Whether a live worker with the default lockDuration would have renewed its locks by now."""
        return self.left_ms < LOCK_MS // 2 - _LATE_RENEWAL_MS

    @property
    def was_killed(self) -> bool:
        """Whether the worker renews no lock, and no connection proves that it lives."""
        return self.renews_no_lock and (not self.name or self.missing_ms > 0)

    @property
    def is_missing(self) -> bool:
        """Whether the worker may have no connection, and has renewed no lock since it lost the connection.

        A worker that shuts down properly closes its waiting connection before it ends its jobs (classes/worker.js 5.81,
        whenCurrentJobsFinished): its next renewal of a lock shows that it was not killed.
        """
        return 0 < self.missing_ms >= self.renewed_ms and not self.renews_no_lock

    @property
    def may_be_late(self) -> bool:
        """Whether it is unknown if an unnamed worker with late locks is alive, because no lockDuration is stored."""
        return self.is_late and not (self.name or self.renewed_ms or self.missing_ms or self.renews_no_lock)


class LockHolders:
    """The workers that hold the locks of running jobs, by queue, as this process has seen them so far."""

    def __init__(self, connections: WorkerConnections) -> None:
        self._connections = connections
        self._holders: dict[str, dict[str, _Holder]] = {}  # by queue and uuid of the worker
        self._runners: dict[str, dict[bytes, _Runners]] = {}  # by queue and job

    def has_missing(self, queue: str) -> bool:
        """Return whether a worker of the queue has no connection, so that it may have been killed."""
        return any(holder.is_missing for holder in self._list_holders(queue))

    def forget_queue(self, queue: str) -> None:
        """Forget the holders of a queue that has no running jobs."""
        self._holders.pop(queue, None)

    def update(self, queue: str, reply: Reply | Exception) -> tuple[Finding, ...]:
        """Update the holders of a queue from the reply of the script `roster`, and report those that may have stopped.

        They hold running jobs and have no connection, or renew no lock, although their locks are not over.
        """
        if isinstance(reply, Exception) or self._connections.by_queue is None:
            return ()
        now_ms: Any = reply.values["now_ms"]
        runs = [run for run in convert_rows_to_dicts(reply) if run["lock"] and run["left_ms"] >= 0]
        clients = self._connections.by_queue.get(queue, [])
        connected = {client.name for client in clients if client.name}
        unnamed_count = sum(not client.name for client in clients)
        second_runs = self._find_second_runs(queue, [run for run in runs if run["pb"]], connected)
        self._update_holders(queue, runs, connected, unnamed_count, now_ms)
        holders = self._list_holders(queue)
        findings = (
            *_describe_silent_workers(queue, [holder for holder in holders if holder.was_killed]),
            *_describe_missing_workers(queue, [holder for holder in holders if holder.is_missing], unnamed_count),
            *_describe_late_locks(queue, [holder for holder in holders if holder.may_be_late]),
        )
        return (*findings, *second_runs)

    def _list_holders(self, queue: str) -> list[_Holder]:
        return list(self._holders.get(queue, {}).values())

    def _update_holders(
        self, queue: str, runs: Sequence[Mapping[str, Any]], connected: Collection[str], unnamed_count: int, now_ms: int
    ) -> None:
        """Update what is known of the workers that hold jobs, by the uuid in their locks.

        `connected` are the names of connected workers, `unnamed_count` is the number of the others. A worker that is
        younger than the list of connections is not missing.
        """
        runs_by_holder: dict[str, list[Mapping[str, Any]]] = {}
        for run in runs:
            runs_by_holder.setdefault(run["lock"].partition(":")[0], []).append(run)
        previous = self._holders.get(queue, {})
        holders = {uuid: _Holder.update(previous.get(uuid), held, now_ms) for uuid, held in runs_by_holder.items()}
        unnamed_living = sum(not holder.name and not holder.renews_no_lock for holder in holders.values())
        is_list_new = self._connections.is_new
        for uuid, holder in holders.items():
            is_unconnected = holder.name not in connected if holder.name else unnamed_living > unnamed_count
            # Some servers refuse the names of connections.
            is_missing = self._connections.has_seen_names and is_unconnected and (is_list_new or uuid in previous)
            holders[uuid] = holder._replace(missing_ms=(holder.missing_ms or now_ms) if is_missing else 0)
        self._holders[queue] = holders

    def _find_second_runs(
        self, queue: str, runs: Sequence[Mapping[str, Any]], connected: Collection[str]
    ) -> tuple[Finding, ...]:
        """Find jobs that a second worker runs while the first one is still connected: its event loop was blocked.

        A job stores only its last worker, so this process must have seen the first run.
        """
        now_s = time.monotonic()
        seen = {id: run for id, run in self._runners.get(queue, {}).items() if now_s - run.seen_s < _RUNNERS_S}
        self._runners[queue] = seen
        twice = []
        for run in runs:
            before = seen.get(run["id"], _Runners("", run["pb"], now_s))
            first = before.last if before.last != run["pb"] else before.first
            seen[run["id"]] = _Runners(first, run["pb"], now_s)
            if first in connected:
                twice.append((run["id"], first, run["pb"]))
        if not twice:
            return ()
        example_id, first, last = twice[0]
        such = f"{len(twice)} runs twice, such as {to_text(example_id)}"
        text = f"{such}: worker {first} lost the lock, and {last} took the job"
        remedy = (
            f"find what blocks the event loop of {first} for longer than the lock (30s), or set a longer lockDuration"
        )
        return (Finding("runs-twice", "warning", queue, text, remedy, ids=(example_id,), jobs=len(twice)),)


def _describe_silent_workers(queue: str, holders: Sequence[_Holder]) -> Iterator[Finding]:
    """Yield the finding about jobs of workers that renew no lock and may have no connection."""
    if holders:
        clause = "which renews no lock" if len(holders) == 1 else "which renew no lock"
        cause = "killed, or their event loop is blocked" if any(not holder.name for holder in holders) else "killed"
        yield _build_worker_finding(queue, holders, clause, f"{cause}: they")


def _describe_missing_workers(queue: str, holders: Sequence[_Holder], unnamed_count: int) -> Iterator[Finding]:
    """Yield the findings about jobs of workers without a connection that have renewed no lock since.

    Of unnamed workers only the numbers of workers and of connections are known. Until a lock is late, a worker may also
    be stopping the polite way, which is information.
    """
    for is_late in (True, False):
        cause = "killed: they" if is_late else "killed, or stopping after these jobs: if killed, they"
        severity = "warning" if is_late else "info"
        chosen = [holder for holder in holders if holder.is_late == is_late]
        if named := [holder for holder in chosen if holder.name]:
            clause = "which has no connection" if len(named) == 1 else "which have no connection"
            yield replace(_build_worker_finding(queue, named, clause, cause), severity=severity)
        if unnamed := [holder for holder in chosen if not holder.name]:
            connected = str(unnamed_count) if unnamed_count else "none"
            clause = "which has no connection" if len(unnamed) == 1 else f"of which {connected} can have a connection"
            yield replace(_build_worker_finding(queue, unnamed, clause, cause), severity=severity)


def _describe_late_locks(queue: str, holders: Sequence[_Holder]) -> Iterator[Finding]:
    """Yield the information that it is unknown whether unnamed workers are alive: no lockDuration is stored."""
    if holders:
        clause = f"whose locks are late if their lockDuration is {LOCK_MS // 1000} s"
        finding = _build_worker_finding(queue, holders, clause, "")
        remedy = "look again in 15 s: if the locks are renewed, the worker is alive"
        yield replace(finding, kind="late-locks", severity="info", remedy=remedy)


def _build_worker_finding(queue: str, holders: Sequence[_Holder], clause: str, cause: str) -> Finding:
    """Build the finding about jobs of workers that may have stopped. `clause` ends the sentence about the workers."""
    ids = [id for holder in holders for id in holder.ids]
    names = sorted({holder.name for holder in holders if holder.name})
    others = len(holders) - 1
    if names:
        workers = f"worker {names[0]}{f' and {others} more' if others else ''}"
    else:
        workers = f"{format_quantity(len(holders), 'worker')} without a name"
    left_s = -(-max(holder.left_ms for holder in holders) // 1000)
    return Finding(
        "worker-gone",
        "warning",
        queue,
        f"{len(ids)} held by {workers}, {clause}, such as {to_text(ids[0])}",
        f"{cause} come back when their locks expire, within {left_s} s, and a worker runs its stalled check",
        ids=(ids[0],),
        key="w",
        jobs=len(ids),
    )
