"""Time passes for a native queue without waiting."""

from __future__ import annotations

from collections.abc import Iterable

from redis import Redis

PLACES_IN_MS = ("scheduled", "reserved", "done", "dead")


def age(client: Redis, queue: str, ms: int) -> None:
    """Make the native queue look as if `ms` had passed: all its instants move back by that much.

    Scores of scheduled, reserved, done and dead; enqueued and due in `jobs`, since in `attempts`, beats in `workers`.
    Tokens, priorities, counters, streams and the history of errors stay. A record that cannot be read stays too.
    """
    prefix = f"rqtui:{{{queue}}}:"
    pipe = client.pipeline()
    for place in PLACES_IN_MS:
        for member, score in client.zrange(prefix + place, 0, -1, withscores=True):
            pipe.zadd(prefix + place, {member: score - ms})
    for name, columns in (("jobs", (0, 1)), ("attempts", (3,)), ("workers", (0, 3))):
        for field, record in client.hgetall(prefix + name).items():
            pipe.hset(prefix + name, field, _earlier(record, columns, ms))
    pipe.execute()


def _earlier(record: bytes, columns: Iterable[int], ms: int) -> bytes:
    """The record with those space-separated columns of its first line lowered by `ms`, where they are numbers."""
    line, newline, body = record.partition(b"\n")
    enqueued, colon, name = line.partition(b":")
    if colon and enqueued.isdigit():  # the short header of a job
        return b"%d:" % (int(enqueued) - ms) + name + newline + body
    words = line.split(b" ")
    for column in columns:
        if column < len(words) and words[column].isdigit():
            words[column] = b"%d" % (int(words[column]) - ms)
    return b" ".join(words) + newline + body
