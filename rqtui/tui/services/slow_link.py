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
    """The service that detects a slow connection to Redis or to the terminal, and then turns on calm mode.

    With `is_asked` (the option `--calm`) the connection always counts as slow.
    """

    def __init__(self, host: Host, is_calm_requested: bool) -> None:
        self._host, self._is_calm_requested = host, is_calm_requested
        self._changed_in_a_row = 0
        self.is_calm = is_calm_requested
        self.set_calm_mode(is_calm_requested)

    def set_calm_mode(self, is_calm: bool) -> None:
        """Turn calm mode on or off: no animations, and rounded ages."""
        self.is_calm = is_calm
        formats.set_age_rounding(is_calm)
        self._host.app.animation_level = "none" if is_calm else constants.TEXTUAL_ANIMATIONS

    def record_round_trip(self, round_trip_ms: float) -> None:
        """Record the duration of a round trip to Redis, and switch calm mode after several slow or fast ones in a row.

        `SLOW_ROUND_TRIPS` slow round trips turn it on, `FAST_ROUND_TRIPS` fast ones turn it off.
        """
        if self._is_calm_requested:
            return
        differs = (round_trip_ms > SLOW_MS) != self.is_calm
        self._changed_in_a_row = self._changed_in_a_row + 1 if differs else 0
        if self._changed_in_a_row >= (FAST_ROUND_TRIPS if self.is_calm else SLOW_ROUND_TRIPS):
            self._changed_in_a_row = 0
            self.set_calm_mode(not self.is_calm)
            if self.is_calm:
                self._host.show_toast("This link is slow: nothing moves by itself now, as with --calm.")

    def restore_exact_ages(self) -> None:
        """Show exact ages again after this screen was closed."""
        formats.set_age_rounding(False)

    def stop_cursor_blink(self, widget: Widget) -> None:
        """Stop the cursor of a focused input from blinking in calm mode, because it sends data twice a second."""
        if hasattr(widget, "cursor_blink"):  # checked by attribute, because importing all such widgets is slow
            widget.cursor_blink = not self.is_calm
