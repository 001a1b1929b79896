"""How bodies become bytes and bytes bodies: JSON (the default), MSGPACK, BYTES.

A codec belongs to a queue object, not to the queue in Redis: producers and consumers must agree. Bytes pass any codec
as they are. Nothing is ever unpickled or executed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
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


def _json_to_bytes(body: Any) -> bytes:
    return _json.encode(body).encode()


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
