"""Bodies in MessagePack: for systems whose workers read nothing else, and for people who search in them."""

from __future__ import annotations

import base64
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


def as_json(body: bytes) -> str:
    """The body as JSON, where it is one map or array in MessagePack and nothing else; empty where it is not."""
    if not (b"\x80" <= body[:1] <= b"\x9f" or b"\xdc" <= body[:1] <= b"\xdf"):
        return ""
    try:
        value = msgpack.unpackb(body, strict_map_key=False, raw=False, unicode_errors="surrogateescape")
        return json.dumps(_named(value), default=_other, ensure_ascii=False)
    except _UNREADABLE:
        return ""


def beginning(head: bytes) -> object:
    """The map or array that these bytes begin, with the members that are whole; None where they begin none."""
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
            return None  # text that only looks like it
    except msgpack.OutOfData:
        pass
    except _UNREADABLE:
        return None
    try:
        return _named(dict(members) if is_map else [value for _at, value in members])
    except TypeError:  # a key that is a list: no map that anybody reads
        return None


def _named(value: object) -> object:
    """The same with text for keys: JSON has no other, and msgpack has every kind."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(_plain(key)): _named(each) for key, each in value.items()}
    return [_named(each) for each in value] if isinstance(value, list) else value


def _plain(key: object) -> object:
    return _other(key) if isinstance(key, bytes) else key


def _other(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()
