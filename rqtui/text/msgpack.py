"""Convert job bodies between JSON and MessagePack, for systems whose workers need MessagePack and for searches."""

from __future__ import annotations

import base64
import json

import msgpack

from rqtui.errors import UsageError

_UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)


def is_msgpack(body: bytes) -> bool:
    """Return whether the bytes are exactly one MessagePack value."""
    try:
        msgpack.unpackb(body, strict_map_key=False)
    except _UNREADABLE:
        return False
    return True


def convert_json_to_msgpack(body: bytes) -> bytes:
    """Convert a JSON list or object to MessagePack; return a body that is MessagePack already unchanged.

    Raises UsageError for a body in any other encoding.
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
    if body[:1] < b"\x80" or not is_msgpack(body):
        raise UsageError("bodies are MessagePack here: give a list or an object in JSON, or MessagePack itself.")
    return body


# The first bytes of maps and arrays.
_MAPS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
_ARRAYS = frozenset((*range(0x90, 0xA0), 0xDC, 0xDD))


def convert_msgpack_to_json(body: bytes) -> str:
    """Convert a body that is exactly one MessagePack map or array to JSON. Returns "" for any other body."""
    if not (_MAPS | _ARRAYS).intersection(body[:1]):
        return ""
    try:
        value = msgpack.unpackb(body, strict_map_key=False, raw=False, unicode_errors="surrogateescape")
        return json.dumps(_convert_keys_to_text(value), default=_convert_to_text, ensure_ascii=False)
    except _UNREADABLE:
        return ""


def parse_partial_msgpack(head: bytes) -> object:
    """Parse the MessagePack map or array at the beginning of a body, with its complete members.

    None for other bytes.
    """
    if not (_MAPS | _ARRAYS).intersection(head[:1]):
        return None
    is_map = bool(_MAPS.intersection(head[:1]))
    unpacker = msgpack.Unpacker(strict_map_key=False, raw=False, unicode_errors="surrogateescape")
    unpacker.feed(head)
    members: list[tuple[object, object]] = []
    try:
        for number in range(unpacker.read_map_header() if is_map else unpacker.read_array_header()):
            members.append((unpacker.unpack() if is_map else number, unpacker.unpack()))
        if unpacker.tell() < len(head):
            return None  # This is text that only looks like MessagePack.
    except msgpack.OutOfData:
        pass
    except _UNREADABLE:
        return None
    try:
        return _convert_keys_to_text(dict(members) if is_map else [value for _at, value in members])
    except TypeError:  # A key that is a list cannot be read as JSON.
        return None


def _convert_keys_to_text(value: object) -> object:
    """Convert all keys of the maps in a MessagePack value to text, because JSON has no other keys."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(_convert_bytes_key_to_text(key)): _convert_keys_to_text(member)
            for key, member in value.items()
        }
    return [_convert_keys_to_text(member) for member in value] if isinstance(value, list) else value


def _convert_bytes_key_to_text(key: object) -> object:
    return _convert_to_text(key) if isinstance(key, bytes) else key


def _convert_to_text(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()
