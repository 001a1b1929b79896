"""Give names to jobs without an id: members of lists and sets that consist of their bytes alone.

A name is a digest of the bytes (for a longer entry of the first 4096, the last 64 and the length), with `.2` appended
for the second of equal entries on a page. Names are valid only in this process: `Entries` stores which entry each name
means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from rqtui.system_base.lru_cache import LruCache

HEAD_BYTES = 4096  # longer entries are shown by their beginning, and fetched before a verb acts on them
TAIL_BYTES = 64
_REMEMBERED = 20_000


class Entry(NamedTuple):
    """An entry of a Redis list or set, described so that a script can find it by first bytes, size and last bytes.

    `head` has all bytes of an entry that is not longer than that.
    """

    head: bytes
    size: int
    tail: bytes

    @classmethod
    def from_bytes(cls, entry_bytes: bytes) -> Entry:
        """Return the entry of a Redis list or set that consists of these bytes."""
        return cls(entry_bytes, len(entry_bytes), entry_bytes[-TAIL_BYTES:])

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Entry:
        """Return the entry in the columns `head size tail` of a script's reply.

        `tail` may be empty if `head` is complete.
        """
        head, size = row["head"], row["size"]
        return cls(head, size, (head if len(head) >= size else row["tail"])[-TAIL_BYTES:])

    @property
    def is_complete(self) -> bool:
        """Whether `head` has all bytes of the entry."""
        return len(self.head) >= self.size

    @property
    def digest(self) -> bytes:
        """Twelve letters that identify the bytes of the entry."""
        text = b"%d:%s:%s" % (self.size, self.head[:HEAD_BYTES], self.tail)
        return blake2b(text, digest_size=6).hexdigest().encode()


class Entries:
    """A cache of the list and set entries that were given a name in this process, by that name."""

    def __init__(self) -> None:
        self._known: LruCache[bytes, Entry] = LruCache(_REMEMBERED)

    def assign_name(self, entry: Entry, seen: Counter[bytes], called: bytes = b"") -> bytes:
        """Return a name for a job that is only bytes, and store which entry it means: `called`, or else a digest.

        `seen` counts the names on the page; the second of equal names on a page gets a number.
        """
        digest = called or entry.digest
        seen[digest] += 1
        id = digest if seen[digest] == 1 else b"%s.%d" % (digest, seen[digest])
        self._known.store(id, Entry(entry.head[:HEAD_BYTES], entry.size, entry.tail))
        return id

    def find(self, id: bytes) -> Entry | None:
        """Return the list or set entry that was given the name `id`; None if none was in this process, or long ago."""
        return self._known.get(id)


def strip_name_number(id: bytes) -> bytes:
    """Return the name of a job without the number that distinguishes equal entries on a page."""
    return id.partition(b".")[0]
