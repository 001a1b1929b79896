"""Build the rows of the overview: which columns fit a width, and the cells of each queue.

The functions are pure, from counted queues to cells. A group of queues is shown as one row, built from their sum
(`tui/format/groups.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from rqtui.engine.health import urgency
from rqtui.model import Queue, Rate, Ref, State
from rqtui.text import elision, formats
from rqtui.text.pieces import Cell, Piece
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.format.rows import Column, Row

HUES = {"ok": "state-ready", "info": "muted", "warning": "state-reserved", "critical": "state-dead", "unknown": "muted"}
# What the narrow column of states says about the worst finding; other kinds are shown by their name.
_SHORT_STATES = {
    "failing": "{share} fail",
    "dead-many": "{jobs} dead",
    "dead-near-cap": "dead nearly full",
    "dead-grows": "{jobs} died",
    "silent-leases": "{jobs} held",
    "expired-not-reaped": "{jobs} expired",
    "due-not-dispatched": "{jobs} overdue",
    "no-live-worker": "no worker",
    "idle-workers": "workers idle",
    "oldest-ready": "jobs wait long",
    "backlog-grows": "queue grows",
    "lost-on-kill": "jobs lost",
    "eta-beyond-visibility": "run twice",
    "parent-of-failed": "parents wait",
    "parent-of-none": "no parent",
    "parent-free": "parents wait",
    "scheduler-stopped": "scheduler off",
    "interrupted": "ran twice",
    "nobody-polls": "no poller",
    "poller-behind": "poller late",
    "no-consumer": "no process",
    "undecodable": "bad bytes",
    "stale-process": "process died",
    "stale-intermediate": "jobs stranded",
    "scheduler-behind": "scheduler late",
    "worker-gone": "worker died",
    "silent-consumer": "worker silent",
    "unknown-consumer": "no such worker",
    "poison-properties": "bad message",
    "poison-json": "bad message",
    "orphan-done-mark": "stray done mark",
    "corrupt-record": "bad record",
    "held-by-limit": "held by limit",
    "foreign-restore": "runs again",
}
_BEFORE_REMEDY, _BEFORE_KEY = ": ", " · "  # between a verdict's problem and its fix
_TIME_LEFT = " left  "  # the end of the time left to act
SORTS = ("worst first", "name", "ready", "dead", "oldest", "out")
SHARE_CELLS, BAR_CELLS, LONG_BAR_CELLS = 12, 30, 44  # cells: a thin line, and bars that contain counts
SPARK_CELLS, SHORT_SPARK_CELLS = 10, 5
NAME_CELLS, SHORT_NAME_CELLS = 15, 9  # least cells of a queue's name
# Least cells of the verdicts on a wide terminal, and how many they get if they need them: trend and share are left out.
VERDICT_CELLS, LONG_VERDICT_CELLS = 36, 60
LONG_NAME_CELLS, NARROW_LONG_NAME_CELLS = 28, 20  # least cells of a long name, before other columns are dropped
WHOLE_NAME_CELLS = 24  # cells; if all names are longer, their common beginning is left out
NARROW_CELLS = 110  # cells of a terminal; narrower ones get short numbers, so that the verdict is readable
SYSTEMS_FIT_CELLS = 150  # cells of a terminal from which the column of systems fits beside all others
_BAR_WIDTHS = ((220, LONG_BAR_CELLS), (176, BAR_CELLS))  # (cells of a terminal, width of the bar that fits)
_SYSTEM_CELLS = 14  # cells of the column of systems, free for other columns if it is left out
_NARROW_COUNT_CELLS, _COUNT_CELLS = 6, 7  # six cells show 99 999 jobs
_NARROW_DROPS = {"rate": 4, "spark": 5, "oldest": 6, "workers": 7, "share": 9}  # throughput is dropped last
_WIDE_DROPS = {"oldest": 4, "rate": 5, "workers": 6, "share": 11, "spark": 10}
_DROP = {State.SCHEDULED: 3, State.READY: 0, State.RESERVED: 2, State.DONE: 8, State.DEAD: 1}


class OverviewShape(NamedTuple):
    """The facts that decide the columns of the overview: narrow numbers, one system for all, and widths in cells.

    `bar` is the width of the bar of states, `name` the least and `most` the greatest width of a queue's name, `verdict`
    the least width of a verdict on a wide terminal.
    """

    is_narrow: bool = False
    is_one_system: bool = False
    bar: int = SHARE_CELLS
    name: int = NAME_CELLS
    most: int = NAME_CELLS
    verdict: int = VERDICT_CELLS
    labels: frozenset[str] = frozenset()  # all shown names, so that cut names stay distinguishable


class ChangesSince(NamedTuple):
    """How many jobs came to a queue and left it since the rows of the overview were frozen."""

    added: int = 0
    removed: int = 0


def choose_overview_shape(
    width: int, refs: Collection[Ref], labels: frozenset[str], longest: int, verdict: int
) -> OverviewShape:
    """Choose widths and columns of the overview for a terminal of `width` cells and these queues.

    `labels` are the shown names. `longest` is the width of the longest name, including the text before it in its cell,
    and `verdict` that of the longest verdict.
    """
    is_one_system = len({ref.system for ref in refs}) < 2
    available = width + (_SYSTEM_CELLS if is_one_system else 0)
    bar = next((bar for min_width, bar in _BAR_WIDTHS if available >= min_width), SHARE_CELLS)
    min_name_cells = (
        max(SHORT_NAME_CELLS, min(longest, NARROW_LONG_NAME_CELLS))
        if width < NARROW_CELLS
        else max(SHORT_NAME_CELLS, min(longest, LONG_NAME_CELLS))
    )
    # Where there is a column of systems, a verdict leaves its cells alone.
    most_verdict_cells = LONG_VERDICT_CELLS - (0 if is_one_system else _SYSTEM_CELLS)
    verdict_cells = max(VERDICT_CELLS, min(verdict, most_verdict_cells))
    return OverviewShape(
        width < NARROW_CELLS,
        is_one_system,
        bar,
        min_name_cells,
        max(longest, min_name_cells),
        verdict_cells,
        labels,
    )


def build_overview_columns(shape: OverviewShape) -> tuple[Column, ...]:
    """Build the columns of the overview. The column of systems appears only if there are several systems."""
    count_columns = (
        Column(
            state,
            state,
            max(_NARROW_COUNT_CELLS if shape.is_narrow else _COUNT_CELLS, len(state)),
            align="right",
            drop=_DROP[state],
        )
        for state in State
    )
    drops = _NARROW_DROPS if shape.is_narrow else _WIDE_DROPS
    return (
        Column(
            "queue",
            "queue",
            shape.name,
            weight=5,
            style="strong",
            most=shape.most,
            fit=elision.create_name_fitter(shape.labels),
        ),
        *(() if shape.is_one_system else (Column("layout", "system", 12, drop=9, style="muted"),)),
        *count_columns,
        Column("share", "states" if shape.bar > SHARE_CELLS else "share", shape.bar, drop=drops["share"]),
        Column("rate", "out", 6, align="right", drop=drops["rate"]),
        Column("spark", "trend", _count_spark_cells(shape), drop=drops["spark"], style="muted"),
        Column("oldest", "oldest", 6, align="right", drop=drops["oldest"], style="muted"),
        Column("workers", "workers", 7, align="right", drop=drops["workers"]),
        Column(
            "verdict",
            "state",
            max(13, 27 - shape.name) if shape.is_narrow else shape.verdict,
            weight=5,
            fit=_fit_verdict,
        ),
    )


def _count_spark_cells(shape: OverviewShape) -> int:
    """Return the width in cells of the throughput sparkline of a queue's row."""
    return SHORT_SPARK_CELLS if shape.is_narrow else SPARK_CELLS


