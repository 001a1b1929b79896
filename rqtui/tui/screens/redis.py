"""Show the state of the Redis server: one panel per subject, read every 3 s while the view is on top.

Each panel comes from one command. If that command is denied or missing, only its own frame shows that, with the missing
permission.
"""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rqtui.engine.ticker import CallFinished
from rqtui.model import Focus, Ref, Snapshot
from rqtui.reports import redis
from rqtui.reports.redis import Report
from rqtui.reports.redis_panels import Panel, build_panels
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import frame

INTERVAL_S = 3.0
MAX_QUEUES = 20  # queues counted meanwhile, so that a lost connection is noticed
THREE_COLUMNS_FROM, TWO_COLUMNS_FROM = 120, 72  # cells for three columns, and for two
_ORDER = {
    3: ("warnings", "server", "memory", "clients", "traffic", "commands", "keyspace", "slow"),
    2: ("warnings", "server", "memory", "clients", "traffic", "slow", "commands", "keyspace"),
}
_HUES = {"": "$data", "faint": "$frame"}  # names of styles that are not theme variables
_FULL_WIDTH = ("warnings", "slow")  # panels as wide as the screen


class PanelScroll(VerticalScroll):
    """The scrolling container of the server's panels, which uses the same keys as tables."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="redis.down"),
        Binding("k", "scroll_up", "Up", show=False, id="redis.up"),
        Binding("g", "scroll_home", "Top", show=False, id="redis.top"),
        Binding("G", "scroll_end", "Bottom", show=False, id="redis.bottom"),
    ]


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
        self.session.call_engine(lambda engine: redis.read_report(engine.client), self._store_report)

    def _store_report(self, message: CallFinished) -> None:
        self._is_reading, self._failure = False, message.error
        if isinstance(message.result, Report):
            self._report, self._read_s = message.result, time.monotonic()
            if self.is_drawn:
                self._draw_panels()
        if self.is_drawn:
            self.host.show_header()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw_panels(self) -> None:
        if self._report is None:
            return
        column_count = (
            3 if self.app.size.width >= THREE_COLUMNS_FROM else (2 if self.app.size.width >= TWO_COLUMNS_FROM else 1)
        )
        new_panels = build_panels(self._report)
        if self._drawn_inputs == (self.app.size.width, new_panels):
            return
        self._drawn_inputs = (self.app.size.width, new_panels)
        by_name = {panel.name: panel for panel in new_panels if panel.name != "warnings" or panel.lines}
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
            heights[-1] = max(heights[-1], 2 + max(1, self._count_panel_lines(by_name[name])))
        for name in _ORDER[2]:
            pane = self.query_one(f"#panel-{name}", Static)
            pane.display = name in by_name
            pane.styles.column_span = column_count if name in _FULL_WIDTH else 1
            if name in by_name:
                pane.border_title = Content.styled(f" {safe(by_name[name].title)} ", "b $strong")
                pane.update(_build_panel_text(by_name[name]))
        grid.sort_children(key=lambda pane: order.index(pane.id[6:]) if pane.id and pane.id[6:] in order else 99)
        grid.styles.grid_size_columns = column_count
        grid.styles.grid_rows = " ".join(map(str, heights))
        grid.styles.height = sum(heights)

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
        return Target(self._refs[0] if len(self._refs) == 1 else None)

    def set_dimmed(self, is_dim: bool) -> None:
        """Dim the server's panels while the connection is lost, or restore them."""
        self.query_one("#server-panels").set_class(is_dim, "-dimmed")


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
