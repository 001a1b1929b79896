"""Build the preview of the queue under the overview's cursor: rates, plot, findings, places, workers, causes of death.

Pure functions from cached data of a queue to lines of `Content`. The plot covers the last hour if the system counts by
the minute, else the last polls.
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
from rqtui.text.masking import mask_text
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui.format.queues import HUES
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.widgets import findings, plot
from rqtui.tui.widgets.frame import align_sides

HISTORY_MINUTES = 60
LABEL_CELLS = 6  # cells of the labels beside the plot
_MIN_PLOT_ROWS = 4  # rows of the smallest plot, with its axis
_MAX_FINDINGS = 6
_NAME_CELLS = (64, 32, 24, 16, 10)  # lengths of a worker's name; the first with which all names fit on a line
_BARS_FROM_ROWS = 26  # previews with this many rows show bars for the places below a plot


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """The cached data of a queue for its preview. `history` is None without counts by the minute."""

    queue: Queue
    rate: Rate
    now_ms: int
    history: History | None = None
    workers: tuple[Worker, ...] | None = None
    changes: tuple[RecentEvent, ...] = ()  # changes of this queue that were sent from this session


@dataclass(frozen=True, slots=True)
class DeathCause:
    """A group of dead jobs with the same error, with its code location, times and most frequent job name."""

    id: str
    text: str
    frame: str
    jobs: int
    first_ms: int | None
    last_ms: int | None
    kind: str


def build_preview(seen: QueueDetails, width: int, height: int, *, ascii_only: bool = False) -> list[Content]:
    """Build the preview in `height` lines. The plot takes the lines that the text leaves free."""
    bars = _format_bars(seen, width) if seen.history is None or height >= _BARS_FROM_ROWS else []
    below = [*_format_findings(seen, width), Content(), *_format_places(seen, width), *bars]
    room = height - len(below) - 2
    above = [_format_rates(seen, width)]
    if room >= _MIN_PLOT_ROWS:
        above += [*_build_plot(seen, width, room, ascii_only), Content()]
    return [*above, *below]


def _format_rates(seen: QueueDetails, width: int) -> Content:
    rate = seen.rate
    pieces: list[str | tuple[str, str]] = [
        ("in ", "$muted"),
        formats.format_rate(rate.in_s),
        ("   out ", "$muted"),
        (formats.format_rate(rate.out_s), "$state-ready"),
    ]
    if rate.failed_s:
        pieces += [("   failed ", "$muted"), (formats.format_rate(rate.failed_s), "$state-dead")]
    drains = rate.estimate_drain_s(seen.queue.count_in_state(State.READY))
    if drains is not None:
        pieces += [("   drains in ", "$muted"), formats.format_age(drains * 1000)]
    last = max(seen.changes, key=lambda entry: entry.at_s, default=None)
    changed = Content()
    if last is not None:
        changed = Content.assemble((f"┊ {safe(last.verb)} ", "$accented"), (safe(last.words)[:30], "$muted"))
    return align_sides(Content.assemble(*pieces), changed, width)


# -- the plot --------------------------------------------------------------------------------------------------------


def _build_plot(seen: QueueDetails, width: int, height: int, ascii_only: bool) -> list[Content]:
    """Plot the finished attempts, the failed ones in red below, and a mark at each change that was sent from here."""
    cells, rows = width - LABEL_CELLS - 1, height - 1
    dots = cells * (1 if ascii_only else 2)
    series = _choose_series(seen)
    area = plot.resample(series.area, series.begin_ms, series.end_ms, dots, is_level=series.is_level)
    lower = plot.resample(series.lower, series.begin_ms, series.end_ms, dots)
    most = max((value for value in area if value is not None), default=0.0)
    if not most:
        return [Content.styled(series.none, "$muted")]
    top = plot.round_up(most)
    span_ms = series.end_ms - series.begin_ms
    marks = {int((entry.at_s * 1000 - series.begin_ms) / span_ms * cells) for entry in seen.changes}
    drawn = _draw_plot_lines(tuple(area), tuple(lower), rows, top, frozenset(marks), series.write(top), ascii_only)
    axis = series.words + "now".rjust(max(4, cells - formats.cell_len(series.words)))
    return [*drawn, Content.styled(" " * (LABEL_CELLS + 1) + axis, "$muted")]


@lru_cache(2)  # the values rarely change between two refreshes
def _draw_plot_lines(
    area: tuple[float | None, ...],
    lower: tuple[float | None, ...],
    rows: int,
    top: float,
    marks: frozenset[int],
    most: str,
    ascii_only: bool,
) -> list[Content]:
    """Return the lines of a plot. `most` is the label of the upper line."""
    made = []
    for row, runs in enumerate(plot.draw_stacked(area, lower, rows, top, marks, ascii_only)):
        label = most if row == 0 else ("0" if row == rows - 1 else "")
        pieces = [(text, _HUES[of]) if of else text for text, of in runs]
        made.append(Content.assemble((formats.fit_to_width(label, LABEL_CELLS, "right") + " ", "$muted"), *pieces))
    return made


@dataclass(frozen=True, slots=True)
class _Series:
    """The data of a plot. `none` is the sentence shown if there is nothing to draw."""

    area: plot.Points
    lower: plot.Points
    begin_ms: float
    end_ms: float
    words: str
    none: str = ""
    is_level: bool = False
    write: Callable[[float | None], str] = formats.format_rate


def _choose_series(seen: QueueDetails) -> _Series:
    """Return the finished attempts per minute of the last hour, or the depth if none finished.

    For a system without history, return the throughput of the last polls.
    """
    if seen.history is None or not seen.history.flows:
        looks = seen.rate.history
        words = f"out of the last {formats.format_quantity(len(looks), 'look')}"
        return _Series(
            list(enumerate(looks)), (), 0, max(1, len(looks)), words, "no job left it since it was first seen"
        )
    begin_ms, end_ms = seen.now_ms - HISTORY_MINUTES * stats.MINUTE_MS, seen.now_ms
    minutes = stats.compute_growth_per_minute([seen.history], begin_ms, end_ms)
    failed = _compute_rates(minutes, "failed", end_ms)
    done = _compute_rates(minutes, "out", end_ms)
    ended = [(at, (value or 0) + (lost or 0)) for (at, value), (_at, lost) in zip(done, failed, strict=True)]
    begin = formats.format_clock(begin_ms)[:5]
    if any(value for _at, value in ended) or "in" not in seen.history.flows:
        return _Series(ended, failed, begin_ms, end_ms, begin, "no job ended in the last hour")
    depths = [
        *stats.compute_unfinished_per_minute(minutes, stats.count_unfinished([seen.queue])),
        (end_ms, stats.count_unfinished([seen.queue])),
    ]
    words = f"{begin}   jobs that are not done; nothing came out"
    return _Series(depths, (), begin_ms, end_ms, words, "nothing happened in the last hour", True, _format_number)


def _format_number(number: float | None) -> str:
    return formats.format_short_count(number or 0)


_HUES = {plot.AREA: "$state-ready", plot.LOWER: "$state-dead", plot.MARK: "$accented"}


def _compute_rates(
    minutes: Sequence[tuple[int, Counter[str]]], name: str, end_ms: int
) -> list[tuple[float, float | None]]:
    """Return the rate of a counter per minute. The last minute is incomplete, so its rate uses the elapsed seconds."""
    return [
        (minute, stats.sum_flow_counters(grown, name) / max(1.0, min(60.0, (end_ms - minute) / 1000)) if grown else 0.0)
        for minute, grown in minutes
    ]


# -- words -----------------------------------------------------------------------------------------------------------


def _format_findings(seen: QueueDetails, width: int) -> list[Content]:
    """Format the findings of the queue with the keys that fix them."""
    made = [
        align_sides(left, right, width)
        for left, right in findings.format_findings(seen.queue, _MAX_FINDINGS, width, seen.now_ms)
    ]
    return [Content.styled("why", "b $strong"), *made]


def _format_places(seen: QueueDetails, width: int) -> list[Content]:
    """Format ages and limits on one line and the workers on the next. An uncounted queue is shown as unknown."""
    queue = seen.queue
    if queue.error:
        return [Content.styled("places", "b $strong"), Content.styled("not known", "$muted")]
    known = (
        ("oldest ready", queue.oldest_ready_ms),
        ("next due in", queue.next_due_ms if not queue.overdue else None),
        ("next lease ends in", queue.next_expiry_ms if not queue.expired else None),
    )
    said = [f"{name} {formats.format_age(ms)}" for name, ms in known if ms is not None]
    said += [f"{formats.format_count(queue.overdue)} due"] if queue.overdue else []
    said += [f"{formats.format_quantity(queue.expired, 'lease')} over"] if queue.expired else []
    most = queue.counters.get("dead_max", 0)
    said += [f"dead limit {formats.format_count(most, width=9)}"] if most else []
    words = " · ".join(said) or "nothing waits"
    return [
        Content.styled("places", "b $strong"),
        Content.styled(formats.fit_to_width(words, width).rstrip(), "$muted"),
        Content.styled(formats.fit_to_width(_format_workers(seen, width), width).rstrip(), "$muted"),
    ]


def _format_bars(seen: QueueDetails, width: int) -> list[Content]:
    """Format one line per place: its number of jobs, and a bar for its share of the largest place."""
    counts = seen.queue.counts
    most = max((count.count for count in counts), default=0)
    label = max((formats.cell_len(count.place) for count in counts), default=0)
    room = max(1, width - label - 14)
    return [
        Content.assemble(
            (formats.fit_to_width(count.place, label), f"$state-{count.state}"),
            (formats.fit_to_width(_format_count(count), 11, "right") + "  ", "$data"),
            ("━" * max(1, room * count.count // most) if count.count else "", f"$state-{count.state}"),
        )
        for count in counts
    ]


def _format_count(count: Count) -> str:
    return formats.format_count(count.count, count.is_exact, 9) if count.is_count_known else formats.UNKNOWN


def _format_workers(seen: QueueDetails, width: int) -> str:
    """Format the number of workers and their names, shortened until all of them fit on a line."""
    number, workers = seen.queue.workers, seen.workers or ()
    if number is None:
        return "its system keeps no list of workers"
    late = [worker for worker in workers if worker.is_late(seen.now_ms)]
    live = [worker for worker in workers if worker not in late]
    fit = elision.create_name_fitter(format_field_value(worker.name) for worker in workers)

    def format_with_names(cells: int) -> str:
        silent = f", {formats.format_count(len(late))} silent: {_format_names(late, fit, cells)}" if late else ""
        named = f": {_format_names(live, fit, cells)}" if live else ""
        return f"{formats.format_quantity(number, 'worker')}{named}{silent}"

    made = (format_with_names(cells) for cells in _NAME_CELLS)
    return next((words for words in made if formats.cell_len(words) <= width), format_with_names(_NAME_CELLS[-1]))


def _format_names(workers: Sequence[Worker], fit: elision.Fit, cells: int) -> str:
    return " ".join(fit(format_field_value(worker.name), cells) for worker in workers[:12]) + (
        " …" if len(workers) > 12 else ""
    )


# -- what the dead died of -------------------------------------------------------------------------------------------


def group_causes(jobs: Iterable[Job]) -> tuple[DeathCause, ...]:
    """Group dead jobs by their error, most frequent first."""
    grouped = []
    for group in errors.group_jobs(jobs):
        kind = Counter(job.name for job in group.jobs if job.name).most_common(1)
        named = kind[0][0] if kind else ""
        grouped.append(
            DeathCause(group.id, group.short_message, group.frame, group.count, group.first_ms, group.last_ms, named)
        )
    return tuple(grouped)


def format_causes(found: Sequence[DeathCause], now_ms: int, width: int, height: int) -> list[Content]:
    """Format the causes of death, two lines each if they fit, else one."""
    per = 2 if 2 * len(found) <= height else 1
    made: list[Content] = []
    for cause in found[: max(1, height // per)]:
        text = safe(mask_text(cause.text)) or "(no error is kept)"
        made.append(
            Content.assemble(
                (formats.fit_to_width(formats.format_count(cause.jobs), 7, "right"), "b $state-dead"),
                "  ",
                (formats.fit_to_width(text, max(8, width - 9)).rstrip(), "$data"),
            )
        )
        if per == 2:
            ages = [
                f"{name} {formats.format_age(max(0, now_ms - at_ms))} ago"
                for name, at_ms in (("first", cause.first_ms), ("last", cause.last_ms))
                if at_ms is not None
            ]
            more = "   ".join(
                [*([safe(cause.frame)] if cause.frame else []), *ages, format_field_value(cause.kind)]
            ).rstrip()
            made.append(Content.styled(" " * 9 + formats.fit_to_width(more, max(8, width - 9)).rstrip(), "$muted"))
    return made


# -- a group of queues -----------------------------------------------------------------------------------------------


def build_group_preview(
    seen: QueueDetails, queues: Sequence[Queue], width: int, height: int, *, ascii_only: bool = False
) -> list[Content]:
    """Build the preview of a group of queues: their totals (`seen`) and the verdict of each queue, worst first."""
    places = [*_format_places(seen, width), *_format_bars(seen, width)]
    least = 1 + len(places) + 2  # rows without verdicts: the rates, and an empty line before each part
    ranked = sorted(queues, key=lambda queue: (_SEVERITY_RANKS.get(queue.verdict.severity, 0), queue.name))
    shown = ranked[: max(1, min(_MAX_FINDINGS, height - least - 1))]
    more = len(ranked) - len(shown)
    why = [_format_verdict(queue, width) for queue in shown]
    why += [Content.styled(f"and {formats.format_quantity(more, 'more queue')}", "$muted")] if more else []
    room = height - least - len(why)
    plot_ = [*_build_plot(seen, width, room - 1, ascii_only), Content()] if room - 1 >= _MIN_PLOT_ROWS else [Content()]
    return [_format_rates(seen, width), *plot_, *why, Content(), *places][: max(1, height)]


def _format_verdict(queue: Queue, width: int) -> Content:
    return Content.assemble(
        ("● ", f"${HUES[queue.verdict.severity]}"),
        (formats.fit_to_width(safe(queue.name), min(32, width // 3)), "$strong"),
        ("  " + formats.fit_to_width(safe(queue.verdict.text), max(8, width - 36)).rstrip(), "$muted"),
    )


def merge_causes(causes_of: Iterable[Sequence[DeathCause]]) -> tuple[DeathCause, ...]:
    """Merge the causes of death of several queues, most frequent first."""
    found: dict[str, DeathCause] = {}
    for cause in (cause for these in causes_of for cause in these):
        before = found.get(cause.id)
        found[cause.id] = _add_causes(before, cause) if before else cause
    return tuple(sorted(found.values(), key=lambda cause: -cause.jobs))


def _add_causes(one: DeathCause, other: DeathCause) -> DeathCause:
    first = min((ms for ms in (one.first_ms, other.first_ms) if ms is not None), default=None)
    last = max((ms for ms in (one.last_ms, other.last_ms) if ms is not None), default=None)
    return replace(one, jobs=one.jobs + other.jobs, first_ms=first, last_ms=last)


_SEVERITY_RANKS = {"critical": -3, "warning": -2, "unknown": -1}
