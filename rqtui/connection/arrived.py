"""Replies that have arrived with the first one, taken from hiredis at once: `read_response` takes 2 µs for each.

Of redis-py's connection only `_parser` and its `_reader` are known here; where they are something else, nothing is
taken, and the caller reads one by one.
"""

from __future__ import annotations

from typing import Any

from hiredis import Reader
from redis import exceptions

_NOT_WHOLE = object  # the type of what stands for a reply that has not come whole; no reply is a bare object


def take_arrived(connection: Any, replies: list[Any], number: int) -> None:
    """Appends what has arrived, until there are `number` replies; errors of Redis stand among them.

    Raises what redis-py would: ConnectionErrors that stand for a reply, and InvalidResponse.
    """
    reader = getattr(getattr(connection, "_parser", None), "_reader", None)
    if not isinstance(reader, Reader):
        return
    before, next_reply = len(replies), reader.gets
    try:
        while len(replies) < number:
            reply = next_reply()
            if reply is False or type(reply) is _NOT_WHOLE:
                return
            if isinstance(reply, exceptions.ConnectionError):
                raise reply
            replies.append(reply)
    finally:
        meter = getattr(connection, "meter", None)
        if meter is not None:
            meter.answered(0.0, len(replies) - before)
