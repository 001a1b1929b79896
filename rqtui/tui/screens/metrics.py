"""Plot throughput, failures, waiting time and depth of one or several queues over time, with marks at changes.

The counters per minute are read once, one queue per round trip. Each refresh then reads the last two minutes, and takes
a sample of the age of the oldest ready job, which has no counter. Days and weeks, and queues without counters, are read
from the recording of this session once a minute, on the recorder's thread.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual.app import ComposeResult, RenderResult
from textual.containers import Grid
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget

from rqtui.engine import history as stats
from rqtui.engine.engine import Engine
from rqtui.engine.history import Day, History
from rqtui.engine.ticker import CallFinished
from rqtui.model import Focus, Queue, Ref, Snapshot, State
from rqtui.reports.course import CHANGE, FINDING, MARK_SIGNS, Mark, build_marks
from rqtui.system_base.system import Request
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.target import Target
from rqtui.tui.view import View, find_only_queue
from rqtui.tui.widgets import frame, plot
from rqtui.tui.widgets.plot import AREA, LINE, Points

if TYPE_CHECKING:
    from rqtui.recording.flows import MinuteTotals
    from rqtui.recording.store import Writer

MAX_QUEUES = 50  # queues plotted together
AREA_SIGN, LINE_SIGN = "▆", "┄"  # the legend of a plot, in its title: the filled part and the dotted line
TITLE_FRAME_CELLS = 6  # cells of the frame's top line that its title cannot use
LABEL_CELLS = 6  # cells of the label beside a plot
FAST_REDRAW_MINUTES, SLOW_REDRAW_MS = 60, 10_000  # plots of more minutes are redrawn every 10 s only: a day takes 20 ms
RANGES: tuple[tuple[str, int], ...] = (("5 min", 5), ("1 hour", 60), ("1 day", 1440))  # minutes
RECORDED_RANGES: tuple[tuple[str, int], ...] = (("7 days", 7 * 1440), ("30 days", 30 * 1440))
DAY_RANGE = RECORDED_RANGES[-1]  # also of a system that counts by the day
_SHORT_LABELS = {5: "5m", 60: "1h", 1440: "1d", 7 * 1440: "7d", 30 * 1440: "30d"}  # by the minutes of a range
RECORDED_INTERVAL_S = 60.0  # between two reads of the recording
MARK_ROWS_FROM = 5  # rows of a plot with a row of marks


@dataclass(frozen=True, slots=True)
class Sample:
    """The totals of all plotted queues at one refresh; the rates are those since the refresh before."""

    at_ms: int
    in_s: float | None = None
    out_s: float | None = None
    failed_s: float | None = None
    depth: int = 0
    oldest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """The data of one plot: its title, its series of points with their labels, and the format of its values."""

    title: str
    area: Points = ()
    line: Points = ()
    area_label: str = ""
    line_label: str = ""
    hue: str = "$data"
    format_value: Callable[[float], str] = formats.format_short_count
    note: str = ""
    is_level: bool = False  # whether the values are a depth or an age, not a rate


class RecordedRange(NamedTuple):
    """What was read from the recording for one time range: its length in minutes, the steps, and the marks."""

    minutes: int
    totals: tuple[MinuteTotals, ...]
    marks: tuple[Mark, ...]


class PlotPane(Widget):
    """A framed plot of queue metrics with its axes."""

    DEFAULT_CSS = "PlotPane { height: 1fr; padding: 0 1; }"

    def __init__(self, id: str, ascii_only: bool) -> None:
        super().__init__(id=id, classes="pane")
        self._chart, self._begin_ms, self._end_ms = Chart(""), 0.0, 1.0
        self._marks: Sequence[Mark] = ()
        self._ascii_only = ascii_only

    def show_chart(self, chart: Chart, begin_ms: float, end_ms: float, marks: Sequence[Mark] = ()) -> None:
        """Draw a chart for the time from `begin_ms` to `end_ms`, with the last values in the frame's title."""
        self._chart, self._begin_ms, self._end_ms, self._marks = chart, begin_ms, end_ms, marks
        titles = [_format_chart_title(chart, *blanks) for blanks in _TITLE_BLANKS]
        cells = self.outer_size.width - TITLE_FRAME_CELLS
        self.border_title = next((title for title in titles if title.cell_length <= cells), titles[-1])
        self.border_subtitle = Content.styled(f" {chart.note} ", "$muted") if chart.note else Content()
        self.refresh()

    def render(self) -> RenderResult:
        """Render the plot of the current chart above its time axis."""
        width, height = self.content_size.width - LABEL_CELLS - 1, self.content_size.height - 1
        has_marks = bool(self._marks) and height >= MARK_ROWS_FROM
        height -= has_marks
        if width < 4 or height < 1:
            return Content()
        dot_columns = width * (1 if self._ascii_only else 2)
        is_level = self._chart.is_level
        area = plot.resample_points(self._chart.area, self._begin_ms, self._end_ms, dot_columns, is_level=is_level)
        line = plot.resample_points(self._chart.line, self._begin_ms, self._end_ms, dot_columns)
        values = [value for value in (*area, *line) if value is not None]
        if not values:
            return Content.styled("nothing is known of this time yet", "$muted")
        top = plot.round_axis_maximum(max(values))
        styles = {AREA: self._chart.hue, LINE: "$strong", "": ""}
        lines = []
        for row, runs in enumerate(plot.draw_plot(area, line, height, top, self._ascii_only)):
            label = self._chart.format_value(top) if row == 0 else ("0" if row == height - 1 else "")
            styled_runs = [(text, styles[series]) if styles[series] else text for text, series in runs]
            lines.append(
                Content.assemble((formats.fit_to_width(label, LABEL_CELLS, "right") + " ", "$muted"), *styled_runs)
            )
        if has_marks:
            lines.append(Content.assemble(" " * (LABEL_CELLS + 1), *self._build_mark_pieces(width)))
        lines.append(Content.styled(" " * (LABEL_CELLS + 1) + self._format_time_axis(width), "$muted"))
        return Content("\n").join(lines)

    def _build_mark_pieces(self, width: int) -> list[tuple[str, str]]:
        """Return the cells of the row of marks, each with its style. A finding hides a change in the same cell."""
        cells = [(" ", "$muted")] * width
        step_ms = (self._end_ms - self._begin_ms) / width
        for mark in sorted(self._marks, key=lambda mark: mark.kind == FINDING):
            style = "$state-dead" if mark.kind == FINDING else "$strong"
            cells[min(width - 1, int((mark.at_ms - self._begin_ms) / step_ms))] = MARK_SIGNS[mark.kind], style
        return cells

    def _format_time_axis(self, width: int) -> str:
        times_ms = (self._begin_ms, (self._begin_ms + self._end_ms) / 2, self._end_ms)
        if self._end_ms - self._begin_ms > 2 * stats.DAY_MS:
            begin, middle, end = (stats.format_date(at_ms)[5:] for at_ms in times_ms)
        else:
            begin, middle, end = (formats.format_clock(at_ms)[:5] for at_ms in times_ms)
        middle = middle if width >= 24 else ""
        return begin + middle.center(max(0, width - len(begin) - len(end))) + end


