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
    """The position of a field in JSON text, from the quote of its name to the end of its value.

    The value begins at `value`.
    """

    name: str
    start: int
    value: int
    end: int


def read_json_fields(text: bytes) -> dict[str, bytes]:
    """Return the values of a JSON object by name, as they are written. If a name is repeated, its last value counts.

    Raises ValueError if `text` is no JSON object.
    """
    return {field.name: text[field.value : field.end] for field in _parse_json_fields(text)}


def replace_json_fields(text: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """Change some fields of a JSON object, and keep all other bytes. Values are JSON; None deletes a field.

    New fields come last. If a name is repeated, its last field is changed, because that one counts; a deletion deletes
    all. Raises ValueError if `text` is no JSON object.
    """
    old_fields = list(_parse_json_fields(text))
    last_fields = {field.name: field for field in old_fields}
    head_end = old_fields[0].start if old_fields else text.index(b"{") + 1
    parts: list[bytes] = []
    for number, field in enumerate(old_fields):
        new_value = changes.get(field.name, b"")
        if new_value is None:
            continue
        value = new_value if new_value and field is last_fields[field.name] else text[field.value : field.end]
        between = text[old_fields[number - 1].end : field.start] if parts else b""
        parts.append(between + text[field.start : field.value] + value)
    for name, new_value in changes.items():
        if new_value is not None and name not in last_fields:
            parts.append((b"," if parts else b"") + json.dumps(name).encode() + b":" + new_value)
    return text[:head_end] + b"".join(parts) + text[old_fields[-1].end if old_fields else head_end :]


def _parse_json_fields(text: bytes) -> Iterator[_Field]:
    """Yield name and position of each field of a JSON object. Raises ValueError if the text is no JSON object."""
    chars = text.decode("latin-1")  # Each character is one byte, so positions are the same.
    try:
        yield from _scan_json_fields(chars)
    except (IndexError, RecursionError):
        raise ValueError("the JSON ends early, or is nested too deeply") from None


def _scan_json_fields(chars: str) -> Iterator[_Field]:
    position = _skip_json_space(chars, 0)
    if chars[position] != "{":
        raise ValueError("it is not a JSON object")
    position = _skip_json_space(chars, position + 1)
    while chars[position] != "}":
        if chars[position] != '"':
            raise ValueError("a field has a name in quotes")
        start = position
        name, position = _DECODER.raw_decode(chars, position)
        position = _skip_json_space(chars, position)
        if chars[position] != ":":
            raise ValueError("a name must be followed by a colon")
        value = _skip_json_space(chars, position + 1)
        _value, end = _DECODER.raw_decode(chars, value)
        yield _Field(name, start, value, end)
        position = _skip_json_space(chars, end)
        if chars[position] == ",":
            position = _skip_json_space(chars, position + 1)
            if chars[position] == "}":
                raise ValueError("a comma must be followed by a field")
        elif chars[position] != "}":
            raise ValueError("a field must be followed by a comma")
    if _skip_json_space(chars, position + 1) != len(chars):
        raise ValueError("there is more text after the object")


def _skip_json_space(chars: str, position: int) -> int:
    while position < len(chars) and chars[position] in _SPACE:
        position += 1
    return position


def _refuse_json_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse_json_constant, strict=False)
