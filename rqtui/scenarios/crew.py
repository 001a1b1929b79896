"""The working half of a running scenario: a crew of simulated workers on one thread and one connection.

One step for a `Loop`, one round trip per turn: settle what is done, beat, extend, claim for whoever is free. Workers
never dispatch or reap, so that one sees what happens when nobody does. They survive Redis being away: an ack without an
answer is sent again, a lease without one expires. `native.py` owns it; what a person does may come from any
thread.
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
from rqtui.client.native_keys import keys
from rqtui.engine.loops import Round
from rqtui.errors import ServerError
from rqtui.scenarios.pace import IDLE_S, TURN_S, Pace
from rqtui.scenarios.scenario import NativeScenario, QueuePlan
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Answer, Call

BEAT_S, WORKER_TTL_MS = 2.0, 6_000
RESPAWN_S = 1.5  # a worker that a job killed is replaced, as a supervisor would
OVERSLEPT_S = 2.5  # a stalled worker wakes so long after its lease ended, and acks in vain
RATE_S = 5.0
RELEASE = 1_000  # jobs per call

Asked = tuple[Call, Callable[[Answer], None]]
"""A call, and what to do with its answer."""


@dataclass(slots=True)
class _Lease:
    """A job in a worker's hands."""

    id: bytes
    token: str
    ttr_s: float
    error: str
    kills: bool
    extended_s: float = 0.0  # by the wall clock, when its lease last began


@dataclass(slots=True)
class SimWorker:
    """One simulated worker; `until_s` is when it is done with what it holds, in the scenario's time."""

    name: str
    queue: str
    batch: int
    state: str = "idle"  # idle | busy | stalled
    order: str = "run"  # what it was told at its last beat: run, quiet or stop
    holds: list[_Lease] = field(default_factory=list)
    until_s: float = 0.0
    beat_s: float = 0.0
    wakes_s: float = 0.0  # stalled: by the wall clock, when it goes on


@dataclass(slots=True)
class Tally:
    """What the crew has done so far."""

    finished: int = 0
    failed: int = 0
    died: int = 0  # jobs whose last attempt failed in a worker's hands
    stale: int = 0
    released: int = 0
    workers_lost: int = 0


