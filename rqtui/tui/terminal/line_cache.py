"""Cache the lines of a widget in which nothing changed.

Textual 8.2 asks each widget in the rectangle around all changes for all of its lines. It computes colours, filters and
border titles again each time, although it caches the lines: a tenth of the processor time of an idle screen. With
another version of Textual this hook does nothing.
"""

from __future__ import annotations

from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from rqtui.tui.terminal.hooks import has_parameters, is_usable


def fits(widget: Widget) -> bool:
    """Return whether a widget caches its lines, and drops them, by the methods that this hook overrides."""
    return (
        type(widget._styles_cache) in (StylesCache, CachedLines)
        and has_parameters(StylesCache.render_widget, "widget", "crop")
        and has_parameters(StylesCache.set_dirty, "regions")
        and has_parameters(StylesCache.clear)
    )


def cache_lines(view: Widget) -> None:
    """Make a view and all widgets in it cache their lines."""
    if is_usable(fits, view):
        for widget in (view, *view.query("*")):
            widget._styles_cache = CachedLines()


class CachedLines(StylesCache):
    """A cache of a widget's lines that also stores the result of the last request."""

    _last: tuple[Region, list[Strip]] | None = None

    def set_dirty(self, *regions: Region) -> None:
        super().set_dirty(*regions)
        self._last = None

    def clear(self) -> None:
        super().clear()
        self._last = None

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        """Return the lines of a part of the widget."""
        if self._last is None or self._last[0] != crop:
            lines = super().render_widget(widget, crop)
            self._last = crop, lines  # stored after the call, which may clear the cache
        return self._last[1]
