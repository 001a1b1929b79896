"""Create the past of a queue: jobs that died at their last attempt, that a silent worker holds, or that are ready.

The scripts create the past in order, with the clock argument that tests use (`now_ms`). Every record, counter and line
of history equals what a real hour would have written. `native_run.py` calls it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

from redis.exceptions import ResponseError

from rqtui.client.native_keys import build_queue_keys
from rqtui.scenarios.producers import BATCH, build_enqueue_call
from rqtui.scenarios.scenario import PastGroup, fill_placeholders
from rqtui.scripts import script as scripts

ATTEMPTS = 3
_RUN_MS = 740
_PAUSE_MS = 45_000  # longer than any backoff between two of these attempts
_BEAT_TTL_MS = 120_000  # the worker's record expires after ten of these
_LARGE_PAST = 2_000
WORKERS = 7  # of a queue, which share its past jobs
_EMULATED_SHARE = 10  # on fakeredis only one job of ten gets a past: all would take a minute instead of two seconds


def create_past(client: Any, groups: tuple[PastGroup, ...], now_ms: int, share: int = 1) -> int:
    """Create jobs of the past in empty queues, the oldest group first; return the number of jobs.

    One job of `share` is put, and at least one of each group.
    """
    count = 0
    for group in sorted(groups, key=lambda group: -group.minutes_ago):
        chosen = replace(group, jobs=group.jobs[: -(-len(group.jobs) // share)])
        _create_group(client, chosen, now_ms - group.minutes_ago * 60_000)
        count += len(chosen.jobs)
    return count


def choose_share(client: Any, groups: tuple[PastGroup, ...]) -> int:
    """Return which share of the past jobs to create (one of N), so that a person need not wait long."""
    return _EMULATED_SHARE if sum(len(group.jobs) for group in groups) > _LARGE_PAST and _is_fakeredis(client) else 1


def _is_fakeredis(client: Any) -> bool:
    """Return whether the server is fakeredis, the only server for our scripts without INFO."""
    try:
        client.info("server")
    except ResponseError:
        return True
    return False


def _create_group(client: Any, group: PastGroup, at_ms: int) -> None:
    """Enqueue the jobs of one group, and let them fail or be leased as the group describes."""
    for at in range(0, len(group.jobs), BATCH):
        scripts.run_call(client, build_enqueue_call(group.queue, group.jobs[at : at + BATCH], at_ms))
    if group.worker:
        _lease_jobs(client, group, len(group.jobs), group.worker, at_ms)
        args = {"now_ms": at_ms, "worker": group.worker, "ttl_ms": _BEAT_TTL_MS, "host": "demo"}
        scripts.run_call(client, scripts.load_scripts("native")["beat"].build_call(build_queue_keys(group.queue), args))
    elif group.error:
        _fail_until_dead(client, group, at_ms)


def _lease_jobs(client: Any, group: PastGroup, most: int, worker: str, at_ms: int) -> list[list[bytes]]:
    """Reserve up to `most` jobs of the group for `worker`; return their ids and tokens."""
    args = {"now_ms": at_ms, "limit": most, "worker": worker, "ttr_ms": group.ttr_ms}
    reply = scripts.run_call(
        client, scripts.load_scripts("native")["reserve"].build_call(build_queue_keys(group.queue), args)
    )
    return [list(row[:2]) for row in reply.rows]


def _fail_until_dead(client: Any, group: PastGroup, at_ms: int) -> None:
    """Lease and reject the jobs of a group until each has failed at its last attempt and is dead.

    Each worker has a part of the jobs, so that no worker is common to all of them.
    """
    native, key = scripts.load_scripts("native"), build_queue_keys(group.queue)
    for attempt in range(1, ATTEMPTS + 1):
        most = -(-len(group.jobs) // WORKERS)
        leased = [
            row
            for number in range(WORKERS)
            for row in _lease_jobs(client, group, most, f"{group.queue}-{(number + attempt) % WORKERS + 1}", at_ms)
        ]
        if not leased:  # an earlier run with the same seed created this past
            return
        rows = [[id, token, fill_placeholders(group.error, crc32(id) + attempt)] for id, token in leased]
        scripts.run_call(client, native["reject"].build_call(key, {"now_ms": at_ms + _RUN_MS}, rows))
        at_ms += _PAUSE_MS
        scripts.run_call(client, native["dispatch"].build_call(key, {"now_ms": at_ms, "limit": 1_000}))
