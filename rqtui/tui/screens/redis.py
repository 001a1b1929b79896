"""Show the state of the Redis server: one panel per subject, read every 3 s while the view is on top.

On a large terminal a plot shows the memory in the last hour, as far as rqtui recorded it.

Each panel comes from one command. If that command is denied or missing, only its own frame shows that, with the missing
permission.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import log
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rqtui.engine.history import MINUTE_MS
from rqtui.engine.ticker import CallFinished
from rqtui.model import Focus, Ref, Snapshot
from rqtui.reports import redis
from rqtui.reports.redis import Report
from rqtui.reports.redis_panels import Panel, build_panels
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe
from rqtui.tui.target import Target
from rqtui.tui.view import View, find_only_queue
from rqtui.tui.widgets import frame, plot, queue_preview
from rqtui.tui.widgets.table import build_scroll_bindings

if TYPE_CHECKING:
    from rqtui.recording.records import ServerPeriod
    from rqtui.recording.store import Writer
    from rqtui.tui.session import Session

INTERVAL_S = 3.0
MAX_QUEUES = 20  # queues counted meanwhile, so that a lost connection is noticed
THREE_COLUMNS_FROM, TWO_COLUMNS_FROM = 120, 72  # cells for three columns, and for two
_ORDER = {
    3: ("warnings", "server", "memory", "clients", "history", "traffic", "commands", "keyspace", "slow"),
    2: ("warnings", "server", "memory", "history", "clients", "traffic", "slow", "commands", "keyspace"),
}
_HUES = {"": "$data", "faint": "$frame"}  # names of styles that are not theme variables
_FULL_WIDTH = ("warnings", "slow", "history")  # panels as wide as the screen
HISTORY_MS, HISTORY_INTERVAL_S = 3_600_000, 60.0  # the time that the plot covers, and between two reads of it
HISTORY_ROWS = 7  # of the plot with its axis
NOT_RECORDED = "There is no plot of the memory in the last hour: "


class PanelScroll(VerticalScroll):
    """The scrolling container of the server's panels, which uses the same keys as tables."""

    BINDINGS: ClassVar[list[BindingType]] = build_scroll_bindings("redis")


