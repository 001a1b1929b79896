"""Frame words: the words in the frame of a widget, changed without painting the whole widget again.

Textual's own way repaints all lines of the widget, which is its way out here.
"""

from __future__ import annotations

from inspect import getattr_static

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from rqtui.tui.terminal.hooks import is_on


def fits(widget: Widget, name: str) -> bool:
    """Whether the words are kept under the name that they had when this was written."""
    internal: object = getattr(getattr_static(type(widget), name), "_internal_name", None)
    return internal == f"_{name}"


def show(widget: Widget, name: str, words: Content | None, line: Region | None = None) -> None:
    """Puts words into the frame, as `border_title` or `border_subtitle`, and repaints that line, if it is given."""
    if not is_on(fits, widget, name):
        setattr(widget, name, words)
        return
    setattr(widget, f"_{name}", words)
    if line is not None:
        widget.refresh(line)
