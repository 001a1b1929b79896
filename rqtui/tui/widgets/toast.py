"""Toast: what a person is told for a few seconds; its time may end while Textual puts it on the screen.

Textual (8.2) asks a toast whether its time is over, asks again how much is left, and starts a timer of that. Where the
time ends between the two questions it is negative, and the timer turns in a circle for ever: the program stands still.
"""

from __future__ import annotations

from textual.notifications import Notification

SHORTEST_S = 0.01


class Toast(Notification):
    """A notification that always has a time left to wait for; whether it is over is another question."""

    @property
    def time_left(self) -> float:
        """The seconds until it goes, at least SHORTEST_S."""
        return max(SHORTEST_S, super().time_left)

    @property
    def has_expired(self) -> bool:
        """Whether its time is over."""
        return super().time_left <= 0
