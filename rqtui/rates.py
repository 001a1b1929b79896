"""Rates: what went in and out of each queue per second between two looks, from its cumulative counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from rqtui.model import Queue, Rate, Ref

HISTORY = 60  # looks whose throughput is remembered for the sparkline
NO_RATE = Rate()  # of a queue that was looked at once


@dataclass(slots=True)
class _Look:
    """When a queue was last looked at (seconds by `time.monotonic`), what its counters were, and its throughput."""

    at_s: float
    counters: Mapping[str, int]
    history: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))


class Rates:
    """Remembers the last look at each queue."""

    def __init__(self) -> None:
        self._looks: dict[Ref, _Look] = {}

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._looks

    def since_last(self, ref: Ref, queue: Queue, now_s: float) -> Rate:
        """What happened per second since the look before this one."""
        last = self._looks.get(ref)
        if last is None:
            self._looks[ref] = _Look(now_s, queue.counters)
            return NO_RATE
        seconds, old, new = now_s - last.at_s, last.counters, queue.counters
        last.at_s, last.counters = now_s, new
        if seconds <= 0:
            return Rate(history=tuple(last.history))
        in_s = out_s = failed_s = 0.0
        if new is not old:
            in_s, out_s, failed_s = (
                max(0, new.get(name, 0) - old.get(name, 0)) / seconds for name in ("in", "out", "failed")
            )
        last.history.append(out_s)
        return Rate(in_s, out_s, failed_s, tuple(last.history))
