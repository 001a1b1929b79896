"""A job's body as text to look at: indented JSON, msgpack, pickle, UTF-8, or a hex dump, with secrets masked.

Bodies are bytes from strangers: they are shown, never executed, and pickles read, never loaded. Every line is `safe`,
and no more than 64 kB are looked at, so a body of 30 MB or one nested a million deep costs what a small one does. The
JSON is indented token by token: numbers, repeated keys and their order stand as they were sent. What is shown here is
never what is edited or sent again; that is the raw body.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rqtui.errors import UsageError
from rqtui.text.sanitise import safe, safe_lines

MASK = "••••••••"
MOST_BYTES = 64 * 1024
_GROWTH = 4  # times as long indenting may make them
_MOST_INDENT = 24  # levels; deeper ones stand below each other
_SECRET_WORDS = "password|passwd|token|secret|authorization|cookie"


class _Secrets(NamedTuple):
    """What tells of a secret: a key, a key with its value in a text, and a key in bytes with what follows it."""

    key: re.Pattern[str]
    pair: re.Pattern[str]
    near: re.Pattern[str]


class BodyView(NamedTuple):
    """`encoding` is json, msgpack, pickle, utf-8, text, hex or empty; `text` has lines, all of them safe to print.

    What is compressed has the encoding of what is in it behind `zlib `.
    """

    encoding: str
    text: str


def body_view(
    body: bytes, revealed: bool = False, most_bytes: int = MOST_BYTES, width: int = 80, viewer: str = ""
) -> BodyView:
    """How `body` looks, by one of its `viewers` or, without one, by the first of them.

    Values whose key speaks of a password, token, secret, authorization or cookie are masked unless `revealed`; the last
    line says so when only the first `most_bytes` are shown. A hex dump fits into `width` cells, as long as there are
    37 of them.
    """
    if not body:
        return BodyView("empty", "")
    head, cut = _cut(body, most_bytes)
    if viewer == "hex":
        return BodyView(viewer, _hex_dump(head, width, revealed) + cut)
    if viewer == "text":
        return BodyView(viewer, "\n".join(safe_lines(_plain_text(head, bool(cut), revealed))) + cut)
    encoding, text = _decode(head, is_cut=bool(cut), revealed=revealed, width=width)
    return BodyView(encoding, text + cut)


def body_lines(body: bytes, revealed: bool = False, most_bytes: int = MOST_BYTES) -> Iterator[str]:
    """The lines of `body_view`; those of a hex dump one by one, since all of them take five times the body's bytes."""
    head, cut = _cut(body, most_bytes)
    found = _decoded(head, bool(cut), revealed, 80) if head else ("empty", "")
    if found is not None:
        yield from (found[1] + cut).split("\n")
    else:
        yield from _hex_lines(head, 80, revealed)
        yield from cut.split("\n")[1:]


def _cut(body: bytes, most_bytes: int) -> tuple[bytes, str]:
    """The bytes that are shown, and the line that says what is left out."""
    head = body[:most_bytes]
    return head, f"\n… the first {len(head)} of {len(body)} bytes" if len(head) < len(body) else ""


def _plain_text(head: bytes, is_cut: bool, revealed: bool) -> str:
    text = _utf8(head, is_cut)
    if text is None or _is_binary(text):
        hidden: frozenset[int] = frozenset() if revealed else _hidden(head)
        shown = bytes(ord("*") if at in hidden else byte for at, byte in enumerate(head)) if hidden else head
        return shown.decode("utf-8", "backslashreplace")
    return text if revealed else mask_text(text)


def viewers(encoding: str) -> tuple[str, ...]:
    """The ways to look at a body that is in this encoding: "" (as what it is), `text`, `hex`."""
    return _OTHERS.get(encoding.removeprefix(_ZLIB), ("", "text", "hex"))


def is_tree(encoding: str) -> bool:
    """Whether a body in this encoding is shown as indented JSON."""
    return encoding.removeprefix(_ZLIB) in ("json", "msgpack", "pickle")


_ZLIB = "zlib "
_OTHERS = {"empty": ("",), "text": ("",), "utf-8": ("", "hex"), "hex": ("", "text")}


def mask_text(text: str) -> str:
    """`text` with the values behind `password=`, `"token": ` and their like masked; for text that is no JSON."""
    return _in_force[0].pair.sub(lambda found: found["key"] + MASK, text)


