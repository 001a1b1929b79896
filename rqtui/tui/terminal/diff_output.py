"""Reduce what a repaint sends to the terminal: only changed cells, and only the changed parts of their styles.

Textual 8.2 sends a line from its start to the end of each changed run, and both colours of every piece: 43 bytes around
an id of eight letters. On a slow link the user waits for these bytes. Text of disputed width is positioned explicitly,
in partial and in full repaints, so that the rest of its line stays in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip

from rqtui.tui.terminal.disputed_widths import add_cursor_moves, has_disputed_width
from rqtui.tui.terminal.hooks import has_parameters

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.screen import Screen

SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "windows": ColorSystem.WINDOWS}
_CODES = re.compile(r"\x1b\[[\d;]*[A-Za-z]")


def supports_installed_textual(app: App[Any]) -> bool:
    """Return whether the app paints by the Textual methods that this hook replaces.

    A test update must render to the same text with Textual's classes and with those of this module.
    """
    if not has_parameters(app._display, "screen", "renderable"):
        return False
    strip = Strip([Segment("ab", Style(bold=True, color="red"))])
    partial_update = ChopsUpdate([{0: strip}], [(0, 0, 2)], [[2]])
    full_update = LayoutUpdate([[strip]], Region(0, 0, 2, 1))
    updates = (
        partial_update,
        full_update,
        PartialUpdate.from_update(partial_update),
        FullUpdate.from_update(full_update),
    )
    return {_CODES.sub("", update.render_segments(app.console)) for update in updates} == {"ab"}


def install_hook(app: App[Any]) -> None:
    """Make the app render its screen updates with `PartialUpdate` and `FullUpdate` instead of Textual's classes."""
    display = app._display

    def display_changed_cells(screen: Screen[Any], renderable: RenderableType | None) -> None:
        if isinstance(renderable, ChopsUpdate):
            renderable = PartialUpdate.from_update(renderable)
        elif isinstance(renderable, LayoutUpdate):
            renderable = FullUpdate.from_update(renderable)
        display(screen, renderable)

    app._display = display_changed_cells  # type: ignore[method-assign]


class Ink(NamedTuple):
    """The terminal codes of a style in three parts: attributes such as bold, foreground colour, background colour."""

    attributes: str = ""
    colour: str = ""
    ground: str = ""


PLAIN = Ink()


class PartialUpdate(ChopsUpdate):
    """A partial update of the screen that sends only the changed cells to the terminal.

    It replaces Textual's `ChopsUpdate`.
    """

    @classmethod
    def from_update(cls, update: ChopsUpdate) -> PartialUpdate:
        """Create a partial screen update of this class from Textual's `ChopsUpdate`."""
        return cls(update.chops, update.spans, update.chop_ends)

    def render_segments(self, console: Console) -> str:
        """Return a partial screen update as text for the terminal, which begins and ends in the plain style.

        Links are left out, because rqtui has none.
        """
        color_system = SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        output: list[str] = []
        cursor, ink = (-1, -1), PLAIN  # the terminal's cursor position and current ink
        for y, first, last in self.spans:
            for piece_end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, end = max(x, first), min(piece_end, last)
                if strip is None or start >= end:
                    continue
                if cursor != (start, y):
                    output.append(Control.move_to(start, y).segment.text)
                for text, style, _control in _position_segments(strip.crop(start - x, end - x), start, y):
                    previous_ink, ink = ink, encode_style(style, color_system) if style else PLAIN
                    output += (encode_style_change(previous_ink, ink), text)
                cursor = (end, y)
        return "".join((*output, encode_style_change(ink, PLAIN)))


class FullUpdate(LayoutUpdate):
    """An update of the whole screen or of a rectangle that keeps text of disputed width in place.

    It replaces `LayoutUpdate`.
    """

    @classmethod
    def from_update(cls, update: LayoutUpdate) -> FullUpdate:
        """Create a full screen update of this class from Textual's `LayoutUpdate`."""
        return cls(update.strips, update.region)

    def render_segments(self, console: Console) -> str:
        """Return an update of the whole screen or of a rectangle as text for the terminal, with cursor moves."""
        lines: list[str] = []
        for y, strips in enumerate(self.strips, self.region.y):
            x = self.region.x
            pieces = [Control.move_to(x, y).segment.text]
            for strip in strips:
                pieces.append(
                    (Strip(_position_segments(strip, x, y)) if has_disputed_width(strip.text) else strip).render(
                        console
                    )
                )
                x += strip.cell_length
            lines.append("".join(pieces))
        return "\n".join(lines)


def _position_segments(strip: Strip, x: int, y: int) -> Iterable[Segment]:
    """Return the segments of a line that starts at cell (x, y), with cursor moves around text of disputed width."""
    if not has_disputed_width(strip.text):
        return strip
    placed = []
    for text, style, control in strip:
        placed.append(Segment(add_cursor_moves(text, x, y), style, control))
        x += cell_len(text)
    return placed


@lru_cache(4096)
def encode_style(style: Style, color_system: ColorSystem) -> Ink:
    """Return the terminal codes of a Rich style in a terminal with this colour system."""
    colour, background = style.color, style.bgcolor
    return Ink(
        Strip.render_ansi(style.without_color, color_system),
        ";".join(colour.downgrade(color_system).get_ansi_codes()) if colour else "",
        ";".join(background.downgrade(color_system).get_ansi_codes(foreground=False)) if background else "",
    )


@lru_cache(4096)
def encode_style_change(previous: Ink, current: Ink) -> str:
    """Return the escape sequence that switches the terminal from one style to another, or "" if they are equal.

    A reset is sent if the new style lacks something that the old one has.
    """
    if previous == current:
        return ""
    needs_reset = any(old and not new for old, new in zip(previous, current, strict=True))
    if needs_reset or previous.attributes not in ("", current.attributes):
        return f"\x1b[{';'.join(('0', *filter(None, current)))}m"
    return f"\x1b[{';'.join(new for old, new in zip(previous, current, strict=True) if new != old)}m"
