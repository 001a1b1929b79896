"""A pane whose lines are made for the room that it has: `draw` gets the cells and rows inside its frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget


def strip(widget: Widget, line: Content, width: int) -> Strip:
    """A line of a widget, as many cells wide; what is longer is cut.

    One that has room is painted without Textual's wrapping, which takes half of the time.
    """
    style = widget.visual_style
    if line.cell_length <= width and "\n" not in line.plain and "\t" not in line.plain:
        pieces = [Segment(text, (style + of).rich_style) for text, of in line.render(style, end="")]
        return Strip(pieces, line.cell_length).adjust_cell_length(width, style.rich_style)
    strips = Visual.to_strips(widget, line, width, 1, style)
    return strips[0].adjust_cell_length(width, widget.rich_style) if strips else Strip.blank(width, widget.rich_style)


class Drawn(Widget):
    """Framed lines, made for the room of the pane; of a new picture those that are others are drawn."""

    ALLOW_SELECT = False  # a dragged mouse would start Textual's selection; Shift leaves it to the terminal

    def __init__(self, draw: Callable[[int, int], Sequence[Content]], id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._draw = draw
        self._title = Content()
        self._lines: Sequence[Content] = ()
        self._made_for = Size()  # for which the lines were made

    def title(self, words: Content) -> None:
        """The words in its frame."""
        if not words.is_same(self._title):  # what Textual gives back is another text, with its colours in brackets
            self.border_title = self._title = words

    def look_again(self) -> None:
        """Draws the lines that are others by now: most pictures change an age, and nothing else."""
        before = self._lines
        self._make()
        if len(self._lines) != len(before):
            self.refresh()
            return
        pairs = enumerate(zip(self._lines, before, strict=True))
        changed = [y for y, (line, was) in pairs if not line.is_same(was)]
        if changed:
            self.refresh(*(Region(0, y, self.content_size.width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        """Line `y` of the text."""
        if self._made_for != self.content_size:
            self._make()
        return strip(self, self._lines[y] if y < len(self._lines) else Content(), self._made_for.width)

    def _make(self) -> None:
        self._made_for = self.content_size
        width, height = self._made_for
        self._lines = self._draw(width, height) if width > 0 and height > 0 else ()
