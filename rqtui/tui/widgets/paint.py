"""How a line of a table looks: from a `Line`, which holds all that its picture depends on, to a `Strip`.

The table decides what a line shows, the painter draws it and remembers the picture, so that equal lines are drawn
once. It also tells which cells of two lines differ, since only those are sent to the terminal again. Whatever text
arrives, no control character leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip

from rqtui.text import formats
from rqtui.text.elision import Fit
from rqtui.text.pieces import Cell, Piece, pieces_of
from rqtui.text.sanitise import safe
from rqtui.tui.format.rows import Column, Row, Slot, arrange
from rqtui.tui.terminal.disputed_widths import is_disputed

GUTTER = 2  # cells: the cursor's bar and the mark
_NARROW = 56  # cells; below it columns stand one cell apart instead of two


class Glyphs(NamedTuple):
    """The signs beside a row."""

    cursor: str = "▌"
    mark: str = "◆"
    gone: str = "×"
    marked_gone: str = "◇"
    absent: str = "·"
    ellipsis: str = "…"


GLYPHS = (Glyphs(), Glyphs(">", "*", "x", "o", ".", "~"))


class Line(NamedTuple):
    """All that a line's picture depends on: equal lines are not drawn again."""

    width: int
    row: Row | None = None
    text: str = ""  # where there is no row: a sentence
    is_header: bool = False
    cursor: str = ""  # the style of the cursor's bar, where it is
    mark: str = ""
    mark_style: str = ""
    is_gone: bool = False
    has_arrived: bool = False
    is_dimmed: bool = False


