"""Run `check` over a whole native queue, for tests that look for lost or inconsistent jobs."""

from __future__ import annotations

from redis import Redis

from rqtui.client import native_keys
from rqtui.scripts.script import load_scripts, run_call


def find_misplaced_jobs(client: Redis, queue: str) -> list[tuple[bytes, str, str]]:
    """Return (id, kind, place) for each lost or inconsistent job that `rqtui check` finds in a native queue."""
    script, keys = load_scripts("native")["check"], native_keys.build_queue_keys(queue)
    rows: list[tuple[bytes, str, str]] = []
    walk, cursor = "scheduled", "0"
    while True:
        answer = run_call(client, script.build_call(keys, {"walk": walk, "cursor": cursor, "limit": 1000}))
        rows += answer.rows
        if answer.word == "end":
            return rows
        walk, cursor = answer.values["walk"], answer.values["cursor"]
