"""Slow link: keeps the screen calm there, so that nothing moves by itself and nothing is sent twice.

`--calm` asks for it; a link on which several pictures in a row took long gets it by itself, until it is quick again.
Calm means no animation, no blinking cursor, and no repaint but those of a key and of a refresh;
ages are told roughly, since each one that changes is sent.
"""

from __future__ import annotations

from textual import constants
from textual.widget import Widget

from rqtui.text import formats
from rqtui.tui.host import Host

SLOW_MS = 150.0  # a round trip from which a repaint per second is felt
SLOW_TICKS, QUICK_TICKS = 3, 10  # in a row, before it changes by itself


class SlowLink:
    """Whether the link of a session is slow; with `is_asked` it always counts as slow."""

    def __init__(self, host: Host, is_asked: bool) -> None:
        self._host, self._is_asked = host, is_asked
        self._in_a_row = 0
        self.is_calm = is_asked
        self.set_calm(is_asked)

    def set_calm(self, is_calm: bool) -> None:
        """From now on."""
        self.is_calm = is_calm
        formats.round_ages(is_calm)
        self._host.app.animation_level = "none" if is_calm else constants.TEXTUAL_ANIMATIONS

    def feel(self, round_trip_ms: float) -> None:
        """A picture took so long: becomes calm on a link that stays slow, and lively again on one that stays quick."""
        if self._is_asked:
            return
        differs = (round_trip_ms > SLOW_MS) != self.is_calm
        self._in_a_row = self._in_a_row + 1 if differs else 0
        if self._in_a_row >= (QUICK_TICKS if self.is_calm else SLOW_TICKS):
            self._in_a_row = 0
            self.set_calm(not self.is_calm)
            if self.is_calm:
                self._host.say("This link is slow: nothing moves by itself now, as with --calm.")

    def end(self) -> None:
        """What comes after this screen tells ages to the second."""
        formats.round_ages(False)

    def focused(self, widget: Widget) -> None:
        """A cursor that blinks sends something twice a second."""
        if hasattr(widget, "cursor_blink"):  # not by its type: to import all that can blink takes a while
            widget.cursor_blink = not self.is_calm
