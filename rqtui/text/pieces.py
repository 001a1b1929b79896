"""Styled text as a list of pieces, each with the name of a style. Used for table cells and panel lines. Pure."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Piece(NamedTuple):
    """A text with one style: one of `theme.STYLES` (`muted`, `strong`, `state-ready`, …), or empty."""

    text: str
    style: str = ""


Cell: TypeAlias = str | Piece | tuple[Piece, ...]


def to_pieces(cell: Cell) -> tuple[Piece, ...]:
    """Convert a cell of any type to a tuple of pieces."""
    if isinstance(cell, str):
        return (Piece(cell),)
    return (cell,) if isinstance(cell, Piece) else cell
