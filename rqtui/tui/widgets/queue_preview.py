"""Build the preview of the queue under the overview's cursor: rates, plot, findings, places, workers, causes of death.

The functions are pure, from cached data of a queue to lines of `Content`. The plot covers the last hour if the system
counts by the minute, else the last polls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from rqtui.engine import history as stats
from rqtui.engine.history import History
from rqtui.model import Count, Queue, Rate, Ref, State, Worker
from rqtui.reports import errors
from rqtui.text import elision, formats
from rqtui.text.masking import mask_text
from rqtui.text.preview import format_field_value
from rqtui.text.sanitise import safe
from rqtui.tui.format.queues import HUES
from rqtui.tui.format.recent import RecentEvent
from rqtui.tui.widgets import findings, plot
from rqtui.tui.widgets.frame import align_sides, format_failure_share, format_rate_window

if TYPE_CHECKING:
    from rqtui.engine.dead_sample import DeadSample
    from rqtui.recording.records import ErrorCount
    from rqtui.reports.errors import Errors, Group

HISTORY_MINUTES = 60
_CAUSE_AT = 9  # cells before a cause of death: its number of jobs
LABEL_CELLS = 6  # cells of the labels beside the plot
SHOW_TIME_FROM_MS = 60_000  # causes of death that were read longer ago are shown with the time
_MIN_PLOT_ROWS = 4  # rows of the smallest plot, with its axis
_TREND_FROM_ROWS = 5  # previews with this many rows keep one of them for the last hour
_MAX_FINDINGS = 6
_NAME_CELLS = (64, 32, 24, 16, 10)  # lengths of a worker's name; the first with which all names fit on a line
_BARS_FROM_ROWS = 26  # previews with this many rows show bars for the places below a plot
_AWAITED = "reading the last hour"  # in place of a plot whose data the next snapshot brings


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """The cached data of a queue for its preview. `history` is None without counts by the minute."""

    queue: Queue
    rate: Rate
    now_ms: int
    history: History | None = None
    workers: tuple[Worker, ...] | None = None
    changes: tuple[RecentEvent, ...] = ()  # changes of this queue that were sent from this session
    is_recorded: bool = False  # of a recording, whose metrics view has the history
    is_history_awaited: bool = False  # whether the next snapshot brings `history`, so that its lines are kept free


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


class DeathCauses(NamedTuple):
    """The causes of the dead jobs of a queue, the most frequent first, and from how many jobs they come.

    `read` of the `dead` jobs were read at `taken_ms`: all of them, or a sample from all parts of the place. An error
    report also reads the jobs that failed and wait for a retry.
    """

    causes: tuple[DeathCause, ...] = ()
    dead: int = 0
    read: int = 0
    taken_ms: int = 0
    retrying: int | None = None  # jobs that wait for a retry; None: not read
    is_recorded: bool = False  # of a recording, which has only the causes that findings named

    @property
    def is_complete(self) -> bool:
        """Return whether every dead job was read, so that no cause of death is missing."""
        return self.read >= self.dead


def build_queue_preview(
    details: QueueDetails, width: int, height: int, cursor: int | None = None, *, ascii_only: bool = False
) -> list[Content]:
    """Build the preview of a queue in `height` lines: its findings, then its history, places and workers.

    The plot takes the lines that the text leaves free. With less space a line with a sparkline replaces it. `cursor` is
    the position of the finding under the cursor.
    """
    finding_lines = [
        align_sides(line.left, line.right, width) for line in build_preview_findings(details, width, height, cursor)
    ]
    has_history = details.history is not None or details.is_history_awaited
    bars = _format_place_bars(details, width) if not has_history or height >= _BARS_FROM_ROWS else []
    place_lines = [*_format_places_summary(details, width), *bars]
    free = height - len(finding_lines) - 1  # with an empty line below the findings
    plot_rows = free - len(place_lines) - 2
    if plot_rows >= _MIN_PLOT_ROWS:
        plot_lines = build_queue_plot(details, width, plot_rows, ascii_only=ascii_only)
        return [*finding_lines, Content(), format_rates_line(details, width), *plot_lines, Content(), *place_lines]
    lines = [_format_trend_line(details, width, ascii_only), format_rates_line(details, width), *place_lines]
    return [*finding_lines, Content(), *lines][: max(1, height)]


def _format_trend_line(details: QueueDetails, width: int, ascii_only: bool) -> Content:
    """Format what the plot would show in one line: `failed per minute, last hour ▁▂▅▇▃  peak 20/s at 18:21`."""
    if details.is_history_awaited:
        return Content.styled(_AWAITED, "$muted")
    series = _choose_plot_series(details)
    points, label = (
        (series.lower, "failed per minute, last hour")
        if any(value for _at, value in series.lower)
        else (series.area, series.label)
    )
    peak = max(((value, at) for at, value in points if value), default=None)
    if peak is None:
        return Content.styled(series.none, "$muted")
    at_text = f" at {formats.format_clock(peak[1])[:5]}" if series.has_clock else ""
    peak_text = f"peak {series.write(peak[0])}{at_text}"
    cells = max(8, min(HISTORY_MINUTES, width - formats.cell_len(label) - len(peak_text) - 6))
    values = plot.resample_points(points, series.begin_ms, series.end_ms, cells, is_level=series.is_level)
    bars = formats.build_sparkline([value or 0 for value in values], cells, ascii_only)
    hue = "$state-dead" if points is series.lower else "$state-ready"
    return Content.assemble((f"{label}   ", "$muted"), (bars, hue), (f"   {peak_text}", "$muted"))


def format_rates_line(details: QueueDetails, width: int) -> Content:
    """Format the rates of a queue, its failure share and the last change of this session in one line."""
    rate = details.rate
    pieces: list[str | tuple[str, str]] = [
        ("in ", "$muted"),
        formats.format_rate(rate.in_s),
        ("   out ", "$muted"),
        (formats.format_rate(rate.out_s), "$state-ready"),
        (f" {format_rate_window(rate)}".rstrip(), "$muted"),
        *(format_failure_share(rate, "   ", is_short=True) if rate.recent.failed else ()),
    ]
    drain_s = rate.estimate_drain_s(details.queue.count_in_state(State.READY))
    if drain_s is not None:
        pieces += [("   drains in ", "$muted"), formats.format_age(drain_s * 1000)]
    last_change = max(details.changes, key=lambda entry: entry.at_s, default=None)
    change_text = Content()
    if last_change is not None:
        change_text = Content.assemble(
            (f"┊ {safe(last_change.verb)} ", "$accented"), (safe(last_change.words)[:30], "$muted")
        )
    return align_sides(Content.assemble(*pieces), change_text, width)


# -- the plot --------------------------------------------------------------------------------------------------------


def build_queue_plot(details: QueueDetails, width: int, height: int, *, ascii_only: bool) -> list[Content]:
    """Plot the finished attempts, the failed ones hatched and in red, and a mark at each change of this session."""
    cells, rows = width - LABEL_CELLS - 1, height - 1
    if details.is_history_awaited:
        return [*[Content()] * rows, Content.styled(" " * (LABEL_CELLS + 1) + _AWAITED, "$muted")]
    dots = cells * (1 if ascii_only else 2)
    series = _choose_plot_series(details)
    area = plot.resample_points(series.area, series.begin_ms, series.end_ms, dots, is_level=series.is_level)
    lower = plot.resample_points(series.lower, series.begin_ms, series.end_ms, dots)
    maximum = max((value for value in area if value is not None), default=0.0)
    if not maximum:
        return [Content.styled(series.none, "$muted")]
    top = plot.round_axis_maximum(maximum)
    span_ms = series.end_ms - series.begin_ms
    marks = {int((entry.at_s * 1000 - series.begin_ms) / span_ms * cells) for entry in details.changes}
    plot_lines = draw_plot_lines(tuple(area), tuple(lower), rows, top, frozenset(marks), series.write(top), ascii_only)
    legend = Content.styled(series.words, "$muted")
    if any(value for _at, value in series.lower):
        area_sign, lower_sign = plot.draw_legend_signs(ascii_only)
        legend = Content.assemble(
            legend,
            (": ", "$muted"),
            (area_sign, _HUES[plot.AREA]),
            (" completed, ", "$muted"),
            (lower_sign, _HUES[plot.LOWER]),
            (" failed", "$muted"),
        )
    now_text = "now".rjust(max(4, cells - legend.cell_length))
    return [*plot_lines, Content.assemble(" " * (LABEL_CELLS + 1), legend, (now_text, "$muted"))]


@lru_cache(2)  # the values rarely change between two refreshes
def draw_plot_lines(
    area: tuple[float | None, ...],
    lower: tuple[float | None, ...],
    rows: int,
    top: float,
    marks: frozenset[int],
    top_label: str,
    ascii_only: bool,
) -> list[Content]:
    """Return the lines of a plot. `top_label` is the label of the upper line."""
    lines = []
    for row, runs in enumerate(plot.draw_stacked_plot(area, lower, rows, top, marks, ascii_only)):
        label = top_label if row == 0 else ("0" if row == rows - 1 else "")
        pieces = [(text, _HUES[series]) if series else text for text, series in runs]
        lines.append(Content.assemble((formats.fit_to_width(label, LABEL_CELLS, "right") + " ", "$muted"), *pieces))
    return lines


@dataclass(frozen=True, slots=True)
class _Series:
    """The data of a queue's plot. `none` is the sentence shown if there is nothing to draw."""

    area: plot.Points
    lower: plot.Points
    begin_ms: float
    end_ms: float
    words: str
    none: str = ""
    label: str = ""  # the subject of the series, in front of a sparkline
    has_clock: bool = True  # whether the points are instants
    is_level: bool = False
    write: Callable[[float | None], str] = formats.format_rate


