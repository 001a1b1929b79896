"""Run the engine for a screen on its own thread, the only thread of the screen that talks to Redis.

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

from rqtui.connection.meter import find_client_meter
from rqtui.durations import compute_reconnect_delay_s
from rqtui.errors import ServerError, describe_and_log_error
from rqtui.model import Cost, Focus, Job, Outcome, Ref, Snapshot

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

log = logging.getLogger("rqtui.engine.ticker")

DISCOVERY_INTERVAL_S, MIN_DISCOVERY_INTERVAL_S = (
    30.0,
    5.0,
)  # bounds of the interval between two discoveries, so that new queues appear soon
SERVER_CHECK_INTERVAL_S, MIN_SERVER_CHECK_INTERVAL_S = (
    15.0,
    5.0,
)  # between two checks of the server; the shorter one during a finding
DISCOVERY_INTERVAL_FACTOR = (
    250  # the interval is at least this many times the last discovery's duration: 0.4 % of Redis
)
HIDDEN_INTERVAL_FACTOR = 5  # factor on the refresh interval while the screen is not visible
MAX_PINGS = 3  # The fastest counts. One is enough on a connection that takes longer than SLOW_PING_MS.
SLOW_PING_MS = 20.0
EVENT_DELIVERY_S = 1.0  # between two deliveries of Pub/Sub events, while the engine listens
MAX_FIRST_DISCOVERY_S = (
    0.5  # how long the first snapshot waits for the names of queues; among ten million keys it takes longer
)


class EngineCreated(NamedTuple):
    """An event: the ticker created its engine. Nothing was sent to Redis yet."""

    engine: Engine


class SnapshotTaken(NamedTuple):
    """An event: the ticker took a new snapshot, with the focus that it was taken for."""

    snapshot: Snapshot
    focus: Focus


class ServerLost(NamedTuple):
    """An event: Redis does not reply. It has the error, since when (`time.monotonic`), and when the next retry is."""

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
    """An event: the ticker has the result of a `request_call`, or of one step of a `start_stepped_call`, or its error.

    `is_last` marks the end of the call.
    """

    request_id: int
    result: Any = None
    error: str = ""
    is_last: bool = True


class RefreshFailed(NamedTuple):
    """An event: a refresh failed although Redis replies.

    It has the error, since when refreshes fail (`time.monotonic`), and when the next retry is.
    """

    error: str
    since_s: float
    next_s: float


TickerEvent = EngineCreated | SnapshotTaken | ServerLost | ChangeProgressed | CallFinished | RefreshFailed


@dataclass(frozen=True, slots=True)
class _ChangeRequest:
    """A request to apply a verb to some jobs, or to all jobs of a place."""

    id: int
    verb: str
    ref: Ref
    jobs: tuple[Job, ...]
    form: dict[str, object] = field(default_factory=dict)
    place: str = ""  # Change all jobs of this place, instead of `jobs`.


class _CallRequest(NamedTuple):
    """A request to call a short function with the engine."""

    id: int
    function: Callable[[Engine], Any]


class _SteppedCallRequest(NamedTuple):
    """A request to run a generator with the engine, one step per turn."""

    id: int
    function: Callable[[Engine], Iterator[Any]]


class _CancelRequest(NamedTuple):
    """A request to end all changes under way; with the id of a stepped call, to end only that call."""

    call_id: int | None = None


class Ticker:
    """Runs an engine on a thread of its own, and passes events to `post` on that thread.

    `build_engine` is called on the thread too, because its imports take as long as a terminal takes to show a first
    frame. `interval_s` is the time between refreshes. The ticker widens it when two refreshes in a row take more than a
    tenth of it: by the faster one of the two, and at most to twice its previous length, so a stall that two refreshes
    met is over within two intervals. The interval is also longer while the screen is hidden (`is_resting`). `wait_s` is
    the current interval.
    """

    def __init__(
        self, build_engine: Callable[[], Engine], post: Callable[[TickerEvent], None], interval_s: float = 2.0
    ) -> None:
        self._build_engine, self.post = build_engine, post
        self.engine: Engine
        self.interval_s = self.wait_s = interval_s
        self.is_resting = False
        self._rtt_ms, self._is_rtt_due = 0.0, False
        self._visible_interval_s = interval_s  # the interval between two snapshots while the screen is visible
        self._last_snapshot_ms = (
            0.0  # duration of the last snapshot; the first one, which loads scripts, does not stretch the interval
        )
        self._cost_totals: deque[tuple[float, Cost]] = deque(
            [(0.0, Cost())]
        )  # (`time.monotonic`, cost of all commands until then)
        self._focus = Focus()
        self._inbox: queue.SimpleQueue[_ChangeRequest | _CallRequest | _SteppedCallRequest | _CancelRequest | None] = (
            queue.SimpleQueue()
        )
        self._stepped_calls: list[tuple[_SteppedCallRequest, Iterator[Any]]] = []
        self._changes: list[tuple[_ChangeRequest, Iterator[list[Outcome]]]] = []
        self._discovery: Iterator[Any] | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._refresh_due_s = self._discovery_due_s = self._rtt_due_s = self._server_check_s = 0.0
        self._discovery_s = 0.0  # duration of the current discovery so far
        self._is_full_discovery_requested = self._has_new_queues = False
        self._lost_since_s = self._failed_since_s = 0.0
        self._failures = 0
        self._request_ids = itertools.count(1)

    def start(self) -> None:
        """Start the ticker's thread."""
        self._thread = threading.Thread(target=self._run, name="rqtui-ticker", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop the ticker's thread, after waiting up to `timeout_s` for a request that was sent."""
        self._stop.set()
        self._inbox.put(None)
        if self._thread:
            self._thread.join(timeout_s)

    def set_focus(self, focus: Focus) -> None:
        """Set which queues, pages and job the next snapshots contain, and take a snapshot at once."""
        self._focus = focus
        self.request_refresh()

    def set_next_focus(self, focus: Focus) -> None:
        """Set which queues, pages and job the next snapshots contain, without taking one before it is due."""
        self._focus = focus

    def request_refresh(self) -> None:
        """Request a snapshot as soon as possible. Several requests give one snapshot."""
        self._inbox.put(None)

    def request_change(
        self, verb: str, ref: Ref, jobs: Sequence[Job] = (), form: dict[str, object] | None = None
    ) -> int:
        """Request that a verb is applied to jobs, and return the request id.

        `ChangeProgressed` events with this id follow.
        """
        return self._enqueue_request(_ChangeRequest(next(self._request_ids), verb, ref, tuple(jobs), form or {}))

    def request_place_change(self, verb: str, ref: Ref, place: str, form: dict[str, object] | None = None) -> int:
        """Request that a verb is applied to all jobs of a place, in chunks, and return the request id.

        `ChangeProgressed` events with this id follow.
        """
        return self._enqueue_request(_ChangeRequest(next(self._request_ids), verb, ref, (), form or {}, place))

    def request_call(self, function: Callable[[Engine], Any]) -> int:
        """Request that a short function is called with the engine on the ticker's thread.

        Returns the id of its `CallFinished` event.
        """
        return self._enqueue_request(_CallRequest(next(self._request_ids), function))

    def start_stepped_call(self, function: Callable[[Engine], Iterator[Any]]) -> int:
        """Request that a generator is stepped once per turn. Returns the id of its `CallFinished` events.

        `function` gets the engine and returns the generator. Each step posts an event, and so does the end. A step
        should be one round trip. Several stepped calls take turns; a lost connection ends them with an error.
        """
        return self._enqueue_request(_SteppedCallRequest(next(self._request_ids), function))

    def cancel_stepped_call(self, id: int) -> None:
        """Request the end of a stepped call after its current step. Its last `CallFinished` event follows."""
        self._inbox.put(_CancelRequest(id))

    def _enqueue_request(self, request: _ChangeRequest | _CallRequest | _SteppedCallRequest) -> int:
        self._inbox.put(request)
        return request.id

    def set_resting(self, is_resting: bool) -> None:
        """Set whether the screen is hidden, so that snapshots are rare. A visible screen gets a snapshot at once."""
        if is_resting != self.is_resting:
            self.is_resting = is_resting
            self.request_refresh()

    def request_discovery(self) -> None:
        """Request a discovery of queues that walks over all keys, as soon as possible."""
        self._discovery_due_s, self._is_full_discovery_requested = 0.0, True
        self.request_refresh()

    def cancel_changes(self) -> None:
        """Request the end of all changes after their present chunk. Changed jobs stay changed; last events follow."""
        self._inbox.put(_CancelRequest())

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Run the ticker's thread: create the engine, then serve requests and take snapshots until `stop` is called."""
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
        """Create the engine and start listening. After an error post the failure and return False."""
        try:
            self.engine = self._build_engine()
            self.engine.start_listening()
        except Exception as error:
            self._handle_failed_refresh(error)
            return False
        self._failed_since_s = 0.0
        return True

    def _serve_inbox(self) -> None:
        """Serve the requests in the inbox, and wait for further ones until the next refresh or step is due."""
        while True:
            is_busy = bool(self._changes or self._stepped_calls or self._discovery) and not self._failures
            wait_s = 0.0 if is_busy else max(0.0, self._refresh_due_s - time.monotonic())
            wait_s = min(wait_s, EVENT_DELIVERY_S) if self.engine.is_listening else wait_s
            try:
                request = self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
            except queue.Empty:
                return
            if self._stop.is_set():
                return
            if request is None:  # Set here and not in `refresh`: a snapshot under way would overwrite the due time.
                self._refresh_due_s = 0.0
            elif isinstance(request, _ChangeRequest):
                self._begin_change(request)
                if not self._changes:  # The end of a change takes a snapshot; nothing began here.
                    self._refresh_due_s = min(self._refresh_due_s, time.monotonic())
            elif isinstance(request, _CallRequest):
                self._run_call(request)
            elif isinstance(request, _SteppedCallRequest):
                self._begin_stepped_call(request)
            elif isinstance(request, _CancelRequest) and request.call_id is not None:
                self._end_stepped_calls("", request.call_id)
            elif isinstance(request, _CancelRequest):
                self._end_changes("stopped: the rest was not sent")

    def _begin_change(self, change: _ChangeRequest) -> None:
        """Begin a change. While Redis is away, post the outcome `not sent` for its jobs."""
        if self._failures:
            outcomes = tuple(Outcome(change.verb, job.id, "not sent", "Redis is away") for job in change.jobs)
            self.post(
                ChangeProgressed(
                    change.id,
                    change.verb,
                    change.ref,
                    outcomes,
                    len(change.jobs),
                    True,
                    "Redis is away: nothing was sent",
                )
            )
            return
        try:
            if change.place:
                steps = self.engine.apply_verb_to_place(change.verb, change.ref, change.place, change.form)
            else:
                steps = self.engine.yield_verb_steps(change.verb, change.ref, change.jobs, change.form)
            self._changes.append((change, steps))
        except Exception as error:
            self.post(
                ChangeProgressed(
                    change.id, change.verb, change.ref, (), len(change.jobs), True, describe_and_log_error(error, log)
                )
            )

    def _run_call(self, request: _CallRequest) -> None:
        try:
            self.post(CallFinished(request.id, request.function(self.engine)))
        except Exception as error:
            self.post(CallFinished(request.id, error=describe_and_log_error(error, log)))

    def _begin_stepped_call(self, call: _SteppedCallRequest) -> None:
        if self._failures:
            self.post(CallFinished(call.id, error="Redis is away"))
            return
        try:
            self._stepped_calls.append((call, iter(call.function(self.engine))))
        except Exception as error:
            self.post(CallFinished(call.id, error=describe_and_log_error(error, log)))

    def _run_call_step(self) -> None:
        """Run one step of the stepped call whose turn it is, and post its result."""
        call, steps = self._stepped_calls.pop(0)
        try:
            for step in steps:
                self._stepped_calls.append((call, steps))
                self.post(CallFinished(call.id, step, is_last=False))
                return
        except ServerError as error:
            self.post(CallFinished(call.id, error=str(error)))
            raise
        except Exception as error:
            self.post(CallFinished(call.id, error=describe_and_log_error(error, log)))
            return
        self.post(CallFinished(call.id))

    def _end_stepped_calls(self, reason: str, id: int | None = None) -> None:
        """End one stepped call, or all, and post a last event with the reason for each."""
        ended = [(call, steps) for call, steps in self._stepped_calls if id is None or call.id == id]
        self._stepped_calls = [pair for pair in self._stepped_calls if pair not in ended]
        for call, steps in ended:
            if close := getattr(steps, "close", None):
                close()
            self.post(CallFinished(call.id, error=reason))

    def _run_turn(self) -> None:
        """Run one step of a change, of a stepped call and of the discovery, and take a snapshot if one is due."""
        self.engine.deliver_events()
        if self._changes:
            self._step_change()
        if self._stepped_calls:
            self._run_call_step()
        if self._discovery is not None:
            self._step_discovery(self._discovery)
        now_s = time.monotonic()
        if now_s < self._refresh_due_s:
            return
        if now_s >= self._discovery_due_s and self._discovery is None:
            self._discovery_due_s, self._discovery_s = now_s + DISCOVERY_INTERVAL_S, 0.0
            if now_s >= self._rtt_due_s:
                self._is_rtt_due, self._rtt_due_s = True, now_s + DISCOVERY_INTERVAL_S
            self._discovery = self.engine.discover(self._is_full_discovery_requested, max_keys=None)
            self._is_full_discovery_requested = False
            if not self.engine.refs:  # Only the first snapshot waits for names, for a limited time.
                self._discovery = _advance_generator(self._discovery, end_s=now_s + MAX_FIRST_DISCOVERY_S)
                self._discovery_s = time.monotonic() - now_s
                if self._discovery is None:
                    self._schedule_discovery()
        focus = self._focus
        snapshot = self.engine.take_snapshot(focus)
        self._failures, self._lost_since_s, self._failed_since_s = 0, 0.0, 0.0
        cost = replace(snapshot.cost, rtt_ms=self._rtt_ms)
        snapshot = replace(snapshot, cost=cost, interval_cost=self._compute_interval_cost())
        shorter_ms, self._last_snapshot_ms = min(self._last_snapshot_ms, cost.ms), cost.ms
        self._visible_interval_s = max(self.interval_s, min(10 * shorter_ms / 1000, 2 * self._visible_interval_s))
        self.wait_s = self._visible_interval_s * (HIDDEN_INTERVAL_FACTOR if self.is_resting else 1)
        self._refresh_due_s = time.monotonic() + self.wait_s
        self.post(SnapshotTaken(snapshot, focus))
        if now_s >= self._server_check_s:
            self._check_server(now_s)
        if self._is_rtt_due:  # Measured after a snapshot, which it must not delay and which opened the connection.
            self._rtt_ms, self._is_rtt_due = self._measure_round_trip_ms(), False

    def _step_discovery(self, steps: Iterator[Any]) -> None:
        """Run one step of the discovery. After the last step request a snapshot if the set of queues changed."""
        began_s, previous_refs = time.monotonic(), self.engine.refs
        has_ended = next(steps, None) is None
        self._discovery_s += time.monotonic() - began_s
        if previous_refs is not self.engine.refs:
            self._has_new_queues = True
        if has_ended:
            self._discovery = None
            self._schedule_discovery()
            self._refresh_due_s, self._has_new_queues = (
                (0.0, False) if self._has_new_queues else (self._refresh_due_s, False)
            )

    def _schedule_discovery(self) -> None:
        """Schedule the next discovery: the longer the last one took, the later."""
        rest_s = max(MIN_DISCOVERY_INTERVAL_S, DISCOVERY_INTERVAL_FACTOR * self._discovery_s)
        self._discovery_due_s = min(self._discovery_due_s, time.monotonic() + rest_s)

    def _compute_interval_cost(self) -> Cost | None:
        """Return the cost of all commands since the snapshot an interval ago, or since the last one before that."""
        meter = find_client_meter(self.engine.client)
        if meter is None:
            return None
        now_s, present_total = time.monotonic(), meter.compute_total_cost()
        while len(self._cost_totals) > 1 and self._cost_totals[1][0] <= now_s - self.wait_s:
            self._cost_totals.popleft()
        _taken_s, earlier_total = self._cost_totals[0]
        self._cost_totals.append((now_s, present_total))
        return replace(present_total - earlier_total, rtt_ms=self._rtt_ms)

    def _measure_round_trip_ms(self) -> float:
        """Return the shortest of up to three ping times in ms, to which the duration of a snapshot is compared."""
        shortest_ms = self._measure_ping_ms()
        for _ in range(MAX_PINGS - 1) if shortest_ms < SLOW_PING_MS else ():  # A busy machine sometimes replies late.
            shortest_ms = min(shortest_ms, self._measure_ping_ms())
        return shortest_ms

    def _check_server(self, now_s: float) -> None:
        """Check the role and the memory of the server. While there is a finding, the next check is sooner."""
        has_findings = self.engine.check_server()
        self._server_check_s = now_s + (MIN_SERVER_CHECK_INTERVAL_S if has_findings else SERVER_CHECK_INTERVAL_S)

    def _measure_ping_ms(self) -> float:
        began_s = time.monotonic()
        self.engine.ping()
        return (time.monotonic() - began_s) * 1000

    def _step_change(self) -> None:
        """Run one step of the first change in line, and post its outcomes."""
        change, steps = self._changes[0]
        try:
            outcomes = next(steps, None)
        except Exception as error:
            self._changes.pop(0)
            self.post(
                ChangeProgressed(
                    change.id, change.verb, change.ref, (), len(change.jobs), True, describe_and_log_error(error, log)
                )
            )
            return
        if outcomes is None:
            self._changes.pop(0)
            self.post(ChangeProgressed(change.id, change.verb, change.ref, (), len(change.jobs), True))
            self._refresh_due_s = 0.0
            return
        self.post(ChangeProgressed(change.id, change.verb, change.ref, tuple(outcomes), len(change.jobs), False))

    def _end_changes(self, reason: str) -> None:
        """End all changes, and post their last events with the reason."""
        for change, steps in self._changes:
            steps.close()  # type: ignore[attr-defined]
            self.post(ChangeProgressed(change.id, change.verb, change.ref, (), len(change.jobs), True, reason))
        self._changes.clear()

    def _handle_failed_refresh(self, error: Exception) -> None:
        """Post the failure of one snapshot. The thread and its other work continue."""
        now_s = time.monotonic()
        self._failed_since_s = self._failed_since_s or now_s
        self._failures, self._lost_since_s = 0, 0.0
        self._refresh_due_s = now_s + self.interval_s
        self.post(RefreshFailed(describe_and_log_error(error, log), self._failed_since_s, self._refresh_due_s))

    def _handle_lost_server(self, error: ServerError) -> None:
        """Post that Redis does not reply, end all changes and stepped calls, and schedule the next retry."""
        now_s = time.monotonic()
        self._lost_since_s = self._lost_since_s or now_s
        wait_s = compute_reconnect_delay_s(self._failures)
        self._failures += 1
        self._server_check_s = 0.0  # A failover closes connections: the server may be a replica afterwards.
        self._discovery, self._discovery_due_s = (
            None,
            0.0,
        )  # A snapshot of no queues sends nothing, and would look like a reply.
        self._refresh_due_s = now_s + wait_s
        self._end_changes("Redis is away: the rest was not sent")
        self._end_stepped_calls("Redis is away")
        self.post(ServerLost(str(error), self._lost_since_s, self._refresh_due_s))


def _advance_generator(steps: Iterator[Any], end_s: float) -> Iterator[Any] | None:
    """Run the steps of a generator until `end_s` (`time.monotonic`). Return the generator, or None if it has ended."""
    for _step in steps:
        if time.monotonic() >= end_s:
            return steps
    return None
