"""Disputed widths: text that one terminal draws wider than another, and what keeps the rest of its line in place.

Vowel signs of India (`नेहा`), marks, joined emoji: Rich, tmux and each terminal count cells by tables of their own.
Where a terminal draws such a text wider than Textual counts, all behind it stands elsewhere than Textual thinks, and
remains of it stay on the screen when only cells that changed are sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len
from rich.control import Control

_DISPUTED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0590-\u1cff\u1dc0-\u1dff\u200b-\u200f\u20d0-\u20ff\u302a-\u302f\u3099\u309a"
    "\ua66f-\ua6f1\ua800-\uabff\ud7b0-\ud7ff\ufb1e\ufe00-\ufe0f\ufe20-\ufe2f\ufeff"
    "\U00010a00-\U00011fff\U0001d165-\U0001d1ad\U0001f000-\U0001faff\U000e0000-\U000e01ef]"
)
"""Scripts with signs that stand on others, those signs alone, and emoji: more than is disputed, and all of it."""
_PART = re.compile(r"(?:(?! {2}).)+ *|  +", re.DOTALL)  # up to the next gap of two blanks, with the gap


def is_disputed(text: str) -> bool:
    """Whether terminals draw it in more cells than one another."""
    return not text.isascii() and _DISPUTED.search(text) is not None


def placed(text: str, x: int, y: int) -> str:
    """The text as it is sent for cell (x, y), so that what follows stands where it is counted to stand.

    The cells are blanked first, for it may be drawn narrower. What is drawn wider may reach into the gap behind it.
    """
    return "".join(_placed(text, x, y))


def _placed(text: str, x: int, y: int) -> Iterator[str]:
    for part in _PART.findall(text):
        width = cell_len(part)
        if is_disputed(part):
            yield from (" " * width, _to(x, y), part.rstrip(" "), _to(x + width, y))
        else:
            yield part
        x += width


def _to(x: int, y: int) -> str:
    return Control.move_to(x, y).segment.text