def _choose_plot_series(details: QueueDetails) -> _Series:
    """Return the finished attempts per minute of the last hour, or the depth if no attempt finished.

    For a system without history, return the throughput of the last polls.
    """
    if details.history is None or not details.history.flows:
        polls = details.rate.history
        caption = f"out, last {formats.format_quantity(len(polls), 'refresh')}"
        return _Series(
            list(enumerate(polls)),
            (),
            0,
            max(1, len(polls)),
            caption,
            "m shows the throughput before this moment"
            if details.is_recorded
            else "no job left the queue since rqtui first saw it",
            f"out, last {formats.format_quantity(len(polls), 'refresh')}",
            has_clock=False,
        )
    # The preview's time is rounded down, so that the counters may have a minute that begins after it.
    end_ms = max(details.now_ms, max(details.history.minutes, default=0) + 1)
    begin_ms = end_ms - HISTORY_MINUTES * stats.MINUTE_MS
    minutes = stats.compute_growth_per_minute([details.history], begin_ms, end_ms)
    failed = _compute_minute_rates(minutes, "failed", end_ms)
    completed = _compute_minute_rates(minutes, "out", end_ms)
    finished = [
        (at, (value or 0) + (failures or 0)) for (at, value), (_at, failures) in zip(completed, failed, strict=True)
    ]
    begin = formats.format_clock(begin_ms)[:5]
    if any(value for _at, value in finished) or "in" not in details.history.flows:
        caption = f"{begin}   ended attempts"
        return _Series(
            finished, failed, begin_ms, end_ms, caption, "no job ended in the last hour", "ended per minute, last hour"
        )
    depths = [
        *stats.compute_unfinished_per_minute(minutes, stats.count_unfinished([details.queue])),
        (end_ms, stats.count_unfinished([details.queue])),
    ]
    caption = f"{begin}   jobs that are not done; none ended in the last hour"
    return _Series(
        depths,
        (),
        begin_ms,
        end_ms,
        caption,
        "nothing happened in the last hour",
        "unfinished jobs, last hour",
        is_level=True,
        write=_format_short_number,
    )


