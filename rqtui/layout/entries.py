"""Entries: names for jobs that have none, members of lists and sets whose bytes are all there is.

A name is a digest of the bytes (of the first 4096, the last 64 and the length, where an entry is longer), and `.2` for
the second of equal ones on a page. Names stand for entries only in this process: `Entries` remembers which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from rqtui.layout.recent import Recent

HEAD_BYTES = 4096  # longer entries are shown by their beginning, and fetched before a verb acts on them
TAIL_BYTES = 64
_REMEMBERED = 20_000


class Entry(NamedTuple):
    """An entry as a script finds it again: its first bytes (all of them where `size` says so), size, last bytes."""

    head: bytes
    size: int
    tail: bytes

    @classmethod
    def of(cls, whole: bytes) -> Entry:
        """The entry whose bytes these are."""
        return cls(whole, len(whole), whole[-TAIL_BYTES:])

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Entry:
        """The entry in the columns `head size tail` of a script's answer."""
        return cls(row["head"], row["size"], row["tail"])

    @property
    def is_whole(self) -> bool:
        """Whether `head` is all of it."""
        return len(self.head) >= self.size

    @property
    def digest(self) -> bytes:
        """Twelve letters that stand for these bytes."""
        text = b"%d:%s:%s" % (self.size, self.head[:HEAD_BYTES], self.tail)
        return blake2b(text, digest_size=6).hexdigest().encode()


class Entries:
    """The entries that were named lately, by their names."""

    def __init__(self) -> None:
        self._known: Recent[bytes, Entry] = Recent(_REMEMBERED)

    def name(self, entry: Entry, seen: Counter[bytes], called: bytes = b"") -> bytes:
        """The name of an entry, `called` or its digest; `seen` counts those of one page, so that equal ones differ."""
        digest = called or entry.digest
        seen[digest] += 1
        id = digest if seen[digest] == 1 else b"%s.%d" % (digest, seen[digest])
        self._known.keep(id, Entry(entry.head[:HEAD_BYTES], entry.size, entry.tail))
        return id

    def find(self, id: bytes) -> Entry | None:
        """The entry that was given this name; None when that was long ago, or elsewhere."""
        return self._known.get(id)


def digest_of(id: bytes) -> bytes:
    """A name without the number of equal ones before it."""
    return id.partition(b".")[0]
