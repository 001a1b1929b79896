"""Packed: bodies in MessagePack, for systems whose workers read nothing else."""

from __future__ import annotations

import json

import msgpack

from rqtui.errors import UsageError

_UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)


def is_packed(body: bytes) -> bool:
    """Whether the bytes are one value in MessagePack and nothing else."""
    try:
        msgpack.unpackb(body, strict_map_key=False)
    except _UNREADABLE:
        return False
    return True


def packed(body: bytes) -> bytes:
    """MessagePack as it is; a list or an object of JSON as MessagePack. Raises UsageError for anything else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list | dict):
        try:
            made: bytes = msgpack.packb(value)
        except (ValueError, OverflowError) as error:
            raise UsageError(f"this body cannot be MessagePack: {error}.") from None
        return made
    if body[:1] < b"\x80" or not is_packed(body):  # below: a number of one byte, which is text more likely
        raise UsageError("bodies are MessagePack here: give a list or an object in JSON, or MessagePack itself.")
    return body
