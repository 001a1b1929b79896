"""Rates: what went in and out of each queue per second between two looks, from its cumulative counters.

Also since when its oldest due job could have been dispatched: a score says when a job is due, and may be of 1970 though
the job was put a moment ago; it is due since then only if it was seen so, or the score is plausible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from rqtui.model import Queue, Rate, Ref

HISTORY = 60  # looks whose throughput is remembered for the sparkline
PLAUSIBLE_MS = 366 * 86_400_000
NO_RATE = Rate()  # of a queue that was looked at once


@dataclass(slots=True)
class _Look:
    """When a queue was last looked at (seconds by `time.monotonic`), what its counters were, and its throughput."""

    at_s: float
    counters: Mapping[str, int]
    history: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    head_ms: int | None = None  # when the oldest due job was due, by its score
    due_since_ms: int | None = None
    seen_ms: int = 0  # the server's clock
    overdue: int = 0


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
            head_ms = _head_ms(queue)
            is_known = head_ms is not None and is_plausible(head_ms, queue.counted_ms)
            since_ms = head_ms if head_ms is None or is_known else queue.counted_ms
            first = _Look(now_s, queue.counters, head_ms=head_ms, due_since_ms=since_ms, seen_ms=queue.counted_ms)
            first.overdue = queue.overdue
            self._looks[ref] = first
            return NO_RATE
        due_since_ms = _due_since_ms(last, queue)
        seconds, old, new = now_s - last.at_s, last.counters, queue.counters
        last.at_s, last.counters = now_s, new
        if seconds <= 0:
            return Rate(history=tuple(last.history), due_since_ms=due_since_ms)
        in_s = out_s = failed_s = 0.0
        if new is not old:
            in_s, out_s, failed_s = (
                max(0, new.get(name, 0) - old.get(name, 0)) / seconds for name in ("in", "out", "failed")
            )
        last.history.append(out_s)
        return Rate(in_s, out_s, failed_s, tuple(last.history), due_since_ms)


def is_plausible(head_ms: int, now_ms: int) -> bool:
    """Whether a job may really be due since then; where scores are no instants of ours, they lie decades away."""
    return now_ms - head_ms < PLAUSIBLE_MS


def _head_ms(queue: Queue) -> int | None:
    """When the oldest due job was due, by its score; None where none is."""
    return queue.counted_ms + queue.next_due_ms if queue.overdue and queue.next_due_ms is not None else None


def _due_since_ms(last: _Look, queue: Queue) -> int | None:
    """Since when the oldest due job could have been dispatched; remembers the look.

    A job that came to the head since the last look could have been since then at the latest: either it came to be due,
    or it was put so, or those before it were dispatched.
    """
    head_ms = _head_ms(queue)
    if head_ms is None:
        last.due_since_ms = None
    else:
        was_moved = queue.overdue < last.overdue or queue.counters.get("dispatched", 0) > last.counters.get(
            "dispatched", 0
        )
        if last.due_since_ms is None or head_ms != last.head_ms or was_moved:
            last.due_since_ms = max(head_ms, last.seen_ms)
    last.head_ms, last.seen_ms, last.overdue = head_ms, queue.counted_ms, queue.overdue
    return last.due_since_ms
