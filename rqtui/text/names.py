"""Convert names of queues, keys, jobs and workers between Redis bytes and text.

Redis has bytes; inside rqtui, the name of a queue is text. Bytes that are not UTF-8 become lone surrogates (PEP 383),
which convert back to the same bytes. Only this module converts names. Use `text.sanitise.safe` before a name is
printed.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from rqtui.errors import UsageError
from rqtui.model import Ref

ENCODING = ("utf-8", "surrogateescape")
"""Arguments of `encode` and `decode` for many names at once, where one call per name would be slow."""


BASE64 = "base64:"  # prefix of a name in a JSON document that is not UTF-8


def to_bytes(name: str | bytes) -> bytes:
    """Convert the name of a queue, key, job or worker to its bytes in Redis.

    Raises UsageError for text with half of a UTF-16 surrogate pair.
    """
    if isinstance(name, bytes):
        return name
    try:
        return name.encode(*ENCODING)
    except UnicodeEncodeError:
        raise UsageError(
            f"{name!a:.40} holds half of a surrogate pair, which is no text that UTF-8 can encode."
        ) from None


def parse_base64_name(word: str) -> bytes | None:
    """Decode a name that a person copied from a JSON document as `base64:…`. Returns None without that prefix.

    Raises UsageError if the prefix is not followed by valid base64.
    """
    if not word.startswith(BASE64):
        return None
    try:
        return base64.b64decode(word[len(BASE64) :], validate=True)
    except ValueError:
        raise UsageError(f'"{word}" is no id and no name in base64.') from None


def to_text(raw: bytes) -> str:
    """Convert the bytes of a name in Redis to text. Bytes that are not UTF-8 become surrogates, so none is lost."""
    return raw.decode(*ENCODING)


def find_duplicate_names(refs: Iterable[Ref]) -> frozenset[str]:
    """Return the names that queues of several systems share."""
    counts = Counter(ref.queue for ref in dict.fromkeys(refs))
    return frozenset(name for name, number in counts.items() if number > 1)


def format_queue_name(ref: Ref, duplicates: Collection[str]) -> str:
    """Return the name of a queue, with its system first if several systems have a queue of that name: `rq:mail`."""
    return str(ref) if ref.queue in duplicates else ref.queue


def join_names(names: Sequence[str], limit: int = 3) -> str:
    """Join names to an enumeration for a sentence: the first `limit`, and how many more there are."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
