"""Rates: what went in and out of each queue per second between two looks, and what happened over the last minutes.

Both come from the counters that a system keeps; where it keeps none, from how its places grow and shrink, which tells
the least that must have happened. Also since when its oldest due job could have been dispatched: a score says when a
job is due, and may be of 1970 though the job was put a moment ago; it is due since then only if it was seen so, or the
score is plausible.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from rqtui.model import Count, Lately, Queue, Rate, Ref, State

HISTORY = 60  # looks whose throughput is remembered for the sparkline
WINDOW_MS = 300_000  # what "lately" is: long enough for ten attempts of a slow queue, short enough to see a fix work
MARK_MS = 15_000  # between two marks of what happened until then
USUAL_MS = 60_000  # between two ages that are remembered, to know what is usual
USUAL = 60  # of them
LEAST_USUAL = 10  # ages from which on something is usual
PLAUSIBLE_MS = 366 * 86_400_000
NO_RATE = Rate()  # of a queue that was looked at once
_WAITING = (State.SCHEDULED, State.READY, State.RESERVED)


class Sums(NamedTuple):
    """What had happened in a queue, ever or since it was first seen; `ready` None: not known."""

    came: int = 0
    done: int = 0
    failed: int = 0
    died: int = 0
    ready: int | None = None


class Mark(NamedTuple):
    """What had happened until an instant."""

    at_ms: int
    sums: Sums = Sums()


@dataclass(slots=True)
class _Look:
    """When a queue was last looked at (seconds by `time.monotonic`), what it was then, and its throughput.

    Tuples, the oldest first: there may be ten thousand queues, and those at rest share theirs.
    """

    at_s: float
    seen_ms: int  # the server's clock
    counts: tuple[Count, ...]
    counters: Mapping[str, int]
    sums: Sums
    marks: tuple[Mark, ...]
    history: tuple[float, ...] = ()
    ages: tuple[int, ...] = ()
    aged_ms: int = 0  # when the last age was remembered
    usual_ms: int | None = None  # what they tell
    next_ms: int = 0  # when there is something to remember, or to forget
    head_ms: int | None = None  # when the oldest due job was due, by its score
    due_since_ms: int | None = None
    overdue: int = 0
    owed: tuple[tuple[int, int], ...] = ()  # (when, how many) left and were not heard to end


class Rates:
    """Remembers the last look at each queue, and marks of what happened before it."""

    def __init__(self) -> None:
        self._looks: dict[Ref, _Look] = {}
        self._at_rest = NO_RATE  # the rate that was last told of a queue at rest: others are the same

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._looks

    def since_last(self, ref: Ref, queue: Queue, now_s: float) -> Rate:
        """What happened per second since the look before this one; the same object for queues that rest equally."""
        last = self._looks.get(ref)
        if last is None:
            self._looks[ref] = _first(queue, now_s)
            return NO_RATE
        due_since_ms = _due_since_ms(last, queue) if queue.overdue or last.overdue else None
        seconds, before = now_s - last.at_s, last.sums
        if (queue.counts, queue.counters) != (last.counts, last.counters):  # mostly they are the same objects
            last.sums = _next(last, queue)
            last.counts, last.counters = queue.counts, queue.counters
        last.at_s, last.seen_ms, sums = now_s, queue.counted_ms, last.sums
        if queue.counted_ms >= last.next_ms:
            _remember(last, queue)
        if seconds <= 0:
            return Rate(history=last.history, due_since_ms=due_since_ms, lately=_lately(last))
        if sums is before and sums == last.marks[0].sums:
            last.history = _with_nothing(last.history)
            return self._resting(last, due_since_ms)
        out_s = max(0, sums.done - before.done) / seconds
        in_s, failed_s = max(0, sums.came - before.came) / seconds, max(0, sums.failed - before.failed) / seconds
        last.history = (*last.history, out_s)[-HISTORY:] if out_s else _with_nothing(last.history)
        return Rate(in_s, out_s, failed_s, last.history, due_since_ms, _lately(last))

    def _resting(self, last: _Look, due_since_ms: int | None) -> Rate:
        """The rate of a queue in which nothing happened lately: but for these three it is that of all others."""
        made, ms = self._at_rest, _lately_ms(last)
        if made.lately.ms != ms or made.history is not last.history or made.due_since_ms != due_since_ms:
            made = self._at_rest = Rate(history=last.history, due_since_ms=due_since_ms, lately=Lately(ms))
        return made

    def remember(self, ref: Ref, mark: Mark) -> Lately:
        """Takes note of what had happened until an instant before the first look; what happened lately, with that."""
        last = self._looks[ref]
        if mark.at_ms < last.marks[0].at_ms:
            last.marks = (mark, *last.marks)
            last.next_ms = 0
        return _lately(last)

    def usual_ms(self, ref: Ref) -> int | None:
        """How long its oldest ready job usually waits, as seen before the last minutes; None: not seen for long."""
        last = self._looks.get(ref)
        return last.usual_ms if last else None


_NOTHING = tuple((0.0,) * looks for looks in range(HISTORY + 1))  # what queues at rest did in as many looks


def _with_nothing(history: tuple[float, ...]) -> tuple[float, ...]:
    """One more look at which nothing had been done."""
    number = len(history)
    if history is _NOTHING[number]:
        return _NOTHING[min(number + 1, HISTORY)]
    longer = (*history, 0.0)[-HISTORY:]
    return longer if any(longer) else _NOTHING[len(longer)]


def _first(queue: Queue, now_s: float) -> _Look:
    head_ms = _head_ms(queue)
    is_known = head_ms is not None and is_plausible(head_ms, queue.counted_ms)
    since_ms = head_ms if head_ms is None or is_known else queue.counted_ms
    sums = _next(None, queue)
    first = _Look(now_s, queue.counted_ms, queue.counts, queue.counters, sums, (Mark(queue.counted_ms, sums),))
    first.head_ms, first.due_since_ms, first.overdue = head_ms, since_ms, queue.overdue
    return first


def _next(last: _Look | None, queue: Queue) -> Sums:
    """What has happened until this look: ever, where counters are kept, else since the first look.

    Who died failed, where it is known who did not: else every attempt that is seen to end would be a failure.
    """
    before = last.sums if last else Sums()
    counters = queue.counters
    is_told = {"in", "out", "failed", "dead"} <= counters.keys()
    come, done, dead = _grown(last, queue) if last and not is_told else (0, 0, 0)
    tells_done = "out" in counters or _keeps_done(queue)
    return Sums(
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

    def growth(*states: State, failures: bool = False) -> int:
        return _stood(now.counts, states, failures) - _stood(last.counts, states, failures)

    waiting, dead = growth(*_WAITING), growth(State.DEAD)
    keeps_done = _keeps_done(now)
    done = max(0, growth(State.DONE)) if keeps_done else max(0, -waiting - max(0, dead))
    came = waiting + max(0, dead) + (done if keeps_done else 0)
    if any(count.heard for count in now.counts) and (keeps_done or came < 0):
        owed = [*last.owed]
        came = _settled(owed, came, now.counted_ms)
        last.owed = tuple(owed)
    return max(0, came), done, max(0, growth(State.DEAD, failures=True))


def _stood(counts: Sequence[Count], states: Collection[State], failures: bool) -> int:
    """How many jobs stand in the places of some states (`failures`: that failed), each where it was first counted: one
    that is given to another queue later did not end there then."""
    return sum(
        count.count - (count.heard.given if count.heard else 0)
        for count in counts
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
    marks, now_ms = last.marks, last.seen_ms
    if now_ms - marks[-1].at_ms >= MARK_MS:
        if len(marks) > 1 and marks[-1].sums == last.sums == marks[-2].sums:
            marks = marks[:-1]  # of a time at rest, its first mark and its last are enough
        marks = (*marks, Mark(now_ms, last.sums))
    while len(marks) > 1 and marks[1].at_ms <= now_ms - WINDOW_MS:
        marks = marks[1:]
    last.marks = marks
    if now_ms - last.aged_ms >= USUAL_MS:
        last.aged_ms = now_ms
        last.ages = (*last.ages, queue.oldest_ready_ms or 0)[-USUAL:]
        before = last.ages[: -WINDOW_MS // USUAL_MS]
        last.usual_ms = round(median(before)) if len(before) >= LEAST_USUAL else None
    forget_ms = marks[1].at_ms + WINDOW_MS if len(marks) > 1 else math.inf
    last.next_ms = int(min(marks[-1].at_ms + MARK_MS, last.aged_ms + USUAL_MS, forget_ms))


def _lately_ms(last: _Look) -> int:
    marks = last.marks
    ms = last.seen_ms - marks[0].at_ms
    if len(marks) > 1 and marks[1].sums == marks[0].sums:  # at rest from one to the other
        ms = min(ms, WINDOW_MS)
    return ms


def _lately(last: _Look) -> Lately:
    began, now, ms = last.marks[0].sums, last.sums, _lately_ms(last)
    if began == now:
        return Lately(ms)
    came, done, failed, died = (max(0, after - before) for before, after in zip(began[:4], now[:4], strict=True))
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
    head_ms, before = _head_ms(queue), last.counters
    if head_ms is None:
        last.due_since_ms = None
    else:
        was_moved = queue.overdue < last.overdue or _dispatched(queue.counters) > _dispatched(before)
        if last.due_since_ms is None or head_ms != last.head_ms or was_moved:
            last.due_since_ms = max(head_ms, last.seen_ms)
    last.head_ms, last.overdue = head_ms, queue.overdue
    return last.due_since_ms


def _dispatched(counters: Mapping[str, int]) -> int:
    return counters.get("dispatched", 0)
