"""Convert everything on the screen, from frames to data, to ASCII for `--ascii`.

The filter works on painted lines, so that no view needs to know about it, and keeps the width of every character. Signs
keep their meaning (`>` for a running loop, `+` for a corner); an accented letter loses its accent, and a character
without an equivalent becomes `?`.
"""

from __future__ import annotations

from unicodedata import normalize

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_ASCII_SIGNS = {
    "-": "─━═╌╍┄┅┈┉╴╶╸╺╼╾–—−‐‑‒▔⎯",
    "|": "│┃║╎╏┆┇┊┋╵╷╹╻▐▏▎▍▋▊▉▕¦",
    "+": "╭╮╯╰┌┐┘└├┤┬┴┼┏┓┛┗┣┫┳┻╋╔╗╝╚╠╣╦╩╬",
    "=": "▀",
    "_": "␣▁",
    ".": "·•▪∙⋅",
    ",": "▂",
    ":": "▃░∶",
    ";": "▄",
    "*": "▆●◆★▅",
    "#": "▇▓■▒◼▣",
    "@": "█",
    "o": "○◌◇◯□☐",
    ">": "▌▶▸►→⇒›»⏵≥⇥",
    "<": "◀◂◄←‹«≤⇤",
    "^": "▲△↑␛⌃⇧",
    "v": "▼▽↓✓✔☑",
    "x": "×✗✕✘☒",
    "~": "…≈∼",
    "$": "⏎↵",
    '"': "“”„‟″",
    "'": "‘’‚‛′",
    "u": "µμ",
}


class _Signs(dict[int, str]):
    """A translation table of characters by code; missing entries are computed once."""

    def __missing__(self, code: int) -> str:
        self[code] = shown = chr(code) if code < 0x80 else _find_ascii(chr(code))
        return shown


def _find_ascii(sign: str) -> str:
    """Return ASCII text as wide as `sign`: its base letter, a braille cell by its dots, else question marks."""
    width = cell_len(sign)
    code = ord(sign)
    if 0x2800 <= code <= 0x28FF:
        return " .::**##@"[(code & 0xFF).bit_count()]
    letters = "".join(letter for letter in normalize("NFKD", sign) if letter.isascii() and letter.isprintable())
    return letters if letters and len(letters) == width else "?" * width


SIGNS = _Signs({ord(sign): letter for letter, signs in _ASCII_SIGNS.items() for sign in signs})


def to_ascii(text: str) -> str:
    """Return `text` in ASCII, with the same width."""
    return text if text.isascii() else text.translate(SIGNS)


_SPELLED = {"⏎": "Enter", "␣": "Space"}


def spell_key(key: str) -> str:
    """Return a key as a word if its ASCII sign would be unclear, such as `Enter`."""
    return _SPELLED.get(key, key)


class Ascii(LineFilter):
    """A Textual line filter that applies `to_ascii` to every line."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with their text in ASCII."""
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


ASCII = Ascii()
