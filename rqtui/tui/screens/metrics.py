"""Metrics: throughput, failures, waiting time and depth of a queue, or of several together, as plots over time.

The minutes come once, a queue per round trip, from the counters that the scripts keep; after that each tick brings
the last two, and a sample of its own for what no counter tells: how long the oldest ready job waits.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from textual.app import ComposeResult, RenderResult
from textual.containers import Grid
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget

from rqtui.engine import history as stats
from rqtui.engine.engine import Engine
from rqtui.engine.history import History
from rqtui.engine.ticker import Answered
from rqtui.layout.layout import Ask
from rqtui.model import Focus, Queue, Ref, Snapshot, State
from rqtui.text import formats
from rqtui.text.sanitise import safe
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome, plot
from rqtui.tui.widgets.plot import AREA, LINE, Points

QUEUES = 50  # that are counted together
LABEL = 6  # cells beside a plot
SHORT, LONG_MS = 60, 10_000  # plots of more minutes are drawn less often: a day takes 20 ms
RANGES: tuple[tuple[str, int], ...] = (("5 min", 5), ("1 hour", 60), ("1 day", 1440))  # minutes


@dataclass(frozen=True, slots=True)
class Sample:
    """What one tick saw of all queues together; the rates are those since the tick before."""

    at_ms: int
    in_s: float | None = None
    out_s: float | None = None
    failed_s: float | None = None
    depth: int = 0
    oldest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot: what it is called, its series and what they are called, and how a value is written."""

    title: str
    area: Points = ()
    line: Points = ()
    area_words: str = ""
    line_words: str = ""
    hue: str = "$data"
    write: Callable[[float], str] = formats.short_count
    note: str = ""
    is_level: bool = False  # a depth or an age rather than a rate


class PlotPane(Widget):
    """A framed plot with its axes."""

    DEFAULT_CSS = "PlotPane { height: 1fr; padding: 0 1; }"

    def __init__(self, id: str, ascii_only: bool) -> None:
        super().__init__(id=id, classes="pane")
        self._chart, self._begin_ms, self._end_ms = Chart(""), 0.0, 1.0
        self._ascii_only = ascii_only

    def show(self, chart: Chart, begin_ms: float, end_ms: float) -> None:
        """Draws it; the last values stand in the frame's title."""
        self._chart, self._begin_ms, self._end_ms = chart, begin_ms, end_ms
        pieces: list[Content] = [Content.styled(f" {chart.title} ", "b $strong")]
        if chart.area_words:
            pieces.append(Content.assemble((f" {chart.area_words} ", "$muted"), (_last(chart.area, chart), chart.hue)))
        if chart.line_words:
            pieces.append(Content.assemble((f"  {chart.line_words} ", "$muted"), (_last(chart.line, chart), "$strong")))
        self.border_title = Content.assemble(*pieces, " ")
        self.border_subtitle = Content.styled(f" {chart.note} ", "$muted") if chart.note else Content()
        self.refresh()

    def render(self) -> RenderResult:
        """The plot above its time axis."""
        width, height = self.content_size.width - LABEL - 1, self.content_size.height - 1
        if width < 4 or height < 1:
            return Content()
        dots = width * (1 if self._ascii_only else 2)
        level = self._chart.is_level
        area = plot.columns(self._chart.area, self._begin_ms, self._end_ms, dots, is_level=level)
        line = plot.columns(self._chart.line, self._begin_ms, self._end_ms, dots)
        known = [value for value in (*area, *line) if value is not None]
        if not known:
            return Content.styled("nothing is known of this time yet", "$muted")
        top = plot.ceiling(max(known))
        styles = {AREA: self._chart.hue, LINE: "$strong", "": ""}
        lines = []
        for row, runs in enumerate(plot.draw(area, line, height, top, self._ascii_only)):
            label = self._chart.write(top) if row == 0 else ("0" if row == height - 1 else "")
            drawn = [(text, styles[of]) if styles[of] else text for text, of in runs]
            lines.append(Content.assemble((formats.fit(label, LABEL, "right") + " ", "$muted"), *drawn))
        lines.append(Content.styled(" " * (LABEL + 1) + self._axis(width), "$muted"))
        return Content("\n").join(lines)

    def _axis(self, width: int) -> str:
        begin, now = formats.clock(self._begin_ms)[:5], formats.clock(self._end_ms)[:5]
        middle = formats.clock((self._begin_ms + self._end_ms) / 2)[:5] if width >= 24 else ""
        return begin + middle.center(max(0, width - len(begin) - len(now))) + now


