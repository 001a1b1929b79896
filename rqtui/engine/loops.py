"""Loop: do a step, report it, wait as long as nothing can be due, back off while Redis is away; never end by itself.

The dispatcher, the reaper and a worker are three steps for the same `Loop`, on the screen's threads and under
`rqtui dispatch`, `rqtui reap`, `rqtui work`. Every step is an atomic script, so any number of loops may run at once,
next to foreign ones. A loop never takes the wake marker: that is for consumers, which are on time to the millisecond.
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

from rqtui.connection.connect import translated
from rqtui.durations import backoff_s
from rqtui.engine.due_times import LOOK_S, Heads, Look
from rqtui.errors import RqtuiError, ServerError, UsageError
from rqtui.layout.layout import Layout, heard
from rqtui.model import Ref
from rqtui.scripts import script as scripts

LIMIT = 1000
SLOW_MS = 4.0  # the limit halves beyond, and grows by half while full batches take half of it: none shall take 5 ms
UPKEEP = 300  # looks at the heads, in which each queue has its turn all the same
TURN = 20  # queues, about, whose turn it is at once: to wake Redis for one costs more than the one does
AT_FIRST = 1000  # queues that are all looked at when nothing is known of them; of more each has its turn
STEPS = 200  # that are remembered for the screen

log = logging.getLogger("rqtui.engine.loops")


@dataclass(frozen=True, slots=True)
class Step:
    """What one script call of a loop did. `next_ms` is the time until there is something to do, None when unknown."""

    verb: str
    ref: Ref
    moved: int = 0
    next_ms: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    at_s: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """What one turn of a loop did, over all its queues; `wait_s` is how long it rests now."""

    steps: tuple[Step, ...] = ()
    ms: float = 0.0
    wait_s: float = 0.0
    full: bool = False
    error: str = ""  # Redis is away, in words; then wait_s is the back-off
    batch: int = 0  # how many it takes at most from one queue
    at_s: float = 0.0

    @property
    def moved(self) -> int:
        """Jobs moved in this round."""
        return sum(step.moved for step in self.steps)

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do, and nothing to tell."""
        return not self.error and not any(step.moved or step.error for step in self.steps)


class Loop:
    """Runs `work` again and again on a thread of its own.

    `work` does one round and says whether it was full (then it is called again at once) and when there is something to
    do next. `report` is told of every round, on the loop's thread. A ServerError makes it back off 1 1 2 3 5 8 13 s;
    any other exception is reported and logged, and backed off from as well: a loop never dies of one. `rest` is called
    when it goes round no more, be it for a while: a connection that is named after a loop looks like one that runs.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Round],
        report: Callable[[Round], None] = lambda _round: None,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.rounds: deque[Round] = deque(maxlen=STEPS)
        self._work, self._report, self._rest = work, report, rest
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._turn = threading.Lock()
        self._failures = 0

    @property
    def is_running(self) -> bool:
        """Whether it goes round by itself."""
        return self._thread is not None and self._thread.is_alive() and not self._stop.is_set()

    def start(self) -> None:
        """Goes round on a thread of its own until `stop`."""
        if self.is_running:
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go, args=(self._stop,), name=f"rqtui-{self.name}", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Ends after the step under way; returns when it has ended or after `timeout_s`."""
        self._stop.set()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def run(self, stop: threading.Event) -> None:
        """Goes round on the caller's thread until `stop` is set."""
        self._stop = stop
        self._go(stop)

    def step(self) -> Round:
        """One round, whether it is running or not."""
        with self._turn:
            done = self._round()
            self._rest_if_over()
        if done.is_idle and self.rounds and self.rounds[-1].is_idle:
            self.rounds[-1] = done  # of many idle rounds the last one: what is remembered is what was done
        else:
            self.rounds.append(done)
        self._report(done)
        return done

    def _go(self, stop: threading.Event) -> None:
        while not stop.is_set():
            done = self.step()
            if not done.full or done.error:
                stop.wait(done.wait_s)
        with self._turn:
            self._rest_if_over()

    def _rest_if_over(self) -> None:
        if not self.is_running:
            self._rest()

    def _round(self) -> Round:
        began = time.monotonic()
        try:
            done = self._work()
        except Exception as error:
            wait_s = backoff_s(self._failures)
            self._failures += 1
            if not isinstance(error, RqtuiError):
                log.exception("%s: a step failed", self.name)
            return Round(
                ms=(time.monotonic() - began) * 1000, wait_s=wait_s, error=str(error) or repr(error), at_s=time.time()
            )
        self._failures = 0
        return done if done.at_s else replace(done, at_s=time.time())


