"""How bodies become bytes and bytes bodies: JSON (the default), MSGPACK, BYTES.

A codec belongs to a queue object, not to the queue in Redis: producers and consumers must agree. Bytes pass any codec
as they are. Nothing is ever unpickled or executed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rqtui.errors import CodecError


@dataclass(frozen=True, slots=True)
class Codec:
    """Two functions and a name; of your own, too. What they raise becomes a CodecError that names the codec."""

    name: str
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]

    def encode(self, body: Any) -> bytes:
        """The bytes of `body`; bytes are returned as they are. Raises CodecError."""
        if isinstance(body, bytes):
            return body
        if isinstance(body, bytearray | memoryview):
            return bytes(body)
        try:
            return self.to_bytes(body)
        except Exception as error:  # whatever a codec's library raises, the sentence is the same
            raise CodecError(f"{self.name} cannot encode this body ({type(body).__name__}): {error}") from error

    def decode(self, raw: bytes) -> Any:
        """The body in `raw`. Raises CodecError."""
        try:
            return self.from_bytes(raw)
        except Exception as error:
            raise CodecError(
                f"This body ({len(raw)} bytes) is not {self.name}: {error}. Its bytes are in job.raw."
            ) from error


_json = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False
)  # json.dumps would make one per call


def _json_in_parts() -> Callable[[Any, int], Iterable[str]]:
    """What `_json` makes anew for each body, made once: half of what a small one costs. It looks for no circles,
    which end in a RecursionError here."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # not CPython
        return lambda body, _level: _json.iterencode(body)
    text = json.encoder.encode_basestring
    parts: Callable[[Any, int], Iterable[str]] = make(
        None, _json.default, text, None, _json.key_separator, _json.item_separator, False, False, False
    )
    return parts


_parts_of = _json_in_parts()


def _json_to_bytes(body: Any) -> bytes:
    try:
        return "".join(_parts_of(body, 0)).encode()
    except (ValueError, TypeError, RecursionError):
        return _json.encode(body).encode()  # it says what is wrong


def _msgpack_to_bytes(body: Any) -> bytes:
    import msgpack

    packed: bytes = msgpack.packb(body)
    return packed


def _msgpack_from_bytes(raw: bytes) -> Any:
    import msgpack

    return msgpack.unpackb(raw, strict_map_key=False)


def _only_bytes(body: Any) -> bytes:
    raise TypeError("give bytes, or choose another codec: Queue(…, codec=JSON)")


JSON = Codec("JSON", _json_to_bytes, json.loads)
MSGPACK = Codec("MessagePack", _msgpack_to_bytes, _msgpack_from_bytes)
BYTES = Codec("bytes", _only_bytes, bytes)
