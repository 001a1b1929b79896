"""Build the plan (dry run) of a bulk change: how many jobs, from where, with which errors, how old, and samples.

A plan writes nothing. It covers the chosen jobs, or a bounded part of a place whose size the plan reports. The screen
shows it before it asks for confirmation; `rqtui act --dry-run` prints it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rqtui.engine.engine import Engine
from rqtui.model import Job, Ref
from rqtui.reports import errors
from rqtui.system_base.system import CHUNK

MAX_READ = 5_000  # jobs read per place
MAX_SCANNED = 100_000  # jobs of all queues scanned in a shared place
SAMPLES = 5
AGES = ((60_000, "under 1 min"), (3_600_000, "under 1 h"), (86_400_000, "under 1 day"), (604_800_000, "under 1 week"))
OLDEST, AGELESS = "1 week and more", "of unknown age"
MOST_ERRORS, OTHER_ERRORS = 10_000, "other errors"  # distinct errors counted, since every text may differ
_CHANGE_FACTOR = 2.5  # changing a chunk takes this many times as long as reading it

Chosen = Sequence[tuple[Ref, Sequence[Job]]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a change of `total` jobs, of which `looked` were read. Frequent entries come first.

    `seconds` estimates the duration of the change from the time that reading took.
    """

    total: int
    looked: int
    by_queue: tuple[tuple[Ref, int], ...] = ()
    by_place: tuple[tuple[str, int], ...] = ()
    by_error: tuple[tuple[str, int], ...] = ()
    by_age: tuple[tuple[str, int], ...] = ()
    samples: tuple[Job, ...] = ()
    seconds: float | None = None

    @property
    def exact(self) -> bool:
        """Return whether all jobs of the change were read."""
        return self.looked >= self.total


@dataclass(slots=True)
class _PlanCounts:
    """The counts from which a plan is built, while its jobs are read."""

    queues: Counter[Ref]
    places: Counter[str]
    errors: Counter[str]
    ages: Counter[str]
    samples: list[Job]
    looked: int = 0

    def add_job(self, ref: Ref, job: Job, now_ms: int) -> None:
        """Add a job to the totals of a plan."""
        self.looked += 1
        self.queues[ref] += 1
        self.places[job.place] += 1
        self.ages[classify_age(job, now_ms)] += 1
        if job.error:
            error = errors.normalise_job_error(job)
            self.errors[error if error in self.errors or len(self.errors) < MOST_ERRORS else OTHER_ERRORS] += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(job)

    def build_plan(self, total: int, seconds: float | None) -> Plan:
        """Build the plan from its totals."""
        order = [*(label for _ms, label in AGES), OLDEST, AGELESS]
        return Plan(
            max(total, self.looked),
            self.looked,
            tuple(self.queues.most_common()),
            tuple(self.places.most_common()),
            tuple(self.errors.most_common()),
            tuple((label, self.ages[label]) for label in order if self.ages[label]),
            tuple(self.samples),
            seconds,
        )


def classify_age(job: Job, now_ms: int) -> str:
    """Return the age class of a job (`under 1 h`), since its entry into its place or since it was enqueued."""
    since_ms = job.since_ms or job.reserved_ms or job.enqueued_ms
    if since_ms is None:
        return AGELESS
    return next((label for ms, label in AGES if now_ms - since_ms < ms), OLDEST)


def yield_job_plans(engine: Engine, chosen: Chosen) -> Iterator[Plan]:
    """Yield growing plans of a change of the given jobs. One round trip at the start measures the latency."""
    total = sum(len(jobs) for _ref, jobs in chosen)
    began_s = time.monotonic()
    now_ms = _fetch_now_ms(engine, chosen[0][0])
    trip_s = time.monotonic() - began_s
    counts = _PlanCounts(Counter(), Counter(), Counter(), Counter(), [])
    seconds = -(-total // CHUNK) * trip_s * _CHANGE_FACTOR
    if not total:
        yield counts.build_plan(total, seconds)
    for ref, jobs in chosen:
        for start in range(0, len(jobs), MAX_READ):
            for job in jobs[start : start + MAX_READ]:
                counts.add_job(ref, job, now_ms)
            yield counts.build_plan(total, seconds)


def build_chunk_plan(engine: Engine, ref: Ref, chunks: Iterable[Sequence[Job]]) -> Plan:
    """Build the plan of a change of all jobs in these chunks, which are read once and not stored."""
    began_s = time.monotonic()
    now_ms = _fetch_now_ms(engine, ref)
    trip_s = time.monotonic() - began_s
    counts = _PlanCounts(Counter(), Counter(), Counter(), Counter(), [])
    for jobs in chunks:
        for job in jobs:
            counts.add_job(ref, job, now_ms)
    return counts.build_plan(counts.looked, -(-counts.looked // CHUNK) * trip_s * _CHANGE_FACTOR)


def yield_place_plans(engine: Engine, ref: Ref, place: str, max_jobs: int = MAX_READ) -> Iterator[Plan]:
    """Yield growing plans of a change of a place, from its first jobs, one round trip per step."""
    counts = _PlanCounts(Counter(), Counter(), Counter(), Counter(), [])
    now_ms, began_s = _fetch_now_ms(engine, ref), time.monotonic()
    is_shared, scanned_entries = engine.systems[ref.system].is_shared(place), 0
    estimated_total = engine.fetch_page(ref, place, 0, 1).job_count if is_shared else 0
    for page in engine.walk_pages(ref, place, CHUNK):
        for job in page.jobs[: max_jobs - counts.looked]:
            counts.add_job(ref, job, now_ms)
        scanned_entries += page.scanned_entries
        total = page.job_count
        if is_shared:  # the queue's own jobs are only counted at the end of the walk
            total = counts.looked if page.next is None else max(estimated_total, counts.looked + 1)
        per_job = (time.monotonic() - began_s) / max(1, counts.looked)
        yield counts.build_plan(total, total * per_job * _CHANGE_FACTOR)
        if counts.looked >= max_jobs or scanned_entries >= MAX_SCANNED:
            return


def _fetch_now_ms(engine: Engine, ref: Ref) -> int:
    """Fetch the server's time in ms from the counts of a queue, or from TIME if these fail."""
    return (
        engine.send_request(engine.systems[ref.system].queue_request(ref.queue)).counted_ms
        or engine.fetch_server_time_ms()
    )
