"""Read the fields of a job body by path (`customer.email`) from the first bytes of the body.

A page of jobs has only the beginning of each body, so incomplete JSON and MessagePack documents are read as far as they
go. A pickle is read only if it is complete. All of them may be compressed with zlib. JSON inside a JSON string (an
envelope), also in base64, is decoded. Values with a secret name are masked here, so that no caller can leak one. Pure
functions.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from rqtui.text.body import convert_binary_to_json, decompress_zlib
from rqtui.text.masking import MASK, build_masking_cache_key, is_secret_name, mask_name_value_pair

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
    """A number in a job body as text, with all digits as they were written."""

    __slots__ = ()


def read_body_fields(head: bytes) -> Mapping[str, str]:
    """Return the values at the beginning of a job body by path; empty if the body is no list or object.

    Numbers are `Number`s, null values are left out, and truncated texts end with `…`.
    """
    return _read_cached_body_fields(head[:MOST_BYTES], build_masking_cache_key())


@lru_cache(1024)
def _read_cached_body_fields(head: bytes, _secrets: object) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    _collect_fields(fields, "", parse_partial_body(head), _DEPTH)
    return fields


def parse_partial_body(head: bytes) -> object:
    """Parse the list or object at the beginning of a job body, as far as it is present.

    Returns None for any other body. The body may be compressed with zlib. A pickle is parsed only if it is complete.
    """
    if inner := decompress_zlib(head, MOST_BYTES):
        head = inner[:MOST_BYTES]
    start = head[:64].lstrip()[:1]
    if start in (b"{", b"["):
        return _parse_partial_json(head.decode("utf-8", "replace"))
    if head[:1] < b"\x80":
        return None
    from rqtui.text import msgpack  # Imported late, because most queues carry JSON.

    packed = msgpack.parse_partial_msgpack(head)
    return (
        _parse_partial_json(text)
        if packed is None and (text := convert_binary_to_json(head))[:1] in ("{", "[")
        else packed
    )


def _collect_fields(fields: dict[str, str], path: str, value: object, depth: int) -> None:
    """Add the values below `path` of a parsed job body to `fields`, until there are `MOST_FIELDS`."""
    if isinstance(value, str):
        _collect_text_field(fields, path, value, depth)
    elif isinstance(value, dict | list):
        secrets, is_object = build_masking_cache_key(), isinstance(value, dict)
        members = value.items() if isinstance(value, dict) else zip(_ITEMS, mask_name_value_pair(value), strict=False)
        for key, member in members if depth else ():
            if len(fields) >= MOST_FIELDS:
                return
            member_path = f"{path}.{key}" if path else key
            if is_object and _is_secret_key(key, secrets):
                fields[member_path] = MASK
            else:
                _collect_fields(fields, member_path, member, depth - 1)
    elif isinstance(value, bytes):
        _collect_text_field(fields, path, _convert_to_text(value), depth)
    elif isinstance(value, bool):
        fields[path] = "true" if value else "false"
    elif isinstance(value, int | float):
        fields[path] = Number(value)
    elif value is not None:
        fields[path] = str(value)


def _collect_text_field(fields: dict[str, str], path: str, text: str, depth: int) -> None:
    """Add a text of a body to `fields`, cut at `MOST_CHARS`.

    If the text contains JSON, add the values in it instead.
    """
    if path and len(text) < 8:
        fields[path] = text
    elif (inner := _parse_nested_json(text)) is not None:
        _collect_fields(fields, path, inner, depth - 1)
    else:
        fields[path] = text if len(text) <= MOST_CHARS else text[: MOST_CHARS - 1] + _CUT


@lru_cache(1024)
def _is_secret_key(key: str, _secrets: object) -> bool:
    return is_secret_name(key)


def _parse_nested_json(text: str) -> object:
    """Return the list or object that a string of a body contains, as JSON or as JSON in base64; else None."""
    if len(text) < 8:
        return None
    if text[0] in "{[":
        return _parse_partial_json(text.removesuffix(_CUT)) or None
    if text[0] not in "eW" or not _BASE64.fullmatch(bare := text.removesuffix(_CUT)):
        return None
    bare = bare.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        raw = base64.b64decode(bare[: len(bare) // 4 * 4 if text.endswith(_CUT) else None] + "=" * (-len(bare) % 4))
    except binascii.Error:
        return None
    return parse_partial_body(raw) or None


def _parse_partial_json(text: str) -> object:
    """Parse a JSON list or object as far as it is present; None if nothing can be parsed."""
    try:
        return _decode_json_text(text)
    except (ValueError, RecursionError):
        pass
    for closed in _complete_truncated_json(text):
        try:
            return _decode_json_text(closed)
        except (ValueError, RecursionError):
            continue
    return None


def format_as_json(value: object) -> str:
    """Convert a value of `parse_partial_body` to JSON, with numbers as they were written."""
    return json.dumps(_convert_numbers_to_plain(value), default=_convert_to_text, ensure_ascii=False)


def _convert_to_text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _convert_numbers_to_plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _convert_numbers_to_plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_convert_numbers_to_plain(member) for member in value]
    return json.loads(value) if isinstance(value, Number) else value


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Number)


def _decode_json_text(text: str) -> object:
    return _DECODER.decode(text)


def _complete_truncated_json(text: str) -> Iterator[str]:
    """Yield complete JSON for a truncated text: first with the last string closed, then without the last member."""
    closers = previous_sign = ""
    complete_length, complete_closers = 0, ""  # all members before this position are complete
    for match in _SIGN.finditer(text):
        sign = match[0]
        if sign[0] == '"':
            if not match[1] and previous_sign in (":", "[", ","):
                yield _HALF_ESCAPE.sub(r"\1", text[: match.end()]) + _CUT + '"' + closers
            previous_sign = "string"
            continue
        if sign in "{[":
            closers = ("}" if sign == "{" else "]") + closers
            complete_length, complete_closers = match.end(), closers
        elif sign in "}]":
            closers = closers[1:]
            complete_length, complete_closers = match.end(), closers
            if not closers:
                break
        elif sign == ",":
            complete_length, complete_closers = match.start(), closers
        previous_sign = sign
    yield text[:complete_length] + complete_closers
