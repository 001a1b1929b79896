"""Redis: the server under the queues, a panel per subject, asked every few seconds and only while somebody looks.

Each panel stands for one command; where that is denied or not there, its own frame says so, with the right that is
missing, and the others go on.
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

from rqtui.engine.ticker import Answered
from rqtui.model import Focus, Ref, Snapshot
from rqtui.reports import redis
from rqtui.reports.redis import Report
from rqtui.reports.redis_panels import Panel, panels
from rqtui.text import formats
from rqtui.text.pieces import Piece
from rqtui.text.sanitise import safe
from rqtui.tui.target import Target
from rqtui.tui.view import View
from rqtui.tui.widgets import chrome

EVERY_S = 3.0
QUEUES = 20  # whose counts the tick takes meanwhile, so that a lost connection is noticed
WIDE, MIDDLE = 120, 72  # cells: three columns, two
_ORDER = {
    3: ("warnings", "server", "memory", "clients", "traffic", "commands", "keyspace", "slow"),
    2: ("warnings", "server", "memory", "clients", "traffic", "slow", "commands", "keyspace"),
}
_HUES = {"": "$data", "faint": "$frame"}  # names of styles that are no variables
_WHOLE = ("warnings", "slow")  # as wide as the screen


class Scroll(VerticalScroll):
    """The panels, scrolled by the keys of tables."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="redis.down"),
        Binding("k", "scroll_up", "Up", show=False, id="redis.up"),
        Binding("g", "scroll_home", "Top", show=False, id="redis.top"),
        Binding("G", "scroll_end", "Bottom", show=False, id="redis.bottom"),
    ]


class RedisView(View):
    """What stands at the other end."""

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
        self._asked_s = 0.0
        self._is_asking = False
        self._failure = ""
        self._drawn: tuple[object, ...] = ()

    def compose_view(self) -> ComposeResult:
        """A frame per panel."""
        with Scroll(id="server-panels"), Grid():
            for name in _ORDER[2]:
                yield Static("", id=f"panel-{name}", classes="pane")

    def on_mount(self) -> None:
        """Asks at once, and then again and again."""
        self.set_interval(EVERY_S, self._ask)
        self._ask()

    def on_resize(self, _event: Resize) -> None:
        """Other columns."""
        self._draw()

    def focus_wish(self, refs: list[Ref]) -> Focus:
        """Few counts: the panels are asked for apart."""
        return Focus(self._refs[:QUEUES] or tuple(refs[:1]))

    def show(self, snapshot: Snapshot) -> None:
        """After a loss the panels are asked for again."""
        if self._report is None:
            self._ask()

    def _ask(self) -> None:
        if self._is_asking or not self.is_on_top or self.session.engine is None:
            return
        self._is_asking = True
        self.session.ask(lambda engine: redis.look(engine.client), self._answered)

    def _answered(self, answered: Answered) -> None:
        self._is_asking, self._failure = False, answered.error
        if isinstance(answered.result, Report):
            self._report, self._asked_s = answered.result, time.monotonic()
            if self.is_drawn:
                self._draw()
        if self.is_drawn:
            self.host.show_header()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        if self._report is None:
            return
        across = 3 if self.app.size.width >= WIDE else (2 if self.app.size.width >= MIDDLE else 1)
        made = panels(self._report)
        if self._drawn == (self.app.size.width, made):
            return
        self._drawn = (self.app.size.width, made)
        by_name = {panel.name: panel for panel in made if panel.name != "warnings" or panel.lines}
        order = [name for name in _ORDER[max(2, across)] if name in by_name]
        grid = self.query_one("#server-panels Grid", Grid)
        heights: list[int] = []
        column = across
        for name in order:
            is_whole = name in _WHOLE
            if is_whole or column >= across:
                heights.append(0)
                column = 0
            column += across if is_whole else 1
            heights[-1] = max(heights[-1], 2 + max(1, self._rows(by_name[name])))
        for name in _ORDER[2]:
            pane = self.query_one(f"#panel-{name}", Static)
            pane.display = name in by_name
            pane.styles.column_span = across if name in _WHOLE else 1
            if name in by_name:
                pane.border_title = Content.styled(f" {safe(by_name[name].title)} ", "b $strong")
                pane.update(_text(by_name[name]))
        grid.sort_children(key=lambda pane: order.index(pane.id[6:]) if pane.id and pane.id[6:] in order else 99)
        grid.styles.grid_size_columns = across
        grid.styles.grid_rows = " ".join(map(str, heights))
        grid.styles.height = sum(heights)

    def _rows(self, panel: Panel) -> int:
        """How many rows its words take: warnings are told whole, the others are cut at the edge."""
        width = max(20, self.app.size.width - 5)  # frame, padding and scrollbar
        return len(_text(panel).wrap(width)) if panel.name == "warnings" else len(_lines(panel))

    def second_line(self, width: int) -> chrome.Sides:
        """What stands there, and how old the picture is."""
        if self._failure or self._report is None:
            style = "$state-dead" if self._failure else "$muted"
            return Content.styled(safe(self._failure) or "asking …", style), Content()
        server = self._report.server
        facts = [fact for fact in (server.role, server.mode) if fact]
        left = Content.assemble((safe(server.title), "b $strong"), ("  " + " · ".join(facts), "$muted"))
        old_s = time.monotonic() - self._asked_s
        return left, Content.styled(f"as of {formats.age(1000 * old_s)} ago" if old_s >= 2 * EVERY_S else "", "$muted")

    def scope(self) -> tuple[Ref, ...]:
        """The queues of the view that opened this one."""
        return self._refs

    def target(self) -> Target:
        """The server has no verbs; the loops named above are those of the queue it was opened from."""
        return Target(self._refs[0] if len(self._refs) == 1 else None)

    def dim(self, is_dim: bool) -> None:
        """The connection is lost, or back."""
        self.query_one("#server-panels").set_class(is_dim, "-dimmed")


def _lines(panel: Panel) -> tuple[tuple[Piece, ...], ...]:
    """The lines, or why there are none, in the words of the panel's own frame."""
    if not panel.lacks:
        return panel.lines
    what, _semicolon, remedy = panel.lacks.partition("; allow it: ")
    said = (Piece(what if not remedy else "denied to this user; allow it:", "state-reserved"),)
    known = panel.lines if panel.name in ("server", "clients") and len(panel.lines) > 1 else ()
    return (*known, said, *([(Piece(safe(remedy), "strong"),)] if remedy else []))


def _text(panel: Panel) -> Content:
    lines = [
        Content.assemble(*((piece.text, _HUES.get(piece.style, f"${piece.style}")) for piece in line))
        for line in _lines(panel)
    ]
    return Content("\n").join(lines)
