"""Consume jobs: lease them in batches, hand them out one by one, and wait without polling if there are none.

One round trip settles the last batch, dispatches due jobs and reaps expired leases if it is time, and leases the next
batch. While Redis is unreachable the consumer backs off and retries; it ends when told to stop. `Queue.consume` creates
one. `rqtui.client.heartbeat` sends heartbeats, `rqtui.client.wakeup` waits for work. `ConsumerLoop` is the behaviour,
`Consumer` its blocking form; the asyncio form is in `rqtui.aio.consumer`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from redis import Redis

from rqtui.client.heartbeat import Heartbeat, HeartbeatLoop
from rqtui.client.leased_job import Job, JobQueue, Leased, SettlingQueue
from rqtui.client.outcome_buffer import OutcomeBuffer
from rqtui.client.wakeup import BLOCK_S, WakeReason, WakeWaiter
from rqtui.coroutines import run_without_event_loop
from rqtui.durations import compute_reconnect_delay_s
from rqtui.errors import Denied, RqtuiError, ServerError, UsageError, WrongType
from rqtui.scripts.script import Call, Reply, send_calls

log = logging.getLogger("rqtui")

BATCH = 100  # the default limit; measured no-op jobs/s: 58 000 with 50, 60 000 with 100, 56 000 with 500
MAX_BATCH = 1000  # the limit of the scripts
BATCH_S = 0.1  # the target time to process a batch, and so the longest wait of a job behind others in one process …
LEASE_SHARE = 10  # … which is also at most this part of the lease (a tenth)
SWEEP_S = 1.0  # between two sweeps (dispatch and reap) of a busy consumer
SLOW_S = 1.0  # if a job runs for longer, the rest of its batch is released for other consumers
SWEEP_LIMIT = 1000
SPIN_S = 0.01
EARLY_SHARE = 0.1  # of a round trip: the next round trip may be faster by this much
CANCEL_WAIT_S, CLOSE_S = 0.5, 1.0  # limits of the last calls, so that a stopped consumer ends even if Redis is slow
LAG_S = (0.002, 0.015)  # added to the timer of a consumer that did not take the marker: the one that did works first


J = TypeVar("J", bound=Leased[Any])


class ConsumedQueue(JobQueue, Protocol):
    """The attributes and methods of a queue that a consumer needs."""

    keys: Mapping[str, str]

    def call(self, verb: str, args: Mapping[str, object] = ..., rows: Iterable[Sequence[object]] = ...) -> Call:
        """Build a call of one of the queue's scripts."""
        ...


class BlockingQueue(ConsumedQueue, SettlingQueue, Protocol):
    """The attributes and methods of a queue that a blocking consumer needs."""

    client: Redis


class StopEvent(Protocol):
    """An event that ends a consumer: `threading.Event` or `asyncio.Event`."""

    def is_set(self) -> bool:
        """Return whether the event that ends the consumer is set."""
        ...


class Waiter(Protocol):
    """The awaitable form of `rqtui.client.wakeup.WakeWaiter`, which waits for new jobs."""

    def wait(self, timer_s: float | None, stop: Any) -> Awaitable[WakeReason]:
        """Wait for new jobs (the wake marker), a timer, `stop` or an interrupt."""
        ...

    def pause(self, seconds: float, stop: Any) -> Awaitable[bool]:
        """Wait some seconds without a request to Redis; return whether an interrupt or `stop` ended the wait."""
        ...

    def cancel_wait(self) -> Awaitable[None]:
        """End the BZPOPMIN that waits for new jobs in Redis."""
        ...

    def restore_marker(self) -> Awaitable[None]:
        """Put the wake marker back for another consumer of the queue."""
        ...

    def interrupt(self) -> None:
        """End the current wait for new jobs, or the next one."""
        ...