def _format_short_number(number: float | None) -> str:
    return formats.format_short_count(number or 0)


_HUES = {plot.AREA: "$state-ready", plot.LOWER: "$state-dead", plot.MARK: "$accented"}


def _compute_minute_rates(
    minutes: Sequence[tuple[int, Counter[str]]], name: str, end_ms: int
) -> list[tuple[float, float | None]]:
    """Return the rate of a counter for each minute.

    The last minute is incomplete, so its rate uses the elapsed seconds.
    """
    return [
        (
            minute,
            stats.sum_flow_counters(growth, name) / max(1.0, min(60.0, (end_ms - minute) / 1000)) if growth else 0.0,
        )
        for minute, growth in minutes
    ]


# -- text -----------------------------------------------------------------------------------------------------------


def build_preview_findings(
    details: QueueDetails, width: int, height: int, cursor: int | None = None
) -> list[findings.FindingLine]:
    """Build the lines of the findings of the queue with which the preview begins."""
    max_lines = max(1, height - 2 if height >= _TREND_FROM_ROWS else height)
    return findings.build_finding_lines(
        details.queue, _MAX_FINDINGS, width, details.now_ms, max_lines=max_lines, cursor=cursor
    )


def _format_places_summary(details: QueueDetails, width: int) -> list[Content]:
    """Format ages and limits of a queue, and its workers below them.

    A queue that could not be counted has none.
    """
    queue = details.queue
    if queue.error:
        return []
    ages = (
        ("oldest ready", queue.oldest_ready_ms),
        ("next due in", queue.next_due_ms if not queue.overdue else None),
        ("next lease ends in", queue.next_expiry_ms if not queue.expired else None),
    )
    texts = [f"{name} {formats.format_age(ms)}" for name, ms in ages if ms is not None]
    texts += [f"{formats.format_count(queue.overdue)} due"] if queue.overdue else []
    texts += [f"{formats.format_quantity(queue.expired, 'lease')} over"] if queue.expired else []
    dead_limit = queue.counters.get("dead_max", 0)
    texts += [f"dead limit {formats.format_long_count(dead_limit)}"] if dead_limit else []
    summary = " · ".join(texts) or "no job waits"
    lines = [
        *formats.wrap_to_width(summary, width),
        *formats.wrap_to_width(_format_worker_names(details, width), width),
    ]
    return [Content.styled(line, "$muted") for line in lines]


