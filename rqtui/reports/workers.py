"""Report the workers of queues, the jobs that each of them holds, and which workers stopped sending heartbeats.

Called by the workers view and `rqtui workers`. A report is built from a system's own list of workers and from a page of
reserved jobs, so that workers without heartbeats are found by the jobs they hold. `build_worker_requests` builds the
requests for a poll, `parse_workers` builds the report from their replies.
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
GONE_FACTOR = 10  # a worker silent for this many times its own limit has ended and cannot receive orders


class WorkerHealth(StrEnum):
    """The health of a worker, the worst value first."""

    GONE = "gone"  # silent for so long that it will not return
    LATE = "late"  # silent for longer than its announced limit
    SILENT = "silent"  # never sent a heartbeat, and has held a job for longer than the first heartbeat takes
    EXPIRED = "expired"  # never sent a heartbeat, and one of its leases expired
    STOPPING = "stop asked"
    QUIET = "quiet asked"
    UNSEEN = "unknown"  # never sent a heartbeat, but holds jobs
    RUNNING = "running"
    IDLE = "idle"


ORDER = {health: number for number, health in enumerate(WorkerHealth)}
UNHEALTHY = frozenset({WorkerHealth.GONE, WorkerHealth.LATE, WorkerHealth.SILENT, WorkerHealth.EXPIRED})
_ORDERS = {"stop": WorkerHealth.STOPPING, "quiet": WorkerHealth.QUIET}


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """A worker in a report, with the jobs it holds as far as they were read, the longest held first.

    `worker` is None if the system lists no workers, or this one never sent a heartbeat. For a worker of several queues
    `ref` is the queue of its current job, else of one that was read.
    """

    ref: Ref
    name: str
    health: WorkerHealth
    worker: Worker | None
    jobs: tuple[Job, ...]
    is_whole: bool  # whether all reserved jobs were read
    has_unknown_jobs: bool = False  # whether it runs jobs of which none is known: they began before rqtui listened
    is_known_by_events: bool = False  # its heartbeats are only published, and name none of its queues

    @property
    def id(self) -> str:
        """A text that identifies the worker, and is the same in every queue that the worker serves."""
        is_shared = self.is_known_by_events or (self.worker is not None and len(self.worker.queues) > 1)
        return f"{self.ref.system if is_shared else self.ref}\n{self.name}"

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of the queues that a worker serves."""
        return (self.worker.queues if self.worker else ()) or (self.ref.queue,)

    @property
    def job(self) -> Job | None:
        """The current job of a worker: the one named in its last heartbeat, else the one held longest."""
        reported_id = self.worker.job if self.worker else b""
        return next((job for job in self.jobs if job.id == reported_id), self.jobs[0] if self.jobs else None)

    @property
    def since_ms(self) -> int | None:
        """The time since which a worker holds its current job; None without a job."""
        return self.job.reserved_ms if self.job else None


def has_workers(system: System) -> bool:
    """Return whether a system records which worker runs a job."""
    return "worker" in system.known_fields


