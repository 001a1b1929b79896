"""Kept lines: a widget in which nothing changed hands out the lines that it handed out last.

Textual 8.2 asks each widget in the rectangle around all changes for all of its lines, and finds colours, filters and
words of the frame for it anew, though it keeps the lines: a tenth of the processor time of a screen at rest. On a
Textual that differs it goes on doing so.
"""

from __future__ import annotations

from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from rqtui.tui.terminal.hooks import is_on, takes


def fits(widget: Widget) -> bool:
    """Whether a widget keeps its lines as it did when this was written, and is told in the same way to forget them."""
    return (
        type(widget._styles_cache) in (StylesCache, KeptLines)
        and takes(StylesCache.render_widget, "widget", "crop")
        and takes(StylesCache.set_dirty, "regions")
        and takes(StylesCache.clear)
    )


def keep(view: Widget) -> None:
    """Lets a view and all widgets in it keep their lines."""
    if is_on(fits, view):
        for widget in (view, *view.query("*")):
            widget._styles_cache = KeptLines()


class KeptLines(StylesCache):
    """The lines of a widget, and of all of them those that were asked for last."""

    _last: tuple[Region, list[Strip]] | None = None

    def set_dirty(self, *regions: Region) -> None:
        super().set_dirty(*regions)
        self._last = None

    def clear(self) -> None:
        super().clear()
        self._last = None

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        """The lines of a part of the widget."""
        if self._last is None or self._last[0] != crop:
            lines = super().render_widget(widget, crop)
            self._last = crop, lines  # behind it: it may clear
        return self._last[1]
