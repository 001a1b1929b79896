"""Provide a framed pane whose lines are built for its size by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget


def render_text_line(widget: Widget, line: Content, width: int) -> Strip:
    """Render one line of text for a widget as a strip that is `width` cells wide. A longer line is cut.

    A line that fits is rendered without Textual's wrapping, which takes half of the time.
    """
    style = widget.visual_style
    if line.cell_length <= width and "\n" not in line.plain and "\t" not in line.plain:
        pieces = [Segment(text, (style + span_style).rich_style) for text, span_style in line.render(style, end="")]
        return Strip(pieces, line.cell_length).adjust_cell_length(width, style.rich_style)
    strips = Visual.to_strips(widget, line, width, 1, style)
    return strips[0].adjust_cell_length(width, widget.rich_style) if strips else Strip.blank(width, widget.rich_style)


class LinesPane(Widget):
    """A framed pane of lines that a function builds for its width and height. Only lines that changed are redrawn."""

    ALLOW_SELECT = False  # a dragged mouse would start Textual's selection; Shift leaves it to the terminal

    def __init__(self, build_lines: Callable[[int, int], Sequence[Content]], id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._lines_builder = build_lines
        self._title = Content()
        self._lines: Sequence[Content] = ()
        self._built_size = Size()  # size for which the lines were built

    def set_border_title(self, words: Content) -> None:
        """Set the words in the frame."""
        if not words.is_same(self._title):  # Textual returns the title as markup, which cannot be compared
            self.border_title = self._title = words

    def redraw_changes(self) -> None:
        """Rebuild the lines of the pane and redraw the ones that changed. Most refreshes change only an age."""
        previous_lines = self._lines
        self._build_lines()
        if len(self._lines) != len(previous_lines):
            self.refresh()
            return
        pairs = enumerate(zip(self._lines, previous_lines, strict=True))
        changed = [y for y, (line, previous) in pairs if not line.is_same(previous)]
        if changed:
            self.refresh(*(Region(0, y, self.content_size.width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of the pane."""
        if self._built_size != self.content_size:
            self._build_lines()
        return render_text_line(self, self._lines[y] if y < len(self._lines) else Content(), self._built_size.width)

    def _build_lines(self) -> None:
        self._built_size = self.content_size
        width, height = self._built_size
        self._lines = self._lines_builder(width, height) if width > 0 and height > 0 else ()