def is_secret(key: str) -> bool:
    """Whether what stands under `key` should not be on a screen."""
    return bool(_in_force[0].key.search(key))


def also_mask(patterns: Sequence[str]) -> None:
    """From now on values whose key fits one of these expressions are masked, too; those of before are forgotten.

    Raises UsageError for one that Python's `re` refuses.
    """
    for pattern in patterns:
        try:
            _made((pattern,))
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"the redaction pattern {pattern!r} cannot be read: {error}.") from None
    _in_force[:] = [_made(patterns)]


def secrets() -> object:
    """What is masked now: another object after `also_mask`, so that a kept picture is not shown again."""
    return _in_force[0].key


# Every repetition in front of the value is bounded: without that, 64 kB of one letter took two minutes.
def _made(patterns: Sequence[str]) -> _Secrets:
    words = "|".join([_SECRET_WORDS, *(f"(?:{pattern})" for pattern in patterns)])
    pair = re.compile(
        rf"""(?P<key>(?:(?-x:{words}))[\w.-]{{0,64}}["']?\s{{0,8}}[:=]\s{{0,8}})
        (?: "[^"\\]*(?:\\.[^"\\]*)*"? | '[^']*'? | [\[{{].*      # a string; or a list or an object: to the end
          | (?<=:\ )[^\n,;&"'}}\]]+ | [^\s,;&"'}}\]]+ )    # `Authorization: Bearer x` to the end of the line; a word
        """,
        re.IGNORECASE | re.VERBOSE | re.DOTALL,
    )
    near = re.compile(rf"(?P<key>{words}).{{1,48}}", re.IGNORECASE | re.DOTALL)
    return _Secrets(re.compile(words, re.IGNORECASE), pair, near)


_in_force = [_made(())]


def _decode(head: bytes, is_cut: bool, revealed: bool, width: int, is_inner: bool = False) -> tuple[str, str]:
    found = _decoded(head, is_cut, revealed, width, is_inner)
    return found or ("hex", _hex_dump(head, width, revealed))


def _decoded(head: bytes, is_cut: bool, revealed: bool, width: int, is_inner: bool = False) -> tuple[str, str] | None:
    """Encoding and text; None where only a hex dump can show it."""
    text = _utf8(head, is_cut)
    most_chars = _GROWTH * max(MOST_BYTES, len(head))
    if text is not None and _is_json(text, is_cut):
        return "json", _indented(text, revealed, most_chars)
    if text is not None and not _is_binary(text):
        return "utf-8", "\n".join(safe_lines(text if revealed else mask_text(text)))
    if not is_cut and (meant := _packed_as_json(head)):
        return "msgpack", _indented(meant, revealed, most_chars)
    if not is_cut and (meant := _pickled_as_json(head)):
        return "pickle", _indented(meant, revealed, most_chars)
    if not is_cut and not is_inner and (inner := inflated(head)):
        is_more = len(inner) > MOST_BYTES
        encoding, shown = _decode(inner[:MOST_BYTES], is_more, revealed, width, is_inner=True)
        return _ZLIB + encoding, shown + ("\n…" if is_more else "")
    return None


def _utf8(head: bytes, is_cut: bool) -> str | None:
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        # The cut may have split the last character.
        return head[: error.start].decode() if is_cut and len(head) - error.start < 4 else None


def _is_binary(text: str) -> bool:
    controls = sum(char < " " and char not in "\n\r\t\x1b" for char in text[:4096])
    return controls * 10 > min(len(text), 4096)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────

# A string runs from one backslash to the next: letter by letter it would take 130 bytes of memory for each of them.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def _is_json(text: str, is_cut: bool) -> bool:
    start = text.lstrip()[:1]
    if is_cut:
        return start != "" and start in "{["
    if not start or start not in '{["-0123456789tfnNI':
        return False
    try:
        json.loads(text, parse_int=str)  # str: an integer of 5000 digits is fine to look at
    except (ValueError, RecursionError):
        return False
    return True


def _indented(text: str, revealed: bool, most_chars: int) -> str:
    """JSON with a line per member; written from its tokens, so it works for the first half of a document too."""
    written: list[str] = []
    length = 0
    for piece in _pieces(text, revealed):
        written.append(piece)
        length += len(piece)
        if length > most_chars:
            written.append("\n…")
            break
    return "".join(written)


