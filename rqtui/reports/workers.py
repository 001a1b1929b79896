"""Report the workers of queues, the jobs that each holds, and which workers fell silent.

A report is built from a system's own list of workers and from a page of reserved jobs, so that workers without
heartbeats are found by the jobs they hold. `build_requests` builds the requests for a poll, `parse_workers` builds the
report from their replies. Called by the workers view and `rqtui workers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError
from rqtui.model import Focus, Job, Page, Ref, State, Worker, WorkerList
from rqtui.system_base.system import Replies, Request, System
from rqtui.text.facts import format_fact

MAX_HELD, MAX_HELD_IN_ALL = 500, 1000  # reserved jobs read per queue and in total, next deadline first
MIN_HELD = 10  # reserved jobs read per queue, however many queues there are
GROUPS = ("workers", "held")  # the request groups of a poll
QUEUES_PER_TRIP = 100  # per round trip
MAX_FACT_COLUMNS = 2  # fact columns in a list of workers
GONE_FACTOR = 10  # a worker silent for this many times its own limit is gone and cannot receive orders


class WorkerHealth(StrEnum):
    """The health of a worker, worst first."""

    GONE = "gone"  # silent for so long that it will not return
    LATE = "late"  # silent for longer than its announced limit
    SILENT = "silent"  # never sent a heartbeat, and has held a job for longer than the first heartbeat takes
    EXPIRED = "expired"  # never sent a heartbeat, and one of its leases expired
    STOPPING = "stop asked"
    QUIET = "quiet asked"
    UNSEEN = "no beat"  # never sent a heartbeat, but holds jobs
    RUNNING = "running"
    IDLE = "idle"


ORDER = {standing: number for number, standing in enumerate(WorkerHealth)}
TROUBLED = frozenset({WorkerHealth.GONE, WorkerHealth.LATE, WorkerHealth.SILENT, WorkerHealth.EXPIRED})
_ORDERS = {"stop": WorkerHealth.STOPPING, "quiet": WorkerHealth.QUIET}


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """A worker and its held jobs as far as they were read, the longest held first.

    `worker` is None if the system lists no workers, or this one never sent a heartbeat. For a worker of several queues
    `ref` is the queue of its current job, else of one that was read.
    """

    ref: Ref
    name: str
    standing: WorkerHealth
    worker: Worker | None
    jobs: tuple[Job, ...]
    is_whole: bool  # whether all reserved jobs were read

    @property
    def id(self) -> str:
        """An identifier of the worker that stays the same in every queue it serves."""
        is_shared = self.worker is not None and len(self.worker.queues) > 1
        return f"{self.ref.system if is_shared else self.ref}\n{self.name}"

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that the worker serves."""
        return (self.worker.queues if self.worker else ()) or (self.ref.queue,)

    @property
    def job(self) -> Job | None:
        """The current job: the one named in the last heartbeat, else the one held longest."""
        said = self.worker.job if self.worker else b""
        return next((job for job in self.jobs if job.id == said), self.jobs[0] if self.jobs else None)

    @property
    def since_ms(self) -> int | None:
        """The time since which the worker holds its current job."""
        return self.job.reserved_ms if self.job else None


def has_workers(system: System) -> bool:
    """Return whether a system records which worker runs a job."""
    return "worker" in system.known_fields


