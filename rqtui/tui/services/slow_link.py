"""Reduce screen updates on a slow connection: no animation, no blinking cursor, and rounded ages.

Calm mode is set by `--calm`, or by itself after several slow snapshots in a row, until the connection is fast again. In
calm mode the screen is redrawn only after a key press or a refresh. Ages are rounded, because each change is sent.
"""

from __future__ import annotations

from textual import constants
from textual.widget import Widget

from rqtui.text import formats
from rqtui.tui.host import Host

SLOW_MS = 150.0  # round trip above which a repaint per second is noticeable
SLOW_ROUND_TRIPS, FAST_ROUND_TRIPS = 3, 10  # consecutive round trips before calm mode changes


class SlowLink:
    """Detects whether the connection of a session is slow. With `is_asked` it always counts as slow."""

    def __init__(self, host: Host, is_asked: bool) -> None:
        self._host, self._is_asked = host, is_asked
        self._changed_in_a_row = 0
        self.is_calm = is_asked
        self.set_calm(is_asked)

    def set_calm(self, is_calm: bool) -> None:
        """Turn calm mode on or off."""
        self.is_calm = is_calm
        formats.set_age_rounding(is_calm)
        self._host.app.animation_level = "none" if is_calm else constants.TEXTUAL_ANIMATIONS

    def record_round_trip(self, round_trip_ms: float) -> None:
        """Switch calm mode after `SLOW_ROUND_TRIPS` slow or `FAST_ROUND_TRIPS` fast round trips in a row."""
        if self._is_asked:
            return
        differs = (round_trip_ms > SLOW_MS) != self.is_calm
        self._changed_in_a_row = self._changed_in_a_row + 1 if differs else 0
        if self._changed_in_a_row >= (FAST_ROUND_TRIPS if self.is_calm else SLOW_ROUND_TRIPS):
            self._changed_in_a_row = 0
            self.set_calm(not self.is_calm)
            if self.is_calm:
                self._host.show_toast("This link is slow: nothing moves by itself now, as with --calm.")

    def restore_exact_ages(self) -> None:
        """Show exact ages again after this screen was closed."""
        formats.set_age_rounding(False)

    def stop_cursor_blink(self, widget: Widget) -> None:
        """Stop the cursor of a focused input from blinking in calm mode, because it sends data twice a second."""
        if hasattr(widget, "cursor_blink"):  # checked by attribute, because importing all such widgets is slow
            widget.cursor_blink = not self.is_calm