class RedisView(View):
    """The view of the panels about the Redis server."""

    NAME = "redis"
    AUTO_FOCUS = "#server-panels"
    DEFAULT_CSS = """
    #server-panels { height: 1fr; scrollbar-gutter: stable; }
    #server-panels Grid { height: auto; }
    #server-panels Static { padding: 0 1; height: 100%; text-wrap: nowrap; text-overflow: ellipsis; }
    #server-panels #panel-warnings { text-wrap: wrap; }
    """

    def __init__(self, refs: tuple[Ref, ...]) -> None:
        super().__init__()
        self._refs = refs
        self._report: Report | None = None
        self._read_s = 0.0
        self._is_reading = False
        self._failure = ""
        self._memory: Sequence[ServerPeriod] = ()  # the recorded minutes of the last hour
        self._memory_problem = ""  # why they could not be read
        self._memory_due_s = 0.0  # when they are read next, by `time.monotonic`
        self._drawn_inputs: tuple[object, ...] = ()

    def compose_view(self) -> ComposeResult:
        """Create one frame per panel of the server view."""
        with PanelScroll(id="server-panels"), Grid():
            for name in _ORDER[2]:
                yield Static("", id=f"panel-{name}", classes="pane")

    def on_mount(self) -> None:
        """Read the server's state at once, and then at intervals."""
        self.set_interval(INTERVAL_S, self._request_report)
        self._request_report()

    def on_resize(self, _event: Resize) -> None:
        """Arrange the server's panels in as many columns as fit."""
        self._draw_panels()

    def build_focus(self, refs: list[Ref]) -> Focus:
        """Request few queue counts at each refresh: the server's panels are read in a call of their own."""
        return Focus(self._refs[:MAX_QUEUES] or tuple(refs[:1]))

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Read the server's panels if they were never read, for example after a lost connection."""
        if self._report is None:
            self._request_report()

    def _request_report(self) -> None:
        if self._is_reading or not self.is_on_top or self.session.engine is None:
            return
        self._is_reading = True
        if time.monotonic() >= self._memory_due_s:
            self._memory_due_s = time.monotonic() + HISTORY_INTERVAL_S
            if not self.session.read_recording(_read_recorded_memory, self._store_memory):
                self._memory_problem, self._memory_due_s = _describe_missing_recording(self.session), 0.0
        self.session.call_engine(lambda engine: redis.read_report(engine.client), self._store_report)

    def _store_report(self, message: CallFinished) -> None:
        self._is_reading, self._failure = False, message.error
        if isinstance(message.result, Report):
            self._report, self._read_s = message.result, time.monotonic()
            if self.is_drawn:
                self._draw_panels()
        if self.is_drawn:
            self.host.show_header()

    def _store_memory(self, periods: Sequence[ServerPeriod] | None, problem: str) -> None:
        self._memory, self._memory_problem = periods or self._memory, problem
        if problem:  # The file is opened after the first snapshot, or another process has locked it.
            self._memory_due_s = 0.0
        if self.is_drawn:
            self._draw_panels()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw_panels(self) -> None:
        if self._report is None:
            return
        column_count = (
            3 if self.app.size.width >= THREE_COLUMNS_FROM else (2 if self.app.size.width >= TWO_COLUMNS_FROM else 1)
        )
        new_panels = build_panels(self._report)
        plot_lines = self._build_memory_plot() if self.is_large else []
        inputs = (self.app.size, new_panels, [line.plain for line in plot_lines])
        if self._drawn_inputs == inputs:
            return
        self._drawn_inputs = inputs
        by_name = {panel.name: panel for panel in new_panels if panel.name != "warnings" or panel.lines}
        if plot_lines:
            by_name["history"] = Panel("history", "memory in the last hour")
        order = [name for name in _ORDER[max(2, column_count)] if name in by_name]
        grid = self.query_one("#server-panels Grid", Grid)
        heights: list[int] = []
        column = column_count
        for name in order:
            is_full_width = name in _FULL_WIDTH
            if is_full_width or column >= column_count:
                heights.append(0)
                column = 0
            column += column_count if is_full_width else 1
            rows = len(plot_lines) if name == "history" else self._count_panel_lines(by_name[name])
            heights[-1] = max(heights[-1], 2 + max(1, rows))
        for name in _ORDER[2]:
            pane = self.query_one(f"#panel-{name}", Static)
            pane.display = name in by_name
            pane.styles.column_span = column_count if name in _FULL_WIDTH else 1
            if name in by_name:
                pane.border_title = Content.styled(f" {safe(by_name[name].title)} ", "b $strong")
                pane.update(Content("\n").join(plot_lines) if name == "history" else _build_panel_text(by_name[name]))
        grid.sort_children(key=lambda pane: order.index(pane.id[6:]) if pane.id and pane.id[6:] in order else 99)
        grid.styles.grid_size_columns = column_count
        grid.styles.grid_rows = " ".join(map(str, heights))
        grid.styles.height = sum(heights)

    def _build_memory_plot(self) -> list[Content]:
        """Plot the memory of the recorded minutes, or say in a line why there is no plot."""
        points = [*_yield_memory_points(self._memory)]
        highest = max((value for _at, value in points if value is not None), default=None)
        if highest is None or len(self._memory) < 2:
            reason = self._memory_problem or "rqtui has recorded less than two minutes of it."
            return [Content.styled(NOT_RECORDED + safe(reason), "$muted")]
        end_ms, limit = points[-1][0], self._memory[-1].maxmemory_bytes
        begin_ms, cells = end_ms - HISTORY_MS, max(20, self.app.size.width - 6 - queue_preview.LABEL_CELLS - 1)
        is_ascii = self.session.settings.is_ascii
        values = plot.resample_points(points, begin_ms, end_ms, cells * (1 if is_ascii else 2), is_level=True)
        top = float(limit) if limit and highest <= limit <= 4 * highest else _round_up_bytes(highest)
        label = formats.format_size(int(top)).replace(" ", "")
        lines = queue_preview.draw_plot_lines(tuple(values), (), HISTORY_ROWS - 1, top, frozenset(), label, is_ascii)
        begin, end = (formats.format_clock(at_ms)[:5] for at_ms in (begin_ms, end_ms))
        limit_text = f"maxmemory is {formats.format_size(limit)}" if limit else "maxmemory is not set"
        axis = f"{begin}   used memory in bytes, once a minute as rqtui recorded it; {limit_text}"
        indent = " " * (queue_preview.LABEL_CELLS + 1)
        return [*lines, Content.styled(f"{indent}{axis}{end.rjust(max(6, cells - len(axis)))}", "$muted")]

    def _count_panel_lines(self, panel: Panel) -> int:
        """Return the number of lines of a panel: warnings are wrapped, all other lines are cut at the edge."""
        width = max(20, self.app.size.width - 5)  # frame, padding and scrollbar
        return len(_build_panel_text(panel).wrap(width)) if panel.name == "warnings" else len(_build_panel_lines(panel))

    def build_second_line(self, width: int) -> frame.Sides:
        """Return for the header the server's name and role, and the age of the panels if they are outdated."""
        if self._failure or self._report is None:
            style = "$state-dead" if self._failure else "$muted"
            return Content.styled(safe(self._failure) or "asking …", style), Content()
        server = self._report.server
        facts = [fact for fact in (server.role, server.mode) if fact]
        title = Content.assemble((safe(server.title), "b $strong"), ("  " + " · ".join(facts), "$muted"))
        age_s = time.monotonic() - self._read_s
        return title, Content.styled(
            f"as of {formats.format_age(1000 * age_s)} ago" if age_s >= 2 * INTERVAL_S else "", "$muted"
        )

    def list_scope_queues(self) -> tuple[Ref, ...]:
        """Return the queues of the view from which the server view was opened."""
        return self._refs

    def build_target(self) -> Target:
        """Return the queue from which the view was opened, for the loops in the header; no verb acts on the server."""
        return Target(find_only_queue(self._refs))

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the server's panels while the connection is lost, or restore them."""
        self.query_one("#server-panels").set_class(is_dim, "-dimmed")


