"""What a repaint sends: only the cells that changed, and of their styles only what differs from the one before.

Textual 8.2 sends a line from its start to the end of each changed run, and both colours of every piece of it: 43 bytes
around an id of eight letters. Over a slow link these are what one waits for.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.color import ColorSystem
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.app import App
from textual.strip import Strip

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
    texts = [_CODES.sub("", update.render_segments(app.console)) for update in (usual, Spans.of(usual))]
    return texts == ["ab", "ab"]


def install(app: App[Any]) -> None:
    """Lets the app paint by spans."""
    display = app._display

    def painted(screen: Screen[Any], renderable: RenderableType | None) -> None:
        display(screen, Spans.of(renderable) if isinstance(renderable, ChopsUpdate) else renderable)

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
                for text, style, _control in strip.crop(start - x, stop - x):
                    before, ink = ink, ink_of(style, system) if style else PLAIN
                    sent += (change(before, ink), text)
                at = (stop, y)
        return "".join((*sent, change(ink, PLAIN)))


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
