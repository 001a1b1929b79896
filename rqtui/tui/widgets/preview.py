"""What the overview shows of the queue under its cursor: its rates as a plot, why its verdict is what it is, its places
and workers, and what its dead jobs died of.

Pure: from what is known of the queue to lines of `Content`. The plot is of the last hour where the system counts by the
minute, else of the last looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from textual.content import Content

from rqtui.engine import history as stats
from rqtui.engine.history import History
from rqtui.model import Count, Job, Queue, Rate, State, Worker
from rqtui.reports import errors
from rqtui.text import elision, formats
from rqtui.text.body import mask_text
from rqtui.text.sanitise import safe
from rqtui.tui.format.queues import HUES
from rqtui.tui.format.recent import Entry
from rqtui.tui.widgets import findings, plot
from rqtui.tui.widgets.chrome import spread

MINUTES = 60
LABEL = 6  # cells beside the plot
_LEAST_PLOT = 4  # rows with its axis
_MOST_WHY = 6
_NAME_CELLS = (64, 32, 24, 16, 10)  # of each name of a worker: the first that lets all of them stand on a line
_WITH_BARS = 26  # rows from which on there is room for the places beside a plot


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of a queue here; `history` None: its system counts nothing by the minute, or not yet."""

    queue: Queue
    rate: Rate
    now_ms: int
    history: History | None = None
    workers: tuple[Worker, ...] | None = None
    changes: tuple[Entry, ...] = ()  # made here, to this queue


@dataclass(frozen=True, slots=True)
class Cause:
    """What some of the dead jobs have in common: where it was raised, when they died, the most frequent kind of job."""

    id: str
    text: str
    frame: str
    jobs: int
    first_ms: int | None
    last_ms: int | None
    kind: str


def lines(seen: Seen, width: int, height: int, *, ascii_only: bool = False) -> list[Content]:
    """All of it, in `height` lines: the plot takes what the words leave."""
    bars = _bars(seen, width) if seen.history is None or height >= _WITH_BARS else []
    below = [*_why(seen, width), Content(), *_places(seen, width), *bars]
    room = height - len(below) - 2
    above = [_rates(seen, width)]
    if room >= _LEAST_PLOT:
        above += [*_plot(seen, width, room, ascii_only), Content()]
    return [*above, *below]


def _rates(seen: Seen, width: int) -> Content:
    rate = seen.rate
    pieces: list[str | tuple[str, str]] = [
        ("in ", "$muted"),
        formats.rate(rate.in_s),
        ("   out ", "$muted"),
        (formats.rate(rate.out_s), "$state-ready"),
    ]
    if rate.failed_s:
        pieces += [("   failed ", "$muted"), (formats.rate(rate.failed_s), "$state-dead")]
    drains = rate.drains_s(seen.queue.count_in(State.READY))
    if drains is not None:
        pieces += [("   drains in ", "$muted"), formats.age(drains * 1000)]
    last = max(seen.changes, key=lambda entry: entry.at_s, default=None)
    changed = Content()
    if last is not None:
        changed = Content.assemble((f"┊ {safe(last.verb)} ", "$accented"), (safe(last.words)[:30], "$muted"))
    return spread(Content.assemble(*pieces), changed, width)


# -- the plot --------------------------------------------------------------------------------------------------------


def _plot(seen: Seen, width: int, height: int, ascii_only: bool) -> list[Content]:
    """Attempts that ended, those that failed in red below, and a mark where something was changed here."""
    cells, rows = width - LABEL - 1, height - 1
    dots = cells * (1 if ascii_only else 2)
    series = _series(seen)
    area = plot.columns(series.area, series.begin_ms, series.end_ms, dots, is_level=series.is_level)
    lower = plot.columns(series.lower, series.begin_ms, series.end_ms, dots)
    most = max((value for value in area if value is not None), default=0.0)
    if not most:
        return [Content.styled(series.none, "$muted")]
    top = plot.ceiling(most)
    span_ms = series.end_ms - series.begin_ms
    marks = {int((entry.at_s * 1000 - series.begin_ms) / span_ms * cells) for entry in seen.changes}
    drawn = _drawn(tuple(area), tuple(lower), rows, top, frozenset(marks), series.write(top), ascii_only)
    axis = series.words + "now".rjust(max(4, cells - formats.cell_len(series.words)))
    return [*drawn, Content.styled(" " * (LABEL + 1) + axis, "$muted")]


@lru_cache(2)  # from picture to picture hardly anything changes
def _drawn(
    area: tuple[float | None, ...],
    lower: tuple[float | None, ...],
    rows: int,
    top: float,
    marks: frozenset[int],
    most: str,
    ascii_only: bool,
) -> list[Content]:
    """The lines of a plot; `most` is what stands beside the upper one."""
    made = []
    for row, runs in enumerate(plot.stacked(area, lower, rows, top, marks, ascii_only)):
        label = most if row == 0 else ("0" if row == rows - 1 else "")
        pieces = [(text, _HUES[of]) if of else text for text, of in runs]
        made.append(Content.assemble((formats.fit(label, LABEL, "right") + " ", "$muted"), *pieces))
    return made


