"""Search the jobs of all queues with a filter, and count the matching jobs of each place.

The search is bounded: of a long place, the newest jobs are read where its system keeps ended jobs in order, else its
first jobs. Called by the search view and by `rqtui search`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rqtui.engine.engine import Engine
from rqtui.model import Job, Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Extent, Part

MAX_PER_PLACE, MAX_JOBS = 20_000, 100_000  # jobs that a search reads, per place and in total
BODY_BYTES = 4096  # a longer body is not searched completely, as in a filter of one place
MAX_LISTED = 20  # matching jobs of a place that are kept


@dataclass(frozen=True, slots=True)
class PlaceMatches:
    """The matching jobs of one place: their number, the jobs that were read, and the first `MAX_LISTED` matches.

    `count` is the number of jobs in the place when the search began.
    """

    ref: Ref
    place: str
    state: State
    count: int
    looked: int = 0
    matched: int = 0
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The places that contain matching jobs, those with the most first, and the size of the sample that was read.

    `cut_bodies` is the number of jobs whose body is longer than `BODY_BYTES`, so that it was not searched completely.
    """

    places: tuple[PlaceMatches, ...]
    size: Extent
    cut_bodies: int

    @property
    def matched(self) -> int:
        """The number of matching jobs in all places."""
        return sum(place.matched for place in self.places)


@dataclass
class _Progress:
    matches: dict[Part, PlaceMatches] = field(default_factory=dict)
    cut_bodies: int = 0

    def add_page(self, part: Part, jobs: Sequence[Job], accepts: Callable[[Job], bool]) -> None:
        """Count the jobs of a page and keep the first matches of their place."""
        before = self.matches.get(part) or PlaceMatches(part.ref, part.place, part.state, part.count)
        matching = tuple(job for job in jobs if accepts(job))
        self.cut_bodies += sum(len(job.body or b"") < job.body_bytes for job in jobs)
        self.matches[part] = replace(
            before,
            looked=before.looked + len(jobs),
            matched=before.matched + len(matching),
            jobs=(*before.jobs, *matching)[:MAX_LISTED],
        )

    def build_result(self, size: Extent) -> SearchResult:
        """Build the result of what was read so far."""
        found = [place for place in self.matches.values() if place.matched]
        found.sort(key=lambda place: (-place.matched, place.ref.queue, place.place))
        return SearchResult(tuple(found), size, self.cut_bodies)


def yield_search_results(
    engine: Engine, refs: Sequence[Ref], accepts: Callable[[Job], bool]
) -> Iterator[SearchResult | None]:
    """Yield growing results of a search, with None for steps that read no jobs; the last result is complete.

    Each step is one round trip. `accepts` is a filter, as `parse_filter` returns.
    """
    survey = yield from sampling.yield_survey(engine, refs, tuple(State), MAX_PER_PLACE, MAX_JOBS)
    progress = _Progress()
    for part in survey.parts:
        is_newest = part.state in (State.DEAD, State.DONE)
        for page in survey.yield_pages(engine, part, is_newest=is_newest, body_bytes=BODY_BYTES):
            progress.add_page(part, page.jobs, accepts)
            yield progress.build_result(survey.compute_extent())
    yield progress.build_result(survey.compute_extent())
