"""Run a script on many queues again and again (a loop), wait while nothing can be due, and back off without Redis.

The dispatcher, the reaper and a worker run on the same class `Loop`, on the screen's threads and in `rqtui dispatch`,
`rqtui reap` and `rqtui work`. Every step is an atomic script, so any number of loops may run at once, next to those of
other programs. A loop never takes the wake marker: that is for consumers, which are on time to the millisecond.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rqtui.connection.connect import translate_redis_errors
from rqtui.durations import compute_reconnect_delay_s
from rqtui.engine.due_times import POLL_INTERVAL_S, DuePoll, DueTimes
from rqtui.errors import RqtuiError, ServerError, UsageError
from rqtui.model import Ref
from rqtui.scripts import script as scripts
from rqtui.system_base.system import System, raise_if_connection_lost

MAX_BATCH = 1000
SLOW_MS = (
    4.0  # A slower batch halves the limit; full batches in half this time raise it by half, so that none takes 5 ms.
)
UPKEEP_POLLS = 300  # polls of the due times, within which each queue is called once even if nothing is due
TURN_QUEUES = 20  # queues called together, about: waking Redis for a single one costs more than the call
FIRST_ROUND_QUEUES = 1000  # up to so many queues are all called in the first round; more of them take turns
MAX_ROUNDS = 200  # rounds stored for the screen

log = logging.getLogger("rqtui.engine.loops")


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """The result of one script call of a loop on one queue.

    `next_ms` is the time until the script has work again; None if that is unknown.
    """

    verb: str
    ref: Ref
    moved: int = 0
    next_ms: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    at_s: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round of a loop over all its queues. `wait_s` is how long the loop waits afterwards."""

    steps: tuple[ScriptStep, ...] = ()
    ms: float = 0.0
    wait_s: float = 0.0
    is_full: bool = False
    error: str = ""  # Why Redis is away; then `wait_s` is the back-off.
    batch: int = 0  # the most jobs taken from one queue
    at_s: float = 0.0

    @property
    def moved(self) -> int:
        """The number of jobs moved in this round."""
        return sum(step.moved for step in self.steps)

    @property
    def is_idle(self) -> bool:
        """Return whether a round moved no job and had no error."""
        return not self.error and not any(step.moved or step.error for step in self.steps)


class Loop:
    """A background loop, such as a dispatcher or a reaper: calls the function `work` repeatedly on its own thread.

    `work` does one round and says whether the round was full (then it is called again at once) and when there is more
    to do. `report` is called with every round, on the loop's thread. After a ServerError the loop backs off 1 1 2 3 5 8
    13 s; any other exception is reported, logged and backed off from as well, so no exception ends a loop. `on_stop` is
    called when the loop stops, even for a while: a connection that is named after a loop looks like a running one.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Round],
        report: Callable[[Round], None] = lambda _round: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.rounds: deque[Round] = deque(maxlen=MAX_ROUNDS)
        self._work, self._report, self._on_stop = work, report, on_stop
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._round_lock = threading.Lock()
        self._failures = 0

    @property
    def is_running(self) -> bool:
        """Return whether a loop runs on its own thread."""
        return self._thread is not None and self._thread.is_alive() and not self._stop.is_set()

    def start(self) -> None:
        """Start the thread of a loop, which runs until `stop` is called. Does nothing if the loop is running."""
        if self.is_running:
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run_rounds, args=(self._stop,), name=f"rqtui-{self.name}", daemon=True
        )
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop a loop after the round under way. Return when its thread has ended, or after `timeout_s`."""
        self._stop.set()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def run(self, stop: threading.Event) -> None:
        """Run a loop on the caller's thread until `stop` is set."""
        self._stop = stop
        self._run_rounds(stop)

    def step(self) -> Round:
        """Run one round of a loop, whether the loop is running or not, and return its result."""
        with self._round_lock:
            result = self._run_round()
            self._call_on_stop_if_stopped()
        if result.is_idle and self.rounds and self.rounds[-1].is_idle:
            self.rounds[-1] = result  # Only the last of many idle rounds is stored, so that the rounds with work stay.
        else:
            self.rounds.append(result)
        self._report(result)
        return result

    def _run_rounds(self, stop: threading.Event) -> None:
        while not stop.is_set():
            result = self.step()
            if not result.is_full or result.error:
                stop.wait(result.wait_s)
        with self._round_lock:
            self._call_on_stop_if_stopped()

    def _call_on_stop_if_stopped(self) -> None:
        if not self.is_running:
            self._on_stop()

    def _run_round(self) -> Round:
        """Call `work` once. After an exception return a round with the error and the time to back off."""
        began_s = time.monotonic()
        try:
            result = self._work()
        except Exception as error:
            wait_s = compute_reconnect_delay_s(self._failures)
            self._failures += 1
            if not isinstance(error, RqtuiError):
                log.exception("%s: a step failed", self.name)
            return Round(
                ms=(time.monotonic() - began_s) * 1000, wait_s=wait_s, error=str(error) or repr(error), at_s=time.time()
            )
        self._failures = 0
        return result if result.at_s else replace(result, at_s=time.time())


