"""Filter scan: what a filter finds in a place that is too long to be looked through at each refresh.

A scan reads the place from its head, a chunk per round trip and up to a budget; what fits is kept in the order in
which it stood there, without what nobody needs again (long bodies, all but the last of an error). What is in sight is
looked at again with each picture; a job that left stays in the list, and says where it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from rqtui.errors import WrongType
from rqtui.layout.layout import CHUNK
from rqtui.model import Job, Ref

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine

BUDGET = 100_000  # jobs that one scan looks at
FILTER_BYTES = 4096  # of each body, where the filter reads bodies
_ERROR_CHARS = 400  # of an error that are kept
Accepts = Callable[[Job], bool]


class Step(NamedTuple):
    """A round trip of a scan: what fitted and where it stands, how many were looked at so far, how many there are."""

    jobs: tuple[tuple[int, Job], ...]
    looked: int
    total: int
    is_cut: bool  # the budget is spent, and the place goes on


def scan(
    ref: Ref, place: str, accepts: Accepts, body_bytes: int, kept_bytes: int, budget: int = BUDGET
) -> Callable[[Engine], Iterator[Step]]:
    """The steps of a scan, for the engine's thread; of each body `kept_bytes` are kept."""

    def steps(engine: Engine) -> Iterator[Step]:
        errors: dict[str, str] = {}  # most jobs fail alike: each text once
        is_shared = engine.layouts[ref.layout].is_shared(place)
        offset: int | None = 0
        looked = 0
        while offset is not None:
            page = engine.step(ref, place, offset, min(CHUNK, budget - looked), body_bytes)
            if page.error:
                raise WrongType(page.error)
            looked += page.passed
            offset = page.next if page.jobs or is_shared else None
            placed = enumerate(page.jobs, page.offset)
            jobs = tuple((at, _kept(job, kept_bytes, errors)) for at, job in placed if accepts(job))
            is_cut = looked >= budget and offset is not None
            yield Step(jobs, looked, page.of or page.total, is_cut)
            if is_cut:
                return

    return steps


def _kept(job: Job, body_bytes: int, errors: dict[str, str]) -> Job:
    error = errors.setdefault(job.error, job.error[-_ERROR_CHARS:]) if job.error else ""
    body = job.body[:body_bytes] if job.body and body_bytes else None
    return replace(job, body=body, error=error, history=())


@dataclass(slots=True)
class Found:
    """The jobs that fit, by id, in their order, and the `places` where they stood.

    `left` are those that are elsewhere now ("": nowhere).
    """

    jobs: dict[bytes, Job] = field(default_factory=dict)
    ids: list[bytes] = field(default_factory=list)
    places: dict[bytes, int] = field(default_factory=dict)
    left: dict[bytes, str] = field(default_factory=dict)
    looked: int = 0
    total: int = 0
    is_over: bool = False
    is_cut: bool = False  # ended before the end of the place: by its budget, by Esc, or by an error
    problem: str = ""
    _there: tuple[Job, ...] | None = None

    @property
    def is_partial(self) -> bool:
        """Whether some of the place was not looked at: it ended before, or goes on still."""
        return self.is_cut or not self.is_over

    def add(self, step: Step) -> None:
        """Takes in a round trip; a job that moved on in the place is met twice, and stands where it was met first."""
        for at, job in step.jobs:
            if job.id not in self.jobs:
                self.ids.append(job.id)
                self.jobs[job.id], self.places[job.id] = job, at
        self.looked, self.total, self.is_cut = step.looked, step.total, step.is_cut
        self._there = None

    def end(self, *, stopped: bool = False, problem: str = "") -> None:
        """Nothing more comes."""
        self.is_over, self.problem = True, problem
        self.is_cut = self.is_cut or stopped or bool(problem)

    def seen(self, id: bytes, place: str, job: Job | None) -> None:
        """A job of `place` was looked at again; None: it is nowhere."""
        if id not in self.jobs:
            return
        old, was_left = self.jobs[id], id in self.left
        if job is not None and job.place == place:
            self.left.pop(id, None)
            self.jobs[id] = replace(job, body=old.body, history=()) if job.body is None else replace(job, history=())
        else:
            self.left[id] = job.place if job is not None else ""
        now = self.jobs[id]
        if was_left != (id in self.left) or (now.token, now.member) != (old.token, old.member):
            self._there = None  # made anew when it is asked for: 100 000 take 60 ms

    def page(self, offset: int, limit: int) -> Sequence[Job]:
        """A part of the list."""
        return [self.jobs[id] for id in self.ids[offset : offset + limit]]

    def there(self) -> tuple[Job, ...]:
        """All that did not leave, as far as is known."""
        if self._there is None:
            self._there = tuple(self.jobs[id] for id in self.ids if id not in self.left)
        return self._there
