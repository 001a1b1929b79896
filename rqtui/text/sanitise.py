"""Make untrusted text safe for a terminal: replace invisible characters and control characters by visible symbols.

Ids, names, errors and bodies come from other programs. A terminal obeys ESC, C1 and bidi characters wherever they are,
and zero-width characters break its columns. `safe` leaves none of them, so its result may be printed in a table cell, a
toast or a pipe. It is idempotent, and always returns a single line.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from unicodedata import category

_NAMED = {"\n": ("⏎", "\\n"), "\t": ("⇥", "\\t"), "\u2028": ("⏎", "\\n"), "\u2029": ("⏎", "\\n")}
_WIDE_SPACE = "\u3000"
# These are letters, marks and symbols by category, but invisible: joiners and fillers of Hangul, Khmer, Mongolian
# and Khitan, the Braille cell without a dot, a musical note without a head.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159") | {
    chr(n) for n in range(0x180B, 0x1810)
}
_SELECTORS = frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
_SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
EMPTY_ID = "''"
_MOST_MARKS = 3  # combining marks on one letter; more of them ("zalgo") would cover the neighbouring rows


def safe(text: str | bytes, ascii_only: bool = False) -> str:
    """Return a text on one line, with control, bidi, zero-width and undecodable parts replaced by visible symbols.

    ESC becomes `␛`, newline `⏎`, tab `⇥`, other controls their symbol in Unicode's block of control symbols, characters
    without such a symbol their code point (`‹202E›`), and a byte that is not UTF-8 `\\xff`. With `ascii_only` the
    symbols are `^[`, `\\n` and `<202E>`.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    if text.isascii() and text.isprintable():
        return text
    pieces: list[str] = []
    base_char = ""  # the character to which a mark, a selector or a skin tone belongs
    marks = 0
    for ascii_run, char in _ASCII_OR_CHAR.findall(text):
        if ascii_run:
            marks = 0
            pieces.append(ascii_run)
            base_char = ascii_run[-1]
            continue
        if char in _SELECTORS or char in _SKIN_TONES:
            # A selector only changes how a symbol is drawn, and terminals disagree on the width of the pair.
            pieces.append("" if _is_printable_symbol(base_char) else _format_code_point(char, ascii_only))
            continue
        if category(char) in ("Mn", "Me") and char not in _INVISIBLE:
            marks += 1
            pieces.append(_format_combining_mark(char, base_char, marks))
            continue
        marks = 0
        symbol = _build_visible_symbol(char, ascii_only)
        pieces.append(symbol)
        base_char = symbol[-1:]
    return "".join(pieces)


def format_id(id: str | bytes, ascii_only: bool = False) -> str:
    """Return the id of a job made safe for a terminal. An empty id becomes `''`, so that it is visible."""
    return safe(id, ascii_only) or EMPTY_ID


def safe_lines(text: str | bytes, ascii_only: bool = False) -> list[str]:
    """Return the lines of a body or an error, each made safe for a terminal."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return [safe(line, ascii_only) for line in text.replace("\r\n", "\n").split("\n")]


_ASCII_OR_CHAR = re.compile("([ -~]+)|(.)", re.DOTALL)
_SHOWN = re.compile(r"\\x([89a-fA-F][0-9a-fA-F])|[‹<]([0-9A-F]{4,6})[›>]|[\u2400-\u2421⏎⇥]|\^([@-_?])|\\([nt])")


def restore_unprintable_characters(text: str) -> str:
    """Convert the visible symbols of a name, as `safe` shows it, back to the bytes and characters that they represent.

    The result is shown as the same text, but may differ from the original: several characters are shown as a space.
    """
    return _SHOWN.sub(_parse_visible_symbol, text)


def has_replacement_symbols(text: str) -> bool:
    """Return whether a text has symbols with which `safe` replaces unprintable characters."""
    return _SHOWN.search(text) is not None or not {" ", "◌", "�"}.isdisjoint(text)


def _parse_visible_symbol(symbol: re.Match[str]) -> str:
    byte, point, control, letter = symbol.groups()
    if byte:
        return chr(0xDC00 + int(byte, 16))
    if point:
        return chr(int(point, 16)) if int(point, 16) <= sys.maxunicode else symbol[0]
    if control:
        return chr(ord(control) ^ 0x40)
    if letter:
        return {"n": "\n", "t": "\t"}[letter]
    return _PICTURED.get(symbol[0]) or chr(0x7F if symbol[0] == "␡" else ord(symbol[0]) - 0x2400)


_PICTURED = {pictures[0]: char for char, pictures in reversed(_NAMED.items())}


@lru_cache(4096)
def _build_visible_symbol(char: str, ascii_only: bool) -> str:
    """Return the visible symbol for an unprintable character; a visible character of fixed width is returned unchanged.

    Not for combining marks.
    """
    if char in _NAMED:
        return _NAMED[char][ascii_only]
    code = ord(char)
    kind = category(char)
    if kind == "Cc" and code < 0x80:
        return "^" + chr(code ^ 0x40) if ascii_only else chr(0x2421 if code == 0x7F else 0x2400 + code)
    if 0xDC80 <= code <= 0xDCFF:  # `names` keeps a byte that is not UTF-8 as such a surrogate.
        return f"\\x{code - 0xDC00:02x}"
    if kind == "Zs":
        return "  " if char == _WIDE_SPACE else " "
    if kind.startswith("C") or char in _INVISIBLE:
        return _format_code_point(char, ascii_only)
    return char


def _format_code_point(char: str, ascii_only: bool) -> str:
    return f"<{ord(char):04X}>" if ascii_only else f"‹{ord(char):04X}›"


def _format_combining_mark(char: str, before: str, marks: int) -> str:
    """Return a combining mark for the letter before it. Without a letter the mark is put on a dotted circle."""
    if marks > _MOST_MARKS:
        return "�" if marks == _MOST_MARKS + 1 else ""
    return char if before and before != " " else f"◌{char}"


def _is_printable_symbol(char: str) -> bool:
    return bool(char) and (category(char) in ("So", "Sm", "Sk", "Po") or char in "0123456789#*")
