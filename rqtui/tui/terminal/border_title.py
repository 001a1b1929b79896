"""Change the border title of a Textual widget without repainting the whole widget.

If the installed version of Textual is not supported, all lines of the widget are repainted, as Textual does itself.
"""

from __future__ import annotations

from inspect import getattr_static

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from rqtui.tui.terminal.hooks import is_hook_usable


def supports_installed_textual(widget: Widget, name: str) -> bool:
    """Return whether Textual stores the widget's border title in the private attribute that this hook writes.

    `name` is `border_title` or `border_subtitle`.
    """
    internal_name: object = getattr(getattr_static(type(widget), name), "_internal_name", None)
    return internal_name == f"_{name}"


def set_border_title(widget: Widget, name: str, title: Content | None, region: Region | None = None) -> None:
    """Set the border title or subtitle of a widget, and repaint only the region `region` if it is given.

    `name` is `border_title` or `border_subtitle`. Without `region` nothing is repainted. If the installed version of
    Textual is not supported, the attribute is set in the public way, which repaints the widget.
    """
    if not is_hook_usable(supports_installed_textual, widget, name):
        setattr(widget, name, title)
        return
    setattr(widget, f"_{name}", title)
    if region is not None:
        widget.refresh(region)
