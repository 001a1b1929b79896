"""Paths into a decoded body: `customer.plan`, `items.0.sku`, and `items.sku` for that of any item.

A member whose name has dots in it is found by that name. `decoded` makes the value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from rqtui.text.body import meant

DEEPEST = 8  # levels that are looked into for paths to offer
ITEMS = 20  # of a list, likewise


def decoded(body: bytes) -> object:
    """The value that a JSON, msgpack or pickled body holds, compressed or not; None where it holds none."""
    for text in (body, meant(body)):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            continue
    return None


def values_at(value: object, parts: Sequence[str]) -> Iterator[object]:
    """What stands at a path, given as its parts; several where it leads through a list."""
    if not parts:
        yield value
    elif isinstance(value, dict):
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name in value:
                yield from values_at(value[name], parts[end:])
    elif isinstance(value, list):
        if parts[0].isdecimal() and int(parts[0]) < len(value):
            yield from values_at(value[int(parts[0])], parts[1:])
        for each in value:
            if isinstance(each, dict):
                yield from values_at(each, parts)


def as_text(value: object) -> str:
    """A value as a person would write it: text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # nobody looks for what stands a thousand levels deep
        return ""


def paths_of(values: Iterable[object]) -> list[str]:
    """The paths that lead to something in these values, those that most values have first; without list indices."""
    counted: dict[str, int] = {}
    for value in values:
        for path in dict.fromkeys(_paths(value, "", 0)):
            counted[path] = counted.get(path, 0) + 1
    return sorted(counted, key=lambda path: -counted[path])


def _paths(value: object, before: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth < DEEPEST:
        for name, each in value.items():
            path = f"{before}.{name}" if before else str(name)
            if not isinstance(each, dict) or not each:
                yield path
            yield from _paths(each, path, depth + 1)
    elif isinstance(value, list) and depth < DEEPEST:
        for each in value[:ITEMS]:
            if isinstance(each, dict):
                yield from _paths(each, before, depth + 1)