def mover(
    verb: str,
    client: Any,
    layouts: Mapping[str, Layout],
    refs: Callable[[], Sequence[Ref]],
    *,
    limit: int | None = None,
    every_s: float = LOOK_S,
    args: Mapping[str, object] | None = None,
    most_idle: int | None = None,
    urgent: Callable[[], Collection[Ref]] = tuple,
    heads: Heads | None = None,
) -> Callable[[], Round]:
    """The work of a dispatcher (`verb` dispatch) or a reaper (reap) over the queues that `refs()` names each time.

    All queues go in one round trip. Without `limit` the batch adapts between 50 and 1000 so that one call keeps the
    server no longer than about 5 ms. It rests until the next job is due or the next lease expires, at most `every_s`.
    `args` go to the scripts that take them; a value that a script answers under the name of one of its arguments (a
    cursor) goes to its next call. Of the queues in which nothing is known to be due, `most_idle` are looked at per
    round, in turn, and those that `urgent()` names (None: all): a thousand calls a second take 7 % of a core.
    `heads`, which several loops may share, tells of many queues at once where something is due; those have their turn
    in `UPKEEP` looks.
    """
    batch = [limit or 200]
    turns = _Turns(most_idle)
    carried: dict[Ref, dict[str, object]] = {}
    known: tuple[Sequence[Ref], Sequence[Ref]] = (), ()  # who is served, and of these who can: the same while they are

    def able(served: Sequence[Ref]) -> Sequence[Ref]:
        nonlocal known
        if known[0] is not served or heads is None:
            known = served, [ref for ref in served if layouts[ref.layout].can(verb)]
        return known[1]

    def call(ref: Ref) -> scripts.Call:
        layout = layouts[ref.layout]
        given = {"limit": batch[0], **(args or {}), **carried.get(ref, {})}
        return layout.call(verb, ref.queue, layout.fitting(verb, given))

    def work() -> Round:
        served = refs()
        look = heads.look(client, verb, served) if heads else None
        wanted = turns.chosen(able(served), urgent(), look)
        calls, refused = [], []
        for ref in wanted:
            try:
                calls.append((ref, call(ref)))
            except UsageError as error:  # that queue's alone: the others go on
                refused.append(Step(verb, ref, error=str(error), at_s=time.time()))
        began = time.monotonic()
        answers = heard(scripts.run_all(client, [sent for _ref, sent in calls]))
        ms = (time.monotonic() - began) * 1000
        steps = tuple(_step(verb, ref, answer) for (ref, _sent), answer in zip(calls, answers, strict=True))
        turns.told(steps)
        for step in steps:
            carried[step.ref] = layouts[step.ref.layout].fitting(verb, step.values)
        full = any(step.moved >= batch[0] or bool(step.values.get("more")) for step in steps)
        taken = batch[0]
        if limit is None and calls:
            cost_ms = ms if ms <= SLOW_MS else max(0.0, ms - _round_trip_ms(client))
            busy = max(1, sum(step.moved > 0 for step in steps))
            batch[0] = _adapted(batch[0], cost_ms / busy, full)
        waits = [step.next_ms / 1000 for step in steps if step.next_ms is not None and step.next_ms >= 0]
        return Round(
            (*steps, *refused),
            ms,
            0.0 if full else max(0.001, min([every_s, *waits, turns.wait_s()])),
            full,
            batch=taken,
        )

    return work