def build_queue_row(
    row_id: str,
    name_cell: Cell,
    system: str,
    queue: Queue | None,
    rate: Rate | None,
    shape: OverviewShape,
    since: ChangesSince | None,
    now_ms: int,
) -> Row:
    """Build the overview row of a queue, or of a group as one queue.

    `since` are the jobs that came and left while the rows were frozen.
    """
    name_cells = (name_cell,) if shape.is_one_system else (name_cell, system)
    if queue is None:
        empty_cells = [Piece(formats.NOT_YET, "muted")] * (len(State) + 5)
        return Row(row_id, (*name_cells, *empty_cells, Piece("not counted yet", "muted")))
    counts = _sum_counts_by_state(queue)
    cells: tuple[Cell, ...] = (
        *name_cells,
        *(
            _format_count_cell(state, *counts[state], _NARROW_COUNT_CELLS if shape.is_narrow else _COUNT_CELLS)
            for state in State
        ),
        _format_state_shares(
            [(state, number or 0) for state, (number, _is_exact) in counts.items()],
            shape.bar,
            {state for state, (_number, is_exact) in counts.items() if not is_exact},
        ),
        _format_rate_cell(queue, rate),
        formats.build_sparkline(rate.history[-_count_spark_cells(shape) :], _count_spark_cells(shape))
        if rate and any(rate.history)
        else "",
        _format_oldest_cell(queue),
        _format_workers_cell(queue),
        (
            *format_changes(since),
            *(_build_short_verdict(queue, now_ms) if shape.is_narrow else build_verdict_pieces(queue, now_ms)),
        ),
    )
    return Row(row_id, cells)


