"""Find values in a decoded job body by path: `customer.plan`, `items.0.sku`, or `items.sku` for the SKU of any item.

A key that contains dots is found by its full name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from rqtui.text.body import convert_binary_to_json

MAX_DEPTH = 8  # levels that `paths_of` descends
MAX_ITEMS = 20  # items of a list that `paths_of` reads


def decode_body(body: bytes) -> object:
    """Decode the body of a job that is JSON, msgpack or a pickle, compressed or not.

    Returns None for any other body.
    """
    for text in (body, convert_binary_to_json(body)):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            continue
    return None


def find_values_at_path(value: object, parts: Sequence[str]) -> Iterator[object]:
    """Yield the values of a decoded body at a path, given as its parts.

    A path through a list may have several values.
    """
    if not parts:
        yield value
    elif isinstance(value, dict):
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name in value:
                yield from find_values_at_path(value[name], parts[end:])
    elif isinstance(value, list):
        if parts[0].isdecimal() and int(parts[0]) < len(value):
            yield from find_values_at_path(value[int(parts[0])], parts[1:])
        for item in value:
            if isinstance(item, dict):
                yield from find_values_at_path(item, parts)


def format_searchable_value(value: object) -> str:
    """Return a value of a decoded body as text for a search: a text unchanged, any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # Values a thousand levels deep are not worth searching.
        return ""


def list_value_paths(values: Iterable[object]) -> list[str]:
    """Return the paths that occur in decoded bodies, the most frequent first, without list indices."""
    counts: dict[str, int] = {}
    for value in values:
        for path in dict.fromkeys(_walk_value_paths(value, "", 0)):
            counts[path] = counts.get(path, 0) + 1
    return sorted(counts, key=lambda path: -counts[path])


def _walk_value_paths(value: object, parent_path: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for name, member in value.items():
            path = f"{parent_path}.{name}" if parent_path else str(name)
            if not isinstance(member, dict) or not member:
                yield path
            yield from _walk_value_paths(member, path, depth + 1)
    elif isinstance(value, list):
        for member in value[:MAX_ITEMS]:
            if isinstance(member, dict):
                yield from _walk_value_paths(member, parent_path, depth + 1)
