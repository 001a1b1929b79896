"""Draw a line of a table: from a `PaintedLine`, which holds all that its look depends on, to a `Strip`.

The table decides what a line shows. The painter draws it, caches the result so that equal lines are drawn once, and
finds the cells that differ between two lines, because only those are sent to the terminal. Control characters in a text
are never passed on.
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
from rqtui.text.pieces import Cell, Piece, convert_cell_to_pieces
from rqtui.text.sanitise import safe
from rqtui.tui.format.rows import Column, Row, VisibleColumn, fit_columns
from rqtui.tui.terminal.disputed_widths import has_disputed_width, measure_greatest_width

GUTTER = 2  # cells of the cursor's bar and the mark
_NARROW_CELLS = 56  # narrower lines have one cell between columns instead of two


class Glyphs(NamedTuple):
    """The signs beside a row."""

    cursor: str = "▌"
    mark: str = "◆"
    missing: str = "×"
    marked_missing: str = "◇"
    absent: str = "·"
    ellipsis: str = "…"


GLYPHS = (Glyphs(), Glyphs(">", "*", "x", "o", ".", "~"))


class PaintedLine(NamedTuple):
    """All values that the look of a line depends on. Equal lines are not drawn again."""

    width: int
    row: Row | None = None
    text: str = ""  # sentence of a line without a row
    is_header: bool = False
    cursor: str = ""  # style of the cursor's bar; empty on other rows
    mark: str = ""
    mark_style: str = ""
    is_missing: bool = False
    has_arrived: bool = False
    is_dimmed: bool = False


class Painter:
    """Draws lines. `style` returns the colours for a name, `ground` those of plain text."""

    def __init__(
        self, columns: Sequence[Column], ascii_only: bool, style: Callable[[str], Style], ground: Callable[[], Style]
    ) -> None:
        self.columns = tuple(columns)
        self.ascii_only = ascii_only
        self.glyphs = GLYPHS[ascii_only]
        self._style = style
        self._ground = ground
        self._strips: LRUCache[PaintedLine, Strip] = LRUCache(512)
        self._slots: dict[int, tuple[VisibleColumn, ...]] = {}

    def clear_cache(self) -> None:
        """Clear the cache of drawn lines after the colours changed."""
        self._strips.clear()

    def draw_line(self, line: PaintedLine) -> Strip:
        """Draw a line, `line.width` cells wide, or return it from the cache."""
        strip = self._strips.get(line)
        if strip is None:
            strip = self._strips[line] = self._draw_row(line, line.row) if line.row else self._draw_text(line)
        return strip

    def find_changes(self, before: PaintedLine | None, now: PaintedLine) -> tuple[int, int]:
        """Return (x, width) of the cells that differ between two lines: from the first to the last changed cell.

        If more than cells changed, the result is the whole line. It is one span, because Textual sends a line from its
        start to the end of each span. A changed character of disputed width may reach into the cells behind it, so
        those are included.
        """
        whole = (0, now.width)
        if before is None or before.row is None or now.row is None or before._replace(row=now.row) != now:
            return whole
        old, new = before.row, now.row
        if (old.style, old.tint, old.is_gone, len(old.cells)) != (new.style, new.tint, new.is_gone, len(new.cells)):
            return whole
        placed = [(x, slot) for x, slot in self._place_columns(now.width) if slot.column < len(new.cells)]
        changed = [(x, slot) for x, slot in placed if old.cells[slot.column] != new.cells[slot.column]]
        if not changed:
            return whole
        (first, _), (last, slot) = changed[0], changed[-1]
        cells = (row.cells[slot.column] for row in (old, new) for _x, slot in changed)
        is_wide = any(has_disputed_width(text) for cell in cells for text, _style in convert_cell_to_pieces(cell))
        return first, (now.width if is_wide else last + slot.width) - first

    def find_column(self, x: int, width: int) -> str:
        """Return the key of the column at cell `x` of a line, or "" if there is none."""
        found = [slot for at, slot in self._place_columns(width) if at <= x < at + slot.width]
        return self.columns[found[0].column].key if found else ""

    def _place_columns(self, width: int) -> list[tuple[int, VisibleColumn]]:
        """Return the visible columns, each with its x."""
        gap = _count_gap_cells(width)
        if width not in self._slots:
            self._slots[width] = fit_columns(self.columns, width - GUTTER - 1, gap)
        x, placed = GUTTER, []
        for slot in self._slots[width]:
            placed.append((x, slot))
            x += slot.width + gap
        return placed

    def _draw_row(self, line: PaintedLine, row: Row) -> Strip:
        has_bar = line.cursor == "accented"
        grounds = (row.tint, "table--arrived" if line.has_arrived else "", "table--cursor" if has_bar else "")
        ground = self._ground()
        for name in filter(None, grounds):
            ground += self._style(name)
        quiet = "muted" if line.is_dimmed or line.is_missing else ""
        usual = row.style or ("strong" if has_bar else "")
        pieces = self._build_gutter(line)
        for x, slot in self._place_columns(line.width):
            column = self.columns[slot.column]
            cell = row.cells[slot.column] if slot.column < len(row.cells) else ""
            pieces.append(Piece(" " * _count_gap_cells(line.width) if x > GUTTER else ""))
            for text, style in self._fit_cell(cell, slot.width, column.align, column.fit):
                pieces.append(Piece(text, quiet or style or column.style or usual))
        return self._build_strip(pieces, ground, line.width)

    def _draw_text(self, line: PaintedLine) -> Strip:
        """Draw the header, a sentence, a row that is not loaded, or an empty line."""
        pieces = self._build_gutter(line)
        if not line.is_header:
            pieces.append(Piece(line.text, "muted"))
            return self._build_strip(pieces, self._ground(), line.width)
        for x, slot in self._place_columns(line.width):
            column = self.columns[slot.column]
            pieces.append(Piece(" " * _count_gap_cells(line.width) if x > GUTTER else ""))
            pieces.extend(self._fit_cell(Piece(column.title, "table--header"), slot.width, column.align))
        return self._build_strip(pieces, self._ground(), line.width)

    def _build_gutter(self, line: PaintedLine) -> list[Piece]:
        cursor = Piece(self.glyphs.cursor, line.cursor) if line.cursor else Piece(" ")
        return [cursor, Piece(line.mark or " ", line.mark_style)]

    def _fit_cell(self, cell: Cell, width: int, align: str, fit: Fit | None = None) -> list[Piece]:
        """Fit a cell into exactly `width` cells, without control characters, also where a terminal draws it wider."""
        pieces = self._fit_counted(cell, width, align, fit)
        if not any(has_disputed_width(piece.text) for piece in pieces):
            return pieces
        excess = sum(measure_greatest_width(piece.text) for piece in pieces) - width
        if align == "right" and excess > 0 and pieces[0].text.isspace():
            blanks = min(excess, len(pieces[0].text))
            pieces = [Piece(pieces[0].text[blanks:]), *pieces[1:], Piece(" " * blanks)]
        return self._shorten_disputed(pieces, width)

    def _shorten_disputed(self, pieces: list[Piece], width: int) -> list[Piece]:
        """Shorten text that some terminal draws wider than its column, where the next column would hide its end."""
        room = width
        for at, (text, style) in enumerate(pieces):
            widest = measure_greatest_width(text.rstrip())
            if widest > room:
                kept = text.rstrip().removesuffix(self.glyphs.ellipsis)
                while kept and measure_greatest_width(kept) > room - 1:
                    kept = kept[:-1]
                shortened = [*pieces[:at], Piece(kept + self.glyphs.ellipsis if room else "", style)]
                return [*shortened, Piece(" " * (width - sum(formats.cell_len(piece.text) for piece in shortened)))]
            room -= measure_greatest_width(text)
        return pieces

    def _fit_counted(self, cell: Cell, width: int, align: str, fit: Fit | None = None) -> list[Piece]:
        """Fit a cell into exactly `width` cells by Rich's count."""
        # Callers sanitise the text already. This repeats it as a last defence, at no cost for plain text.
        pieces = [Piece(safe(text, self.ascii_only), style) for text, style in convert_cell_to_pieces(cell)]
        spare = width - sum(formats.cell_len(piece.text) for piece in pieces)
        if spare >= 0:
            pad = Piece(" " * spare)
            return [pad, *pieces] if align == "right" else [*pieces, pad]
        if fit is not None and pieces:  # the pieces before the last one are signs or indents
            *before, (text, style) = pieces
            room = width - sum(formats.cell_len(piece.text) for piece in before)
            if room > 0:
                return self._fit_counted((*before, Piece(fit(text, room), style)), width, align)
        fitted: list[Piece] = []
        room = width
        for text, style in pieces:
            length = formats.cell_len(text)
            if length >= room:  # this piece is too long, or another one follows
                fitted.append(Piece(formats.fit_to_width(text + " ", room, ellipsis=self.glyphs.ellipsis), style))
                break
            fitted.append(Piece(text, style))
            room -= length
        return fitted

    def _build_strip(self, pieces: list[Piece], ground: Style, width: int) -> Strip:
        """Join the pieces into a strip. Blanks take the style before them: each change of style costs 40 bytes."""
        runs: list[list[str]] = []
        for text, style in pieces:
            if runs and (style == runs[-1][1] or not text or text.isspace()):
                runs[-1][0] += text
            else:
                runs.append([text, style])
        segments = [Segment(text, ground + self._style(style) if style else ground) for text, style in runs]
        return Strip(segments).adjust_cell_length(width, ground)


def _count_gap_cells(width: int) -> int:
    return 1 if width < _NARROW_CELLS else 2
