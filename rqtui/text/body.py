"""Show the body of a job as text: indented JSON, msgpack, pickle, UTF-8, or a hex dump, with secrets masked.

Bodies are untrusted bytes: they are never executed, and pickles are parsed, never loaded. Every line is `safe`. At most
64 kB are read, so a body of 30 MB, or one nested a million levels deep, costs no more than a small one. JSON is
indented token by token, so numbers, repeated keys and their order stay as they were sent. The text shown here is never
edited or sent again; the raw body is.
"""

from __future__ import annotations

import json
import re
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain, islice
from typing import NamedTuple

from rqtui.text.masking import MASK, flag_secret_bytes, is_secret_name, mask_text, mask_text_chunks, may_have_secret
from rqtui.text.sanitise import safe, safe_lines

MAX_BYTES = 64 * 1024
_CHUNK = 32 * 1024  # bytes or characters of a long text that are converted at once
_MOST_DEPTH = 1000  # of JSON; a body that is nested deeper is shown as text
_GROWTH = 4  # indented JSON may be this many times as long as the body
_MOST_INDENT = 24  # levels; deeper levels are not indented further


class BodyView(NamedTuple):
    """The body of a job as text, ready to be shown; all lines of `text` are safe to print.

    `encoding` is json, msgpack, pickle, utf-8, text, hex or empty. For a compressed body, it is `zlib` and
    the encoding of the content, such as `zlib json`.
    """

    encoding: str
    text: str


def render_body(
    body: bytes, revealed: bool = False, most_bytes: int = MAX_BYTES, width: int = 80, viewer: str = ""
) -> BodyView:
    """Convert the body of a job to text with one of the ways to show it, by default the first of `list_body_viewers`.

    Secrets (see `masking`) are masked unless `revealed`. If only the first `most_bytes` are shown, the last line says
    so. A hex dump fits into `width` cells, if `width` is at least 37.
    """
    if not body:
        return BodyView("empty", "")
    head, cut = _truncate_body(body, most_bytes)
    if viewer == "hex":
        return BodyView(viewer, "".join(_build_hex_dump(head, width, revealed)) + cut)
    if viewer == "text":
        return BodyView(viewer, "\n".join(safe_lines(_render_plain_text(head, bool(cut), revealed))) + cut)
    encoding, pieces = _detect_and_decode_body(head, is_cut=bool(cut), revealed=revealed, width=width)
    return BodyView(encoding, "".join(pieces) + cut)


def render_body_pieces(body: bytes, revealed: bool = False, most_bytes: int = MAX_BYTES) -> Iterator[str]:
    """Yield the text of a job's body in pieces, so that a long body takes little more memory than its bytes.

    A piece ends at the end of a line, except inside a line that is longer than a piece. The text is that of
    `render_body`.
    """
    head, cut = _truncate_body(body, most_bytes)
    if head:
        yield from _regroup_at_line_ends(_detect_and_decode_body(head, bool(cut), revealed, 80)[1])
    yield cut


def _truncate_body(body: bytes, most_bytes: int) -> tuple[bytes, str]:
    """Return the bytes of a body to show, and a line that says how many of how many bytes they are; empty for all."""
    head = body[:most_bytes]
    return head, f"\n… the first {len(head)} of {len(body)} bytes" if len(head) < len(body) else ""


def _render_plain_text(head: bytes, is_cut: bool, revealed: bool) -> str:
    length = _measure_utf8_length(head, is_cut)
    if length is None or _is_mostly_control_characters(head):
        secret_flags = b"" if revealed else flag_secret_bytes(head)
        masked_bytes = (
            bytes(ord("*") if flag else byte for flag, byte in zip(secret_flags, head, strict=True))
            if secret_flags
            else head
        )
        return masked_bytes.decode("utf-8", "backslashreplace")
    text = head[:length].decode()
    return text if revealed else mask_text(text)


