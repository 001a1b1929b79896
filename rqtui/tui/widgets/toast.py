"""Avoid an endless timer loop of Textual when a toast expires while it is being shown.

Textual 8.2 asks a toast whether it has expired, then asks for the time left, and starts a timer of that length. If the
toast expires between the two calls, the time is negative and the timer never ends.
"""

from __future__ import annotations

from textual.notifications import Notification

SHORTEST_S = 0.01


class Toast(Notification):
    """A notification whose `time_left` is never negative, because Textual 8.2 hangs in a timer loop otherwise."""

    @property
    def time_left(self) -> float:
        """The seconds until the toast disappears, at least `SHORTEST_S`."""
        return max(SHORTEST_S, super().time_left)

    @property
    def has_expired(self) -> bool:
        """Whether the time of the toast is over."""
        return super().time_left <= 0
