"""Read and change single fields of a JSON object in bytes, so that all other fields stay byte for byte the same.

A queue system that stores the state of a job inside its JSON requires that the job is rewritten. Parsing and writing
the whole document would lose digits of numbers and the order of keys, so only the text of the fields is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SPACE = " \t\n\r"


class _Field(NamedTuple):
    """The position of a field: from the quote of its name to the end of its value, which begins at `value`."""

    name: str
    start: int
    value: int
    end: int


def read_fields(text: bytes) -> dict[str, bytes]:
    """Return the values of a JSON object by name, as they are written. Of a repeated name, the last counts.

    Raises ValueError if `text` is no JSON object.
    """
    return {field.name: text[field.value : field.end] for field in _parse_fields(text)}


def replace_fields(text: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """Return the JSON object with some fields changed: values are JSON, None deletes a field, new fields come last.

    Of a repeated name, the last field is changed, because the last one counts; a deletion deletes all. Raises
    ValueError if `text` is no JSON object.
    """
    old = list(_parse_fields(text))
    last = {field.name: field for field in old}
    head = old[0].start if old else text.index(b"{") + 1
    parts: list[bytes] = []
    for number, field in enumerate(old):
        new = changes.get(field.name, b"")
        if new is None:
            continue
        value = new if new and field is last[field.name] else text[field.value : field.end]
        between = text[old[number - 1].end : field.start] if parts else b""
        parts.append(between + text[field.start : field.value] + value)
    for name, new in changes.items():
        if new is not None and name not in last:
            parts.append((b"," if parts else b"") + json.dumps(name).encode() + b":" + new)
    return text[:head] + b"".join(parts) + text[old[-1].end if old else head :]


def _parse_fields(text: bytes) -> Iterator[_Field]:
    """Yield the fields of a JSON object."""
    chars = text.decode("latin-1")  # Each character is one byte, so positions are the same.
    try:
        yield from _scan_fields(chars)
    except (IndexError, RecursionError):
        raise ValueError("the JSON ends early, or is nested too deeply") from None


def _scan_fields(chars: str) -> Iterator[_Field]:
    at = _skip_space(chars, 0)
    if chars[at] != "{":
        raise ValueError("it is no JSON object")
    at = _skip_space(chars, at + 1)
    while chars[at] != "}":
        if chars[at] != '"':
            raise ValueError("a field has a name in quotes")
        start = at
        name, at = _DECODER.raw_decode(chars, at)
        at = _skip_space(chars, at)
        if chars[at] != ":":
            raise ValueError("a colon stands behind a name")
        value = _skip_space(chars, at + 1)
        _value, end = _DECODER.raw_decode(chars, value)
        yield _Field(name, start, value, end)
        at = _skip_space(chars, end)
        if chars[at] == ",":
            at = _skip_space(chars, at + 1)
            if chars[at] == "}":
                raise ValueError("a comma stands before a field")
        elif chars[at] != "}":
            raise ValueError("a comma stands behind a field")
    if _skip_space(chars, at + 1) != len(chars):
        raise ValueError("more stands behind the object")


def _skip_space(chars: str, at: int) -> int:
    while at < len(chars) and chars[at] in _SPACE:
        at += 1
    return at


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse_constant, strict=False)
