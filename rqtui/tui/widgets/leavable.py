"""Leavable: a screen that may be left before it stands, by a key that comes early or because the program ends.

Textual makes not all of its widgets then, and tells it all the same that it was mounted, and its size: handlers that
look for their widgets would end the program.
"""

from __future__ import annotations

from textual.events import Event, Mount, Resize
from textual.widget import Widget


class Leavable(Widget):
    """What such a screen has in common with others; behind its class of Textual, whose style sheet comes first."""

    async def on_event(self, event: Event) -> None:
        """Hands an event on; while the screen is being removed, which `display` tells, not those about its widgets."""
        if self.display or not isinstance(event, Mount | Resize):
            await super().on_event(event)
