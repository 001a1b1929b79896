"""Queues as rows of the overview."""

from __future__ import annotations

from rqtui.model import Queue, Rate, Ref, State
from rqtui.tui import display
from rqtui.tui.rows import Cell, Column, Piece, Row

_SEVERITY = {"ok": "state-ready", "warning": "state-reserved", "critical": "state-dead", "unknown": "muted"}
_ORDER = {"critical": 0, "warning": 1, "unknown": 2, "ok": 3}
SORTS = ("worst first", "name", "ready", "dead")
SHARE = 12
SPARK = 10


def _number(state: State, drop: int) -> Column:
    return Column(state, state, 9 if state is State.SCHEDULED else 8, align="right", drop=drop)


COLUMNS: tuple[Column, ...] = (
    Column("queue", "queue", 12, weight=2, style="strong"),
    Column("layout", "system", 8, drop=8, style="muted"),
    _number(State.SCHEDULED, 3),
    _number(State.READY, 0),
    _number(State.RESERVED, 2),
    _number(State.DONE, 6),
    _number(State.DEAD, 1),
    Column("share", "share", SHARE, drop=7),
    Column("rate", "out", 6, align="right", drop=5),
    Column("spark", "trend", SPARK, drop=9, style="muted"),
    Column("oldest", "oldest", 6, align="right", drop=4, style="muted"),
    Column("verdict", "verdict", 14, weight=3),
)


def row(ref: Ref, queue: Queue | None, rate: Rate | None) -> Row:
    """The line of a queue; one that was not counted yet says so."""
    if queue is None:
        return Row(
            str(ref),
            (display.safe(ref.queue), ref.layout, *[""] * (len(COLUMNS) - 3), Piece("not counted yet", "muted")),
        )
    known = rate or Rate()
    cells: tuple[Cell, ...] = (
        display.safe(ref.queue),
        ref.layout,
        *(_count(queue, state) for state in State),
        _share(queue),
        Piece(display.rate(known.out_s), "muted" if not known.out_s else ""),
        display.sparkline(known.history[-SPARK:], SPARK) if any(known.history) else "",
        display.age(queue.oldest_ready_ms),
        (
            Piece("● ", _SEVERITY[queue.verdict.severity]),
            Piece(display.safe(queue.verdict.text), "" if queue.findings else "muted"),
        ),
    )
    return Row(str(ref), cells)


def sort_key(sort: str, ref: Ref, queue: Queue | None) -> tuple[object, ...]:
    """Where a queue stands under the sort of that name."""
    if queue is None:
        return (9, 0, ref.queue)
    if sort in ("ready", "dead"):
        return (0, -queue.count(sort), ref.queue)
    if sort == "worst first":
        return (_ORDER[queue.verdict.severity], 0, ref.queue)
    return (0, 0, ref.queue)


def _count(queue: Queue, state: State) -> Cell:
    counts = [count for count in queue.counts if count.state is state]
    if not counts:
        return Piece("", "muted")
    number = sum(count.count for count in counts)
    text = display.count(number, all(count.exact for count in counts), 7)
    return Piece(text, f"state-{state}" if number else "muted")


def _share(queue: Queue) -> Cell:
    parts = display.share_bar([(c.state, c.count) for c in queue.counts if c.state is not State.DONE], SHARE)
    return tuple(Piece(text, f"state-{state}") for state, text in parts)
