"""Provide a dictionary of limited size that drops the values stored longest ago."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(OrderedDict[K, V]):
    """A dictionary of at most `most` values, which drops the value that was stored longest ago."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def store(self, key: K, value: V) -> V:
        """Store a value as the newest and return it; beyond `most` values the oldest one is dropped."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)
        return value
