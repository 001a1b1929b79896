"""Extend the leases of a consumer in the background, and send the worker's heartbeat and overdue outcomes.

All leases are extended in one call when the first of them has used a third of its time. The worker's heartbeat is sent
whenever a third of `WORKER_TTL_MS` has passed. The loop never ends with an error: while Redis is unreachable it retries
once a second, and a job detects by the clock that its lease is lost. `HeartbeatLoop` decides what is sent and when;
`Heartbeat` runs it in a thread, `rqtui.aio.heartbeat` in a task.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rqtui.client.leased_job import Leased
from rqtui.client.outcome_buffer import MAX_JOBS_PER_CALL, OutcomeBatch, OutcomeBuffer, Send
from rqtui.coroutines import run_without_event_loop
from rqtui.errors import RqtuiError
from rqtui.scripts.script import Call, Reply

log = logging.getLogger("rqtui")

WORKER_TTL_MS = 60_000  # a worker without a heartbeat for longer counts as late
TICK_S = 0.1  # between two steps while jobs are leased; a buffered outcome is sent after two steps at most
RETRY_S = 1.0
INTERVALS_PER_LEASE = 3  # leases are extended, and heartbeats sent, after each third of their time


class HeartbeatLoop:
    """The behaviour of a worker's heartbeat: it decides which leases to extend, and when to send which calls.

    `leases` maps tokens to weak references, so that a job that no code can settle any more is garbage-collected.
    `identity` has the constant arguments of the script `beat`. `find_current_id` returns the id of the running job, or
    empty bytes. `on_order` receives the operator's order: `run`, `quiet` or `stop`. `on_tick` runs at each step while
    jobs are leased.
    """

    def __init__(
        self,
        send: Send,
        make_call: Callable[[str, Mapping[str, object], Iterable[Sequence[object]]], Call],
        outcomes: OutcomeBuffer,
        *,
        identity: Mapping[str, object],
        ttr_ms: int | None,
        find_current_id: Callable[[], bytes],
        on_order: Callable[[str], None],
        on_tick: Callable[[], None],
    ) -> None:
        self.leases: dict[str, weakref.ref[Leased[Any]]] = {}
        self._send, self._make_call, self._outcomes = send, make_call, outcomes
        self._identity, self._ttr_ms, self._find_current_id = identity, ttr_ms, find_current_id
        self._on_order, self._on_tick = on_order, on_tick
        self._is_resting = False
        self._is_closed = False
        self._next_beat_s = 0.0
        self._not_before_s = 0.0
        self._last_take_count = 0
        self._last_failure = ""

    def _wake_loop(self) -> None:
        """End the current pause between two steps of the heartbeat early."""
        raise NotImplementedError

    def extend_leases_until_settled(self, jobs: Iterable[Leased[Any]]) -> None:
        """Extend the leases of jobs until they are settled, lost or garbage-collected."""
        for job in jobs:
            self.leases[job.token] = weakref.ref(job)
        if self._is_resting:
            self._wake_loop()

    def stop_extending_lease(self, job: Leased[Any]) -> None:
        """Stop extending the lease of a job that is over or settled."""
        self.leases.pop(job.token, None)

    def build_leave_call(self) -> Call:
        """Build the call that removes the worker from the queue's list of workers."""
        return self._make_call("beat", {**self._identity, "ttl_ms": WORKER_TTL_MS, "leave": True}, ())

    async def _run_step_and_log_errors(self) -> None:
        """Run one step of the heartbeat; log any error and continue."""
        try:
            await self._send_due_calls()
        except Exception:  # a bug in rqtui must not end the heartbeat: every lease of the worker would expire
            log.exception("a heartbeat failed; the next one is tried")
            self._not_before_s = time.monotonic() + RETRY_S

    def _compute_rest_time_s(self) -> float:
        """Return how many seconds to rest until the next step of the heartbeat."""
        if self.leases or self._outcomes:
            return TICK_S if self._ttr_ms is None else max(0.01, min(TICK_S, self._ttr_ms / 10_000))
        return max(0.0, max(self._next_beat_s, self._not_before_s) - time.monotonic())

    async def _send_due_calls(self) -> None:
        now_s = time.monotonic()
        if self.leases:
            self._on_tick()
        if now_s < self._not_before_s:
            return
        batches = self._take_waiting_batches()
        leases = self._choose_leases_to_extend(now_s)
        extend_calls = [
            self._make_call(
                "extend",
                {"ttr_ms": self._ttr_ms},
                [(job.id_bytes, job.token) for job in leases[start : start + MAX_JOBS_PER_CALL]],
            )
            for start in range(0, len(leases), MAX_JOBS_PER_CALL)
        ]
        beat_calls = [self._build_beat_call()] if now_s >= self._next_beat_s else []
        calls = [*(batch.call for batch in batches), *extend_calls, *beat_calls]
        if not calls:
            return
        results = await self._outcomes.send(batches, calls, self._send)
        failures = [result for result in results if isinstance(result, RqtuiError)]
        self._log_failure_once(failures[0] if failures else None, now_s)
        self._apply_extend_replies(leases, results[len(batches) : len(batches) + len(extend_calls)], now_s)
        if beat_calls and isinstance(results[-1], Reply):
            self._next_beat_s = now_s + WORKER_TTL_MS / INTERVALS_PER_LEASE / 1000
            self._on_order(results[-1].word)

    def _log_failure_once(self, failure: RqtuiError | None, now_s: float) -> None:
        """Log a failure of the heartbeat once, not at each retry."""
        if failure is not None:
            self._not_before_s = now_s + RETRY_S
        if failure is not None and str(failure) != self._last_failure:
            log.warning("heartbeat of %s: %s", self._identity["worker"], failure)
        self._last_failure = str(failure or "")

    def _take_waiting_batches(self) -> list[OutcomeBatch]:
        """Take the outcomes of jobs that have waited since the last step.

        The consumer's next round trip sends newer ones.
        """
        previous_count, self._last_take_count = self._last_take_count, self._outcomes.take_count
        return (
            self._outcomes.take_outcome_batches()
            if self._outcomes and previous_count == self._outcomes.take_count
            else []
        )

    def _choose_leases_to_extend(self, now_s: float) -> list[Leased[Any]]:
        """Return all leased jobs if one of them has used a third of its lease; else return none."""
        leases = []
        is_time = False
        for token, reference in list(self.leases.items()):
            job = reference()
            if job is None:
                self.leases.pop(token, None)
                continue
            ttr_s = (self._ttr_ms or job.ttr_ms) / 1000
            left_s = job.until_s - now_s
            if job.settling or job.cancelled or job.outcome not in ("", "sent") or left_s > ttr_s:
                continue  # the last condition: the job's own `extend` asked for more time than this call would give
            leases.append(job)
            is_time = is_time or left_s < ttr_s * (INTERVALS_PER_LEASE - 1) / INTERVALS_PER_LEASE
        return leases if is_time else []

    def _apply_extend_replies(
        self, leases: Sequence[Leased[Any]], results: Sequence[Reply | Exception], began_s: float
    ) -> None:
        for start, result in zip(range(0, len(leases), MAX_JOBS_PER_CALL), results, strict=True):
            if isinstance(result, Exception):
                continue
            for job, reply in zip(leases[start : start + MAX_JOBS_PER_CALL], result.each, strict=True):
                job.apply_extend_reply(reply.word, began_s, self._ttr_ms or job.ttr_ms)
                if reply.word != "extended":
                    self.stop_extending_lease(job)

    def _build_beat_call(self) -> Call:
        return self._make_call("beat", {**self._identity, "ttl_ms": WORKER_TTL_MS, "job": self._find_current_id()}, ())


class Heartbeat(HeartbeatLoop):
    """The heartbeat of a blocking consumer, which runs in a thread; see `HeartbeatLoop`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._wake_event = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="rqtui-heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread: send the worker's first heartbeat at once, then continue until `close`."""
        self._thread.start()

    def close(self) -> None:
        """End the heartbeat's thread, and return when none of its calls is pending."""
        self._is_closed = True
        self._wake_loop()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run_loop(self) -> None:
        while not self._is_closed:
            run_without_event_loop(self._run_step_and_log_errors())
            self._wait_for_next_step()

    def _wake_loop(self) -> None:
        self._wake_event.set()

    def _wait_for_next_step(self) -> None:
        self._is_resting = True
        wait_s = self._compute_rest_time_s()
        if self.leases or self._outcomes:
            self._is_resting = False
        if self._wake_event.wait(wait_s):
            self._wake_event.clear()
        self._is_resting = False
