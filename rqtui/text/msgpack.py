"""Read and write job bodies in MessagePack, for systems whose workers need it, and to search in such bodies."""

from __future__ import annotations

import base64
import json

import msgpack

from rqtui.errors import UsageError

_UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)


def is_packed(body: bytes) -> bool:
    """Return whether the bytes are exactly one MessagePack value."""
    try:
        msgpack.unpackb(body, strict_map_key=False)
    except _UNREADABLE:
        return False
    return True


def to_msgpack(body: bytes) -> bytes:
    """Convert a JSON list or object to MessagePack; MessagePack stays unchanged.

    Raises UsageError for anything else.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list | dict):
        try:
            content: bytes = msgpack.packb(value)
        except (ValueError, OverflowError) as error:
            raise UsageError(f"this body cannot be MessagePack: {error}.") from None
        return content
    # A first byte below 0x80 would be a number of one byte, which is more likely text.
    if body[:1] < b"\x80" or not is_packed(body):
        raise UsageError("bodies are MessagePack here: give a list or an object in JSON, or MessagePack itself.")
    return body


def to_json(body: bytes) -> str:
    """Convert a body that is exactly one MessagePack map or array to JSON. Returns "" for any other body."""
    if not (b"\x80" <= body[:1] <= b"\x9f" or b"\xdc" <= body[:1] <= b"\xdf"):
        return ""
    try:
        value = msgpack.unpackb(body, strict_map_key=False, raw=False, unicode_errors="surrogateescape")
        return json.dumps(_with_text_keys(value), default=_to_text, ensure_ascii=False)
    except _UNREADABLE:
        return ""


def parse_partial(head: bytes) -> object:
    """Parse the map or array at the beginning of `head`, with its complete members. Returns None for other bytes."""
    if not (b"\x80" <= head[:1] <= b"\x9f" or b"\xdc" <= head[:1] <= b"\xdf"):
        return None
    is_map = b"\x80" <= head[:1] <= b"\x8f" or head[:1] in (b"\xde", b"\xdf")
    unpacker = msgpack.Unpacker(strict_map_key=False, raw=False, unicode_errors="surrogateescape")
    unpacker.feed(head)
    members: list[tuple[object, object]] = []
    try:
        for at in range(unpacker.read_map_header() if is_map else unpacker.read_array_header()):
            members.append((unpacker.unpack() if is_map else at, unpacker.unpack()))
        if unpacker.tell() < len(head):
            return None  # This is text that only looks like MessagePack.
    except msgpack.OutOfData:
        pass
    except _UNREADABLE:
        return None
    try:
        return _with_text_keys(dict(members) if is_map else [value for _at, value in members])
    except TypeError:  # A key that is a list cannot be read as JSON.
        return None


def _with_text_keys(value: object) -> object:
    """Convert all keys of maps to text, because JSON has no others."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(_to_plain_key(key)): _with_text_keys(each)
            for key, each in value.items()
        }
    return [_with_text_keys(each) for each in value] if isinstance(value, list) else value


def _to_plain_key(key: object) -> object:
    return _to_text(key) if isinstance(key, bytes) else key


def _to_text(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()
