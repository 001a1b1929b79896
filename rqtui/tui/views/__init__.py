"""The views beside overview, board and job, each a file with a `View` subclass, opened by a key from anywhere.

`VIEWS` is the table of them; a view is imported when it is first opened, so that the first picture does not wait for
it. It is made with the queues that it is about: the one in focus, or a group of them, or none where it is about all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqtui.model import Ref
    from rqtui.tui.view import View

VIEWS = {  # the name in `keys.LOOKS` and `View.NAME`: the class, in the module of that name
    "workers": "Workers",
    "kinds": "Kinds",
    "errors": "Errors",
    "events": "Events",
    "metrics": "Metrics",
    "loops": "Loops",
    "redis": "RedisView",
    "operations": "Operations",
}


def make(name: str, refs: tuple[Ref, ...]) -> View:
    """The view of that name about these queues."""
    made: View = getattr(import_module(f"rqtui.tui.views.{name}"), VIEWS[name])(refs)
    return made