class ConsumerLoop(Generic[J]):
    """The behaviour of a consumer, shared by the blocking and the asyncio form: lease, hand out, settle, wait.

    The subclasses add how calls are sent and awaited.
    """

    _waiter: Waiter
    _heartbeat: HeartbeatLoop
    _outcomes: OutcomeBuffer

    def __init__(
        self,
        queue: ConsumedQueue,
        *,
        ttr_ms: int | None = None,
        batch: int = BATCH,
        worker: str | None = None,
        burst: bool = False,
        stop: StopEvent | None = None,
    ) -> None:
        if not isinstance(batch, int) or not 1 <= batch <= MAX_BATCH:
            raise UsageError(f"batch is 1 to {MAX_BATCH}, not {batch!r}.")
        self.worker = worker or create_worker_name()
        if len(self.worker.encode()) > 200 or not self.worker.isprintable():
            raise UsageError(f"A worker's name has up to 200 bytes and no control characters: {ascii(self.worker)}.")
        self._queue, self._ttr_ms, self._max_batch, self._is_burst, self._stop_signal = (
            queue,
            ttr_ms,
            batch,
            burst,
            stop,
        )
        self._order = "run"
        self._is_stopping = False
        self._pid = os.getpid()
        self._enter_count = 0
        self._buffer: deque[J] = deque()
        self._current: J | None = None
        self._current_since_s = 0.0
        self._batch_size = 1
        self._is_holding_timer = False
        self._next_due_s: float | None = None  # when a job becomes due or a lease ends, by time.monotonic; None: never
        self._is_wait_cancelled = True  # False: Redis did not answer when the last BZPOPMIN was to be ended
        self._is_stuck = False  # something is due by the server's clock, and was not moved
        self._is_timer_over = False  # the timer that we hold fired: time to dispatch and reap
        self._is_busy = False
        self._last_sweep_s = 0.0
        self._allowed_steps: set[str] = set()  # steps that succeeded once; a later refusal may be temporary

    def stop(self) -> None:
        """Stop the consumer: hand out no more jobs, and release the jobs that were not started."""
        self._is_stopping = True
        if self._enter_count:
            self._waiter.interrupt()

    @property
    def is_stopping(self) -> bool:
        """Whether the consumer was stopped by `stop()`, its event or an operator; always True in a forked child."""
        return self._is_stopping or (self._stop_signal is not None and self._stop_signal.is_set()) or self._is_forked

    async def _send_calls(self, calls: Sequence[Call]) -> list[Reply | Exception]:
        """Send script calls to Redis in one round trip."""
        raise NotImplementedError

    async def _run_with_timeout(self, run_step: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> bool:
        """Run a coroutine function and wait at most `timeout_s` for its end; return whether it ended."""
        raise NotImplementedError

    def _build_leased_job(self, row: Sequence[Any], began_s: float) -> J:
        """Build a leased job from a row in the reply of the script `reserve`."""
        raise NotImplementedError

    def _build_heartbeat_options(self) -> dict[str, Any]:
        """Create the buffer of job outcomes, and return the options for this consumer's heartbeat."""
        self._pid = os.getpid()
        self._outcomes = OutcomeBuffer(lambda verb, rows: self._queue.call(verb, {}, rows), self._stop_extending_lease)
        return {
            "identity": {"worker": self.worker, "pid": str(self._pid), "host": _replace_spaces(socket.gethostname())},
            "ttr_ms": self._ttr_ms,
            "find_current_id": lambda: self._current.id_bytes if self._current else b"",
            "on_order": self._follow_operator_order,
            "on_tick": self._release_waiting_jobs,
        }

    def _start_next_job(self) -> bool:
        """Make the next leased job the current one; return False if there is none to start."""
        while not self.is_stopping:
            try:
                job = self._buffer.popleft()
            except IndexError:
                return False
            if job.cancelled:
                self._outcomes.add_outcome("reject", job, b"cancelled before it began")
            elif not job.lost:
                self._current, self._current_since_s = job, time.monotonic()
                return True
        return False

    def _resize_batch(self, job_count: int, processing_s: float) -> None:
        """Set how many jobs to lease next: as many as take BATCH_S, or a tenth of the lease, to process.

        The size at most doubles.
        """
        if job_count:
            budget_s = BATCH_S if self._ttr_ms is None else min(BATCH_S, self._ttr_ms / 1000 / LEASE_SHARE)
            affordable = int(budget_s * job_count / max(processing_s, 1e-9))
            self._batch_size = max(1, min(affordable, self._batch_size * 2, self._max_batch))

    async def _fill_job_buffer(self) -> bool:
        """Wait until there are leased jobs in the buffer; return False if it is time to end."""
        failures = 0
        while not self.is_stopping:
            step = "claim"
            try:
                word = await self._run_claim_round_trip()
                self._allowed_steps.add(step)
                if self._buffer:
                    return True
                if self._is_burst and word in ("empty", "paused"):
                    return False
                step = "wait"
                await self._wait_for_work(word)
                self._allowed_steps.add(step)
                failures = 0
            except ServerError as error:
                if isinstance(error, Denied | WrongType) and (self._is_burst or step not in self._allowed_steps):
                    raise  # a worker that was allowed before waits until it is allowed again; a burst must end
                pause_s = compute_reconnect_delay_s(failures)
                failures += 1
                log.warning("queue %s: %s Trying again in %d s.", self._queue.name, error, pause_s)
                self._is_holding_timer = False
                if self._buffer:
                    return True
                await self._waiter.pause(pause_s, self._stop_signal)
        return False

    async def _run_claim_round_trip(self) -> str:
        """Send outcomes, dispatch and reap if it is time, and lease jobs. Returns the word of the lease's reply.

        Leases nothing while an operator keeps the worker `quiet`.
        """
        has_sweep = self._is_timer_over or (
            self._is_busy and self._has_due_jobs() and time.monotonic() >= self._last_sweep_s + SWEEP_S
        )
        self._is_timer_over = False
        word = await self._send_outcomes_and_claim(has_sweep)
        if word in ("empty", "paused") and self._has_due_jobs() and not has_sweep:
            word = await self._send_outcomes_and_claim(True)  # a job is due, and no other consumer has dispatched it
        return word

    def _has_due_jobs(self) -> bool:
        return self._next_due_s is not None and time.monotonic() >= self._next_due_s

    async def _send_outcomes_and_claim(self, has_sweep: bool) -> str:
        batches = self._outcomes.take_outcome_batches()
        calls = [batch.call for batch in batches]
        if self._order == "run":
            if has_sweep:
                calls += [self._queue.call(verb, {"limit": SWEEP_LIMIT}) for verb in ("dispatch", "reap")]
                self._last_sweep_s = time.monotonic()
            calls.append(
                self._queue.call("reserve", {"limit": self._batch_size, "worker": self.worker, "ttr_ms": self._ttr_ms})
            )
        began_s = time.monotonic()
        results = await self._outcomes.send(batches, calls, self._send_calls)
        own_results = results[len(batches) :]
        for result in own_results:
            if isinstance(result, Exception):
                self._process_claim_reply(own_results[-1], began_s)
                raise result
        return self._process_claim_reply(own_results[-1], began_s) if own_results else "quiet"

    def _process_claim_reply(self, reply: Reply | Exception, began_s: float) -> str:
        """Buffer the jobs in the reply of the script `reserve`, and return its word."""
        if isinstance(reply, Exception):
            return "error"
        next_ms: int = reply.values["next_ms"]
        # The next request takes as long to reach Redis as this one, so it has to be sent at this time plus `next_ms`.
        # A small delay is added, because a request that arrives before the due time would have to be repeated.
        request_s = began_s + EARLY_SHARE * (time.monotonic() - began_s)
        self._next_due_s, self._is_stuck = (request_s + next_ms / 1000 if next_ms >= 0 else None), next_ms == 0
        self._is_busy = bool(reply.rows)
        if reply.rows:
            jobs = [self._build_leased_job(row, began_s) for row in reply.rows]
            self._heartbeat.extend_leases_until_settled(jobs)
            self._buffer.extend(jobs)
            if 0 <= next_ms <= BLOCK_S * 1000:
                self._is_holding_timer = False  # reserve has set the marker: the consumer that takes it keeps the timer
        return reply.word

    async def _wait_for_work(self, word: str) -> None:
        """Wait until there may be jobs to lease.

        The consumer that took the wake marker holds the timer; timers of other consumers fire a little later.
        """
        if word == "quiet":
            if self._is_holding_timer:
                await self._waiter.restore_marker()
                self._is_holding_timer = False
            await self._waiter.pause(BLOCK_S, self._stop_signal)
            return
        timer_s = None
        if self._next_due_s is not None:
            now_s = time.monotonic()
            # A due job that a sweep did not move must not cause a busy loop.
            is_spinning = self._is_stuck and now_s < self._last_sweep_s + SPIN_S
            timer_s = max(SPIN_S if is_spinning else 0.0, self._next_due_s - now_s)
            if not self._is_holding_timer:
                timer_s = timer_s + random.uniform(*LAG_S) if timer_s <= BLOCK_S else None
        reason = await self._waiter.wait(timer_s, self._stop_signal)
        if reason is WakeReason.MARKER:
            self._is_holding_timer = True
        elif self.is_stopping:
            self._is_wait_cancelled = await self._run_with_timeout(self._cancel_wait, CANCEL_WAIT_S)
        elif reason is not WakeReason.NOTHING:
            await self._waiter.cancel_wait()
        self._is_timer_over = reason is WakeReason.TIMER and self._is_holding_timer

    def _release_waiting_jobs(self) -> None:
        """Release leased jobs that wait behind a slow job, so that idle consumers can run them.

        Runs on the heartbeat's thread.
        """
        if self._buffer and self._current is not None and time.monotonic() > self._current_since_s + SLOW_S:
            self._release_unstarted_jobs(len(self._buffer))

    def _release_unstarted_jobs(self, count: int) -> None:
        for _ in range(count):
            try:
                job = self._buffer.pop()
            except IndexError:
                return
            job.outcome = "sent"
            self._outcomes.add_outcome("release", job)

    def _follow_operator_order(self, order: str) -> None:
        self._order = order
        if order == "stop":
            log.info("queue %s: worker %s was asked to stop", self._queue.name, self.worker)
            self.stop()
        elif order == "quiet":
            self._waiter.interrupt()

    def _stop_extending_lease(self, job: Leased[Any]) -> None:
        self._heartbeat.stop_extending_lease(job)

    @property
    def _is_forked(self) -> bool:
        """Whether this consumer is a copy in a forked child process; its jobs and connections belong to the parent."""
        return os.getpid() != self._pid

    async def _close(self) -> None:
        """Send the last outcomes and remove the worker from the queue, within a short time.

        An unreachable or silent Redis must not keep the process from ending.
        """
        if self._is_forked:
            return
        is_finished = await self._run_with_timeout(self._send_final_calls, CLOSE_S)
        self._outcomes.is_closed = True
        if self._outcomes or not is_finished:
            log.warning(
                "queue %s: the outcomes of some jobs, or the end of this worker, could not be sent to Redis; "
                "the leases expire and the jobs run again",
                self._queue.name,
            )

    async def _cancel_wait(self) -> None:
        with contextlib.suppress(RqtuiError):
            await self._waiter.cancel_wait()

    async def _send_final_calls(self) -> None:
        """Send the remaining outcomes, pass the timer to another consumer, and leave the list of workers."""
        self._outcomes.is_closed = True
        try:
            if self._is_wait_cancelled:
                await self._waiter.cancel_wait()  # an interrupt may have left a BZPOPMIN pending
            if self._is_holding_timer:
                await self._waiter.restore_marker()
            batches = self._outcomes.take_outcome_batches()
            calls = [*(batch.call for batch in batches), self._heartbeat.build_leave_call()]
            await self._outcomes.send(batches, calls, self._send_calls)
        except RqtuiError as error:
            log.warning("queue %s: %s", self._queue.name, error)


class Consumer(ConsumerLoop[Job]):
    """An iterable of leased jobs and a context manager: inside it leases are extended, also after the iteration ended.

    `stop()` may be called from any thread and from a signal handler. Two threads must not share one consumer.
    """

    _queue: BlockingQueue
    _waiter: _AwaitableWaiter
    _heartbeat: Heartbeat

    def __enter__(self) -> Self:
        if self._enter_count == 0:
            heartbeat_options = self._build_heartbeat_options()
            self._waiter = _AwaitableWaiter(WakeWaiter(self._queue.client, self._queue.keys["wake"]))
            self._heartbeat = Heartbeat(self._send_calls, self._queue.call, self._outcomes, **heartbeat_options)
            self._heartbeat.start()
        self._enter_count += 1  # last: what could not be entered is not inside
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._enter_count -= 1
        if self._enter_count == 0:
            run_without_event_loop(self._close())

    def __iter__(self) -> Generator[Job, None, None]:
        """Yield leased jobs one by one. However the loop ends, jobs that were not started are released."""
        with self:
            try:
                while run_without_event_loop(self._fill_job_buffer()):
                    began_s = time.monotonic()
                    handed_out = 0
                    while self._start_next_job():
                        handed_out += 1
                        # No name for the job in this frame: while it waits for more, it must not keep the job alive.
                        yield self._current  # type: ignore[misc]
                    self._current = None
                    self._resize_batch(handed_out, time.monotonic() - began_s)
            finally:
                self._current = None
                self._release_unstarted_jobs(len(self._buffer))

    async def _send_calls(self, calls: Sequence[Call]) -> list[Reply | Exception]:
        return send_calls(self._queue.client, calls)

    def _build_leased_job(self, row: Sequence[Any], began_s: float) -> Job:
        return Job(self._queue, *row, sink=self._outcomes, began_s=began_s)

    async def _run_with_timeout(self, run_step: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> bool:
        thread = threading.Thread(target=lambda: run_without_event_loop(run_step()), name="rqtui-hurry", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending, and begins no threads any more
            run_without_event_loop(run_step())
        else:
            thread.join(timeout_s)
        return not thread.is_alive()

    async def _send_final_calls(self) -> None:
        self._heartbeat.close()
        await super()._send_final_calls()

    async def _close(self) -> None:
        await super()._close()
        if not self._is_forked:
            self._waiter.close()


class _AwaitableWaiter:
    """An adapter that lets the consumer loop await a blocking `WakeWaiter`."""

    def __init__(self, waiter: WakeWaiter) -> None:
        self._waiter = waiter
        self.interrupt, self.close = waiter.interrupt, waiter.close

    async def wait(self, timer_s: float | None, stop: threading.Event | None) -> WakeReason:
        return self._waiter.wait(timer_s, stop)

    async def pause(self, seconds: float, stop: threading.Event | None) -> bool:
        return self._waiter.pause(seconds, stop)

    async def cancel_wait(self) -> None:
        self._waiter.cancel_wait()

    async def restore_marker(self) -> None:
        self._waiter.restore_marker()


def create_worker_name() -> str:
    """Return a unique name for a worker: host, process id, and five random hex digits."""
    return f"{_replace_spaces(socket.gethostname())}:{os.getpid()}:{random.SystemRandom().getrandbits(20):05x}"


def _replace_spaces(text: str) -> str:
    return re.sub(r"[\s\x00-\x1f\x7f]", "-", text)[:100]
