"""Find values in a decoded body by path: `customer.plan`, `items.0.sku`, or `items.sku` for the SKU of any item.

A key that contains dots is found by its full name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from rqtui.text.body import convert_binary_to_json

MAX_DEPTH = 8  # levels that `paths_of` descends
MAX_ITEMS = 20  # items of a list that `paths_of` reads


def decode_body(body: bytes) -> object:
    """Decode a JSON, msgpack or pickled body, compressed or not. Returns None for any other body."""
    for text in (body, convert_binary_to_json(body)):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            continue
    return None


def find_values(value: object, parts: Sequence[str]) -> Iterator[object]:
    """Yield the values at a path, given as its parts. A path through a list may have several values."""
    if not parts:
        yield value
    elif isinstance(value, dict):
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name in value:
                yield from find_values(value[name], parts[end:])
    elif isinstance(value, list):
        if parts[0].isdecimal() and int(parts[0]) < len(value):
            yield from find_values(value[int(parts[0])], parts[1:])
        for each in value:
            if isinstance(each, dict):
                yield from find_values(each, parts)


def format_value(value: object) -> str:
    """Return text unchanged, and any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # Values a thousand levels deep are not worth searching.
        return ""


def list_paths(values: Iterable[object]) -> list[str]:
    """Return the paths that occur in `values`, the most frequent first, without list indices."""
    counts: dict[str, int] = {}
    for value in values:
        for path in dict.fromkeys(_walk_paths(value, "", 0)):
            counts[path] = counts.get(path, 0) + 1
    return sorted(counts, key=lambda path: -counts[path])


def _walk_paths(value: object, before: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for name, each in value.items():
            path = f"{before}.{name}" if before else str(name)
            if not isinstance(each, dict) or not each:
                yield path
            yield from _walk_paths(each, path, depth + 1)
    elif isinstance(value, list) and depth < MAX_DEPTH:
        for each in value[:MAX_ITEMS]:
            if isinstance(each, dict):
                yield from _walk_paths(each, before, depth + 1)
