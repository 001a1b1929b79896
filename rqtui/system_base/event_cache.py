"""Cache the jobs and workers seen in Pub/Sub events that no key records, in memory only and bounded.

The last event of each job puts it into one place of one queue, or of no queue while its queue is unknown. The oldest
jobs are dropped beyond a number and a size, but still counted. A system fills the cache in `record_event`;
`foreign_system.py` builds counts and pages from it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from rqtui.model import Fact, Job, KindStatistics, Worker
from rqtui.system_base.lru_cache import LruCache

MOST = 10_000  # jobs in all
MOST_BYTES = 32 * 1024 * 1024  # of them in all
MOST_WORKERS = 1000
UNKNOWN_QUEUE = Fact("queue", "unknown: no event names it")  # of a job that is listed at `home`
MOST_KINDS = 1000
_EMPTY_BYTES = 1000  # of a job without a word


class EventCount(NamedTuple):
    """The number of jobs in a place that were seen in Pub/Sub events: of one queue, and of all queues.

    Jobs of unknown queues are part of `of_all`, and for the queue that is `home` also of `of_queue`.
    """

    of_queue: int
    of_all: int


@dataclass(slots=True)
class _Kind:
    """How often jobs of one kind ran and failed in a queue, and the total duration of the runs that reported one."""

    runs: int = 0
    failed: int = 0
    timed: int = 0
    took_ms: int = 0


class EventCache:
    """Jobs seen in Pub/Sub events by id, in the order of their last event, and workers by their last heartbeat event.

    Jobs of unknown queues are counted and listed in the queue that a system sets as `home`, with a fact that says so.
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._home = ""
        self._most, self._most_bytes = most, most_bytes
        self._jobs: OrderedDict[bytes, Job] = OrderedDict()
        self._standing: dict[tuple[str, str], OrderedDict[bytes, int]] = {}  # by queue and place: which take it was
        self._takes = 0
        self._mixed: set[tuple[str, str]] = set()  # places that jobs entered after their first event
        self._counts: Counter[tuple[str, str]] = Counter()  # the forgotten ones, too
        self._given: Counter[tuple[str, str]] = Counter()
        self._of_all: Counter[str] = Counter()  # by place
        self._bytes = 0
        self._kinds: LruCache[tuple[str, str], _Kind] = LruCache(MOST_KINDS)
        self._workers: LruCache[str, Worker] = LruCache(MOST_WORKERS)

    def __len__(self) -> int:
        return len(self._jobs)

    def record_job(self, job: Job) -> None:
        """Record the last Pub/Sub event of a job, which says in which place the job is now.

        Replaces what was stored for its id. `queue` is empty if the queue is unknown.
        """
        self.discard(job.id)
        self._jobs[job.id] = job
        self._takes += 1
        self._standing.setdefault((job.queue, job.place), OrderedDict())[job.id] = self._takes
        self._counts[job.queue, job.place] += 1
        self._of_all[job.place] += 1
        self._bytes += _estimate_job_bytes(job)
        while len(self._jobs) > self._most or (self._bytes > self._most_bytes and len(self._jobs) > 1):
            self._drop_job(next(iter(self._jobs)))

    def find(self, id: bytes) -> Job | None:
        """Return the job with that id as of its last Pub/Sub event, of any queue; None if unknown."""
        return self._jobs.get(id)

    def find_in_queue(self, queue: str, id: bytes) -> Job | None:
        """Return the job with that id if Pub/Sub events put it into this queue, else None."""
        job = self._jobs.get(id)
        return (
            self._assign_home_queue(job)
            if job is not None and job.queue in self._list_cached_queue_names(queue)
            else None
        )

    def assign_queue(self, id: bytes, queue: str, *facts: Fact) -> None:
        """Set the queue of a cached job whose queue was unknown, with the facts that prove it. Its order stays."""
        job = self._jobs.get(id)
        if job is not None and not job.queue:
            self._change_job_queue(job, queue, facts)

    def clear_queue(self, id: bytes) -> None:
        """Mark the queue of a cached job as unknown again."""
        job = self._jobs.get(id)
        if job is not None and job.queue:
            self._change_job_queue(job, "", ())

    def _change_job_queue(self, job: Job, queue: str, facts: Sequence[Fact]) -> None:
        other_facts = (fact for fact in job.facts if fact.name != UNKNOWN_QUEUE.name)  # how its queue was known
        moved = self._jobs[job.id] = replace(job, queue=queue, facts=(*other_facts, *facts))
        self._bytes += _estimate_job_bytes(moved) - _estimate_job_bytes(job)
        self._standing.setdefault((queue, job.place), OrderedDict())[job.id] = self._remove_from_place(job)
        self._mixed.add((queue, job.place))
        self._counts[job.queue, job.place] -= 1
        self._counts[queue, job.place] += 1
        self._given[job.queue, job.place] -= 1
        self._given[queue, job.place] += 1

    def discard(self, id: bytes) -> None:
        """Remove a job from the cache and from the counts, because it is in another place now."""
        job = self._jobs.get(id)
        if job is not None:
            self._drop_job(id)
            self._counts[job.queue, job.place] -= 1
            self._of_all[job.place] -= 1

    def yield_jobs(self, place: str) -> Iterator[Job]:
        """Yield the cached jobs of all queues in a place."""
        ids = [id for (_queue, name), takes_by_id in self._standing.items() if name == place for id in takes_by_id]
        return (self._jobs[id] for id in ids)

    def yield_unassigned_jobs(self) -> Iterator[Job]:
        """Yield the cached jobs whose queue is unknown."""
        ids = [id for (queue, _place), takes_by_id in self._standing.items() if not queue for id in takes_by_id]
        return (self._jobs[id] for id in ids)

    def count(self, queue: str, place: str) -> EventCount:
        """Return how many jobs Pub/Sub events put into a place, including those dropped from memory."""
        return EventCount(self._count_with_unknown_queues(self._counts, queue, place), self._of_all[place])

    def list_page(self, queue: str, place: str, offset: int, limit: int) -> tuple[int, int, tuple[Job, ...]]:
        """Return a page of cached jobs, newest first: how many can be listed, the offset of the first, and the jobs.

        Offset -1 means the last page.
        """
        parts = [self._sort_by_last_event(name, place) for name in self._list_cached_queue_names(queue)]
        total = sum(map(len, parts))
        first = max(0, total - limit) if offset < 0 else offset
        newest = merge(*(reversed(part.items()) for part in parts), key=itemgetter(1), reverse=True)
        ids = [id for id, _take in islice(newest, first, first + limit)]
        return total, first, tuple(self._assign_home_queue(self._jobs[id]) for id in ids)

    def _sort_by_last_event(self, queue: str, place: str) -> OrderedDict[bytes, int]:
        """Return the ids of the cached jobs in a place, in the order of their last event."""
        takes_by_id = self._standing.get((queue, place), OrderedDict())
        if (queue, place) in self._mixed:
            self._mixed.discard((queue, place))
            takes_by_id = self._standing[queue, place] = OrderedDict(sorted(takes_by_id.items(), key=itemgetter(1)))
        return takes_by_id

    def count_reassigned(self, queue: str, place: str) -> int:
        """Return how many jobs of a place Pub/Sub events first reported for another queue, and later for this one.

        Negative if more jobs were reassigned from this queue to others.
        """
        return self._count_with_unknown_queues(self._given, queue, place)

    def _count_with_unknown_queues(self, counts: Counter[tuple[str, str]], queue: str, place: str) -> int:
        """Return a queue's number in `counts`, plus that of jobs of unknown queues if this queue lists them (`home`).

        Runs for 1000 queues a poll.
        """
        unassigned = counts.get(("", place), 0) if queue and queue == self._home else 0
        return counts.get((queue, place), 0) + unassigned

    @property
    def home(self) -> str:
        """The queue in which jobs of unknown queues are counted and listed."""
        return self._home

    @home.setter
    def home(self, queue: str) -> None:
        for place in self._of_all if queue != self._home else ():
            nobodys = self._counts["", place] - self._given["", place]
            for name, number in ((self._home, -nobodys), (queue, nobodys)):
                if name:
                    self._given[name, place] += number
        self._home = queue

    def _list_cached_queue_names(self, queue: str) -> tuple[str, ...]:
        """Return the names of the queues whose cached jobs `queue` lists: its own, and "" if it is the `home` queue."""
        return (queue, "") if queue and queue == self.home else (queue,)

    def _assign_home_queue(self, job: Job) -> Job:
        """Return a job with the `home` queue as its queue, and a fact that says so, if its own queue is unknown."""
        return job if job.queue or not self.home else replace(job, queue=self.home, facts=(*job.facts, UNKNOWN_QUEUE))

    def _drop_job(self, id: bytes) -> None:
        job = self._jobs.pop(id)
        self._bytes -= _estimate_job_bytes(job)
        self._remove_from_place(job)

    def _remove_from_place(self, job: Job) -> int:
        """Remove a cached job from its place, and return the number of its event."""
        takes_by_id = self._standing[job.queue, job.place]
        take = takes_by_id.pop(job.id)
        if not takes_by_id:
            del self._standing[job.queue, job.place]
            self._mixed.discard((job.queue, job.place))
        return take

    # -- kinds ----------------------------------------------------------------------------------------------------

    def record_run(self, queue: str, kind: str, *, failed: bool, took_ms: int | None = None) -> None:
        """Count one run of a kind of job, as a Pub/Sub event reported it; `took_ms` is its duration, if reported."""
        statistics = self._find_kind_totals(queue, kind)
        statistics.runs += 1
        statistics.failed += failed
        if took_ms is not None:
            self.record_duration(queue, kind, took_ms)

    def record_duration(self, queue: str, kind: str, took_ms: int) -> None:
        """Add the duration of a run of a kind of job that was counted before."""
        statistics = self._find_kind_totals(queue, kind)
        statistics.timed += 1
        statistics.took_ms += took_ms

    def _find_kind_totals(self, queue: str, kind: str) -> _Kind:
        return self._kinds.store((queue, kind), self._kinds.get((queue, kind)) or _Kind())

    def build_kind_statistics(self, over_ms: int = 0) -> tuple[KindStatistics, ...]:
        """Return runs, failures and mean duration by kind of job and queue, as counted from Pub/Sub events.

        `over_ms` is for how long rqtui has received events.
        """
        return tuple(
            KindStatistics(
                kind,
                statistics.runs,
                statistics.failed,
                statistics.took_ms // statistics.timed if statistics.timed else None,
                over_ms,
                queue,
            )
            for (queue, kind), statistics in self._kinds.items()
        )

    # -- workers --------------------------------------------------------------------------------------------------

    def record_heartbeat(self, worker: Worker) -> None:
        """Record the heartbeat event of a worker, replacing its previous one."""
        self._workers.store(worker.name, worker)

    def find_worker(self, name: str) -> Worker | None:
        """Return a worker as of its last heartbeat event; None if unknown."""
        return self._workers.get(name)

    def remove_worker(self, name: str) -> None:
        """Remove a worker that published that it stops."""
        self._workers.pop(name, None)

    def count_live_workers(self, now_ms: int) -> int:
        """Return how many workers sent a heartbeat within their time to live."""
        return sum([now_ms - worker.heartbeat_ms <= worker.ttl_ms for worker in self._workers.values()])

    def find_newest_worker_start_ms(self) -> int:
        """Return the latest start time of a worker that sent heartbeat events; 0 if no worker reported one."""
        return max([worker.started_ms or 0 for worker in self._workers.values()], default=0)

    def list_workers(self) -> tuple[Worker, ...]:
        """Return the workers that sent heartbeat events, sorted by name."""
        return tuple(sorted(self._workers.values()))


def _estimate_job_bytes(job: Job) -> int:
    """Estimate the memory that a cached job takes, in bytes."""
    facts = sum(len(fact.value) for fact in job.facts if not isinstance(fact.value, int))
    texts = (job.name, job.error, job.problem, job.call, job.worker)
    return _EMPTY_BYTES + len(job.member) + len(job.body or b"") + facts + sum(len(text) for text in texts)