class Metrics(View):
    """Four plots; two where the terminal is small."""

    NAME = "metrics"
    AUTO_FOCUS = ""  # nothing here takes keys of its own
    DEFAULT_CSS = """
    #plots { grid-size: 2; grid-gutter: 0; height: 1fr; }
    #plots.-small { grid-size: 1; }
    #plots.-small > #failures, #plots.-small > #wait { display: none; }
    """

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self._given = refs
        self._refs: tuple[Ref, ...] = ()
        self._left_out = 0
        self._range = 0
        self._drawn_ms = 0
        self._loaded = 0  # minutes that were fetched, or are being
        self._histories: dict[Ref, History] = {}
        self._asks: dict[Ref, Ask[History]] = {}
        self._samples: deque[Sample] = deque(maxlen=3000)
        self._before: tuple[int, Counter[str]] | None = None
        self._snapshot: Snapshot | None = None

    def compose_view(self) -> ComposeResult:
        """The plots."""
        asked = self._given or tuple(self.session.refs)
        self._refs, self._left_out = self.busiest(asked, QUEUES), max(0, len(asked) - QUEUES)
        ascii_only = self.session.settings.is_ascii
        with Grid(id="plots"):
            for name in ("throughput", "depth", "failures", "wait"):
                yield PlotPane(name, ascii_only)

    def on_mount(self) -> None:
        """The first minutes are asked for."""
        self._arrange()
        self._load()

    def on_resize(self, event: Resize) -> None:
        """Two plots where there is no room for four."""
        self._arrange()

    def _arrange(self) -> None:
        width, height = self.app.size
        self.query_one("#plots").set_class(width < 72 or height < 18, "-small")

    # -- data ---------------------------------------------------------------------------------------------------------

    @property
    def _minutes(self) -> int:
        return RANGES[self._range][1]

    @property
    def _counting(self) -> list[Ref]:
        """The queues that keep counters per minute."""
        layouts = self.session.layouts
        return [ref for ref in self._refs if ref.layout in layouts and stats.has_stats(layouts[ref.layout])]

    def _load(self) -> None:
        """Asks for the minutes of the range, a queue per round trip."""
        refs, minutes = self._counting, self._minutes + 1
        if self._loaded >= minutes or not refs:
            return
        self._loaded = minutes

        def fetch(engine: Engine) -> Iterator[History]:
            for ref in refs:
                yield from engine.ask_each([partial(stats.history_ask, engine.layouts[ref.layout], ref.queue, minutes)])

        self.session.work(fetch, self._fetched)

    def _fetched(self, answered: Answered) -> None:
        if answered.error:
            self._loaded = 0
        elif isinstance(answered.result, History):
            self._learn(answered.result)
            if self.is_drawn:
                self._draw()

    def _learn(self, history: History) -> None:
        known = self._histories.get(history.ref)
        self._histories[history.ref] = known.updated(history) if known else history

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """The counts, and the counters of the last two minutes."""
        layouts = self.session.layouts
        for ref in self._counting:
            if ref not in self._asks:
                self._asks[ref] = stats.history_ask(layouts[ref.layout], ref.queue, 2)
        return Focus(self._refs, asks={"history": tuple(self._asks.values())})

    def show(self, snapshot: Snapshot) -> None:
        """Takes a sample, and draws."""
        self._snapshot = snapshot
        queues = [queue for ref in self._refs if (queue := snapshot.queue(ref)) is not None]
        if len(queues) == len(self._refs) and queues:
            self._sample(snapshot.taken_ms, queues)
        if not self._loaded:
            self._load()
        for answer in snapshot.answers.get("history", ()):
            if isinstance(answer, History) and answer.ref in self._histories:
                self._learn(answer)
        if self._minutes <= SHORT or not self._samples or self._samples[-1].at_ms - self._drawn_ms >= LONG_MS:
            self._draw()

    def _sample(self, at_ms: int, queues: list[Queue]) -> None:
        if self._samples and at_ms <= self._samples[-1].at_ms:
            return
        now: Counter[str] = Counter()
        for queue in queues:
            now.update(dict(queue.counters))
        before, self._before = self._before, (at_ms, now)
        ages = [queue.oldest_ready_ms for queue in queues if queue.oldest_ready_ms is not None]
        oldest = max(ages) if ages else (0 if any(q.count_in(State.READY) == 0 for q in queues) else None)
        depth = stats.waiting(queues)
        if before is None or "in" not in now:
            self._samples.append(Sample(at_ms, depth=depth, oldest_ms=oldest))
            return
        seconds = max(0.001, (at_ms - before[0]) / 1000)
        in_s, out_s, failed_s = (max(0, now[name] - before[1][name]) / seconds for name in ("in", "out", "failed"))
        # A rate holds for the time before the tick that saw it.
        self._samples.append(Sample(at_ms, in_s, out_s, failed_s, depth, oldest))

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        if not self._samples:
            return
        end_ms = self._drawn_ms = self._samples[-1].at_ms
        begin_ms = end_ms - self._minutes * stats.MINUTE_MS
        for pane, chart in zip(self.query(PlotPane), self._charts(begin_ms, end_ms), strict=True):
            pane.show(chart, begin_ms, end_ms)
        self.host.show_header()

    def _charts(self, begin_ms: int, end_ms: int) -> tuple[Chart, ...]:
        """What the four plots show: minutes, and ticks where they are wide enough to be seen."""
        minutes = stats.per_minute(self._histories.values(), begin_ms, end_ms) if self._histories else []
        depth = self._samples[-1].depth
        counted_back: Points = stats.depths(minutes, depth)
        if self._range == 0:
            since = self._samples[0].at_ms
            ticks = list(self._samples)
            in_s, out_s, failed_s = (
                [*_rates(minutes, name, end_ms, since), *((s.at_ms, getattr(s, f"{name}_s")) for s in ticks[1:])]
                for name in ("in", "out", "failed")
            )
            depths: Points = [*(p for p in counted_back if p[0] < since), *((s.at_ms, s.depth) for s in ticks)]
            oldest: Points = [(s.at_ms, s.oldest_ms) for s in ticks]
            wait = Chart(
                "oldest ready",
                oldest,
                area_words="waits",
                write=_span,
                note="since this view was opened",
                is_level=True,
            )
        else:
            in_s, out_s, failed_s = (_rates(minutes, name, end_ms) for name in ("in", "out", "failed"))
            depths = [*counted_back, (end_ms, depth)]
            backlog = [
                (at, 1000 * (d or 0) / o if o else None) for (at, d), (_at, o) in zip(depths, out_s, strict=False)
            ]
            wait = Chart(
                "backlog in time",
                backlog,
                area_words="takes",
                write=_span,
                note="not done ÷ out per second",
                is_level=True,
            )
        peak = max((value for _at, value in (*out_s, *in_s) if value is not None), default=0.0)
        lost = sum(stats.flow(grown, "failed") for _minute, grown in minutes)
        done = sum(stats.flow(grown, "out") for _minute, grown in minutes)
        share = f"{formats.count(lost)} of {formats.count(lost + done)} attempts" if minutes else ""
        return (
            Chart("throughput", out_s, in_s, "out", "in", "$state-ready", _per_second, f"most {_per_second(peak)}"),
            Chart("depth", depths, area_words="not done", note="scheduled, ready, reserved", is_level=True),
            Chart("failures", failed_s, area_words="failing", hue="$state-dead", write=_per_second, note=share),
            wait,
        )

    def second_line(self, width: int) -> chrome.Sides:
        """Which queues, and the ranges."""
        is_some = self._left_out > 0
        if len(self._refs) == 1:
            name = formats.elide_middle(safe(self._refs[0].queue), max(12, width // 3))
        else:
            name = f"{'the ' * is_some}{len(self._refs)} {'busiest ' * is_some}queues together"
            name = name if self._refs else "no queues yet"
        counted = len(self._counting)
        lacking = (
            ""
            if counted == len(self._refs)
            else "   counts nothing by the minute"
            if not counted
            else "   some count nothing"
        )
        more = f"   {self._left_out} more are left out" if is_some else ""
        ranges = [
            Content.assemble((f"{number} ", "$accented"), (words, "b $strong" if at == self._range else "$muted"))
            for number, (at, (words, _minutes)) in enumerate(enumerate(RANGES), 1)
        ]
        return Content.assemble((name, "b $strong"), (lacking + more, "$muted")), Content("   ").join(ranges)

    def scope(self) -> tuple[Ref, ...]:
        """The same queues."""
        return self._given

    def target(self) -> Target:
        """The queue, where it is one."""
        ref = self._refs[0] if len(self._refs) == 1 else None
        return Target(ref, queue=self._snapshot.queue(ref) if ref and self._snapshot else None)

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.query_one("#plots").set_class(is_dim, "-dimmed")

    # -- keys ---------------------------------------------------------------------------------------------------------

    def numbered(self) -> int:
        """The ranges."""
        return len(RANGES)

    def action_place(self, number: int = 1) -> None:
        """The range of that number."""
        if number <= len(RANGES):
            self._range = number - 1
            self._load()
            self._draw()
            self.host.show_header()

    def action_page(self, step: int) -> None:
        """A longer or shorter range."""
        self.action_place(1 + max(0, min(len(RANGES) - 1, self._range + step)))


def _rates(
    minutes: list[tuple[int, Counter[str]]], name: str, end_ms: int, until_ms: int | None = None
) -> list[tuple[float, float | None]]:
    """Per second, by the minute; the last minute is not over yet. Only those that began before `until_ms`."""
    return [
        (minute, stats.flow(grown, name) / max(1.0, min(60.0, (end_ms - minute) / 1000)))
        for minute, grown in minutes
        if until_ms is None or minute < until_ms
    ]


def _last(points: Points, chart: Chart) -> str:
    known = [value for _at, value in points[-1:] if value is not None]
    return chart.write(known[0]) if known else formats.ZERO


def _per_second(value: float) -> str:
    return formats.rate(value)


def _span(ms: float) -> str:
    return formats.age(ms) if ms >= 1000 else f"{ms:.0f}ms"
