"""The fields of a JSON object as bytes: one is changed, and all others stay byte for byte.

A queue system that keeps what changes of a job inside its JSON wants a job rewritten. Read and written anew, numbers
would lose digits, and keys their order; here the text is cut at the fields alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SPACE = " \t\n\r"


class _Field(NamedTuple):
    """A field and where it stands: from the quote of its name to the end of its value, which begins at `value`."""

    name: str
    start: int
    value: int
    end: int


def fields(text: bytes) -> dict[str, bytes]:
    """The values of a JSON object by name, as they are written; of a repeated name the last. Raises ValueError."""
    return {field.name: text[field.value : field.end] for field in _fields(text)}


def spliced(text: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """The object with these fields: values are JSON, None takes one away, what is new stands last.

    Of a repeated name the last is changed, which is the one that counts, and all are taken away. Raises ValueError for
    what is no JSON object.
    """
    found = list(_fields(text))
    last = {field.name: field for field in found}
    head = found[0].start if found else text.index(b"{") + 1
    parts: list[bytes] = []
    for number, field in enumerate(found):
        new = changes.get(field.name, b"")
        if new is None:
            continue
        value = new if new and field is last[field.name] else text[field.value : field.end]
        between = text[found[number - 1].end : field.start] if parts else b""
        parts.append(between + text[field.start : field.value] + value)
    for name, new in changes.items():
        if new is not None and name not in last:
            parts.append((b"," if parts else b"") + json.dumps(name).encode() + b":" + new)
    return text[:head] + b"".join(parts) + text[found[-1].end if found else head :]


def _fields(text: bytes) -> Iterator[_Field]:
    """The fields of the object that the text is."""
    chars = text.decode("latin-1")  # a character is a byte
    try:
        yield from _scanned(chars)
    except (IndexError, RecursionError):
        raise ValueError("the JSON ends early, or is nested too deeply") from None


def _scanned(chars: str) -> Iterator[_Field]:
    at = _skip(chars, 0)
    if chars[at] != "{":
        raise ValueError("it is no JSON object")
    at = _skip(chars, at + 1)
    while chars[at] != "}":
        if chars[at] != '"':
            raise ValueError("a field has a name in quotes")
        start = at
        name, at = _DECODER.raw_decode(chars, at)
        at = _skip(chars, at)
        if chars[at] != ":":
            raise ValueError("a colon stands behind a name")
        value = _skip(chars, at + 1)
        _value, end = _DECODER.raw_decode(chars, value)
        yield _Field(name, start, value, end)
        at = _skip(chars, end)
        if chars[at] == ",":
            at = _skip(chars, at + 1)
            if chars[at] == "}":
                raise ValueError("a comma stands before a field")
        elif chars[at] != "}":
            raise ValueError("a comma stands behind a field")
    if _skip(chars, at + 1) != len(chars):
        raise ValueError("more stands behind the object")


def _skip(chars: str, at: int) -> int:
    while at < len(chars) and chars[at] in _SPACE:
        at += 1
    return at


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_no_number, strict=False)
