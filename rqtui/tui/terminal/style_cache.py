"""Style cache: forgets the widgets that Textual keeps alive by it.

Textual 8 keeps the last 1 024 widgets' painted lines in the cache of a method, also of views that are closed: with one
opened each five seconds the screen grew by 3.5 MB a minute. On a Textual that differs nothing is done.
"""

from __future__ import annotations

from rqtui.tui.terminal.hooks import is_on


def fits() -> bool:
    """Whether there is the cache that there was when this was written."""
    from textual._styles_cache import StylesCache

    return callable(StylesCache.get_inner_outer.cache_clear)


def forget() -> None:
    """Empties the cache."""
    if is_on(fits):
        from textual._styles_cache import StylesCache

        StylesCache.get_inner_outer.cache_clear()
