"""Calm: the part of the app that spares a slow link: nothing moves by itself, and nothing is sent twice.

`--calm` asks for it; a link on which several pictures in a row took long gets it by itself, until it is quick again.
Calm means no animation, no blinking cursor, and no repaint but those of a key and of a refresh;
ages are told roughly, since each one that changes is sent.
"""

from __future__ import annotations

from textual import constants
from textual.events import DescendantFocus

from rqtui.tui import display
from rqtui.tui.part import Part

SLOW_MS = 150.0  # a round trip from which a repaint per second is felt
SLOW_TICKS, QUICK_TICKS = 3, 10  # in a row, before it changes by itself


class Calm(Part):
    """A mixin of the app."""

    is_calm: bool
    _in_a_row: int

    def begin_session(self) -> None:
        """As the settings say; another link is another matter."""
        super().begin_session()
        self._in_a_row = 0
        self._set_calm(self.cockpit.settings.is_calm)

    def _set_calm(self, is_calm: bool) -> None:
        self.is_calm = is_calm
        display.round_ages(is_calm)
        self.cockpit.animation_level = "none" if is_calm else constants.TEXTUAL_ANIMATIONS

    def feel(self, round_trip_ms: float) -> None:
        """A picture took so long: becomes calm on a link that stays slow, and lively again on one that stays quick."""
        if self.cockpit.settings.is_calm:
            return
        differs = (round_trip_ms > SLOW_MS) != self.is_calm
        self._in_a_row = self._in_a_row + 1 if differs else 0
        if self._in_a_row >= (QUICK_TICKS if self.is_calm else SLOW_TICKS):
            self._in_a_row = 0
            self._set_calm(not self.is_calm)
            if self.is_calm:
                self.cockpit.say("This link is slow: nothing moves by itself now, as with --calm.")

    def on_unmount(self) -> None:
        """What comes after this screen tells ages to the second."""
        display.round_ages(False)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """A cursor that blinks sends something twice a second."""
        if hasattr(event.widget, "cursor_blink"):  # not by its type: to import all that can blink takes a while
            event.widget.cursor_blink = not self.is_calm
