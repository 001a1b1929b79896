"""Names at the edge: of queues, keys, jobs and workers. Redis has bytes; inside, the name of a queue is text.

Bytes that are no UTF-8 stand in that text as lone surrogates (PEP 383), from which the same bytes come back. Nobody
else turns names into bytes or bytes into names; what a person sees of a name is made by `text.sanitise.safe`.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable

from rqtui.errors import UsageError
from rqtui.model import Ref

ENCODING = ("utf-8", "surrogateescape")
"""For `encode` and `decode` of whole columns, where a call per name would cost more than the work."""


BASE64 = "base64:"  # before what a document has of a name that is no UTF-8


def to_bytes(name: str | bytes) -> bytes:
    """A name as Redis has it. Raises UsageError for text that stands for no bytes: half a pair of UTF-16."""
    if isinstance(name, bytes):
        return name
    try:
        return name.encode(*ENCODING)
    except UnicodeEncodeError:
        raise UsageError(
            f"{name!a:.40} holds half of a surrogate pair, which is no text that UTF-8 can encode."
        ) from None


def from_base64(word: str) -> bytes | None:
    """The bytes of a name that a person took out of a document, as `base64:…`; None where it is no such word.

    Raises UsageError for what only begins so.
    """
    if not word.startswith(BASE64):
        return None
    try:
        return base64.b64decode(word[len(BASE64) :], validate=True)
    except ValueError:
        raise UsageError(f'"{word}" is no id and no name in base64.') from None


def to_text(raw: bytes) -> str:
    """A name as it is used inside, whatever its bytes are."""
    return raw.decode(*ENCODING)


def twins(refs: Iterable[Ref]) -> frozenset[str]:
    """The names that queues of several systems have."""
    often = Counter(ref.queue for ref in dict.fromkeys(refs))
    return frozenset(name for name, number in often.items() if number > 1)


def named(ref: Ref, twins: Collection[str]) -> str:
    """The name of a queue; with its system before it, as in `rq:mail`, where it is one of `twins`."""
    return str(ref) if ref.queue in twins else ref.queue
