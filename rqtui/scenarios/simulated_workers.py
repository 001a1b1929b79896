"""The simulated workers of a running native scenario, which share one thread and one connection.

`SimulatedWorkers.turn` is a step for a `Loop` in one round trip: settle ended jobs, send heartbeats, extend leases,
and reserve for idle workers. Workers never dispatch or reap, so that a person sees what happens without those. When
Redis is unavailable, an ack without a reply is sent again and a lease without an extension expires. `native_run.py`
creates the workers; a person's actions may come from any thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from rqtui.client import native_record
from rqtui.client.native_keys import build_queue_keys
from rqtui.engine.loops import Round
from rqtui.errors import ServerError
from rqtui.scenarios.pace import IDLE_S, TURN_S, Pace
from rqtui.scenarios.scenario import NativeScenario, QueuePlan
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call, Reply

HEARTBEAT_S, WORKER_TTL_MS = 2.0, 6_000
RESPAWN_S = 1.5  # seconds until a worker killed by a job is replaced, as by a supervisor
OVERSLEPT_S = 2.5  # seconds after the end of its lease at which a stalled worker continues; its ack is refused
RATE_S = 5.0
RELEASE = 1_000  # jobs per call

HandledCall = tuple[Call, Callable[[Reply], None]]
"""A call, and the function that handles its reply."""


@dataclass(slots=True)
class _Lease:
    """A job that a simulated worker holds, with its lease."""

    id: bytes
    token: str
    ttr_s: float
    error: str
    kills: bool
    extended_s: float = 0.0  # wall time of the last start of its lease


@dataclass(slots=True)
class SimulatedWorker:
    """One simulated worker; `until_s` is the scenario time at which it finishes its jobs."""

    name: str
    queue: str
    batch: int
    state: str = "idle"  # idle | busy | stalled
    order: str = "run"  # the reply to its last heartbeat: run, quiet or stop
    holds: list[_Lease] = field(default_factory=list)
    until_s: float = 0.0
    heartbeat_s: float = 0.0
    wakes_s: float = 0.0  # stalled: wall time at which it continues


@dataclass(slots=True)
class WorkerTotals:
    """The numbers of jobs that the simulated workers finished, failed and released so far."""

    finished: int = 0
    failed: int = 0
    died: int = 0  # jobs whose last attempt failed
    stale: int = 0
    released: int = 0
    workers_lost: int = 0


class SimulatedWorkers:
    """The simulated workers of a scenario. `turn` is a loop's step; other methods may be called from any thread."""

    def __init__(self, scenario: NativeScenario, seed: int, client: Any, pace: Pace) -> None:
        self.totals = WorkerTotals()
        self.workers: list[SimulatedWorker] = []
        self.is_fixed = False
        self._scenario, self._seed, self._client, self._pace = scenario, seed, client, pace
        self._plans = {plan.name: plan for plan in scenario.queues}
        self._numbers = {plan.name: count(1) for plan in scenario.queues}
        self._respawns: deque[tuple[float, str]] = deque()
        self._rests: dict[str, float] = {}  # queue: wall time of the next reserve
        self._lock = threading.RLock()
        self._pulse: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._scripts = scripts.load_scripts("native")
        for plan in scenario.queues:
            for _ in range(plan.workers):
                self.add(plan.name)

    # -- a person's actions -----------------------------------------------------------------------------------------

    def add(self, queue: str = "") -> SimulatedWorker:
        """Add a worker to `queue`, or to the first queue."""
        plan: QueuePlan = self._plans[queue] if queue else self._scenario.queues[0]
        with self._lock:
            worker = SimulatedWorker(f"{plan.name}-{next(self._numbers[plan.name])}", plan.name, plan.batch)
            self.workers.append(worker)
        return worker

    def stall(self) -> SimulatedWorker | None:
        """Stall a busy worker for longer than its lease; return None if no worker is busy."""
        with self._lock:
            worker = self._find_last_busy_worker()
            if worker:
                worker.state = "stalled"
                worker.wakes_s = time.monotonic() + max(lease.ttr_s for lease in worker.holds) + OVERSLEPT_S
        return worker

    def kill(self) -> SimulatedWorker | None:
        """Kill a worker together with its jobs; return None if no worker is left."""
        with self._lock:
            worker = self._find_last_busy_worker() or next(iter(self.workers), None)
            if worker:
                self._remove_dead_worker(worker)
        return worker

    def _find_last_busy_worker(self) -> SimulatedWorker | None:
        busy = [worker for worker in self.workers if worker.state == "busy"]
        return max(busy, key=lambda worker: worker.until_s, default=None)

    def _remove_dead_worker(self, worker: SimulatedWorker) -> None:
        self.workers.remove(worker)
        self.totals.workers_lost += 1

    # -- the figures ------------------------------------------------------------------------------------------------

    def compute_finished_per_s(self) -> float:
        """Return the jobs finished per second, over the last five seconds."""
        now = time.monotonic()
        with self._lock:
            while len(self._pulse) > 1 and self._pulse[0][0] < now - RATE_S:
                self._pulse.popleft()
            since_s, before = self._pulse[0]
            return (self.totals.finished - before) / max(0.5, now - since_s)

    # -- the step ---------------------------------------------------------------------------------------------------

    def turn(self) -> Round:
        """Settle finished jobs, send heartbeats, extend leases and reserve jobs, in one round trip."""
        calls: list[HandledCall] = []
        with self._lock:
            self._restart_dead_workers()
            self._remove_stopped_workers(calls)
            free = self._add_settle_calls(calls)
            self._add_extend_calls(calls)
            self._add_heartbeat_calls(calls)
            self._add_claim_calls(calls, free)
        replies, error = _send_calls(self._client, [call for call, _ in calls])
        with self._lock:
            for (_, take_reply), reply in zip(calls, replies, strict=True):
                if reply is not None:
                    take_reply(reply)
            self._pulse.append((time.monotonic(), self.totals.finished))
            if error:
                raise error
            return Round(wait_s=self._compute_rest_s())

    def _compute_rest_s(self) -> float:
        now_s = self._pace.read_clock_s()
        waits = [(worker.until_s - now_s) / self._pace.speed for worker in self.workers if worker.state == "busy"]
        return min(IDLE_S, max(TURN_S, min(waits, default=IDLE_S)))

    def _restart_dead_workers(self) -> None:
        """Add a new worker for each one that died some seconds ago."""
        while self._respawns and self._respawns[0][0] <= time.monotonic():
            self.add(self._respawns.popleft()[1])

    def _add_settle_calls(self, calls: list[HandledCall]) -> list[SimulatedWorker]:
        """Append the calls that settle finished jobs to `calls`; return the workers that are idle after these calls."""
        now_s, wall_s = self._pace.read_clock_s(), time.monotonic()
        acks: dict[str, list[tuple[SimulatedWorker, _Lease]]] = {}
        rejects: dict[str, list[tuple[SimulatedWorker, _Lease]]] = {}
        free = []
        for worker in list(self.workers):
            is_done = worker.state == "busy" and worker.until_s <= now_s
            has_woken = worker.state == "stalled" and worker.wakes_s <= wall_s
            if is_done and any(lease.kills for lease in worker.holds) and not self.is_fixed:
                self._remove_dead_worker(worker)
                self._respawns.append((wall_s + RESPAWN_S, worker.queue))
                continue
            if is_done or has_woken:
                for lease in worker.holds:
                    (rejects if lease.error else acks).setdefault(worker.queue, []).append((worker, lease))
            if is_done or has_woken or worker.state == "idle":
                free.append(worker)
        for queue, held in acks.items():
            calls.append(self._build_settle_call("ack", queue, held, [[lease.id, lease.token] for _, lease in held]))
        for queue, held in rejects.items():
            rows = [[lease.id, lease.token, lease.error] for _, lease in held]
            calls.append(self._build_settle_call("reject", queue, held, rows))
        return free

    def _build_settle_call(
        self, verb: str, queue: str, held: list[tuple[SimulatedWorker, _Lease]], rows: list[Any]
    ) -> HandledCall:
        def record_settled_jobs(reply: Reply) -> None:
            for (worker, lease), each in zip(held, reply.each, strict=True):
                self._count_outcome(verb, each)
                worker.holds = [other for other in worker.holds if other is not lease]
                if not worker.holds:
                    worker.state = "idle"

        return self._scripts[verb].build_call(build_queue_keys(queue), {}, rows), record_settled_jobs

    def _count_outcome(self, verb: str, each: Reply) -> None:
        if each.word not in ("moved", "done"):
            self.totals.stale += 1
        elif verb == "ack":
            self.totals.finished += 1
        else:
            self.totals.failed += 1
            self.totals.died += each.values.get("place") == "dead"

    def _add_extend_calls(self, calls: list[HandledCall]) -> None:
        wall_s = time.monotonic()
        late: dict[str, list[_Lease]] = {}
        for worker in self.workers:
            if worker.state == "busy":
                expiring = [lease for lease in worker.holds if wall_s - lease.extended_s > lease.ttr_s / 2]
                late.setdefault(worker.queue, []).extend(expiring)
        for queue, leases in late.items():
            if not leases:
                continue

            def record_extended_leases(reply: Reply, leases: list[_Lease] = leases) -> None:
                for lease, each in zip(leases, reply.each, strict=True):
                    lease.extended_s = wall_s
                    if each.word == "cancelled":
                        lease.error = "cancelled"

            calls.append(
                (
                    self._scripts["extend"].build_call(
                        build_queue_keys(queue), {}, [[item.id, item.token] for item in leases]
                    ),
                    record_extended_leases,
                )
            )

    def _add_heartbeat_calls(self, calls: list[HandledCall]) -> None:
        now = time.monotonic()
        for worker in self.workers:
            if worker.state == "stalled" or now - worker.heartbeat_s < HEARTBEAT_S:
                continue
            worker.heartbeat_s = now
            job = worker.holds[0].id if worker.holds else b""
            args = {"worker": worker.name, "ttl_ms": WORKER_TTL_MS, "host": "demo", "job": job}

            def record_operator_order(reply: Reply, worker: SimulatedWorker = worker) -> None:
                worker.order = reply.word

            calls.append(
                (self._scripts["beat"].build_call(build_queue_keys(worker.queue), args), record_operator_order)
            )

    def _remove_stopped_workers(self, calls: list[HandledCall]) -> None:
        """Remove workers that an operator stopped, once they hold no job."""
        for worker in [worker for worker in self.workers if worker.order == "stop" and not worker.holds]:
            self.workers.remove(worker)
            calls.append((self._build_leave_call(worker), lambda _answer: None))

    def _add_claim_calls(self, calls: list[HandledCall], free: list[SimulatedWorker]) -> None:
        now = time.monotonic()
        for worker in free:
            if worker.order != "run" or self._rests.get(worker.queue, 0.0) > now:
                continue

            def record_claimed_jobs(reply: Reply, worker: SimulatedWorker = worker) -> None:
                self._take_claimed_jobs(worker, reply)

            args = {"limit": worker.batch, "worker": worker.name}
            calls.append(
                (self._scripts["reserve"].build_call(build_queue_keys(worker.queue), args), record_claimed_jobs)
            )

    def _take_claimed_jobs(self, worker: SimulatedWorker, reply: Reply) -> None:
        if not reply.rows:
            self._rests[worker.queue] = time.monotonic() + IDLE_S
            return
        run_ms = 0
        wall_s = time.monotonic()
        for id, token, attempt, _most, ttr_ms, record, _body in reply.rows:
            name = native_record.parse_record_fields(record)[-1].decode("utf-8", "replace")
            fate = self._scenario.choose_attempt_outcome(self._seed, name, id, attempt)
            error = "" if self.is_fixed else fate.error
            worker.holds.append(_Lease(id, token, ttr_ms / 1000, error, fate.kills, wall_s))
            run_ms += fate.run_ms
        worker.state = "busy"
        worker.until_s = self._pace.read_clock_s() + run_ms / 1000

    def release_jobs(self) -> None:
        """Release the jobs of all workers that are not stalled, and sign the workers off."""
        with self._lock:
            calls = []
            for queue in self._plans:
                mine = [w for w in self.workers if w.queue == queue and w.state != "stalled"]
                rows = [[lease.id, lease.token] for worker in mine for lease in worker.holds]
                for at in range(0, len(rows), RELEASE):
                    calls.append(
                        self._scripts["release"].build_call(build_queue_keys(queue), {}, rows[at : at + RELEASE])
                    )
                calls += [self._build_leave_call(worker) for worker in mine]
            replies, _ = _send_calls(self._client, calls) if calls else ([], None)
            self.totals.released += sum(each.word == "moved" for reply in replies if reply for each in reply.each)
            self.workers.clear()

    def _build_leave_call(self, worker: SimulatedWorker) -> Call:
        args = {"worker": worker.name, "ttl_ms": WORKER_TTL_MS, "leave": True}
        return self._scripts["beat"].build_call(build_queue_keys(worker.queue), args)


def _send_calls(client: Any, calls: Sequence[Call]) -> tuple[list[Reply | None], ServerError | None]:
    """Return the replies to calls (None for a failed one), and the error if Redis is unavailable."""
    results = scripts.send_calls(client, calls)
    error = next((result for result in results if isinstance(result, ServerError)), None)
    return [result if isinstance(result, Reply) else None for result in results], error