def build_round(
    verb: str,
    client: Any,
    systems: Mapping[str, System],
    refs: Callable[[], Sequence[Ref]],
    *,
    limit: int | None = None,
    max_wait_s: float = POLL_INTERVAL_S,
    args: Mapping[str, object] | None = None,
    max_idle: int | None = None,
    urgent_refs: Callable[[], Collection[Ref]] = tuple,
    due_times: DueTimes | None = None,
) -> Callable[[], Round]:
    """Build the `work` function of a dispatcher or a reaper (`verb`) over the queues that `refs()` returns.

    All queues go in one round trip. Without `limit` the batch adapts between 50 and 1000, so that one call occupies the
    server for no more than about 5 ms. The round waits until the next job is due or the next lease expires, at most
    `max_wait_s`. `args` are passed to the scripts that take them; a value that a script returns under the name of one
    of its arguments (a cursor) is passed to its next call. Of the queues without known due work, `max_idle` are called
    per round, in turn, and those that `urgent_refs()` returns (None: all): a thousand calls a second take 7 % of a
    core. `due_times`, which several loops may share, finds the due work of many queues at once; those are called at
    least once in `UPKEEP_POLLS` polls.
    """
    batch = [limit or 200]
    rotation = _QueueRotation(max_idle)
    cursors: dict[Ref, dict[str, object]] = {}
    cached_refs: tuple[Sequence[Ref], Sequence[Ref]] = (
        (),
        (),
    )  # (all queues, those with the verb): the same objects while the queues are the same

    def select_queues_with_verb(refs_of_loop: Sequence[Ref]) -> Sequence[Ref]:
        nonlocal cached_refs
        if cached_refs[0] is not refs_of_loop or due_times is None:
            cached_refs = refs_of_loop, [ref for ref in refs_of_loop if systems[ref.system].can(verb)]
        return cached_refs[1]

    def build_verb_call(ref: Ref) -> scripts.Call:
        system = systems[ref.system]
        values = {"limit": batch[0], **(args or {}), **cursors.get(ref, {})}
        return system.build_call(verb, ref.queue, system.select_arguments(verb, values))

    def run_one_round() -> Round:
        refs_of_loop = refs()
        poll = due_times.poll(client, verb, refs_of_loop) if due_times else None
        chosen_refs = rotation.choose_refs(select_queues_with_verb(refs_of_loop), urgent_refs(), poll)
        calls, refused = [], []
        for ref in chosen_refs:
            try:
                calls.append((ref, build_verb_call(ref)))
            except UsageError as error:  # The error is about this queue only; the others are called.
                refused.append(ScriptStep(verb, ref, error=str(error), at_s=time.time()))
        began_s = time.monotonic()
        replies = raise_if_connection_lost(scripts.send_calls(client, [call for _ref, call in calls]))
        ms = (time.monotonic() - began_s) * 1000
        steps = tuple(_parse_script_step(verb, ref, reply) for (ref, _call), reply in zip(calls, replies, strict=True))
        rotation.record_steps(steps)
        for step in steps:
            cursors[step.ref] = systems[step.ref.system].select_arguments(verb, step.values)
        is_full = any(step.moved >= batch[0] or bool(step.values.get("more")) for step in steps)
        used_batch = batch[0]
        if limit is None and calls:
            cost_ms = ms if ms <= SLOW_MS else max(0.0, ms - _measure_round_trip_ms(client))
            busy = max(1, sum(step.moved > 0 for step in steps))
            batch[0] = _compute_next_batch(batch[0], cost_ms / busy, is_full)
        waits = [step.next_ms / 1000 for step in steps if step.next_ms is not None and step.next_ms >= 0]
        return Round(
            (*steps, *refused),
            ms,
            0.0 if is_full else max(0.001, min([max_wait_s, *waits, rotation.compute_wait_s()])),
            is_full,
            batch=used_batch,
        )

    return run_one_round


