"""Rates: what went in and out of each queue per second between two looks, and what happened over the last minutes.

Both come from the counters that a system keeps; where it keeps none, from how its places grow and shrink, which tells
the least that must have happened. Also since when its oldest due job could have been dispatched: a score says when a
job is due, and may be of 1970 though the job was put a moment ago; it is due since then only if it was seen so, or the
score is plausible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from rqtui.model import Lately, Queue, Rate, Ref, State

HISTORY = 60  # looks whose throughput is remembered for the sparkline
WINDOW_MS = 300_000  # what "lately" is: long enough for ten attempts of a slow queue, short enough to see a fix work
MARK_MS = 15_000  # between two marks of what happened until then
USUAL_MS = 60_000  # between two ages that are remembered, to know what is usual
USUAL = 60  # of them
LEAST_USUAL = 10  # ages from which on something is usual
PLAUSIBLE_MS = 366 * 86_400_000
NO_RATE = Rate()  # of a queue that was looked at once
_WAITING = (State.SCHEDULED, State.READY, State.RESERVED)


class Mark(NamedTuple):
    """What had happened in a queue until an instant, ever or since it was first seen; `ready` None: not known."""

    at_ms: int
    came: int = 0
    done: int = 0
    failed: int = 0
    died: int = 0
    ready: int | None = None


@dataclass(slots=True)
class _Look:
    """When a queue was last looked at (seconds by `time.monotonic`), what it was then, and its throughput.

    Lists, the oldest first: there may be ten thousand queues, and an empty deque takes 700 bytes.
    """

    at_s: float
    queue: Queue
    now: Mark
    marks: list[Mark]
    history: list[float] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    aged_ms: int = 0  # when the last age was remembered
    head_ms: int | None = None  # when the oldest due job was due, by its score
    due_since_ms: int | None = None
    seen_ms: int = 0  # the server's clock
    overdue: int = 0
    owed: list[tuple[int, int]] = field(default_factory=list)  # (when, how many) left and were not heard to end


class Rates:
    """Remembers the last look at each queue, and marks of what happened before it."""

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
            mark = _next(None, queue)
            first = _Look(now_s, queue, mark, [mark], head_ms=head_ms, due_since_ms=since_ms)
            first.seen_ms, first.overdue = queue.counted_ms, queue.overdue
            self._looks[ref] = first
            return NO_RATE
        due_since_ms = _due_since_ms(last, queue)
        seconds, before, now = now_s - last.at_s, last.now, _next(last, queue)
        last.at_s, last.queue, last.now = now_s, queue, now
        _remember(last, queue)
        lately = _lately(last)
        if seconds <= 0:
            return Rate(history=tuple(last.history), due_since_ms=due_since_ms, lately=lately)
        out_s = max(0, now.done - before.done) / seconds
        in_s, failed_s = max(0, now.came - before.came) / seconds, max(0, now.failed - before.failed) / seconds
        last.history.append(out_s)
        del last.history[:-HISTORY]
        return Rate(in_s, out_s, failed_s, tuple(last.history), due_since_ms, lately)

    def remember(self, ref: Ref, mark: Mark) -> Lately:
        """Takes note of what had happened until an instant before the first look; what happened lately, with that."""
        last = self._looks[ref]
        if mark.at_ms < last.marks[0].at_ms:
            last.marks.insert(0, mark)
        return _lately(last)

    def usual_ms(self, ref: Ref) -> int | None:
        """How long its oldest ready job usually waits, as seen before the last minutes; None: not seen for long."""
        last = self._looks.get(ref)
        ages = [*last.ages][: -WINDOW_MS // USUAL_MS] if last else []
        return round(median(ages)) if len(ages) >= LEAST_USUAL else None


def _next(last: _Look | None, queue: Queue) -> Mark:
    """What has happened until this look: ever, where counters are kept, else since the first look.

    Who died failed, where it is known who did not: else every attempt that is seen to end would be a failure.
    """
    before = last.now if last else Mark(0)
    counters = queue.counters
    if last and queue.counts == last.queue.counts and counters == last.queue.counters:
        return Mark(queue.counted_ms, *before[1:])
    is_told = {"in", "out", "failed", "dead"} <= counters.keys()
    come, done, dead = _grown(last, queue) if last and not is_told else (0, 0, 0)
    tells_done = "out" in counters or _keeps_done(queue)
    return Mark(
        queue.counted_ms,
        counters.get("in", before.came + come),
        counters.get("out", before.done + done),
        counters.get("failed", before.failed + (dead if tells_done else 0)),
        counters.get("dead", before.died + dead),
        queue.count_in(State.READY),
    )


def _grown(last: _Look, now: Queue) -> tuple[int, int, int]:
    """How many came, were done and died at least, by how many jobs stand in the places.

    Where no place tells what is done, jobs that are nowhere any more were done. Where that is heard, a job is nowhere
    for a while between the last place with a key and the end that is heard: one that ends then did not come now.
    """
    before = last.queue

    def growth(*states: State, failures: bool = False) -> int:
        return _stood(now, states, failures) - _stood(before, states, failures)

    waiting, dead = growth(*_WAITING), growth(State.DEAD)
    keeps_done = _keeps_done(now)
    done = max(0, growth(State.DONE)) if keeps_done else max(0, -waiting - max(0, dead))
    came = waiting + max(0, dead) + (done if keeps_done else 0)
    if any(count.heard for count in now.counts) and (keeps_done or came < 0):
        came = _settled(last.owed, came, now.counted_ms)
    return max(0, came), done, max(0, growth(State.DEAD, failures=True))


def _stood(queue: Queue, states: Collection[State], failures: bool) -> int:
    """How many jobs stand in the places of some states (`failures`: that failed), each where it was first counted: one
    that is given to another queue later did not end there then."""
    return sum(
        count.count - (count.heard.given if count.heard else 0)
        for count in queue.counts
        if count.state in states and (count.failures or not failures)
    )


def _settled(owed: list[tuple[int, int]], came: int, now_ms: int) -> int:
    """How many came, without those that ended and had left before; negative: so many left, which is remembered."""
    while owed and owed[0][0] < now_ms - WINDOW_MS:
        owed.pop(0)
    if came < 0:
        owed.append((now_ms, -came))
    while owed and came > 0:
        at_ms, number = owed.pop(0)
        if number > came:
            owed.insert(0, (at_ms, number - came))
        came -= min(came, number)
    return came


def _keeps_done(queue: Queue) -> bool:
    """Whether some place tells what was done; one without a key does once anything was heard there."""
    return any(count.state is State.DONE and (count.heard is None or count.of) for count in queue.counts)


def _remember(last: _Look, queue: Queue) -> None:
    """Marks what has happened, and the age of the oldest ready job, once in a while."""
    marks, now = last.marks, last.now
    if now.at_ms - marks[-1].at_ms >= MARK_MS:
        if len(marks) > 1 and marks[-1][1:] == now[1:] == marks[-2][1:]:
            marks.pop()  # of a time at rest, its first mark and its last are enough
        marks.append(now)
    while len(marks) > 1 and marks[1].at_ms <= now.at_ms - WINDOW_MS:
        del marks[0]
    if now.at_ms - last.aged_ms >= USUAL_MS:
        last.aged_ms = now.at_ms
        last.ages.append(queue.oldest_ready_ms or 0)
        del last.ages[:-USUAL]


def _lately(last: _Look) -> Lately:
    began, now = last.marks[0], last.now
    ms = now.at_ms - began.at_ms
    if len(last.marks) > 1 and last.marks[1][1:] == began[1:]:  # at rest from one to the other
        ms = min(ms, WINDOW_MS)
    if began[1:] == now[1:]:
        return Lately(ms)
    came, done, failed, died = (max(0, after - before) for before, after in zip(began[1:5], now[1:5], strict=True))
    grew = came - done - died if began.ready is None else (now.ready or 0) - began.ready
    return Lately(ms, came, done, failed, died, grew)


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
    head_ms, before = _head_ms(queue), last.queue.counters
    if head_ms is None:
        last.due_since_ms = None
    else:
        was_moved = queue.overdue < last.overdue or _dispatched(queue.counters) > _dispatched(before)
        if last.due_since_ms is None or head_ms != last.head_ms or was_moved:
            last.due_since_ms = max(head_ms, last.seen_ms)
    last.head_ms, last.seen_ms, last.overdue = head_ms, queue.counted_ms, queue.overdue
    return last.due_since_ms


def _dispatched(counters: Mapping[str, int]) -> int:
    return counters.get("dispatched", 0)
