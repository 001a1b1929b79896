"""Workers of a queue: the jobs that each holds, and which workers fell silent.

Made from a system's own list of workers and from a page of what is reserved, so that a worker that holds a job is known
where nobody beats, too. `asks` go along with a tick; `read` makes the report of their answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError
from rqtui.layout.layout import Answers, Ask, Layout
from rqtui.model import Focus, Job, Page, Ref, State, Worker
from rqtui.text.facts import said

HELD, HELD_IN_ALL = 500, 1000  # reserved jobs that are looked at, of a queue and of all: those whose lease ends first
LEAST = 10  # of each of many queues
GROUPS = ("workers", "held")  # what is asked of each queue
MOST_QUEUES = 100  # asked for in one round trip
FACTS = 2  # of each worker, that stand in a list of them
GONE = 10  # times its own limit that a worker is silent until it counts as gone; no order reaches it then


class Standing(StrEnum):
    """How it stands with a worker, the worst first."""

    GONE = "gone"  # silent for so long that nobody expects it back
    LATE = "late"  # silent for longer than it said
    EXPIRED = "expired"  # gives no sign of life, and a lease of it is over
    STOPPING = "stop asked"
    QUIET = "quiet asked"
    UNSEEN = "no beat"  # gives no sign of life, but holds jobs
    RUNNING = "running"
    IDLE = "idle"


ORDER = {standing: number for number, standing in enumerate(Standing)}
TROUBLED = frozenset({Standing.GONE, Standing.LATE, Standing.EXPIRED})
_ORDERS = {"stop": Standing.STOPPING, "quiet": Standing.QUIET}


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker and the jobs it holds, as far as they were looked at, the longest held first.

    `worker` is None where the system has no list of workers, or this one never gave a sign of life. One that serves
    several queues has `ref` of the job that it does, else of one of those that were looked at.
    """

    ref: Ref
    name: str
    standing: Standing
    worker: Worker | None
    jobs: tuple[Job, ...]
    is_whole: bool  # whether all that is reserved was looked at

    @property
    def id(self) -> str:
        """What tells it from others, whatever it does: one that serves several queues stands there once."""
        is_shared = self.worker is not None and len(self.worker.queues) > 1
        return f"{self.ref.layout if is_shared else self.ref}\n{self.name}"

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that it serves."""
        return (self.worker.queues if self.worker else ()) or (self.ref.queue,)

    @property
    def job(self) -> Job | None:
        """What it does: the job that it named at its last beat, else the one it holds for longest."""
        said = self.worker.job if self.worker else b""
        return next((job for job in self.jobs if job.id == said), self.jobs[0] if self.jobs else None)

    @property
    def since_ms(self) -> int | None:
        """Since when it holds that job."""
        return self.job.reserved_ms if self.job else None


def keeps_workers(layout: Layout) -> bool:
    """Whether a system knows who works on a queue."""
    return "worker" in layout.tells


def asks(layout: Layout, queue: str, of: int = 1) -> tuple[Ask[Any], ...]:
    """What to ask for a queue, one `of` so many, in the order of `GROUPS`: its workers, and what is reserved."""
    held = [place.name for place in layout.places if place.state is State.RESERVED]
    if not keeps_workers(layout) or not held:
        return ()
    limit = min(HELD, max(LEAST, HELD_IN_ALL // max(1, of)))
    return layout.workers_ask(queue), _together([layout.page_ask(queue, place, 0, limit, 0) for place in held])


def _together(pages: Sequence[Ask[Page]]) -> Ask[Page]:
    """The pages of several places as one."""
    if len(pages) == 1:
        return pages[0]
    calls = tuple(call for page in pages for call in page.calls)

    def read(answers: Answers) -> Page:
        found, at = [], 0
        for page in pages:
            found.append(page.read(answers[at : at + len(page.calls)]))
            at += len(page.calls)
        jobs = tuple(job for page in found for job in page.jobs)
        problem = next((page.error for page in found if page.error), "")
        return replace(found[0], jobs=jobs, total=sum(page.total for page in found), error=problem)

    return Ask(calls, read)


def grouped(asked: Iterable[tuple[Ask[Any], ...]]) -> dict[str, tuple[Ask[Any], ...]]:
    """The asks of several queues by `GROUPS`, to go along in a tick."""
    pairs = [pair for pair in asked if pair]
    return {group: tuple(pair[at] for pair in pairs) for at, group in enumerate(GROUPS)}


def read(
    refs: Sequence[Ref], answers: Mapping[str, Sequence[Any]], now_ms: int
) -> tuple[tuple[Seat, ...], tuple[str, ...]]:
    """(the workers, the troubled ones first; what could not be read) from the answers to `asks` of these queues."""
    seats: list[Seat] = []
    problems: list[str] = []
    for ref, roster, page in zip(refs, *(answers.get(group, ()) for group in GROUPS), strict=True):
        problems += [str(answer) for answer in (roster, page) if isinstance(answer, RqtuiError)]
        known = () if isinstance(roster, RqtuiError) else roster
        if isinstance(page, Page):
            problems += [page.error] if page.error else []
            seats += _seats(ref, known, page.jobs, len(page.jobs) >= page.total, now_ms)
        else:
            seats += _seats(ref, known, (), False, now_ms)
    return merged(seats, now_ms), tuple(dict.fromkeys(problems))


def merged(seats: Iterable[Seat], now_ms: int) -> tuple[Seat, ...]:
    """The workers, the troubled ones first; one that several queues tell of stands there once, with all its jobs."""
    by_id: dict[str, list[Seat]] = {}
    found = list(seats)
    shared = {(seat.ref.layout, seat.name): seat.id for seat in found if seat.worker and len(seat.worker.queues) > 1}
    for seat in found:
        by_id.setdefault(shared.get((seat.ref.layout, seat.name), seat.id), []).append(seat)
    return tuple(sorted((_as_one(each, now_ms) for each in by_id.values()), key=rank))


def _as_one(seats: Sequence[Seat], now_ms: int) -> Seat:
    if len(seats) == 1:
        return seats[0]
    worker = max((seat.worker for seat in seats if seat.worker), key=lambda worker: worker.beat_ms)
    jobs = tuple(sorted((job for seat in seats for job in seat.jobs), key=_held_since))
    made = replace(
        seats[0],
        standing=standing(worker, jobs, now_ms),
        worker=worker,
        jobs=jobs,
        is_whole=all(seat.is_whole for seat in seats),
    )
    return made if made.job is None else replace(made, ref=Ref(made.ref.layout, made.job.queue))


def rank(seat: Seat) -> tuple[object, ...]:
    """Troubled ones with jobs first, then those without; then who holds jobs and never beat; the others by name."""
    if seat.standing in TROUBLED:
        return 0, not seat.jobs, ORDER[seat.standing]
    return 1 + (seat.standing is not Standing.UNSEEN), seat.ref.queue, seat.name


def _seats(ref: Ref, known: Iterable[Worker], jobs: Iterable[Job], is_whole: bool, now_ms: int) -> Iterator[Seat]:
    held: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=_held_since):
        if job.worker:
            held.setdefault(job.worker, []).append(job)
    by_name: dict[str, Worker | None] = {worker.name: worker for worker in known}
    for name, worker in (by_name | {name: None for name in held if name not in by_name}).items():
        its = tuple(held.get(name, ()))
        yield Seat(ref, name, standing(worker, its, now_ms), worker, its, is_whole)


def _held_since(job: Job) -> int:
    return job.reserved_ms or job.deadline_ms or 0


def standing(worker: Worker | None, jobs: Sequence[Job], now_ms: int) -> Standing:
    """How it stands with a worker that holds these jobs."""
    if worker is None:
        is_over = any(job.deadline_ms is not None and job.deadline_ms < now_ms for job in jobs)
        return Standing.EXPIRED if is_over else Standing.UNSEEN
    if now_ms - worker.beat_ms > GONE * worker.ttl_ms:
        return Standing.GONE
    if worker.is_late(now_ms):
        return Standing.LATE
    busy = Standing.RUNNING if jobs or worker.job else Standing.IDLE
    return _ORDERS.get(worker.order, busy)


def fact_names(seats: Iterable[Seat]) -> tuple[str, ...]:
    """The names of facts that stand in a list of workers: the first ones that all workers have that have any."""
    told = [[fact.name for fact in seat.worker.facts] for seat in seats if seat.worker and seat.worker.facts]
    return tuple(name for name in (told[0] if told else ()) if all(name in other for other in told))[:FACTS]


def fact(seat: Seat, name: str) -> str:
    """What is told of a worker under that name, in a line; empty where nothing is."""
    found = next((each for each in seat.worker.facts if each.name == name), None) if seat.worker else None
    return said(found).lines[0] if found else ""


def chosen(refs: Sequence[Ref], layouts: Mapping[str, Layout], busy: frozenset[Ref]) -> tuple[Ref, ...]:
    """The queues that are asked in one round trip: of more than a hundred those that are `busy`."""
    able = [ref for ref in refs if keeps_workers(layouts[ref.layout])]
    ranked = able if len(able) <= MOST_QUEUES else sorted(able, key=lambda ref: ref not in busy)
    return tuple(ranked[:MOST_QUEUES])


def report(engine: Engine, refs: Sequence[Ref]) -> tuple[tuple[Seat, ...], int, tuple[str, ...]]:
    """(the workers of these queues, the server's clock, what could not be read), a hundred queues per round trip."""
    able = [ref for ref in refs if keeps_workers(engine.layouts[ref.layout])]
    seats: list[Seat] = []
    problems: list[str] = []
    now_ms = 0
    for start in range(0, max(1, len(able)), MOST_QUEUES):
        some = able[start : start + MOST_QUEUES]
        made = [asks(engine.layouts[ref.layout], ref.queue, len(some)) for ref in some]
        snapshot = engine.snapshot(Focus(queues=tuple(some), asks=grouped(made)))
        now_ms = snapshot.taken_ms
        found, wrong = read(some, snapshot.answers, now_ms)
        seats += found
        problems += wrong
    return merged(seats, now_ms), now_ms, tuple(problems)
