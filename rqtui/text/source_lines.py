"""Texts that are joined from lines of several files, and the way back from a line of the text to its file.

`join_pieces` puts a line `-- from FILE:LINE` before each piece that is not the beginning of the first file, so the text
alone says where each line comes from. `scripts/include.py` joins scripts; error messages and the lint look lines up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_MARK = r"-- from (?P<path>\S.*):(?P<line>\d+)"  # compiled when an error or the lint needs it


class Piece(NamedTuple):
    """Consecutive lines of one file. `first` is the number of the first line, from 1."""

    path: str
    first: int
    text: str


def join_pieces(pieces: Iterable[Piece]) -> str:
    """Return the text of `pieces`; each gets a mark above it, except one that is the beginning of the text."""
    joined = ""
    for piece in pieces:
        if joined:
            joined += ("" if joined.endswith("\n") else "\n") + f"-- from {piece.path}:{piece.first}\n"
        joined += piece.text
    return joined


def split_pieces(text: str, path: str) -> list[Piece]:
    """Return the pieces of a joined text, without their marks. The text begins with line 1 of `path`."""
    pieces, first, lines = [], 1, list[str]()
    for line in text.splitlines(keepends=True):
        mark = re.fullmatch(_MARK, line.rstrip("\n"))
        if mark:
            pieces.append(Piece(path, first, "".join(lines)))
            path, first, lines = mark["path"], int(mark["line"]), []
        else:
            lines.append(line)
    return [*pieces, Piece(path, first, "".join(lines))]


def find_line(text: str, path: str, number: int) -> str:
    """Return `FILE:LINE` for a line of a joined text, as `split_pieces` reads it; a mark is the line below it."""
    first_number, first = 1, 1
    for at, line in enumerate(text.split("\n")[:number], 1):
        if mark := re.fullmatch(_MARK, line):
            path, first, first_number = mark["path"], int(mark["line"]), at + 1
    return f"{path}:{first + max(0, number - first_number)}"
