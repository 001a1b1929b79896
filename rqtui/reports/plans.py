"""Plans: the dry run of a change of many jobs: how many, from where, with which errors, how old, five of them.

Nothing is written for it. The jobs are those that somebody chose, or a bounded part of a place, whose size the plan
tells; the screen shows it before it asks, `rqtui act --dry-run` prints it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rqtui.engine.engine import Engine
from rqtui.layout.layout import CHUNK
from rqtui.model import Job, Ref
from rqtui.reports import errors

LOOKED_AT = 5_000  # jobs of a place
PASSED = 100_000  # jobs of all queues in a shared place, among which those are looked for
SAMPLES = 5
AGES = ((60_000, "under 1 min"), (3_600_000, "under 1 h"), (86_400_000, "under 1 day"), (604_800_000, "under 1 week"))
OLDEST, AGELESS = "1 week and more", "of unknown age"
_WORTH = 2.5  # a change of a chunk takes so many times as long as its reading, and a round trip each

Chosen = Sequence[tuple[Ref, Sequence[Job]]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change would be about: `total` jobs, of which `looked` were looked at; the most frequent stand first.

    `seconds` is how long it will take, from the time that looking took.
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
        """Whether all of them were looked at."""
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
        self.ages[age_of(job, now_ms)] += 1
        if job.error:
            self.errors[errors.message(job)] += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(job)

    def plan(self, total: int, seconds: float | None) -> Plan:
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


def age_of(job: Job, now_ms: int) -> str:
    """The class of a job's age: since it came to where it stands, or else since it was put."""
    since = job.since_ms or job.reserved_ms or job.enqueued_ms
    if since is None:
        return AGELESS
    return next((label for ms, label in AGES if now_ms - since < ms), OLDEST)


def of_jobs(engine: Engine, chosen: Chosen) -> Iterator[Plan]:
    """The plan of jobs that are known; a round trip at the beginning measures how long one takes."""
    total = sum(len(jobs) for _ref, jobs in chosen)
    began = time.monotonic()
    now_ms = _now_ms(engine, chosen[0][0])
    trip_s = time.monotonic() - began
    counts = _Counts(Counter(), Counter(), Counter(), Counter(), [])
    seconds = -(-total // CHUNK) * trip_s * _WORTH
    if not total:
        yield counts.plan(0, seconds)
    for ref, jobs in chosen:
        for start in range(0, len(jobs), LOOKED_AT):
            for job in jobs[start : start + LOOKED_AT]:
                counts.add(ref, job, now_ms)
            yield counts.plan(total, seconds)


def of_place(engine: Engine, ref: Ref, place: str, most: int = LOOKED_AT) -> Iterator[Plan]:
    """The plan of what stands in a place, from its first `most` jobs, a round trip per step."""
    counts = _Counts(Counter(), Counter(), Counter(), Counter(), [])
    now_ms, began = _now_ms(engine, ref), time.monotonic()
    is_shared, passed = engine.layouts[ref.layout].is_shared(place), 0
    about = engine.page(ref, place, 0, 1).in_all if is_shared else 0
    for page in engine.walk(ref, place, CHUNK):
        for job in page.jobs[: most - counts.looked]:
            counts.add(ref, job, now_ms)
        passed += page.passed
        total = page.in_all
        if is_shared:  # how many are this queue's is known at the end of the walk
            total = counts.looked if page.next is None else max(about, counts.looked + 1)
        per_job = (time.monotonic() - began) / max(1, counts.looked)
        yield counts.plan(total, total * per_job * _WORTH)
        if counts.looked >= most or passed >= PASSED:
            return


def _now_ms(engine: Engine, ref: Ref) -> int:
    return engine.ask(engine.layouts[ref.layout].queue_ask(ref.queue)).counted_ms or engine.now_ms()
