"""Ids for jobs whose producer gives none: a uuid7 in 22 letters that sort by time.

Short, since an id is stored up to five times per job: 22 letters against 36 made 280 bytes of difference per job.
What is dear in making one is asked for many at a time: random letters, counters, and the letters of the last 14 s.
"""

from __future__ import annotations

import os
import time
from functools import cache, lru_cache

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # in the order of ASCII, so that ids sort
_PAIRS = [high + low for high in DIGITS for low in DIGITS]  # two letters a step: half the divisions
_BASE = len(_PAIRS)
_LATE = 62**5  # the last five of eleven letters: those before them are the same for 14 s, and it is one digit of Python
_BLOCK = 1024
_LETTER_OF = bytes(ord(DIGITS[byte % 62]) for byte in range(256))
_LOWEST = (0b10 << 62) // 62**8 + 1  # with the variant in front; a block of steps of five stays below the next variant
ID_BYTES = 512  # of an id at most, at least 1, as the scripts take it

_noise: list[str] = []  # what the next ids end with; a forked process draws its own
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_noise.clear)


def new_id() -> str:
    """One new id, as `new_ids` makes the first of several."""
    try:
        noise = _noise.pop()
    except IndexError:  # this one, and what other threads will take
        noise, *rest = _drawn(_BLOCK)
        _noise.extend(rest)
    return _first() + _LOWEST_LETTERS + noise


def new_ids(count: int) -> list[str]:
    """`count` new ids, in ascending order.

    RFC 9562, version 7: 48 bits of milliseconds and 12 of their fraction (its method 3), which the ids of a call share;
    then the variant and a counter (its method 1) in three letters, and eight random letters, 47 bits.
    """
    ids: list[str] = []
    while count > len(ids):
        first, noise = _first(), _drawn(min(_BLOCK, count - len(ids)))
        ids += [first + counter + letters for counter, letters in zip(_counters(), noise, strict=False)]
    return ids


def _drawn(count: int) -> list[str]:
    """Eight random letters, so many times."""
    letters = os.urandom(8 * count).translate(_LETTER_OF).decode("ascii")
    return [letters[at : at + 8] for at in range(0, 8 * count, 8)]


@cache
def _counters() -> list[str]:
    """The three letters of the ids of a block."""
    return [_three(_LOWEST + 5 * number) for number in range(_BLOCK)]


def _three(number: int) -> str:
    return _PAIRS[number // 62] + DIGITS[number % 62]


_LOWEST_LETTERS = _three(_LOWEST)


def _first() -> str:
    """The half of an id that says when it was made, and the version: 64 bits as 11 letters."""
    now_ns = time.time_ns()
    ms = now_ns // 1_000_000
    early, late = divmod(ms << 16 | 7 << 12 | (now_ns - ms * 1_000_000) * 4096 // 1_000_000, _LATE)
    two, three = divmod(late, 62**3)
    return _six(early) + _PAIRS[two] + _three(three)


@lru_cache(1)
def _six(number: int) -> str:
    a, rest = divmod(number, _BASE * _BASE)
    return _PAIRS[a] + _PAIRS[rest // _BASE] + _PAIRS[rest % _BASE]