class _Turns:
    """Which queues a round looks at, when they are many: those that are due as far as known, and others in turn."""

    def __init__(self, most_idle: int | None) -> None:
        self._most_idle = most_idle
        self._due_s: dict[Ref, float] = {}  # by the monotonic clock; infinity: nothing to do, when it was asked
        self._at = 0
        self._look: Look | None = None
        self._looks = 0
        self._heads_s: dict[Ref, float] = {}  # the same of those that looks tell of; who is not there is not due
        self._others: tuple[Sequence[Ref], Look | None, Sequence[Ref]] = (), None, ()  # of whom looks do not tell

    def chosen(self, refs: Sequence[Ref], urgent: Collection[Ref], look: Look | None) -> list[Ref]:
        """All of them while they are few; of those whose heads were looked at, those that are due."""
        told, self._look = self._look, look
        if look is None:
            self._heads_s.clear()
            return self._in_turn(refs, urgent)
        turn: Sequence[Ref] = ()
        if look is not told:
            self._heads_s = {**look.due_s}
        if look is not told and not look.is_picture:
            every = [*look.refs]
            is_new = not self._looks and len(every) <= AT_FIRST
            turn = every if is_new else _turn(every, self._looks)
            self._looks += 1
        now_s = time.monotonic()
        due = [ref for ref, due_s in self._heads_s.items() if due_s <= now_s]
        urgent_here = [ref for ref in urgent if ref in look.refs]
        return list(dict.fromkeys([*due, *urgent_here, *turn, *self._in_turn(self._beside(refs, look), urgent)]))

    def _beside(self, refs: Sequence[Ref], look: Look) -> Sequence[Ref]:
        of, told, others = self._others
        if of is not refs or told is None or told.refs is not look.refs:
            others = [ref for ref in refs if ref not in look.refs]
        self._others = refs, look, others
        return others

    def _in_turn(self, refs: Sequence[Ref], urgent: Collection[Ref]) -> list[Ref]:
        if self._most_idle is None or len(refs) <= self._most_idle:
            self._due_s.clear()
            return [*refs]
        now_s = time.monotonic()
        self._due_s = {ref: self._due_s.get(ref, 0.0) for ref in refs}
        due = [ref for ref in refs if self._due_s[ref] <= now_s or ref in urgent]
        turn = [refs[(self._at + step) % len(refs)] for step in range(self._most_idle)]
        self._at = (self._at + self._most_idle) % len(refs)
        return list(dict.fromkeys([*due, *turn]))

    def told(self, steps: Sequence[Step]) -> None:
        """What a round heard: when each of its queues is due again."""
        now_s = time.monotonic()
        for step in steps:
            is_known = step.next_ms is not None and step.next_ms >= 0
            unknown_s = LOOK_S if step.moved else math.inf
            due_s = now_s + ((step.next_ms or 0) / 1000 if is_known else unknown_s)
            if step.ref in self._due_s:
                self._due_s[step.ref] = due_s
            if self._look and step.ref in self._look.refs:
                self._heads_s[step.ref] = due_s

    def wait_s(self) -> float:
        """Until the next queue is due, or the heads are looked at again."""
        next_s = self._look.next_s if self._look else math.inf
        return max(0.0, min([next_s, *self._due_s.values(), *self._heads_s.values()]) - time.monotonic())


def _turn(refs: Sequence[Ref], look: int) -> Sequence[Ref]:
    """Whose turn it is at a look: each within `UPKEEP` of them, about `TURN` or more at a time, else nobody."""
    rest = min(UPKEEP, max(1, UPKEEP * TURN // max(1, len(refs))))
    parts = UPKEEP // rest
    return () if look % rest else refs[look // rest % parts :: parts]


def _adapted(batch: int, ms: float, full: bool) -> int:
    if ms > SLOW_MS:
        return max(50, batch // 2)
    return min(LIMIT, batch + batch // 2) if full and ms < SLOW_MS / 2 else batch


def _round_trip_ms(client: Any) -> float:
    """What the way to the server and back takes: no fault of the batch."""
    with translated():
        began = time.monotonic()
        client.time()  # a worker's ACL has it, as the scripts need it, and no PING
        return (time.monotonic() - began) * 1000


def _step(verb: str, ref: Ref, answer: scripts.Answer | Exception) -> Step:
    if isinstance(answer, ServerError | RqtuiError):
        return Step(verb, ref, error=str(answer), at_s=time.time())
    if isinstance(answer, Exception):
        raise answer
    values = dict(answer.values)
    next_ms = values.get("next_ms")
    return Step(
        verb, ref, int(values.get("moved", 0) or 0), next_ms if isinstance(next_ms, int) else None, values, time.time()
    )
