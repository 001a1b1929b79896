"""Update the scrollbar of a widget after its content became longer or shorter, without a new layout.

If the installed version of Textual is not supported, the whole screen is laid out again, as Textual does itself.
"""

from __future__ import annotations

from textual.geometry import Size
from textual.widget import Widget

from rqtui.tui.terminal.hooks import has_parameters, is_hook_usable


def supports_installed_textual(widget: Widget) -> bool:
    """Return whether the widget still has the private Textual method that updates its scroll size."""
    return has_parameters(widget._scroll_update, "virtual_size")


def change_scroll_size(widget: Widget, size: Size) -> None:
    """Make a widget redraw its scrollbar after its `virtual_size` changed to `size`."""
    if is_hook_usable(supports_installed_textual, widget):
        widget._scroll_update(size)
    else:
        widget.refresh(layout=True)
