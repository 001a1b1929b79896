"""Change the border title of a widget without repainting the whole widget.

With another version of Textual, all lines of the widget are repainted, as Textual does itself.
"""

from __future__ import annotations

from inspect import getattr_static

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from rqtui.tui.terminal.hooks import is_usable


def fits(widget: Widget, name: str) -> bool:
    """Return whether the widget stores its border title under the private name that this hook uses."""
    internal: object = getattr(getattr_static(type(widget), name), "_internal_name", None)
    return internal == f"_{name}"


def set_title(widget: Widget, name: str, words: Content | None, line: Region | None = None) -> None:
    """Set `border_title` or `border_subtitle` (`name`) of a widget, and repaint only `line` if it is given."""
    if not is_usable(fits, widget, name):
        setattr(widget, name, words)
        return
    setattr(widget, f"_{name}", words)
    if line is not None:
        widget.refresh(line)