def _read_recorded_memory(store: Writer) -> list[ServerPeriod]:
    """Return the recorded minutes of the last hour, on the recorder's thread."""
    now_ms = int(time.time() * 1000)
    return store.read_server_periods(now_ms - HISTORY_MS, now_ms + MINUTE_MS)


def _round_up_bytes(number: float) -> float:
    """Round a number of bytes up to the next of 1, 2, 5, 10 … of its unit (kB, MB, …)."""
    unit = 1024.0 ** max(0, int(log(max(1.0, number), 1024)))
    return plot.round_axis_maximum(number / unit) * unit


def _describe_missing_recording(session: Session) -> str:
    if session.demo is not None:
        return "a demo is not recorded."
    return "the recording is not open yet." if session.settings.is_recording else "recording is turned off (record)."


def _yield_memory_points(periods: Sequence[ServerPeriod]) -> Iterator[tuple[float, float | None]]:
    """Yield the memory at the beginning of each recorded minute, and None at the end of the minutes before a gap."""
    for position, period in enumerate(periods):
        yield period.at_ms, None if period.used_bytes is None else float(period.used_bytes)
        end_ms = period.at_ms + period.span_ms
        if position + 1 == len(periods) or periods[position + 1].at_ms > end_ms:
            yield end_ms, None


def _build_panel_lines(panel: Panel) -> tuple[tuple[Piece, ...], ...]:
    """Return the lines of a panel, or the reason why it has none and which permission would fix that."""
    if not panel.lacks:
        return panel.lines
    reason, _semicolon, remedy = panel.lacks.partition("; allow it: ")
    reason_line = (Piece(reason if not remedy else "denied to this user; allow it:", "state-reserved"),)
    readable_lines = panel.lines if panel.name in ("server", "clients") and len(panel.lines) > 1 else ()
    return (*readable_lines, reason_line, *([(Piece(safe(remedy), "strong"),)] if remedy else []))


def _build_panel_text(panel: Panel) -> Content:
    lines = [
        Content.assemble(*((piece.text, _HUES.get(piece.style, f"${piece.style}")) for piece in line))
        for line in _build_panel_lines(panel)
    ]
    return Content("\n").join(lines)
