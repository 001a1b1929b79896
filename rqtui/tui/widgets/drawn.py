"""A pane whose text is made for the room that it has: `draw` gets the cells and rows inside its frame."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget


class Drawn(Widget):
    """A framed text that is as wide and as high as it is told."""

    def __init__(self, draw: Callable[[int, int], Content], id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._draw = draw

    def title(self, words: Content) -> None:
        """The words in its frame."""
        if not words.is_same(self.border_title if isinstance(self.border_title, Content) else Content()):
            self.border_title = words

    def render(self) -> RenderResult:
        """The text."""
        width, height = self.content_size
        return self._draw(width, height) if width > 0 and height > 0 else Content()
