"""Encode and decode the bodies of jobs: JSON (the default), MSGPACK and BYTES.

A codec belongs to a queue object, not to the queue in Redis, so producers and consumers must agree. Bytes pass through
any codec unchanged. Nothing is ever unpickled or executed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rqtui.errors import CodecError


@dataclass(frozen=True, slots=True)
class Codec:
    """An encoding of job bodies: a name and two functions.

    An error that a function raises becomes a CodecError that names the codec.
    """

    name: str
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]

    def encode(self, body: Any) -> bytes:
        """Return the body of a job as bytes; bytes are returned unchanged. Raises CodecError."""
        if isinstance(body, bytes):
            return body
        if isinstance(body, bytearray | memoryview):
            return bytes(body)
        try:
            return self.to_bytes(body)
        except Exception as error:  # a codec's library may raise any exception; callers handle only CodecError
            raise CodecError(f"{self.name} cannot encode this body ({type(body).__name__}): {error}") from error

    def decode(self, raw: bytes) -> Any:
        """Decode the body of a job from its bytes. Raises CodecError."""
        try:
            return self.from_bytes(raw)
        except Exception as error:
            raise CodecError(
                f"This body ({len(raw)} bytes) is not {self.name}: {error}. Its bytes are in job.raw."
            ) from error


# One encoder for all calls, because json.dumps would create one per call.
_json_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _build_json_encoder() -> Callable[[Any, int], Iterable[str]]:
    """Build the C encoder of `_json_encoder` once, which halves the time to encode a small body.

    The encoder does not check for cycles. A body with a cycle ends in a RecursionError.
    """
    make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)
    if make_encoder is None:  # not CPython
        return lambda body, _level: _json_encoder.iterencode(body)
    escape_text = json.encoder.encode_basestring
    encode_parts: Callable[[Any, int], Iterable[str]] = make_encoder(
        None,
        _json_encoder.default,
        escape_text,
        None,
        _json_encoder.key_separator,
        _json_encoder.item_separator,
        False,
        False,
        False,
    )
    return encode_parts


_encode_parts = _build_json_encoder()


def _encode_json(body: Any) -> bytes:
    try:
        return "".join(_encode_parts(body, 0)).encode()
    except (ValueError, TypeError, RecursionError):
        return _json_encoder.encode(body).encode()  # the Python encoder raises the error with a better message


def _encode_msgpack(body: Any) -> bytes:
    import msgpack

    packed: bytes = msgpack.packb(body)
    return packed


def _decode_msgpack(raw: bytes) -> Any:
    import msgpack

    return msgpack.unpackb(raw, strict_map_key=False)


def _refuse_non_bytes(body: Any) -> bytes:
    raise TypeError("give bytes, or choose another codec: Queue(…, codec=JSON)")


JSON = Codec("JSON", _encode_json, json.loads)
MSGPACK = Codec("MessagePack", _encode_msgpack, _decode_msgpack)
BYTES = Codec("bytes", _refuse_non_bytes, bytes)
