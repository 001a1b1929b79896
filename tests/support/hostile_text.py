"""Build bytes and names that try to control the terminal, and find control characters in output.

`build_hostile_text` and `build_hostile_body` combine `PIECES` at random from a seed, so that a failure can be repeated.
`find_harmful_character` returns the dangerous character of a printed text.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u3164\u115f\u2028\u2029"
BLANK = "\u1160\uffa0\u2800\u17b4\u17b5"  # drawn as nothing; not in PIECES, whose seeds would change
COMMANDS = (
    "\x1b[2J", "\x1b[31m", "\x1b]0;owned\x07", "\x1b]52;c;b3duZWQ=\x07", "\x1bP1$r0m\x1b\\", "\x1b_x\x1b\\", "\x1bc",
    "\x1b[?1049l", "\x9b31m", "\x9d0;owned\x9c", "\x90q\x9c", "\x07", "\x08", "\r", "\n", "\x00",
    "\x7f", "\t", "\x0e", "\x1b(0",
)  # fmt: skip
MARKUP = ("[red]", "[/red]", "[@click=app.quit]x[/]", "[bold", "[[", "$accent", ":smile:", "[link=file:///etc/passwd]")
WIDE = ("日本", "👨‍👩‍👧", "🇩🇪", "👍🏽", "❤️", "ｆｕｌｌ", "　", "﷽")
MARKS = ("e\u0301", "\u0301", "z" + "\u0335" * 40, "\u0e33", "ก็็็", "\u20dd")
WORDS = ("mail", "password=hunter2", "TimeoutError: smtp", "…", "·", "é", "a" * 300, " " * 40, "-" * 200)
PIECES = (*COMMANDS, *MARKUP, *WIDE, *MARKS, *WORDS, *BIDI, *ZERO_WIDTH)
RAW = (b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc2\x9b", b"\x80\x04\x95")
JSON = (
    '{"a":NaN}',
    "[Infinity]",
    '{"a":1e999}',
    "[" * 60,
    '{"x":' * 50,
    '{"password":"hunter2"',
    '"\\ud800"',
    '{"k\\u001b[2J":1}',
)


def build_hostile_text(source: random.Random, most: int = 8) -> str:
    """Build a hostile text for a name, an error or a line."""
    return "".join(source.choice(PIECES) for _ in range(source.randint(1, most)))


def build_hostile_body(source: random.Random) -> bytes:
    """Build a hostile job body: text, JSON with such text in keys and values, MessagePack, raw bytes, long or deep."""
    kind = source.randrange(6)
    if kind == 0:
        return build_hostile_text(source).encode("utf-8", "surrogatepass")
    if kind == 1:
        return json.dumps(
            {
                build_hostile_text(source, 3): [
                    build_hostile_text(source, 3),
                    {build_hostile_text(source, 2): source.random()},
                ]
            }
        ).encode()
    if kind == 2:
        return json.dumps({build_hostile_text(source, 3): build_hostile_text(source, 3)}, ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )
    if kind == 3:
        return source.choice(JSON).encode() + build_hostile_text(source, 2).encode()
    if kind == 4:
        import msgpack

        packed: bytes = msgpack.packb(
            {build_hostile_text(source, 2): [build_hostile_text(source, 2), source.choice(RAW)]}
        )
        return packed
    return b"".join(
        source.choice((*RAW, build_hostile_text(source, 2).encode(), source.randbytes(20))) for _ in range(6)
    )


def build_hostile_id(source: random.Random, number: int) -> bytes:
    """Build a hostile job id of at most 512 bytes that ends with `number`."""
    head = source.choice(
        (
            build_hostile_text(source).encode(),
            source.choice(RAW) + build_hostile_text(source, 3).encode(),
            source.randbytes(16),
        )
    )
    return (head[:480] or b"x") + f"-{number}".encode()


def find_harmful_character(shown: str, allowed: str = "\n") -> str:
    """Return the first character of a text that could control a terminal or shift its columns, or ""."""
    for char in shown:
        if char in allowed or " " <= char <= "~":
            continue
        kind = unicodedata.category(char)
        if kind in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or char in BIDI + ZERO_WIDTH + BLANK:
            return f"U+{ord(char):04X} ({kind})"
    return ""


_TOOLKIT_SEQUENCE = re.compile(
    rb"\x1b\[[0-9;:?<>=$]*[ -/]*[@-~]"  # CSI: colours, the cursor, modes
    rb"|\x1b[=>78]|\x1b\([AB0]"
    rb"|\x1b\]22;[a-z-]*\x07"  # the shape of the mouse's pointer
)


def find_foreign_control_characters(sent: bytes) -> bytes:
    """Return the control characters in a terminal's output that are in none of the sequences that Textual sends."""
    remaining = _TOOLKIT_SEQUENCE.sub(b"", sent).replace(b"\r", b"").replace(b"\n", b"")
    bad = re.findall(
        rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf", remaining
    )
    return b"".join(bad)
