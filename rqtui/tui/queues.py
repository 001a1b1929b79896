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
NARROW = 110  # cells of a terminal; below it numbers are short, so that the verdict can be read
_SHORT = {State.SCHEDULED: "sched", State.RESERVED: "resvd"}
_DROP = {State.SCHEDULED: 3, State.READY: 0, State.RESERVED: 2, State.DONE: 6, State.DEAD: 1}


def columns(is_narrow: bool) -> tuple[Column, ...]:
    """The columns of the overview; the cells are the same in both."""
    numbers = (
        Column(
            state,
            _SHORT.get(state, state) if is_narrow else state,
            6 if is_narrow else max(8, len(state)),
            align="right",
            drop=_DROP[state],
        )
        for state in State
    )
    return (
        Column("queue", "queue", 12, weight=2, style="strong"),
        Column("layout", "system", 12, drop=8, style="muted"),
        *numbers,
        Column("share", "share", SHARE, drop=7),
        Column("rate", "out", 6, align="right", drop=5),
        Column("spark", "trend", SPARK, drop=9, style="muted"),
        Column("oldest", "oldest", 6, align="right", drop=4, style="muted"),
        Column("verdict", "verdict", 24, weight=5),
    )


def row(ref: Ref, queue: Queue | None, rate: Rate | None, is_narrow: bool) -> Row:
    """The line of a queue; one that was not counted yet says so."""
    name = display.safe(ref.queue)
    if queue is None:
        blank = [""] * (len(State) + 4)
        return Row(str(ref), (name, ref.layout, *blank, Piece("not counted yet", "muted")))
    known = rate or Rate()
    cells: tuple[Cell, ...] = (
        name,
        ref.layout,
        *(_count(queue, state, 6 if is_narrow else 8) for state in State),
        _share(queue),
        Piece(display.rate(known.out_s), "muted" if not known.out_s else ""),
        display.sparkline(known.history[-SPARK:], SPARK) if any(known.history) else "",
        display.age(queue.oldest_ready_ms),
        verdict(queue),
    )
    return Row(str(ref), cells)


def verdict(queue: Queue) -> tuple[Piece, ...]:
    """A dot in the hue of its severity, and the sentence."""
    said = Piece(display.safe(queue.verdict.text), "" if queue.findings else "muted")
    return Piece("● ", _SEVERITY[queue.verdict.severity]), said


def sort_key(sort: str, ref: Ref, queue: Queue | None) -> tuple[object, ...]:
    """Where a queue stands under the sort of that name."""
    if queue is None:
        return (9, 0, ref.queue)
    if sort in ("ready", "dead"):
        return (0, -queue.count_in(State(sort)), ref.queue)
    if sort == "worst first":
        return (_ORDER[queue.verdict.severity], 0, ref.queue)
    return (0, 0, ref.queue)


def _count(queue: Queue, state: State, width: int) -> Cell:
    counts = [count for count in queue.counts if count.state is state]
    if not counts:
        return Piece("", "muted")
    number = sum(count.count for count in counts)
    text = display.count(number, all(count.exact for count in counts), width)
    return Piece(text, f"state-{state}" if number else "muted")


def _share(queue: Queue) -> Cell:
    parts = display.share_bar([(c.state, c.count) for c in queue.counts if c.state is not State.DONE], SHARE)
    return tuple(Piece(text, f"state-{state}") for state, text in parts)
