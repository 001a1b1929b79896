"""Read the fields of a job body by path (`customer.email`) from its first bytes.

A page of jobs has only the beginning of each body, so incomplete JSON and MessagePack documents are read as far as they
go. A pickle is read only if it is complete. All of them may be compressed with zlib. JSON inside a JSON string (an
envelope), also in base64, is decoded. Values that `body.is_secret` hides are masked here, so that no caller can leak
one. Pure functions.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from rqtui.text.body import convert_binary_to_json, decompress
from rqtui.text.masking import MASK, build_masking_key, is_secret, mask_couple

MOST_BYTES = 4096  # bytes of a body that are read
MOST_FIELDS = 32
MOST_CHARS = 96  # characters of a value
_DEPTH = 6
_ITEMS = ("0", "1", "2", "3")  # names of the items of a list that are read
_CUT = "…"  # appended to a truncated string
_SIGN = re.compile(r'"(?:[^"\\]|\\.)*("?)|[{}\[\],:]', re.DOTALL)
_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?$")
_BASE64 = re.compile(r"(?:ey|W)[A-Za-z0-9+/_-]{6,}={0,2}")  # `{"`, or `[` and anything


class Number(str):
    """A number as text, with all digits as they were written."""

    __slots__ = ()


def read_fields(head: bytes) -> Mapping[str, str]:
    """Return the values in the beginning of a body by path, in its order; empty if it is no JSON list or object.

    Numbers are `Number`s, null values are left out, and truncated texts end with `…`.
    """
    return _read_fields(head[:MOST_BYTES], build_masking_key())


@lru_cache(1024)
def _read_fields(head: bytes, _secrets: object) -> Mapping[str, str]:
    found: dict[str, str] = {}
    _collect_fields(found, "", parse_partial(head), _DEPTH)
    return found


def parse_partial(head: bytes) -> object:
    """Parse the list or object at the beginning of a body, as far as it is present. Returns None for any other body.

    The body may be compressed with zlib. A pickle is parsed only if it is complete.
    """
    if inner := decompress(head, MOST_BYTES):
        head = inner[:MOST_BYTES]
    start = head[:64].lstrip()[:1]
    if start in (b"{", b"["):
        return _parse_json(head.decode("utf-8", "replace"))
    if head[:1] < b"\x80":
        return None
    from rqtui.text import msgpack  # Imported late, because most queues carry JSON.

    packed = msgpack.parse_partial(head)
    return _parse_json(text) if packed is None and (text := convert_binary_to_json(head))[:1] in ("{", "[") else packed


def _collect_fields(found: dict[str, str], path: str, value: object, depth: int) -> None:
    """Add the values below `path` to `found`, until it has `MOST_FIELDS`."""
    if isinstance(value, str):
        _collect_text(found, path, value, depth)
    elif isinstance(value, dict | list):
        secrets, is_object = build_masking_key(), isinstance(value, dict)
        members = value.items() if isinstance(value, dict) else zip(_ITEMS, mask_couple(value), strict=False)
        for key, each in members if depth else ():
            if len(found) >= MOST_FIELDS:
                return
            below = f"{path}.{key}" if path else key
            if is_object and _is_hidden(key, secrets):
                found[below] = MASK
            else:
                _collect_fields(found, below, each, depth - 1)
    elif isinstance(value, bytes):
        _collect_text(found, path, _to_text(value), depth)
    elif isinstance(value, bool):
        found[path] = "true" if value else "false"
    elif isinstance(value, int | float):
        found[path] = Number(value)
    elif value is not None:
        found[path] = str(value)


def _collect_text(found: dict[str, str], path: str, text: str, depth: int) -> None:
    """Add a text to `found`, cut at `MOST_CHARS`; of a text that contains JSON add the values in it."""
    if path and len(text) < 8:
        found[path] = text
    elif (inner := _parse_nested(text)) is not None:
        _collect_fields(found, path, inner, depth - 1)
    else:
        found[path] = text if len(text) <= MOST_CHARS else text[: MOST_CHARS - 1] + _CUT


@lru_cache(1024)
def _is_hidden(key: str, _secrets: object) -> bool:
    return is_secret(key)


def _parse_nested(text: str) -> object:
    """Return the list or object that a string contains, as JSON or as JSON in base64."""
    if len(text) < 8:
        return None
    if text[0] in "{[":
        return _parse_json(text.removesuffix(_CUT)) or None
    if text[0] not in "eW" or not _BASE64.fullmatch(bare := text.removesuffix(_CUT)):
        return None
    bare = bare.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        raw = base64.b64decode(bare[: len(bare) // 4 * 4 if text.endswith(_CUT) else None] + "=" * (-len(bare) % 4))
    except binascii.Error:
        return None
    return parse_partial(raw) or None


def _parse_json(text: str) -> object:
    """Parse a JSON list or object, as much of it as is present."""
    try:
        return _decode_json(text)
    except (ValueError, RecursionError):
        pass
    for closed in _close_brackets(text):
        try:
            return _decode_json(closed)
        except (ValueError, RecursionError):
            continue
    return None


def to_json(value: object) -> str:
    """Convert a value of `parse_partial` to JSON, with numbers as they were written."""
    return json.dumps(_to_plain(value), default=_to_text, ensure_ascii=False)


def _to_text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _to_plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _to_plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_to_plain(each) for each in value]
    return json.loads(value) if isinstance(value, Number) else value


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Number)


def _decode_json(text: str) -> object:
    return _DECODER.decode(text)


def _close_brackets(text: str) -> Iterator[str]:
    """Yield complete JSON for a truncated text: first with the last string closed, then without the last member."""
    closers = before = ""
    whole, whole_closers = 0, ""  # all members before this position are complete
    for match in _SIGN.finditer(text):
        sign = match[0]
        if sign[0] == '"':
            if not match[1] and before in (":", "[", ","):
                yield _HALF_ESCAPE.sub(r"\1", text[: match.end()]) + _CUT + '"' + closers
            before = "string"
            continue
        if sign in "{[":
            closers = ("}" if sign == "{" else "]") + closers
            whole, whole_closers = match.end(), closers
        elif sign in "}]":
            closers = closers[1:]
            whole, whole_closers = match.end(), closers
            if not closers:
                break
        elif sign == ",":
            whole, whole_closers = match.start(), closers
        before = sign
    yield text[:whole] + whole_closers
