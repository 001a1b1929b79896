"""Stats: what went in and out of a queue, minute by minute, from the counters that its scripts keep.

The script `stats` tells the counters now and as each minute began in which something happened; a difference is what
happened in a minute, and a minute that is not there is one in which nothing did. The metrics view draws this,
`rqtui stats` prints it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rqtui.layout.layout import Answers, Ask, Layout
from rqtui.model import Queue, Ref, State

MINUTE_MS = 60_000
DAY = 1440  # minutes that a queue remembers
WAITING = (State.SCHEDULED, State.READY, State.RESERVED)
FLOWS: Mapping[str, tuple[str, ...]] = {  # what a person asks for: the counters that make it up
    "in": ("enqueued",),
    "out": ("acked", "pulled"),
    "failed": ("rejected", "expired"),
}
_NUMBER = re.compile(r"[0-9]{1,17}")
_ARRIVE = ("enqueued", "requeued", "restored")
_LEAVE = ("acked", "pulled", "dead", "deleted", "purged")


@dataclass(frozen=True, slots=True)
class History:
    """The counters of one queue: now (each that there is), and by the minute (ms) as it began. Cumulative."""

    ref: Ref
    counters: Mapping[str, int] = field(default_factory=dict)
    minutes: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def updated(self, newer: History) -> History:
        """The same with what a later look found, a day at most."""
        minutes = {**self.minutes, **newer.minutes}
        kept = sorted(minutes)[-DAY:]
        return replace(newer, minutes={minute: minutes[minute] for minute in kept})


def has_stats(layout: Layout) -> bool:
    """Whether that system counts what happens."""
    return "stats" in layout.scripts


def counters(layout: Layout) -> frozenset[str]:
    """What the scripts of a system count; what else stands beside it are settings."""
    return frozenset().union(*(script.counters for script in layout.scripts.values()))


def history_ask(layout: Layout, queue: str, minutes: int = DAY) -> Ask[History]:
    """The counters now and those of the last `minutes` in which something happened."""
    call = layout.call("stats", queue, {"limit": min(DAY, minutes)})
    return Ask((call,), lambda answers: _history(Ref(layout.name, queue), counters(layout), answers))


def _history(ref: Ref, names: frozenset[str], answers: Answers) -> History:
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    rows = {minute_ms: _numbers(fields, names) for minute_ms, fields in answer.rows}
    now = dict.fromkeys(sorted(names), 0) | rows.pop(0, {})
    return History(ref, now, dict(sorted(rows.items())))


def _numbers(fields: str, names: frozenset[str]) -> dict[str, int]:
    words = fields.split(" ")
    pairs = zip(words[::2], words[1::2], strict=False)
    return {name: int(value) for name, value in pairs if name in names and _NUMBER.fullmatch(value)}


def per_minute(histories: Iterable[History], begin_ms: int, end_ms: int) -> list[tuple[int, Counter[str]]]:
    """(minute, how much each counter grew in it) for all minutes between two instants, of several queues together."""
    first = begin_ms - begin_ms % MINUTE_MS
    grown: dict[int, Counter[str]] = {minute: Counter() for minute in range(first, end_ms, MINUTE_MS)}
    for history in histories:
        marks = [*history.minutes.items(), (end_ms, history.counters)]
        for (minute, before), (_next, after) in pairwise(marks):
            if minute in grown:
                grown[minute].update({name: max(0, after[name] - before.get(name, 0)) for name in after})
    return list(grown.items())


def flow(counted: Mapping[str, int], name: str) -> int:
    """How many went `in`, `out` or `failed` by these counters."""
    return sum(counted.get(counter, 0) for counter in FLOWS[name]) if counted else 0


def waiting(queues: Iterable[Queue]) -> int:
    """Jobs that are not finished: scheduled, ready and reserved."""
    return sum(queue.count_in(state) for queue in queues for state in WAITING)


def depths(minutes: Sequence[tuple[int, Mapping[str, int]]], waiting_now: int) -> list[tuple[int, int]]:
    """(minute, jobs not finished as it began), counted back from now.

    Deletes, purges and restores count as if of unfinished jobs: the counters do not tell from where.
    """
    depth, found = waiting_now, []
    for minute, grown in reversed(minutes):
        if grown:
            depth -= sum(grown.get(name, 0) for name in _ARRIVE) - sum(grown.get(name, 0) for name in _LEAVE)
            depth = max(0, depth)
        found.append((minute, depth))
    return found[::-1]
