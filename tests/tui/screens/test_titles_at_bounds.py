"""Compare the titles of a board's frames with a stored text, at each width where they change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from board_panes import build_panes
from kept_text import assert_lines_match_file

from rqtui.tui.screens import board_borders

KEPT = Path(__file__).with_name("titles_at_bounds.txt")
WIDTHS = range(24, 171)
QUEUES = {
    "native": (0, 20_927, 12, 9_950, 3),
    "bullmq": (46, 5, 0, 3, 24, 7, 41, 169),
}


def join_pieces(pieces: Sequence[board_borders.Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def format_titles(system: str, width: int, expression: str) -> Iterator[tuple[str, str]]:
    """Yield a name and the text of each kind of title."""
    panes, queue = build_panes(system, QUEUES[system], width, expression)
    for number in (1, len(panes)):
        pane = panes[number - 1]
        title = board_borders.build_title_with_tabs(panes, pane, queue)
        yield f"place {number} alone", join_pieces(title)
        for is_folded in (False, True):
            text = join_pieces(board_borders.build_pane_title(number, pane, queue, is_folded=is_folded))
            yield f"place {number}{' folded' if is_folded else ''}", text
        without, with_line = (
            board_borders.build_tabs_on_two_lines(panes, pane, queue, width, has_line=has_line)
            for has_line in (False, True)
        )
        yield f"place {number} on two lines", " / ".join(map(join_pieces, with_line)) if with_line else "none"
        yield f"place {number} gets its own line", str(without is not None)
        assert without in (None, with_line)


def format_all() -> Iterator[str]:
    for system in QUEUES:
        for expression in ("", "ab", ".tenant:acme and .age>5m"):
            shown: dict[str, str] = {}
            for width in WIDTHS:
                for name, text in format_titles(system, width, expression):
                    if shown.get(name) != text:
                        shown[name] = text
                        yield f"{system} {expression!r} {width}: {name}: {text}".rstrip()


@pytest.mark.slow
def test_titles_match_the_stored_text() -> None:
    assert_lines_match_file(format_all(), KEPT)
