"""Reduce what a repaint sends to the terminal: only changed cells, and only the changed parts of their styles.

Textual 8.2 sends all that a widget painted again, also where it is the same as before, and both colours of every piece:
43 bytes around an id of eight letters. On a slow link the user waits for these bytes. Text of uncertain width is
positioned explicitly, in partial and in full repaints, so that the rest of its line stays in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
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

from rqtui.tui.terminal.disputed_widths import add_cursor_moves, has_terminal_dependent_width
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
    if not has_parameters(app._display, "screen", "renderable") or not has_parameters(app._check_resize):
        return False
    strip = Strip([Segment("ab", Style(bold=True, color="red"))])
    width = strip.cell_length
    partial_update = ChopsUpdate([{0: strip}], [(0, 0, width)], [[width]])
    full_update = LayoutUpdate([[strip]], Region())
    updates = (
        partial_update,
        full_update,
        PartialUpdate.from_update(partial_update),
        FullUpdate.from_update(full_update),
    )
    return {_CODES.sub("", update.render_segments(app.console)) for update in updates} == {"ab"}


def install_hook(app: App[Any]) -> None:
    """Make the app render its screen updates with `PartialUpdate` and `FullUpdate` instead of Textual's classes.

    What was sent is forgotten when the terminal has another size, and when it was taken again after a suspension: each
    start of the driver has another thread that writes.
    """
    display, check_resize, cells = app._display, app._check_resize, SentCells()

    def display_changed_cells(screen: Screen[Any], renderable: RenderableType | None) -> None:
        cells.clear_if_taken_again(getattr(app._driver, "_writer_thread", None))
        if isinstance(renderable, ChopsUpdate):
            renderable = PartialUpdate.from_update(renderable, cells)
        elif isinstance(renderable, LayoutUpdate):
            renderable = FullUpdate.from_update(renderable, cells)
        display(screen, renderable)

    def forget_cells_and_resize() -> None:
        cells.clear()
        check_resize()

    app._display = display_changed_cells  # type: ignore[method-assign]
    app._check_resize = forget_cells_and_resize  # type: ignore[method-assign]


class Ink(NamedTuple):
    """The terminal codes of a style in three parts: attributes such as bold, foreground colour, background colour."""

    attributes: str = ""
    colour: str = ""
    ground: str = ""


PLAIN = Ink()


Cell = tuple[str, Ink]  # the character of a cell and its ink; an empty text for the second cell of a wide character
_UNKNOWN: Cell = ("\0", PLAIN)
_MAX_GAP = 6  # unchanged cells that are sent again between two changed ones, because a cursor move takes 6 to 9 bytes
_INVISIBLE_ON_BLANKS = frozenset(("", "1", "2", "3", "1;2", "1;3", "2;3", "1;2;3"))  # bold, dim and italic


class SentCells:
    """The cells that the terminal shows, as far as they are known from what was sent to it.

    A row with text of uncertain width is unknown and always sent as a whole: a terminal may have drawn it elsewhere.
    """

    def __init__(self) -> None:
        self._rows: dict[int, list[Cell]] = {}
        self._terminal: object = None

    def clear(self) -> None:
        """Forget all cells: the terminal may have changed them, so the next update sends every cell that it has."""
        self._rows.clear()

    def clear_if_taken_again(self, terminal: object) -> None:
        """Forget all cells if `terminal` is another object than at the last call: another program wrote to it since."""
        if terminal is not self._terminal:
            self._terminal = terminal
            self.clear()

    def encode_changes(self, y: int, pieces: Sequence[tuple[int, Strip]], pen: Pen) -> None:
        """Write the changed cells of a row with a pen. `pieces` are the row's new strips, each with its first cell."""
        parsed = [_parse_cells(strip, pen.color_system) for _x, strip in pieces]
        if None in parsed:
            self._rows.pop(y, None)
            for x, strip in pieces:
                pen.write_strip(x, y, strip)
            return
        row = self._rows.setdefault(y, [])
        for (x, _strip), cells in zip(pieces, parsed, strict=True):
            assert cells is not None
            end = x + len(cells)
            row.extend([_UNKNOWN] * (end - len(row)))
            for first, last in _find_changed_runs(row[x:end], cells):
                pen.write_cells(x + first, y, cells[first:last])
            row[x:end] = cells


def _parse_cells(strip: Strip, color_system: ColorSystem) -> list[Cell] | None:
    """Return the cells of a strip, or None if terminals may draw its text with different widths."""
    if has_terminal_dependent_width(strip.text):
        return None
    cells: list[Cell] = []
    for text, style, _control in strip:
        ink = encode_style(style, color_system) if style else PLAIN
        blank = (" ", Ink(ground=ink.ground) if ink.attributes in _INVISIBLE_ON_BLANKS else ink)
        if text.isascii():
            cells += [blank if character == " " else (character, ink) for character in text]
            continue
        for character in text:
            width = cell_len(character)
            if not width:
                return None
            cells.append(blank if character == " " else (character, ink))
            cells += [("", ink)] * (width - 1)
    return cells


