"""The consumer: leases jobs in batches, hands them out one by one, and waits without polling when there are none.

One trip settles the last batch, dispatches due jobs and reaps expired leases where that is due, and leases the next
batch. While Redis is away it backs off and goes on; it ends when it is told to. `Queue.consume` makes one; the
beats are `rqtui.client.heartbeat`'s, the blocking `rqtui.client.wakeup`'s. `ConsumerLoop` is what a consumer does,
`Consumer` the one that waits where it is called; the one of an event loop is `rqtui.aio.consumer`'s.
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

from rqtui.client.ack_buffer import Outbox
from rqtui.client.heartbeat import Beats, Heartbeat
from rqtui.client.leased_job import Home, Job, Leased, Origin
from rqtui.client.wakeup import BLOCK_S, Doorbell, Woken
from rqtui.coroutines import run_at_once
from rqtui.durations import backoff_s
from rqtui.errors import Denied, RqtuiError, ServerError, UsageError, WrongType
from rqtui.scripts.script import Answer, Call, run_all

log = logging.getLogger("rqtui")

BATCH = 100  # by default at most; 58 000 no-op jobs/s with 50, 60 000 with 100, 56 000 with 500
MOST = 1000  # what the scripts take in one call
BATCH_S = 0.1  # what a batch should take to handle: so long may a job wait behind others in one process …
LEASE_SHARE = 10  # … and no longer than that part of the lease
SWEEP_S = 1.0  # a busy consumer dispatches and reaps at most so often
SLOW_S = 1.0  # behind a job that runs for longer, the rest of the batch is released for others
SWEEP_LIMIT = 1000
SPIN_S = 0.01
EARLY = 0.1  # of a round trip: by so much the next one may be faster
WITHDRAW_S, CLOSE_S = 0.5, 1.0  # what the last words may take: whoever is asked to end ends, however busy Redis is
LAG_S = (0.002, 0.015)  # a timer that is not ours to hold fires so much later, when its holder has done the work


J = TypeVar("J", bound=Leased[Any])


class Source(Origin, Protocol):
    """What a consumer needs of its queue."""

    keys: Mapping[str, str]

    def call(self, verb: str, args: Mapping[str, object] = ..., rows: Iterable[Sequence[object]] = ...) -> Call:
        """A call of one of the queue's scripts."""
        ...


class WaitingSource(Source, Home, Protocol):
    """The queue of a consumer that waits where it is called."""

    client: Redis


class Stop(Protocol):
    """An event that ends a consumer: of `threading`, or of `asyncio`."""

    def is_set(self) -> bool:
        """Whether it was set."""
        ...


class Bell(Protocol):
    """What waits for work, as `rqtui.client.wakeup.Doorbell` has it; it is awaited."""

    def wait(self, timer_s: float | None, stop: Any) -> Awaitable[Woken]:
        """Wait for the marker, a timer, `stop` or an interrupt."""
        ...

    def pause(self, seconds: float, stop: Any) -> Awaitable[bool]:
        """Wait without asking Redis."""
        ...

    def withdraw(self) -> Awaitable[None]:
        """End the BZPOPMIN under way."""
        ...

    def pass_on(self) -> Awaitable[None]:
        """Leave the marker for another consumer."""
        ...

    def interrupt(self) -> None:
        """End the wait under way, or the next one."""
        ...


