"""The views, each a file with a `View` subclass, made by their names.

`VIEWS` is the table of those that a key opens from anywhere. A view is imported when it is first opened, so that the
first picture does not wait for it. Those of the table are made with the queues that they are about: the one in focus,
or a group of them, or none where they are about all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rqtui.tui.view import View

VIEWS = {  # the name in `keys.LOOKS` and `View.NAME`: the class, in the module of that name
    "workers": "Workers",
    "kinds": "Kinds",
    "errors": "Errors",
    "events": "Events",
    "metrics": "Metrics",
    "loops": "Loops",
    "schedules": "Schedules",
    "redis": "RedisView",
    "operations": "Operations",
}
_OPENED = {"board": "Board", "job": "JobPage"}  # by Enter, with what stands under the cursor


def make(name: str, *about: Any) -> View:
    """The view of that name, about these queues, this queue, this job."""
    made: View = getattr(import_module(f"rqtui.tui.screens.{name}"), (VIEWS | _OPENED)[name])(*about)
    return made
