"""Move the times of a native queue into the past, so that tests need not wait."""

from __future__ import annotations

from collections.abc import Iterable

from redis import Redis

PLACES_IN_MS = ("scheduled", "reserved", "done", "dead")


def move_queue_into_past(client: Redis, queue: str, ms: int) -> None:
    """Move all times of a native queue back by `ms`, as if that much time had passed.

    Changes the scores of scheduled, reserved, done and dead, the enqueued and due times in `jobs`, the time of the last
    change in `attempts`, and the heartbeats in `workers`. Tokens, priorities, counters, streams, the history of errors
    and records that cannot be parsed stay.
    """
    prefix = f"rqtui:{{{queue}}}:"
    pipe = client.pipeline()
    for place in PLACES_IN_MS:
        for member, score in client.zrange(prefix + place, 0, -1, withscores=True):
            pipe.zadd(prefix + place, {member: score - ms})
    for name, columns in (("jobs", (0, 1)), ("attempts", (3,)), ("workers", (0, 3))):
        for field, record in client.hgetall(prefix + name).items():
            pipe.hset(prefix + name, field, _lower_record_times(record, columns, ms))
    pipe.execute()


def _lower_record_times(record: bytes, columns: Iterable[int], ms: int) -> bytes:
    """Lower the numbers in these space-separated columns of a record's first line by `ms`, and return the record."""
    line, newline, body = record.partition(b"\n")
    enqueued, colon, name = line.partition(b":")
    if colon and enqueued.isdigit():  # A job's short header
        return b"%d:" % (int(enqueued) - ms) + name + newline + body
    fields = line.split(b" ")
    for column in columns:
        if column < len(fields) and fields[column].isdigit():
            fields[column] = b"%d" % (int(fields[column]) - ms)
    return b" ".join(fields) + newline + body