def _format_place_bars(details: QueueDetails, width: int) -> list[Content]:
    """Format one line per place of a queue: its number of jobs, and a bar for its share of the largest place."""
    counts = details.queue.counts
    largest = max((count.count for count in counts), default=0)
    label_cells = max((formats.cell_len(count.place) for count in counts), default=0)
    bar_cells = max(1, width - label_cells - 14)
    return [
        Content.assemble(
            (formats.fit_to_width(count.place, label_cells), f"$state-{count.state}"),
            (formats.fit_to_width(_format_place_count(count), 11, "right") + "  ", "$data"),
            ("━" * max(1, bar_cells * count.count // largest) if count.count else "", f"$state-{count.state}"),
        )
        for count in counts
    ]


def _format_place_count(count: Count) -> str:
    return formats.format_count(count.count, count.is_exact, 9) if count.is_count_known else formats.UNKNOWN


def _format_worker_names(details: QueueDetails, width: int) -> str:
    """Format the number of a queue's workers and their names, shortened until all of them fit on a line."""
    number, workers = details.queue.workers, details.workers or ()
    if number is None:
        return "its system does not count workers"
    late = [worker for worker in workers if worker.is_late(details.now_ms)]
    live = [worker for worker in workers if worker not in late]
    fit_name = elision.create_name_fitter(format_field_value(worker.name) for worker in workers)

    def format_with_names(cells: int) -> str:
        silent_text = (
            f", {formats.format_count(len(late))} silent: {_join_worker_names(late, fit_name, cells)}" if late else ""
        )
        live_text = f": {_join_worker_names(live, fit_name, cells)}" if live else ""
        return f"{formats.format_quantity(number, 'worker')}{live_text}{silent_text}"

    variants = (format_with_names(cells) for cells in _NAME_CELLS)
    return next((text for text in variants if formats.cell_len(text) <= width), format_with_names(_NAME_CELLS[-1]))


def _join_worker_names(workers: Sequence[Worker], fit: elision.Fit, cells: int) -> str:
    return " ".join(fit(format_field_value(worker.name), cells) for worker in workers[:12]) + (
        " …" if len(workers) > 12 else ""
    )


# -- causes of death -------------------------------------------------------------------------------------------


def group_causes_of_death(sample: DeadSample, taken_ms: int) -> DeathCauses:
    """Group sampled dead jobs by their error, most frequent first."""
    jobs = sample.list_jobs()
    return DeathCauses(tuple(map(_build_death_cause, errors.group_jobs(jobs))), sample.dead, len(jobs), taken_ms)


def select_causes_of_death(report: Errors, ref: Ref) -> DeathCauses | None:
    """Return the causes of a queue's failed jobs in an error report, or None if not all of its dead jobs were read."""
    dead = report.complete.get(ref)
    if dead is None:
        return None
    found, retrying = [], 0
    for group in report.groups:
        jobs = [job for job in group.jobs if Ref(job.system, job.queue) == ref]
        if jobs:
            died_ms = [job.since_ms for job in jobs if job.state is State.DEAD and job.since_ms]
            first_ms, last_ms = min(died_ms, default=group.first_ms), max(died_ms, default=group.last_ms)
            cause = _build_death_cause(group)
            found.append(replace(cause, jobs=len(jobs), first_ms=first_ms, last_ms=last_ms))
            retrying += sum(job.state is not State.DEAD for job in jobs)
    ordered = tuple(sorted(found, key=lambda cause: -cause.jobs))
    return DeathCauses(ordered, dead, dead, report.size.taken_ms, retrying)


def collect_recorded_causes(causes: Sequence[ErrorCount], dead: int) -> DeathCauses:
    """Return the recorded causes of a queue with `dead` failed jobs, as far as findings named them."""
    found = [DeathCause(cause.cause, cause.cause, "", cause.jobs, None, None, "") for cause in causes]
    return DeathCauses(tuple(found), dead, sum(cause.jobs for cause in causes), is_recorded=True)


def _build_death_cause(group: Group) -> DeathCause:
    most_common = Counter(job.name for job in group.jobs if job.name).most_common(1)
    name = most_common[0][0] if most_common else ""
    return DeathCause(group.id, group.short_message, group.frame, group.count, group.first_ms, group.last_ms, name)


def format_causes_title(causes: DeathCauses, now_ms: int) -> str:
    """Format the number of causes, the size of the sample they come from, and when it was read if not just now."""
    if not causes.causes:
        return ""
    if causes.is_recorded:
        failed = formats.format_quantity(causes.read, "failed job")
        return f"{formats.format_quantity(len(causes.causes), 'cause')} in {failed}, as findings named them"
    dead = formats.format_quantity(causes.dead, "dead job")
    jobs = dead if causes.is_complete else f"{formats.format_count(causes.read)} of {dead} read"
    jobs += f" and {formats.format_count(causes.retrying)} waiting for a retry" if causes.retrying else ""
    is_old = now_ms - causes.taken_ms >= SHOW_TIME_FROM_MS
    time_text = (
        f"{',' if causes.is_complete else ''} at {formats.format_start_time(causes.taken_ms, now_ms)}" if is_old else ""
    )
    return f"{formats.format_quantity(len(causes.causes), 'cause')} in {jobs}{time_text}"


def format_causes_of_death(causes: Sequence[DeathCause], now_ms: int, width: int, height: int) -> list[Content]:
    """Format the causes of death of a queue's jobs: in full if all of them fit, else two lines or one line each."""
    cells = max(8, width - _CAUSE_AT)
    texts = [safe(mask_text(cause.text)) or "(no error is stored)" for cause in causes]
    facts = [_format_cause_facts(cause, now_ms) for cause in causes]
    wrapped = [
        (formats.wrap_to_width(text, cells), formats.wrap_to_width(fact, cells))
        for text, fact in zip(texts, facts, strict=True)
    ]
    if sum(len(text) + len(fact) for text, fact in wrapped) > height:
        wrapped = [
            ([formats.fit_to_width(text, cells).rstrip()], [formats.fit_to_width(fact, cells).rstrip()])
            for text, fact in zip(texts, facts, strict=True)
        ]
    has_facts = 2 * len(causes) <= height
    lines: list[Content] = []
    for cause, (text_lines, fact_lines) in zip(causes[: max(1, height)], wrapped, strict=False):
        count = formats.fit_to_width(formats.format_count(cause.jobs), 7, "right")
        lines.append(Content.assemble((count, "b $state-dead"), "  ", (text_lines[0], "$data")))
        lines += [Content.styled(" " * _CAUSE_AT + line, "$data") for line in text_lines[1:]]
        lines += [Content.styled(" " * _CAUSE_AT + line, "$muted") for line in fact_lines if has_facts]
    return lines


def _format_cause_facts(cause: DeathCause, now_ms: int) -> str:
    """Format where a cause of death was raised, when it was seen first and last, and its most frequent job name."""
    ages = [
        f"{name} {formats.format_age_since(at_ms, now_ms)} ago"
        for name, at_ms in (("first", cause.first_ms), ("last", cause.last_ms))
        if at_ms is not None
    ]
    return " · ".join(filter(None, [safe(cause.frame), *ages, format_field_value(cause.kind)]))


# -- a group of queues -----------------------------------------------------------------------------------------------


def build_group_preview(
    totals: QueueDetails, queues: Sequence[Queue], width: int, height: int, *, ascii_only: bool = False
) -> list[Content]:
    """Build the preview of a group of queues: their totals and the verdict of each queue, worst first."""
    place_lines = [*_format_places_summary(totals, width), *_format_place_bars(totals, width)]
    min_rows = 1 + len(place_lines) + 2  # rows without verdicts: the rates, and an empty line before each part
    ranked = sorted(queues, key=lambda queue: (_SEVERITY_RANKS.get(queue.verdict.severity, 0), queue.name))
    shown = ranked[: max(1, min(_MAX_FINDINGS, height - min_rows - 1))]
    hidden_count = len(ranked) - len(shown)
    verdict_lines = [_format_verdict(queue, width) for queue in shown]
    verdict_lines += (
        [Content.styled(f"and {formats.format_quantity(hidden_count, 'more queue')}", "$muted")] if hidden_count else []
    )
    plot_rows = height - min_rows - len(verdict_lines)
    plot_lines = (
        [*build_queue_plot(totals, width, plot_rows - 1, ascii_only=ascii_only), Content()]
        if plot_rows - 1 >= _MIN_PLOT_ROWS
        else [Content()]
    )
    return [format_rates_line(totals, width), *plot_lines, *verdict_lines, Content(), *place_lines][: max(1, height)]


def _format_verdict(queue: Queue, width: int) -> Content:
    return Content.assemble(
        (f"{formats.SEVERITY_SIGNS[queue.verdict.severity]} ", f"${HUES[queue.verdict.severity]}"),
        (formats.fit_to_width(safe(queue.name), min(32, width // 3)), "$strong"),
        ("  " + formats.fit_to_width(safe(queue.verdict.text), max(8, width - 36)).rstrip(), "$muted"),
    )


def merge_causes_of_death(causes: Sequence[DeathCauses], dead: int) -> DeathCauses:
    """Merge the causes of death of several queues with `dead` dead jobs together, most frequent first."""
    merged: dict[str, DeathCause] = {}
    for cause in (cause for causes_of_queue in causes for cause in causes_of_queue.causes):
        previous = merged.get(cause.id)
        merged[cause.id] = _add_causes(previous, cause) if previous else cause
    ordered = tuple(sorted(merged.values(), key=lambda cause: -cause.jobs))
    retrying = sum(each.retrying or 0 for each in causes)
    taken_ms = min((each.taken_ms for each in causes), default=0)
    return DeathCauses(ordered, dead, sum(each.read for each in causes), taken_ms, retrying)


def _add_causes(cause: DeathCause, other: DeathCause) -> DeathCause:
    first = min((ms for ms in (cause.first_ms, other.first_ms) if ms is not None), default=None)
    last = max((ms for ms in (cause.last_ms, other.last_ms) if ms is not None), default=None)
    return replace(cause, jobs=cause.jobs + other.jobs, first_ms=first, last_ms=last)


_SEVERITY_RANKS = {"critical": -3, "warning": -2, "unknown": -1}