def list_body_viewers(encoding: str) -> tuple[str, ...]:
    """Return the ways to show a body of this encoding: "" (as its encoding), `text`, `hex`."""
    return _OTHERS.get(encoding.removeprefix(_ZLIB), ("", "text", "hex"))


def is_shown_as_json(encoding: str) -> bool:
    """Return whether a body of this encoding (JSON, msgpack, pickle) is shown as indented JSON."""
    return encoding.removeprefix(_ZLIB) in ("json", "msgpack", "pickle")


_ZLIB = "zlib "
_OTHERS = {"empty": ("",), "text": ("",), "utf-8": ("", "hex"), "hex": ("", "text")}


def _detect_and_decode_body(
    head: bytes, is_cut: bool, revealed: bool, width: int, is_inner: bool = False
) -> tuple[str, Iterator[str]]:
    """Return the encoding of a body and its text in pieces. A body of unknown encoding becomes a hex dump."""
    length = _measure_utf8_length(head, is_cut)
    most_chars = _GROWTH * max(MAX_BYTES, len(head))
    if length is not None and _is_json_body(head, is_cut):
        return "json", _indent_json(head[:length], revealed, most_chars)
    if length is not None and not _is_mostly_control_characters(head):
        chunks = _decode_utf8_chunks(_split_body_into_chunks(head[:length]))
        lines = _regroup_at_line_ends(chunks if revealed else mask_text_chunks(chunks))
        return "utf-8", ("\n".join(safe_lines(piece)) for piece in lines)
    for encoding, convert in (("msgpack", _convert_msgpack_to_json), ("pickle", _convert_pickle_to_json)):
        if not is_cut and (json_text := convert(head)):
            return encoding, _indent_json(json_text.encode("utf-8", "surrogatepass"), revealed, most_chars)
    if not is_cut and not is_inner and (inner := decompress_zlib(head)):
        has_more = len(inner) > MAX_BYTES
        encoding, pieces = _detect_and_decode_body(inner[:MAX_BYTES], has_more, revealed, width, is_inner=True)
        return _ZLIB + encoding, chain(pieces, ["\n…"] if has_more else [])
    return "hex", _build_hex_dump(head, width, revealed)


# ── text in pieces ───────────────────────────────────────────────────────────────────────────────────────────


def _split_body_into_chunks(body: bytes) -> Iterator[bytes]:
    return (body[start : start + _CHUNK] for start in range(0, len(body), _CHUNK))


