"""Read the text that is on the screen, as lines. With another version of Textual it is not readable."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen

from rqtui.tui.terminal.hooks import has_parameters, is_usable


def is_readable(screen: Screen[Any]) -> bool:
    """Return whether `read_lines` works with this version of Textual."""
    return is_usable(lambda: has_parameters(screen._compositor.render_strips))


def read_lines(screen: Screen[Any]) -> list[str]:
    """Return the lines of the screen without trailing blanks."""
    return ["".join(piece.text for piece in strip).rstrip() for strip in screen._compositor.render_strips()]
