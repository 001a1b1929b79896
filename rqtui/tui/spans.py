"""What a repaint sends: only the cells that changed, and of their styles only what differs from the one before.

Textual 8.2 sends a line from its start to the end of each changed run, and both colours of every piece of it: 43 bytes
around an id of eight letters. Over a slow link these are what one waits for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.console import Console
from rich.control import Control
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.strip import Strip


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
        system = console._color_system or ColorSystem.TRUECOLOR
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
    """The codes that lead from one ink to another. What an ink does not say cannot be taken back but by a reset."""
    if before == now:
        return ""
    is_taken_back = any(was and not is_ for was, is_ in zip(before, now, strict=True))
    if is_taken_back or before.attributes not in ("", now.attributes):
        return f"\x1b[{';'.join(('0', *filter(None, now)))}m"
    return f"\x1b[{';'.join(is_ for was, is_ in zip(before, now, strict=True) if is_ != was)}m"