def collect_shown_values(queue: Queue | None, rate: Rate | None) -> tuple[object, ...]:
    """Return all values of a queue that its row shows; the row is rebuilt only if these values change."""
    if queue is None:
        return ()
    current = rate or Rate()
    trend = current.history[-SPARK_CELLS:] if any(current.history) else ()
    return queue.counts, queue.workers, queue.verdict, formats.format_age(queue.oldest_ready_ms), current.out_s, trend


def format_time_left(queue: Queue | None, now_ms: int) -> str:
    """Return the time left to act on a queue's worst finding, as in `41s left`.

    Empty if the finding has no deadline.
    """
    return formats.format_time_left(queue.verdict.until_ms, now_ms) if queue else ""


def build_verdict_pieces(queue: Queue, now_ms: int) -> tuple[Piece, ...]:
    """Return the sign of the severity, the time left to act, the sentence of a queue's worst finding, and its fix."""
    sentence, fix = queue.verdict.text, ""
    remedy = (queue.findings[0].remedy or queue.findings[0].key) if queue.findings else ""
    if remedy and sentence.endswith(remedy):  # only this part has key names to replace; the rest may hold foreign data
        problem = sentence.removesuffix(remedy)
        sentence = problem.removesuffix(_BEFORE_REMEDY).removesuffix(_BEFORE_KEY)
        fix = problem.removeprefix(sentence) + keys.apply_keymap(remedy)
    style = "" if queue.findings else "muted"
    return *_build_severity_pieces(queue, now_ms), Piece(safe(sentence), style), *([Piece(safe(fix))] if fix else [])


def _fit_verdict(text: str, _width: int) -> str:
    """Leave out the fix of a verdict that has no space for all of it: half of a command is useless.

    The details of the queue show it whole. A sentence without a fix is returned unchanged, and cut by the table.
    """
    return "" if text.startswith((_BEFORE_REMEDY, " ")) else text


def measure_longest_verdict(queues: Collection[Queue]) -> int:
    """Return the cells of the longest verdict of these queues with its sign, at most `LONG_VERDICT_CELLS`."""
    texts = (queue.verdict.text for queue in queues if queue.findings)
    return min(LONG_VERDICT_CELLS, max((2 + formats.cell_len(safe(text)) for text in texts), default=0))


def _build_severity_pieces(queue: Queue, now_ms: int) -> tuple[Piece, ...]:
    severity = queue.findings[0].severity if queue.findings else queue.verdict.severity
    hue, time_left = HUES[severity], format_time_left(queue, now_ms)
    return Piece(f"{formats.SEVERITY_SIGNS[severity]} ", hue), *([Piece(f"{time_left}  ", hue)] if time_left else [])


def _build_short_verdict(queue: Queue, now_ms: int) -> tuple[Piece, ...]:
    """Return the verdict of a queue in two or three words, for a column that is too narrow for its sentence."""
    if not queue.findings:
        return build_verdict_pieces(queue, now_ms)
    worst = queue.findings[0]
    words = _SHORT_STATES.get(worst.kind, worst.kind.replace("-", " ")).format(
        share=worst.text.partition(" of ")[0], jobs=formats.format_short_count(worst.jobs)
    )
    sign, *time_left = _build_severity_pieces(queue, now_ms)
    if not time_left:
        return sign, Piece(words)
    return sign, Piece(f"{words} in {time_left[0].text.removesuffix(_TIME_LEFT)}", time_left[0].style)


def format_changes(since: ChangesSince | None) -> tuple[Piece, ...]:
    """Return the jobs that came and left as text, as in `+312 −290`; empty if no job did."""
    if since is None or not any(since):
        return ()
    parts = [
        f"{sign}{formats.format_short_count(number)}"
        for sign, number in (("+", since.added), ("−", since.removed))
        if number
    ]
    return (Piece(" ".join(parts) + "  ", "accented"),)


def compute_changes(previous: Queue, current: Queue) -> ChangesSince:
    """Return how many jobs came and left between two counts of a queue.

    For a system without counters, return the difference of the totals.
    """
    if {"in", "out"} <= set(current.counters):
        added, removed = (max(0, current.counters[name] - previous.counters.get(name, 0)) for name in ("in", "out"))
        return ChangesSince(added, removed)
    difference = sum(count.count for count in current.counts) - sum(count.count for count in previous.counts)
    return ChangesSince(max(0, difference), max(0, -difference))


def compute_queue_sort_key(sort: str, name: str, queue: Queue | None, rate: Rate | None = None) -> tuple[object, ...]:
    """Return the key by which the overview sorts a queue, in the sort order named `sort` (see `SORTS`)."""
    if queue is None:
        return (9, 0, name)
    if sort in ("ready", "dead"):
        return (0, -queue.count_in_state(State(sort)), name)
    if sort == "oldest":
        return (0, -(queue.oldest_ready_ms or 0), name)
    if sort == "out":
        return (0, -(rate or Rate()).out_s, name)
    if sort == "worst first":
        return (0, -urgency.compute_urgency_step(queue), name)
    return (0, 0, name)


