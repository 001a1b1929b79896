"""A widget of lines that repaints only those that changed: scrolling, the frame's words and the economy of both.

It knows no rows, cursor or marks; `table.Table` says what a line shows. Three of Textual's habits are avoided here,
each measured on a table of 40 rows: a new length of the list lays out the whole screen, a new frame title repaints
all lines, and a scrollbar repaints itself though its thumb did not move.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.widget import Widget

from rqtui.text.pieces import Cell, pieces_of
from rqtui.text.sanitise import safe
from rqtui.tui.format import theme
from rqtui.tui.format.rows import Column
from rqtui.tui.terminal import frame_words, scroll_length
from rqtui.tui.widgets.paint import Line, Painter


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines below an optional header; subclasses say how many (`length`) and what each shows (`line`)."""

    ALLOW_SELECT = False  # a dragged mouse would start Textual's selection; Shift leaves it to the terminal
    DEFAULT_CSS = """
    Lines {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    """

    def __init__(
        self, columns: Sequence[Column], show_header: bool, ascii_only: bool, id: str | None, classes: str | None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.show_header = show_header
        self.ascii_only = ascii_only
        self.painter = self._paint_with(columns)
        self._painted: dict[int, Line] = {}  # by y: what stands on the screen
        self._frame: dict[str, tuple[Cell, ...]] = {}  # its words, to colour them anew in another theme

    # ── what a subclass says ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def length(self) -> int:
        """How many lines there are, without the header."""
        raise NotImplementedError

    def line(self, y: int, width: int, top: int) -> Line:
        """What line `y` of the widget (0 is the header, if there is one) shows now.

        It is `width` cells wide, and line `top` of the content is the first in sight.
        """
        raise NotImplementedError

    def scrolled(self) -> None:
        """Other lines are in sight now."""

    # ── what it offers ───────────────────────────────────────────────────────────────────────────────────────────

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Other columns; the rows that come next have them."""
        self.painter = self._paint_with(columns)
        self._painted.clear()
        self.refresh()

    def set_title(self, *cells: Cell) -> None:
        """The words in the frame's top line; only that line is repainted."""
        self._set_frame("border_title", cells, -self.styles.gutter.top)

    def set_subtitle(self, *cells: Cell) -> None:
        """The words in the frame's bottom line; only that line is repainted."""
        self._set_frame("border_subtitle", cells, self.size.height + self.styles.gutter.bottom - 1)

    @property
    def title(self) -> tuple[Cell, ...]:
        """The words in the frame's top line."""
        return self._frame.get("border_title", ())

    @property
    def room(self) -> int:
        """How many lines can be in sight."""
        return max(1, self.size.height - self.show_header)

    @property
    def top(self) -> int:
        """The first line in sight, from 0."""
        return self.scroll_offset.y

    def repaint(self) -> None:
        """Ask for the parts of lines whose picture is another one now."""
        if not self.is_attached:
            return
        width, top = self.scrollable_content_region.width, self.top
        for y in range(self.size.height):
            before, now = self._painted.get(y), self.line(y, width, top)
            if before != now:
                x, changed = self.painter.changes(before, now)
                self.refresh(Region(x, y, changed, 1))

    def scroll_to_line(self, top: int) -> None:
        """Make `top` the first line in sight, at once."""
        if top != self.top:
            self.scroll_to(y=max(0, top), animate=False, force=True)

    def measure(self) -> None:
        """Tell the scrollbar that `length` is another one."""
        size = Size(self.scrollable_content_region.width, self.length + self.show_header)
        if not self.is_attached or size == self.virtual_size:
            return
        before = self._thumb()
        self.set_reactive(Widget.virtual_size, size)
        if before != self._thumb():
            scroll_length.tell(self, size)
            return
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.set_reactive(ScrollBar.window_virtual_size, size.height)
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    # ── what Textual calls ───────────────────────────────────────────────────────────────────────────────────────

    def render_line(self, y: int) -> Strip:
        self._painted[y] = line = self.line(y, self.scrollable_content_region.width, self.top)
        return self.painter.draw(line)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Not as the base class does: rows inserted above the first one scroll, and change nothing in sight."""
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        self.repaint()
        self.scrolled()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.painter.forget()
        self._painted.clear()
        for name, cells in self._frame.items():
            frame_words.show(self, name, self._content(cells))

    # ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _paint_with(self, columns: Sequence[Column]) -> Painter:
        return Painter(columns, self.ascii_only, self._style, lambda: self.rich_style)

    def _style(self, name: str) -> Style:
        return theme.ink(self.app.theme_variables, name)

    def _thumb(self) -> tuple[int, int, int]:
        """The scrollbar's picture: track, thumb and position in eighths of a cell; zeros where it is not needed."""
        track, length = self.container_size.height, self.virtual_size.height
        if length <= track:
            return 0, 0, 0
        return track, 8 * track * track // length, int(8 * track * self.scroll_y // length)

    def _set_frame(self, name: str, cells: tuple[Cell, ...], y: int) -> None:
        if self._frame.get(name) == cells:
            return
        self._frame[name] = cells
        line = Region(-self.styles.gutter.left, y, self.outer_size.width, 1)
        frame_words.show(self, name, self._content(cells), line)

    def _content(self, cells: tuple[Cell, ...]) -> Content | None:
        parts = [
            (safe(text, self.ascii_only), VisualStyle.from_rich_style(self._style(style)) if style else "")
            for cell in cells
            for text, style in pieces_of(cell)
        ]
        return Content.assemble(*parts) if parts else None