def _decode_utf8_chunks(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of UTF-8 bytes that arrive in chunks. A character may begin in one chunk and end in the next."""
    decoder = getincrementaldecoder("utf-8")("surrogatepass")
    for chunk in chunks:
        yield decoder.decode(chunk)


def _measure_utf8_length(head: bytes, is_cut: bool) -> int | None:
    """Return how many bytes of a body are UTF-8, or None if it is another encoding.

    Fewer than all are only accepted if `head` was truncated, which may have cut its last character.
    """
    decoder = getincrementaldecoder("utf-8")()
    try:
        for chunk in _split_body_into_chunks(head):
            decoder.decode(chunk)
    except UnicodeDecodeError:
        return None
    pending, _flags = decoder.getstate()
    return len(head) - len(pending) if is_cut or not pending else None


def _is_mostly_control_characters(head: bytes) -> bool:
    text = head[: 4 * 4096].decode("utf-8", "ignore")[:4096]
    controls = sum(char < " " and char not in "\n\r\t\x1b" for char in text)
    return controls * 10 > len(text)


def _regroup_at_line_ends(pieces: Iterable[str]) -> Iterator[str]:
    """Yield a text in longer pieces that end at the end of a line, or inside a line longer than a piece."""
    waiting: list[str] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length < _CHUNK:
            continue
        text = "".join(waiting)
        # A long line is cut before a letter of ASCII: not before a combining mark, and not inside "\r\n".
        cut = text.rfind("\n") + 1 or max(
            (match.start() for match in _ASCII.finditer(text, length - 64)), default=length
        )
        yield text[:cut]
        waiting, length = [text[cut:]], length - cut
    yield "".join(waiting)


_ASCII = re.compile("[ -~]")


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────

# A string runs from one backslash to the next, without backtracking: otherwise each letter or escape takes 130 bytes.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?+)|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
_CLOSES = re.compile(rb"\s*\]")
_START = re.compile(rb"""\s*+([{[])|\s*+["\-0-9tfnNI]""")


@cache  # The patterns take milliseconds to compile, and most queues hold short bodies.
def _compile_json_grammar() -> dict[str, re.Pattern[bytes]]:
    """Return regular expressions that match JSON exactly as `json.loads` accepts it.

    In a list ("["), in an object ("{") and outside ("") a pattern matches all scalars up to the last one, or up to the
    bracket that opens another list or object.
    """
    # Repeated parts are atomic groups, and optional parts are not possessive: before Python 3.11.5, a possessive
    # quantifier around a group that backtracks matches wrongly.
    space = rb"[ \t\n\r]*+"
    string = rb"""(?:"[^"\\\x00-\x1f]*+(?:(?>\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+))*+")"""
    number = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"
    scalar = rb"(?:%b|%b|true|false|null|NaN|-?Infinity)" % (string, number)
    values_to_bracket = rb"%b(?:([{[])|%b)" % (space, scalar)
    item, member = space, space + string + space + b":" + space
    return {
        "": re.compile(values_to_bracket),
        "[": re.compile(rb"(?:(?>%b%b%b,))*+%b" % (item, scalar, space, values_to_bracket)),
        "{": re.compile(rb"(?:(?>%b%b%b,))*+%b%b" % (member, scalar, space, member, values_to_bracket)),
        "closing": re.compile(space + rb"[]}]"),
        "next": re.compile(space + rb"([],}])"),
        "end": re.compile(space + rb"\Z"),
    }


def _is_json_body(head: bytes, is_cut: bool) -> bool:
    start = _START.match(head)
    if start is None or is_cut:
        return start is not None and start[1] is not None
    return _is_complete_json(head)


def _is_complete_json(body: bytes) -> bool:
    """Return whether `json.loads` accepts the body, without building its values, which take ten times its bytes."""
    grammar = _compile_json_grammar()
    open_brackets: list[str] = []
    position = 0
    while matched_values := grammar[open_brackets[-1] if open_brackets else ""].match(body, position):
        position = matched_values.end()
        if matched_values[1]:
            open_brackets.append(matched_values[1].decode())
            if len(open_brackets) > _MOST_DEPTH:
                return False
            if not grammar["closing"].match(body, position):
                continue
        while open_brackets and (sign := grammar["next"].match(body, position)):
            position = sign.end()
            if sign[1] == b",":
                break
            if open_brackets.pop() != {b"]": "[", b"}": "{"}[sign[1]]:
                return False
        else:
            return not open_brackets and grammar["end"].match(body, position) is not None
    return False


def _indent_json(body: bytes, revealed: bool, most_chars: int) -> Iterator[str]:
    """Yield JSON with one member per line. It is built from tokens, so a truncated document is indented too."""
    length = 0
    for piece in _indent_json_tokens(body, revealed):
        yield piece
        length += len(piece)
        if length > most_chars:
            yield "\n…"
            break


def _may_json_have_secret(body: bytes) -> bool:
    """Return False if no part of a JSON document can be a secret. An escape may be a letter of a secret's name."""
    slices = (body[start : start + _CHUNK + 64] for start in range(0, len(body), _CHUNK))
    return any(b"\\u" in body_slice or may_have_secret(body_slice.decode("utf-8", "ignore")) for body_slice in slices)


def _indent_json_tokens(body: bytes, revealed: bool) -> Iterator[str]:
    """Yield the tokens of a JSON document with line breaks and indentation, one member per line."""
    depth = 0
    before = ""
    for sign, pieces in _format_json_tokens(body, revealed):
        is_end = sign in "}]"
        depth -= is_end
        if is_end or (before and before in "{[,"):
            yield "" if is_end and before in "{[" else _build_line_break(depth)
        yield from pieces
        depth += sign in "{["
        before = sign


def _format_json_tokens(body: bytes, revealed: bool) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the first character of each JSON token, and the text shown for the token, in pieces.

    Escapes in strings are shown as letters. All tokens of a secret value are one mask. The pieces of a token must be
    consumed before the next token is read.
    """
    revealed = revealed or not _may_json_have_secret(body)
    # Most documents repeat their keys, and many of their values.
    is_secret_key, format_string = lru_cache(1000)(is_secret_name), lru_cache(1000)(_format_json_string)
    previous_sign = ""  # the first character of the token before; a value follows `:`, a key `{` or `,`
    last_key = [""]
    first_list_text = ""  # the text that began a list; `["X-Api-Key", "…"]` is a header with its value
    matches = _TOKEN.finditer(body)
    match = next(matches, None)
    while match is not None:
        sign, is_string = chr(match[0][0]), match[1] is not None
        name = (
            last_key[0]
            if previous_sign == ":"
            else first_list_text
            if previous_sign == "," and _CLOSES.match(body, match.end())
            else ""
        )
        if name and not revealed and is_secret_key(name):
            yield "*", (MASK,)
            previous_sign = "*"
            match = _skip_json_value(sign, matches)
            continue
        if is_string and match[1] and match.end() - match.start() > _CHUNK:
            last_key = [""]
            yield sign, _record_key_name(_format_long_json_string(body, match.start(), match.end(), revealed), last_key)
        else:
            token = match[0].decode("utf-8", "surrogatepass")
            token_text = format_string(token, revealed) if is_string else ": " if token == ":" else safe(token)
            last_key = [token_text.strip('"')] if is_string else last_key
            yield sign, (token_text,)
        first_list_text = last_key[0] if is_string and previous_sign == "[" else first_list_text if sign == "," else ""
        previous_sign = sign
        match = next(matches, None)


def _record_key_name(pieces: Iterable[str], key: list[str]) -> Iterator[str]:
    """Yield the pieces of a long JSON string, and store its last characters, or a secret name in it, in `key`."""
    for piece in pieces:
        if not is_secret_name(key[0]):
            key[0] = key[0][-256:] + piece.strip('"')
        yield piece


def _skip_json_value(sign: str, matches: Iterator[re.Match[bytes]]) -> re.Match[bytes] | None:
    """Skip the tokens of a JSON value that begins with `sign`, and return the comma or bracket after it, or None."""
    depth = int(sign in "{[")
    for match in matches:
        token = match[0]
        if depth == 0 and token in b",}]":
            return match
        depth += (token in b"{[") - (token in b"}]")
    return None


def _build_line_break(depth: int) -> str:
    return "\n" + "  " * min(max(depth, 0), _MOST_INDENT)


def _format_json_string(token: str, revealed: bool) -> str:
    """Return a JSON string token for display, with `\\u00e9` as a letter, controls escaped and secrets masked."""
    written = _unescape_json_string(token[1:-1]) if len(token) > 1 and token.endswith('"') else None
    if written is None:  # The token is truncated, or is not valid JSON.
        return safe(token if revealed else '"' + mask_text(token[1:]))
    return safe(f'"{written if revealed else mask_text(written)}"')


def _unescape_json_string(text: str) -> str | None:
    """Return the inside of a JSON string with `\\u00e9` as a letter, or None if it is not valid JSON."""
    if "\\" not in text and text.isprintable():
        return text
    try:
        return json.dumps(json.loads(f'"{text}"'), ensure_ascii=False)[1:-1]
    except ValueError:
        return None


def _format_long_json_string(body: bytes, start: int, end: int, revealed: bool) -> Iterator[str]:
    """Yield in pieces what `_format_json_string` returns for the string token from `start` to `end` of a JSON body."""
    parts = (match[0] for match in _STRING_PART.finditer(body, start + 1, end - 1))
    texts = (part if (text := _unescape_json_string(part)) is None else text for part in _decode_utf8_chunks(parts))
    yield '"'
    yield from map(safe, _regroup_at_line_ends(texts if revealed else mask_text_chunks(texts)))
    yield '"'


# A part of a string ends neither inside an escape nor between the two halves of a character.
_STRING_PART = re.compile(
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]){1,4000}+", re.DOTALL
)


def convert_binary_to_json(body: bytes) -> str:
    """Return the content of a binary body as JSON: msgpack, a pickle, or either of them or text in zlib.

    Empty for a body of any other encoding.
    """
    inner = decompress_zlib(body)
    if not inner or len(inner) > MAX_BYTES:
        return _convert_msgpack_to_json(body) or _convert_pickle_to_json(body)
    return _convert_msgpack_to_json(inner) or _convert_pickle_to_json(inner) or inner.decode("utf-8", "replace")


def decompress_zlib(body: bytes, most_bytes: int = MAX_BYTES) -> bytes:
    """Decompress zlib bytes, up to one byte more than `most_bytes`. Returns empty bytes if `body` is not zlib."""
    if body[:1] != b"\x78" or int.from_bytes(body[:2]) % 31:  # the header of RFC 1950
        return b""
    try:
        return zlib.decompressobj().decompress(body, most_bytes + 1)
    except zlib.error:
        return b""


def _convert_pickle_to_json(body: bytes) -> str:
    if body[:1] != b"\x80" or body[-1:] != b".":
        return ""
    from rqtui.text import pickles  # late: most queues carry JSON

    try:
        value = pickles.parse_pickle(body)
    except ValueError:
        return ""
    return json.dumps(pickles.convert_to_json_types(value), ensure_ascii=False)


def _convert_msgpack_to_json(body: bytes) -> str:
    from rqtui.text import msgpack  # late: most queues carry JSON

    return msgpack.convert_msgpack_to_json(body)


# ── hex ──────────────────────────────────────────────────────────────────────────────────────────────────────


_LETTERS = bytes(byte if 0x20 <= byte < 0x7F else ord(".") for byte in range(256))


def _build_hex_dump(head: bytes, width: int, revealed: bool) -> Iterator[str]:
    """Yield a hex dump of a body in pieces of whole lines."""
    lines = _render_hex_lines(head, width, revealed)
    yield next(lines, "")
    while batch := list(islice(lines, 100)):
        yield "\n" + "\n".join(batch)


def _render_hex_lines(head: bytes, width: int, revealed: bool) -> Iterator[str]:
    """Yield the lines of a hex dump: the offset, sixteen bytes (eight if narrow) and their ASCII letters.

    Bytes of a secret are dots.
    """
    is_narrow = width < _HEX_CELLS
    step = 8 if is_narrow else 16
    hidden = b"" if revealed else flag_secret_bytes(head)
    for start in range(0, len(head), step):
        row, flags = head[start : start + step], hidden[start : start + step]
        pairs, letters = row.hex(" "), row.translate(_LETTERS).decode("ascii")
        if any(flags):
            pairs = " ".join("••" if is_hidden else f"{byte:02x}" for is_hidden, byte in zip(flags, row, strict=True))
            letters = "".join("•" if is_hidden else letter for is_hidden, letter in zip(flags, letters, strict=True))
        if is_narrow:
            yield f"{start:04x} {pairs:<23} {letters}"
        else:
            yield f"{start:08x}  {pairs[:23]:<23}  {pairs[24:]:<23}  {letters}"


_HEX_CELLS = 76
