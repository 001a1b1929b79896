"""Ticker: run the engine on the one thread that talks to Redis for a screen.

The ticker owns an Engine, takes requests from an inbox, refreshes at an interval and posts plain events; each reply
carries the id of its request. A key press never waits for Redis: the screen puts a request into the inbox and
continues. Long work is a generator that is stepped once per turn; the inbox and the refresh are served between the
steps. While Redis is away the last snapshot stays on screen, and the ticker retries after 1 1 2 3 5 8 13 s; a request
ends the wait. Changes that wait when the connection drops get the outcome `not sent` and never run later.
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

from rqtui.connection.connect import translate_errors
from rqtui.connection.meter import find_meter
from rqtui.connection.nodes import ping
from rqtui.durations import compute_reconnect_delay_s
from rqtui.errors import ServerError, describe_and_log
from rqtui.model import Cost, Focus, Job, Outcome, Ref, Snapshot

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

log = logging.getLogger("rqtui.engine.ticker")

DISCOVER_S, LEAST_DISCOVER_S = (
    30.0,
    5.0,
)  # bounds of the interval between two discoveries, so that new queues appear soon
SERVER_CHECK_S, LEAST_SERVER_CHECK_S = 15.0, 5.0  # between two checks of the server; the shorter one during a finding
DISCOVER_SHARE = 250  # the interval is at least this many times the last discovery's duration: 0.4 % of Redis
RESTING = 5  # factor on the refresh interval while the screen is not visible
PINGS = 3  # The fastest counts. One is enough on a connection that takes longer than FAR_MS.
FAR_MS = 20.0
HAND_ON_S = 1.0  # between two deliveries of Pub/Sub events, while the engine listens
FIRST_S = 0.5  # how long the first snapshot waits for the names of queues; among ten million keys it takes longer


class EngineCreated(NamedTuple):
    """An event: the engine was created; nothing was sent to Redis yet."""

    engine: Engine


class SnapshotTaken(NamedTuple):
    """An event: a new snapshot, and the focus that it was taken for."""

    snapshot: Snapshot
    focus: Focus


class ServerLost(NamedTuple):
    """An event: Redis is away, with the error, since when (seconds by `time.monotonic`), and when the next retry is."""

    error: str
    since_s: float
    next_s: float


class ChangeProgressed(NamedTuple):
    """An event: the outcomes of one chunk of a change. `is_last` marks the end; `error` says why nothing was sent."""

    request_id: int
    verb: str
    ref: Ref
    outcomes: tuple[Outcome, ...]
    total: int
    is_last: bool
    error: str = ""


class CallFinished(NamedTuple):
    """An event: the result of a `call`, or of one step of a `work`, or its error. `is_last` marks the end."""

    request_id: int
    result: Any = None
    error: str = ""
    is_last: bool = True


class RefreshFailed(NamedTuple):
    """An event: a refresh failed though Redis replies: the error, since when (`time.monotonic`), and the next retry."""

    error: str
    since_s: float
    next_s: float


TickerEvent = EngineCreated | SnapshotTaken | ServerLost | ChangeProgressed | CallFinished | RefreshFailed


@dataclass(frozen=True, slots=True)
class _ChangeRequest:
    id: int
    verb: str
    ref: Ref
    jobs: tuple[Job, ...]
    form: dict[str, object] = field(default_factory=dict)
    place: str = ""  # Change all jobs of this place, instead of `jobs`.


class _CallRequest(NamedTuple):
    id: int
    function: Callable[[Engine], Any]


class _WorkRequest(NamedTuple):
    id: int
    function: Callable[[Engine], Iterator[Any]]


class _CancelRequest(NamedTuple):
    """A request to end all running changes; with the id of a work, to end only that work."""

    work_id: int | None = None


class Ticker:
    """Runs an engine on a thread of its own. `make` builds the engine; `post` receives the events on that thread.

    The engine is built on the thread too, because its imports take as long as a terminal takes to show a first frame.

    `interval_s` is the time between refreshes. The ticker widens it when two refreshes in a row take more than a tenth
    of it: by the faster one of the two, and at most to twice its previous length, so a stall that two refreshes met is
    over within two intervals. The interval is also longer while the screen is hidden (`is_resting`). `wait_s` is the
    present interval.
    """

    def __init__(
        self, build_engine: Callable[[], Engine], post: Callable[[TickerEvent], None], interval_s: float = 2.0
    ) -> None:
        self._build_engine, self.post = build_engine, post
        self.engine: Engine
        self.interval_s = self.wait_s = interval_s
        self.is_resting = False
        self._rtt_ms, self._is_rtt_due = 0.0, False
        self._usual_s = interval_s  # the interval between two snapshots while the screen is visible
        self._last_ms = (
            0.0  # duration of the last snapshot; the first one, which loads scripts, does not stretch the interval
        )
        self._totals: deque[tuple[float, Cost]] = deque(
            [(0.0, Cost())]
        )  # (`time.monotonic`, cost of all commands until then)
        self._focus = Focus()
        self._inbox: queue.SimpleQueue[_ChangeRequest | _CallRequest | _WorkRequest | _CancelRequest | None] = (
            queue.SimpleQueue()
        )
        self._works: list[tuple[_WorkRequest, Iterator[Any]]] = []
        self._tasks: list[tuple[_ChangeRequest, Iterator[list[Outcome]]]] = []
        self._discovery: Iterator[Any] | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._due_s = self._discover_s = self._rtt_s = self._judge_s = 0.0
        self._looked_s = 0.0  # duration of the present discovery so far
        self._is_asked = self._has_news = False
        self._lost_s = self._failed_s = 0.0
        self._failures = 0
        self._ids = itertools.count(1)

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="rqtui-ticker", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop the thread, after waiting up to `timeout_s` for a request that was sent."""
        self._stop.set()
        self._inbox.put(None)
        if self._thread:
            self._thread.join(timeout_s)

    def set_focus(self, focus: Focus) -> None:
        """Set what the next snapshots contain, and take one at once."""
        self._focus = focus
        self.request_refresh()

    def set_next_focus(self, focus: Focus) -> None:
        """Set what the next snapshots contain, and wait until the next one is due."""
        self._focus = focus

    def request_refresh(self) -> None:
        """Request a snapshot as soon as possible. Several requests give one snapshot."""
        self._inbox.put(None)

    def request_change(
        self, verb: str, ref: Ref, jobs: Sequence[Job] = (), form: dict[str, object] | None = None
    ) -> int:
        """Request a verb on jobs and return the request id. `ChangeProgressed` events with this id follow."""
        return self._enqueue_request(_ChangeRequest(next(self._ids), verb, ref, tuple(jobs), form or {}))

    def request_place_change(self, verb: str, ref: Ref, place: str, form: dict[str, object] | None = None) -> int:
        """Request a verb on all jobs of a place, in chunks, and return the request id.

        `ChangeProgressed` events follow.
        """
        return self._enqueue_request(_ChangeRequest(next(self._ids), verb, ref, (), form or {}, place))

    def request_call(self, function: Callable[[Engine], Any]) -> int:
        """Request that a short function runs with the engine on the thread.

        Returns the id of its `CallFinished` event.
        """
        return self._enqueue_request(_CallRequest(next(self._ids), function))

    def start_work(self, function: Callable[[Engine], Iterator[Any]]) -> int:
        """Request that a generator is stepped once per turn. Returns the id of its `CallFinished` events.

        `function` gets the engine and returns the generator. Each step posts an event, and so does the end. A step
        should be one round trip. Several works take turns; a lost connection ends them with an error.
        """
        return self._enqueue_request(_WorkRequest(next(self._ids), function))

    def cancel_work(self, id: int) -> None:
        """Request the end of a work after its present step; its last `CallFinished` event follows."""
        self._inbox.put(_CancelRequest(id))

    def _enqueue_request(self, request: _ChangeRequest | _CallRequest | _WorkRequest) -> int:
        self._inbox.put(request)
        return request.id

    def set_resting(self, is_resting: bool) -> None:
        """Set whether the screen is hidden: snapshots are rare then. The end of the rest takes a snapshot at once."""
        if is_resting != self.is_resting:
            self.is_resting = is_resting
            self.request_refresh()

    def request_discovery(self) -> None:
        """Request a discovery of queues by all available means soon."""
        self._discover_s, self._is_asked = 0.0, True
        self.request_refresh()

    def cancel_changes(self) -> None:
        """Request the end of all changes after their present chunk. Changed jobs stay changed; last events follow."""
        self._inbox.put(_CancelRequest())

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._try_create_engine():
            if self._stop.wait(self.interval_s):
                return
        self.post(EngineCreated(self.engine))
        try:
            while not self._stop.is_set():
                self._serve_inbox()
                if self._stop.is_set():
                    return
                try:
                    self._run_turn()
                except ServerError as error:
                    self._handle_lost_server(error)
                except Exception as error:
                    self._handle_failed_refresh(error)
        finally:
            self.engine.stop_listening()

    def _try_create_engine(self) -> bool:
        try:
            self.engine = self._build_engine()
            self.engine.start_listening()
        except Exception as error:
            self._handle_failed_refresh(error)
            return False
        self._failed_s = 0.0
        return True

    def _serve_inbox(self) -> None:
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
            if request is None:  # Set here and not in `refresh`: a snapshot under way would overwrite the due time.
                self._due_s = 0.0
            elif isinstance(request, _ChangeRequest):
                self._begin_change(request)
                self._due_s = min(self._due_s, time.monotonic())
            elif isinstance(request, _CallRequest):
                self._run_call(request)
            elif isinstance(request, _WorkRequest):
                self._begin_work(request)
            elif isinstance(request, _CancelRequest) and request.work_id is not None:
                self._close_works("", request.work_id)
            elif isinstance(request, _CancelRequest):
                self._end_changes("stopped: the rest was not sent")

    def _begin_change(self, act: _ChangeRequest) -> None:
        if self._failures:
            outcomes = tuple(Outcome(act.verb, job.id, "not sent", "Redis is away") for job in act.jobs)
            self.post(
                ChangeProgressed(
                    act.id, act.verb, act.ref, outcomes, len(act.jobs), True, "Redis is away: nothing was sent"
                )
            )
            return
        try:
            if act.place:
                steps = self.engine.act_on_place(act.verb, act.ref, act.place, act.form)
            else:
                steps = self.engine.yield_verb_steps(act.verb, act.ref, act.jobs, act.form)
            self._tasks.append((act, steps))
        except Exception as error:
            self.post(
                ChangeProgressed(act.id, act.verb, act.ref, (), len(act.jobs), True, describe_and_log(error, log))
            )

    def _run_call(self, request: _CallRequest) -> None:
        try:
            self.post(CallFinished(request.id, request.function(self.engine)))
        except Exception as error:
            self.post(CallFinished(request.id, error=describe_and_log(error, log)))

    def _begin_work(self, work: _WorkRequest) -> None:
        if self._failures:
            self.post(CallFinished(work.id, error="Redis is away"))
            return
        try:
            self._works.append((work, iter(work.function(self.engine))))
        except Exception as error:
            self.post(CallFinished(work.id, error=describe_and_log(error, log)))

    def _step_work(self) -> None:
        work, steps = self._works.pop(0)
        try:
            for step in steps:
                self._works.append((work, steps))
                self.post(CallFinished(work.id, step, is_last=False))
                return
        except ServerError as error:
            self.post(CallFinished(work.id, error=str(error)))
            raise
        except Exception as error:
            self.post(CallFinished(work.id, error=describe_and_log(error, log)))
            return
        self.post(CallFinished(work.id))

    def _close_works(self, why: str, id: int | None = None) -> None:
        ending = [(work, steps) for work, steps in self._works if id is None or work.id == id]
        self._works = [pair for pair in self._works if pair not in ending]
        for work, steps in ending:
            if close := getattr(steps, "close", None):
                close()
            self.post(CallFinished(work.id, error=why))

    def _run_turn(self) -> None:
        self.engine.deliver_events()
        if self._tasks:
            self._step_change()
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
            if not self.engine.refs:  # Only the first snapshot waits for names, for a limited time.
                self._discovery = _advance_until(self._discovery, until_s=now + FIRST_S)
                self._looked_s = time.monotonic() - now
                if self._discovery is None:
                    self._schedule_discovery()
        focus = self._focus
        snapshot = self.engine.take_snapshot(focus)
        self._failures, self._lost_s, self._failed_s = 0, 0.0, 0.0
        cost = replace(snapshot.cost, rtt_ms=self._rtt_ms)
        snapshot = replace(snapshot, cost=cost, interval_cost=self._compute_interval_cost())
        usual_ms, self._last_ms = min(self._last_ms, cost.ms), cost.ms
        self._usual_s = max(self.interval_s, min(10 * usual_ms / 1000, 2 * self._usual_s))
        self.wait_s = self._usual_s * (RESTING if self.is_resting else 1)
        self._due_s = time.monotonic() + self.wait_s
        self.post(SnapshotTaken(snapshot, focus))
        if now >= self._judge_s:
            self._check_server(now)
        if self._is_rtt_due:  # Measured after a snapshot, which it must not delay and which opened the connection.
            self._rtt_ms, self._is_rtt_due = self._measure_round_trip_ms(), False

    def _step_discovery(self, steps: Iterator[Any]) -> None:
        """Run one step of the discovery. After the last one request a snapshot if the set of queues changed."""
        began, before = time.monotonic(), self.engine.refs
        is_over = next(steps, None) is None
        self._looked_s += time.monotonic() - began
        if before is not self.engine.refs:
            self._has_news = True
        if is_over:
            self._discovery = None
            self._schedule_discovery()
            self._due_s, self._has_news = (0.0, False) if self._has_news else (self._due_s, False)

    def _schedule_discovery(self) -> None:
        rest_s = max(LEAST_DISCOVER_S, DISCOVER_SHARE * self._looked_s)
        self._discover_s = min(self._discover_s, time.monotonic() + rest_s)

    def _compute_interval_cost(self) -> Cost | None:
        """Return the cost of all commands since the snapshot an interval ago, or since the last one before that."""
        meter = find_meter(self.engine.client)
        if meter is None:
            return None
        now, total = time.monotonic(), meter.compute_total()
        while len(self._totals) > 1 and self._totals[1][0] <= now - self.wait_s:
            self._totals.popleft()
        _at_s, before = self._totals[0]
        self._totals.append((now, total))
        return replace(total - before, rtt_ms=self._rtt_ms)

    def _measure_round_trip_ms(self) -> float:
        """Return the shortest of up to three ping times in ms: what a snapshot takes beyond it is the server's work."""
        took_ms = self._measure_ping_ms()
        for _ in range(PINGS - 1) if took_ms < FAR_MS else ():  # A busy machine sometimes replies late.
            took_ms = min(took_ms, self._measure_ping_ms())
        return took_ms

    def _check_server(self, now: float) -> None:
        """Check the role and the memory of the server.

        While there is a finding, the next check is sooner, to notice its end.
        """
        from rqtui.engine.health import rules

        findings = rules.find_urgent_server_problems(self.engine.client)
        self.engine.warnings = (*findings, *self.engine.problems.values())
        self._judge_s = now + (LEAST_SERVER_CHECK_S if findings else SERVER_CHECK_S)

    def _measure_ping_ms(self) -> float:
        began = time.monotonic()
        with translate_errors():
            ping(self.engine.client)
        return (time.monotonic() - began) * 1000

    def _step_change(self) -> None:
        act, steps = self._tasks[0]
        try:
            outcomes = next(steps, None)
        except Exception as error:
            self._tasks.pop(0)
            self.post(
                ChangeProgressed(act.id, act.verb, act.ref, (), len(act.jobs), True, describe_and_log(error, log))
            )
            return
        if outcomes is None:
            self._tasks.pop(0)
            self.post(ChangeProgressed(act.id, act.verb, act.ref, (), len(act.jobs), True))
            self._due_s = 0.0
            return
        self.post(ChangeProgressed(act.id, act.verb, act.ref, tuple(outcomes), len(act.jobs), False))

    def _end_changes(self, why: str) -> None:
        for act, steps in self._tasks:
            steps.close()  # type: ignore[attr-defined]
            self.post(ChangeProgressed(act.id, act.verb, act.ref, (), len(act.jobs), True, why))
        self._tasks.clear()

    def _handle_failed_refresh(self, error: Exception) -> None:
        """Report the failure of one snapshot. The thread and its other work continue."""
        now = time.monotonic()
        self._failed_s = self._failed_s or now
        self._failures, self._lost_s = 0, 0.0
        self._due_s = now + self.interval_s
        self.post(RefreshFailed(describe_and_log(error, log), self._failed_s, self._due_s))

    def _handle_lost_server(self, error: ServerError) -> None:
        now = time.monotonic()
        self._lost_s = self._lost_s or now
        wait_s = compute_reconnect_delay_s(self._failures)
        self._failures += 1
        self._judge_s = 0.0  # A failover closes connections: the server may be a replica afterwards.
        self._discovery, self._discover_s = (
            None,
            0.0,
        )  # A snapshot of no queues sends nothing, and would look like a reply.
        self._due_s = now + wait_s
        self._end_changes("Redis is away: the rest was not sent")
        self._close_works("Redis is away")
        self.post(ServerLost(str(error), self._lost_s, self._due_s))


def _advance_until(steps: Iterator[Any], until_s: float) -> Iterator[Any] | None:
    """Advance a generator until `until_s` (`time.monotonic`). Returns it, or None if it ended before."""
    for _step in steps:
        if time.monotonic() >= until_s:
            return steps
    return None
