"""Provide a base class for dialogs that may be closed before Textual has created their widgets.

A key pressed early, or the end of the program, can close such a screen. Textual still sends it `Mount` and `Resize`
then, and handlers that query their widgets would crash.
"""

from __future__ import annotations

from textual.events import Event, Mount, Resize
from textual.widget import Widget


class Leavable(Widget):
    """A mixin for Textual screens that may be closed before their widgets exist.

    List it after Textual's screen class.
    """

    async def on_event(self, event: Event) -> None:
        """Handle an event of the screen, but drop `Mount` and `Resize` while the screen is being removed."""
        if self.display or not isinstance(event, Mount | Resize):
            await super().on_event(event)
