"""Build the dry run of a bulk change: how many jobs, from where, with which errors, how old, and five samples.

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
    """The summary of a planned change of `total` jobs, of which `looked` were read; frequent entries first.

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
        """Whether all jobs were read."""
        return self.looked >= self.total


@dataclass(slots=True)
class _Counts:
    queues: Counter[Ref]
    places: Counter[str]
    errors: Counter[str]
    ages: Counter[str]
    samples: list[Job]
    looked: int = 0

    def add(self, ref: Ref, job: Job, now_ms: int) -> None:
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
    """Return the age class of a job, from its entry into its place, else from its enqueue time."""
    since = job.since_ms or job.reserved_ms or job.enqueued_ms
    if since is None:
        return AGELESS
    return next((label for ms, label in AGES if now_ms - since < ms), OLDEST)


def yield_job_plans(engine: Engine, chosen: Chosen) -> Iterator[Plan]:
    """Yield growing plans of the given jobs; one round trip at the start measures the latency."""
    total = sum(len(jobs) for _ref, jobs in chosen)
    began = time.monotonic()
    now_ms = _read_now_ms(engine, chosen[0][0])
    trip_s = time.monotonic() - began
    counts = _Counts(Counter(), Counter(), Counter(), Counter(), [])
    seconds = -(-total // CHUNK) * trip_s * _CHANGE_FACTOR
    if not total:
        yield counts.build_plan(0, seconds)
    for ref, jobs in chosen:
        for start in range(0, len(jobs), MAX_READ):
            for job in jobs[start : start + MAX_READ]:
                counts.add(ref, job, now_ms)
            yield counts.build_plan(total, seconds)


def build_chunk_plan(engine: Engine, ref: Ref, chunks: Iterable[Sequence[Job]]) -> Plan:
    """Return the plan of all jobs in these chunks, which are read once and not kept."""
    began = time.monotonic()
    now_ms = _read_now_ms(engine, ref)
    trip_s = time.monotonic() - began
    counts = _Counts(Counter(), Counter(), Counter(), Counter(), [])
    for jobs in chunks:
        for job in jobs:
            counts.add(ref, job, now_ms)
    return counts.build_plan(0, -(-counts.looked // CHUNK) * trip_s * _CHANGE_FACTOR)


def yield_place_plans(engine: Engine, ref: Ref, place: str, most: int = MAX_READ) -> Iterator[Plan]:
    """Yield growing plans of a place from its first `most` jobs, one round trip per step."""
    counts = _Counts(Counter(), Counter(), Counter(), Counter(), [])
    now_ms, began = _read_now_ms(engine, ref), time.monotonic()
    is_shared, passed = engine.systems[ref.system].is_shared(place), 0
    about = engine.fetch_page(ref, place, 0, 1).job_count if is_shared else 0
    for page in engine.walk_pages(ref, place, CHUNK):
        for job in page.jobs[: most - counts.looked]:
            counts.add(ref, job, now_ms)
        passed += page.scanned_entries
        total = page.job_count
        if is_shared:  # the queue's own jobs are only counted at the end of the walk
            total = counts.looked if page.next is None else max(about, counts.looked + 1)
        per_job = (time.monotonic() - began) / max(1, counts.looked)
        yield counts.build_plan(total, total * per_job * _CHANGE_FACTOR)
        if counts.looked >= most or passed >= MAX_SCANNED:
            return


def _read_now_ms(engine: Engine, ref: Ref) -> int:
    return (
        engine.send_request(engine.systems[ref.system].queue_request(ref.queue)).counted_ms
        or engine.fetch_server_time_ms()
    )
