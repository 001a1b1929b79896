"""The producing half of a running scenario: puts its jobs when their time has come.

One step for a `Loop`, at most one round trip per turn. It survives Redis being away: what was not answered is sent
again, which is harmless since every job has its id. `native.py` owns it.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from rqtui.client.native_keys import QUEUES, keys
from rqtui.connection.connect import translated
from rqtui.engine.loops import Round
from rqtui.errors import ServerError
from rqtui.scenarios.pace import IDLE_S, TURN_S, Pace
from rqtui.scenarios.scenario import Arrival, NativeScenario, NewJob, size_for
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call

BATCH = 1_000  # jobs per enqueue


class Producers:
    """Puts the jobs of a plan when their time has come, and those of bursts at once."""

    def __init__(self, scenario: NativeScenario, seed: int, client: Any, pace: Pace) -> None:
        self.put = 0
        self.size: int | None = None
        self._scenario, self._client, self._pace = scenario, client, pace
        self._plan = scenario.plan(seed)
        self._next: Arrival | None = next(self._plan)
        self._taken = 0
        self._bursts = scenario.extra(seed)
        self._extra: deque[Arrival] = deque()
        self._under_way: list[Arrival] = []  # sent, and not answered yet: sent again, since ids make that harmless
        self._known: set[str] = set()
        self._digest = hashlib.sha256()
        self._is_again = False  # what is under way was sent before, and its answer was lost
        self._accepted: dict[str, list[bytes]] | None = {} if scenario.is_proved else None

    @property
    def digest(self) -> str:
        """A digest of the planned jobs that were put: id, kind, body, delay and order."""
        return self._digest.hexdigest()[:16]

    def accepted(self) -> dict[str, list[bytes]]:
        """By queue, the ids that Redis took; only a scenario that proves its end keeps them."""
        return {queue: list(ids) for queue, ids in (self._accepted or {}).items()}

    def burst(self, number: int) -> None:
        """Put so many more jobs, beginning at the next turn."""
        self._extra.extend(next(self._bursts) for _ in range(number))

    def add(self, arrival: Arrival) -> None:
        """Put this one at the next turn."""
        self._extra.append(arrival)

    def turn(self) -> Round:
        """Put what is due, at most `BATCH` jobs; rests until the next arrival."""
        if not self._under_way:
            self._under_way = self._due()
        if self._under_way:
            began = time.monotonic()
            sent = len(self._under_way)
            self._send()
            if self.size is None and self._scenario.sizes:
                self.size = size_for(self._scenario, sent / (time.monotonic() - began))
        return Round(wait_s=self._rest_s())

    def flush(self) -> None:
        """Put everything that is due by now."""
        while self._under_way or self._extra or self._is_due():
            self.turn()

    def _is_due(self) -> bool:
        return self._next is not None and self._next.at_ms <= self._pace.now_s() * 1000

    def _rest_s(self) -> float:
        if self._extra or self._next is None:
            return TURN_S if self._extra else IDLE_S
        until_s = (self._next.at_ms / 1000 - self._pace.now_s()) / self._pace.speed
        return min(IDLE_S, max(TURN_S, until_s))

    def _due(self) -> list[Arrival]:
        found = [self._extra.popleft() for _ in range(min(BATCH, len(self._extra)))]
        now_ms = self._pace.now_s() * 1000
        while self._next is not None and self._next.at_ms <= now_ms and len(found) < BATCH:
            found.append(self._next)
            self._note(self._next)
            self._taken += 1
            is_last = self.size is not None and self._taken >= self.size
            self._next = None if is_last else next(self._plan, None)
        return found

    def _note(self, arrival: Arrival) -> None:
        job = arrival.job
        self._digest.update(repr((arrival.queue, job.id, job.name, job.delay_ms, job.priority)).encode() + job.body)

    def _send(self) -> None:
        queues = list(dict.fromkeys(arrival.queue for arrival in self._under_way))
        calls = [enqueue(queue, [a.job for a in self._under_way if a.queue == queue]) for queue in queues]
        answers = scripts.run_all(self._client, calls)
        for answer in answers:
            if isinstance(answer, ServerError):
                self._is_again = True
                raise answer
        words = ("moved", "exists") if self._is_again else ("moved",)
        for queue, answer in zip(queues, answers, strict=True):
            if not isinstance(answer, Exception):
                sent = [arrival for arrival in self._under_way if arrival.queue == queue]
                taken = [a.job.id for a, each in zip(sent, answer.each, strict=True) if each.word in words]
                self.put += len(taken)
                if self._accepted is not None:
                    self._accepted.setdefault(queue, []).extend(id.encode() for id in taken)
        self._under_way, self._is_again = [], False
        if new := set(queues) - self._known:
            with translated():  # the demo may end, and its server with it, while a step is under way
                self._client.sadd(QUEUES, *new)
            self._known |= new


def enqueue(queue: str, jobs: Sequence[NewJob], now_ms: int | None = None) -> Call:
    """The call that puts jobs, at most `BATCH` of them."""
    script = scripts.load("native")["enqueue"]
    names = [arg.name for arg in script.each]
    return script.call(keys(queue), {"now_ms": now_ms}, [[getattr(job, name) for name in names] for job in jobs])
