"""Run a step again and again: report it, wait while nothing can be due, and back off while Redis is away.

The dispatcher, the reaper and a worker are three steps for the same `Loop`, on the screen's threads and in `rqtui
dispatch`, `rqtui reap` and `rqtui work`. Every step is an atomic script, so any number of loops may run at once, next
to those of other programs. A loop never takes the wake marker: that is for consumers, which are on time to the
millisecond.
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

from rqtui.connection.connect import translate_errors
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
    """The result of one script call of a loop. `next_ms` is the time until there is more to do, None if unknown."""

    verb: str
    ref: Ref
    moved: int = 0
    next_ms: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    at_s: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one turn of a loop over all its queues. `wait_s` is how long the loop waits now."""

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
        """Return whether no job was moved and no error occurred."""
        return not self.error and not any(step.moved or step.error for step in self.steps)


class Loop:
    """Runs `work` again and again on a thread of its own.

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
        """Return whether the loop runs on its own thread."""
        return self._thread is not None and self._thread.is_alive() and not self._stop.is_set()

    def start(self) -> None:
        """Start the loop's thread, which runs until `stop`."""
        if self.is_running:
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run_rounds, args=(self._stop,), name=f"rqtui-{self.name}", daemon=True
        )
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop after the present step; return when the thread has ended or after `timeout_s`."""
        self._stop.set()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def run(self, stop: threading.Event) -> None:
        """Run the loop on the caller's thread until `stop` is set."""
        self._stop = stop
        self._run_rounds(stop)

    def step(self) -> Round:
        """Run one round, whether the loop is running or not, and return its result."""
        with self._round_lock:
            done = self._run_round()
            self._call_rest_if_stopped()
        if done.is_idle and self.rounds and self.rounds[-1].is_idle:
            self.rounds[-1] = done  # Only the last of many idle rounds is stored, so that the rounds with work stay.
        else:
            self.rounds.append(done)
        self._report(done)
        return done

    def _run_rounds(self, stop: threading.Event) -> None:
        while not stop.is_set():
            done = self.step()
            if not done.is_full or done.error:
                stop.wait(done.wait_s)
        with self._round_lock:
            self._call_rest_if_stopped()

    def _call_rest_if_stopped(self) -> None:
        if not self.is_running:
            self._on_stop()

    def _run_round(self) -> Round:
        began = time.monotonic()
        try:
            done = self._work()
        except Exception as error:
            wait_s = compute_reconnect_delay_s(self._failures)
            self._failures += 1
            if not isinstance(error, RqtuiError):
                log.exception("%s: a step failed", self.name)
            return Round(
                ms=(time.monotonic() - began) * 1000, wait_s=wait_s, error=str(error) or repr(error), at_s=time.time()
            )
        self._failures = 0
        return done if done.at_s else replace(done, at_s=time.time())


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
    """Build the work of a dispatcher (`verb` dispatch) or reaper (reap) over the queues that `refs()` returns.

    All queues go in one round trip. Without `limit` the batch adapts between 50 and 1000, so that one call occupies the
    server for no more than about 5 ms. The round waits until the next job is due or the next lease expires, at most
    `max_wait_s`. `args` are passed to the scripts that take them; a value that a script returns under the name of one
    of its arguments (a cursor) is passed to its next call. Of the queues without known due work, `max_idle` are called
    per round, in turn, and those that `urgent_refs()` returns (None: all): a thousand calls a second take 7 % of a
    core. `due_times`, which several loops may share, finds the due work of many queues at once; those are called at
    least once in `UPKEEP_POLLS` polls.
    """
    batch = [limit or 200]
    turns = _Turns(max_idle)
    carried: dict[Ref, dict[str, object]] = {}
    cached: tuple[Sequence[Ref], Sequence[Ref]] = (
        (),
        (),
    )  # (all queues, those with the verb): the same objects while the queues are the same

    def select_able_queues(served: Sequence[Ref]) -> Sequence[Ref]:
        nonlocal cached
        if cached[0] is not served or due_times is None:
            cached = served, [ref for ref in served if systems[ref.system].can(verb)]
        return cached[1]

    def call(ref: Ref) -> scripts.Call:
        system = systems[ref.system]
        given = {"limit": batch[0], **(args or {}), **carried.get(ref, {})}
        return system.build_call(verb, ref.queue, system.select_arguments(verb, given))

    def work() -> Round:
        served = refs()
        look = due_times.poll(client, verb, served) if due_times else None
        wanted = turns.choose(select_able_queues(served), urgent_refs(), look)
        calls, refused = [], []
        for ref in wanted:
            try:
                calls.append((ref, call(ref)))
            except UsageError as error:  # The error is about this queue only; the others are called.
                refused.append(ScriptStep(verb, ref, error=str(error), at_s=time.time()))
        began = time.monotonic()
        replies = raise_if_connection_lost(scripts.send_calls(client, [sent for _ref, sent in calls]))
        ms = (time.monotonic() - began) * 1000
        steps = tuple(_to_step(verb, ref, reply) for (ref, _sent), reply in zip(calls, replies, strict=True))
        turns.record_steps(steps)
        for step in steps:
            carried[step.ref] = systems[step.ref.system].select_arguments(verb, step.values)
        full = any(step.moved >= batch[0] or bool(step.values.get("more")) for step in steps)
        taken = batch[0]
        if limit is None and calls:
            cost_ms = ms if ms <= SLOW_MS else max(0.0, ms - _measure_round_trip_ms(client))
            busy = max(1, sum(step.moved > 0 for step in steps))
            batch[0] = _adapt_batch(batch[0], cost_ms / busy, full)
        waits = [step.next_ms / 1000 for step in steps if step.next_ms is not None and step.next_ms >= 0]
        return Round(
            (*steps, *refused),
            ms,
            0.0 if full else max(0.001, min([max_wait_s, *waits, turns.compute_wait_s()])),
            full,
            batch=taken,
        )

    return work


