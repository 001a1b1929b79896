"""Release the widgets that Textual's style cache keeps alive.

Textual 8 stores the painted lines of the last 1 024 widgets in the cache of a method, also of closed views: with one
view opened every five seconds, memory grew by 3.5 MB a minute. With another version of Textual this hook does nothing.
"""

from __future__ import annotations

from rqtui.tui.terminal.hooks import is_usable


def fits() -> bool:
    """Return whether Textual has the method cache that this hook empties."""
    from textual._styles_cache import StylesCache

    return callable(StylesCache.get_inner_outer.cache_clear)


def clear_cache() -> None:
    """Empty Textual's style cache."""
    if is_usable(fits):
        from textual._styles_cache import StylesCache

        StylesCache.get_inner_outer.cache_clear()