class Painter:
    """Draws lines; `style` gives the colours for a name, `ground` those of plain text."""

    def __init__(
        self, columns: Sequence[Column], ascii_only: bool, style: Callable[[str], Style], ground: Callable[[], Style]
    ) -> None:
        self.columns = tuple(columns)
        self.ascii_only = ascii_only
        self.glyphs = GLYPHS[ascii_only]
        self._style = style
        self._ground = ground
        self._strips: LRUCache[Line, Strip] = LRUCache(512)
        self._slots: dict[int, tuple[Slot, ...]] = {}

    def forget(self) -> None:
        """The colours are others now."""
        self._strips.clear()

    def draw(self, line: Line) -> Strip:
        """The line's picture, `line.width` cells wide."""
        strip = self._strips.get(line)
        if strip is None:
            strip = self._strips[line] = self._draw_row(line, line.row) if line.row else self._draw_text(line)
        return strip

    def changes(self, before: Line | None, now: Line) -> tuple[int, int]:
        """(x, width) of what differs: from the first to the last changed cell where nothing else changed, else all.

        One span, for Textual sends a line from its start to the end of each span. Where a changed cell is, or was, of
        a disputed width, it may reach into those behind it, and they are drawn again.
        """
        whole = (0, now.width)
        if before is None or before.row is None or now.row is None or before._replace(row=now.row) != now:
            return whole
        old, new = before.row, now.row
        if (old.style, old.tint, old.is_gone, len(old.cells)) != (new.style, new.tint, new.is_gone, len(new.cells)):
            return whole
        placed = [(x, slot) for x, slot in self._placed(now.width) if slot.column < len(new.cells)]
        changed = [(x, slot) for x, slot in placed if old.cells[slot.column] != new.cells[slot.column]]
        if not changed:
            return whole
        (first, _), (last, slot) = changed[0], changed[-1]
        cells = (row.cells[slot.column] for row in (old, new) for _x, slot in changed)
        is_wide = any(is_disputed(text) for cell in cells for text, _style in pieces_of(cell))
        return first, (now.width if is_wide else last + slot.width) - first

    def column_at(self, x: int, width: int) -> str:
        """The key of the column in which cell `x` of a line stands; empty beside all of them."""
        found = [slot for at, slot in self._placed(width) if at <= x < at + slot.width]
        return self.columns[found[0].column].key if found else ""

    def _placed(self, width: int) -> list[tuple[int, Slot]]:
        """The columns in sight, each with its x."""
        gap = _gap(width)
        if width not in self._slots:
            self._slots[width] = arrange(self.columns, width - GUTTER - 1, gap)
        x, placed = GUTTER, []
        for slot in self._slots[width]:
            placed.append((x, slot))
            x += slot.width + gap
        return placed

    def _draw_row(self, line: Line, row: Row) -> Strip:
        has_bar = line.cursor == "accented"
        grounds = (row.tint, "table--arrived" if line.has_arrived else "", "table--cursor" if has_bar else "")
        ground = self._ground()
        for name in filter(None, grounds):
            ground += self._style(name)
        quiet = "muted" if line.is_dimmed or line.is_gone else ""
        usual = row.style or ("strong" if has_bar else "")
        pieces = self._gutter(line)
        for x, slot in self._placed(line.width):
            column = self.columns[slot.column]
            cell = row.cells[slot.column] if slot.column < len(row.cells) else ""
            pieces.append(Piece(" " * _gap(line.width) if x > GUTTER else ""))
            for text, style in self._fit(cell, slot.width, column.align, column.fit):
                pieces.append(Piece(text, quiet or style or column.style or usual))
        return self._strip(pieces, ground, line.width)

    def _draw_text(self, line: Line) -> Strip:
        """The header, a sentence, a row that is not loaded, or nothing."""
        pieces = self._gutter(line)
        if not line.is_header:
            pieces.append(Piece(line.text, "muted"))
            return self._strip(pieces, self._ground(), line.width)
        for x, slot in self._placed(line.width):
            column = self.columns[slot.column]
            pieces.append(Piece(" " * _gap(line.width) if x > GUTTER else ""))
            pieces.extend(self._fit(Piece(column.title, "table--header"), slot.width, column.align))
        return self._strip(pieces, self._ground(), line.width)

    def _gutter(self, line: Line) -> list[Piece]:
        cursor = Piece(self.glyphs.cursor, line.cursor) if line.cursor else Piece(" ")
        return [cursor, Piece(line.mark or " ", line.mark_style)]

    def _fit(self, cell: Cell, width: int, align: str, fit: Fit | None = None) -> list[Piece]:
        """The cell in exactly `width` cells, and nothing in it that a terminal obeys."""
        # Callers make text safe; this is the last line of defence, free for plain text.
        pieces = [Piece(safe(text, self.ascii_only), style) for text, style in pieces_of(cell)]
        spare = width - sum(formats.cell_len(piece.text) for piece in pieces)
        if spare >= 0:
            pad = Piece(" " * spare)
            return [pad, *pieces] if align == "right" else [*pieces, pad]
        if fit is not None and pieces:  # what stands before the last piece is a sign, or an indent
            *before, (text, style) = pieces
            room = width - sum(formats.cell_len(piece.text) for piece in before)
            if room > 0:
                return self._fit((*before, Piece(fit(text, room), style)), width, align)
        fitted: list[Piece] = []
        room = width
        for text, style in pieces:
            length = formats.cell_len(text)
            if length >= room:  # it is too long itself, or more follows
                fitted.append(Piece(formats.fit(text + " ", room, ellipsis=self.glyphs.ellipsis), style))
                break
            fitted.append(Piece(text, style))
            room -= length
        return fitted

    def _strip(self, pieces: list[Piece], ground: Style, width: int) -> Strip:
        """The pieces on their ground; blanks go with what stands before them: each change of style costs 40 bytes."""
        runs: list[list[str]] = []
        for text, style in pieces:
            if runs and (style == runs[-1][1] or not text or text.isspace()):
                runs[-1][0] += text
            else:
                runs.append([text, style])
        segments = [Segment(text, ground + self._style(style) if style else ground) for text, style in runs]
        return Strip(segments).adjust_cell_length(width, ground)


def _gap(width: int) -> int:
    return 1 if width < _NARROW else 2
