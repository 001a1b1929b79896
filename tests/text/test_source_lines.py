"""Where a line of a joined text comes from."""

from __future__ import annotations

import pytest

from rqtui.text.source_lines import Piece, find_source_position, join_file_pieces, split_into_file_pieces

PIECES = [
    Piece("lua/a/x.lua", 1, "one\ntwo\n"),
    Piece("lua/a/blocks/b.lua", 4, "four"),  # its file ends without a line break
    Piece("lua/shared/blocks/c.lua", 9, "nine\nten\n"),
    Piece("lua/a/x.lua", 4, "four\nfive\n"),
]
TEXT = """\
one
two
-- from lua/a/blocks/b.lua:4
four
-- from lua/shared/blocks/c.lua:9
nine
ten
-- from lua/a/x.lua:4
four
five
"""


def test_a_joined_text_names_the_file_of_each_piece_but_the_first() -> None:
    assert join_file_pieces(PIECES) == TEXT


def test_a_joined_text_is_split_into_its_pieces() -> None:
    whole = [piece._replace(text=piece.text.removesuffix("\n") + "\n") for piece in PIECES]
    assert split_into_file_pieces(TEXT, "lua/a/x.lua") == whole
    assert split_into_file_pieces("one\ntwo", "x.lua") == [Piece("x.lua", 1, "one\ntwo")]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1, "lua/a/x.lua:1"), (2, "lua/a/x.lua:2"), (4, "lua/a/blocks/b.lua:4"), (6, "lua/shared/blocks/c.lua:9"),
     (7, "lua/shared/blocks/c.lua:10"), (9, "lua/a/x.lua:4"), (10, "lua/a/x.lua:5"), (8, "lua/a/x.lua:4")],
)  # fmt: skip
def test_each_line_has_its_file_and_number(number: int, expected: str) -> None:
    assert find_source_position(TEXT, "lua/a/x.lua", number) == expected


def test_the_lines_of_a_text_of_one_file_are_its_own() -> None:
    assert [find_source_position("a\nb\nc", "x.lua", number) for number in (1, 2, 3)] == [
        "x.lua:1",
        "x.lua:2",
        "x.lua:3",
    ]
