"""FilterLine: the line that `/` opens above the footer. Enter takes what was typed, Esc clears it and goes back."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class FilterLine(Input):
    """One row; hidden while nobody types."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "clear the filter", show=False, id="filter.clear"),
        Binding("up", "earlier(-1)", "an earlier filter", show=False, id="filter.earlier"),
        Binding("down", "earlier(1)", "a later filter", show=False, id="filter.later"),
    ]
    DEFAULT_CSS = """
    FilterLine, FilterLine:focus { display: none; dock: bottom; height: 1; margin-bottom: 1; padding: 0 1;
        border: none; background: $raised; }
    FilterLine.-open, FilterLine.-open:focus { display: block; }
    """

    class Left(Message):
        """Esc: no filter any more."""

    def __init__(self, hint: str) -> None:
        super().__init__(placeholder=hint, id="filter-line", compact=True, select_on_focus=False)
        self.can_focus = False  # while it is closed: with nothing else to focus, it would swallow every key
        self._past: list[str] = []
        self._at = 0

    @property
    def is_open(self) -> bool:
        """Whether somebody types in it."""
        return self.has_class("-open")

    def open(self, text: str) -> None:
        """Shows it with this text, and takes the keys."""
        self.value, self.cursor_position = text, len(text)
        self._at = len(self._past)
        self.add_class("-open")
        self.can_focus = True
        self.focus()

    def close(self, remember: str = "") -> None:
        """Hides it."""
        if remember and remember not in self._past[-1:]:
            self._past.append(remember)
        self.remove_class("-open")
        self.can_focus = False

    def action_leave(self) -> None:
        """Esc."""
        self.post_message(self.Left())

    def action_earlier(self, step: int) -> None:
        """What was filtered for before."""
        self._at = max(0, min(len(self._past), self._at + step))
        self.value = self._past[self._at] if self._at < len(self._past) else ""
        self.cursor_position = len(self.value)