class Metrics(View):
    """The view of four plots of queue metrics, or two on a small terminal."""

    NAME = "metrics"
    AUTO_FOCUS = ""  # no widget of this view handles keys
    DEFAULT_CSS = """
    #plots { grid-size: 2; grid-gutter: 0; height: 1fr; }
    #plots.-small { grid-size: 1; }
    #plots.-small > #failures, #plots.-small > #wait { display: none; }
    """

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self._initial_refs = refs
        self._refs: tuple[Ref, ...] = ()
        self._left_out_count = 0
        self._range_index = 0
        self._drawn_ms = 0
        self._loaded_minutes = 0  # minutes loaded or being loaded
        self._histories: dict[Ref, History] = {}
        self._requests: dict[Ref, Request[History]] = {}
        self._days: dict[str, tuple[Day, ...]] = {}  # by system: the runs of all of its queues
        self._samples: deque[Sample] = deque(maxlen=3000)
        self._previous_counters: tuple[int, Counter[str]] | None = None
        self._snapshot: Snapshot | None = None
        self._recorded: tuple[MinuteTotals, ...] = ()  # the recorded steps of the chosen range
        self._recorded_minutes = 0  # the length of that range; 0: nothing was read yet
        self._marks: tuple[Mark, ...] | None = None  # of the recording; None: nothing was read yet
        self._next_recorded_s = 0.0
        self._recording_problem = ""  # why the recording could not be read last
        self._recorded_requests: dict[int, tuple[Request[tuple[MinuteTotals, ...]], ...]] = {}  # by range in minutes
        self._mark_requests: dict[int, tuple[Request[tuple[Mark, ...]], ...]] = {}  # by range in minutes

    def compose_view(self) -> ComposeResult:
        """Create the four plots of queue metrics."""
        candidates = self._initial_refs or tuple(self.session.refs)
        self._refs, self._left_out_count = (
            self.select_busiest_queues(candidates, MAX_QUEUES),
            max(0, len(candidates) - MAX_QUEUES),
        )
        ascii_only = self.session.settings.is_ascii
        with Grid(id="plots"):
            for name in ("throughput", "depth", "failures", "wait"):
                yield PlotPane(name, ascii_only)

    def on_mount(self) -> None:
        """Load the counters of the shortest time range."""
        self._arrange_plots()
        self._load_counters()

    def on_resize(self, event: Resize) -> None:
        """Show two plots on a small terminal, else four."""
        self._arrange_plots()

    def _arrange_plots(self) -> None:
        width, height = self.app.size
        self.query_one("#plots").set_class(width < 72 or height < 18, "-small")

    # -- data ---------------------------------------------------------------------------------------------------------

    @property
    def _ranges(self) -> tuple[tuple[str, int], ...]:
        """The time ranges that can be chosen: with a recording also weeks, with counts by the day also 30 days."""
        if self.session.is_replay or self.session.has_recording:
            return (*RANGES, *RECORDED_RANGES)
        return (*RANGES, DAY_RANGE) if self._systems_with_days else RANGES

    @property
    def _is_range_by_days(self) -> bool:
        """Whether the chosen range is drawn from the counts by the day of a system."""
        return self._minutes == DAY_RANGE[1] and bool(self._systems_with_days)

    @property
    def _is_range_recorded(self) -> bool:
        """Whether the chosen range is drawn from the recording: weeks, and hours of queues without counters."""
        if not self.session.has_recording or self._minutes < RANGES[1][1] or self._is_range_by_days:
            return False
        return self._minutes > stats.MAX_MINUTES or not self._count_counting_queues()

    def _count_counting_queues(self) -> int:
        """Return how many of the plotted queues have counters per minute, as far as is known."""
        return sum(ref not in self._histories or bool(self._histories[ref].flows) for ref in self._queues_with_counters)

    def _load_recorded(self) -> None:
        """Read the marks of the chosen range from the recording, and its steps if it is drawn from them."""
        if self._snapshot is None or not self.session.has_recording:
            return
        self._next_recorded_s = time.monotonic() + RECORDED_INTERVAL_S
        refs, minutes, end_ms, is_drawn = self._refs, self._minutes, self._snapshot.taken_ms, self._is_range_recorded
        journal = self.session.journal

        def read_range(store: Writer) -> RecordedRange:
            from rqtui.recording.course import read_marks
            from rqtui.recording.flows import read_totals

            begin_ms = end_ms - minutes * stats.MINUTE_MS
            totals = read_totals(store, refs, begin_ms, end_ms) if is_drawn else ()
            operations = [*journal.operations, *journal.load_earlier_operations()]
            marks = read_marks(store, refs, begin_ms, end_ms, operations, journal.load_sightings())
            return RecordedRange(minutes, totals, marks)

        self.session.read_recording(read_range, self._store_recorded)

    def _store_recorded(self, recorded: RecordedRange | None, problem: str) -> None:
        is_new_problem, self._recording_problem = problem not in ("", self._recording_problem), problem
        if recorded is None:
            if is_new_problem:
                self.host.show_toast(f"The recording cannot be read: {problem}", "warning")
        elif recorded.minutes == self._minutes:
            self._recorded_minutes, self._recorded, self._marks = recorded
            if self.is_drawn:
                self._draw_charts()

    def _list_marks(self, begin_ms: int, end_ms: int) -> Sequence[Mark]:
        """Return the marks of the plotted queues: of the recording, or without one of this session."""
        if self._marks is not None:
            return self._marks
        journal = self.session.journal
        operations, sightings = journal.operations, journal.sightings
        return [mark for ref in self._refs for mark in build_marks(ref, begin_ms, end_ms, operations, sightings)]

    @property
    def _minutes(self) -> int:
        """The length of the chosen time range in minutes."""
        return self._ranges[min(self._range_index, len(self._ranges) - 1)][1]

    @property
    def _systems_with_days(self) -> dict[str, Ref]:
        """One queue of each system that counts its runs by the day, by the name of the system."""
        systems = self.session.systems
        return {
            ref.system: ref
            for ref in self._refs
            if ref.system in systems and stats.has_daily_counters(systems[ref.system])
        }

    def _load_days(self) -> None:
        """Load the runs of the last days of each system that counts them, in one round trip."""
        refs, now_ms = self._systems_with_days, self._samples[-1].at_ms if self._samples else 0
        if refs and now_ms:
            requests = [
                partial(stats.build_days_request, self.session.systems[name], ref.queue, now_ms)
                for name, ref in refs.items()
            ]
            self.session.call_engine(lambda engine: engine.send_requests_isolated(requests), self._store_days)

    def _store_days(self, message: CallFinished) -> None:
        for name, days in zip(self._systems_with_days, message.result or (), strict=False):
            if isinstance(days, tuple):
                self._days[name] = days
        if self.is_drawn:
            self._draw_charts()

    @property
    def _queues_with_counters(self) -> list[Ref]:
        """The plotted queues whose system stores counters per minute."""
        systems = self.session.systems
        return [ref for ref in self._refs if ref.system in systems and stats.has_history(systems[ref.system])]

    def _load_counters(self) -> None:
        """Load the counters of the current time range, one queue per round trip, unless they are loaded already."""
        refs, minutes = self._queues_with_counters, self._minutes + 1
        if self._loaded_minutes >= minutes or not refs:
            return
        self._loaded_minutes = minutes

        def yield_histories(engine: Engine) -> Iterator[History]:
            for ref in refs:
                yield from engine.send_requests_isolated(
                    [partial(stats.build_history_request, engine.systems[ref.system], ref.queue, minutes)]
                )

        self.session.run_steps(yield_histories, self._store_counters)

    def _store_counters(self, message: CallFinished) -> None:
        if message.error:
            self._loaded_minutes = 0
        elif isinstance(message.result, History):
            self._merge_history(message.result)
            if self.is_drawn:
                self._draw_charts()

    def _merge_history(self, history: History) -> None:
        cached = self._histories.get(history.ref)
        self._histories[history.ref] = cached.merge(history) if cached else history

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request at each refresh the counts of the plotted queues, and their counters of the last two minutes."""
        if self.session.is_replay:
            return Focus(
                self._refs, requests={"recorded": self._build_recorded_requests(), "marks": self._build_mark_requests()}
            )
        systems = self.session.systems
        for ref in self._queues_with_counters:
            if ref not in self._requests:
                self._requests[ref] = stats.build_history_request(systems[ref.system], ref.queue, 2)
        return Focus(self._refs, requests={"history": tuple(self._requests.values())})

    def _build_recorded_requests(self) -> tuple[Request[tuple[MinuteTotals, ...]], ...]:
        """Return the cached request for the recorded minutes of the chosen range; none without a recording."""
        engine, minutes = self.session.engine, self._minutes
        if minutes not in self._recorded_requests and engine is not None:
            self._recorded_requests[minutes] = (engine.build_minutes_request(self._refs, minutes),)  # type: ignore[attr-defined]
        return self._recorded_requests.get(minutes, ())

    def _build_mark_requests(self) -> tuple[Request[tuple[Mark, ...]], ...]:
        """Return the cached request for the marks of the chosen range; none without a recording."""
        engine, minutes = self.session.engine, self._minutes
        if minutes not in self._mark_requests and engine is not None:
            self._mark_requests[minutes] = (engine.build_marks_request(self._refs, minutes),)  # type: ignore[attr-defined]
        return self._mark_requests.get(minutes, ())

    def _draw_recorded_charts(self, snapshot: Snapshot) -> None:
        """Draw the minutes of a recording before its moment, if the snapshot has those of the chosen range."""
        for totals in snapshot.results.get("recorded", ()):
            if isinstance(totals, tuple):
                self._recorded = totals
        for marks in snapshot.results.get("marks", ()):
            if isinstance(marks, tuple):
                self._marks = marks
        end_ms = snapshot.taken_ms
        begin_ms = end_ms - self._minutes * stats.MINUTE_MS
        self._show_charts(build_recorded_charts(self._recorded, begin_ms, end_ms), begin_ms, end_ms)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Add a sample of a new snapshot, merge the last two minutes, and redraw the plots.

        Plots of long time ranges are redrawn every 10 s only.
        """
        self._snapshot = snapshot
        if self.session.is_replay:
            self._draw_recorded_charts(snapshot)
            return
        queues = [queue for ref in self._refs if (queue := snapshot.find_queue(ref)) is not None]
        if len(queues) == len(self._refs) and queues:
            self._add_sample(snapshot.taken_ms, queues)
        if not self._loaded_minutes:
            self._load_counters()
        if time.monotonic() >= self._next_recorded_s:
            self._load_recorded()
        for history in snapshot.results.get("history", ()):
            if isinstance(history, History) and history.ref in self._histories:
                self._merge_history(history)
        if (
            self._minutes <= FAST_REDRAW_MINUTES
            or not self._samples
            or self._samples[-1].at_ms - self._drawn_ms >= SLOW_REDRAW_MS
        ):
            self._draw_charts()

    def _add_sample(self, at_ms: int, queues: list[Queue]) -> None:
        if self._samples and at_ms <= self._samples[-1].at_ms:
            return
        counters: Counter[str] = Counter()
        for queue in queues:
            counters.update(dict(queue.counters))
        previous, self._previous_counters = self._previous_counters, (at_ms, counters)
        ages = [queue.oldest_ready_ms for queue in queues if queue.oldest_ready_ms is not None]
        oldest_ms = (
            max(ages) if ages else (0 if any(queue.count_in_state(State.READY) == 0 for queue in queues) else None)
        )
        depth = stats.count_unfinished(queues)
        if previous is None:
            self._samples.append(Sample(at_ms, depth=depth, oldest_ms=oldest_ms))
            return
        seconds = max(0.001, (at_ms - previous[0]) / 1000)
        in_s, out_s, failed_s = (
            max(0, counters[name] - previous[1][name]) / seconds if name in counters and name in previous[1] else None
            for name in ("in", "out", "failed")
        )
        # A rate is that of the time before the refresh at which it was computed.
        self._samples.append(Sample(at_ms, in_s, out_s, failed_s, depth, oldest_ms))

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw_charts(self) -> None:
        if not self._samples:
            return
        end_ms = self._drawn_ms = self._samples[-1].at_ms
        begin_ms = end_ms - self._minutes * stats.MINUTE_MS
        if self._is_range_recorded:
            recorded = self._recorded if self._recorded_minutes == self._minutes else ()
            self._show_charts(build_recorded_charts(recorded, begin_ms, end_ms), begin_ms, end_ms)
        else:
            self._show_charts(self._build_charts(begin_ms, end_ms), begin_ms, end_ms)

    def _show_charts(self, charts: Sequence[Chart], begin_ms: int, end_ms: int) -> None:
        """Draw the charts with their marks. The frame of the first one explains the signs of the marks."""
        marks = [mark for mark in self._list_marks(begin_ms, end_ms) if begin_ms <= mark.at_ms < end_ms]
        kinds = {mark.kind for mark in marks}
        legend = [f"{MARK_SIGNS[kind]} {kind}" for kind in (FINDING, CHANGE) if kind in kinds]
        first = replace(charts[0], note=" · ".join(filter(None, (charts[0].note, *legend))))
        for pane, chart in zip(self.query(PlotPane), (first, *charts[1:]), strict=True):
            pane.show_chart(chart, begin_ms, end_ms, marks)
        self.host.show_header()

    def _build_charts(self, begin_ms: int, end_ms: int) -> tuple[Chart, ...]:
        """Build the four charts: from counters per minute, and in the shortest time range also from samples."""
        if self._is_range_by_days:
            return self._build_day_charts(end_ms)
        histories = [history for history in self._histories.values() if history.flows]
        minutes = stats.compute_growth_per_minute(histories, begin_ms, end_ms) if histories else []
        flows = stats.list_common_flows(histories)
        minutes_of = {name: minutes if name in flows else [] for name in stats.FLOWS}
        depth = self._samples[-1].depth
        minute_depths: Points = stats.compute_unfinished_per_minute(minutes_of["in"], depth)
        if self._range_index == 0:
            first_sample_ms = self._samples[0].at_ms
            samples = list(self._samples)
            in_s, out_s, failed_s = (
                [
                    *_compute_minute_rates(minutes_of[name], name, end_ms, first_sample_ms),
                    *((sample.at_ms, getattr(sample, f"{name}_s")) for sample in samples[1:]),
                ]
                for name in ("in", "out", "failed")
            )
            depths: Points = [
                *(point for point in minute_depths if point[0] < first_sample_ms),
                *((sample.at_ms, sample.depth) for sample in samples),
            ]
            oldest: Points = [(sample.at_ms, sample.oldest_ms) for sample in samples]
            wait = Chart(
                "oldest ready",
                oldest,
                area_label="waits",
                format_value=_format_time_span,
                note="recorded while this view is open",
                is_level=True,
            )
        else:
            in_s, out_s, failed_s = (
                _compute_minute_rates(minutes_of[name], name, end_ms) for name in ("in", "out", "failed")
            )
            depths = [*minute_depths, (end_ms, depth)]
            backlog = [
                (at_ms, 1000 * (depth_then or 0) / out_then if out_then else None)
                for (at_ms, depth_then), (_at, out_then) in zip(minute_depths, out_s, strict=False)
            ]
            wait = Chart(
                "backlog in time",
                backlog,
                area_label="takes",
                format_value=_format_time_span,
                note="not done ÷ out per second",
                is_level=True,
            )
        peak = max((value for _at, value in (*out_s, *in_s) if value is not None), default=0.0)
        failed_count = sum(stats.sum_flow_counters(grown, "failed") for _minute, grown in minutes)
        completed_count = sum(stats.sum_flow_counters(grown, "out") for _minute, grown in minutes)
        unit = "attempts" if "in" in flows else "jobs"  # BullMQ counts a job once, when it ended
        failure_text = (
            f"{formats.format_count(failed_count)} of {formats.format_count(failed_count + completed_count)} {unit}"
            if minutes
            else ""
        )
        return (
            Chart("throughput", out_s, in_s, "out", "in", "$state-ready", _format_rate, f"most {_format_rate(peak)}"),
            Chart("depth", depths, area_label="not done", note="scheduled, ready, reserved", is_level=True),
            Chart(
                "failures",
                failed_s,
                area_label="failing",
                hue="$state-dead",
                format_value=_format_rate,
                note=failure_text,
            ),
            wait,
        )

    def _build_day_charts(self, end_ms: int) -> tuple[Chart, ...]:
        """Build the charts from the runs per day, of all queues of the systems that count them; others are unknown."""
        processed, failed = Counter[int](), Counter[int]()
        for day in (day for days in self._days.values() for day in days):
            processed[day.begin_ms] += day.processed
            failed[day.begin_ms] += day.failed
        out_s, failed_s = (
            [
                (at_ms, number / (min(stats.DAY_MS, max(1000, end_ms - at_ms)) / 1000))
                for at_ms, number in sorted(many.items())
            ]
            for many in (processed, failed)
        )
        runs = f"{formats.format_count(failed.total())} of {formats.format_count(processed.total())} runs"
        names = " and ".join(self._systems_with_days)
        depth: Points = [(end_ms, self._samples[-1].depth)]
        return (
            Chart(
                "throughput",
                out_s,
                area_label="ran",
                hue="$state-ready",
                format_value=_format_rate,
                note=f"all queues of {names}",
            ),
            Chart("depth", depth, area_label="not done", note="scheduled, ready, reserved", is_level=True),
            Chart("failures", failed_s, area_label="failing", hue="$state-dead", format_value=_format_rate, note=runs),
            Chart(
                "backlog in time",
                area_label="takes",
                format_value=_format_time_span,
                note="is not counted by the day",
                is_level=True,
            ),
        )

    def build_second_line(self, width: int) -> frame.Sides:
        """Return the plotted queues and the time ranges for the header."""
        is_selection = self._left_out_count > 0
        if only := find_only_queue(self._refs):
            name = formats.elide_middle(safe(only.queue), max(12, width // 3))
        else:
            name = f"{'the ' * is_selection}{len(self._refs)} {'busiest ' * is_selection}queues together"
            name = name if self._refs else "no queues yet"
        counting_queues = self._count_counting_queues()
        missing_text = (
            "   recorded"
            if self._is_range_recorded
            else ""
            if self.session.is_replay or counting_queues == len(self._refs)
            else "   counted by the day"
            if not counting_queues and self._systems_with_days
            else "   counts nothing by the minute"
            if not counting_queues
            else "   some count nothing"
        )
        left_out_text = f"   {self._left_out_count} more are left out" if is_selection else ""
        left = Content.assemble((name, "b $strong"), (missing_text + left_out_text, "$muted"))
        labels = [f" {label}" for label, _minutes in self._ranges]
        short_labels = [_SHORT_LABELS[minutes] for _label, minutes in self._ranges]
        sides = [(left, self._format_ranges(labels, "  ")), (left, self._format_ranges(short_labels, " "))]
        return frame.choose_first_fitting(iter(sides), width)

    def _format_ranges(self, labels: Sequence[str], gap: str) -> Content:
        """Format the time ranges with their keys; the chosen one is bright."""
        chosen = min(self._range_index, len(labels) - 1)
        pieces = [
            Content.assemble((f"{number}:", "$accented"), (label, "b $strong" if number == chosen + 1 else "$muted"))
            for number, label in enumerate(labels, 1)
        ]
        return Content(gap).join(pieces)

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queues for which the view of metrics was opened."""
        return self._initial_refs

    def build_target(self) -> Target:
        """Return the queue as the target of a verb, if the view plots only one queue."""
        ref = find_only_queue(self._refs)
        return Target(ref, queue=self._snapshot.find_queue(ref) if ref and self._snapshot else None)

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the plots while the connection is lost, or restore them."""
        self.query_one("#plots").set_class(is_dim, "-dimmed")

    # -- keys ---------------------------------------------------------------------------------------------------------

    def count_numbered_items(self) -> int:
        """Return the number of time ranges, which the number keys select."""
        return len(self._ranges)

    def action_place(self, number: int) -> None:
        """Switch the plots to the time range with this number."""
        if number <= len(self._ranges):
            self._range_index = number - 1
            if self.session.is_replay:
                self.host.request_refresh()
                return
            self._load_counters()
            self._load_recorded()
            if self._is_range_by_days:
                self._load_days()
            self._draw_charts()
            self.host.show_header()

    def action_page(self, step: int) -> None:
        """Switch the plots to the next longer or shorter time range."""
        self.action_place(1 + max(0, min(len(self._ranges) - 1, self._range_index + step)))


def build_recorded_charts(totals: Sequence[MinuteTotals], begin_ms: int, end_ms: int) -> tuple[Chart, ...]:
    """Build the four charts from the minutes and hours of a recording. A gap is unknown, and no value is 0 there.

    A note names the part of the time that was watched.
    """
    rates: dict[str, list[tuple[float, float | None]]] = {name: [] for name in ("enqueued", "completed", "failed")}
    depths: list[tuple[float, float | None]] = []
    oldest: list[tuple[float, float | None]] = []
    previous_end_ms = begin_ms
    for minute in totals:
        gap: list[tuple[float, float | None]] = [(previous_end_ms, None)] if minute.at_ms > previous_end_ms else []
        for name, points in rates.items():
            seconds = minute.watched_ms / 1000
            points += [*gap, (minute.at_ms, getattr(minute, name) / seconds if seconds else None)]
        depths += [*gap, (minute.at_ms, minute.unfinished)]
        oldest += [*gap, (minute.at_ms, minute.oldest_ready_ms)]
        previous_end_ms = minute.at_ms + minute.span_ms
    if totals and end_ms > previous_end_ms + stats.MINUTE_MS:
        for known in (*rates.values(), depths, oldest):
            known.append((previous_end_ms, None))
    watched_ms, span_ms = sum(minute.watched_ms for minute in totals), end_ms - begin_ms
    part = f"{formats.format_age(min(watched_ms, span_ms))} of {formats.format_age(span_ms)} watched"
    peak = max((value for name in ("enqueued", "completed") for _at, value in rates[name] if value), default=0.0)
    failed, completed = sum(minute.failed for minute in totals), sum(minute.completed for minute in totals)
    share = f"{formats.format_count(failed)} of {formats.format_count(failed + completed)} attempts" if totals else ""
    out, in_, most = rates["completed"], rates["enqueued"], f"most {_format_rate(peak)}, {part}"
    return (
        Chart("throughput", out, in_, "out", "in", "$state-ready", _format_rate, most),
        Chart("depth", depths, area_label="not done", note="scheduled, ready, reserved", is_level=True),
        Chart(
            "failures",
            rates["failed"],
            area_label="failing",
            hue="$state-dead",
            format_value=_format_rate,
            note=share,
        ),
        Chart("oldest ready", oldest, area_label="waits", format_value=_format_time_span, is_level=True),
    )


def _compute_minute_rates(
    minutes: list[tuple[int, Counter[str]]], name: str, end_ms: int, until_ms: int | None = None
) -> list[tuple[float, float | None]]:
    """Return the rate per second of each minute that began before `until_ms`, for one counter of the queues.

    The last minute is not over yet, so its rate is computed over its seconds so far.
    """
    return [
        (minute, stats.sum_flow_counters(growth, name) / max(1.0, min(60.0, (end_ms - minute) / 1000)))
        for minute, growth in minutes
        if until_ms is None or minute < until_ms
    ]


_TITLE_BLANKS = ((" ", "  ", " "), ("", " ", " "), ("", " ", ""))  # at the ends, before a sign, and after a sign


def _format_chart_title(chart: Chart, end: str, before: str, after: str) -> Content:
    """Return the title of a plot and its legend: the sign, the label and the last value of each series."""
    series = [
        (AREA_SIGN, chart.area_label, chart.area, chart.hue),
        (LINE_SIGN, chart.line_label, chart.line, "$strong"),
    ]
    parts = [
        Content.assemble(
            before,
            (f"{sign}{after}", hue),
            (f"{label} ", "$muted"),
            (_format_last_value(points, chart), hue),
        )
        for sign, label, points, hue in series
        if label
    ]
    return Content.assemble(end, (chart.title, "b $strong"), *parts, end)


def _format_last_value(points: Points, chart: Chart) -> str:
    value = points[-1][1] if points else None
    return chart.format_value(value) if value is not None else formats.NONE


def _format_rate(value: float) -> str:
    return formats.format_rate(value)


def _format_time_span(ms: float) -> str:
    return formats.format_age(ms) if ms >= 1000 else f"{ms:.0f}ms"