class Crew:
    """All simulated workers of a scenario. `turn` is a loop's step; the other methods may be called from any thread."""

    def __init__(self, scenario: NativeScenario, seed: int, client: Any, pace: Pace) -> None:
        self.tally = Tally()
        self.workers: list[SimWorker] = []
        self.is_fixed = False
        self._scenario, self._seed, self._client, self._pace = scenario, seed, client, pace
        self._plans = {plan.name: plan for plan in scenario.queues}
        self._numbers = {plan.name: count(1) for plan in scenario.queues}
        self._respawns: deque[tuple[float, str]] = deque()
        self._rests: dict[str, float] = {}  # queue: by the wall clock, when it is worth asking again
        self._lock = threading.RLock()
        self._pulse: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._scripts = scripts.load("native")
        for plan in scenario.queues:
            for _ in range(plan.workers):
                self.add(plan.name)

    # -- what a person does -----------------------------------------------------------------------------------------

    def add(self, queue: str = "") -> SimWorker:
        """One more worker, on `queue` or on the first one."""
        plan: QueuePlan = self._plans[queue] if queue else self._scenario.queues[0]
        with self._lock:
            worker = SimWorker(f"{plan.name}-{next(self._numbers[plan.name])}", plan.name, plan.batch)
            self.workers.append(worker)
        return worker

    def stall(self) -> SimWorker | None:
        """A worker that holds a job stops for longer than its lease; None when nobody is at work."""
        with self._lock:
            worker = self._somebody_at_work()
            if worker:
                worker.state = "stalled"
                worker.wakes_s = time.monotonic() + max(lease.ttr_s for lease in worker.holds) + OVERSLEPT_S
        return worker

    def kill(self) -> SimWorker | None:
        """A worker vanishes with what it holds; None when there is nobody left."""
        with self._lock:
            worker = self._somebody_at_work() or next(iter(self.workers), None)
            if worker:
                self._bury(worker)
        return worker

    def _somebody_at_work(self) -> SimWorker | None:
        busy = [worker for worker in self.workers if worker.state == "busy"]
        return max(busy, key=lambda worker: worker.until_s, default=None)

    def _bury(self, worker: SimWorker) -> None:
        self.workers.remove(worker)
        self.tally.workers_lost += 1

    # -- the figures ------------------------------------------------------------------------------------------------

    def finished_s(self) -> float:
        """Jobs finished per second, over the last five seconds."""
        now = time.monotonic()
        with self._lock:
            while len(self._pulse) > 1 and self._pulse[0][0] < now - RATE_S:
                self._pulse.popleft()
            since_s, before = self._pulse[0]
            return (self.tally.finished - before) / max(0.5, now - since_s)

    # -- the step ---------------------------------------------------------------------------------------------------

    def turn(self) -> Round:
        """Settle what is done, beat, extend, and claim for whoever is free: all in one round trip."""
        asked: list[Asked] = []
        with self._lock:
            self._respawn()
            self._dismiss(asked)
            free = self._settle(asked)
            self._extend(asked)
            self._beat(asked)
            self._claim(asked, free)
        answers, away = _answers(self._client, [call for call, _ in asked])
        with self._lock:
            for (_, heard), answer in zip(asked, answers, strict=True):
                if answer is not None:
                    heard(answer)
            self._pulse.append((time.monotonic(), self.tally.finished))
            if away:
                raise away
            return Round(wait_s=self._rest_s())

    def _rest_s(self) -> float:
        now_s = self._pace.now_s()
        waits = [(worker.until_s - now_s) / self._pace.speed for worker in self.workers if worker.state == "busy"]
        return min(IDLE_S, max(TURN_S, min(waits, default=IDLE_S)))

    def _respawn(self) -> None:
        while self._respawns and self._respawns[0][0] <= time.monotonic():
            self.add(self._respawns.popleft()[1])

    def _settle(self, asked: list[Asked]) -> list[SimWorker]:
        """Calls for all that is done; the workers who are free now, or will be once that is answered."""
        now_s, wall_s = self._pace.now_s(), time.monotonic()
        acks: dict[str, list[tuple[SimWorker, _Lease]]] = {}
        rejects: dict[str, list[tuple[SimWorker, _Lease]]] = {}
        free = []
        for worker in list(self.workers):
            is_done = worker.state == "busy" and worker.until_s <= now_s
            woke = worker.state == "stalled" and worker.wakes_s <= wall_s
            if is_done and any(lease.kills for lease in worker.holds) and not self.is_fixed:
                self._bury(worker)
                self._respawns.append((wall_s + RESPAWN_S, worker.queue))
                continue
            if is_done or woke:
                for lease in worker.holds:
                    (rejects if lease.error else acks).setdefault(worker.queue, []).append((worker, lease))
            if is_done or woke or worker.state == "idle":
                free.append(worker)
        for queue, held in acks.items():
            asked.append(self._asked("ack", queue, held, [[lease.id, lease.token] for _, lease in held]))
        for queue, held in rejects.items():
            rows = [[lease.id, lease.token, lease.error] for _, lease in held]
            asked.append(self._asked("reject", queue, held, rows))
        return free

    def _asked(self, verb: str, queue: str, held: list[tuple[SimWorker, _Lease]], rows: list[Any]) -> Asked:
        def heard(answer: Answer) -> None:
            for (worker, lease), each in zip(held, answer.each, strict=True):
                self._settled(verb, each)
                worker.holds = [other for other in worker.holds if other is not lease]
                if not worker.holds:
                    worker.state = "idle"

        return self._scripts[verb].call(keys(queue), {}, rows), heard

    def _settled(self, verb: str, each: Answer) -> None:
        if each.word not in ("moved", "done"):
            self.tally.stale += 1
        elif verb == "ack":
            self.tally.finished += 1
        else:
            self.tally.failed += 1
            self.tally.died += each.values.get("place") == "dead"

    def _extend(self, asked: list[Asked]) -> None:
        wall_s = time.monotonic()
        late: dict[str, list[_Lease]] = {}
        for worker in self.workers:
            if worker.state == "busy":
                wanted = [lease for lease in worker.holds if wall_s - lease.extended_s > lease.ttr_s / 2]
                late.setdefault(worker.queue, []).extend(wanted)
        for queue, leases in late.items():
            if not leases:
                continue

            def heard(answer: Answer, leases: list[_Lease] = leases) -> None:
                for lease, each in zip(leases, answer.each, strict=True):
                    lease.extended_s = wall_s
                    if each.word == "cancelled":
                        lease.error = "cancelled"

            asked.append(
                (self._scripts["extend"].call(keys(queue), {}, [[item.id, item.token] for item in leases]), heard)
            )

    def _beat(self, asked: list[Asked]) -> None:
        now = time.monotonic()
        for worker in self.workers:
            if worker.state == "stalled" or now - worker.beat_s < BEAT_S:
                continue
            worker.beat_s = now
            job = worker.holds[0].id if worker.holds else b""
            args = {"worker": worker.name, "ttl_ms": WORKER_TTL_MS, "host": "demo", "job": job}

            def heard(answer: Answer, worker: SimWorker = worker) -> None:
                worker.order = answer.word

            asked.append((self._scripts["beat"].call(keys(worker.queue), args), heard))

    def _dismiss(self, asked: list[Asked]) -> None:
        """Workers that an operator told to stop go when they hold nothing."""
        for worker in [worker for worker in self.workers if worker.order == "stop" and not worker.holds]:
            self.workers.remove(worker)
            asked.append((self._leave(worker), lambda _answer: None))

    def _claim(self, asked: list[Asked], free: list[SimWorker]) -> None:
        now = time.monotonic()
        for worker in free:
            if worker.order != "run" or self._rests.get(worker.queue, 0.0) > now:
                continue

            def heard(answer: Answer, worker: SimWorker = worker) -> None:
                self._take(worker, answer)

            args = {"limit": worker.batch, "worker": worker.name}
            asked.append((self._scripts["reserve"].call(keys(worker.queue), args), heard))

    def _take(self, worker: SimWorker, answer: Answer) -> None:
        if not answer.rows:
            self._rests[worker.queue] = time.monotonic() + IDLE_S
            return
        run_ms = 0
        wall_s = time.monotonic()
        for id, token, attempt, _most, ttr_ms, record, _body in answer.rows:
            name = native_record.fields(record)[-1].decode("utf-8", "replace")
            fate = self._scenario.fate(self._seed, name, id, attempt)
            error = "" if self.is_fixed else fate.error
            worker.holds.append(_Lease(id, token, ttr_ms / 1000, error, fate.kills, wall_s))
            run_ms += fate.run_ms
        worker.state = "busy"
        worker.until_s = self._pace.now_s() + run_ms / 1000

    def give_back(self) -> None:
        """At the end: release what is held by whoever can still speak, and say goodbye."""
        with self._lock:
            calls = []
            for queue in self._plans:
                mine = [w for w in self.workers if w.queue == queue and w.state != "stalled"]
                rows = [[lease.id, lease.token] for worker in mine for lease in worker.holds]
                for at in range(0, len(rows), RELEASE):
                    calls.append(self._scripts["release"].call(keys(queue), {}, rows[at : at + RELEASE]))
                calls += [self._leave(worker) for worker in mine]
            answers, _ = _answers(self._client, calls) if calls else ([], None)
            self.tally.released += sum(each.word == "moved" for answer in answers if answer for each in answer.each)
            self.workers.clear()

    def _leave(self, worker: SimWorker) -> Call:
        args = {"worker": worker.name, "ttl_ms": WORKER_TTL_MS, "leave": True}
        return self._scripts["beat"].call(keys(worker.queue), args)


def _answers(client: Any, calls: Sequence[Call]) -> tuple[list[Answer | None], ServerError | None]:
    """The answers to calls, None for those that failed; and the error, when Redis is away."""
    results = scripts.run_all(client, calls)
    away = next((result for result in results if isinstance(result, ServerError)), None)
    return [result if isinstance(result, Answer) else None for result in results], away
