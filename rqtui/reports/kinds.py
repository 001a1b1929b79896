"""By job: for each kind of job (its name) how many stand where, how many failed, and how long they wait and run.

Made from a bounded sample of each place. Systems that keep no kinds are named in `silent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from rqtui.engine.engine import Engine
from rqtui.model import Job, Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Size

PER_PLACE, IN_ALL = 1_000, 20_000  # jobs that a report looks at


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of job in one queue, as far as the sample goes; times are durations in ms, None where nobody knows.

    `failed` are dead or have failed at least once. `run_ms` is the median of the finished ones that are kept, else of
    how long the reserved ones are held.
    """

    ref: Ref
    name: str
    counts: Mapping[State, int]
    failed: int
    wait_ms: int | None
    run_ms: int | None
    oldest_ready_ms: int | None

    @property
    def count(self) -> int:
        """How many there are in the sample."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds, the most frequent first, and what they were made from."""

    kinds: tuple[Kind, ...]
    size: Size
    silent: tuple[str, ...] = ()  # systems among these queues that keep no kinds


@dataclass
class _Tally:
    """One kind, while its jobs are looked at."""

    counts: dict[State, int] = field(default_factory=dict)
    failed: int = 0
    waits: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)

    def add(self, job: Job, now_ms: int) -> None:
        self.counts[job.state] = self.counts.get(job.state, 0) + 1
        self.failed += job.state is State.DEAD or job.attempts > 1 or bool(job.error)
        if job.state is State.READY and job.since_ms is not None:
            self.waits.append(max(0, now_ms - job.since_ms))
        if job.reserved_ms is not None and job.state is State.DONE and job.since_ms is not None:
            self.runs.append(max(0, job.since_ms - job.reserved_ms))
        if job.reserved_ms is not None and job.state is State.RESERVED:
            self.held.append(max(0, now_ms - job.reserved_ms))

    def kind(self, ref: Ref, name: str) -> Kind:
        oldest = max(self.waits, default=None)
        return Kind(ref, name, self.counts, self.failed, _median(self.waits), _median(self.runs or self.held), oldest)


def _median(values: Sequence[int]) -> int | None:
    return round(median(values)) if values else None


def report(engine: Engine, refs: Sequence[Ref]) -> Iterator[Kinds | None]:
    """The report, more of it after each place, None between; the last one is whole. A step is a round trip."""
    told = [ref for ref in refs if "name" in engine.layouts[ref.layout].tells]
    silent = sampling.silent(engine, refs, "name")
    survey = yield from sampling.survey(engine, told, tuple(State), PER_PLACE, IN_ALL)
    tallies: dict[tuple[Ref, str], _Tally] = {}

    def so_far() -> Kinds:
        made = (tally.kind(ref, name) for (ref, name), tally in tallies.items())
        kinds = tuple(sorted(made, key=lambda kind: (-kind.count, kind.name, kind.ref.queue)))
        return Kinds(kinds, survey.size(), silent)

    for part in survey.parts:
        for page in survey.pages(engine, part, is_newest=part.state in (State.DEAD, State.DONE)):
            for job in page.jobs:
                tallies.setdefault((part.ref, job.name), _Tally()).add(job, survey.taken_ms)
            yield None
        yield so_far()
    yield so_far()
