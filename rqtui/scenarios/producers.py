"""The class `Producers`: the part of a running native scenario that enqueues jobs when their time has come.

Its `turn` is a step for a `Loop`, with at most one round trip. It survives an unavailable Redis: jobs without a reply
are sent again, which is harmless because every job has its id. `native_run.py` owns it.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from rqtui.client.native_keys import QUEUES, build_queue_keys
from rqtui.connection.connect import translate_redis_errors
from rqtui.engine.loops import Round
from rqtui.errors import ServerError
from rqtui.scenarios.pace import IDLE_S, TURN_S, Pace
from rqtui.scenarios.scenario import Arrival, NativeScenario, NewJob, choose_size
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call

BATCH = 1_000  # jobs per enqueue


class Producers:
    """The producers of a run: they put planned jobs at their time, and jobs of bursts at once."""

    def __init__(self, scenario: NativeScenario, seed: int, client: Any, pace: Pace) -> None:
        self.put = 0
        self.size: int | None = None
        self._scenario, self._client, self._pace = scenario, client, pace
        self._plan = scenario.plan(seed)
        self._next: Arrival | None = next(self._plan)
        self._taken_count = 0
        self._burst_plan = scenario.extra(seed)
        self._burst_jobs: deque[Arrival] = deque()
        self._pending: list[Arrival] = []  # sent without a reply yet; sent again, which the ids make harmless
        self._registered_queues: set[str] = set()
        self._digest = hashlib.sha256()
        self._is_resend = False  # the pending jobs were sent before, and the reply was lost
        self._accepted_ids: dict[str, list[bytes]] | None = {} if scenario.is_proved else None

    @property
    def digest(self) -> str:
        """The digest of the planned jobs that were put: id, kind, body, delay and order."""
        return self._digest.hexdigest()[:16]

    def copy_accepted_ids(self) -> dict[str, list[bytes]]:
        """Return the accepted ids by queue, if the scenario checks all jobs at its end."""
        return {queue: list(ids) for queue, ids in (self._accepted_ids or {}).items()}

    def add_burst(self, number: int) -> None:
        """Put `number` more jobs from the next turn on."""
        self._burst_jobs.extend(next(self._burst_plan) for _ in range(number))

    def add(self, arrival: Arrival) -> None:
        """Put a job at the producers' next turn."""
        self._burst_jobs.append(arrival)

    def turn(self) -> Round:
        """Put at most `BATCH` due jobs; the returned round waits until the next arrival."""
        if not self._pending:
            self._pending = self._take_due_jobs()
        if self._pending:
            began = time.monotonic()
            sent = len(self._pending)
            self._send_pending()
            if self.size is None and self._scenario.sizes:
                self.size = choose_size(self._scenario, sent / (time.monotonic() - began))
        return Round(wait_s=self._compute_rest_s())

    def flush(self) -> None:
        """Put all jobs that are due by now, in as many calls as needed."""
        while self._pending or self._burst_jobs or self._is_due():
            self.turn()

    def _is_due(self) -> bool:
        return self._next is not None and self._next.at_ms <= self._pace.read_clock_s() * 1000

    def _compute_rest_s(self) -> float:
        if self._burst_jobs or self._next is None:
            return TURN_S if self._burst_jobs else IDLE_S
        until_s = (self._next.at_ms / 1000 - self._pace.read_clock_s()) / self._pace.speed
        return min(IDLE_S, max(TURN_S, until_s))

    def _take_due_jobs(self) -> list[Arrival]:
        due = [self._burst_jobs.popleft() for _ in range(min(BATCH, len(self._burst_jobs)))]
        now_ms = self._pace.read_clock_s() * 1000
        while self._next is not None and self._next.at_ms <= now_ms and len(due) < BATCH:
            due.append(self._next)
            self._update_digest(self._next)
            self._taken_count += 1
            is_last = self.size is not None and self._taken_count >= self.size
            self._next = None if is_last else next(self._plan, None)
        return due

    def _update_digest(self, arrival: Arrival) -> None:
        job = arrival.job
        self._digest.update(repr((arrival.queue, job.id, job.name, job.delay_ms, job.priority)).encode() + job.body)

    def _send_pending(self) -> None:
        queues = list(dict.fromkeys(arrival.queue for arrival in self._pending))
        calls = [build_enqueue_call(queue, [a.job for a in self._pending if a.queue == queue]) for queue in queues]
        replies = scripts.send_calls(self._client, calls)
        for reply in replies:
            if isinstance(reply, ServerError):
                self._is_resend = True
                raise reply
        words = ("moved", "exists") if self._is_resend else ("moved",)
        for queue, reply in zip(queues, replies, strict=True):
            if not isinstance(reply, Exception):
                sent = [arrival for arrival in self._pending if arrival.queue == queue]
                accepted_ids = [a.job.id for a, each in zip(sent, reply.each, strict=True) if each.word in words]
                self.put += len(accepted_ids)
                if self._accepted_ids is not None:
                    self._accepted_ids.setdefault(queue, []).extend(id.encode() for id in accepted_ids)
        self._pending, self._is_resend = [], False
        if new := set(queues) - self._registered_queues:
            with translate_redis_errors():  # the demo may end, and its server with it, while a step is under way
                self._client.sadd(QUEUES, *new)
            self._registered_queues |= new


def build_enqueue_call(queue: str, jobs: Sequence[NewJob], now_ms: int | None = None) -> Call:
    """Build the call that enqueues at most `BATCH` jobs."""
    script = scripts.load_scripts("native")["enqueue"]
    names = [arg.name for arg in script.each]
    return script.build_call(
        build_queue_keys(queue), {"now_ms": now_ms}, [[getattr(job, name) for name in names] for job in jobs]
    )
