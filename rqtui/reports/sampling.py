"""Read bounded samples of places, one round trip per step, for reports on places with up to a million jobs.

A sample is the start or the end of a place, or small blocks of jobs at random positions (`yield_random_pages`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rqtui.engine.engine import Engine
from rqtui.errors import Unknown, Unreachable, describe_and_log_error
from rqtui.model import Count, Page, Place, Queue, Ref, State
from rqtui.system_base.system import queue_request

log = logging.getLogger("rqtui.reports")

JOBS_PER_PAGE = 500  # jobs per round trip: a few milliseconds of server time
QUEUES_PER_TRIP = 200  # queues counted in a round trip
MAX_QUEUES = 50  # of a report about all queues; those with the most jobs
MIN_PER_PLACE = 100  # jobs read per place, however many places there are
BLOCK_JOBS = 5  # of a random sample: neighbours in a place were often enqueued together, so blocks are small
BLOCKS_PER_TRIP = 100
MAX_SCANNED = 100_000  # jobs of all queues scanned in shared places: 0.5 s of server time


@dataclass(frozen=True, slots=True)
class Part:
    """A place to sample: at most `most` of its `count` jobs are read.

    For a shared place `of` counts the jobs of all queues, of which `passed` are scanned; 0 for a place that is not
    shared.
    """

    ref: Ref
    place: str
    state: State
    most: int
    count: int
    of: int = 0
    passed: int = 0


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of the sample of a report: `looked` of `of` jobs were read at `taken_ms`.

    `problems` lists places that could not be read.
    """

    taken_ms: int
    looked: int
    of: int
    queues: int
    of_queues: int
    problems: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Return whether a report read every job."""
        return self.looked >= self.of and self.queues == self.of_queues and not self.problems


@dataclass(slots=True)
class Survey:
    """The places that a report samples, and its progress.

    `looked` is the number of jobs read so far, `problems` are sentences about places that could not be read.
    """

    parts: tuple[Part, ...]
    taken_ms: int
    of_queues: int
    problems: list[str]
    looked: int = 0
    counted: dict[Part, int] = field(default_factory=dict)  # jobs counted by a walk of a shared place

    def yield_pages(
        self, engine: Engine, part: Part, *, is_newest: bool = False, body_bytes: int = 0
    ) -> Iterator[Page]:
        """Yield the pages of a place and count their jobs. An error of this place alone becomes a problem."""
        return self._count_pages(part, yield_pages(engine, part, is_newest=is_newest, body_bytes=body_bytes))

    def yield_random_pages(self, engine: Engine, part: Part, *, body_bytes: int = 0) -> Iterator[Page]:
        """Yield a random sample of a place where that is possible, else its first jobs, and count them as read."""
        return self._count_pages(part, yield_random_pages(engine, part, body_bytes=body_bytes))

    def _count_pages(self, part: Part, page_steps: Iterator[Page]) -> Iterator[Page]:
        found_jobs, scanned_entries = 0, 0
        while True:
            try:
                page = next(page_steps, None)
            except (Unreachable, Unknown):
                raise
            except Exception as error:  # one unreadable place must not stop the report
                self.problems.append(f"{part.ref}: {describe_and_log_error(error, log)}")
                return
            if page is None:
                return
            found_jobs, scanned_entries = found_jobs + len(page.jobs), scanned_entries + page.scanned_entries
            if part.of:
                self.counted[part] = found_jobs if scanned_entries >= part.of else max(part.count, found_jobs + 1)
            self.looked += len(page.jobs)
            self.problems += [page.error] if page.error else []
            yield page

    def compute_extent(self) -> Extent:
        """Return the size of the sample that was read so far."""
        total = sum(self.counted.get(part, part.count) for part in self.parts)
        queues = len({part.ref for part in self.parts})
        return Extent(self.taken_ms, self.looked, total, queues, self.of_queues, tuple(self.problems))


def yield_survey(
    engine: Engine,
    refs: Sequence[Ref],
    states: Sequence[State],
    per_place: int,
    max_jobs: int,
    accepts: Callable[[Place], bool] = lambda _place: True,
) -> Generator[None, None, Survey]:
    """Count queues, one round trip per step, and return the survey of their places.

    `accepts` says for each place whether the report samples it.
    """
    queues: list[Queue] = []
    for chunk in yield_queue_counts(engine, refs, accepts):
        queues += chunk
        yield None
    relevant = sum(any(queue.count_in_state(state) for state in states) for queue in queues)
    problems = [queue.error for queue in queues if queue.error]
    return Survey(
        choose_places_to_sample(queues, states, per_place, max_jobs),
        engine.compute_taken_ms(queues),
        relevant,
        problems,
    )


def list_silent_systems(engine: Engine, refs: Sequence[Ref], field: str) -> tuple[str, ...]:
    """Return the systems of these queues whose jobs do not have the given field (`name`, `error`)."""
    return tuple(sorted({ref.system for ref in refs if field not in engine.systems[ref.system].known_fields}))


def yield_queue_counts(
    engine: Engine, refs: Sequence[Ref], accepts: Callable[[Place], bool] = lambda _place: True
) -> Iterator[list[Queue]]:
    """Count the jobs of queues, `QUEUES_PER_TRIP` queues per round trip, in the places that `accepts` returns true for.

    This is no snapshot, because its rates would replace those between two polls.
    """
    for start in range(0, len(refs), QUEUES_PER_TRIP):
        chunk = refs[start : start + QUEUES_PER_TRIP]
        queues = engine.send_requests([queue_request(engine.systems[ref.system], ref.queue) for ref in chunk])
        yield [_keep_fitting_places(queue, engine.systems[queue.system].places, accepts) for queue in queues]


def _keep_fitting_places(queue: Queue, places: Sequence[Place], accepts: Callable[[Place], bool]) -> Queue:
    """Return a queue with the counts of the accepted places only."""
    rejected_places = {place.name for place in places if not accepts(place)}
    if not rejected_places:
        return queue
    return queue._replace(counts=tuple(count for count in queue.counts if count.place not in rejected_places))


def choose_places_to_sample(
    queues: Sequence[Queue], states: Sequence[State], per_place: int, max_jobs: int
) -> tuple[Part, ...]:
    """Return the non-empty places in these states, each with the size of its sample.

    At most `per_place` jobs per place and about `max_jobs` in total are read. If there are too many queues, those with
    the most jobs in these states are chosen.
    """
    ranked = sorted(queues, key=lambda queue: -sum(queue.count_in_state(state) for state in states))
    places = [
        (Ref(queue.system, queue.name), count)
        for queue in ranked[:MAX_QUEUES]
        for count in queue.counts
        if count.state in states and (count.count or (_find_shared_total(count) and not count.is_exact))
    ]
    jobs_per_place = min(per_place, max(MIN_PER_PLACE, max_jobs // max(1, len(places))))
    shared_places = sum(_find_shared_total(count) is not None for _ref, count in places)
    max_scanned = max(2 * JOBS_PER_PAGE, MAX_SCANNED // max(1, shared_places))
    return tuple(
        Part(
            ref,
            count.place,
            count.state,
            jobs_per_place,
            count.count,
            shared_total or 0,
            max_scanned if shared_total else 0,
        )
        for ref, count in places
        for shared_total in [_find_shared_total(count)]
    )


def _find_shared_total(count: Count) -> int | None:
    """Return the number of jobs of all queues in a shared place; None for a place that is not shared."""
    return count.shared_total if count.coverage is None else None


def yield_pages(engine: Engine, part: Part, *, is_newest: bool = False, body_bytes: int = 0) -> Iterator[Page]:
    """Yield the pages of a place from its start, or from its end with `is_newest`.

    Each page is one round trip. `body_bytes` of each body are read.
    """
    if part.of:
        yield from _yield_shared_pages(engine, part, is_newest=is_newest, body_bytes=body_bytes)
        return
    page = engine.fetch_page(part.ref, part.place, 0, min(JOBS_PER_PAGE, part.most), body_bytes)
    is_newest = is_newest and page.coverage is None  # places from Pub/Sub events start with the newest job
    if is_newest and page.total > part.most:
        offset = page.total - part.most
        page = engine.fetch_page(part.ref, part.place, offset, min(JOBS_PER_PAGE, part.most), body_bytes)
    end = page.offset + part.most
    while True:
        yield page
        if page.error or not page.jobs or page.next is None or page.next >= end:
            return
        page = engine.fetch_page(part.ref, part.place, page.next, min(JOBS_PER_PAGE, end - page.next), body_bytes)


def _yield_shared_pages(engine: Engine, part: Part, *, is_newest: bool, body_bytes: int) -> Iterator[Page]:
    """Yield the jobs of one queue in a place of all queues, up to the scan limit of the part."""
    offset = max(0, part.of - part.passed) if is_newest else 0
    found_jobs, scanned_entries = 0, 0
    for page in engine.walk_pages(part.ref, part.place, JOBS_PER_PAGE, body_bytes, offset):
        jobs = page.jobs[: part.most - found_jobs]
        found_jobs, scanned_entries = found_jobs + len(jobs), scanned_entries + page.scanned_entries
        yield replace(page, jobs=jobs)
        if found_jobs >= part.most or scanned_entries >= part.passed:
            return


# -- random samples ----------------------------------------------------------------------------------------------------


def can_sample_at_random(engine: Engine, part: Part) -> bool:
    """Return whether a block of jobs can be read at any position of a place without reading the jobs before it."""
    place = engine.systems[part.ref.system].place(part.place)
    return not part.of and not place.where and not place.is_from_events and place.type in ("list", "zset")


def yield_random_pages(engine: Engine, part: Part, *, body_bytes: int = 0) -> Iterator[Page]:
    """Yield about `part.most` jobs of a place in blocks of `BLOCK_JOBS` at random positions, several per round trip.

    The place is divided into parts of equal size, with a block in each, so that each period of time is represented. A
    place of at most `part.most` jobs is read completely. A place that `can_sample_at_random` refuses is read from its
    start. A place that does not change gives the same sample again.
    """
    if part.count <= part.most or not can_sample_at_random(engine, part):
        yield from yield_pages(engine, part, body_bytes=body_bytes)
        return
    system, seen_ids = engine.systems[part.ref.system], set[bytes]()
    positions = list(_choose_block_positions(part))
    for start in range(0, len(positions), BLOCKS_PER_TRIP):
        pages: list[Page] = engine.send_requests(
            [
                system.page_request(part.ref.queue, part.place, offset, BLOCK_JOBS, body_bytes)
                for offset in positions[start : start + BLOCKS_PER_TRIP]
            ]
        )
        jobs = {job.id: job for page in pages for job in page.jobs if job.id not in seen_ids}  # a place moves meanwhile
        seen_ids.update(jobs)
        yield replace(pages[0], jobs=tuple(jobs.values()), error=next((page.error for page in pages if page.error), ""))


def _choose_block_positions(part: Part) -> Iterator[int]:
    """Yield a random position in each of the equal parts of a place."""
    blocks = max(1, part.most // BLOCK_JOBS)
    generator = random.Random(part.count)  # noqa: S311  no secret; equal numbers give an equal sample
    for block in range(blocks):
        begin, end = (part.count * number // blocks for number in (block, block + 1))
        yield generator.randint(begin, max(begin, end - BLOCK_JOBS))
