"""Count jobs by kind (name): how many are in each state, how many failed, and how long they wait and run.

A report is built from a bounded sample of each place. It also has the statistics that a system itself keeps per kind:
runs and failures. Systems without kinds are listed in `silent`. Called by the kinds view and by `rqtui kinds`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError
from rqtui.model import Job, KindStatistics, Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Extent

STATISTICS_NOTE = "ran, failing and mean are as the system keeps them"
MAX_PER_PLACE, MAX_JOBS = 1_000, 20_000  # jobs that a report reads, per place and in total


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of job in one queue, as sampled; times are durations in ms, None if unknown.

    `failed` counts dead jobs and jobs that failed at least once. `wait_ms` is the median time that started jobs were
    ready, if the system stores it, else the median of how long ready jobs wait so far. `run_ms` is the median run time
    of finished jobs, else of how long reserved ones are held so far. `figures` are the system's statistics for its
    queue, or for all queues of the system. A kind without sampled jobs has the queue of its statistics; the queue name
    is empty if they cover all queues.
    """

    ref: Ref
    name: str
    counts: Mapping[State, int]
    failed: int
    wait_ms: int | None
    run_ms: int | None
    oldest_ready_ms: int | None
    figures: KindStatistics | None = None

    @property
    def count(self) -> int:
        """The number of sampled jobs."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of a report, most frequent first, and the sample they come from."""

    kinds: tuple[Kind, ...]
    size: Extent
    silent: tuple[str, ...] = ()  # systems of these queues that store no kinds

    @property
    def has_figures(self) -> bool:
        """Whether a system has statistics for any of the kinds."""
        return any(kind.figures for kind in self.kinds)

    @property
    def spans_ms(self) -> tuple[int, ...]:
        """The distinct time spans of the statistics; 0 means since the system began to count."""
        return tuple(sorted({kind.figures.window_ms for kind in self.kinds if kind.figures}))


@dataclass
class _Tally:
    """The running totals of one kind while jobs are read."""

    counts: dict[State, int] = field(default_factory=dict)
    failed: int = 0
    waits: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)

    def add(self, job: Job, now_ms: int) -> None:
        self.counts[job.state] = self.counts.get(job.state, 0) + 1
        self.failed += job.state is State.DEAD or job.attempts > 1 or bool(job.error)
        if job.state is State.READY and job.since_ms is not None:
            self.waits.append(max(0, now_ms - job.since_ms))
        if job.waited_ms is not None:
            self.waited.append(job.waited_ms)
        if job.ran_ms is not None:
            self.runs.append(job.ran_ms)
        elif job.reserved_ms is not None and job.state is State.DONE and job.since_ms is not None:
            self.runs.append(max(0, job.since_ms - job.reserved_ms))
        if job.reserved_ms is not None and job.state is State.RESERVED:
            self.held.append(max(0, now_ms - job.reserved_ms))

    def build_kind(self, ref: Ref, name: str) -> Kind:
        oldest = max(self.waits, default=None)
        return Kind(
            ref,
            name,
            self.counts,
            self.failed,
            _compute_median(self.waited or self.waits),
            _compute_median(self.runs or self.held),
            oldest,
        )


def _compute_median(values: Sequence[int]) -> int | None:
    return round(median(values)) if values else None


def yield_reports(engine: Engine, refs: Sequence[Ref]) -> Iterator[Kinds | None]:
    """Yield growing reports after each place and None between; the last one is complete.

    Each step is one round trip.
    """
    told = [ref for ref in refs if "name" in engine.systems[ref.system].known_fields]
    silent = sampling.list_silent_systems(engine, refs, "name")
    survey = yield from sampling.yield_survey(engine, told, tuple(State), MAX_PER_PLACE, MAX_JOBS)
    tallies: dict[tuple[Ref, str], _Tally] = {}
    kept = _read_statistics(engine, told, survey.problems)

    def build_report() -> Kinds:
        kinds = [_add_statistics(tally.build_kind(ref, name), kept) for (ref, name), tally in tallies.items()]
        kinds += _build_unsampled_kinds(kinds, kept, told, engine.refs)
        ranked = tuple(sorted(kinds, key=lambda kind: (-kind.count, kind.name, kind.ref.queue)))
        return Kinds(ranked, survey.compute_extent(), silent)

    for part in survey.parts:
        for page in survey.yield_pages(engine, part, is_newest=part.state in (State.DEAD, State.DONE)):
            for job in page.jobs:
                tallies.setdefault((part.ref, job.name), _Tally()).add(job, survey.taken_ms)
            yield None
        yield build_report()
    yield build_report()


_Statistics = Mapping[tuple[Ref, str], KindStatistics]  # by queue and kind; an empty queue name means all queues


def _read_statistics(engine: Engine, refs: Sequence[Ref], problems: list[str]) -> _Statistics:
    """Read the statistics that the systems of these queues keep.

    One round trip reads the statistics of all queues, a second one those of single queues.
    """
    first: dict[str, Ref] = {}
    for ref in refs:
        first.setdefault(ref.system, ref)
    statistics = _request_statistics(engine, [*first.values()], problems)
    with_own = {ref.system for ref, _name in statistics if ref.queue}
    others = [ref for ref in refs if ref.system in with_own and ref not in first.values()]
    return statistics | _request_statistics(engine, others[: sampling.MAX_QUEUES], problems)


def _request_statistics(
    engine: Engine, refs: Sequence[Ref], problems: list[str]
) -> dict[tuple[Ref, str], KindStatistics]:
    asks = [(ref, ask) for ref in refs if (ask := engine.systems[ref.system].kinds_request(ref.queue)) is not None]
    answers = engine.send_requests_isolated([lambda ask=ask: ask for _ref, ask in asks]) if asks else []  # type: ignore[misc]
    problems += [str(answer) for answer in answers if isinstance(answer, RqtuiError)]
    told = [
        (Ref(ref.system, each.queue), each)
        for (ref, _ask), answer in zip(asks, answers, strict=True)
        if not isinstance(answer, RqtuiError)
        for each in answer
    ]
    return {(ref, each.kind): each for ref, each in told}


def _add_statistics(kind: Kind, kept: _Statistics) -> Kind:
    found = kept.get((kind.ref, kind.name)) or kept.get((Ref(kind.ref.system, ""), kind.name))
    return replace(kind, figures=found)


def _build_unsampled_kinds(
    kinds: Sequence[Kind], kept: _Statistics, asked: Collection[Ref], known: Collection[Ref]
) -> list[Kind]:
    """Return kinds known only from statistics; those of all queues only if every queue of the system was requested."""
    whole = {ref.system for ref in asked} - {ref.system for ref in {*known} - {*asked}}
    met = {(kind.ref, kind.name) for kind in kinds} | {(Ref(kind.ref.system, ""), kind.name) for kind in kinds}
    return [
        Kind(ref, name, {}, 0, None, None, None, each)
        for (ref, name), each in kept.items()
        if (ref, name) not in met and (ref in asked if ref.queue else ref.system in whole)
    ]
