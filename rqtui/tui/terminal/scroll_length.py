"""Update the scrollbar of a widget after its content became longer or shorter, without a new layout.

With another version of Textual the whole screen is laid out again, as Textual does itself.
"""

from __future__ import annotations

from textual.geometry import Size
from textual.widget import Widget

from rqtui.tui.terminal.hooks import has_parameters, is_usable


def fits(widget: Widget) -> bool:
    """Return whether the widget's private method that updates its scroll size exists."""
    return has_parameters(widget._scroll_update, "virtual_size")


def notify_size_change(widget: Widget, size: Size) -> None:
    """Make a widget redraw its scrollbar after its `virtual_size` changed."""
    if is_usable(fits, widget):
        widget._scroll_update(size)
    else:
        widget.refresh(layout=True)
