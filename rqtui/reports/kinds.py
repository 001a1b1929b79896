"""By job: for each kind of job (its name) how many stand where, how many failed, and how long they wait and run.

Made from a bounded sample of each place. Beside them stand the figures that a system itself keeps of a kind: how often
it ran and failed lately. Systems that keep no kinds are named in `silent`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError
from rqtui.model import Figures, Job, Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Size

FIGURES = "ran, failing and mean are as the system keeps them"
PER_PLACE, IN_ALL = 1_000, 20_000  # jobs that a report looks at


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of job in one queue, as far as the sample goes; times are durations in ms, None where nobody knows.

    `failed` are dead or have failed at least once. `run_ms` is the median of the finished ones that are kept, else of
    how long the reserved ones are held. `figures` are those of its queue, or of all queues of its system. A kind of
    which no job was met has the queue of its figures; without a name, where they are of all queues.
    """

    ref: Ref
    name: str
    counts: Mapping[State, int]
    failed: int
    wait_ms: int | None
    run_ms: int | None
    oldest_ready_ms: int | None
    figures: Figures | None = None

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

    @property
    def has_figures(self) -> bool:
        """Whether a system keeps figures of any of them."""
        return any(kind.figures for kind in self.kinds)

    @property
    def spans_ms(self) -> tuple[int, ...]:
        """How far back the figures go, each span once; 0: to where a system began to count."""
        return tuple(sorted({kind.figures.over_ms for kind in self.kinds if kind.figures}))


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
    kept = _kept(engine, told, survey.problems)

    def so_far() -> Kinds:
        made = [_with_figures(tally.kind(ref, name), kept) for (ref, name), tally in tallies.items()]
        made += _unmet(made, kept, told, engine.refs)
        kinds = tuple(sorted(made, key=lambda kind: (-kind.count, kind.name, kind.ref.queue)))
        return Kinds(kinds, survey.size(), silent)

    for part in survey.parts:
        for page in survey.pages(engine, part, is_newest=part.state in (State.DEAD, State.DONE)):
            for job in page.jobs:
                tallies.setdefault((part.ref, job.name), _Tally()).add(job, survey.taken_ms)
            yield None
        yield so_far()
    yield so_far()


_Kept = Mapping[tuple[Ref, str], Figures]  # by queue and kind; by a queue without a name those of all queues


def _kept(engine: Engine, refs: Sequence[Ref], problems: list[str]) -> _Kept:
    """The figures that the systems of these queues keep: a round trip for those of all queues, one for the others."""
    first: dict[str, Ref] = {}
    for ref in refs:
        first.setdefault(ref.layout, ref)
    made = _asked(engine, [*first.values()], problems)
    with_own = {ref.layout for ref, _name in made if ref.queue}
    others = [ref for ref in refs if ref.layout in with_own and ref not in first.values()]
    return made | _asked(engine, others[: sampling.MOST_QUEUES], problems)


def _asked(engine: Engine, refs: Sequence[Ref], problems: list[str]) -> dict[tuple[Ref, str], Figures]:
    asks = [(ref, ask) for ref in refs if (ask := engine.layouts[ref.layout].kinds_ask(ref.queue)) is not None]
    answers = engine.ask_each([lambda ask=ask: ask for _ref, ask in asks]) if asks else []  # type: ignore[misc]
    problems += [str(answer) for answer in answers if isinstance(answer, RqtuiError)]
    told = [
        (Ref(ref.layout, each.queue), each)
        for (ref, _ask), answer in zip(asks, answers, strict=True)
        if not isinstance(answer, RqtuiError)
        for each in answer
    ]
    return {(ref, each.kind): each for ref, each in told}


def _with_figures(kind: Kind, kept: _Kept) -> Kind:
    found = kept.get((kind.ref, kind.name)) or kept.get((Ref(kind.ref.layout, ""), kind.name))
    return replace(kind, figures=found)


def _unmet(kinds: Sequence[Kind], kept: _Kept, asked: Collection[Ref], known: Collection[Ref]) -> list[Kind]:
    """Kinds of which only figures are known; of all queues only where all of the system's that are known are asked."""
    whole = {ref.layout for ref in asked} - {ref.layout for ref in {*known} - {*asked}}
    met = {(kind.ref, kind.name) for kind in kinds} | {(Ref(kind.ref.layout, ""), kind.name) for kind in kinds}
    return [
        Kind(ref, name, {}, 0, None, None, None, each)
        for (ref, name), each in kept.items()
        if (ref, name) not in met and (ref in asked if ref.queue else ref.layout in whole)
    ]
