"""Count jobs by kind (name): how many are in each state, how many failed, and how long they wait and run.

A report is built from a bounded sample of each place. It also has the statistics that a system itself keeps per kind:
runs and failures. Systems without kinds are listed in `silent`. Called by the kinds view and by `rqtui kinds`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError
from rqtui.model import Job, KindStatistics, Ref, State
from rqtui.reports import sampling
from rqtui.reports.errors import is_failure, normalise_job_error
from rqtui.reports.sampling import Extent

STATISTICS_NOTE = "ran, failing and mean are as the system keeps them"
MAX_PER_PLACE, MAX_JOBS = 1_000, 20_000  # jobs that a report reads, per place and in total
MAX_ERRORS = 20  # errors of a kind that a report lists


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
    errors: tuple[
        tuple[str, int], ...
    ] = ()  # (normalised error, sampled jobs that failed with it), most frequent first

    @property
    def count(self) -> int:
        """The number of sampled jobs of a kind."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Kinds:
    """A report of the kinds of jobs, most frequent first, and the size of the sample they come from."""

    kinds: tuple[Kind, ...]
    size: Extent
    silent: tuple[str, ...] = ()  # systems of these queues that store no kinds

    @property
    def has_figures(self) -> bool:
        """Return whether a system has statistics of its own for any of these kinds of jobs."""
        return any(kind.figures for kind in self.kinds)

    @property
    def spans_ms(self) -> tuple[int, ...]:
        """The distinct durations (ms) that the systems' statistics cover; 0 means since the system began to count."""
        return tuple(sorted({kind.figures.window_ms for kind in self.kinds if kind.figures}))


@dataclass
class _KindTotals:
    """The counts and durations of one kind of job, collected while jobs are read."""

    counts: dict[State, int] = field(default_factory=dict)
    failed: int = 0
    waits: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def add_job(self, job: Job, now_ms: int) -> None:
        """Add a job to the totals of its kind."""
        self.counts[job.state] = self.counts.get(job.state, 0) + 1
        self.failed += job.state is State.DEAD or job.attempts > 1 or bool(job.error)
        if is_failure(job):
            self.errors[normalise_job_error(job)] += 1
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
        """Build the report of a kind from its totals."""
        oldest = max(self.waits, default=None)
        return Kind(
            ref,
            name,
            self.counts,
            self.failed,
            _compute_median(self.waited or self.waits),
            _compute_median(self.runs or self.held),
            oldest,
            errors=tuple(self.errors.most_common(MAX_ERRORS)),
        )


def _compute_median(values: Sequence[int]) -> int | None:
    """Return the median of some durations in ms, rounded; None if there are none."""
    return round(median(values)) if values else None


def yield_kind_reports(engine: Engine, refs: Sequence[Ref]) -> Iterator[Kinds | None]:
    """Yield growing reports of the kinds of jobs, with None for steps that add nothing; the last report is complete.

    Each step is one round trip.
    """
    refs_with_kinds = [ref for ref in refs if "name" in engine.systems[ref.system].known_fields]
    silent = sampling.list_silent_systems(engine, refs, "name")
    survey = yield from sampling.yield_survey(engine, refs_with_kinds, tuple(State), MAX_PER_PLACE, MAX_JOBS)
    tallies: dict[tuple[Ref, str], _KindTotals] = {}
    statistics = _read_statistics(engine, refs_with_kinds, survey.problems)

    def build_kind_report() -> Kinds:
        kinds = [_add_statistics(tally.build_kind(ref, name), statistics) for (ref, name), tally in tallies.items()]
        kinds += _build_unsampled_kinds(kinds, statistics, refs_with_kinds, engine.refs)
        ranked = tuple(sorted(kinds, key=lambda kind: (-kind.count, kind.name, kind.ref.queue)))
        return Kinds(ranked, survey.compute_extent(), silent)

    for part in survey.parts:
        for page in survey.yield_pages(engine, part, is_newest=part.state in (State.DEAD, State.DONE)):
            for job in page.jobs:
                tallies.setdefault((part.ref, job.name), _KindTotals()).add_job(job, survey.taken_ms)
            yield None
        yield build_kind_report()
    yield build_kind_report()


_Statistics = Mapping[tuple[Ref, str], KindStatistics]  # by queue and kind; an empty queue name means all queues


def _read_statistics(engine: Engine, refs: Sequence[Ref], problems: list[str]) -> _Statistics:
    """Read the statistics per kind that the systems of these queues keep.

    One round trip reads the statistics of all queues, a second one those of single queues.
    """
    first_refs: dict[str, Ref] = {}
    for ref in refs:
        first_refs.setdefault(ref.system, ref)
    statistics = _fetch_statistics(engine, [*first_refs.values()], problems)
    systems_with_queue_statistics = {ref.system for ref, _name in statistics if ref.queue}
    other_refs = [ref for ref in refs if ref.system in systems_with_queue_statistics and ref not in first_refs.values()]
    return statistics | _fetch_statistics(engine, other_refs[: sampling.MAX_QUEUES], problems)


def _fetch_statistics(
    engine: Engine, refs: Sequence[Ref], problems: list[str]
) -> dict[tuple[Ref, str], KindStatistics]:
    """Fetch the statistics of these queues' systems in one round trip. Errors are added to `problems`."""
    requests = [
        (ref, request) for ref in refs if (request := engine.systems[ref.system].kinds_request(ref.queue)) is not None
    ]
    builders = [lambda request=request: request for _ref, request in requests]
    results = engine.send_requests_isolated(builders) if builders else []
    problems += [str(result) for result in results if isinstance(result, RqtuiError)]
    pairs = [
        (Ref(ref.system, statistics.queue), statistics)
        for (ref, _request), result in zip(requests, results, strict=True)
        if not isinstance(result, RqtuiError)
        for statistics in result
    ]
    return {(ref, statistics.kind): statistics for ref, statistics in pairs}


def _add_statistics(kind: Kind, all_statistics: _Statistics) -> Kind:
    """Return a kind with the statistics of its queue, else those of its system."""
    statistics = all_statistics.get((kind.ref, kind.name)) or all_statistics.get((Ref(kind.ref.system, ""), kind.name))
    return replace(kind, figures=statistics)


def _build_unsampled_kinds(
    kinds: Sequence[Kind], all_statistics: _Statistics, requested: Collection[Ref], known_refs: Collection[Ref]
) -> list[Kind]:
    """Build the kinds of which no job was sampled but statistics exist.

    Statistics of all queues are used only if every queue of the system was requested.
    """
    complete_systems = {ref.system for ref in requested} - {ref.system for ref in {*known_refs} - {*requested}}
    sampled = {(kind.ref, kind.name) for kind in kinds} | {(Ref(kind.ref.system, ""), kind.name) for kind in kinds}
    return [
        Kind(ref, name, {}, 0, None, None, None, statistics)
        for (ref, name), statistics in all_statistics.items()
        if (ref, name) not in sampled and (ref in requested if ref.queue else ref.system in complete_systems)
    ]
