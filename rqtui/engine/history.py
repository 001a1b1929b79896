"""Compute how many jobs entered and left a queue per minute, from the counters that the scripts of a system store.

The script `stats` of the native queue returns the counters now and at the start of each minute in which something
happened. The difference of two is what happened in a minute; a missing minute had no activity. The script `metrics` of
BullMQ returns the same from the metrics that its workers keep. The metrics view draws this, `rqtui stats` prints it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import dropwhile, pairwise
from typing import NamedTuple

from rqtui.model import Queue, Ref, State
from rqtui.system_base.system import Replies, Request, System

MINUTE_MS = 60_000
MAX_MINUTES = 1440  # minutes that a queue stores
DAY_MS, MAX_DAYS = 86_400_000, 30  # days that are read of a system that counts by the day
UNFINISHED_STATES = (State.SCHEDULED, State.READY, State.RESERVED)
FLOWS: Mapping[str, tuple[str, ...]] = {  # by name of a flow: the counters that are added up
    "in": ("enqueued",),
    "out": ("acked", "pulled", "completed"),
    "failed": ("rejected", "expired", "failed"),
}
METRICS_COUNTERS = frozenset({"completed", "failed"})  # BullMQ counts each job once, when it ended
_NUMBER = re.compile(r"[0-9]{1,17}")
_ARRIVAL_COUNTERS = ("enqueued", "requeued", "restored", "moved_in")
_DEPARTURE_COUNTERS = ("acked", "pulled", "dead", "deleted", "purged", "moved_out")


@dataclass(frozen=True, slots=True)
class History:
    """The cumulative counters of one queue: now (all of them), and at the start of each minute (ms) with activity.

    `begin_ms` is the start of the first minute that the queue counted, as far as is known.
    """

    ref: Ref
    counters: Mapping[str, int] = field(default_factory=dict)
    minutes: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    begin_ms: int = 0

    @property
    def flows(self) -> tuple[str, ...]:
        """The flows (`in`, `out`, `failed`) for which the queue has counters; the others are unknown."""
        return tuple(name for name, counters in FLOWS.items() if any(counter in self.counters for counter in counters))

    def merge(self, newer: History) -> History:
        """Return a newer history of the same queue with the minutes of this one added, one day at most."""
        minutes = {**self.minutes, **newer.minutes}
        kept = sorted(minutes)[-MAX_MINUTES:]
        begins_ms = [history.begin_ms for history in (self, newer) if history.counters]
        return replace(newer, minutes={minute: minutes[minute] for minute in kept}, begin_ms=min(begins_ms, default=0))


class Day(NamedTuple):
    """The runs of one day (UTC) in all queues of a system; `processed` includes the failed ones."""

    date: str
    processed: int
    failed: int

    @property
    def begin_ms(self) -> int:
        """The start of the day in ms."""
        return round(datetime.fromisoformat(f"{self.date}T00:00Z").timestamp() * 1000)


def has_minute_counters(system: System) -> bool:
    """Return whether the system itself counts all that happens in its queues, minute by minute."""
    return "stats" in system.scripts


def has_history(system: System) -> bool:
    """Return whether a queue of the system can have counters per minute, for all of its flows or for some."""
    return has_minute_counters(system) or "metrics" in system.scripts


def list_common_flows(histories: Iterable[History]) -> tuple[str, ...]:
    """Return the flows (`in`, `out`, `failed`) that every queue with counters counts."""
    counted = [history.flows for history in histories if history.flows]
    return tuple(name for name in FLOWS if counted and all(name in flows for flows in counted))


def list_counter_names(system: System) -> frozenset[str]:
    """Return the names of the counters that a system's scripts store. Other fields of the same hash are settings."""
    return frozenset().union(*(script.counters for script in system.scripts.values()))


def has_daily_counters(system: System) -> bool:
    """Return whether the system counts the runs of all of its queues day by day, as Sidekiq does."""
    return "days" in system.scripts


