"""Which queues a loop calls, with what batch, and how long it waits, by a simulated clock: see `loops_at_bounds.txt`.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/engine/test_loops_at_bounds.py` writes the text; review the difference as code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept_text import assert_lines_match_file

from rqtui.engine import loops
from rqtui.engine.due_times import DuePoll
from rqtui.engine.loops import Round, ScriptStep, build_round
from rqtui.errors import Refused, UsageError
from rqtui.model import Ref

KEPT = Path(__file__).with_name("loops_at_bounds.txt")
START_S = 1_024.0
Values = Mapping[str, Any]


class Server:
    """A server whose replies, delays and clock are given, and the systems of its queues."""

    def __init__(self, reply: Callable[[str, int], Values | Exception], ms: Callable[[int], float]) -> None:
        self.now_s, self.round = START_S, 0
        self.reply, self.ms = reply, ms

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        """Answer the command TIME after 2 ms."""
        self.now_s += 0.001953125
        return 0.0

    def send_calls(self, _client: Any, calls: Sequence[str]) -> list[Any]:
        self.calls = [*calls]
        self.now_s += self.ms(self.round) / 1000
        found = [self.reply(call.partition(" ")[0], self.round) for call in calls]
        return [each if isinstance(each, Exception) else SimpleNamespace(values=each) for each in found]

    # the systems

    def can(self, _verb: str) -> bool:
        return True

    def build_call(self, _verb: str, queue: str, arguments: Values) -> str:
        if queue == "refused":
            raise UsageError("no such queue")
        return f"{queue} {dict(arguments)}"

    def select_arguments(self, _verb: str, values: Values) -> Values:
        return {name: value for name, value in values.items() if name in ("limit", "cursor")}


def batches() -> Iterator[str]:
    for batch in (50, 51, 99, 100, 101, 200, 666, 667, 1_000):
        for ms in (0.0, 1.9, 1.99, 2.0, 2.1, 4.0, 4.1):
            sizes = [loops._compute_next_batch(batch, ms, is_full) for is_full in (True, False)]
            yield f"{batch} in {ms} ms: {sizes}"
    for number in (0, 1, 19, 20, 21, 40, 5_999, 6_000, 6_001, 12_000):
        refs = [Ref("any", f"q{at}") for at in range(number)]
        turns = [(poll, len(loops._choose_upkeep_queues(refs, poll))) for poll in range(302)]
        chosen = [turn for turn in turns if turn[1]]
        first = [ref.queue for ref in loops._choose_upkeep_queues(refs, chosen[0][0] if chosen else 0)[:2]]
        yield f"upkeep of {number}: {len(chosen)} turns, {chosen[:2]} to {chosen[-2:]} {first}"


def steps() -> Iterator[str]:
    for values in (
        {},
        {"moved": 3},
        {"moved": None},
        {"next_ms": 0},
        {"next_ms": "soon"},
        {"next_ms": 5, "moved": "2"},
    ):
        step = loops._parse_script_step("dispatch", Ref("any", "a"), SimpleNamespace(values=values))  # type: ignore[arg-type]
        yield f"{values}: {step.moved} {step.next_ms} {step.error!r}"
    yield f"refused: {loops._parse_script_step('dispatch', Ref('any', 'a'), Refused('no')).error}"
    ref = Ref("any", "a")
    for rounds in (Round(), Round((ScriptStep("x", ref),)), Round((ScriptStep("x", ref, 1), ScriptStep("x", ref, 2)))):
        yield f"{rounds.moved} moved, idle {rounds.is_idle}"
    yield f"with errors: idle {Round(error='away').is_idle} {Round((ScriptStep('x', ref, error='no'),)).is_idle}"


def run_rounds(
    monkeypatch: pytest.MonkeyPatch,
    queues: Sequence[str],
    reply: Callable[[str, int], Values | Exception],
    *,
    rounds: int = 4,
    ms: Callable[[int], float] = lambda _round: 1.0,
    polls: Sequence[DuePoll] = (),
    **options: Any,
) -> Iterator[str]:
    server: Any = Server(reply, ms)
    monkeypatch.setattr(loops, "time", SimpleNamespace(monotonic=server.monotonic, time=lambda: 0.0))
    monkeypatch.setattr(loops.scripts, "send_calls", server.send_calls)
    refs = [Ref("any", queue) for queue in queues]
    if polls:
        options["due_times"] = SimpleNamespace(poll=lambda *_args: polls[min(server.round, len(polls) - 1)])
    work = build_round("dispatch", server, {"any": server}, lambda: refs, **options)
    for number in range(rounds):
        server.round = number
        result = work()
        errors = [step.error for step in result.steps if step.error]
        calls = " ".join(server.calls) if len(server.calls) < 5 else f"{server.calls[0]} … {len(server.calls)} calls"
        yield (
            f"{server.now_s - START_S:.4f}: {calls}; moved {result.moved}, {result.ms:.3f} ms, "
            f"next in {result.wait_s:.4f}, full {result.is_full}, batch {result.batch} {errors or ''}"
        )
        server.now_s += result.wait_s


def rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    def refs_of(*names: str) -> dict[Ref, None]:
        return dict.fromkeys(Ref("any", name) for name in names)

    def poll(after_s: float, *names: str, is_from_snapshot: bool = False, **due_s: float) -> DuePoll:
        due = {Ref("any", name): START_S + at_s for name, at_s in due_s.items()}
        return DuePoll(due, refs_of(*names), START_S + after_s, is_from_snapshot)

    many = [f"q{number}" for number in range(6)]
    thousand = [f"q{number}" for number in range(1_001)]
    cases: dict[str, Callable[[], Iterator[str]]] = {
        "nothing to do": lambda: run_rounds(monkeypatch, ["a"], lambda _queue, _round: {"next_ms": -1}),
        "no queues": lambda: run_rounds(monkeypatch, [], lambda _queue, _round: {}),
        "work in half a second": lambda: run_rounds(monkeypatch, ["a"], lambda _queue, _round: {"next_ms": 500}),
        "work now": lambda: run_rounds(monkeypatch, ["a"], lambda _queue, _round: {"next_ms": 0, "moved": 1}),
        "a full batch": lambda: run_rounds(
            monkeypatch, ["a"], lambda _queue, round: {"moved": (9, 10, 11, 0)[round]}, limit=10, max_wait_s=7
        ),
        "more to do": lambda: run_rounds(monkeypatch, ["a"], lambda _queue, _round: {"moved": 1, "more": 1}, limit=10),
        "batches that grow": lambda: run_rounds(monkeypatch, ["a"], lambda _queue, _round: {"moved": 999, "more": 1}),
        "batches of two busy queues": lambda: run_rounds(
            monkeypatch, ["a", "b", "c"], lambda queue, _round: {"moved": 999 * (queue != "c")}, ms=lambda _: 3.90625
        ),
        "batches of a busy and an idle queue": lambda: run_rounds(
            monkeypatch, ["a", "b"], lambda queue, _round: {"moved": 999 * (queue == "a")}, ms=lambda _: 3.0
        ),
        "batches that shrink": lambda: run_rounds(
            monkeypatch, ["a"], lambda _queue, _round: {"moved": 999}, ms=lambda round: 8.0 + round
        ),
        "a cursor": lambda: run_rounds(monkeypatch, ["a"], lambda _queue, round: {"cursor": round}, args={"cursor": 9}),
        "a refused queue": lambda: run_rounds(monkeypatch, ["a", "refused"], lambda _queue, _round: {}, rounds=1),
        "a queue with an error": lambda: run_rounds(monkeypatch, ["a"], lambda _queue, _round: Refused("no"), rounds=1),
        "as many as take turns": lambda: run_rounds(
            monkeypatch, many, lambda _queue, _round: {"next_ms": -1}, rounds=2, max_idle=6
        ),
        "more than take turns": lambda: run_rounds(
            monkeypatch, many, lambda _queue, _round: {"next_ms": -1}, rounds=6, max_idle=4
        ),
        "turns and work": lambda: run_rounds(
            monkeypatch,
            many,
            lambda queue, _round: {"q1": {"next_ms": 250}, "q2": {"moved": 1}}.get(queue, {"next_ms": -1}),
            rounds=8,
            max_idle=1,
        ),
        "turns and work that is due at once": lambda: run_rounds(
            monkeypatch, many, lambda queue, _round: {"next_ms": 0 if queue == "q0" else -1}, rounds=4, max_idle=1
        ),
        "turns and an urgent queue": lambda: run_rounds(
            monkeypatch, many, lambda _queue, _round: {}, rounds=3, max_idle=1, urgent_refs=lambda: [Ref("any", "q5")]
        ),
        "due times": lambda: run_rounds(
            monkeypatch,
            ["a", "b", "c"],
            lambda _queue, _round: {"next_ms": -1},
            polls=(
                poll(1.0, "a", "b", a=0.5),
                *[poll(2.0, "a", "b", b=1.5)] * 2,
                poll(9.0, "a", "b", is_from_snapshot=True),
            ),
            rounds=6,
            urgent_refs=lambda: [Ref("any", "c")],
        ),
        "due times of work that was done": lambda: run_rounds(
            monkeypatch,
            ["a", "b"],
            lambda queue, _round: {"next_ms": 250, "moved": 1} if queue == "a" else {"moved": 1},
            polls=(poll(9.0, "a", "b", a=0.0, b=0.0),),
            rounds=6,
        ),
        "due times that end": lambda: run_rounds(
            monkeypatch,
            ["a", "b"],
            lambda _queue, _round: {"next_ms": -1},
            polls=(poll(1.0, "a", a=0.0), None, poll(5.0, "a", a=3.0)),  # type: ignore[arg-type]
            rounds=3,
        ),
        **{
            f"the first round of {number}": lambda number=number: run_rounds(  # type: ignore[misc]
                monkeypatch,
                thousand[:number],
                lambda _queue, _round: {"next_ms": -1},
                polls=(poll(1.0, *thousand[:number]), poll(2.0, *thousand[:number])),
                rounds=3,
            )
            for number in (999, 1_000, 1_001)
        },
    }  # fmt: skip
    for title, run in cases.items():
        yield f"-- {title}"
        yield from run()


def test_loops_call_queues_as_the_stored_text_says(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"== {part.__name__}\n" + "\n".join(part()) for part in (batches, steps)]
    with monkeypatch.context() as patch:
        lines += ["== rounds", *rounds(patch)]
    assert_lines_match_file((line for part in lines for line in part.splitlines()), KEPT)
