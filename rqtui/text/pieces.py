"""Represent styled text as pieces, each with the name of a style, for table cells and panel lines."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Piece(NamedTuple):
    """A text with one style of the screen's theme (`muted`, `strong`, …; see `theme.STYLES`), or with none."""

    text: str
    style: str = ""


Cell: TypeAlias = str | Piece | tuple[Piece, ...]


def convert_cell_to_pieces(cell: Cell) -> tuple[Piece, ...]:
    """Convert the content of a table cell (text, one piece, or several) to a tuple of pieces."""
    if isinstance(cell, str):
        return (Piece(cell),)
    return (cell,) if isinstance(cell, Piece) else cell
