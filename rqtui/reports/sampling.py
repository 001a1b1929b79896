"""Bounded samples of places, a page per round trip: what a report counts where a place may hold a million jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rqtui.engine.engine import Engine
from rqtui.errors import Unknown, Unreachable, reason
from rqtui.layout.layout import queue_ask
from rqtui.model import Count, Page, Place, Queue, Ref, State

log = logging.getLogger("rqtui.reports")

STEP = 500  # jobs of a round trip: a few milliseconds of the server
AT_ONCE = 200  # queues counted in a round trip
MOST_QUEUES = 50  # of a report about all queues; those with the most to tell
LEAST = 100  # jobs of a place that a report looks at, however many places there are
PASSED = 100_000  # jobs of all queues in shared places that a report goes through: 0.5 s of the server


@dataclass(frozen=True, slots=True)
class Part:
    """A place to look at: how many jobs of it, and how many stand there.

    Of a shared place `of` are the jobs of all queues, of which `passed` are gone through; 0: it is not shared.
    """

    ref: Ref
    place: str
    state: State
    most: int
    count: int
    of: int = 0
    passed: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """What a report was made from: `looked` jobs of `of`, at an instant; `problems` are places it could not read."""

    taken_ms: int
    looked: int = 0
    of: int = 0
    queues: int = 0
    of_queues: int = 0
    problems: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return self.looked >= self.of and self.queues == self.of_queues and not self.problems


@dataclass(slots=True)
class Survey:
    """The places that a report is made from, and how far it is: `looked` jobs of them, `problems` in words."""

    parts: tuple[Part, ...]
    taken_ms: int
    of_queues: int
    problems: list[str]
    looked: int = 0
    counted: dict[Part, int] = field(default_factory=dict)  # of shared places, what a walk found out

    def pages(self, engine: Engine, part: Part, *, is_newest: bool = False) -> Iterator[Page]:
        """The jobs of a part, as `pages` has them, counted here."""
        steps = pages(engine, part, is_newest=is_newest)
        found, passed = 0, 0
        while True:
            try:
                page = next(steps, None)
            except (Unreachable, Unknown):
                raise
            except Exception as error:  # of this place alone: the others are looked at
                self.problems.append(f"{part.ref}: {reason(error, log)}")
                return
            if page is None:
                return
            found, passed = found + len(page.jobs), passed + page.passed
            if part.of:
                self.counted[part] = found if passed >= part.of else max(part.count, found + 1)
            self.looked += len(page.jobs)
            self.problems += [page.error] if page.error else []
            yield page

    def size(self) -> Size:
        """What was looked at so far."""
        of = sum(self.counted.get(part, part.count) for part in self.parts)
        queues = len({part.ref for part in self.parts})
        return Size(self.taken_ms, self.looked, of, queues, self.of_queues, tuple(self.problems))


def survey(
    engine: Engine,
    refs: Sequence[Ref],
    states: Sequence[State],
    per_place: int,
    in_all: int,
    fits: Callable[[Place], bool] = lambda _place: True,
) -> Generator[None, None, Survey]:
    """Counts these queues, a round trip per step; returns the places to look at of those that `fits` lets through."""
    found: list[Queue] = []
    for some in counted(engine, refs, fits):
        found += some
        yield None
    relevant = sum(any(queue.count_in(state) for state in states) for queue in found)
    problems = [queue.error for queue in found if queue.error]
    return Survey(parts(found, states, per_place, in_all), engine.taken_ms(found), relevant, problems)


def silent(engine: Engine, refs: Sequence[Ref], what: str) -> tuple[str, ...]:
    """The systems among these queues that keep nothing of that kind of knowledge (`name`, `error`)."""
    return tuple(sorted({ref.layout for ref in refs if what not in engine.layouts[ref.layout].tells}))


def counted(
    engine: Engine, refs: Sequence[Ref], fits: Callable[[Place], bool] = lambda _place: True
) -> Iterator[list[Queue]]:
    """The counts of these queues, so many per round trip, of the places that `fits` lets through alone.

    Not a snapshot, whose rates are those between two ticks.
    """
    for start in range(0, len(refs), AT_ONCE):
        some = refs[start : start + AT_ONCE]
        queues = engine.ask_all([queue_ask(engine.layouts[ref.layout], ref.queue) for ref in some])
        yield [_narrowed(queue, engine.layouts[queue.layout].places, fits) for queue in queues]


def _narrowed(queue: Queue, places: Sequence[Place], fits: Callable[[Place], bool]) -> Queue:
    left_out = {place.name for place in places if not fits(place)}
    if not left_out:
        return queue
    return queue._replace(counts=tuple(count for count in queue.counts if count.place not in left_out))


def parts(queues: Sequence[Queue], states: Sequence[State], per_place: int, in_all: int) -> tuple[Part, ...]:
    """The places in those states where jobs stand, and how many to look at: up to `per_place`, about `in_all` together.

    Of many queues those where the most jobs stand in these states.
    """
    ranked = sorted(queues, key=lambda queue: -sum(queue.count_in(state) for state in states))
    places = [
        (Ref(queue.layout, queue.name), count)
        for queue in ranked[:MOST_QUEUES]
        for count in queue.counts
        if count.state in states and (count.count or (_of_all(count) and not count.exact))
    ]
    most = min(per_place, max(LEAST, in_all // max(1, len(places))))
    shared = sum(_of_all(count) is not None for _ref, count in places)
    passed = max(2 * STEP, PASSED // max(1, shared))
    return tuple(
        Part(ref, count.place, count.state, most, count.count, of or 0, passed if of else 0)
        for ref, count in places
        for of in [_of_all(count)]
    )


def _of_all(count: Count) -> int | None:
    """The jobs of all queues among which those of this one have to be looked for; None: they stand apart."""
    return count.of if count.heard is None else None


def pages(engine: Engine, part: Part, *, is_newest: bool = False) -> Iterator[Page]:
    """The jobs of a part from its head, or with `is_newest` from its end, without bodies; a round trip per page."""
    if part.of:
        yield from _among_others(engine, part, is_newest=is_newest)
        return
    page = engine.page(part.ref, part.place, 0, min(STEP, part.most))
    is_newest = is_newest and page.heard is None  # of what was heard the newest stand at the head
    if is_newest and page.total > part.most:
        page = engine.page(part.ref, part.place, page.total - part.most, min(STEP, part.most))
    end = page.offset + part.most
    while True:
        yield page
        if page.error or not page.jobs or page.next is None or page.next >= end:
            return
        page = engine.page(part.ref, part.place, page.next, min(STEP, end - page.next))


def _among_others(engine: Engine, part: Part, *, is_newest: bool) -> Iterator[Page]:
    """The jobs of a queue in a part of a shared place; what is behind the last that it goes through is left out."""
    offset = max(0, part.of - part.passed) if is_newest else 0
    found, passed = 0, 0
    for page in engine.walk(part.ref, part.place, STEP, offset=offset):
        jobs = page.jobs[: part.most - found]
        found, passed = found + len(jobs), passed + page.passed
        yield replace(page, jobs=jobs)
        if found >= part.most or passed >= part.passed:
            return
