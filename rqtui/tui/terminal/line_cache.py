"""Cache the painted lines of a Textual widget in which nothing changed.

Textual 8.2 asks each widget in the rectangle around all changes for all of its lines. It computes colours, filters and
border titles again each time, although it caches the lines: a tenth of the processor time of an idle screen. With
another version of Textual this hook does nothing.
"""

from __future__ import annotations

from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from rqtui.tui.terminal.hooks import has_parameters, is_hook_usable


def supports_installed_textual(widget: Widget) -> bool:
    """Return whether the widget caches its lines, and drops them, by the Textual methods that this hook overrides."""
    return (
        type(widget._styles_cache) in (StylesCache, CachedLines)
        and has_parameters(StylesCache.render_widget, "widget", "crop")
        and has_parameters(StylesCache.set_dirty, "regions")
        and has_parameters(StylesCache.clear)
    )


def cache_painted_lines(view: Widget) -> None:
    """Make a view and all widgets in it cache their painted lines, if the installed version of Textual allows it."""
    if is_hook_usable(supports_installed_textual, view):
        for widget in (view, *view.query("*")):
            widget._styles_cache = CachedLines()


class CachedLines(StylesCache):
    """A style cache of a widget that also stores the painted lines of the last request, until the widget changes."""

    _last_request: tuple[Region, list[Strip]] | None = None

    def set_dirty(self, *regions: Region) -> None:
        """Mark regions of the widget as changed, and drop the painted lines of the last request."""
        super().set_dirty(*regions)
        self._last_request = None

    def clear(self) -> None:
        """Clear the style cache, and drop the painted lines of the last request."""
        super().clear()
        self._last_request = None

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        """Return the painted lines of a part of the widget, from the cache if nothing changed since the last one."""
        if self._last_request is None or self._last_request[0] != crop:
            lines = super().render_widget(widget, crop)
            self._last_request = crop, lines  # stored after the call, which may clear the cache
        return self._last_request[1]