def build_requests(system: System, queue: str, of: int = 1) -> tuple[Request[Any], ...]:
    """Build the requests for one of `of` queues, in the order of `GROUPS`: its workers and its reserved jobs."""
    held = [place.name for place in system.places if place.state is State.RESERVED]
    if not has_workers(system) or not held:
        return ()
    limit = min(MAX_HELD, max(MIN_HELD, MAX_HELD_IN_ALL // max(1, of)))
    return system.workers_request(queue), _combine_pages(
        [system.page_request(queue, place, 0, limit, 0) for place in held]
    )


def _combine_pages(pages: Sequence[Request[Page]]) -> Request[Page]:
    """Combine the page requests of several places into one."""
    if len(pages) == 1:
        return pages[0]
    calls = tuple(call for page in pages for call in page.calls)

    def parse_reply(answers: Replies) -> Page:
        found, at = [], 0
        for page in pages:
            found.append(page.parse(answers[at : at + len(page.calls)]))
            at += len(page.calls)
        jobs = tuple(job for page in found for job in page.jobs)
        problem = next((page.error for page in found if page.error), "")
        return replace(found[0], jobs=jobs, total=sum(page.total for page in found), error=problem)

    return Request(calls, parse_reply)


def group_requests(asked: Iterable[tuple[Request[Any], ...]]) -> dict[str, tuple[Request[Any], ...]]:
    """Group the requests of several queues by `GROUPS`, to be sent with a poll."""
    pairs = [pair for pair in asked if pair]
    return {group: tuple(pair[at] for pair in pairs) for at, group in enumerate(GROUPS)}


def parse_workers(
    refs: Sequence[Ref], systems: Mapping[str, System], answers: Mapping[str, Sequence[Any]], now_ms: int
) -> tuple[tuple[WorkerEntry, ...], tuple[str, ...]]:
    """Build the workers, troubled ones first, and error sentences from the replies to `build_requests`."""
    seats: list[WorkerEntry] = []
    problems: list[str] = []
    for ref, roster, page in zip(refs, *(answers.get(group, ()) for group in GROUPS), strict=True):
        problems += [str(answer) for answer in (roster, page) if isinstance(answer, RqtuiError)]
        known = () if isinstance(roster, RqtuiError) else roster
        problems += [known.note] if isinstance(known, WorkerList) and known.note else []
        if isinstance(page, Page):
            problems += [page.error] if page.error else []
        jobs, is_whole = (page.jobs, len(page.jobs) >= page.total) if isinstance(page, Page) else ((), False)
        seats += _build_entries(ref, systems[ref.system], known, jobs, is_whole, now_ms)
    return merge_entries(seats, now_ms), tuple(dict.fromkeys(problems))


def merge_entries(seats: Iterable[WorkerEntry], now_ms: int) -> tuple[WorkerEntry, ...]:
    """Sort workers, troubled ones first, and merge the entries of a worker that serves several queues."""
    by_id: dict[str, list[WorkerEntry]] = {}
    found = list(seats)
    shared = {(seat.ref.system, seat.name): seat.id for seat in found if seat.worker and len(seat.worker.queues) > 1}
    for seat in found:
        by_id.setdefault(shared.get((seat.ref.system, seat.name), seat.id), []).append(seat)
    return tuple(sorted((_merge_entry(each, now_ms) for each in by_id.values()), key=build_sort_key))


def _merge_entry(seats: Sequence[WorkerEntry], now_ms: int) -> WorkerEntry:
    if len(seats) == 1:
        return seats[0]
    worker = max((seat.worker for seat in seats if seat.worker), key=lambda worker: worker.heartbeat_ms)
    jobs = tuple(sorted((job for seat in seats for job in seat.jobs), key=_find_held_since))
    made = replace(
        seats[0],
        standing=evaluate_health(worker, jobs, now_ms),
        worker=worker,
        jobs=jobs,
        is_whole=all(seat.is_whole for seat in seats),
    )
    return made if made.job is None else replace(made, ref=Ref(made.ref.system, made.job.queue))


def build_sort_key(seat: WorkerEntry) -> tuple[object, ...]:
    """Return the sort key of a worker.

    Troubled workers with jobs come first, then those without, then workers that hold jobs but never sent a heartbeat;
    the others are sorted by name.
    """
    if seat.standing in TROUBLED:
        return 0, not seat.jobs, ORDER[seat.standing]
    return 1 + (seat.standing is not WorkerHealth.UNSEEN), seat.ref.queue, seat.name


def _build_entries(
    ref: Ref, system: System, known: Iterable[Worker], jobs: Iterable[Job], is_whole: bool, now_ms: int
) -> Iterator[WorkerEntry]:
    held: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=_find_held_since):
        if job.worker:
            held.setdefault(job.worker, []).append(job)
    by_name: dict[str, Worker | None] = {worker.name: worker for worker in known}
    for name, worker in (by_name | {name: None for name in held if name not in by_name}).items():
        its = tuple(held.get(name, ()))
        standing = evaluate_health(worker, its, now_ms, system.first_heartbeat_ms)
        yield WorkerEntry(ref, name, standing, worker, its, is_whole)


def _find_held_since(job: Job) -> int:
    return job.reserved_ms or job.deadline_ms or 0


def evaluate_health(
    worker: Worker | None, jobs: Sequence[Job], now_ms: int, first_heartbeat_ms: int | None = None
) -> WorkerHealth:
    """Return the health of a worker that holds these jobs.

    `first_heartbeat_ms` is the time within which a worker of the system sends its first heartbeat; None if unknown.
    """
    if worker is None:
        if any(job.deadline_ms is not None and job.deadline_ms < now_ms for job in jobs):
            return WorkerHealth.EXPIRED
        first_ms = min((job.reserved_ms for job in jobs if job.reserved_ms is not None), default=now_ms)
        is_silent = first_heartbeat_ms is not None and now_ms - first_ms > first_heartbeat_ms
        return WorkerHealth.SILENT if is_silent else WorkerHealth.UNSEEN
    if now_ms - worker.heartbeat_ms > GONE_FACTOR * worker.ttl_ms:
        return WorkerHealth.GONE
    if worker.is_late(now_ms):
        return WorkerHealth.LATE
    # A heartbeat may tell that a worker is busy although no key and no event names its job.
    busy = WorkerHealth.RUNNING if jobs or worker.job or worker.state == "busy" else WorkerHealth.IDLE
    return _ORDERS.get(worker.order, busy)


def choose_fact_names(seats: Iterable[WorkerEntry]) -> tuple[str, ...]:
    """Return the names of the first facts that all workers with facts have in common, as list columns."""
    told = [[fact.name for fact in seat.worker.facts] for seat in seats if seat.worker and seat.worker.facts]
    return tuple(name for name in (told[0] if told else ()) if all(name in other for other in told))[:MAX_FACT_COLUMNS]


def format_worker_fact(seat: WorkerEntry, name: str) -> str:
    """Format one fact of a worker in one line; empty if it has none of that name."""
    found = next((each for each in seat.worker.facts if each.name == name), None) if seat.worker else None
    return format_fact(found).lines[0] if found else ""


def choose_queues(refs: Sequence[Ref], systems: Mapping[str, System], busy: frozenset[Ref]) -> tuple[Ref, ...]:
    """Return the queues to read in one round trip; of more than `QUEUES_PER_TRIP` those in `busy` first."""
    able = [ref for ref in refs if has_workers(systems[ref.system])]
    ranked = able if len(able) <= QUEUES_PER_TRIP else sorted(able, key=lambda ref: ref not in busy)
    return tuple(ranked[:QUEUES_PER_TRIP])


def load_workers(engine: Engine, refs: Sequence[Ref]) -> tuple[tuple[WorkerEntry, ...], int, tuple[str, ...]]:
    """Read the workers of these queues, a hundred queues per round trip.

    Returns workers, server clock in ms and errors.
    """
    able = [ref for ref in refs if has_workers(engine.systems[ref.system])]
    seats: list[WorkerEntry] = []
    problems: list[str] = []
    now_ms = 0
    for start in range(0, max(1, len(able)), QUEUES_PER_TRIP):
        some = able[start : start + QUEUES_PER_TRIP]
        made = [build_requests(engine.systems[ref.system], ref.queue, len(some)) for ref in some]
        snapshot = engine.take_snapshot(Focus(queues=tuple(some), requests=group_requests(made)))
        again = [build_requests(engine.systems[ref.system], ref.queue, len(some)) for ref in some]
        if any(len(pair[0].calls) > len(before[0].calls) for before, pair in zip(made, again, strict=True) if pair):
            # The first snapshot counted more workers than a request reads before their number is known.
            snapshot = engine.take_snapshot(Focus(queues=tuple(some), requests=group_requests(again)))
        now_ms = snapshot.taken_ms
        found, wrong = parse_workers(some, engine.systems, snapshot.results, now_ms)
        seats += found
        problems += wrong
    return merge_entries(seats, now_ms), now_ms, tuple(problems)
