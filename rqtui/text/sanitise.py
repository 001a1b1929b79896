"""Data made harmless for a terminal: what is invisible, or could command the terminal, becomes a visible symbol.

Ids, names, errors and bodies come from strangers. A terminal obeys ESC, C1 and bidi characters wherever they stand,
and loses count of its columns at zero-width ones. `safe` leaves none of them, so whatever it returns may be printed
in a table cell, a toast or a pipe. It is idempotent, and it never returns more than one line.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from unicodedata import category

_NAMED = {"\n": ("⏎", "\\n"), "\t": ("⇥", "\\t"), "\u2028": ("⏎", "\\n"), "\u2029": ("⏎", "\\n")}
_WIDE_SPACE = "\u3000"
# Letters, marks and symbols by category, but drawn as nothing at all: joiners and fillers of Hangul, Khmer, Mongolian
# and Khitan, the Braille cell without a dot, a note without a head.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159") | {
    chr(n) for n in range(0x180B, 0x1810)
}
_SELECTORS = frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
_SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
EMPTY_ID = "''"
_MOST_MARKS = 3  # combining marks on one letter; more is "zalgo" that paints over the neighbouring rows


def safe(text: str | bytes, ascii_only: bool = False) -> str:
    """`text` with every control, bidi, zero-width and undecodable part shown as symbols, on one line.

    ESC becomes `␛`, newline `⏎`, tab `⇥`, other controls their picture, what has no picture its code point
    (`‹202E›`), and a byte that is no UTF-8 `\\xff`. With `ascii_only` the symbols are `^[`, `\\n` and `<202E>`.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    before = ""  # the character that a mark, a selector or a skin tone would attach to
    marks = 0
    for char in text:
        if char in _SELECTORS or char in _SKIN_TONES:
            # How a symbol is drawn, not which one it is; terminals disagree on the width of the pair.
            shown.append("" if _is_symbol(before) else _code_point(char, ascii_only))
            continue
        if category(char) in ("Mn", "Me") and char not in _INVISIBLE:
            marks += 1
            shown.append(_mark(char, before, marks))
            continue
        marks = 0
        symbol = _symbol(char, ascii_only)
        shown.append(symbol)
        before = symbol[-1:]
    return "".join(shown)


def shown_id(id: str | bytes, ascii_only: bool = False) -> str:
    """An id made `safe`; an empty one as `''`, or nobody would see that it is there."""
    return safe(id, ascii_only) or EMPTY_ID


def safe_lines(text: str | bytes, ascii_only: bool = False) -> list[str]:
    """The lines of `text`, each made `safe`: for bodies and errors, where a line break is a line break."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return [safe(line, ascii_only) for line in text.replace("\r\n", "\n").split("\n")]


_SHOWN = re.compile(r"\\x([89a-fA-F][0-9a-fA-F])|[‹<]([0-9A-F]{4,6})[›>]|[\u2400-\u2421⏎⇥]|\^([@-_?])|\\([nt])")


def unshown(text: str) -> str:
    """A name that somebody typed as `safe` shows it, with the bytes and characters that the symbols stand for.

    It is what shows the same, as far as can be known: several characters are shown as one space.
    """
    return _SHOWN.sub(_meant, text)


def has_symbols(text: str) -> bool:
    """Whether `safe` may have made it of something else."""
    return _SHOWN.search(text) is not None or not {" ", "◌", "�"}.isdisjoint(text)


def _meant(shown: re.Match[str]) -> str:
    byte, point, control, letter = shown.groups()
    if byte:
        return chr(0xDC00 + int(byte, 16))
    if point:
        return chr(int(point, 16)) if int(point, 16) <= sys.maxunicode else shown[0]
    if control:
        return chr(ord(control) ^ 0x40)
    if letter:
        return {"n": "\n", "t": "\t"}[letter]
    return _PICTURED.get(shown[0]) or chr(0x7F if shown[0] == "␡" else ord(shown[0]) - 0x2400)


_PICTURED = {pictures[0]: char for char, pictures in reversed(_NAMED.items())}


@lru_cache(4096)
def _symbol(char: str, ascii_only: bool) -> str:
    """What stands for one character that is no mark: itself if it is visible and only one way wide."""
    if char in _NAMED:
        return _NAMED[char][ascii_only]
    code = ord(char)
    kind = category(char)
    if kind == "Cc" and (code < 0x20 or code == 0x7F):
        return "^" + chr(code ^ 0x40) if ascii_only else chr(0x2421 if code == 0x7F else 0x2400 + code)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as `names` keeps it
        return f"\\x{code - 0xDC00:02x}"
    if kind == "Zs":
        return "  " if char == _WIDE_SPACE else " "
    if kind.startswith("C") or char in _INVISIBLE:
        return _code_point(char, ascii_only)
    return char


def _code_point(char: str, ascii_only: bool) -> str:
    return f"<{ord(char):04X}>" if ascii_only else f"‹{ord(char):04X}›"


def _mark(char: str, before: str, marks: int) -> str:
    """A combining mark on its letter; on a dotted circle where there is none, so it can't sit on our own frame."""
    if marks > _MOST_MARKS:
        return "�" if marks == _MOST_MARKS + 1 else ""
    return char if before and before != " " else f"◌{char}"


def _is_symbol(char: str) -> bool:
    return bool(char) and (category(char) in ("So", "Sm", "Sk", "Po") or char in "0123456789#*")
