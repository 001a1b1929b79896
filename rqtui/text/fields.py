"""The fields of a body by their paths (`customer.email`), read from its first bytes alone.

A page of jobs has only the beginning of each body, so half a document of JSON or MessagePack is read as far as it
goes; a pickle when it is whole, any of them also out of zlib. JSON in a string of JSON (an envelope), also in base64,
is looked into. Values that `body.is_secret` hides are masked here already, so nobody who compares or shows fields can
leak one. Pure.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from rqtui.text.body import MASK, inflated, is_secret, meant, secrets

MOST_BYTES = 4096  # of a body that are looked at
MOST_FIELDS = 32
MOST_CHARS = 96  # of a value
_DEPTH = 6
_ITEMS = 4  # of a list
_CUT = "…"  # at the end of a string whose end is not there
_SIGN = re.compile(r'"(?:[^"\\]|\\.)*("?)|[{}\[\],:]', re.DOTALL)
_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?$")
_BASE64 = re.compile(r"(?:ey|W)[A-Za-z0-9+/_-]{6,}={0,2}")  # `{"`, or `[` and anything


class Number(str):
    """A number as it was written, with all its digits."""

    __slots__ = ()


def fields(head: bytes) -> Mapping[str, str]:
    """The values in a body that begins so, by path, in its order; none where it is no JSON list or object.

    Numbers are `Number`s; null is left out; a text ends with `…` where more of it follows.
    """
    return _fields(head[:MOST_BYTES], secrets())


@lru_cache(1024)
def _fields(head: bytes, _secrets: object) -> Mapping[str, str]:
    found: dict[str, str] = {}
    _collect(found, "", partial(head), _DEPTH)
    return found


def partial(head: bytes) -> object:
    """The list or object that a body begins with, as far as it is there, also in zlib; None for any other body.

    A pickle is read when it is whole.
    """
    if inner := inflated(head, MOST_BYTES):
        head = inner[:MOST_BYTES]
    start = head[:64].lstrip()[:1]
    if start in (b"{", b"["):
        return _json(head.decode("utf-8", "replace"))
    if head[:1] < b"\x80":
        return None
    from rqtui.text import msgpack  # late: most queues carry JSON

    packed = msgpack.beginning(head)
    return _json(text) if packed is None and (text := meant(head))[:1] in ("{", "[") else packed


def _collect(found: dict[str, str], path: str, value: object, depth: int) -> None:
    """Puts the values below a path into `found`, until there are enough."""
    if isinstance(value, str):
        if path and len(value) < 8:
            found[path] = value
        elif (inner := _inner(value)) is not None:
            _collect(found, path, inner, depth - 1)
        elif len(value) <= MOST_CHARS:
            found[path] = value
        else:
            found[path] = value[: MOST_CHARS - 1] + _CUT
    elif isinstance(value, dict):
        masked = secrets()
        for key, each in value.items() if depth else ():
            if len(found) >= MOST_FIELDS:
                return
            below = f"{path}.{key}" if path else key
            if _hides(key, masked):
                found[below] = MASK
            else:
                _collect(found, below, each, depth - 1)
    elif isinstance(value, list):
        for at, each in enumerate(value[:_ITEMS] if depth else ()):
            if len(found) >= MOST_FIELDS:
                return
            _collect(found, f"{path}.{at}" if path else str(at), each, depth - 1)
    elif isinstance(value, bytes):
        _collect(found, path, _text(value), depth)
    elif isinstance(value, bool):
        found[path] = "true" if value else "false"
    elif isinstance(value, int | float):
        found[path] = Number(value)
    elif value is not None:
        found[path] = str(value)


@lru_cache(1024)
def _hides(key: str, _secrets: object) -> bool:
    return is_secret(key)


def _inner(text: str) -> object:
    """The list or object that a string holds, as JSON or as JSON in base64."""
    if len(text) < 8:
        return None
    if text[0] in "{[":
        return _json(text.removesuffix(_CUT)) or None
    if text[0] not in "eW" or not _BASE64.fullmatch(bare := text.removesuffix(_CUT)):
        return None
    bare = bare.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        raw = base64.b64decode(bare[: len(bare) // 4 * 4 if text.endswith(_CUT) else None] + "=" * (-len(bare) % 4))
    except binascii.Error:
        return None
    return partial(raw) or None


def _json(text: str) -> object:
    """A list or object of JSON, or as much of it as is there."""
    try:
        return _loads(text)
    except (ValueError, RecursionError):
        pass
    for closed in _closed(text):
        try:
            return _loads(closed)
        except (ValueError, RecursionError):
            continue
    return None


def as_json(value: object) -> str:
    """A value of `partial` as JSON, its numbers as they were written."""
    return json.dumps(_plain(value), default=_text, ensure_ascii=False)


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return json.loads(value) if isinstance(value, Number) else value


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Number)


def _loads(text: str) -> object:
    return _DECODER.decode(text)


def _closed(text: str) -> Iterator[str]:
    """The text with all closed that is open: first with the string in which it ends, then up to the member before."""
    closers = before = ""
    whole, whole_closers = 0, ""  # up to here members are complete
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
