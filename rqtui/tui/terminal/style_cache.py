"""Release the widgets that Textual's style cache keeps alive.

Textual 8 stores the painted lines of the last 1 024 widgets in the cache of a method, also of closed views: with one
view opened every five seconds, memory grew by 3.5 MB a minute. With another version of Textual this hook does nothing.
"""

from __future__ import annotations

from rqtui.tui.terminal.hooks import is_hook_usable


def supports_installed_textual() -> bool:
    """Return whether Textual still has the method cache that this hook empties."""
    from textual._styles_cache import StylesCache

    return callable(StylesCache.get_inner_outer.cache_clear)


def clear_style_cache() -> None:
    """Empty Textual's style cache, so that the widgets of closed views are freed."""
    if is_hook_usable(supports_installed_textual):
        from textual._styles_cache import StylesCache

        StylesCache.get_inner_outer.cache_clear()
