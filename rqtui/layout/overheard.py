"""Overheard: what a system published and keeps nowhere, as far as somebody listened; bounded, and only in memory.

Of each job the last thing that was heard stands in one place of one queue, or of none as long as nobody told whose it
is. The oldest are forgotten first, beyond a number and a size; they still count. A layout fills it in `overhear`, and
`layout/foreign.py` makes counts and pages of it. It knows no Redis and no thread.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from rqtui.layout.recent import Recent
from rqtui.model import Fact, Figures, Job, Worker

MOST = 10_000  # jobs in all
MOST_BYTES = 32 * 1024 * 1024  # of them in all
MOST_WORKERS = 1000
NOBODYS = Fact("queue", "nobody told which")  # of a job that is listed at `home`
MOST_KINDS = 1000
_EMPTY_BYTES = 1000  # of a job without a word


class Counted(NamedTuple):
    """Jobs of a queue in a place, and those of all queues with those of which nobody told whose they are.

    Of the queue that is `home` the latter are among the former.
    """

    of_queue: int
    of_all: int


@dataclass(slots=True)
class _Kind:
    """How often jobs of a name ran in a queue, how often they failed, and how long those took that told it."""

    runs: int = 0
    failed: int = 0
    timed: int = 0
    took_ms: int = 0


class Overheard:
    """Jobs by id, in the order in which they were last heard of; and workers, by the beats that were heard.

    Jobs of which nobody told whose they are count and stand in the queue that a layout calls `home`, and say so there.
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
        self._kinds: Recent[tuple[str, str], _Kind] = Recent(MOST_KINDS)
        self._workers: Recent[str, Worker] = Recent(MOST_WORKERS)

    def __len__(self) -> int:
        return len(self._jobs)

    def take(self, job: Job) -> None:
        """Takes in the last thing that was heard of a job; `queue` is empty where nobody told whose it is.

        It replaces what was known of a job of this id.
        """
        self.drop(job.id)
        self._jobs[job.id] = job
        self._takes += 1
        self._standing.setdefault((job.queue, job.place), OrderedDict())[job.id] = self._takes
        self._counts[job.queue, job.place] += 1
        self._of_all[job.place] += 1
        self._bytes += _bytes(job)
        while len(self._jobs) > self._most or (self._bytes > self._most_bytes and len(self._jobs) > 1):
            self._forget(next(iter(self._jobs)))

    def find(self, id: bytes) -> Job | None:
        """What was last heard of a job of any queue."""
        return self._jobs.get(id)

    def job(self, queue: str, id: bytes) -> Job | None:
        """What was last heard of a job of this queue."""
        found = self._jobs.get(id)
        return self._shown(found) if found is not None and found.queue in self._names(queue) else None

    def assign(self, id: bytes, queue: str, *facts: Fact) -> None:
        """Says whose a job is of which nobody had told, and how that is known; it keeps its place in the order."""
        job = self._jobs.get(id)
        if job is not None and not job.queue:
            self._move(job, queue, facts)

    def disown(self, id: bytes) -> None:
        """Says that nobody told after all whose a job is."""
        job = self._jobs.get(id)
        if job is not None and job.queue:
            self._move(job, "", ())

    def _move(self, job: Job, queue: str, facts: Sequence[Fact]) -> None:
        kept = (fact for fact in job.facts if fact.name != NOBODYS.name)  # how its queue was known
        moved = self._jobs[job.id] = replace(job, queue=queue, facts=(*kept, *facts))
        self._bytes += _bytes(moved) - _bytes(job)
        self._standing.setdefault((queue, job.place), OrderedDict())[job.id] = self._leave(job)
        self._mixed.add((queue, job.place))
        self._counts[job.queue, job.place] -= 1
        self._counts[queue, job.place] += 1
        self._given[job.queue, job.place] -= 1
        self._given[queue, job.place] += 1

    def drop(self, id: bytes) -> None:
        """Takes a job out, as if it was never heard of: it stands somewhere else now."""
        job = self._jobs.get(id)
        if job is not None:
            self._forget(id)
            self._counts[job.queue, job.place] -= 1
            self._of_all[job.place] -= 1

    def nobodys(self) -> Iterator[Job]:
        """The jobs of which nobody told whose they are."""
        ids = [id for (queue, _place), standing in self._standing.items() if not queue for id in standing]
        return (self._jobs[id] for id in ids)

    def count(self, queue: str, place: str) -> Counted:
        """How many jobs stand in a place, the forgotten ones included."""
        return Counted(self._sum(self._counts, queue, place), self._of_all[place])

    def page(self, queue: str, place: str, offset: int, limit: int) -> tuple[int, int, tuple[Job, ...]]:
        """How many can be listed, the offset of the first one listed, and the jobs, the newest first; -1: the last."""
        parts = [self._in_order(name, place) for name in self._names(queue)]
        total = sum(map(len, parts))
        first = max(0, total - limit) if offset < 0 else offset
        newest = merge(*(reversed(part.items()) for part in parts), key=itemgetter(1), reverse=True)
        ids = [id for id, _take in islice(newest, first, first + limit)]
        return total, first, tuple(self._shown(self._jobs[id]) for id in ids)

    def _in_order(self, queue: str, place: str) -> OrderedDict[bytes, int]:
        """The jobs that stand there, in the order in which they were last heard of."""
        standing = self._standing.get((queue, place), OrderedDict())
        if (queue, place) in self._mixed:
            self._mixed.discard((queue, place))
            standing = self._standing[queue, place] = OrderedDict(sorted(standing.items(), key=itemgetter(1)))
        return standing

    def given(self, queue: str, place: str) -> int:
        """Of the count of a place, how many were counted for another queue when they were heard of; negative: of those
        that were counted here then, how many are another's now."""
        return self._sum(self._given, queue, place)

    def _sum(self, of: Counter[tuple[str, str]], queue: str, place: str) -> int:
        """That of a queue, with nobody's where it is their home; asked for a thousand queues at each picture."""
        nobodys = of.get(("", place), 0) if queue and queue == self._home else 0
        return of.get((queue, place), 0) + nobodys

    @property
    def home(self) -> str:
        """The queue in which jobs of nobody stand."""
        return self._home

    @home.setter
    def home(self, queue: str) -> None:
        for place in self._of_all if queue != self._home else ():
            nobodys = self._counts["", place] - self._given["", place]
            for name, number in ((self._home, -nobodys), (queue, nobodys)):
                if name:
                    self._given[name, place] += number
        self._home = queue

    def _names(self, queue: str) -> tuple[str, ...]:
        return (queue, "") if queue and queue == self.home else (queue,)

    def _shown(self, job: Job) -> Job:
        return job if job.queue or not self.home else replace(job, queue=self.home, facts=(*job.facts, NOBODYS))

    def _forget(self, id: bytes) -> None:
        job = self._jobs.pop(id)
        self._bytes -= _bytes(job)
        self._leave(job)

    def _leave(self, job: Job) -> int:
        """Takes it out of its place; which take it was."""
        standing = self._standing[job.queue, job.place]
        take = standing.pop(job.id)
        if not standing:
            del self._standing[job.queue, job.place]
            self._mixed.discard((job.queue, job.place))
        return take

    # -- kinds ----------------------------------------------------------------------------------------------------

    def ran(self, queue: str, kind: str, *, failed: bool, took_ms: int | None = None) -> None:
        """Counts a run of a kind of job; `took_ms` is how long it took, where that was told."""
        known = self._kind(queue, kind)
        known.runs += 1
        known.failed += failed
        if took_ms is not None:
            self.took(queue, kind, took_ms)

    def took(self, queue: str, kind: str, took_ms: int) -> None:
        """How long a run took that was counted before."""
        known = self._kind(queue, kind)
        known.timed += 1
        known.took_ms += took_ms

    def _kind(self, queue: str, kind: str) -> _Kind:
        return self._kinds.keep((queue, kind), self._kinds.get((queue, kind)) or _Kind())

    def figures(self, over_ms: int = 0) -> tuple[Figures, ...]:
        """The runs that were heard of, by kind and queue; `over_ms` is how long somebody has listened."""
        return tuple(
            Figures(
                kind, known.runs, known.failed, known.took_ms // known.timed if known.timed else None, over_ms, queue
            )
            for (queue, kind), known in self._kinds.items()
        )

    # -- workers --------------------------------------------------------------------------------------------------

    def beat(self, worker: Worker) -> None:
        """Takes in what a worker told of itself; it replaces what it told before."""
        self._workers.keep(worker.name, worker)

    def worker(self, name: str) -> Worker | None:
        """What a worker last told of itself."""
        return self._workers.get(name)

    def left(self, name: str) -> None:
        """A worker said that it goes."""
        self._workers.pop(name, None)

    def alive(self, now_ms: int) -> int:
        """How many of those that were heard still beat."""
        return sum([now_ms - worker.beat_ms <= worker.ttl_ms for worker in self._workers.values()])

    def youngest_ms(self) -> int:
        """When the last of those that were heard was started; 0 where none told it."""
        return max([worker.started_ms or 0 for worker in self._workers.values()], default=0)

    def workers(self) -> tuple[Worker, ...]:
        """Those that were heard, by name."""
        return tuple(sorted(self._workers.values()))


def _bytes(job: Job) -> int:
    """About how much memory a job takes."""
    facts = sum(len(fact.value) for fact in job.facts if not isinstance(fact.value, int))
    texts = (job.name, job.error, job.problem, job.call, job.worker)
    return _EMPTY_BYTES + len(job.member) + len(job.body or b"") + facts + sum(len(text) for text in texts)
