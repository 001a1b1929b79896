"""Screen text: what stands on the screen, as lines of text. On a Textual that differs nobody can tell."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen

from rqtui.tui.terminal.hooks import is_on, takes


def is_readable(screen: Screen[Any]) -> bool:
    """Whether `lines` can tell."""
    return is_on(lambda: takes(screen._compositor.render_strips))


def lines(screen: Screen[Any]) -> list[str]:
    """The lines of the screen, without the blanks at their ends."""
    return ["".join(piece.text for piece in strip).rstrip() for strip in screen._compositor.render_strips()]
