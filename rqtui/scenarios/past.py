"""A past for a queue: jobs that failed at every attempt and died, with a history that begins an hour ago.

It happens through the scripts, in order, with the clock that they take from a test (`now_ms`): every record, counter
and line of history is what a real hour would have left behind.
"""

from __future__ import annotations

from typing import Any

from rqtui.client.native_keys import keys
from rqtui.scenarios.producers import enqueue
from rqtui.scenarios.scenario import PastGroup
from rqtui.scripts import script as scripts

ATTEMPTS = 3
_RUN_MS = 740
_PAUSE_MS = 45_000  # longer than any backoff between two of these attempts


def live_through(client: Any, groups: tuple[PastGroup, ...], now_ms: int) -> int:
    """Make `groups` have happened, the oldest first, in queues that are empty yet; returns the jobs put."""
    for group in sorted(groups, key=lambda group: -group.minutes_ago):
        _live_through(client, group, now_ms - group.minutes_ago * 60_000)
    return sum(len(group.jobs) for group in groups)


def _live_through(client: Any, group: PastGroup, at_ms: int) -> None:
    native, key = scripts.load("native"), keys(group.queue)
    scripts.run(client, enqueue(group.queue, group.jobs, at_ms))
    for attempt in range(1, ATTEMPTS + 1):
        args = {"now_ms": at_ms, "limit": len(group.jobs), "worker": f"{group.queue}-{attempt}", "ttr_ms": 60_000}
        taken = scripts.run(client, native["reserve"].call(key, args))
        if not taken.rows:  # a run with the same seed lived through it before
            return
        rows = [[row[0], row[1], group.error.replace("{n}", str(7 * i + attempt))] for i, row in enumerate(taken.rows)]
        scripts.run(client, native["reject"].call(key, {"now_ms": at_ms + _RUN_MS}, rows))
        at_ms += _PAUSE_MS
        scripts.run(client, native["dispatch"].call(key, {"now_ms": at_ms, "limit": 1_000}))
