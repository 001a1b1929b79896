"""A past for a queue: jobs that failed at every attempt and died, that a silent worker holds, or that wait.

It happens through the scripts, in order, with the clock that they take from a test (`now_ms`): every record, counter
and line of history is what a real hour would have left behind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

from redis.exceptions import ResponseError

from rqtui.client.native_keys import keys
from rqtui.scenarios.producers import BATCH, enqueue
from rqtui.scenarios.scenario import PastGroup, filled
from rqtui.scripts import script as scripts

ATTEMPTS = 3
_RUN_MS = 740
_PAUSE_MS = 45_000  # longer than any backoff between two of these attempts
_BEAT_TTL_MS = 120_000  # a silent worker is forgotten after ten of these
_MANY = 2_000
_SLOW = 10  # on fakeredis, which takes a minute for what Redis does in two seconds, one job of so many has a past


def live_through(client: Any, groups: tuple[PastGroup, ...], now_ms: int, share: int = 1) -> int:
    """Make `groups` have happened, the oldest first, in queues that are empty yet; returns the jobs put.

    One job of `share` is put, and at least one of each group.
    """
    put = 0
    for group in sorted(groups, key=lambda group: -group.minutes_ago):
        some = replace(group, jobs=group.jobs[: -(-len(group.jobs) // share)])
        _live_through(client, some, now_ms - group.minutes_ago * 60_000)
        put += len(some.jobs)
    return put


def affordable(client: Any, groups: tuple[PastGroup, ...]) -> int:
    """One job of how many should have a past, so that a person need not wait long for it."""
    return _SLOW if sum(len(group.jobs) for group in groups) > _MANY and _is_emulated(client) else 1


def _is_emulated(client: Any) -> bool:
    """Whether it is fakeredis: nothing else that runs our scripts has no INFO."""
    try:
        client.info("server")
    except ResponseError:
        return True
    return False


def _live_through(client: Any, group: PastGroup, at_ms: int) -> None:
    for at in range(0, len(group.jobs), BATCH):
        scripts.run(client, enqueue(group.queue, group.jobs[at : at + BATCH], at_ms))
    if group.worker:
        _lease(client, group, group.worker, at_ms)
        args = {"now_ms": at_ms, "worker": group.worker, "ttl_ms": _BEAT_TTL_MS, "host": "demo"}
        scripts.run(client, scripts.load("native")["beat"].call(keys(group.queue), args))
    elif group.error:
        _die(client, group, at_ms)


def _lease(client: Any, group: PastGroup, worker: str, at_ms: int) -> list[list[bytes]]:
    """Let `worker` take the jobs of the group; their ids and tokens."""
    args = {"now_ms": at_ms, "limit": len(group.jobs), "worker": worker, "ttr_ms": group.ttr_ms}
    answer = scripts.run(client, scripts.load("native")["reserve"].call(keys(group.queue), args))
    return [list(row[:2]) for row in answer.rows]


def _die(client: Any, group: PastGroup, at_ms: int) -> None:
    native, key = scripts.load("native"), keys(group.queue)
    for attempt in range(1, ATTEMPTS + 1):
        taken = _lease(client, group, f"{group.queue}-{attempt}", at_ms)
        if not taken:  # a run with the same seed lived through it before
            return
        rows = [[id, token, filled(group.error, crc32(id) + attempt)] for id, token in taken]
        scripts.run(client, native["reject"].call(key, {"now_ms": at_ms + _RUN_MS}, rows))
        at_ms += _PAUSE_MS
        scripts.run(client, native["dispatch"].call(key, {"now_ms": at_ms, "limit": 1_000}))
