"""Position text that terminals draw with different widths, so that the rest of its line stays in place.

Examples are vowel signs of Indian scripts (`नेहा`), combining marks and joined emoji: Rich, tmux and each terminal
count cells by tables of their own. If a terminal draws such a text wider than Textual counts, everything after it is
displaced, and remains of it stay on the screen when only changed cells are sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category

from rich.cells import cell_len
from rich.control import Control

_DISPUTED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0590-\u1cff\u1dc0-\u1dff\u200b-\u200f\u20d0-\u20ff\u302a-\u302f\u3099\u309a"
    "\ua66f-\ua6f1\ua800-\uabff\ud7b0-\ud7ff\ufb1e\ufe00-\ufe0f\ufe20-\ufe2f\ufeff"
    "\U00010a00-\U00011fff\U0001d165-\U0001d1ad\U0001f000-\U0001faff\U000e0000-\U000e01ef]"
)
"""Combining marks, scripts that use them, and emoji: a superset of the characters of terminal-dependent width."""
_PART = re.compile(r"(?:(?! {2}).)+ *|  +", re.DOTALL)  # text up to the next gap of two blanks, including the gap


def has_terminal_dependent_width(text: str) -> bool:
    """Return whether terminals may draw this text with different widths."""
    return not text.isascii() and _DISPUTED.search(text) is not None


def measure_greatest_width(text: str) -> int:
    """Return the number of cells that this text takes in the terminal that draws it widest.

    A vowel sign behind its letter takes a cell in tmux and others, and none by Rich's count. Joined emoji may be drawn
    side by side.
    """
    width = cell_len(text)
    if not has_terminal_dependent_width(text):
        return width
    return max(width, sum(max(cell_len(character), category(character) == "Mc") for character in text))


def add_cursor_moves(text: str, x: int, y: int) -> str:
    """Return text for cell (x, y) with cursor moves around its parts of terminal-dependent width.

    Text after these parts is then where Textual expects it. The cells are blanked first, because a terminal may draw
    the text narrower. Text that is drawn wider may reach into the gap after it.
    """
    return "".join(_yield_positioned_parts(text, x, y))


def _yield_positioned_parts(text: str, x: int, y: int) -> Iterator[str]:
    """Yield the parts of a text for cell (x, y), with blanks and cursor moves around parts of uncertain width."""
    for part in _PART.findall(text):
        width = cell_len(part)
        if has_terminal_dependent_width(part):
            yield from (" " * width, _encode_cursor_move(x, y), part.rstrip(" "), _encode_cursor_move(x + width, y))
        else:
            yield part
        x += width


def _encode_cursor_move(x: int, y: int) -> str:
    return Control.move_to(x, y).segment.text