class ConsumerLoop(Generic[J]):
    """What a consumer does, whoever waits: its methods that are awaited send, wait or pause."""

    _bell: Bell
    _heart: Beats
    _outbox: Outbox

    def __init__(
        self,
        queue: Source,
        *,
        ttr_ms: int | None = None,
        batch: int = BATCH,
        worker: str | None = None,
        burst: bool = False,
        stop: Stop | None = None,
    ) -> None:
        if not isinstance(batch, int) or not 1 <= batch <= MOST:
            raise UsageError(f"batch is 1 to {MOST}, not {batch!r}.")
        self.worker = worker or worker_name()
        if len(self.worker.encode()) > 200 or not self.worker.isprintable():
            raise UsageError(f"A worker's name has up to 200 bytes and no control characters: {ascii(self.worker)}.")
        self._queue, self._ttr_ms, self._most, self._burst, self._event = queue, ttr_ms, batch, burst, stop
        self._order = "run"
        self._is_stopping = False
        self._pid = os.getpid()
        self._depth = 0
        self._buffer: deque[J] = deque()
        self._current: J | None = None
        self._current_since_s = 0.0
        self._size = 1
        self._is_holding_timer = False
        self._next_s: float | None = None  # when something falls due or expires, by time.monotonic; None: nothing will
        self._is_withdrawn = True  # False: Redis did not answer when the last BZPOPMIN was to be ended
        self._is_stuck = False  # something is due by the server's clock, and was not moved
        self._is_timer_over = False  # the timer that we hold fired: time to dispatch and reap
        self._is_busy = False
        self._swept_s = 0.0
        self._proven: set[str] = set()  # what Redis has let us do once: what it says against that later may pass

    def stop(self) -> None:
        """Hand out no further job; jobs that were not begun are released."""
        self._is_stopping = True
        if self._depth:
            self._bell.interrupt()

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop, by `stop()`, by its event, or by an operator; and in a forked child, always."""
        return self._is_stopping or (self._event is not None and self._event.is_set()) or self._is_forked

    async def _send(self, calls: Sequence[Call]) -> list[Answer | Exception]:
        """Send calls in one trip."""
        raise NotImplementedError

    async def _hurry(self, saying: Callable[[], Coroutine[Any, Any, None]], most_s: float) -> bool:
        """Let it be said, and wait for its end so long; whether it came."""
        raise NotImplementedError

    def _job(self, row: Sequence[Any], began_s: float) -> J:
        """A job of a row that `reserve` answered."""
        raise NotImplementedError

    def _open(self) -> dict[str, Any]:
        """Have an outbox; what else a heartbeat of this consumer is made of."""
        self._pid = os.getpid()
        self._outbox = Outbox(lambda verb, rows: self._queue.call(verb, {}, rows), self._let_go)
        return {
            "identity": {"worker": self.worker, "pid": str(self._pid), "host": _word(socket.gethostname())},
            "ttr_ms": self._ttr_ms,
            "current": lambda: self._current.id_bytes if self._current else b"",
            "on_order": self._obey,
            "on_tick": self._unburden,
        }

    def _next(self) -> bool:
        """Make the next job in the buffer the current one; False when there is none to begin."""
        while not self.is_stopping:
            try:
                job = self._buffer.popleft()
            except IndexError:
                return False
            if job.cancelled:
                self._outbox.add("reject", job, b"cancelled before it began")
            elif not job.lost:
                self._current, self._current_since_s = job, time.monotonic()
                return True
        return False

    def _resize(self, jobs: int, took_s: float) -> None:
        """Claim next time what takes BATCH_S, or a tenth of the lease, to handle; at most twice as much as now."""
        if jobs:
            budget_s = BATCH_S if self._ttr_ms is None else min(BATCH_S, self._ttr_ms / 1000 / LEASE_SHARE)
            affordable = int(budget_s * jobs / max(took_s, 1e-9))
            self._size = max(1, min(affordable, self._size * 2, self._most))

    async def _fill(self) -> bool:
        """Wait until there are jobs in the buffer; False when it is time to end."""
        failures = 0
        while not self.is_stopping:
            step = "claim"
            try:
                word = await self._trip()
                self._proven.add(step)
                if self._buffer:
                    return True
                if self._burst and word in ("empty", "paused"):
                    return False
                step = "wait"
                await self._wait(word)
                self._proven.add(step)
                failures = 0
            except ServerError as error:
                if isinstance(error, Denied | WrongType) and (self._burst or step not in self._proven):
                    raise  # a worker that did its work until now waits for the right to come back; a burst has an end
                pause_s = backoff_s(failures)
                failures += 1
                log.warning("queue %s: %s Trying again in %d s.", self._queue.name, error, pause_s)
                self._is_holding_timer = False
                if self._buffer:
                    return True
                await self._bell.pause(pause_s, self._event)
        return False

    async def _trip(self) -> str:
        """Settle, sweep where that is due, claim; the word of the claim. Nothing is claimed while `quiet`."""
        sweep = self._is_timer_over or (
            self._is_busy and self._is_due() and time.monotonic() >= self._swept_s + SWEEP_S
        )
        self._is_timer_over = False
        word = await self._exchange(sweep)
        if word in ("empty", "paused") and self._is_due() and not sweep:
            word = await self._exchange(True)  # something is due already, and nobody else has seen to it
        return word

    def _is_due(self) -> bool:
        return self._next_s is not None and time.monotonic() >= self._next_s

    async def _exchange(self, sweep: bool) -> str:
        parcels = self._outbox.take()
        calls = [parcel.call for parcel in parcels]
        if self._order == "run":
            if sweep:
                calls += [self._queue.call(verb, {"limit": SWEEP_LIMIT}) for verb in ("dispatch", "reap")]
                self._swept_s = time.monotonic()
            calls.append(
                self._queue.call("reserve", {"limit": self._size, "worker": self.worker, "ttr_ms": self._ttr_ms})
            )
        began_s = time.monotonic()
        results = await self._outbox.send(parcels, calls, self._send)
        rest = results[len(parcels) :]
        for result in rest:
            if isinstance(result, Exception):
                self._keep(rest[-1], began_s)
                raise result
        return self._keep(rest[-1], began_s) if rest else "quiet"

    def _keep(self, answer: Answer | Exception, began_s: float) -> str:
        """Take in what a reserve answered."""
        if isinstance(answer, Exception):
            return "error"
        next_ms: int = answer.values["next_ms"]
        # What is sent by then travels as long as this question did, and arrives in time; a little later, since one
        # that comes too early has to be asked again.
        asked_s = began_s + EARLY * (time.monotonic() - began_s)
        self._next_s, self._is_stuck = (asked_s + next_ms / 1000 if next_ms >= 0 else None), next_ms == 0
        self._is_busy = bool(answer.rows)
        if answer.rows:
            jobs = [self._job(row, began_s) for row in answer.rows]
            self._heart.hold(jobs)
            self._buffer.extend(jobs)
            if 0 <= next_ms <= BLOCK_S * 1000:
                self._is_holding_timer = False  # reserve has set the marker: whoever takes it holds the timer
        return answer.word

    async def _wait(self, word: str) -> None:
        """Until there may be something to do. Whoever took the marker holds the timer; others fire a little later."""
        if word == "quiet":
            if self._is_holding_timer:
                await self._bell.pass_on()
                self._is_holding_timer = False
            await self._bell.pause(BLOCK_S, self._event)
            return
        timer_s = None
        if self._next_s is not None:
            now_s = time.monotonic()
            # What is due and yet did not move must not make us spin.
            is_spinning = self._is_stuck and now_s < self._swept_s + SPIN_S
            timer_s = max(SPIN_S if is_spinning else 0.0, self._next_s - now_s)
            if not self._is_holding_timer:
                timer_s = timer_s + random.uniform(*LAG_S) if timer_s <= BLOCK_S else None
        woken = await self._bell.wait(timer_s, self._event)
        if woken is Woken.MARKER:
            self._is_holding_timer = True
        elif self.is_stopping:
            self._is_withdrawn = await self._hurry(self._withdraw, WITHDRAW_S)
        elif woken is not Woken.NOTHING:
            await self._bell.withdraw()
        self._is_timer_over = woken is Woken.TIMER and self._is_holding_timer

    def _unburden(self) -> None:
        """Give back what waits behind a slow job, for idle consumers to have it; runs on the heartbeat's thread."""
        if self._buffer and self._current is not None and time.monotonic() > self._current_since_s + SLOW_S:
            self._give_back(len(self._buffer))

    def _give_back(self, count: int) -> None:
        for _ in range(count):
            try:
                job = self._buffer.pop()
            except IndexError:
                return
            job.outcome = "sent"
            self._outbox.add("release", job)

    def _obey(self, order: str) -> None:
        self._order = order
        if order == "stop":
            log.info("queue %s: worker %s was told to stop", self._queue.name, self.worker)
            self.stop()
        elif order == "quiet":
            self._bell.interrupt()

    def _let_go(self, job: Leased[Any]) -> None:
        self._heart.let_go(job)

    @property
    def _is_forked(self) -> bool:
        """Whether this is the copy in a child that a handler forked: its jobs and its connections are the parent's."""
        return os.getpid() != self._pid

    async def _close(self) -> None:
        """Leave. Redis being away, or there and silent, must not keep a process from ending."""
        if self._is_forked:
            return
        is_said = await self._hurry(self._say_goodbye, CLOSE_S)
        self._outbox.is_closed = True
        if self._outbox or not is_said:
            log.warning(
                "queue %s: Redis could not be told what became of some jobs, or that this worker leaves; "
                "the leases end and the jobs run again",
                self._queue.name,
            )

    async def _withdraw(self) -> None:
        with contextlib.suppress(RqtuiError):
            await self._bell.withdraw()

    async def _say_goodbye(self) -> None:
        """Send what is left, pass the timer on, leave the list of workers."""
        self._outbox.is_closed = True
        try:
            if self._is_withdrawn:
                await self._bell.withdraw()  # of what an interrupt left under way
            if self._is_holding_timer:
                await self._bell.pass_on()
            parcels = self._outbox.take()
            calls = [*(parcel.call for parcel in parcels), self._heart.leave()]
            await self._outbox.send(parcels, calls, self._send)
        except RqtuiError as error:
            log.warning("queue %s: %s", self._queue.name, error)


