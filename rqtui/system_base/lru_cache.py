"""A dictionary of limited size that drops the entries stored longest ago."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(OrderedDict[K, V]):
    """At most `most` values by key, in the order in which they were last stored."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def store(self, key: K, value: V) -> V:
        """Store a value as the newest and return it."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)
        return value
