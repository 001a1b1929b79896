"""Convert everything that the screen shows, from frames to job data, to ASCII for the option `--ascii`.

The filter works on painted lines, so that no view needs to know about `--ascii`, and keeps the width of every
character. Signs keep their meaning (`>` for a running loop, `+` for a corner); an accented letter loses its accent, and
a character without an equivalent becomes `?`.
"""

from __future__ import annotations

from unicodedata import normalize

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_ASCII_SIGNS = {
    "-": "·─━═╌╍┄┅┈┉╴╶╸╺╼╾–—−‐‑‒▔⎯",
    "|": "│┃║╎╏┆┇┊┋╵╷╹╻▐▏▎▍▋▊▉▕¦",
    "+": "±✓✔☑╭╮╯╰┌┐┘└├┤┬┴┼┏┓┛┗┣┫┳┻╋╔╗╝╚╠╣╦╩╬",
    "=": "▀",
    "_": "␣▁",
    ".": "•▪∙⋅",
    ",": "▂",
    ":": "▃░∶",
    ";": "▄",
    "*": "▆●◆★▅",
    "#": "▇▓■▒◼▣",
    "@": "█",
    "o": "○◌◇◯□☐ø",
    ">": "▌▶▸►→⇒›»⏵≥⇥",
    "<": "◀◂◄←‹«≤⇤",
    "!": "▲△",
    "^": "↑␛⌃⇧",
    "v": "▼▽↓▾",
    "x": "×✗✘☒",
    "X": "✕",
    "~": "…≈∼",
    "$": "⏎↵",
    '"': "“”„‟″",
    "'": "‘’‚‛′",
    "u": "µμ",
    "/": "÷⁄∕",
    # Letters that no normal form of Unicode separates from their stroke.
    "L": "Ł",
    "l": "ł",
    "i": "ı",
    "O": "Ø",
    "D": "ĐÐ",
    "d": "đð",
    "h": "ħ",
}


class _Signs(dict[int, str]):
    """A `str.translate` table from character codes to ASCII text; an entry is computed when it is first needed."""

    def __missing__(self, code: int) -> str:
        self[code] = replacement = chr(code) if code < 0x80 else _convert_character(chr(code))
        return replacement


def _convert_character(character: str) -> str:
    """Return ASCII text of the same width for one character.

    An accented letter becomes its base letter, a braille cell a sign as dense as its dots, and any other character
    question marks.
    """
    width = cell_len(character)
    code = ord(character)
    if 0x2800 <= code <= 0x28FF:
        return " .::**##@"[(code & 0xFF).bit_count()]
    letters = "".join(letter for letter in normalize("NFKD", character) if letter.isascii() and letter.isprintable())
    return letters if letters and len(letters) == width else "?" * width


SIGNS = _Signs({ord(sign): letter for letter, signs in _ASCII_SIGNS.items() for sign in signs})


def to_ascii(text: str) -> str:
    """Return `text` with every non-ASCII character replaced by ASCII text of the same width."""
    return text if text.isascii() else text.translate(SIGNS)


_KEY_WORDS = {"⏎": "Enter", "␣": "Space"}


def spell_key(key: str) -> str:
    """Return the name of a key on screens limited to ASCII: `Enter` or `Space` for a sign, else the key unchanged."""
    return _KEY_WORDS.get(key, key)


class AsciiFilter(LineFilter):
    """A Textual line filter that replaces every non-ASCII character on the screen, used with `--ascii`."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a painted line with their text converted to ASCII."""
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


ASCII = AsciiFilter()