@dataclass(frozen=True, slots=True)
class _Series:
    """What a plot is drawn from; `none` is said where there is nothing to draw."""

    area: plot.Points
    lower: plot.Points
    begin_ms: float
    end_ms: float
    words: str
    none: str = ""
    is_level: bool = False
    write: Callable[[float | None], str] = formats.rate


def _series(seen: Seen) -> _Series:
    """Attempts of the last hour by the minute; where none ended, how many jobs waited; else those of the last looks."""
    if seen.history is None:
        looks = seen.rate.history
        words = f"out of the last {formats.numbered(len(looks), 'look')}"
        return _Series(
            list(enumerate(looks)), (), 0, max(1, len(looks)), words, "no job left it since it was first seen"
        )
    begin_ms, end_ms = seen.now_ms - MINUTES * stats.MINUTE_MS, seen.now_ms
    minutes = stats.per_minute([seen.history], begin_ms, end_ms)
    failed = _per_second(minutes, "failed", end_ms)
    done = _per_second(minutes, "out", end_ms)
    ended = [(at, (value or 0) + (lost or 0)) for (at, value), (_at, lost) in zip(done, failed, strict=True)]
    begin = formats.clock(begin_ms)[:5]
    if any(value for _at, value in ended):
        return _Series(ended, failed, begin_ms, end_ms, begin)
    depths = [*stats.depths(minutes, stats.waiting([seen.queue])), (end_ms, stats.waiting([seen.queue]))]
    words = f"{begin}   jobs that are not done; nothing came out"
    return _Series(depths, (), begin_ms, end_ms, words, "nothing happened in the last hour", True, _whole)


def _whole(number: float | None) -> str:
    return formats.short_count(number or 0)


_HUES = {plot.AREA: "$state-ready", plot.LOWER: "$state-dead", plot.MARK: "$accented"}


def _per_second(
    minutes: Sequence[tuple[int, Counter[str]]], name: str, end_ms: int
) -> list[tuple[float, float | None]]:
    """By the minute; the last one is not over yet."""
    return [
        (minute, stats.flow(grown, name) / max(1.0, min(60.0, (end_ms - minute) / 1000)) if grown else 0.0)
        for minute, grown in minutes
    ]


# -- words -----------------------------------------------------------------------------------------------------------


def _why(seen: Seen, width: int) -> list[Content]:
    """Its findings with the keys that help."""
    made = [spread(left, right, width) for left, right in findings.lines(seen.queue, _MOST_WHY, width, seen.now_ms)]
    return [Content.styled("why", "b $strong"), *made]


def _places(seen: Seen, width: int) -> list[Content]:
    """Ages and limits on one line, the workers on the next; of a queue that was not counted, that nothing is known."""
    queue = seen.queue
    if queue.error:
        return [Content.styled("places", "b $strong"), Content.styled("not known", "$muted")]
    known = (
        ("oldest ready", queue.oldest_ready_ms),
        ("next due in", queue.next_due_ms if not queue.overdue else None),
        ("next lease ends in", queue.next_expiry_ms if not queue.expired else None),
    )
    said = [f"{name} {formats.age(ms)}" for name, ms in known if ms is not None]
    said += [f"{formats.count(queue.overdue)} due"] if queue.overdue else []
    said += [f"{formats.numbered(queue.expired, 'lease')} over"] if queue.expired else []
    most = queue.counters.get("dead_max", 0)
    said += [f"dead limit {formats.count(most, width=9)}"] if most else []
    words = " · ".join(said) or "nothing waits"
    return [
        Content.styled("places", "b $strong"),
        Content.styled(formats.fit(words, width).rstrip(), "$muted"),
        Content.styled(formats.fit(_workers(seen, width), width).rstrip(), "$muted"),
    ]


