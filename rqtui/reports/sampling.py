"""Bounded samples of places, a page per round trip: what a report counts where a place may hold a million jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from rqtui.engine.engine import Engine
from rqtui.errors import Unknown, Unreachable, reason
from rqtui.layout.layout import queue_ask
from rqtui.model import Page, Place, Queue, Ref, State

log = logging.getLogger("rqtui.reports")

STEP = 500  # jobs of a round trip: a few milliseconds of the server
AT_ONCE = 200  # queues counted in a round trip
MOST_QUEUES = 50  # of a report about all queues; those with the most to tell
LEAST = 100  # jobs of a place that a report looks at, however many places there are


@dataclass(frozen=True, slots=True)
class Part:
    """A place to look at: how many jobs of it, and how many stand there."""

    ref: Ref
    place: str
    state: State
    most: int
    count: int


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

    def pages(self, engine: Engine, part: Part, *, is_newest: bool = False) -> Iterator[Page]:
        """The jobs of a part, as `pages` has them, counted here."""
        steps = pages(engine, part, is_newest=is_newest)
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
            self.looked += len(page.jobs)
            self.problems += [page.error] if page.error else []
            yield page

    def size(self) -> Size:
        """What was looked at so far."""
        of = sum(part.count for part in self.parts)
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
    return replace(queue, counts=tuple(count for count in queue.counts if count.place not in left_out))


def parts(queues: Sequence[Queue], states: Sequence[State], per_place: int, in_all: int) -> tuple[Part, ...]:
    """The places in those states where jobs stand, and how many to look at: up to `per_place`, about `in_all` together.

    Of many queues those where the most jobs stand in these states.
    """
    ranked = sorted(queues, key=lambda queue: -sum(queue.count_in(state) for state in states))
    places = [
        (Ref(queue.layout, queue.name), count)
        for queue in ranked[:MOST_QUEUES]
        for count in queue.counts
        if count.state in states and count.count
    ]
    most = min(per_place, max(LEAST, in_all // max(1, len(places))))
    return tuple(Part(ref, count.place, count.state, most, count.count) for ref, count in places)


def pages(engine: Engine, part: Part, *, is_newest: bool = False) -> Iterator[Page]:
    """The jobs of a part from its head, or with `is_newest` from its end, without bodies; a round trip per page."""
    page = engine.page(part.ref, part.place, 0, min(STEP, part.most))
    if is_newest and page.total > part.most:
        page = engine.page(part.ref, part.place, page.total - part.most, min(STEP, part.most))
    end = page.offset + part.most
    while True:
        yield page
        if page.error or not page.jobs or page.next is None or page.next >= end:
            return
        page = engine.page(part.ref, part.place, page.next, min(STEP, end - page.next))
