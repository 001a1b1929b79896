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

from rqtui.tui.terminal.disputed_widths import is_disputed, place_text
from rqtui.tui.terminal.hooks import has_parameters

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.screen import Screen

SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "windows": ColorSystem.WINDOWS}
_CODES = re.compile(r"\x1b\[[\d;]*[A-Za-z]")


def fits(app: App[Any]) -> bool:
    """Return whether the app paints by the methods that this hook replaces, and a test update renders the same text."""
    if not has_parameters(app._display, "screen", "renderable"):
        return False
    strip = Strip([Segment("ab", Style(bold=True, color="red"))])
    usual = ChopsUpdate([{0: strip}], [(0, 0, 2)], [[2]])
    whole = LayoutUpdate([[strip]], Region(0, 0, 2, 1))
    updates = (usual, whole, Spans.from_update(usual), Whole.from_update(whole))
    return {_CODES.sub("", update.render_segments(app.console)) for update in updates} == {"ab"}


def install(app: App[Any]) -> None:
    """Make the app render its updates with `Spans` and `Whole`."""
    display = app._display

    def paint(screen: Screen[Any], renderable: RenderableType | None) -> None:
        if isinstance(renderable, ChopsUpdate):
            renderable = Spans.from_update(renderable)
        elif isinstance(renderable, LayoutUpdate):
            renderable = Whole.from_update(renderable)
        display(screen, renderable)

    app._display = paint  # type: ignore[method-assign]


class Ink(NamedTuple):
    """The terminal codes of a style: attributes such as bold, the foreground colour and the background colour."""

    attributes: str = ""
    colour: str = ""
    ground: str = ""


PLAIN = Ink()


class Spans(ChopsUpdate):
    """A partial update of the screen that sends only changed cells."""

    @classmethod
    def from_update(cls, update: ChopsUpdate) -> Spans:
        """Convert Textual's partial update."""
        return cls(update.chops, update.spans, update.chop_ends)

    def render_segments(self, console: Console) -> str:
        """Return the update as text for the terminal. It begins and ends in the plain style.

        Links are left out, because rqtui has none.
        """
        system = SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        sent: list[str] = []
        at, ink = (-1, -1), PLAIN  # the terminal's cursor position and current ink
        for y, first, last in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, stop = max(x, first), min(end, last)
                if strip is None or start >= stop:
                    continue
                if at != (start, y):
                    sent.append(Control.move_to(start, y).segment.text)
                for text, style, _control in _place_segments(strip.crop(start - x, stop - x), start, y):
                    previous_ink, ink = ink, find_ink(style, system) if style else PLAIN
                    sent += (switch_ink(previous_ink, ink), text)
                at = (stop, y)
        return "".join((*sent, switch_ink(ink, PLAIN)))


class Whole(LayoutUpdate):
    """An update of the whole screen or of a rectangle, with text of disputed width kept in place."""

    @classmethod
    def from_update(cls, update: LayoutUpdate) -> Whole:
        """Convert Textual's full update."""
        return cls(update.strips, update.region)

    def render_segments(self, console: Console) -> str:
        """Return the update as text for the terminal."""
        sent: list[str] = []
        for y, strips in enumerate(self.strips, self.region.y):
            x = self.region.x
            line = [Control.move_to(x, y).segment.text]
            for strip in strips:
                line.append((Strip(_place_segments(strip, x, y)) if is_disputed(strip.text) else strip).render(console))
                x += strip.cell_length
            sent.append("".join(line))
        return "\n".join(sent)


def _place_segments(strip: Strip, x: int, y: int) -> Iterable[Segment]:
    """Return the segments of a strip at (x, y), with cursor moves around text of disputed width."""
    if not is_disputed(strip.text):
        return strip
    pieces = []
    for text, style, control in strip:
        pieces.append(Segment(place_text(text, x, y), style, control))
        x += cell_len(text)
    return pieces


@lru_cache(4096)
def find_ink(style: Style, system: ColorSystem) -> Ink:
    """Return the terminal codes of a style in a colour system."""
    colour, ground = style.color, style.bgcolor
    return Ink(
        Strip.render_ansi(style.without_color, system),
        ";".join(colour.downgrade(system).get_ansi_codes()) if colour else "",
        ";".join(ground.downgrade(system).get_ansi_codes(foreground=False)) if ground else "",
    )


@lru_cache(4096)
def switch_ink(before: Ink, now: Ink) -> str:
    """Return the codes that switch the terminal from one ink to another.

    A reset is sent if the new ink lacks something that the old one has.
    """
    if before == now:
        return ""
    needs_reset = any(old and not new for old, new in zip(before, now, strict=True))
    if needs_reset or before.attributes not in ("", now.attributes):
        return f"\x1b[{';'.join(('0', *filter(None, now)))}m"
    return f"\x1b[{';'.join(new for old, new in zip(before, now, strict=True) if new != old)}m"
