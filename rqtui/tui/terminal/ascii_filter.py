"""The look of `--ascii`: every sign of the screen, from frames to data, in the letters that any terminal has.

A filter on the lines as they are painted, so that no view needs to know of it: one cell stays one cell. What tells
something keeps telling it (`>` for a running loop, `+` for a corner); a letter with an accent loses the accent, and
what has no likeness becomes `?`.
"""

from __future__ import annotations

from unicodedata import normalize

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_ALIKE = {
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
    """Signs by their code; those that are not in the table are worked out once."""

    def __missing__(self, code: int) -> str:
        self[code] = shown = chr(code) if code < 0x80 else _likeness(chr(code))
        return shown


def _likeness(sign: str) -> str:
    """ASCII as wide as `sign`: its letter without marks, a braille cell by its dots, else question marks."""
    width = cell_len(sign)
    code = ord(sign)
    if 0x2800 <= code <= 0x28FF:
        return " .::**##@"[(code & 0xFF).bit_count()]
    letters = "".join(letter for letter in normalize("NFKD", sign) if letter.isascii() and letter.isprintable())
    return letters if letters and len(letters) == width else "?" * width


SIGNS = _Signs({ord(sign): letter for letter, signs in _ALIKE.items() for sign in signs})


def ascii_of(text: str) -> str:
    """`text` in ASCII, as wide as it was."""
    return text if text.isascii() else text.translate(SIGNS)


_SPELLED = {"⏎": "Enter", "␣": "Space"}


def spelled(key: str) -> str:
    """The sign of a key as a word, where one letter would not tell."""
    return _SPELLED.get(key, key)


class Ascii(LineFilter):
    """Puts `ascii_of` on every line."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments, in ASCII."""
        return [Segment(ascii_of(text), style, control) for text, style, control in segments]


ASCII = Ascii()