def _find_changed_runs(old: Sequence[Cell], new: Sequence[Cell]) -> list[tuple[int, int]]:
    """Return the runs of cells that differ, as first cell and end, with wide characters as a whole."""
    runs: list[tuple[int, int]] = []
    for at in [at for at, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]:
        first, end = at, at + 1
        while first and not new[first][0]:
            first -= 1
        while end < len(new) and not new[end][0]:
            end += 1
        if runs and first - runs[-1][1] <= _MAX_GAP:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((first, end))
    return runs


class Pen:
    """Builds the text of an update: cursor moves, changes of style, and the characters."""

    def __init__(self, color_system: ColorSystem) -> None:
        self.color_system = color_system
        self._output: list[str] = []
        self._cursor: tuple[int, int] | None = None  # of the terminal; None: unknown
        self._ink = PLAIN  # of the terminal

    def write_cells(self, x: int, y: int, cells: Sequence[Cell]) -> None:
        """Write cells from cell (x, y) on."""
        self._move_to(x, y)
        for character, ink in cells:
            if character == " " and not ink.attributes and self._ink.attributes in _INVISIBLE_ON_BLANKS:
                self._write_style_change(self._ink._replace(ground=ink.ground))
            else:
                self._write_style_change(ink)
            self._output.append(character)
        self._cursor = (x + len(cells), y)

    def write_strip(self, x: int, y: int, strip: Strip) -> None:
        """Write a strip from cell (x, y) on, with cursor moves around text whose width depends on the terminal."""
        self._move_to(x, y)
        for text, style, _control in _position_segments(strip, x, y):
            self._write_style_change(encode_style(style, self.color_system) if style else PLAIN)
            self._output.append(text)
        self._cursor = (x + strip.cell_length, y)

    def finish(self) -> str:
        """Return everything written so far, and leave the terminal in the plain style."""
        self._write_style_change(PLAIN)
        return "".join(self._output)

    def _move_to(self, x: int, y: int) -> None:
        if self._cursor != (x, y):
            self._output.append(Control.move_to(x, y).segment.text)

    def _write_style_change(self, ink: Ink) -> None:
        if ink is not self._ink:
            self._output.append(encode_style_change(self._ink, ink))
            self._ink = ink


class PartialUpdate(ChopsUpdate):
    """A partial update of the screen that sends only the changed cells to the terminal.

    It replaces Textual's `ChopsUpdate`.
    """

    cells: SentCells

    @classmethod
    def from_update(cls, update: ChopsUpdate, cells: SentCells | None = None) -> PartialUpdate:
        """Create a partial screen update of this class from Textual's `ChopsUpdate`."""
        partial = cls(update.chops, update.spans, update.chop_ends)
        partial.cells = cells or SentCells()
        return partial

    def render_segments(self, console: Console) -> str:
        """Return a partial screen update as text for the terminal, which begins and ends in the plain style.

        Links are left out, because rqtui has none.
        """
        pen = _create_pen(console)
        for y, first, last in self.spans:
            pieces = []
            for piece_end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                start, end = max(x, first), min(piece_end, last)
                if strip is not None and start < end:
                    pieces.append((start, strip.crop(start - x, end - x)))
            self.cells.encode_changes(y, pieces, pen)
        return pen.finish()


class FullUpdate(LayoutUpdate):
    """An update of the whole screen or of a rectangle that sends only the changed cells to the terminal.

    It replaces `LayoutUpdate`.
    """

    cells: SentCells

    @classmethod
    def from_update(cls, update: LayoutUpdate, cells: SentCells | None = None) -> FullUpdate:
        """Create a full screen update of this class from Textual's `LayoutUpdate`."""
        full = cls(update.strips, update.region)
        full.cells = cells or SentCells()
        return full

    def render_segments(self, console: Console) -> str:
        """Return an update of the whole screen or of a rectangle as text for the terminal, with cursor moves."""
        pen = _create_pen(console)
        for y, strips in enumerate(self.strips, self.region.y):
            x, pieces = self.region.x, []
            for strip in strips:
                pieces.append((x, strip))
                x += strip.cell_length
            self.cells.encode_changes(y, pieces, pen)
        return pen.finish()


def _create_pen(console: Console) -> Pen:
    return Pen(SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR))


def _position_segments(strip: Strip, x: int, y: int) -> Iterable[Segment]:
    """Return the segments of a line at (x, y), with cursor moves around text whose width depends on the terminal."""
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


@cache
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
