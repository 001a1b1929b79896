"""A pane whose text is made for the room that it has: `draw` gets the cells and rows inside its frame."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Region, Size
from textual.widget import Widget


class Drawn(Widget):
    """A framed text that is as wide and as high as it is told."""

    def __init__(self, draw: Callable[[int, int], Content], id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._draw = draw
        self._title = self._text = Content()
        self._made_for = Size()  # for which the text was made

    def title(self, words: Content) -> None:
        """The words in its frame."""
        if not words.is_same(self._title):  # what Textual gives back is another text, with its colours in brackets
            self.border_title = self._title = words

    def look_again(self) -> None:
        """Draws the lines that are others by now: most pictures change an age, and nothing else."""
        last = self._text
        self._make()
        now, before = (text.split("\n", allow_blank=True) for text in (self._text, last))
        if len(now) != len(before):
            self.refresh()
            return
        changed = [y for y, (line, was) in enumerate(zip(now, before, strict=True)) if not line.is_same(was)]
        if changed:
            self.refresh(*(Region(0, y, self.content_size.width, 1) for y in changed))

    def render(self) -> RenderResult:
        """The text."""
        if self._made_for != self.content_size:
            self._make()
        return self._text

    def _make(self) -> None:
        self._made_for = self.content_size
        width, height = self._made_for
        self._text = self._draw(width, height) if width > 0 and height > 0 else Content()