def _sum_counts_by_state(queue: Queue) -> dict[State, tuple[int | None, bool]]:
    """Return {state: (number of jobs, whether the number is exact)} of a queue.

    The number is None if the queue's system does not store that state.
    """
    totals: dict[State, tuple[int | None, bool]] = dict.fromkeys(State, (None, True))
    for count in queue.counts:
        if not count.is_count_known:
            continue
        number, is_exact = totals[count.state]
        totals[count.state] = ((number or 0) + count.count, is_exact and count.is_exact)
    return totals


def _format_count_cell(state: State, number: int | None, is_exact: bool, width: int) -> Cell:
    if number is None:
        return Piece(formats.UNKNOWN, "muted")
    return Piece(formats.format_count(number, is_exact, width), f"state-{state}" if number else "muted")


def _format_rate_cell(queue: Queue, rate: Rate | None) -> Cell:
    if rate is None:
        return Piece(formats.NOT_YET, "muted")  # a rate needs two polls
    if not rate.out_s:
        return Piece(formats.format_rate(0.0) if "out" in queue.counters else formats.UNKNOWN, "muted")
    return formats.format_rate(rate.out_s)


def _format_oldest_cell(queue: Queue) -> Cell:
    if queue.oldest_ready_ms is None:
        return Piece(formats.UNKNOWN if queue.count_in_state(State.READY) else formats.NONE, "muted")
    return formats.format_age(queue.oldest_ready_ms)


class RowSigns(NamedTuple):
    """The special signs in a queue's row: `?` where its system stores nothing, `~` for sampled counts."""

    has_gaps: bool
    is_sampled: bool


_SIGNS: dict[RowSigns, RowSigns] = {}  # shared objects, because there may be ten thousand queues


def find_row_signs(queue: Queue) -> RowSigns:
    """Return which special signs the overview row of a queue contains. Equal results share one object."""
    counts = [count for count in queue.counts if count.is_count_known]
    signs = RowSigns(len({count.state for count in counts}) < len(State), any(not count.is_exact for count in counts))
    return _SIGNS.setdefault(signs, signs)


def format_legend(row_signs: Collection[RowSigns], *, is_complete: bool) -> str:
    """Explain the special signs in the shown rows of the overview; empty without any sign.

    `is_complete`: every queue was counted.
    """
    entries = [f"{formats.UNKNOWN} not stored by the system"] if any(signs.has_gaps for signs in row_signs) else []
    entries += [f"{formats.ABOUT} sampled"] if any(signs.is_sampled for signs in row_signs) else []
    entries += [] if is_complete else [f"{formats.NOT_YET} not counted yet"]
    return "     ".join(entries)


def _format_workers_cell(queue: Queue) -> Cell:
    if queue.workers is None:
        return Piece(formats.UNKNOWN, "muted")
    return Piece(str(queue.workers), "" if queue.workers else "muted")


def _format_state_shares(counts: Sequence[tuple[State, int]], width: int, sampled: Collection[State] = ()) -> Cell:
    """Return the shares of a queue's states as a thin line, or as a bar with counts on a wide terminal."""
    if width > SHARE_CELLS:
        return tuple(Piece(text, f"state-{state}") for state, text in build_state_bar(counts, width, sampled))
    segments = formats.build_share_bar([(state, number) for state, number in counts if state is not State.DONE], width)
    return tuple(Piece(text, f"state-{state}") for state, text in segments)


def build_state_bar(
    counts: Sequence[tuple[State, int]], width: int, sampled: Collection[State] = ()
) -> list[tuple[State, str]]:
    """Build a bar of a queue's states that fills `width` cells, as (state, text) parts such as `12 ━━━━━ 3 ━━`.

    The lengths are proportional if every count fits. Each part begins with its count and ends with a blank, so that
    parts are distinguishable without colours.
    """
    present = [
        (state, number, formats.format_short_count(number, state not in sampled))
        for state, number in counts
        if number > 0
    ]
    total = sum(number for _state, number, _text in present)
    min_cells = [len(text) + 3 for _state, _number, text in present]
    if sum(min_cells) > width or not present:
        return formats.build_share_bar(counts, width)
    cells = [
        max(min_size, width * number // total)
        for min_size, (_state, number, _text) in zip(min_cells, present, strict=True)
    ]
    while sum(cells) != width:  # the part with the most spare cells gives a cell, or gets all that are left
        index = max(range(len(cells)), key=lambda index: cells[index] - min_cells[index])
        cells[index] += max(-1, width - sum(cells))
    return [
        (state, f"{text} {'━' * (size - len(text) - 2)} ")
        for (state, _number, text), size in zip(present, cells, strict=True)
    ]
