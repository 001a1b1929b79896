"""Provide a scrolling widget of lines that repaints only the lines that changed.

The widget knows no rows, cursor or marks; `table.Table` decides what a line shows. Three habits of Textual are avoided
here, each measured on a table of 40 rows: a new length of the list lays out the whole screen, a new frame title
repaints all lines, and a scrollbar repaints itself though its thumb did not move.
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

from rqtui.text.pieces import Cell, convert_cell_to_pieces
from rqtui.text.sanitise import safe
from rqtui.tui.format import theme
from rqtui.tui.format.rows import Column
from rqtui.tui.terminal import border_title, scroll_length
from rqtui.tui.widgets.paint import PaintedLine, Painter


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """A scrolling widget of lines below an optional header, which repaints only lines that changed.

    Subclasses define the number of lines (`line_count`) and their content (`build_line`).
    """

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
        self.painter = self._create_painter(columns)
        self._painted: dict[int, PaintedLine] = {}  # lines on the screen, by y
        self._frame_texts: dict[str, tuple[Cell, ...]] = {}  # words of the frame, to colour them again in another theme

    # ── defined by subclasses ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def line_count(self) -> int:
        """The number of lines of the widget without the header."""
        raise NotImplementedError

    def build_line(self, y: int, width: int, top: int) -> PaintedLine:
        """Return the content of line `y` of the widget, where 0 is the header if there is one.

        The line is `width` cells wide, and line `top` of the content is the first visible one.
        """
        raise NotImplementedError

    def handle_scroll(self) -> None:
        """React to a scroll that made other lines visible. Subclasses override it."""

    # ── called by screens ───────────────────────────────────────────────────────────────────────────────────────────

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replace the columns of the widget. The next rows must have cells for them."""
        self.painter = self._create_painter(columns)
        self._painted.clear()
        self.refresh()

    def set_border_title(self, *cells: Cell) -> None:
        """Set the words in the frame's top line. Only that line is repainted."""
        self._set_border_text("border_title", cells, -self.styles.gutter.top)

    def set_subtitle(self, *cells: Cell) -> None:
        """Set the text in the frame's bottom line. Only that line is repainted."""
        self._set_border_text("border_subtitle", cells, self.size.height + self.styles.gutter.bottom - 1)

    @property
    def title(self) -> tuple[Cell, ...]:
        """The cells of text in the frame's top line."""
        return self._frame_texts.get("border_title", ())

    @property
    def visible_lines(self) -> int:
        """The number of lines that are visible at once."""
        return max(1, self.size.height - self.show_header)

    @property
    def first_visible_line(self) -> int:
        """The index of the first visible line, counted from 0."""
        return self.scroll_offset.y

    def repaint_changes(self) -> None:
        """Repaint the parts of visible lines that changed since they were painted."""
        if not self.is_attached:
            return
        width, top = self.scrollable_content_region.width, self.first_visible_line
        for y in range(self.size.height):
            painted, current = self._painted.get(y), self.build_line(y, width, top)
            if painted != current:
                x, changed_cells = self.painter.find_changed_cells(painted, current)
                self.refresh(Region(x, y, changed_cells, 1))

    def scroll_to_line(self, top: int) -> None:
        """Scroll without animation so that `top` is the first visible line."""
        if top != self.first_visible_line:
            self.scroll_to(y=max(0, top), animate=False, force=True)

    def update_scrollbar(self) -> None:
        """Update the scrollbar after the number of lines (`line_count`) changed."""
        size = Size(self.scrollable_content_region.width, self.line_count + self.show_header)
        if not self.is_attached or size == self.virtual_size:
            return
        previous_thumb = self._measure_scrollbar_thumb()
        self.set_reactive(Widget.virtual_size, size)
        if previous_thumb != self._measure_scrollbar_thumb():
            scroll_length.change_scroll_size(self, size)
            return
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.set_reactive(ScrollBar.window_virtual_size, size.height)
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    # ── called by Textual ───────────────────────────────────────────────────────────────────────────────────────

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of the widget, from the cache of the painter if it did not change."""
        self._painted[y] = line = self.build_line(y, self.scrollable_content_region.width, self.first_visible_line)
        return self.painter.draw_line(line)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Repaint only changed lines after scrolling, unlike the base class, which repaints everything.

        Rows inserted above the first visible one also scroll, and change nothing that is visible.
        """
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        self.repaint_changes()
        self.handle_scroll()

    def notify_style_update(self) -> None:
        """Redraw all lines after the theme changed."""
        super().notify_style_update()
        self.painter.clear_cache()
        self._painted.clear()
        for name, cells in self._frame_texts.items():
            border_title.set_border_title(self, name, self._build_border_content(cells))

    # ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _create_painter(self, columns: Sequence[Column]) -> Painter:
        return Painter(columns, self.ascii_only, self._resolve_style, lambda: self.rich_style)

    def _resolve_style(self, name: str) -> Style:
        return theme.resolve_style(self.app.theme_variables, name)

    def _measure_scrollbar_thumb(self) -> tuple[int, int, int]:
        """Return (track, thumb size, thumb position) of the scrollbar in eighths of a cell; zeros without a thumb."""
        track, length = self.container_size.height, self.virtual_size.height
        if length <= track:
            return 0, 0, 0
        return track, 8 * track * track // length, int(8 * track * self.scroll_y // length)

    def _set_border_text(self, name: str, cells: tuple[Cell, ...], y: int) -> None:
        if self._frame_texts.get(name) == cells:
            return
        self._frame_texts[name] = cells
        line = Region(-self.styles.gutter.left, y, self.outer_size.width, 1)
        border_title.set_border_title(self, name, self._build_border_content(cells), line)

    def _build_border_content(self, cells: tuple[Cell, ...]) -> Content | None:
        parts = [
            (safe(text, self.ascii_only), VisualStyle.from_rich_style(self._resolve_style(style)) if style else "")
            for cell in cells
            for text, style in convert_cell_to_pieces(cell)
        ]
        return Content.assemble(*parts) if parts else None
