"""Read the text that is on the screen, as lines, for copying. Unavailable with unsupported versions of Textual."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen

from rqtui.tui.terminal.hooks import has_parameters, is_hook_usable


def is_screen_readable(screen: Screen[Any]) -> bool:
    """Return whether the text on the screen can be read with the installed version of Textual."""
    return is_hook_usable(lambda: has_parameters(screen._compositor.render_strips))


def read_screen_lines(screen: Screen[Any]) -> list[str]:
    """Return the text on a Textual screen as lines without trailing blanks."""
    return ["".join(piece.text for piece in strip).rstrip() for strip in screen._compositor.render_strips()]
