"""Compute what went in and out of a queue, minute by minute, from the counters that its scripts store.

The script `stats` returns the counters now and at the start of each minute in which something happened. The difference
of two is what happened in a minute; a missing minute had no activity. The metrics view draws this, `rqtui stats` prints
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rqtui.model import Queue, Ref, State
from rqtui.system_base.system import Replies, Request, System

MINUTE_MS = 60_000
MAX_MINUTES = 1440  # minutes that a queue stores
UNFINISHED_STATES = (State.SCHEDULED, State.READY, State.RESERVED)
FLOWS: Mapping[str, tuple[str, ...]] = {  # by name of a flow: the counters that are added up
    "in": ("enqueued",),
    "out": ("acked", "pulled"),
    "failed": ("rejected", "expired"),
}
_NUMBER = re.compile(r"[0-9]{1,17}")
_ARRIVAL_COUNTERS = ("enqueued", "requeued", "restored")
_DEPARTURE_COUNTERS = ("acked", "pulled", "dead", "deleted", "purged")


@dataclass(frozen=True, slots=True)
class History:
    """The cumulative counters of one queue: now (all of them), and at the start of each minute (ms) with activity."""

    ref: Ref
    counters: Mapping[str, int] = field(default_factory=dict)
    minutes: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def merge(self, newer: History) -> History:
        """Return a newer history with the minutes of this one added, one day at most."""
        minutes = {**self.minutes, **newer.minutes}
        kept = sorted(minutes)[-MAX_MINUTES:]
        return replace(newer, minutes={minute: minutes[minute] for minute in kept})


def has_stats(system: System) -> bool:
    """Return whether the system counts what happens in its queues."""
    return "stats" in system.scripts


def list_counter_names(system: System) -> frozenset[str]:
    """Return the names of the counters that a system's scripts store; other fields of the same hash are settings."""
    return frozenset().union(*(script.counters for script in system.scripts.values()))


def build_history_request(system: System, queue: str, minutes: int = MAX_MINUTES) -> Request[History]:
    """Build the request for the counters now and in the last `minutes` minutes with activity."""
    call = system.build_call("stats", queue, {"limit": min(MAX_MINUTES, minutes)})
    return Request(
        (call,), lambda replies: _parse_history(Ref(system.name, queue), list_counter_names(system), replies)
    )


def _parse_history(ref: Ref, names: frozenset[str], replies: Replies) -> History:
    reply = replies[0]
    if isinstance(reply, Exception):
        raise reply
    rows = {minute_ms: _parse_counters(fields, names) for minute_ms, fields in reply.rows}
    now = dict.fromkeys(sorted(names), 0) | rows.pop(0, {})
    return History(ref, now, dict(sorted(rows.items())))


def _parse_counters(fields: str, names: frozenset[str]) -> dict[str, int]:
    words = fields.split(" ")
    pairs = zip(words[::2], words[1::2], strict=False)
    return {name: int(value) for name, value in pairs if name in names and _NUMBER.fullmatch(value)}


def compute_growth_per_minute(
    histories: Iterable[History], begin_ms: int, end_ms: int
) -> list[tuple[int, Counter[str]]]:
    """Return (minute in ms, growth of each counter) for all minutes between two times, summed over several queues."""
    first = begin_ms - begin_ms % MINUTE_MS
    grown: dict[int, Counter[str]] = {minute: Counter() for minute in range(first, end_ms, MINUTE_MS)}
    for history in histories:
        marks = [*history.minutes.items(), (end_ms, history.counters)]
        for (minute, before), (_next, after) in pairwise(marks):
            if minute in grown:
                grown[minute].update({name: max(0, after[name] - before.get(name, 0)) for name in after})
    return list(grown.items())


def sum_flow(counted: Mapping[str, int], name: str) -> int:
    """Return how many jobs went `in`, `out` or `failed` by these counters."""
    return sum(counted.get(counter, 0) for counter in FLOWS[name]) if counted else 0


def count_unfinished(queues: Iterable[Queue]) -> int:
    """Count the unfinished jobs of some queues: scheduled, ready and reserved."""
    return sum(queue.count_in_state(state) for queue in queues for state in UNFINISHED_STATES)


def compute_depths(minutes: Sequence[tuple[int, Mapping[str, int]]], waiting_now: int) -> list[tuple[int, int]]:
    """Return (minute in ms, unfinished jobs at its start), counted back from the present number.

    Deletes, purges and restores count as if all were of unfinished jobs, because the counters do not record the place.
    """
    depth, result = waiting_now, []
    for minute, grown in reversed(minutes):
        if grown:
            depth -= sum(grown.get(name, 0) for name in _ARRIVAL_COUNTERS) - sum(
                grown.get(name, 0) for name in _DEPARTURE_COUNTERS
            )
            depth = max(0, depth)
        result.append((minute, depth))
    return result[::-1]
