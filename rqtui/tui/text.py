"""Text that may be long: drawn again only when it is another one, and then only the lines that are in sight."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual
from textual.widgets import Static


class Text(Static):
    """A text as high as it is."""

    _shown = Content()

    def show(self, text: Content) -> None:
        """Draws this."""
        if not text.is_same(self._shown):
            self._shown = text
            self.update(text)


class LongText(ScrollView, can_focus=True):
    """A scrolling text that draws no more than what is in sight: 60 kB of JSON in a `Static` took 1.2 s."""

    def __init__(self, *, id: str, classes: str = "") -> None:
        super().__init__(id=id, classes=classes)
        self._text = Content()
        self._lines: list[Content] = []

    def show(self, text: Content) -> None:
        """Draws this."""
        if not text.is_same(self._text):
            self._text = text
            self._wrap()

    def on_resize(self) -> None:
        """Lines are as wide as the widget."""
        self._wrap()

    def _wrap(self) -> None:
        width = self.scrollable_content_region.width
        self._lines = self._text.wrap(width) if width else []
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()

    def notify_style_update(self) -> None:
        """Another theme: the same lines in other colours."""
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Line `y` of the widget."""
        width, at = self.size.width, y + self.scroll_offset.y
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        strips = Visual.to_strips(self, self._lines[at], width, 1, self.visual_style)
        return strips[0].adjust_cell_length(width, self.rich_style) if strips else Strip.blank(width, self.rich_style)
