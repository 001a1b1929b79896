"""Walks a native queue with `check`, to its end: what a test asks after it did its worst."""

from __future__ import annotations

from redis import Redis

from rqtui.client import native_keys
from rqtui.scripts.script import load, run


def problems(client: Redis, queue: str) -> list[tuple[bytes, str, str]]:
    """All (id, kind, where) that `check` finds."""
    script, keys = load("native")["check"], native_keys.keys(queue)
    found: list[tuple[bytes, str, str]] = []
    walk, cursor = "scheduled", "0"
    while True:
        answer = run(client, script.call(keys, {"walk": walk, "cursor": cursor, "limit": 1000}))
        found += answer.rows
        if answer.word == "end":
            return found
        walk, cursor = answer.values["walk"], answer.values["cursor"]
