"""Generate job ids: UUIDs of version 7, written in 22 letters that sort by time. Used when a producer gives no id.

Ids are short because an id is stored up to five times per job: 22 letters instead of 36 save 280 bytes per job. The
expensive parts are computed for many ids at once: random letters, counters, and the letters that are the same for 14 s.
"""

from __future__ import annotations

import os
import time
from functools import cache, lru_cache

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # in the order of ASCII, so that ids sort
_PAIRS = [high + low for high in DIGITS for low in DIGITS]  # two letters per step halve the number of divisions
_BASE = len(_PAIRS)
# The last five of eleven letters. The six before them are the same for 14 s, and the number fits one digit of Python.
_LATE = 62**5
_BLOCK = 1024
_LETTER_OF = bytes(ord(DIGITS[byte % 62]) for byte in range(256))
_LOWEST = (0b10 << 62) // 62**8 + 1  # begins with the variant; a block with steps of five stays in the same variant
ID_BYTES = 512  # the longest id that the scripts accept; the shortest has 1 byte

_noise: list[str] = []  # random ends of the next ids; cleared after a fork, so that processes do not share them
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_noise.clear)


def create_job_id() -> str:
    """Return a new job id: a UUID of version 7, written in 22 letters."""
    try:
        random_letters = _noise.pop()
    except IndexError:  # Draw a block: one for this id, the others for later ids of all threads.
        random_letters, *later_ids = _draw_random_letters(_BLOCK)
        _noise.extend(later_ids)
    return _build_id_time_part() + _LOWEST_LETTERS + random_letters


def create_job_ids(count: int) -> list[str]:
    """Return `count` new job ids in ascending order.

    Format (RFC 9562, version 7): 48 bits of milliseconds and 12 bits of their fraction (method 3), which all ids of one
    call share. Then the variant and a counter (method 1) in three letters, and eight random letters (47 bits).
    """
    ids: list[str] = []
    while count > len(ids):
        time_letters, random_parts = _build_id_time_part(), _draw_random_letters(min(_BLOCK, count - len(ids)))
        ids += [
            time_letters + counter + random_letters
            for counter, random_letters in zip(_build_id_counters(), random_parts, strict=False)
        ]
    return ids


def _draw_random_letters(count: int) -> list[str]:
    """Return `count` strings of eight random letters each."""
    letters = os.urandom(8 * count).translate(_LETTER_OF).decode("ascii")
    return [letters[at : at + 8] for at in range(0, 8 * count, 8)]


@cache
def _build_id_counters() -> list[str]:
    """Return the three-letter counter of each job id in a block of 1024 ids."""
    return [_encode_in_three_letters(_LOWEST + 5 * number) for number in range(_BLOCK)]


def _encode_in_three_letters(number: int) -> str:
    return _PAIRS[number // 62] + DIGITS[number % 62]


_LOWEST_LETTERS = _encode_in_three_letters(_LOWEST)


def _build_id_time_part() -> str:
    """Return the first half of a job id: the current time and the UUID version, 64 bits written as 11 letters."""
    now_ns = time.time_ns()
    ms = now_ns // 1_000_000
    early, late = divmod(ms << 16 | 7 << 12 | (now_ns - ms * 1_000_000) * 4096 // 1_000_000, _LATE)
    two, three = divmod(late, 62**3)
    return _encode_in_six_letters(early) + _PAIRS[two] + _encode_in_three_letters(three)


@lru_cache(1)
def _encode_in_six_letters(number: int) -> str:
    high_part, low_part = divmod(number, _BASE * _BASE)
    return _PAIRS[high_part] + _PAIRS[low_part // _BASE] + _PAIRS[low_part % _BASE]