def _pieces(text: str, revealed: bool) -> Iterator[str]:
    depth = 0
    before = ""  # the token before; a value follows `:`, a key `{` or `,`
    key = ""
    hidden = -1  # the depth at which the value of a secret key began, while it lasts
    for match in _TOKEN.finditer(text):
        token = match[0]
        opens, closes = token in "{[", token in "}]"
        depth -= closes
        if hidden >= 0:
            hidden = -1 if token in ",}]" and depth + closes <= hidden else hidden
        if hidden >= 0:
            depth += opens
            continue
        if closes or (before and before in "{[,"):
            yield "" if closes and before in "{[" else _new_line(depth)
        if before == ":" and not revealed and is_secret(key):
            yield MASK
            hidden = depth
            depth += opens
            before = token if not opens else "}"
            continue
        shown = _string(token) if token.startswith('"') else safe(token)
        yield shown + (" " if token == ":" else "")
        key = shown.strip('"') if token.startswith('"') else key
        depth += opens
        before = token


def _new_line(depth: int) -> str:
    return "\n" + "  " * min(max(depth, 0), _MOST_INDENT)


def _string(token: str) -> str:
    """A JSON string with its `\\u00e9` written out; its control characters stay escaped."""
    try:
        return safe(json.dumps(json.loads(token), ensure_ascii=False))
    except ValueError:
        return safe(token)  # cut in the middle, or not quite JSON


def meant(body: bytes) -> str:
    """As JSON what a binary body holds: msgpack, a pickle, or either or a text in zlib; empty where it is none."""
    inner = inflated(body)
    if not inner or len(inner) > MOST_BYTES:
        return _packed_as_json(body) or _pickled_as_json(body)
    return _packed_as_json(inner) or _pickled_as_json(inner) or inner.decode("utf-8", "replace")


def inflated(body: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """What is in bytes of zlib, at most one byte more than `most_bytes` of it; empty where they are no zlib."""
    if body[:1] != b"\x78" or int.from_bytes(body[:2]) % 31:  # the header of RFC 1950
        return b""
    try:
        return zlib.decompressobj().decompress(body, most_bytes + 1)
    except zlib.error:
        return b""


def _pickled_as_json(body: bytes) -> str:
    if body[:1] != b"\x80" or body[-1:] != b".":
        return ""
    from rqtui.text import pickles  # late: most queues carry JSON

    try:
        value = pickles.read(body)
    except ValueError:
        return ""
    return json.dumps(pickles.plain(value), ensure_ascii=False)


def _packed_as_json(body: bytes) -> str:
    from rqtui.text import msgpack  # late: most queues carry JSON

    return msgpack.as_json(body)


# ── hex ──────────────────────────────────────────────────────────────────────────────────────────────────────


_LETTERS = bytes(byte if 0x20 <= byte < 0x7F else ord(".") for byte in range(256))


def _hex_dump(head: bytes, width: int, revealed: bool) -> str:
    return "\n".join(_hex_lines(head, width, revealed))


def _hex_lines(head: bytes, width: int, revealed: bool) -> Iterator[str]:
    """Offset, sixteen bytes (eight where it is narrow), and the letters among them; masked bytes are dots."""
    is_narrow = width < _HEX_CELLS
    step = 8 if is_narrow else 16
    hidden: frozenset[int] = frozenset() if revealed else _hidden(head)
    for start in range(0, len(head), step):
        row = head[start : start + step]
        pairs, letters = row.hex(" "), row.translate(_LETTERS).decode("ascii")
        if hidden and not hidden.isdisjoint(places := range(start, start + len(row))):
            pairs = " ".join("••" if at in hidden else f"{byte:02x}" for at, byte in zip(places, row, strict=True))
            letters = "".join("•" if at in hidden else letter for at, letter in zip(places, letters, strict=True))
        if is_narrow:
            yield f"{start:04x} {pairs:<23} {letters}"
        else:
            yield f"{start:08x}  {pairs[:23]:<23}  {pairs[24:]:<23}  {letters}"


def _hidden(head: bytes) -> frozenset[int]:
    """The places of bytes that may be a secret's value: those of a pair, and those just behind a key in binary."""
    text = head.decode("latin-1")  # a letter per byte
    spans = [(found.end("key"), found.end()) for found in _in_force[0].pair.finditer(text)]
    spans += [(found.end("key"), found.end()) for found in _in_force[0].near.finditer(text)]
    return frozenset(at for start, end in spans for at in range(start, end))


_HEX_CELLS = 76
