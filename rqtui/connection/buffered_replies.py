"""Read replies that hiredis has already received, without a call of redis-py's `read_response` (2 µs) for each.

Of redis-py's connection, only `_parser` and its `_reader` are used. If they have another type, no reply is read here
and the caller reads the replies one by one.
"""

from __future__ import annotations

from typing import Any

from hiredis import Reader
from redis import exceptions

_INCOMPLETE = object  # hiredis returns a bare object while a reply is incomplete; no reply has this type


def append_received_replies(connection: Any, replies: list[Any], max_replies: int) -> None:
    """Append the replies that hiredis has already received to `replies`, up to `max_replies` in all.

    Redis errors are appended too. Raises the errors of redis-py: a ConnectionError received as a reply, and
    InvalidResponse.
    """
    reader = getattr(getattr(connection, "_parser", None), "_reader", None)
    if not isinstance(reader, Reader):
        return
    first_new, next_reply = len(replies), reader.gets
    try:
        while len(replies) < max_replies:
            reply = next_reply()
            if reply is False or type(reply) is _INCOMPLETE:
                return
            if isinstance(reply, exceptions.ConnectionError):
                raise reply
            replies.append(reply)
    finally:
        meter = getattr(connection, "meter", None)
        if meter is not None:
            meter.count_replies(0.0, len(replies) - first_new)
