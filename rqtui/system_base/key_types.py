"""Read the types of Redis keys in one round trip. A system does so to check that a queue it found is really its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rqtui.text.names import to_bytes


def read_key_types(client: Any, keys: Sequence[str | bytes]) -> list[str]:
    """Return the Redis type of each key (`list`, `set`, …); `none` if a key is missing or an ACL hides it."""
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.type(to_bytes(key))  # hiredis packs text as strict UTF-8, whatever the client's settings are
    replies = pipe.execute(raise_on_error=False) if keys else []
    return [_decode_key_type(kind) for kind in replies]


def _decode_key_type(kind: object) -> str:
    if isinstance(kind, bytes):
        return kind.decode()
    return kind if isinstance(kind, str) else "none"
