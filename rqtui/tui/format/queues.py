"""Queues as rows of the overview: which columns there are at which width, and what stands in each.

Pure functions from counted queues to cells. A group of queues is shown by the same row, made of their sum
(`tui/format/groups.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from rqtui.engine import urgency
from rqtui.model import Queue, Rate, Ref, State
from rqtui.text import elision, formats
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row

HUES = {"ok": "state-ready", "warning": "state-reserved", "critical": "state-dead", "unknown": "muted"}
SORTS = ("worst first", "name", "ready", "dead", "oldest", "out")
SHARE, BAR, LONG_BAR = 12, 30, 44  # cells: a thin line, and bars with the counts in them
SPARK, SHORT_SPARK = 10, 5
NAME, SHORT_NAME = 15, 9  # cells that a queue's name has at least
LONG_NAME, NARROW_LONG_NAME = 28, 20  # cells of a long one, before other columns give their room away
WHOLE_NAME = 24  # cells; where all names are longer together, what all of them begin with is left out
NARROW = 110  # cells of a terminal; below it numbers are short, so that the verdict can be read
WITH_SYSTEMS = 150  # cells; from there on the column of systems has room beside all others
_BARS = ((220, LONG_BAR), (176, BAR))  # from how many cells of a terminal on there is room for which
_SYSTEM = 14  # cells that the column of systems takes; without it there is room for other things
_SHORT = {State.SCHEDULED: "sched", State.RESERVED: "resvd"}
_NARROW_CELLS = {**dict.fromkeys(State, 5), State.READY: 6, State.DEAD: 6}  # 99 999 of what there may be many of
_NARROW_DROPS = {"rate": 4, "spark": 5, "oldest": 6, "workers": 7, "share": 9}  # how it moves goes before the rest
_WIDE_DROPS = {"oldest": 4, "rate": 5, "workers": 6, "share": 7, "spark": 10}
_DROP = {State.SCHEDULED: 3, State.READY: 0, State.RESERVED: 2, State.DONE: 8, State.DEAD: 1}


class Shape(NamedTuple):
    """What decides about the columns: short numbers, one system for all, how wide the bar of states is, and a name: at
    least `name` cells, and `most` for the longest."""

    is_narrow: bool = False
    is_one_system: bool = False
    bar: int = SHARE
    name: int = NAME
    most: int = NAME
    labels: frozenset[str] = frozenset()  # the names, to tell them apart where they are cut


class Since(NamedTuple):
    """What came and went since the rows stand still."""

    came: int = 0
    went: int = 0


def shape(width: int, refs: Collection[Ref], labels: frozenset[str] = frozenset(), longest: int = 0) -> Shape:
    """The columns for a terminal of `width` cells and these queues; `labels` are what is shown of their names, the
    `longest` of which needs so many cells with what stands before it."""
    is_one = len({ref.layout for ref in refs}) < 2
    room = width + (_SYSTEM if is_one else 0)
    bar = next((bar for least, bar in _BARS if room >= least), SHARE)
    least = max(SHORT_NAME, min(longest, NARROW_LONG_NAME)) if width < NARROW else max(NAME, min(longest, LONG_NAME))
    return Shape(width < NARROW, is_one, bar, least, max(longest, least), labels)


def columns(shape: Shape) -> tuple[Column, ...]:
    """The columns of the overview; that of the systems only where there are several."""
    numbers = (
        Column(
            state,
            _SHORT.get(state, state) if shape.is_narrow else state,
            _NARROW_CELLS[state] if shape.is_narrow else max(7, len(state)),
            align="right",
            drop=_DROP[state],
        )
        for state in State
    )
    drops = _NARROW_DROPS if shape.is_narrow else _WIDE_DROPS
    return (
        Column(
            "queue", "queue", shape.name, weight=5, style="strong", most=shape.most, fit=elision.among(shape.labels)
        ),
        *(() if shape.is_one_system else (Column("layout", "system", 12, drop=9, style="muted"),)),
        *numbers,
        Column("share", "states" if shape.bar > SHARE else "share", shape.bar, drop=drops["share"]),
        Column("rate", "out", 6, align="right", drop=drops["rate"]),
        Column("spark", "trend", _spark(shape), drop=drops["spark"], style="muted"),
        Column("oldest", "oldest", 6, align="right", drop=drops["oldest"], style="muted"),
        Column("workers", *(("wrk", 3) if shape.is_narrow else ("workers", 7)), align="right", drop=drops["workers"]),
        Column("verdict", "verdict", max(13, 28 - shape.name) if shape.is_narrow else 24, weight=5),
    )


def _spark(shape: Shape) -> int:
    return SHORT_SPARK if shape.is_narrow else SPARK


def line(
    id: str,
    label: Cell,
    system: str,
    queue: Queue | None,
    rate: Rate | None,
    shape: Shape,
    since: Since | None = None,
    now_ms: int = 0,
) -> Row:
    """The line of a queue, or of a group of them as if it were one; `since`: what changed while the rows stand."""
    named = (label,) if shape.is_one_system else (label, system)
    if queue is None:
        unseen = [Piece(formats.NOT_YET, "muted")] * (len(State) + 5)
        return Row(id, (*named, *unseen, Piece("not counted yet", "muted")))
    numbers = _numbers(queue)
    cells: tuple[Cell, ...] = (
        *named,
        *(_count(state, *numbers[state], 5 if shape.is_narrow else 7) for state in State),
        _states(
            [(state, number or 0) for state, (number, _is_exact) in numbers.items()],
            shape.bar,
            {state for state, (_number, is_exact) in numbers.items() if not is_exact},
        ),
        _rate(queue, rate),
        formats.sparkline(rate.history[-_spark(shape) :], _spark(shape)) if rate and any(rate.history) else "",
        _oldest(queue),
        _workers(queue),
        (*changes(since), *verdict(queue, now_ms)),
    )
    return Row(id, cells)


def facts(queue: Queue | None, rate: Rate | None) -> tuple[object, ...]:
    """All of a queue that its line shows: while it is the same, so is the line."""
    if queue is None:
        return ()
    known = rate or Rate()
    trend = known.history[-SPARK:] if any(known.history) else ()
    return queue.counts, queue.workers, queue.verdict, formats.age(queue.oldest_ready_ms), known.out_s, trend


def time_left(queue: Queue | None, now_ms: int) -> str:
    """`41s left` of the worst finding; empty where it has no end."""
    return formats.left(queue.verdict.until_ms, now_ms) if queue else ""


def verdict(queue: Queue, now_ms: int = 0) -> tuple[Piece, ...]:
    """A dot in the hue of its severity, how long it can be mended, and the sentence."""
    words = queue.verdict.text
    helps = (queue.findings[0].remedy or queue.findings[0].key) if queue.findings else ""
    if helps and words.endswith(helps):  # the rest may hold what others wrote
        words = words.removesuffix(helps) + keys.renamed(helps)
    said = Piece(safe(words), "" if queue.findings else "muted")
    hue, left = HUES[queue.verdict.severity], time_left(queue, now_ms)
    return Piece("● ", hue), *([Piece(f"{left}  ", hue)] if left else []), said


def changes(since: Since | None) -> tuple[Piece, ...]:
    """`+312 −290`, and nothing where nothing changed."""
    if since is None or not any(since):
        return ()
    parts = [f"{sign}{formats.short_count(n)}" for sign, n in (("+", since.came), ("−", since.went)) if n]
    return (Piece(" ".join(parts) + "  ", "accented"),)


def changed(before: Queue, now: Queue) -> Since:
    """What came and went between two counts; of a system that does not count it, how many more or fewer there are."""
    if {"in", "out"} <= set(now.counters):
        came, went = (max(0, now.counters[name] - before.counters.get(name, 0)) for name in ("in", "out"))
        return Since(came, went)
    more = sum(count.count for count in now.counts) - sum(count.count for count in before.counts)
    return Since(max(0, more), max(0, -more))


def sort_key(sort: str, name: str, queue: Queue | None, rate: Rate | None = None) -> tuple[object, ...]:
    """Where a queue stands under the sort of that name."""
    if queue is None:
        return (9, 0, name)
    if sort in ("ready", "dead"):
        return (0, -queue.count_in(State(sort)), name)
    if sort == "oldest":
        return (0, -(queue.oldest_ready_ms or 0), name)
    if sort == "out":
        return (0, -(rate or Rate()).out_s, name)
    if sort == "worst first":
        return (0, -urgency.step(queue), name)
    return (0, 0, name)


def _numbers(queue: Queue) -> dict[State, tuple[int | None, bool]]:
    """By state how many jobs, None where its system keeps none of it, and whether all of them were counted."""
    made: dict[State, tuple[int | None, bool]] = dict.fromkeys(State, (None, True))
    for count in queue.counts:
        if not count.is_known:
            continue
        number, is_exact = made[count.state]
        made[count.state] = ((number or 0) + count.count, is_exact and count.exact)
    return made


def _count(state: State, number: int | None, is_exact: bool, width: int) -> Cell:
    if number is None:
        return Piece(formats.UNKNOWN, "muted")
    return Piece(formats.count(number, is_exact, width), f"state-{state}" if number else "muted")


def _rate(queue: Queue, rate: Rate | None) -> Cell:
    if rate is None:
        return Piece(formats.NOT_YET, "muted")  # a rate needs two looks
    if not rate.out_s:
        return Piece(formats.ZERO if "out" in queue.counters else formats.UNKNOWN, "muted")
    return formats.rate(rate.out_s)


def _oldest(queue: Queue) -> Cell:
    if queue.oldest_ready_ms is None and queue.count_in(State.READY):
        return Piece(formats.UNKNOWN, "muted")
    return formats.age(queue.oldest_ready_ms)


class Signs(NamedTuple):
    """What stands in a row beside numbers: it has gaps where its system keeps nothing, or counts of a sample."""

    has_gaps: bool
    is_sampled: bool


def signs(queue: Queue) -> Signs:
    """The signs in the row of a queue."""
    known = [count for count in queue.counts if count.is_known]
    return Signs(len({count.state for count in known}) < len(State), any(not count.exact for count in known))


def legend(shown: Collection[Signs], *, is_all: bool) -> str:
    """What the signs in the rows mean, where there are others than that of none; not `is_all`: some are not counted."""
    words = [f"{formats.UNKNOWN} the system keeps no such thing"] if any(each.has_gaps for each in shown) else []
    words += [f"{formats.ABOUT} sampled"] if any(each.is_sampled for each in shown) else []
    words += [] if is_all else [f"{formats.NOT_YET} not counted yet"]
    return "     ".join([f"{formats.ZERO} none", *words]) if words else ""


def _workers(queue: Queue) -> Cell:
    if queue.workers is None:
        return Piece(formats.UNKNOWN, "muted")
    return Piece(str(queue.workers) if queue.workers else formats.ZERO, "" if queue.workers else "muted")


def _states(numbers: Sequence[tuple[State, int]], width: int, sampled: Collection[State] = ()) -> Cell:
    """The shares of the states as one thin line; where there is room, as a bar with the counts in it."""
    if width > SHARE:
        return tuple(Piece(text, f"state-{state}") for state, text in bar(numbers, width, sampled))
    parts = formats.share_bar([(state, number) for state, number in numbers if state is not State.DONE], width)
    return tuple(Piece(text, f"state-{state}") for state, text in parts)


def bar(numbers: Sequence[tuple[State, int]], width: int, sampled: Collection[State] = ()) -> list[tuple[State, str]]:
    """Parts of `width` cells together, `12 ━━━━━ 3 ━━`, in proportion as far as every count has room.

    Each begins with its count and ends with a blank, so that they stand apart without colours too.
    """
    present = [
        (state, number, formats.short_count(number, state not in sampled)) for state, number in numbers if number > 0
    ]
    total = sum(number for _state, number, _text in present)
    least = [len(text) + 3 for _state, _number, text in present]
    if sum(least) > width or not present:
        return formats.share_bar(numbers, width)
    cells = [max(low, width * number // total) for low, (_state, number, _text) in zip(least, present, strict=True)]
    while sum(cells) != width:  # the part with the most to give gives, or takes what is left over
        at = max(range(len(cells)), key=lambda at: cells[at] - least[at])
        cells[at] += 1 if sum(cells) < width else -1
    return [
        (state, f"{text} {'━' * (size - len(text) - 2)} ")
        for (state, _number, text), size in zip(present, cells, strict=True)
    ]
