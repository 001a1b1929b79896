"""Ids for jobs whose producer gives none: a uuid7 in 22 letters that sort by time.

Short, since an id is stored up to five times per job: 22 letters against 36 made 280 bytes of difference per job.
"""

from __future__ import annotations

import os
import time

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # in the order of ASCII, so that ids sort
_PAIRS = [high + low for high in DIGITS for low in DIGITS]  # two letters a step: half the divisions
_BASE = len(_PAIRS)
_BLOCK = 4096
_LETTER_OF = bytes(ord(DIGITS[byte % 62]) for byte in range(256))
_LOWEST = (0b10 << 62) // 62**8 + 1  # with the variant in front; 4096 steps of five stay below the next variant
_LOWEST_LETTERS = _PAIRS[_LOWEST // 62] + DIGITS[_LOWEST % 62]
ID_BYTES = 512  # of an id at most, at least 1, as the scripts take it


def new_id() -> str:
    """One new id, as `new_ids` makes the first of several."""
    return _first() + _LOWEST_LETTERS + os.urandom(8).translate(_LETTER_OF).decode("ascii")


def new_ids(count: int) -> list[str]:
    """`count` new ids, in ascending order.

    RFC 9562, version 7: 48 bits of milliseconds and 12 of their fraction (its method 3), which the ids of a call share;
    then the variant and a counter (its method 1) in three letters, and eight random letters, 47 bits.
    """
    ids: list[str] = []
    while count > len(ids):
        block = min(_BLOCK, count - len(ids))
        first = _first()
        noise = os.urandom(8 * block).translate(_LETTER_OF).decode("ascii")
        ids += [
            first + _PAIRS[(counter := _LOWEST + 5 * number) // 62] + DIGITS[counter % 62] + noise[at : at + 8]
            for number, at in enumerate(range(0, 8 * block, 8))
        ]
    return ids


def _first() -> str:
    """The half of an id that says when it was made, and the version."""
    ms, rest_ns = divmod(time.time_ns(), 1_000_000)
    return _letters(ms << 16 | 7 << 12 | rest_ns * 4096 // 1_000_000)


def _letters(number: int) -> str:
    """64 bits as 11 letters."""
    number, f = divmod(number, _BASE)
    number, e = divmod(number, _BASE)
    number, d = divmod(number, _BASE)
    number, c = divmod(number, _BASE)
    a, b = divmod(number, _BASE)
    return DIGITS[a] + _PAIRS[b] + _PAIRS[c] + _PAIRS[d] + _PAIRS[e] + _PAIRS[f]