class Consumer(ConsumerLoop[Job]):
    """An iterable of jobs, and a context: inside it held leases beat, also after the iteration has ended.

    `stop()` may be called from any thread and from a signal handler. Not for two threads at once: make one each.
    """

    _queue: WaitingSource
    _bell: _Blocking
    _heart: Heartbeat

    def __enter__(self) -> Self:
        if self._depth == 0:
            told = self._open()
            self._bell = _Blocking(Doorbell(self._queue.client, self._queue.keys["wake"]))
            self._heart = Heartbeat(self._send, self._queue.call, self._outbox, **told)
            self._heart.start()
        self._depth += 1  # last: what could not be entered is not inside
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            run_at_once(self._close())

    def __iter__(self) -> Generator[Job, None, None]:
        """Jobs, one by one. Ending the loop in whatever way gives back what was not begun."""
        with self:
            try:
                while run_at_once(self._fill()):
                    began_s = time.monotonic()
                    handed_out = 0
                    while self._next():
                        handed_out += 1
                        # No name for the job in this frame: while it waits for more, it must not keep the job alive.
                        yield self._current  # type: ignore[misc]
                    self._current = None
                    self._resize(handed_out, time.monotonic() - began_s)
            finally:
                self._current = None
                self._give_back(len(self._buffer))

    async def _send(self, calls: Sequence[Call]) -> list[Answer | Exception]:
        return run_all(self._queue.client, calls)

    def _job(self, row: Sequence[Any], began_s: float) -> Job:
        return Job(self._queue, *row, post=self._outbox, began_s=began_s)

    async def _hurry(self, saying: Callable[[], Coroutine[Any, Any, None]], most_s: float) -> bool:
        thread = threading.Thread(target=lambda: run_at_once(saying()), name="rqtui-hurry", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending, and begins no threads any more
            run_at_once(saying())
        else:
            thread.join(most_s)
        return not thread.is_alive()

    async def _say_goodbye(self) -> None:
        self._heart.close()
        await super()._say_goodbye()

    async def _close(self) -> None:
        await super()._close()
        if not self._is_forked:
            self._bell.close()


class _Blocking:
    """A doorbell as the loop of a consumer awaits it: each call blocks, and is over when it returns."""

    def __init__(self, bell: Doorbell) -> None:
        self._bell = bell
        self.interrupt, self.close = bell.interrupt, bell.close

    async def wait(self, timer_s: float | None, stop: threading.Event | None) -> Woken:
        return self._bell.wait(timer_s, stop)

    async def pause(self, seconds: float, stop: threading.Event | None) -> bool:
        return self._bell.pause(seconds, stop)

    async def withdraw(self) -> None:
        self._bell.withdraw()

    async def pass_on(self) -> None:
        self._bell.pass_on()


def worker_name() -> str:
    """A name for a worker that no other has: host, process, and four letters."""
    return f"{_word(socket.gethostname())}:{os.getpid()}:{random.SystemRandom().getrandbits(20):05x}"


def _word(text: str) -> str:
    return re.sub(r"[\s\x00-\x1f\x7f]", "-", text)[:100]
