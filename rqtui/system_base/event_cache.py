"""A bounded cache, in memory only, of jobs and workers seen in Pub/Sub events that no key records.

The last event of each job puts it into one place of one queue, or of no queue while its queue is unknown. The oldest
jobs are dropped beyond a number and a size, but still counted. A system fills it in `record_event`; `foreign_system.py`
builds counts and pages from it.
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
UNKNOWN_QUEUE = Fact("queue", "nobody told which")  # of a job that is listed at `home`
MOST_KINDS = 1000
_EMPTY_BYTES = 1000  # of a job without a word


class EventCount(NamedTuple):
    """The number of jobs in a place: of one queue, and of all queues with the jobs of unknown queues.

    For the queue that is `home`, jobs of unknown queues are part of both.
    """

    of_queue: int
    of_all: int


@dataclass(slots=True)
class _Kind:
    """How often jobs of a kind ran and failed in a queue, and the total duration of those that reported one."""

    runs: int = 0
    failed: int = 0
    timed: int = 0
    took_ms: int = 0


class EventCache:
    """Jobs by id, in the order of their last event, and workers by their last heartbeat event.

    Jobs of unknown queues are counted and listed in the queue that a system sets as `home`, with a fact that says so.
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._home = ""
        self._most, self._most_bytes = most, most_bytes
        self._jobs: OrderedDict[bytes, Job] = OrderedDict()
        self._standing: dict[tuple[str, str], OrderedDict[bytes, int]] = {}  # by queue and place: which take it was
        self._takes = 0
        self._mixed: set[tuple[str, str]] = set()  # those that jobs joined later than they were heard of
        self._counts: Counter[tuple[str, str]] = Counter()  # the forgotten ones, too
        self._given: Counter[tuple[str, str]] = Counter()
        self._of_all: Counter[str] = Counter()  # by place
        self._bytes = 0
        self._kinds: LruCache[tuple[str, str], _Kind] = LruCache(MOST_KINDS)
        self._workers: LruCache[str, Worker] = LruCache(MOST_WORKERS)

    def __len__(self) -> int:
        return len(self._jobs)

    def record_job(self, job: Job) -> None:
        """Record the last event of a job, replacing what was stored for its id; `queue` is empty if unknown."""
        self.discard(job.id)
        self._jobs[job.id] = job
        self._takes += 1
        self._standing.setdefault((job.queue, job.place), OrderedDict())[job.id] = self._takes
        self._counts[job.queue, job.place] += 1
        self._of_all[job.place] += 1
        self._bytes += _estimate_bytes(job)
        while len(self._jobs) > self._most or (self._bytes > self._most_bytes and len(self._jobs) > 1):
            self._forget(next(iter(self._jobs)))

    def find(self, id: bytes) -> Job | None:
        """Return the job with that id, of any queue; None if unknown."""
        return self._jobs.get(id)

    def find_in_queue(self, queue: str, id: bytes) -> Job | None:
        """Return the job with that id if it is in this queue, else None."""
        found = self._jobs.get(id)
        return self._add_home_queue(found) if found is not None and found.queue in self._list_names(queue) else None

    def assign_queue(self, id: bytes, queue: str, *facts: Fact) -> None:
        """Set the queue of a job whose queue was unknown, with the facts that prove it; its order stays."""
        job = self._jobs.get(id)
        if job is not None and not job.queue:
            self._move(job, queue, facts)

    def clear_queue(self, id: bytes) -> None:
        """Mark the queue of a job as unknown again."""
        job = self._jobs.get(id)
        if job is not None and job.queue:
            self._move(job, "", ())

    def _move(self, job: Job, queue: str, facts: Sequence[Fact]) -> None:
        kept = (fact for fact in job.facts if fact.name != UNKNOWN_QUEUE.name)  # how its queue was known
        moved = self._jobs[job.id] = replace(job, queue=queue, facts=(*kept, *facts))
        self._bytes += _estimate_bytes(moved) - _estimate_bytes(job)
        self._standing.setdefault((queue, job.place), OrderedDict())[job.id] = self._leave(job)
        self._mixed.add((queue, job.place))
        self._counts[job.queue, job.place] -= 1
        self._counts[queue, job.place] += 1
        self._given[job.queue, job.place] -= 1
        self._given[queue, job.place] += 1

    def discard(self, id: bytes) -> None:
        """Remove a job and its count, because it is somewhere else now."""
        job = self._jobs.get(id)
        if job is not None:
            self._forget(id)
            self._counts[job.queue, job.place] -= 1
            self._of_all[job.place] -= 1

    def yield_jobs(self, place: str) -> Iterator[Job]:
        """Yield the jobs of all queues in a place."""
        ids = [id for (_queue, name), standing in self._standing.items() if name == place for id in standing]
        return (self._jobs[id] for id in ids)

    def yield_unassigned_jobs(self) -> Iterator[Job]:
        """Yield the jobs whose queue is unknown."""
        ids = [id for (queue, _place), standing in self._standing.items() if not queue for id in standing]
        return (self._jobs[id] for id in ids)

    def count(self, queue: str, place: str) -> EventCount:
        """Return how many jobs are in a place, including those dropped from memory."""
        return EventCount(self._sum(self._counts, queue, place), self._of_all[place])

    def list_page(self, queue: str, place: str, offset: int, limit: int) -> tuple[int, int, tuple[Job, ...]]:
        """Return how many jobs can be listed, the offset of the first, and the jobs, newest first; -1 is the end."""
        parts = [self._sort_by_last_event(name, place) for name in self._list_names(queue)]
        total = sum(map(len, parts))
        first = max(0, total - limit) if offset < 0 else offset
        newest = merge(*(reversed(part.items()) for part in parts), key=itemgetter(1), reverse=True)
        ids = [id for id, _take in islice(newest, first, first + limit)]
        return total, first, tuple(self._add_home_queue(self._jobs[id]) for id in ids)

    def _sort_by_last_event(self, queue: str, place: str) -> OrderedDict[bytes, int]:
        """Return the jobs of a place in the order of their last event."""
        standing = self._standing.get((queue, place), OrderedDict())
        if (queue, place) in self._mixed:
            self._mixed.discard((queue, place))
            standing = self._standing[queue, place] = OrderedDict(sorted(standing.items(), key=itemgetter(1)))
        return standing

    def count_reassigned(self, queue: str, place: str) -> int:
        """Return how many jobs of a place were counted for another queue at first; negative if jobs were moved away."""
        return self._sum(self._given, queue, place)

    def _sum(self, of: Counter[tuple[str, str]], queue: str, place: str) -> int:
        """Return a queue's number, plus that of unknown queues if it is their home. Runs for 1000 queues a poll."""
        nobodys = of.get(("", place), 0) if queue and queue == self._home else 0
        return of.get((queue, place), 0) + nobodys

    @property
    def home(self) -> str:
        """The queue in which jobs of unknown queues are listed."""
        return self._home

    @home.setter
    def home(self, queue: str) -> None:
        for place in self._of_all if queue != self._home else ():
            nobodys = self._counts["", place] - self._given["", place]
            for name, number in ((self._home, -nobodys), (queue, nobodys)):
                if name:
                    self._given[name, place] += number
        self._home = queue

    def _list_names(self, queue: str) -> tuple[str, ...]:
        return (queue, "") if queue and queue == self.home else (queue,)

    def _add_home_queue(self, job: Job) -> Job:
        return job if job.queue or not self.home else replace(job, queue=self.home, facts=(*job.facts, UNKNOWN_QUEUE))

    def _forget(self, id: bytes) -> None:
        job = self._jobs.pop(id)
        self._bytes -= _estimate_bytes(job)
        self._leave(job)

    def _leave(self, job: Job) -> int:
        """Remove a job from its place; return the number of its event."""
        standing = self._standing[job.queue, job.place]
        take = standing.pop(job.id)
        if not standing:
            del self._standing[job.queue, job.place]
            self._mixed.discard((job.queue, job.place))
        return take

    # -- kinds ----------------------------------------------------------------------------------------------------

    def record_run(self, queue: str, kind: str, *, failed: bool, took_ms: int | None = None) -> None:
        """Count a run of a kind of job; `took_ms` is its duration, if reported."""
        known = self._find_kind(queue, kind)
        known.runs += 1
        known.failed += failed
        if took_ms is not None:
            self.record_duration(queue, kind, took_ms)

    def record_duration(self, queue: str, kind: str, took_ms: int) -> None:
        """Add the duration of a run that was counted before."""
        known = self._find_kind(queue, kind)
        known.timed += 1
        known.took_ms += took_ms

    def _find_kind(self, queue: str, kind: str) -> _Kind:
        return self._kinds.store((queue, kind), self._kinds.get((queue, kind)) or _Kind())

    def build_kind_statistics(self, over_ms: int = 0) -> tuple[KindStatistics, ...]:
        """Return the statistics by kind and queue; `over_ms` is for how long rqtui has listened."""
        return tuple(
            KindStatistics(
                kind, known.runs, known.failed, known.took_ms // known.timed if known.timed else None, over_ms, queue
            )
            for (queue, kind), known in self._kinds.items()
        )

    # -- workers --------------------------------------------------------------------------------------------------

    def record_heartbeat(self, worker: Worker) -> None:
        """Record a worker's heartbeat event, replacing its previous one."""
        self._workers.store(worker.name, worker)

    def find_worker(self, name: str) -> Worker | None:
        """Return a worker as of its last heartbeat event; None if unknown."""
        return self._workers.get(name)

    def remove_worker(self, name: str) -> None:
        """Remove a worker that said it is leaving."""
        self._workers.pop(name, None)

    def count_alive(self, now_ms: int) -> int:
        """Return how many workers sent a heartbeat within their time to live."""
        return sum([now_ms - worker.heartbeat_ms <= worker.ttl_ms for worker in self._workers.values()])

    def find_newest_start_ms(self) -> int:
        """Return the latest start time of a worker; 0 if no worker reported one."""
        return max([worker.started_ms or 0 for worker in self._workers.values()], default=0)

    def list_workers(self) -> tuple[Worker, ...]:
        """Return the workers, sorted."""
        return tuple(sorted(self._workers.values()))


def _estimate_bytes(job: Job) -> int:
    """Estimate the memory of a job in bytes."""
    facts = sum(len(fact.value) for fact in job.facts if not isinstance(fact.value, int))
    texts = (job.name, job.error, job.problem, job.call, job.worker)
    return _EMPTY_BYTES + len(job.member) + len(job.body or b"") + facts + sum(len(text) for text in texts)