class _Turns:
    """Chooses the queues that a round calls: all that are known to be due, and some of the others in turn."""

    def __init__(self, most_idle: int | None) -> None:
        self._most_idle = most_idle
        self._due_s: dict[Ref, float] = {}  # by `time.monotonic`; infinity: the last call found nothing to do
        self._position = 0
        self._look: DuePoll | None = None
        self._looks = 0
        self._polled_due_s: dict[
            Ref, float
        ] = {}  # due times of queues covered by polls of due times; a missing queue is not due
        self._uncovered: tuple[Sequence[Ref], DuePoll | None, Sequence[Ref]] = (
            (),
            None,
            (),
        )  # queues that no poll of due times covers

    def choose(self, refs: Sequence[Ref], urgent: Collection[Ref], look: DuePoll | None) -> list[Ref]:
        """Return the queues to call in this round: all if there are few, else the due, the urgent, and some in turn."""
        previous_look, self._look = self._look, look
        if look is None:
            self._polled_due_s.clear()
            return self._choose_in_turn(refs, urgent)
        turn: Sequence[Ref] = ()
        if look is not previous_look:
            self._polled_due_s = {**look.due_s}
        if look is not previous_look and not look.is_from_snapshot:
            every = [*look.refs]
            is_new = not self._looks and len(every) <= FIRST_ROUND_QUEUES
            turn = every if is_new else _pick_turn(every, self._looks)
            self._looks += 1
        now_s = time.monotonic()
        due = [ref for ref, due_s in self._polled_due_s.items() if due_s <= now_s]
        urgent_here = [ref for ref in urgent if ref in look.refs]
        return list(
            dict.fromkeys([*due, *urgent_here, *turn, *self._choose_in_turn(self._find_uncovered(refs, look), urgent)])
        )

    def _find_uncovered(self, refs: Sequence[Ref], look: DuePoll) -> Sequence[Ref]:
        previous_refs, previous_look, others = self._uncovered
        if previous_refs is not refs or previous_look is None or previous_look.refs is not look.refs:
            others = [ref for ref in refs if ref not in look.refs]
        self._uncovered = refs, look, others
        return others

    def _choose_in_turn(self, refs: Sequence[Ref], urgent: Collection[Ref]) -> list[Ref]:
        if self._most_idle is None or len(refs) <= self._most_idle:
            self._due_s.clear()
            return [*refs]
        now_s = time.monotonic()
        self._due_s = {ref: self._due_s.get(ref, 0.0) for ref in refs}
        due = [ref for ref in refs if self._due_s[ref] <= now_s or ref in urgent]
        turn = [refs[(self._position + step) % len(refs)] for step in range(self._most_idle)]
        self._position = (self._position + self._most_idle) % len(refs)
        return list(dict.fromkeys([*due, *turn]))

    def record_steps(self, steps: Sequence[ScriptStep]) -> None:
        """Store when each queue of a round is due again."""
        now_s = time.monotonic()
        for step in steps:
            is_known = step.next_ms is not None and step.next_ms >= 0
            unknown_s = POLL_INTERVAL_S if step.moved else math.inf
            due_s = now_s + ((step.next_ms or 0) / 1000 if is_known else unknown_s)
            if step.ref in self._due_s:
                self._due_s[step.ref] = due_s
            if self._look and step.ref in self._look.refs:
                self._polled_due_s[step.ref] = due_s

    def compute_wait_s(self) -> float:
        """Return the seconds until the next queue is due or the due times are polled again."""
        next_s = self._look.next_poll_s if self._look else math.inf
        return max(0.0, min([next_s, *self._due_s.values(), *self._polled_due_s.values()]) - time.monotonic())


def _pick_turn(refs: Sequence[Ref], look: int) -> Sequence[Ref]:
    """Return the queues whose turn it is at this poll: each once in `UPKEEP_POLLS`, about `TURN_QUEUES` together."""
    rest = min(UPKEEP_POLLS, max(1, UPKEEP_POLLS * TURN_QUEUES // max(1, len(refs))))
    parts = UPKEEP_POLLS // rest
    return () if look % rest else refs[look // rest % parts :: parts]


def _adapt_batch(batch: int, ms: float, full: bool) -> int:
    if ms > SLOW_MS:
        return max(50, batch // 2)
    return min(MAX_BATCH, batch + batch // 2) if full and ms < SLOW_MS / 2 else batch


def _measure_round_trip_ms(client: Any) -> float:
    """Measure a round trip in ms, to subtract it from the duration of a batch."""
    with translate_errors():
        began = time.monotonic()
        client.time()  # A worker's ACL allows TIME, because the scripts need it, but not PING.
        return (time.monotonic() - began) * 1000


def _to_step(verb: str, ref: Ref, answer: scripts.Reply | Exception) -> ScriptStep:
    if isinstance(answer, ServerError | RqtuiError):
        return ScriptStep(verb, ref, error=str(answer), at_s=time.time())
    if isinstance(answer, Exception):
        raise answer
    values = dict(answer.values)
    next_ms = values.get("next_ms")
    return ScriptStep(
        verb, ref, int(values.get("moved", 0) or 0), next_ms if isinstance(next_ms, int) else None, values, time.time()
    )
