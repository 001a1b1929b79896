"""Keep published events and results of tasks until it is known whether the tasks belong to this database.

Redis Pub/Sub ignores database numbers, and the channel of a result has none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_UNPLACED = 50_000  # jobs, as many as the Pub/Sub event cache keeps
MAX_UNPLACED_BYTES = 16 * 1024 * 1024  # of their events and results


@dataclass(slots=True)
class _KeptEvents:
    """Events and results of one job that wait to be recorded, in order, and their approximate size in bytes."""

    takes: list[Callable[[], None]] = field(default_factory=list)
    bytes: int = 0


class Evidence(NamedTuple):
    """The result key which proves, if it exists, that a task belongs to this database.

    If `is_event`, the task also belongs to this database if no other database of the server has a key.
    """

    key: bytes
    is_event: bool


class UnplacedEvents:
    """A bounded store of events and results of tasks of which it is unknown whether they belong to this database.

    `unchecked` maps task ids to evidence that was not looked up yet.
    """

    def __init__(self, max_jobs: int = MAX_UNPLACED, max_bytes: int = MAX_UNPLACED_BYTES) -> None:
        self._max_jobs, self._max_bytes = max_jobs, max_bytes
        self._kept_events: OrderedDict[bytes, _KeptEvents] = OrderedDict()
        self._bytes = self._dropped_jobs = 0
        self.unchecked: dict[bytes, Evidence] = {}

    def __len__(self) -> int:
        """Return the number of tasks that may belong to this or another database, dropped ones included."""
        return len(self._kept_events) + self._dropped_jobs

    def keep_call(self, id: bytes, record_one: Callable[[], None], size: int, evidence: Evidence | None) -> None:
        """Keep a call that records an event or a result of a task. The oldest tasks above the limits are dropped."""
        kept = self._kept_events.setdefault(id, _KeptEvents())
        kept.takes.append(record_one)
        kept.bytes += size
        self._bytes += size
        self._kept_events.move_to_end(id)
        if evidence is not None:
            self.unchecked[id] = evidence
        while len(self._kept_events) > self._max_jobs or self._bytes > self._max_bytes:
            self.pop_calls(next(iter(self._kept_events)))
            self._dropped_jobs += 1

    def pop_calls(self, id: bytes) -> Sequence[Callable[[], None]]:
        """Remove and return the calls that were kept for a task."""
        self.unchecked.pop(id, None)
        kept = self._kept_events.pop(id, None)
        if kept is None:
            return ()
        self._bytes -= kept.bytes
        return kept.takes
