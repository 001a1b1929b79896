"""Part: what the parts of the app have in common. Each is one idea in a file of its own, and a mixin of `Cockpit`.

A part reaches the whole by `cockpit`, as views do. What it knows of one Redis it sets in `begin_session`, which is
called when the app is made, and again whenever it goes over to another Redis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from rqtui.tui.app import Cockpit


class Part:
    """A mixin of the app."""

    @property
    def cockpit(self) -> Cockpit:
        """The app, by its own type."""
        return cast("Cockpit", self)

    def begin_session(self) -> None:
        """Knows nothing of a Redis yet, or no more; a part that defines it calls the next one's, too."""