def build_worker_requests(system: System, queue: str, queue_count: int) -> tuple[Request[Any], ...]:
    """Build the requests for the workers and for the reserved jobs of a queue, in the order of `GROUPS`.

    The more queues are requested together (`queue_count`), the fewer jobs are read of each.
    """
    reserved_places = [place.name for place in system.places if place.state is State.RESERVED]
    if not has_workers(system) or not reserved_places:
        return ()
    limit = min(MAX_HELD, max(MIN_HELD, MAX_HELD_IN_ALL // queue_count))
    return system.workers_request(queue), _combine_page_requests(
        [system.page_request(queue, place, 0, limit, 0) for place in reserved_places]
    )


def _combine_page_requests(pages: Sequence[Request[Page]]) -> Request[Page]:
    """Combine the page requests of several places into one request, whose result is one page."""
    calls = tuple(call for page in pages for call in page.calls)

    def parse_as_one_page(replies: Replies) -> Page:
        parsed_pages, start = [], 0
        for page in pages:
            parsed_pages.append(page.parse(replies[start : start + len(page.calls)]))
            start += len(page.calls)
        jobs = tuple(job for page in parsed_pages for job in page.jobs)
        problem = next((page.error for page in parsed_pages if page.error), "")
        return replace(parsed_pages[0], jobs=jobs, total=sum(page.total for page in parsed_pages), error=problem)

    return Request(calls, parse_as_one_page)


def _count_calls(requests_by_queue: Iterable[tuple[Request[Any], ...]]) -> int:
    return sum(len(request.calls) for requests in requests_by_queue for request in requests)


def group_worker_requests(requests_by_queue: Iterable[tuple[Request[Any], ...]]) -> dict[str, tuple[Request[Any], ...]]:
    """Separate the requests for workers from those for held jobs, by the names in `GROUPS`, for a poll."""
    pairs = [pair for pair in requests_by_queue if pair]
    return {group: tuple(pair[index] for pair in pairs) for index, group in enumerate(GROUPS)}


def parse_workers(
    refs: Sequence[Ref], systems: Mapping[str, System], results: Mapping[str, Sequence[Any]], now_ms: int
) -> tuple[tuple[WorkerEntry, ...], tuple[str, ...]]:
    """Build the list of workers, troubled ones first, and error messages from the results of worker requests."""
    entries: list[WorkerEntry] = []
    problems: list[str] = []
    for ref, roster, page in zip(refs, *(results.get(group, ()) for group in GROUPS), strict=True):
        problems += [str(result) for result in (roster, page) if isinstance(result, RqtuiError)]
        workers = () if isinstance(roster, RqtuiError) else roster
        problems += [workers.note] if isinstance(workers, WorkerList) and workers.note else []
        if isinstance(page, Page):
            problems += [page.error] if page.error else []
        jobs, is_whole = (page.jobs, len(page.jobs) >= page.total) if isinstance(page, Page) else ((), False)
        entries += _build_entries(ref, systems[ref.system], workers, jobs, is_whole, now_ms)
    return merge_worker_entries(entries, now_ms), tuple(dict.fromkeys(problems))


def merge_worker_entries(entries: Iterable[WorkerEntry], now_ms: int) -> tuple[WorkerEntry, ...]:
    """Sort workers, troubled ones first, and merge the entries of a worker that serves several queues."""
    by_id: dict[str, list[WorkerEntry]] = {}
    all_entries = list(entries)
    shared_ids = {
        (entry.ref.system, entry.name): entry.id
        for entry in all_entries
        if entry.worker and len(entry.worker.queues) > 1
    }
    for entry in all_entries:
        by_id.setdefault(shared_ids.get((entry.ref.system, entry.name), entry.id), []).append(entry)
    return tuple(
        sorted(
            (_merge_entries_of_worker(entries_of_worker, now_ms) for entries_of_worker in by_id.values()),
            key=compute_worker_sort_key,
        )
    )


def _merge_entries_of_worker(entries: Sequence[WorkerEntry], now_ms: int) -> WorkerEntry:
    """Merge the entries of one worker in several queues to one entry.

    If the queues of the worker are not known, those of the entries stand for them.
    """
    if len(entries) == 1:
        return entries[0]
    workers = [entry.worker for entry in entries if entry.worker]
    worker = max(workers, key=lambda worker: worker.heartbeat_ms, default=None)
    if worker is not None and not worker.queues:
        worker = worker._replace(queues=tuple(entry.ref.queue for entry in entries))
    jobs = tuple(sorted((job for entry in entries for job in entry.jobs), key=_find_hold_start_ms))
    health = (
        evaluate_health(worker, jobs, now_ms)
        if worker
        else min((each.health for each in entries), key=ORDER.__getitem__)
    )
    merged = replace(
        entries[0],
        ref=next((each.ref for each in entries if worker and each.ref.queue in worker.queues), entries[0].ref),
        health=health,
        worker=worker,
        jobs=jobs,
        is_whole=all(entry.is_whole for entry in entries),
        has_unknown_jobs=not jobs and any(entry.has_unknown_jobs for entry in entries),
    )
    return merged if merged.job is None else replace(merged, ref=Ref(merged.ref.system, merged.job.queue))


def compute_worker_sort_key(entry: WorkerEntry) -> tuple[object, ...]:
    """Return the sort key of a worker.

    Troubled workers with jobs come first, then those without, then workers that hold jobs but never sent a heartbeat;
    the others are sorted by name.
    """
    if entry.health in UNHEALTHY:
        return 0, not entry.jobs, ORDER[entry.health]
    return 1 + (entry.health is not WorkerHealth.UNSEEN), entry.ref.queue, entry.name


def _build_entries(
    ref: Ref, system: System, workers: Iterable[Worker], jobs: Iterable[Job], is_whole: bool, now_ms: int
) -> Iterator[WorkerEntry]:
    """Yield the workers of a queue with their held jobs, including workers known only by a held job."""
    jobs_by_worker: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=_find_hold_start_ms):
        if job.worker:
            jobs_by_worker.setdefault(job.worker, []).append(job)
    workers_by_name: dict[str, Worker | None] = {worker.name: worker for worker in workers}
    for name, worker in (
        workers_by_name | {name: None for name in jobs_by_worker if name not in workers_by_name}
    ).items():
        held_jobs = tuple(jobs_by_worker.get(name, ()))
        health = evaluate_health(worker, held_jobs, now_ms, system.first_heartbeat_ms)
        is_busy = worker is not None and worker.state == "busy" and not worker.job
        is_by_events = system.heartbeat_event_interval_ms is not None
        has_unknown_jobs = is_by_events and is_busy and not held_jobs
        yield WorkerEntry(ref, name, health, worker, held_jobs, is_whole, has_unknown_jobs, is_by_events)


def _find_hold_start_ms(job: Job) -> int:
    """Return when a worker took a job, in ms, or its deadline if that is unknown; 0 if both are unknown."""
    return job.reserved_ms or job.deadline_ms or 0


def evaluate_health(
    worker: Worker | None, jobs: Sequence[Job], now_ms: int, first_heartbeat_ms: int | None = None
) -> WorkerHealth:
    """Return the health of a worker that holds these jobs, by its heartbeats and deadlines.

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
    # A heartbeat may report that a worker is busy although no key and no event names its job.
    activity = WorkerHealth.RUNNING if jobs or worker.job or worker.state == "busy" else WorkerHealth.IDLE
    return _ORDERS.get(worker.order, activity)


def choose_fact_names(entries: Iterable[WorkerEntry]) -> tuple[str, ...]:
    """Return the names of the first facts that all workers with facts have in common; they become columns."""
    fact_names = [
        [fact.name for fact in entry.worker.facts] for entry in entries if entry.worker and entry.worker.facts
    ]
    return tuple(name for name in (fact_names[0] if fact_names else ()) if all(name in other for other in fact_names))[
        :MAX_FACT_COLUMNS
    ]


def format_worker_fact(entry: WorkerEntry, name: str) -> str:
    """Format one fact of a worker in one line; empty if the worker has no fact of that name."""
    fact = (
        next((candidate for candidate in entry.worker.facts if candidate.name == name), None) if entry.worker else None
    )
    return format_fact(fact).lines[0] if fact else ""


def choose_queues(refs: Sequence[Ref], systems: Mapping[str, System], busy: frozenset[Ref]) -> tuple[Ref, ...]:
    """Return the queues whose workers are read in one round trip, those in `busy` first if they are too many."""
    supported = [ref for ref in refs if has_workers(systems[ref.system])]
    ranked = supported if len(supported) <= QUEUES_PER_TRIP else sorted(supported, key=lambda ref: ref not in busy)
    return tuple(ranked[:QUEUES_PER_TRIP])


def load_workers(engine: Engine, refs: Sequence[Ref]) -> tuple[tuple[WorkerEntry, ...], int, tuple[str, ...]]:
    """Load the workers of these queues, a hundred queues per round trip.

    Returns the workers, the server's clock in ms, and error messages.
    """
    supported = [ref for ref in refs if has_workers(engine.systems[ref.system])]
    entries: list[WorkerEntry] = []
    problems: list[str] = []
    starts = range(0, len(supported), QUEUES_PER_TRIP)
    # Without queues one snapshot is taken all the same, for the clock of the server.
    for chunk in [supported[start : start + QUEUES_PER_TRIP] for start in starts] or [[]]:
        requests = [build_worker_requests(engine.systems[ref.system], ref.queue, len(chunk)) for ref in chunk]
        snapshot = engine.take_snapshot(Focus(queues=tuple(chunk), requests=group_worker_requests(requests)))
        new_requests = [build_worker_requests(engine.systems[ref.system], ref.queue, len(chunk)) for ref in chunk]
        if _count_calls(new_requests) > _count_calls(requests):
            # The first snapshot counted more workers than a request reads before their number is known.
            snapshot = engine.take_snapshot(Focus(queues=tuple(chunk), requests=group_worker_requests(new_requests)))
        now_ms = snapshot.taken_ms
        chunk_entries, chunk_problems = parse_workers(chunk, engine.systems, snapshot.results, now_ms)
        entries += chunk_entries
        problems += chunk_problems
    return merge_worker_entries(entries, now_ms), now_ms, tuple(problems)
