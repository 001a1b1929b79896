"""Join the lines of several Lua files to one text, and find the file and line of a line in the joined text.

`join_file_pieces` puts a line `-- from FILE:LINE` before each piece that is not the beginning of the first file, so the
text alone says where each line comes from. `scripts/include.py` joins scripts; error messages and the lint look lines
up.
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


def join_file_pieces(pieces: Iterable[Piece]) -> str:
    """Join pieces of files to one text. A line `-- from FILE:LINE` is put above each piece except the first."""
    joined = ""
    for piece in pieces:
        if joined:
            joined += ("" if joined.endswith("\n") else "\n") + f"-- from {piece.path}:{piece.first}\n"
        joined += piece.text
    return joined


def split_into_file_pieces(text: str, path: str) -> list[Piece]:
    """Split a joined text at its lines `-- from FILE:LINE` into pieces of files.

    The text begins with line 1 of `path`.
    """
    pieces, first_number, lines = [], 1, list[str]()
    for line in text.splitlines(keepends=True):
        mark = re.fullmatch(_MARK, line.rstrip("\n"))
        if mark:
            pieces.append(Piece(path, first_number, "".join(lines)))
            path, first_number, lines = mark["path"], int(mark["line"]), []
        else:
            lines.append(line)
    return [*pieces, Piece(path, first_number, "".join(lines))]


def find_source_position(text: str, path: str, number: int) -> str:
    """Return the `FILE:LINE` from which a line of a joined text comes.

    A line `-- from FILE:LINE` counts as the line below it.
    """
    first_number, first_file_line = 1, 1
    for line_number, line in enumerate(text.split("\n")[:number], 1):
        if mark := re.fullmatch(_MARK, line):
            path, first_file_line, first_number = mark["path"], int(mark["line"]), line_number + 1
    return f"{path}:{first_file_line + max(0, number - first_number)}"
