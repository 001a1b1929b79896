"""Ticker: the one thread that talks to Redis for a screen.

It owns an Engine, takes requests from an inbox, refreshes when the interval is over, and posts what it finds as plain
messages; each answer carries the id of its request. A key never waits for Redis: the screen puts a request into the
inbox and goes on. Long work is a generator that is stepped once per turn; between the steps the inbox and the refresh
have their say. While Redis is away the last picture stays, and it tries again after 1 1 2 3 5 8 13 s; a request ends
the wait. Acts that wait when the link drops are answered `not sent` and never run later.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rqtui.connection.connect import translated
from rqtui.connection.meter import meter_of
from rqtui.connection.nodes import ping
from rqtui.durations import backoff_s
from rqtui.errors import ServerError, reason
from rqtui.model import Cost, Focus, Job, Outcome, Ref, Snapshot

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

log = logging.getLogger("rqtui.engine.ticker")

DISCOVER_S, LEAST_DISCOVER_S = 30.0, 5.0  # between two looks for queues: a new one is seen soon, and
DISCOVER_SHARE = 250  # times as long as the last look took: 0.4 % of Redis
RESTING = 5  # times as long between two pictures while nobody can see them
PINGS = 3  # of which the quickest counts; one is enough on a link on which it takes longer than FAR_MS
FAR_MS = 20.0
HAND_ON_S = 1.0  # between two looks at what was heard, where somebody listens
FIRST_S = 0.5  # that the first picture waits for the names of queues; among ten million keys it takes longer


class Connected(NamedTuple):
    """The engine was made; nothing was sent yet."""

    engine: Engine


class Refreshed(NamedTuple):
    """A new picture, and what it was asked to show."""

    snapshot: Snapshot
    focus: Focus


class Lost(NamedTuple):
    """Redis is away: why, since when (seconds by `time.monotonic`), and when it is tried again."""

    error: str
    since_s: float
    next_s: float


class Acted(NamedTuple):
    """Outcomes of an `act`, a message per chunk; `is_last` ends it. `error` says why nothing was sent."""

    request: int
    verb: str
    ref: Ref
    outcomes: tuple[Outcome, ...]
    total: int
    is_last: bool
    error: str = ""


class Answered(NamedTuple):
    """What a `call` gave back, or a step of a `work`, or the error that it raised; `is_last` ends it."""

    request: int
    result: Any = None
    error: str = ""
    is_last: bool = True


class Failed(NamedTuple):
    """No picture could be taken, though Redis is there: why, since when (`time.monotonic`), when it is tried again."""

    error: str
    since_s: float
    next_s: float


Message = Connected | Refreshed | Lost | Acted | Answered | Failed


@dataclass(frozen=True, slots=True)
class _Act:
    id: int
    verb: str
    ref: Ref
    jobs: tuple[Job, ...]
    form: dict[str, object] = field(default_factory=dict)
    place: str = ""  # all that stands there, instead of jobs


class _Call(NamedTuple):
    id: int
    function: Callable[[Engine], Any]


class _Work(NamedTuple):
    id: int
    function: Callable[[Engine], Iterator[Any]]


class _Cancel(NamedTuple):
    """All acts that are under way end here; with the id of a work, that one, and nothing else."""

    work: int | None = None


class Ticker:
    """Runs the engine that `make` makes, on a thread; `post` gets messages there and must be safe to call from there.

    The engine is made on the thread too: what it imports takes as long as a terminal takes to show a first picture.

    `interval_s` is the time between refreshes. It widens by itself when two ticks in a row take more than a tenth of
    it, by the quicker one of the two and at most to twice what it was: a stall that two ticks met is over within two
    intervals. It widens, too, while it `rests` because nobody looks. `wait_s` is what it came to last.
    """

    def __init__(self, make: Callable[[], Engine], post: Callable[[Message], None], interval_s: float = 2.0) -> None:
        self._make, self.post = make, post
        self.engine: Engine
        self.interval_s = self.wait_s = interval_s
        self.is_resting = False
        self._rtt_ms, self._is_rtt_due = 0.0, False
        self._usual_s = interval_s  # the time between two pictures that somebody looks at
        self._last_ms = 0.0  # of the last picture: the first, which loads scripts, does not stretch the interval
        self._totals: deque[tuple[float, Cost]] = deque([(0.0, Cost())])  # when (`time.monotonic`), and all until then
        self._focus = Focus()
        self._inbox: queue.SimpleQueue[_Act | _Call | _Work | _Cancel | None] = queue.SimpleQueue()
        self._works: list[tuple[_Work, Iterator[Any]]] = []
        self._tasks: list[tuple[_Act, Iterator[list[Outcome]]]] = []
        self._discovery: Iterator[Any] | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._due_s = self._discover_s = self._rtt_s = 0.0
        self._looked_s = 0.0  # that the look for queues under way took so far
        self._is_asked = self._has_news = False
        self._lost_s = self._failed_s = 0.0
        self._failures = 0
        self._ids = itertools.count(1)

    def start(self) -> None:
        """Begins to tick."""
        self._thread = threading.Thread(target=self._run, name="rqtui-ticker", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Ends the thread; a request under way is waited for up to `timeout_s`."""
        self._stop.set()
        self._inbox.put(None)
        if self._thread:
            self._thread.join(timeout_s)

    def look_at(self, focus: Focus) -> None:
        """What the next pictures show; takes one at once."""
        self._focus = focus
        self.refresh()

    def look_next_at(self, focus: Focus) -> None:
        """What the next pictures show, when they are due."""
        self._focus = focus

    def refresh(self) -> None:
        """Takes a picture as soon as possible; many requests make one."""
        self._inbox.put(None)

    def act(self, verb: str, ref: Ref, jobs: Sequence[Job] = (), form: dict[str, object] | None = None) -> int:
        """Does a verb; `Acted` messages with the id that this returns follow."""
        return self._ask(_Act(next(self._ids), verb, ref, tuple(jobs), form or {}))

    def act_on_place(self, verb: str, ref: Ref, place: str, form: dict[str, object] | None = None) -> int:
        """Does a verb to all that stands in a place, in chunks; `Acted` messages with the returned id follow."""
        return self._ask(_Act(next(self._ids), verb, ref, (), form or {}, place))

    def call(self, function: Callable[[Engine], Any]) -> int:
        """Runs a short function with the engine on this thread; one `Answered` with the returned id follows."""
        return self._ask(_Call(next(self._ids), function))

    def work(self, function: Callable[[Engine], Iterator[Any]]) -> int:
        """Steps what `function` gives, one step per turn; an `Answered` with the returned id per step, and a last one.

        A step should be one round trip. Works take turns; a lost connection ends them with an error.
        """
        return self._ask(_Work(next(self._ids), function))

    def end_work(self, id: int) -> None:
        """Ends a work after the step under way; its last `Answered` follows."""
        self._inbox.put(_Cancel(id))

    def _ask(self, request: _Act | _Call | _Work) -> int:
        self._inbox.put(request)
        return request.id

    def rest(self, is_resting: bool) -> None:
        """Nobody can see the pictures now: they come rarely; or somebody can again: one comes at once."""
        if is_resting != self.is_resting:
            self.is_resting = is_resting
            self.refresh()

    def discover(self) -> None:
        """Looks for new queues soon, wherever they may be."""
        self._discover_s, self._is_asked = 0.0, True
        self.refresh()

    def cancel(self) -> None:
        """Ends acts between two chunks; what was done stays done, and the last `Acted` of each follows."""
        self._inbox.put(_Cancel())

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_made():
            if self._stop.wait(self.interval_s):
                return
        self.post(Connected(self.engine))
        try:
            while not self._stop.is_set():
                self._take_requests()
                if self._stop.is_set():
                    return
                try:
                    self._turn()
                except ServerError as error:
                    self._lose(error)
                except Exception as error:
                    self._fail(error)
        finally:
            self.engine.close()

    def _is_made(self) -> bool:
        try:
            self.engine = self._make()
            self.engine.listen()
        except Exception as error:
            self._fail(error)
            return False
        self._failed_s = 0.0
        return True

    def _take_requests(self) -> None:
        while True:
            busy = bool(self._tasks or self._works or self._discovery) and not self._failures
            wait_s = 0.0 if busy else max(0.0, self._due_s - time.monotonic())
            wait_s = min(wait_s, HAND_ON_S) if self.engine.is_listening else wait_s
            try:
                request = self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
            except queue.Empty:
                return
            if self._stop.is_set():
                return
            if request is None:  # said by the inbox: a picture that is being taken would overwrite what is set here
                self._due_s = 0.0
            elif isinstance(request, _Act):
                self._begin(request)
                self._due_s = min(self._due_s, time.monotonic())
            elif isinstance(request, _Call):
                self._answer(request)
            elif isinstance(request, _Work):
                self._begin_work(request)
            elif isinstance(request, _Cancel) and request.work is not None:
                self._end_works("", request.work)
            elif isinstance(request, _Cancel):
                self._end_acts("stopped: the rest was not sent")

    def _begin(self, act: _Act) -> None:
        if self._failures:
            outcomes = tuple(Outcome(act.verb, job.id, "not sent", "Redis is away") for job in act.jobs)
            self.post(
                Acted(act.id, act.verb, act.ref, outcomes, len(act.jobs), True, "Redis is away: nothing was sent")
            )
            return
        try:
            if act.place:
                steps = self.engine.acts_on_place(act.verb, act.ref, act.place, act.form)
            else:
                steps = self.engine.acts(act.verb, act.ref, act.jobs, act.form)
            self._tasks.append((act, steps))
        except Exception as error:
            self.post(Acted(act.id, act.verb, act.ref, (), len(act.jobs), True, reason(error, log)))

    def _answer(self, request: _Call) -> None:
        try:
            self.post(Answered(request.id, request.function(self.engine)))
        except Exception as error:
            self.post(Answered(request.id, error=reason(error, log)))

    def _begin_work(self, work: _Work) -> None:
        if self._failures:
            self.post(Answered(work.id, error="Redis is away"))
            return
        try:
            self._works.append((work, iter(work.function(self.engine))))
        except Exception as error:
            self.post(Answered(work.id, error=reason(error, log)))

    def _step_work(self) -> None:
        work, steps = self._works.pop(0)
        try:
            for step in steps:
                self._works.append((work, steps))
                self.post(Answered(work.id, step, is_last=False))
                return
        except ServerError as error:
            self.post(Answered(work.id, error=str(error)))
            raise
        except Exception as error:
            self.post(Answered(work.id, error=reason(error, log)))
            return
        self.post(Answered(work.id))

    def _end_works(self, why: str, id: int | None = None) -> None:
        ending = [(work, steps) for work, steps in self._works if id is None or work.id == id]
        self._works = [pair for pair in self._works if pair not in ending]
        for work, steps in ending:
            if close := getattr(steps, "close", None):
                close()
            self.post(Answered(work.id, error=why))

    def _turn(self) -> None:
        self.engine.overhear()
        if self._tasks:
            self._step_task()
        if self._works:
            self._step_work()
        if self._discovery is not None:
            self._step_discovery(self._discovery)
        now = time.monotonic()
        if now < self._due_s:
            return
        if now >= self._discover_s and self._discovery is None:
            self._discover_s, self._looked_s = now + DISCOVER_S, 0.0
            if now >= self._rtt_s:
                self._is_rtt_due, self._rtt_s = True, now + DISCOVER_S
            self._discovery = self.engine.discover(self._is_asked, most=None)
            self._is_asked = False
            if not self.engine.refs:  # the first picture waits for names, but not long; later ones do not
                self._discovery = _continued(self._discovery, until_s=now + FIRST_S)
                self._looked_s = time.monotonic() - now
                if self._discovery is None:
                    self._rest_from_looking()
        focus = self._focus
        snapshot = self.engine.snapshot(focus)
        self._failures, self._lost_s, self._failed_s = 0, 0.0, 0.0
        cost = replace(snapshot.cost, rtt_ms=self._rtt_ms)
        snapshot = replace(snapshot, cost=cost, spent=self._spent())
        usual_ms, self._last_ms = min(self._last_ms, cost.ms), cost.ms
        self._usual_s = max(self.interval_s, min(10 * usual_ms / 1000, 2 * self._usual_s))
        self.wait_s = self._usual_s * (RESTING if self.is_resting else 1)
        self._due_s = time.monotonic() + self.wait_s
        self.post(Refreshed(snapshot, focus))
        if self._is_rtt_due:  # after a picture, which it must not delay, and which has made the connection
            self._rtt_ms, self._is_rtt_due = self._measured_ms(), False

    def _step_discovery(self, steps: Iterator[Any]) -> None:
        """A step of the look for queues; after the last one a picture, where there are others than before."""
        began, before = time.monotonic(), self.engine.refs
        is_over = next(steps, None) is None
        self._looked_s += time.monotonic() - began
        if before is not self.engine.refs:
            self._has_news = True
        if is_over:
            self._discovery = None
            self._rest_from_looking()
            self._due_s, self._has_news = (0.0, False) if self._has_news else (self._due_s, False)

    def _rest_from_looking(self) -> None:
        rest_s = max(LEAST_DISCOVER_S, DISCOVER_SHARE * self._looked_s)
        self._discover_s = min(self._discover_s, time.monotonic() + rest_s)

    def _spent(self) -> Cost | None:
        """All that was asked of Redis since the picture an interval ago, or the last one before that."""
        meter = meter_of(self.engine.client)
        if meter is None:
            return None
        now, total = time.monotonic(), meter.total()
        while len(self._totals) > 1 and self._totals[1][0] <= now - self.wait_s:
            self._totals.popleft()
        _at_s, before = self._totals[0]
        self._totals.append((now, total))
        return replace(total - before, rtt_ms=self._rtt_ms)

    def _measured_ms(self) -> float:
        """The way to the server and back, once in a while: what a tick costs beyond it is the server's work."""
        from rqtui.engine import health  # late: the screen imports this module before its first picture

        took_ms = self._ping_ms()
        for _ in range(PINGS - 1) if took_ms < FAR_MS else ():  # a busy machine answers late now and then
            took_ms = min(took_ms, self._ping_ms())
        self.engine.warnings = (*health.urgent(self.engine.client), *self.engine.problems.values())
        return took_ms

    def _ping_ms(self) -> float:
        began = time.monotonic()
        with translated():
            ping(self.engine.client)
        return (time.monotonic() - began) * 1000

    def _step_task(self) -> None:
        act, steps = self._tasks[0]
        try:
            outcomes = next(steps, None)
        except Exception as error:
            self._tasks.pop(0)
            self.post(Acted(act.id, act.verb, act.ref, (), len(act.jobs), True, reason(error, log)))
            return
        if outcomes is None:
            self._tasks.pop(0)
            self.post(Acted(act.id, act.verb, act.ref, (), len(act.jobs), True))
            self._due_s = 0.0
            return
        self.post(Acted(act.id, act.verb, act.ref, tuple(outcomes), len(act.jobs), False))

    def _end_acts(self, why: str) -> None:
        for act, steps in self._tasks:
            steps.close()  # type: ignore[attr-defined]
            self.post(Acted(act.id, act.verb, act.ref, (), len(act.jobs), True, why))
        self._tasks.clear()

    def _fail(self, error: Exception) -> None:
        """Of this one picture; the thread goes on, and so does what else it was asked to do."""
        now = time.monotonic()
        self._failed_s = self._failed_s or now
        self._failures, self._lost_s = 0, 0.0
        self._due_s = now + self.interval_s
        self.post(Failed(reason(error, log), self._failed_s, self._due_s))

    def _lose(self, error: ServerError) -> None:
        now = time.monotonic()
        self._lost_s = self._lost_s or now
        wait_s = backoff_s(self._failures)
        self._failures += 1
        self._discovery, self._discover_s = None, 0.0  # a picture of no queues asks nothing, and would seem an answer
        self._due_s = now + wait_s
        self._end_acts("Redis is away: the rest was not sent")
        self._end_works("Redis is away")
        self.post(Lost(str(error), self._lost_s, self._due_s))


def _continued(steps: Iterator[Any], until_s: float) -> Iterator[Any] | None:
    """The same after some steps; None when there are no more."""
    for _step in steps:
        if time.monotonic() >= until_s:
            return steps
    return None
