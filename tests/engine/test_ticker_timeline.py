"""What the ticker does when, by a simulated clock: `ticker_timeline.txt` has every request and every event.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/engine/test_ticker_timeline.py` writes the text; review the difference as code.
All durations are whole 1024ths of a second, so that sums of them are exact.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.engine import ticker as ticker_module
from rqtui.engine.ticker import (
    CallFinished,
    ChangeProgressed,
    EngineCreated,
    RefreshFailed,
    ServerLost,
    SnapshotTaken,
    Ticker,
    TickerEvent,
)
from rqtui.errors import Unreachable, UsageError
from rqtui.model import Cost, Finding, Focus, Job, Outcome, Ref, Snapshot, State

KEPT = Path(__file__).with_name("ticker_timeline.txt")
START_S = 1_024.0
MAIL, SMS = Ref("native", "mail"), Ref("native", "sms")
JOBS = tuple(Job(id, "mail", "native", "ready", State.READY, id) for id in (b"a", b"b"))
AWAY = Unreachable("nobody listens")


@dataclass
class Plan:
    """What happens in one simulated run. The last value of each sequence repeats."""

    interval_s: float = 2.0
    end_s: float = 10.0
    snapshots: Sequence[float | Exception] = (15.625,)  # how long a snapshot takes (ms), or its error
    discoveries: Sequence[Sequence[float]] = ((0.0078125,),)  # how long each step takes (s)
    found: Sequence[tuple[Ref, ...]] = ((MAIL,),)  # the queues that each discovery finds
    pings: Sequence[float] = (0.0009765625,)  # how long a ping takes (s)
    checks: Sequence[Sequence[Finding]] = ((),)  # what each check of the server finds
    builds: Sequence[Exception | None] = (None,)  # whether the engine can be created
    steps: Sequence[Sequence[object] | Exception] = (("sent",),)  # the outcomes of each step of a change
    is_listening: bool = False
    has_meter: bool = True
    actions: Sequence[tuple[float, Callable[[Ticker], object]]] = ()  # (time in s, what the screen does then)


@dataclass
class Run:
    """A simulated clock, engine and inbox, and the lines that describe what happened."""

    plan: Plan
    now_s: float = START_S
    lines: list[str] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    refs: tuple[Ref, ...] = ()
    commands: int = 0
    inbox: list[Any] = field(default_factory=list)
    actions: list[tuple[float, Callable[[Ticker], object]]] = field(default_factory=list)
    is_stopped: bool = False

    def __post_init__(self) -> None:
        self.is_listening = self.plan.is_listening
        self.actions = [*self.plan.actions, (self.plan.end_s, Ticker.stop)]
        meter = SimpleNamespace(compute_total_cost=lambda: Cost(self.commands, self.commands, 0.5 * self.commands))
        metered = SimpleNamespace(**({"meter": meter} if self.plan.has_meter else {}))
        self.client = SimpleNamespace(connection_pool=SimpleNamespace(connection_class=metered))
        self.ticker = Ticker(self.build_engine, self.post, self.plan.interval_s)
        simulated: Any = self.ticker
        simulated._inbox = simulated._stop = self

    def note(self, text: str) -> None:
        self.lines.append(f"{self.format_time(self.now_s)}: {text}")

    def format_time(self, at_s: float) -> str:
        return f"{round(at_s - START_S, 3):g}"

    def next_of(self, name: str) -> Any:
        values = getattr(self.plan, name)
        at = self.taken[name] = self.taken.get(name, -1) + 1
        return values[min(at, len(values) - 1)]

    def spend(self, seconds: float, commands: int = 1) -> None:
        self.now_s, self.commands = self.now_s + seconds, self.commands + commands

    # the clock

    def monotonic(self) -> float:
        return self.now_s

    # the inbox and the event that stops the thread

    def put(self, request: Any) -> None:
        self.inbox.append(request)

    def get(self, timeout: float) -> Any:
        end_s = self.now_s + timeout
        if not self.inbox and self.actions and START_S + self.actions[0][0] < end_s:
            self.now_s = max(self.now_s, START_S + self.actions[0][0])
        elif not self.inbox:
            self.now_s = end_s
        return self.get_nowait()

    def get_nowait(self) -> Any:
        while self.actions and START_S + self.actions[0][0] <= self.now_s:
            self.actions.pop(0)[1](self.ticker)
        if not self.inbox:
            raise queue.Empty
        return self.inbox.pop(0)

    def set(self) -> None:
        self.is_stopped = True

    def is_set(self) -> bool:
        return self.is_stopped

    def wait(self, timeout: float) -> bool:
        self.now_s += timeout
        return self.is_stopped

    # the engine

    def build_engine(self) -> Any:
        if error := self.next_of("builds"):
            raise error
        return self

    def start_listening(self) -> None:
        self.note("listen")

    def stop_listening(self) -> None:
        self.note("stop listening")

    def deliver_events(self) -> None:
        if self.is_listening:
            self.note("deliver events")

    def discover(self, is_full: bool, max_keys: int | None) -> Iterator[int]:
        found = self.next_of("found")
        self.note(f"discovery{' of all keys' if is_full else ''} {max_keys}")
        for number, seconds in enumerate(self.next_of("discoveries")):
            if number:
                yield number
            self.spend(seconds, 10)
        if found != self.refs:
            self.note(f"found {' '.join(map(str, found))}")
            self.refs = found

    def take_snapshot(self, focus: Focus) -> Snapshot:
        ms = self.next_of("snapshots")
        if isinstance(ms, Exception):
            raise ms
        self.spend(ms / 1000, 2)
        return Snapshot(0, cost=Cost(2, 1, ms))

    def check_server(self) -> Sequence[Finding]:
        self.note("check the server")
        self.spend(0.0)
        return self.next_of("checks")  # type: ignore[no-any-return]

    def ping(self) -> None:
        self.note("ping")
        self.spend(self.next_of("pings"))

    def yield_verb_steps(self, verb: str, ref: Ref, jobs: Sequence[Job], form: dict[str, object]) -> Iterator[Any]:
        self.note(f"{verb} {ref} {b''.join(job.id for job in jobs).decode()} {form}")
        if verb == "unknown":
            raise UsageError("no such verb")
        return self.yield_outcomes(verb)

    def apply_verb_to_place(self, verb: str, ref: Ref, place: str, form: dict[str, object]) -> Iterator[Any]:
        self.note(f"{verb} {ref} place {place} {form}")
        return self.yield_outcomes(verb)

    def yield_outcomes(self, verb: str) -> Iterator[list[Outcome]]:
        try:
            for outcomes in self.plan.steps:
                self.spend(0.125)
                if isinstance(outcomes, Exception):
                    raise outcomes
                yield [Outcome(verb, b"a", str(word), "") for word in outcomes]
        finally:
            self.note(f"{verb} ends")

    # the events

    def post(self, event: TickerEvent) -> None:
        if isinstance(event, EngineCreated):
            self.note("engine created")
        elif isinstance(event, SnapshotTaken):
            cost = event.snapshot.interval_cost
            wait_s, rtt_ms = self.ticker.wait_s, event.snapshot.cost.rtt_ms
            assert cost is None or rtt_ms == cost.rtt_ms
            commands = "unknown" if cost is None else cost.commands
            queues = "" if event.focus.queues is None else f" of {' '.join(map(str, event.focus.queues))}"
            self.note(f"snapshot{queues}, next in {wait_s:g}, round trip {rtt_ms:.3f} ms, {commands} commands")
        elif isinstance(event, ServerLost | RefreshFailed):
            since, following = self.format_time(event.since_s), self.format_time(event.next_s)
            self.note(f"{type(event).__name__}: {event.error}, since {since}, next {following}")
        elif isinstance(event, ChangeProgressed):
            words = " ".join(f"{one.id.decode()} {one.word} ({one.text})" for one in event.outcomes)
            end = "last" if event.is_last else "not last"
            self.note(f"change {event.request_id} {event.verb} of {event.total}: {words}, {end} {event.error}")
        elif isinstance(event, CallFinished):
            end = "last" if event.is_last else "not last"
            self.note(f"call {event.request_id}: {event.result}, {end} {event.error}")


def count_to(run_s: float, *numbers: int) -> Callable[[Any], Iterator[int]]:
    """Return a stepped call whose steps take some seconds and give these numbers."""

    def count(engine: Run) -> Iterator[int]:
        try:
            for number in numbers:
                engine.spend(run_s)
                yield number
        finally:
            engine.note(f"steps of {run_s:g} s end")

    return count


def fail(error: Exception) -> Callable[[Any], Any]:
    def raise_error(_engine: Any) -> Any:
        raise error

    return raise_error


def fail_at_step(error: Exception) -> Callable[[Any], Iterator[int]]:
    def count(_engine: Any) -> Iterator[int]:
        yield 1
        raise error

    return count


FINDING = Finding("memory", "critical", "", "full")
EVERYTHING: Sequence[tuple[float, Callable[[Ticker], object]]] = (
    (2.0, lambda ticker: ticker.request_change("kill", MAIL, JOBS, {"reason": "x"})),
    (2.0, lambda ticker: ticker.request_place_change("purge", MAIL, "dead")),
    (2.0, lambda ticker: ticker.start_stepped_call(count_to(0.25, 1, 2))),
    (2.0, lambda ticker: ticker.start_stepped_call(count_to(0.125, 3))),
    (2.0, lambda ticker: ticker.request_call(lambda engine: engine.now_s - START_S)),
)
PLANS = {
    "a minute without requests": Plan(interval_s=4.0, end_s=64.0),
    "the server has a problem": Plan(interval_s=1.0, end_s=13.0, checks=((), (FINDING,), (FINDING,), ())),
    "a problem that ends": Plan(interval_s=4.0, end_s=29.0, checks=((FINDING,), ())),
    "discoveries take longer and longer": Plan(
        interval_s=0.5,
        end_s=70.0,
        discoveries=((0.0,), (0.0205078125,), (0.01171875, 0.0234375), (0.125,), (1.0, 1.0), (0.0,)),
        found=((MAIL,), (MAIL,), (MAIL, SMS)),
    ),
    "a rest after a discovery that ends just before a snapshot": Plan(
        interval_s=0.5, end_s=7.0, discoveries=((0.0247,), (0.0,))
    ),
    "a check of the server when it is due": Plan(
        interval_s=15.0, end_s=31.0, snapshots=(0.0,), discoveries=((0.0,),), pings=(0.0,)
    ),
    "a discovery and pings when they are due": Plan(
        interval_s=29.0, end_s=60.0, snapshots=(0.0,), discoveries=((1.0,),), pings=(0.0,)
    ),
    "commands are not counted": Plan(end_s=3.0, has_meter=False),
    "a change that is requested as the ticker stops": Plan(
        end_s=3.0, actions=((3.0, lambda ticker: ticker.request_change("kill", MAIL, JOBS)),)
    ),
    "discoveries that find no queue": Plan(interval_s=2.0, end_s=16.0, found=((),), discoveries=((0.25, 0.25),)),
    **{
        f"a first discovery of {len(steps)} steps of {steps[0]:g} s": Plan(end_s=4.0, discoveries=(steps, (0.0,)))
        for steps in ((0.5,), (0.25, 0.25), (0.25, 0.25, 0.25), (0.5625, 0.25), (0.125,) * 9)
    },
    "snapshots take longer and longer, then less": Plan(
        interval_s=1.0, end_s=60.0, snapshots=(4_000, 62.5, 100, 109.375, 125, 250, 1_000, 2_000, 2_000, 500, 125, 1)
    ),
    "the screen is hidden and shown": Plan(
        interval_s=1.0,
        end_s=24.0,
        actions=(
            (2.5, lambda ticker: ticker.set_resting(False)),
            (3.25, lambda ticker: ticker.set_resting(True)),
            (4.5, lambda ticker: ticker.set_resting(True)),
            (19.0, lambda ticker: ticker.set_resting(False)),
        ),
    ),
    "another focus, at once and with the next snapshot": Plan(
        interval_s=4.0,
        end_s=15.0,
        actions=(
            (1.0, lambda ticker: ticker.set_focus(Focus((MAIL,)))),
            (2.0, lambda ticker: ticker.set_next_focus(Focus((SMS,)))),
            (6.0, lambda ticker: ticker.request_refresh()),
            (6.0, lambda ticker: ticker.request_refresh()),
        ),
    ),
    "a discovery of all keys is requested": Plan(
        interval_s=4.0,
        end_s=44.0,
        discoveries=((0.0,), (0.0625, 0.0625)),
        actions=((1.0, Ticker.request_discovery),),
    ),
    "events of Pub/Sub are delivered": Plan(interval_s=2.5, end_s=6.0, is_listening=True),
    "two changes, two stepped calls and a call": Plan(end_s=5.0, steps=(("sent",), ()), actions=EVERYTHING),
    "changes and stepped calls are cancelled": Plan(
        end_s=5.0,
        steps=((1,), (2,), (3,), (4,), (5,)),
        actions=(
            (2.0, lambda ticker: ticker.request_change("kill", MAIL, JOBS)),
            (2.0, lambda ticker: ticker.request_change("kick", MAIL, JOBS[:1])),
            (2.0, lambda ticker: ticker.start_stepped_call(count_to(0.125, *range(9)))),
            (2.0, lambda ticker: ticker.start_stepped_call(count_to(0.125, *range(9)))),
            (2.5, lambda ticker: ticker.cancel_stepped_call(3)),
            (2.5, lambda ticker: ticker.cancel_stepped_call(99)),
            (3.0, Ticker.cancel_changes),
        ),
    ),
    "changes and calls that are refused": Plan(
        end_s=5.0,
        steps=((1,), UsageError("no such job")),
        actions=(
            (1.0, lambda ticker: ticker.request_change("unknown", MAIL, JOBS)),
            (2.0, lambda ticker: ticker.request_change("kill", MAIL, JOBS)),
            (2.0, lambda ticker: ticker.request_change("kick", MAIL, JOBS)),
            (2.0, lambda ticker: ticker.request_call(fail(UsageError("no")))),
            (2.0, lambda ticker: ticker.start_stepped_call(fail(UsageError("never")))),
            (2.0, lambda ticker: ticker.start_stepped_call(fail_at_step(UsageError("no more")))),
        ),
    ),
    "Redis is away from the start": Plan(end_s=70.0, snapshots=(*[AWAY] * 9, 15.625)),
    "Redis is away for a while": Plan(
        end_s=18.0,
        snapshots=(15.625, 15.625, AWAY, AWAY, AWAY, 15.625, 15.625, AWAY, 15.625),
        steps=((1,), (2,), (3,)),
        actions=(
            (3.875, lambda ticker: ticker.request_change("kill", MAIL, JOBS)),
            (3.875, lambda ticker: ticker.start_stepped_call(count_to(0.125, *range(9)))),
            *[(at_s + 2.5, action) for at_s, action in EVERYTHING],
        ),
    ),
    "Redis is lost by a step of a call": Plan(
        end_s=5.0, actions=((2.5, lambda ticker: ticker.start_stepped_call(fail_at_step(AWAY))),)
    ),
    "snapshots fail although Redis replies": Plan(
        end_s=16.0,
        snapshots=(15.625, *[UsageError("a wrong reply")] * 2, 15.625, AWAY, UsageError("odd"), 1),
        actions=((5.0, lambda ticker: ticker.request_change("kill", MAIL, JOBS)),),
    ),
    "the engine cannot be created at first": Plan(
        end_s=10.0, builds=(UsageError("no such system"), UsageError("no such system"), None)
    ),
}  # fmt: skip


def build_timeline(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for title, plan in PLANS.items():
        run = Run(plan)
        monkeypatch.setattr(ticker_module, "time", run)
        run.ticker._run()
        yield f"== {title}"
        yield from join_equal_lines(run.lines)


def join_equal_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first of several lines that differ only in their time, and when the last one was."""
    for text, group in groupby(lines, lambda line: line.partition(": ")[2]):
        first, *others = [line.partition(": ")[0] for line in group]
        again = f" (and {len(others)} more until {others[-1]})" if others else ""
        yield f"{first}: {text}{again}"


def test_the_ticker_does_everything_at_the_times_of_the_stored_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_lines_match_file(build_timeline(monkeypatch), KEPT)


@pytest.mark.parametrize(
    ("pings_ms", "shortest_ms", "sent"),
    [
        ((25.0, 1.0), 25.0, 1),
        ((20.0, 1.0), 20.0, 1),
        ((19.5, 21.0, 18.0, 1.0), 18.0, 3),
        ((5.0, 7.0, 9.0, 1.0), 5.0, 3),
    ],
)
def test_a_round_trip_is_the_shortest_of_three_pings_or_the_first_if_it_takes_20_ms(
    pings_ms: tuple[float, ...], shortest_ms: float, sent: int
) -> None:
    pings = iter(pings_ms)
    state: Any = SimpleNamespace(_measure_ping_ms=lambda: next(pings))
    assert Ticker._measure_round_trip_ms(state) == shortest_ms
    assert len([*pings]) == len(pings_ms) - sent
