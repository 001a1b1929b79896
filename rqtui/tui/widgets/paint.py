"""Draw a line of a table: from a `PaintedLine`, which contains all that its look depends on, to a `Strip`.

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
from rqtui.tui.terminal.disputed_widths import has_terminal_dependent_width, measure_greatest_width

GUTTER = 2  # cells of the cursor's bar and the mark
_NARROW_CELLS = 56  # narrower lines have one cell between columns instead of two


class Glyphs(NamedTuple):
    """The signs beside the rows of a table, such as cursor and mark."""

    cursor: str = "▌"
    mark: str = "◆"
    missing: str = "×"
    marked_missing: str = "◇"
    absent: str = "·"
    ellipsis: str = "…"


GLYPHS = (Glyphs(), Glyphs(">", "*", "x", "o", ".", "~"))


class PaintedLine(NamedTuple):
    """All values that the look of a table line depends on. Equal lines are not drawn again."""

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
    """Draws and caches the lines of a table. `style` returns the colours for a name, `ground` those of plain text."""

    def __init__(
        self,
        columns: Sequence[Column],
        ascii_only: bool,
        find_style: Callable[[str], Style],
        find_plain_style: Callable[[], Style],
    ) -> None:
        self.columns = tuple(columns)
        self.ascii_only = ascii_only
        self.glyphs = GLYPHS[ascii_only]
        self._find_style = find_style
        self._find_plain_style = find_plain_style
        self._strips: LRUCache[PaintedLine, Strip] = LRUCache(512)
        self._visible_columns: dict[int, tuple[VisibleColumn, ...]] = {}

    def clear_cache(self) -> None:
        """Clear the cache of drawn lines after the colours changed."""
        self._strips.clear()

    def draw_line(self, line: PaintedLine) -> Strip:
        """Draw a table line, `line.width` cells wide, or return it from the cache."""
        strip = self._strips.get(line)
        if strip is None:
            strip = self._strips[line] = (
                self._draw_table_row(line, line.row) if line.row else self._draw_line_without_row(line)
            )
        return strip

    def find_changed_cells(self, previous: PaintedLine | None, current: PaintedLine) -> tuple[int, int]:
        """Return (x, width) of the cells that differ between two versions of a line.

        The cells reach from the first to the last changed cell. If more than cells changed, the result is the whole
        line. It is one span, because Textual sends a line from its start to the end of each span. A changed character
        of terminal-dependent width may reach into the cells behind it, so those are included.
        """
        whole_line = (0, current.width)
        if (
            previous is None
            or previous.row is None
            or current.row is None
            or previous._replace(row=current.row) != current
        ):
            return whole_line
        old, new = previous.row, current.row
        if (old.style, old.tint, old.is_gone, len(old.cells)) != (new.style, new.tint, new.is_gone, len(new.cells)):
            return whole_line
        placed_columns = [(x, slot) for x, slot in self._place_columns(current.width) if slot.column < len(new.cells)]
        changed = [(x, slot) for x, slot in placed_columns if old.cells[slot.column] != new.cells[slot.column]]
        if not changed:
            return whole_line
        (first, _), (last, slot) = changed[0], changed[-1]
        cells = (row.cells[slot.column] for row in (old, new) for _x, slot in changed)
        is_disputed = any(
            has_terminal_dependent_width(text) for cell in cells for text, _find_style in convert_cell_to_pieces(cell)
        )
        return first, (current.width if is_disputed else last + slot.width) - first

    def find_column_at(self, x: int, width: int) -> str:
        """Return the key of the column at cell `x` of a line, or "" if there is none."""
        matches = [slot for at, slot in self._place_columns(width) if at <= x < at + slot.width]
        return self.columns[matches[0].column].key if matches else ""

    def _place_columns(self, width: int) -> list[tuple[int, VisibleColumn]]:
        """Return (x, column) of each visible column in a line of `width` cells."""
        gap = _count_gap_cells(width)
        if width not in self._visible_columns:
            self._visible_columns[width] = fit_columns(self.columns, width - GUTTER - 1, gap)
        x, placed = GUTTER, []
        for slot in self._visible_columns[width]:
            placed.append((x, slot))
            x += slot.width + gap
        return placed

    def _draw_table_row(self, line: PaintedLine, row: Row) -> Strip:
        has_bar = line.cursor == "accented"
        background_names = (row.tint, "table--arrived" if line.has_arrived else "", "table--cursor" if has_bar else "")
        row_style = self._find_plain_style()
        for name in filter(None, background_names):
            row_style += self._find_style(name)
        muted_style = "muted" if line.is_dimmed or line.is_missing else ""
        default_style = row.style or ("strong" if has_bar else "")
        pieces = self._build_gutter(line)
        for x, slot in self._place_columns(line.width):
            column = self.columns[slot.column]
            cell = row.cells[slot.column] if slot.column < len(row.cells) else ""
            pieces.append(Piece(" " * _count_gap_cells(line.width) if x > GUTTER else ""))
            for text, style in self._fit_cell_to_width(cell, slot.width, column.align, column.fit):
                pieces.append(Piece(text, muted_style or style or column.style or default_style))
        return self._join_pieces(pieces, row_style, line.width)

    def _draw_line_without_row(self, line: PaintedLine) -> Strip:
        """Draw the header, a sentence, a row that is not loaded, or an empty line."""
        pieces = self._build_gutter(line)
        if not line.is_header:
            pieces.append(Piece(line.text, "muted"))
            return self._join_pieces(pieces, self._find_plain_style(), line.width)
        for x, slot in self._place_columns(line.width):
            column = self.columns[slot.column]
            pieces.append(Piece(" " * _count_gap_cells(line.width) if x > GUTTER else ""))
            pieces.extend(self._fit_cell_to_width(Piece(column.title, "table--header"), slot.width, column.align))
        return self._join_pieces(pieces, self._find_plain_style(), line.width)

    def _build_gutter(self, line: PaintedLine) -> list[Piece]:
        cursor = Piece(self.glyphs.cursor, line.cursor) if line.cursor else Piece(" ")
        return [cursor, Piece(line.mark or " ", line.mark_style)]

    def _fit_cell_to_width(self, cell: Cell, width: int, align: str, fit: Fit | None = None) -> list[Piece]:
        """Fit a cell into exactly `width` cells, without control characters, also if a terminal draws it wider."""
        pieces = self._fit_cell_by_count(cell, width, align, fit)
        if not any(has_terminal_dependent_width(piece.text) for piece in pieces):
            return pieces
        excess = sum(measure_greatest_width(piece.text) for piece in pieces) - width
        if align == "right" and excess > 0 and pieces[0].text.isspace():
            blanks = min(excess, len(pieces[0].text))
            pieces = [Piece(pieces[0].text[blanks:]), *pieces[1:], Piece(" " * blanks)]
        return self._shorten_disputed_text(pieces, width)

    def _shorten_disputed_text(self, pieces: list[Piece], width: int) -> list[Piece]:
        """Shorten text that some terminal draws wider than its column, where the next column would hide its end."""
        width_left = width
        for index, (text, style) in enumerate(pieces):
            widest = measure_greatest_width(text.rstrip())
            if widest > width_left:
                kept = text.rstrip().removesuffix(self.glyphs.ellipsis)
                while kept and measure_greatest_width(kept) > width_left - 1:
                    kept = kept[:-1]
                shortened = [*pieces[:index], Piece(kept + self.glyphs.ellipsis if width_left else "", style)]
                return [*shortened, Piece(" " * (width - sum(formats.cell_len(piece.text) for piece in shortened)))]
            width_left -= measure_greatest_width(text)
        return pieces

    def _fit_cell_by_count(self, cell: Cell, width: int, align: str, fit: Fit | None = None) -> list[Piece]:
        """Fit a table cell into exactly `width` cells by Rich's count."""
        # Callers sanitise the text already. This repeats it as a last defence, at no cost for plain text.
        pieces = [Piece(safe(text, self.ascii_only), style) for text, style in convert_cell_to_pieces(cell)]
        spare = width - sum(formats.cell_len(piece.text) for piece in pieces)
        if spare >= 0:
            padding = Piece(" " * spare)
            return [padding, *pieces] if align == "right" else [*pieces, padding]
        if fit is not None and pieces:  # the pieces before the last one are signs or indents
            *first_pieces, (text, style) = pieces
            width_left = width - sum(formats.cell_len(piece.text) for piece in first_pieces)
            if width_left > 0:
                return self._fit_cell_by_count((*first_pieces, Piece(fit(text, width_left), style)), width, align)
        fitted: list[Piece] = []
        width_left = width
        for text, style in pieces:
            length = formats.cell_len(text)
            if length >= width_left:  # this piece is too long, or another one follows
                fitted.append(Piece(formats.fit_to_width(text + " ", width_left, ellipsis=self.glyphs.ellipsis), style))
                break
            fitted.append(Piece(text, style))
            width_left -= length
        return fitted

    def _join_pieces(self, pieces: list[Piece], base_style: Style, width: int) -> Strip:
        """Join the pieces of a line into a strip.

        Blanks take the style before them: each change of style costs 40 bytes.
        """
        runs: list[list[str]] = []
        for text, style in pieces:
            if runs and (style == runs[-1][1] or not text.strip()):
                runs[-1][0] += text
            else:
                runs.append([text, style])
        segments = [
            Segment(text, base_style + self._find_style(style) if style else base_style) for text, style in runs
        ]
        return Strip(segments).adjust_cell_length(width, base_style)


def _count_gap_cells(width: int) -> int:
    return 1 if width < _NARROW_CELLS else 2