class _QueueRotation:
    """Chooses the queues that a round of a loop calls: all with due work, and some of the others in rotation."""

    def __init__(self, max_idle: int | None) -> None:
        self._max_idle = max_idle
        self._due_s: dict[Ref, float] = {}  # by `time.monotonic`; infinity: the last call found nothing to do
        self._position = 0
        self._poll: DuePoll | None = None
        self._poll_count = 0
        self._polled_due_s: dict[
            Ref, float
        ] = {}  # due times of queues covered by polls of due times; a missing queue is not due
        self._uncovered_cache: tuple[Sequence[Ref], DuePoll | None, Sequence[Ref]] = (
            (),
            None,
            (),
        )  # queues that no poll of due times covers

    def choose_refs(self, refs: Sequence[Ref], urgent_refs: Collection[Ref], poll: DuePoll | None) -> list[Ref]:
        """Return the queues to call in this round: all if they are few, else those with due work and some others."""
        previous_poll, self._poll = self._poll, poll
        if poll is None:
            self._polled_due_s.clear()
            return self._choose_in_rotation(refs, urgent_refs)
        upkeep_refs: Sequence[Ref] = ()
        if poll is not previous_poll:
            self._polled_due_s = {**poll.due_s}
        if poll is not previous_poll and not poll.is_from_snapshot:
            covered_refs = [*poll.refs]
            is_first_round = not self._poll_count and len(covered_refs) <= FIRST_ROUND_QUEUES
            upkeep_refs = covered_refs if is_first_round else _choose_upkeep_queues(covered_refs, self._poll_count)
            self._poll_count += 1
        now_s = time.monotonic()
        due_refs = [ref for ref, due_s in self._polled_due_s.items() if due_s <= now_s]
        urgent_covered_refs = [ref for ref in urgent_refs if ref in poll.refs]
        return list(
            dict.fromkeys(
                [
                    *due_refs,
                    *urgent_covered_refs,
                    *upkeep_refs,
                    *self._choose_in_rotation(self._find_uncovered_queues(refs, poll), urgent_refs),
                ]
            )
        )

    def _find_uncovered_queues(self, refs: Sequence[Ref], poll: DuePoll) -> Sequence[Ref]:
        """Return the queues whose due times a poll does not contain, from the cache while the queues are the same."""
        previous_refs, previous_poll, uncovered_refs = self._uncovered_cache
        if previous_refs is not refs or previous_poll is None or previous_poll.refs is not poll.refs:
            uncovered_refs = [ref for ref in refs if ref not in poll.refs]
        self._uncovered_cache = refs, poll, uncovered_refs
        return uncovered_refs

    def _choose_in_rotation(self, refs: Sequence[Ref], urgent_refs: Collection[Ref]) -> list[Ref]:
        """Return the queues to call in this round: those with due work, urgent ones, and the next `max_idle` others."""
        if self._max_idle is None or len(refs) <= self._max_idle:
            self._due_s.clear()
            return [*refs]
        now_s = time.monotonic()
        self._due_s = {ref: self._due_s.get(ref, 0.0) for ref in refs}
        due_refs = [ref for ref in refs if self._due_s[ref] <= now_s or ref in urgent_refs]
        rotating_refs = [refs[(self._position + step) % len(refs)] for step in range(self._max_idle)]
        self._position = (self._position + self._max_idle) % len(refs)
        return list(dict.fromkeys([*due_refs, *rotating_refs]))

    def record_steps(self, steps: Sequence[ScriptStep]) -> None:
        """Store from the results of a round when each queue will have work again."""
        now_s = time.monotonic()
        for step in steps:
            is_due_known = step.next_ms is not None and step.next_ms >= 0
            assumed_s = POLL_INTERVAL_S if step.moved else math.inf
            due_s = now_s + ((step.next_ms or 0) / 1000 if is_due_known else assumed_s)
            if step.ref in self._due_s:
                self._due_s[step.ref] = due_s
            if self._poll and step.ref in self._poll.refs:
                self._polled_due_s[step.ref] = due_s

    def compute_wait_s(self) -> float:
        """Return the seconds until the next queue has work or the due times are polled again."""
        next_s = self._poll.next_poll_s if self._poll else math.inf
        return max(0.0, min([next_s, *self._due_s.values(), *self._polled_due_s.values()]) - time.monotonic())


def _choose_upkeep_queues(refs: Sequence[Ref], poll_number: int) -> Sequence[Ref]:
    """Return the queues that are called at this poll even without due work.

    Each queue is called once in `UPKEEP_POLLS` polls, about `TURN_QUEUES` queues together.
    """
    interval = min(UPKEEP_POLLS, max(1, UPKEEP_POLLS * TURN_QUEUES // max(1, len(refs))))
    share_count = UPKEEP_POLLS // interval
    return () if poll_number % interval else refs[poll_number // interval % share_count :: share_count]


def _compute_next_batch(batch: int, call_ms: float, is_full: bool) -> int:
    """Return the batch size of the next round: half after a slow call, larger by half after a full and fast one."""
    if call_ms > SLOW_MS:
        return max(50, batch // 2)
    return min(MAX_BATCH, batch + batch // 2) if is_full and call_ms < SLOW_MS / 2 else batch


def _measure_round_trip_ms(client: Any) -> float:
    """Measure the duration of a round trip in ms, which is subtracted from the duration of a batch."""
    with translate_redis_errors():
        began = time.monotonic()
        client.time()  # A worker's ACL allows TIME, because the scripts need it, but not PING.
        return (time.monotonic() - began) * 1000


def _parse_script_step(verb: str, ref: Ref, reply: scripts.Reply | Exception) -> ScriptStep:
    """Convert the reply of a script to the result of a step. An error of one queue is stored in the result."""
    if isinstance(reply, ServerError | RqtuiError):
        return ScriptStep(verb, ref, error=str(reply), at_s=time.time())
    if isinstance(reply, Exception):
        raise reply
    values = dict(reply.values)
    next_ms = values.get("next_ms")
    return ScriptStep(
        verb, ref, int(values.get("moved", 0) or 0), next_ms if isinstance(next_ms, int) else None, values, time.time()
    )
