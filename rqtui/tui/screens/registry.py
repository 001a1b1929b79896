"""Create views by their names.

`VIEWS` lists the views that a key opens from anywhere. They are created with the queues to show: the queue in focus,
the queues of a group, or none for all queues. A view's module is imported when it is first opened, so that the first
paint does not wait for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rqtui.tui.view import View

VIEWS = {  # class name by view name; the module has the view's name, as in `keys.GENERAL_KEYS` and `View.NAME`
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
_VIEWS_OF_ROWS = {  # opened for a row, a place or a text
    "board": "Board",
    "job": "JobPage",
    "search": "Search",
    "groups": "Groups",
    "differences": "Differences",
    "incident": "IncidentPage",
}


def create_view(name: str, *args: Any) -> View:
    """Import and create the view of this name. `args` are its queues, or the queue and job of a board or job page."""
    view: View = getattr(import_module(f"rqtui.tui.screens.{name}"), (VIEWS | _VIEWS_OF_ROWS)[name])(*args)
    return view