def build_days_request(system: System, queue: str, now_ms: int, days: int = MAX_DAYS) -> Request[tuple[Day, ...]]:
    """Build the request for the runs of the last `days` days up to now, of all queues of the system of `queue`.

    The result has every day from the first one with runs on, oldest first.
    """
    dates = [format_date(now_ms - back * DAY_MS) for back in range(days)][::-1]
    call = system.build_call("days", queue, {}, [{"date": date} for date in dates])

    def parse_days(replies: Replies) -> tuple[Day, ...]:
        reply = replies[0]
        if isinstance(reply, Exception):
            raise reply
        counts = {date: (processed, failed) for date, processed, failed in reply.rows}
        counted = dropwhile(lambda date: date not in counts, dates)
        return tuple(Day(date, *counts.get(date, (0, 0))) for date in counted)

    return Request((call,), parse_days)


def format_date(at_ms: float) -> str:
    """Format the day (UTC) of a time as 2026-11-25."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")


def build_history_request(system: System, queue: str, minutes: int = MAX_MINUTES) -> Request[History]:
    """Build the request for the counters now and in the last `minutes` minutes with activity."""
    script, names = (
        ("stats", list_counter_names(system)) if has_minute_counters(system) else ("metrics", METRICS_COUNTERS)
    )
    call = system.build_call(script, queue, {"limit": min(MAX_MINUTES, minutes)})
    return Request((call,), lambda replies: _parse_history(Ref(system.name, queue), names, replies))


def _parse_history(ref: Ref, names: frozenset[str], replies: Replies) -> History:
    """Parse the reply of the script `stats` to a history. Raises the error that Redis replied."""
    [reply] = replies
    if isinstance(reply, Exception):
        raise reply
    rows = {minute_ms: _parse_minute_counters(fields, names) for minute_ms, fields in reply.rows}
    if not rows:
        return History(ref)
    now = dict.fromkeys(sorted(names), 0) | rows.pop(0, {})
    return History(ref, now, dict(sorted(rows.items())), reply.values.get("begin_ms") or 0)


def _parse_minute_counters(fields: str, counter_names: frozenset[str]) -> dict[str, int]:
    """Parse the counters of one minute, `acked 3 enqueued 5`. Unknown names and invalid values are left out."""
    words = fields.split(" ")
    pairs = zip(words[::2], words[1::2], strict=False)
    return {name: int(value) for name, value in pairs if name in counter_names and _NUMBER.fullmatch(value)}


def compute_growth_per_minute(
    histories: Iterable[History], begin_ms: int, end_ms: int
) -> list[tuple[int, Counter[str]]]:
    """Return (minute in ms, growth of each counter) for all minutes between two times, summed over several queues.

    Minutes before the first one that any of the queues counted are left out.
    """
    histories = [*histories]
    first_counted = min((history.begin_ms for history in histories), default=0)
    first_minute = max(begin_ms - begin_ms % MINUTE_MS, first_counted)
    growth_by_minute: dict[int, Counter[str]] = {minute: Counter() for minute in range(first_minute, end_ms, MINUTE_MS)}
    for history in histories:
        readings = [*history.minutes.items(), (end_ms, history.counters)]
        for (minute, previous), (_next, following) in pairwise(readings):
            if minute in growth_by_minute:
                growth_by_minute[minute].update(
                    {name: max(0, following[name] - previous.get(name, 0)) for name in following}
                )
    return list(growth_by_minute.items())


def sum_flow_counters(counters: Mapping[str, int], flow: str) -> int:
    """Return the sum of the counters of a flow: `in` (enqueued), `out` (completed) or `failed` (rejected, expired)."""
    return sum(counters.get(counter, 0) for counter in FLOWS[flow]) if counters else 0


def count_unfinished(queues: Iterable[Queue]) -> int:
    """Count the jobs of some queues that are scheduled, ready or reserved."""
    return sum(queue.count_in_state(state) for queue in queues for state in UNFINISHED_STATES)


def compute_unfinished_per_minute(
    minutes: Sequence[tuple[int, Mapping[str, int]]], waiting_now: int
) -> list[tuple[int, int]]:
    """Return (minute in ms, unfinished jobs at its start), computed backwards from the current number of such jobs.

    Deletes, purges and restores count as if all were of unfinished jobs, because the counters do not record the place.
    """
    unfinished, result = waiting_now, []
    for minute, growth in reversed(minutes):
        if growth:
            unfinished -= sum(growth.get(name, 0) for name in _ARRIVAL_COUNTERS) - sum(
                growth.get(name, 0) for name in _DEPARTURE_COUNTERS
            )
            unfinished = max(0, unfinished)
        result.append((minute, unfinished))
    return result[::-1]
