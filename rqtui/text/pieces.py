"""Text in pieces with the names of styles: what cells of tables and lines of panels are made of. Pure."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Piece(NamedTuple):
    """Text in one style; `style` is one of `theme.STYLES` (`muted`, `strong`, `state-ready`, …) or empty."""

    text: str
    style: str = ""


Cell: TypeAlias = str | Piece | tuple[Piece, ...]


def pieces_of(cell: Cell) -> tuple[Piece, ...]:
    """Any cell as pieces."""
    if isinstance(cell, str):
        return (Piece(cell),)
    return (cell,) if isinstance(cell, Piece) else cell
