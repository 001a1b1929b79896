"""What a repaint sends: only the cells that changed, and of their styles only what differs from the one before.

Textual 8.2 sends a line from its start to the end of each changed run, and both colours of every piece of it: 43 bytes
around an id of eight letters. Over a slow link these are what one waits for. Text whose width terminals dispute is
sent, here and where all is painted, so that the rest of its line stays in place.
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

from rqtui.tui.terminal.disputed_widths import is_disputed, placed
from rqtui.tui.terminal.hooks import takes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.screen import Screen

SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "windows": ColorSystem.WINDOWS}
_CODES = re.compile(r"\x1b\[[\d;]*[A-Za-z]")


def fits(app: App[Any]) -> bool:
    """Whether the app paints as it did when this was written, and a small update comes out as Textual's own does."""
    if not takes(app._display, "screen", "renderable"):
        return False
    strip = Strip([Segment("ab", Style(bold=True, color="red"))])
    usual = ChopsUpdate([{0: strip}], [(0, 0, 2)], [[2]])
    whole = LayoutUpdate([[strip]], Region(0, 0, 2, 1))
    updates = (usual, whole, Spans.of(usual), Whole.of(whole))
    return {_CODES.sub("", update.render_segments(app.console)) for update in updates} == {"ab"}


def install(app: App[Any]) -> None:
    """Lets the app paint by spans."""
    display = app._display

    def painted(screen: Screen[Any], renderable: RenderableType | None) -> None:
        if isinstance(renderable, ChopsUpdate):
            renderable = Spans.of(renderable)
        elif isinstance(renderable, LayoutUpdate):
            renderable = Whole.of(renderable)
        display(screen, renderable)

    app._display = painted  # type: ignore[method-assign]


class Ink(NamedTuple):
    """The codes of a style for a terminal: bold and its like, the colour, and that of the ground."""

    attributes: str = ""
    colour: str = ""
    ground: str = ""


PLAIN = Ink()


class Spans(ChopsUpdate):
    """A partial update of the screen."""

    @classmethod
    def of(cls, update: ChopsUpdate) -> Spans:
        """The same update."""
        return cls(update.chops, update.spans, update.chop_ends)

    def render_segments(self, console: Console) -> str:
        """The update as the terminal gets it, from plain style to plain style. Links are left out: we have none."""
        system = SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        sent: list[str] = []
        at, ink = (-1, -1), PLAIN  # where the terminal's cursor stands, and what it draws with
        for y, first, last in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, stop = max(x, first), min(end, last)
                if strip is None or start >= stop:
                    continue
                if at != (start, y):
                    sent.append(Control.move_to(start, y).segment.text)
                for text, style, _control in _in_place(strip.crop(start - x, stop - x), start, y):
                    before, ink = ink, ink_of(style, system) if style else PLAIN
                    sent += (change(before, ink), text)
                at = (stop, y)
        return "".join((*sent, change(ink, PLAIN)))


class Whole(LayoutUpdate):
    """An update of the whole screen, or of a rectangle of it."""

    @classmethod
    def of(cls, update: LayoutUpdate) -> Whole:
        """The same update."""
        return cls(update.strips, update.region)

    def render_segments(self, console: Console) -> str:
        """The update as the terminal gets it."""
        sent: list[str] = []
        for y, strips in enumerate(self.strips, self.region.y):
            x = self.region.x
            line = [Control.move_to(x, y).segment.text]
            for strip in strips:
                line.append((Strip(_in_place(strip, x, y)) if is_disputed(strip.text) else strip).render(console))
                x += strip.cell_length
            sent.append("".join(line))
        return "\n".join(sent)


def _in_place(strip: Strip, x: int, y: int) -> Iterable[Segment]:
    """The pieces of a strip that stands at (x, y), those of a disputed width with what keeps the rest in place."""
    if not is_disputed(strip.text):
        return strip
    pieces = []
    for text, style, control in strip:
        pieces.append(Segment(placed(text, x, y), style, control))
        x += cell_len(text)
    return pieces


@lru_cache(4096)
def ink_of(style: Style, system: ColorSystem) -> Ink:
    """What a style is drawn with."""
    colour, ground = style.color, style.bgcolor
    return Ink(
        Strip.render_ansi(style.without_color, system),
        ";".join(colour.downgrade(system).get_ansi_codes()) if colour else "",
        ";".join(ground.downgrade(system).get_ansi_codes(foreground=False)) if ground else "",
    )


@lru_cache(4096)
def change(before: Ink, now: Ink) -> str:
    """The codes that lead from one ink to another. What an ink does not say needs a reset to end."""
    if before == now:
        return ""
    is_taken_back = any(was and not is_ for was, is_ in zip(before, now, strict=True))
    if is_taken_back or before.attributes not in ("", now.attributes):
        return f"\x1b[{';'.join(('0', *filter(None, now)))}m"
    return f"\x1b[{';'.join(is_ for was, is_ in zip(before, now, strict=True) if is_ != was)}m"