def _bars(seen: Seen, width: int) -> list[Content]:
    """A line per place: how many stand there, and their share of all."""
    counts = seen.queue.counts
    most = max((count.count for count in counts), default=0)
    label = max((formats.cell_len(count.place) for count in counts), default=0)
    room = max(1, width - label - 14)
    return [
        Content.assemble(
            (formats.fit(count.place, label), f"$state-{count.state}"),
            (formats.fit(_number(count), 11, "right") + "  ", "$data"),
            ("━" * max(1, room * count.count // most) if count.count else "", f"$state-{count.state}"),
        )
        for count in counts
    ]


def _number(count: Count) -> str:
    return formats.count(count.count, count.exact, 9) if count.is_known else formats.UNKNOWN


def _workers(seen: Seen, width: int) -> str:
    """How many they are, and their names: of each as much as has room, so that they are told apart."""
    number, workers = seen.queue.workers, seen.workers or ()
    if number is None:
        return "its system keeps no list of workers"
    late = [worker for worker in workers if worker.is_late(seen.now_ms)]
    live = [worker for worker in workers if worker not in late]
    fit = elision.among(safe(worker.name) for worker in workers)

    def said(cells: int) -> str:
        silent = f", {formats.count(len(late))} silent: {_names(late, fit, cells)}" if late else ""
        named = f": {_names(live, fit, cells)}" if live else ""
        return f"{formats.numbered(number, 'worker')}{named}{silent}"

    made = (said(cells) for cells in _NAME_CELLS)
    return next((words for words in made if formats.cell_len(words) <= width), said(_NAME_CELLS[-1]))


def _names(workers: Sequence[Worker], fit: elision.Fit, cells: int) -> str:
    return " ".join(fit(safe(worker.name), cells) for worker in workers[:12]) + (" …" if len(workers) > 12 else "")


# -- what the dead died of -------------------------------------------------------------------------------------------


def causes(jobs: Iterable[Job]) -> tuple[Cause, ...]:
    """What these dead jobs have in common, the most frequent first."""
    made = []
    for group in errors.grouped(jobs):
        kind = Counter(job.name for job in group.jobs if job.name).most_common(1)
        named = kind[0][0] if kind else ""
        made.append(
            Cause(group.id, group.short_message, group.frame, group.count, group.first_ms, group.last_ms, named)
        )
    return tuple(made)


def cause_lines(found: Sequence[Cause], now_ms: int, width: int, height: int) -> list[Content]:
    """Two lines a cause where there is room, else one."""
    per = 2 if 2 * len(found) <= height else 1
    made: list[Content] = []
    for cause in found[: max(1, height // per)]:
        text = safe(mask_text(cause.text)) or "(no error is kept)"
        made.append(
            Content.assemble(
                (formats.fit(formats.count(cause.jobs), 7, "right"), "b $state-dead"),
                "  ",
                (formats.fit(text, max(8, width - 9)).rstrip(), "$data"),
            )
        )
        if per == 2:
            ages = [
                f"{name} {formats.age(max(0, now_ms - at_ms))} ago"
                for name, at_ms in (("first", cause.first_ms), ("last", cause.last_ms))
                if at_ms is not None
            ]
            more = "   ".join([*([safe(cause.frame)] if cause.frame else []), *ages, safe(cause.kind)]).rstrip()
            made.append(Content.styled(" " * 9 + formats.fit(more, max(8, width - 9)).rstrip(), "$muted"))
    return made


# -- a group of queues -----------------------------------------------------------------------------------------------


def group_lines(
    seen: Seen, queues: Sequence[Queue], width: int, height: int, *, ascii_only: bool = False
) -> list[Content]:
    """What the queues of a group do and count together (`seen`), and the verdict of each, the worst first."""
    places = [*_places(seen, width), *_bars(seen, width)]
    least = 1 + len(places) + 2  # what stands without verdicts: the rates, and an empty line before each part
    ranked = sorted(queues, key=lambda queue: (_RANKS.get(queue.verdict.severity, 0), queue.name))
    shown = ranked[: max(1, min(_MOST_WHY, height - least - 1))]
    more = len(ranked) - len(shown)
    why = [_verdict(queue, width) for queue in shown]
    why += [Content.styled(f"and {formats.numbered(more, 'more queue')}", "$muted")] if more else []
    room = height - least - len(why)
    plot_ = [*_plot(seen, width, room - 1, ascii_only), Content()] if room - 1 >= _LEAST_PLOT else [Content()]
    return [_rates(seen, width), *plot_, *why, Content(), *places][: max(1, height)]


def _verdict(queue: Queue, width: int) -> Content:
    return Content.assemble(
        ("● ", f"${HUES[queue.verdict.severity]}"),
        (formats.fit(safe(queue.name), min(32, width // 3)), "$strong"),
        ("  " + formats.fit(safe(queue.verdict.text), max(8, width - 36)).rstrip(), "$muted"),
    )


def together(causes_of: Iterable[Sequence[Cause]]) -> tuple[Cause, ...]:
    """The causes of several queues as those of one, the most frequent first."""
    found: dict[str, Cause] = {}
    for cause in (cause for these in causes_of for cause in these):
        before = found.get(cause.id)
        found[cause.id] = _sum(before, cause) if before else cause
    return tuple(sorted(found.values(), key=lambda cause: -cause.jobs))


def _sum(one: Cause, other: Cause) -> Cause:
    first = min((ms for ms in (one.first_ms, other.first_ms) if ms is not None), default=None)
    last = max((ms for ms in (one.last_ms, other.last_ms) if ms is not None), default=None)
    return replace(one, jobs=one.jobs + other.jobs, first_ms=first, last_ms=last)


_RANKS = {"critical": -3, "warning": -2, "unknown": -1}
