"""Scroll length: tells the scrollbar of a widget that its content is longer or shorter, without a new layout.

Textual's own way lays out the whole screen, which is its way out here.
"""

from __future__ import annotations

from textual.geometry import Size
from textual.widget import Widget

from rqtui.tui.terminal.hooks import is_on, takes


def fits(widget: Widget) -> bool:
    """Whether a widget can be told its length as it could when this was written."""
    return takes(widget._scroll_update, "virtual_size")


def tell(widget: Widget, size: Size) -> None:
    """Tells a widget, whose `virtual_size` was set, that it is another one."""
    if is_on(fits, widget):
        widget._scroll_update(size)
    else:
        widget.refresh(layout=True)
