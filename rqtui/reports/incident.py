"""Gather what an operator needs to know about a queue with problems: findings, errors, workers, differences, changes.

The report combines those of `reports/errors`, `reports/workers` and `reports/comparison` with the journal of changes.
Called by `rqtui incident`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rqtui.engine import history as stats
from rqtui.engine.engine import Engine
from rqtui.errors import RqtuiError
from rqtui.model import Finding, Queue, Ref, State
from rqtui.operations.journal import Operation, Sighting
from rqtui.reports import comparison as comparisons
from rqtui.reports.comparison import Comparison, Selection
from rqtui.reports.course import Course, Series, build_counted_course, build_marks, choose_series, choose_span
from rqtui.reports.errors import Errors, yield_error_reports
from rqtui.reports.workers import UNHEALTHY, WorkerEntry, has_workers, load_workers

DAY_MS = 86_400_000
REACTION_MS = 3_600_000  # a change this soon after a finding appeared is shown as a reaction to it
MAX_PRECEDENTS = 5


class Effect(NamedTuple):
    """The mean of a series in the ten minutes before a change and in the ten minutes after; None: unknown."""

    series: Series
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Precedent:
    """An earlier appearance of a finding of the same kind, and the changes of the queue in the hour after it.

    `ended_ms` is when the finding disappeared; None: nothing recorded that. `effect` is None without a recording.
    """

    sighting: Sighting
    changes: tuple[Operation, ...]
    ended_ms: int | None
    effect: Effect | None = None


class EndedFinding(NamedTuple):
    """A finding that a report was requested about, and that is over by now; `ended_ms` None: nothing recorded when."""

    finding: Finding
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class Incident:
    """The report of one queue with problems.

    The report is about the first finding of `queue`: its worst one, or the one that `put_finding_first` put there.
    `ended` is set if the requested finding is over. `errors` is None if no error is stored. `comparison` is None where
    there is nothing to compare; `not_compared` says why. `changes` are those of the last day on this machine, the
    newest first. `problems` are sentences about what could not be read.
    """

    ref: Ref
    taken_ms: int
    queue: Queue
    errors: Errors | None = None
    workers: tuple[WorkerEntry, ...] = ()
    are_workers_known: bool = True
    comparison: Comparison | None = None
    not_compared: str = ""
    changes: tuple[Operation, ...] = ()
    precedents: tuple[Precedent, ...] = ()
    problems: tuple[str, ...] = field(default=())
    recorded_causes: tuple[tuple[str, int], ...] | None = None  # causes and jobs of a past moment
    course: Course | None = None  # of what the first finding counts; None: nothing is recorded or counted
    is_complete: bool = True  # False while parts are still being read
    recorded_begin_ms: int | None = None  # when the first finding began, as far as it is known
    ended: EndedFinding | None = None

    @property
    def silent_workers(self) -> list[WorkerEntry]:
        """The workers that sent no heartbeat in time, or whose leases are over."""
        return [entry for entry in self.workers if entry.health in UNHEALTHY]


def find_same_finding(queue: Queue, finding: Finding) -> Finding | None:
    """Return the finding of the queue with the same kind and Redis keys, else with the same kind, else None."""
    same_kind = [each for each in queue.findings if each.kind == finding.kind]
    return next((each for each in same_kind if each.keys == finding.keys), same_kind[0] if same_kind else None)


def put_finding_first(queue: Queue, finding: Finding) -> Queue:
    """Return the queue with one of its findings before the others, so that a report is about this finding."""
    others = [each for each in queue.findings if each is not finding]
    return queue._replace(findings=(finding, *others))


def find_end_ms(ref: Ref, kind: str, sightings: Sequence[Sighting]) -> int | None:
    """Return when the last finding of this kind ended, or None if that was not recorded. `sightings`: oldest first."""
    own = [each for each in sightings if (each.system, each.queue, each.kind) == (ref.system, ref.queue, kind)]
    return own[-1].at_ms if own and own[-1].is_over else None


def yield_incident_reports(
    engine: Engine,
    ref: Ref,
    queue: Queue,
    taken_ms: int,
    operations: Sequence[Operation],
    sightings: Sequence[Sighting],
) -> Iterator[Incident | None]:
    """Yield a first report, then None for each round trip, and at last the complete report of one queue.

    `queue` has the findings of a snapshot that was taken at `taken_ms`. `operations` are the changes of this Redis that
    the journal has, the newest first, `sightings` its findings, the oldest first.
    """
    incident = Incident(
        ref,
        taken_ms,
        queue,
        changes=tuple(each for each in operations if ref in each.refs and each.at_ms >= taken_ms - DAY_MS),
        precedents=tuple(find_precedents(ref, queue, taken_ms, operations, sightings)),
    )
    incident = replace(incident, course=_read_counted_course(engine, ref, queue, taken_ms, operations, sightings))
    yield replace(incident, is_complete=False)
    errors: Errors | None = None
    for step in yield_error_reports(engine, [ref]):
        errors = step or errors
        yield None
    if errors is not None:
        incident = replace(incident, errors=errors if errors.groups else None, problems=tuple(errors.size.problems))
    if has_workers(engine.systems[ref.system]):
        entries, _now_ms, problems = load_workers(engine, [ref])
        incident = replace(incident, workers=entries, problems=(*incident.problems, *problems))
        yield None
    else:
        incident = replace(incident, are_workers_known=False)
    compared, reason = yield from _compare_dead_jobs(engine, ref, queue)
    yield replace(incident, comparison=compared, not_compared=reason)


def _read_counted_course(
    engine: Engine,
    ref: Ref,
    queue: Queue,
    now_ms: int,
    operations: Sequence[Operation],
    sightings: Sequence[Sighting],
) -> Course | None:
    """Read what the first finding counts from the minute counters of the system; None if it has none of it."""
    system, first = engine.systems[ref.system], queue.findings[0] if queue.findings else None
    series = choose_series(first.kind if first else "")
    if not stats.has_history(system) or series.is_level:
        return None
    begin_ms, end_ms = choose_span(first.since_ms if first else None, now_ms)
    minutes = (end_ms - begin_ms) // stats.MINUTE_MS + 1
    [history] = engine.send_requests_isolated([lambda: stats.build_history_request(system, ref.queue, minutes)])
    if not isinstance(history, stats.History):
        return None  # The counters could not be read; the reports of the errors and workers say why.
    course = build_counted_course(history, series, begin_ms, end_ms)
    marks = build_marks(ref, begin_ms, end_ms, operations, sightings)
    return replace(course, marks=marks) if course else None


def build_past_incident(
    queue: Queue,
    at_ms: int,
    causes: Sequence[tuple[str, int]],
    operations: Sequence[Operation],
    sightings: Sequence[Sighting],
) -> Incident:
    """Build the report of a queue at a past moment, from its recorded counts, findings and causes of failures.

    A recording has no sample of jobs and no workers. Later changes and findings are left out.
    """
    ref = Ref(queue.system, queue.name)
    earlier = [each for each in operations if each.at_ms <= at_ms]
    seen = [each for each in sightings if each.at_ms <= at_ms]
    return Incident(
        ref,
        at_ms,
        queue,
        are_workers_known=False,
        not_compared="a recording has no sample of jobs",
        changes=tuple(each for each in earlier if ref in each.refs and each.at_ms >= at_ms - DAY_MS),
        precedents=tuple(find_precedents(ref, queue, at_ms, earlier, seen)),
        recorded_causes=tuple(causes),
    )


def _compare_dead_jobs(engine: Engine, ref: Ref, queue: Queue) -> Generator[None, None, tuple[Comparison | None, str]]:
    """Compare the dead jobs with done ones, or with ready ones. Return the comparison, and why there is none."""
    system = engine.systems[ref.system]
    stored = {place.state for place in system.places if not place.is_from_events and queue.count_in_place(place.name)}
    if State.DEAD not in stored:
        return None, "no dead job is stored"
    other = next((state for state in (State.DONE, State.READY) if state in stored), None)
    if other is None:
        return None, "no done or ready job is stored that the dead ones could be compared with"
    found: Comparison | None = None
    try:
        for step in comparisons.yield_comparisons(engine, ref, Selection(("dead",)), Selection((other.value,))):
            found = step or found
            yield None
    except RqtuiError as error:
        return None, str(error)
    return found, ""


def find_precedents(
    ref: Ref, queue: Queue, now_ms: int, operations: Sequence[Operation], sightings: Sequence[Sighting]
) -> Iterator[Precedent]:
    """Yield earlier appearances of the queue's first finding that were followed by a change, the newest first."""
    if not queue.findings:
        return
    kind, began_ms = queue.findings[0].kind, queue.findings[0].since_ms or now_ms
    own = [each for each in sightings if (each.system, each.queue, each.kind) == (ref.system, ref.queue, kind)]
    number = 0
    for at, sighting in reversed([*enumerate(own)]):
        if sighting.is_over or sighting.at_ms >= began_ms - REACTION_MS:
            continue
        changes = tuple(
            each
            for each in reversed(operations)
            if ref in each.refs and 0 <= (each.began_ms or each.at_ms) - sighting.at_ms <= REACTION_MS
        )
        if changes and number < MAX_PRECEDENTS:
            number += 1
            ended = own[at + 1] if at + 1 < len(own) and own[at + 1].is_over else None
            yield Precedent(sighting, changes, ended.at_ms if ended else None)


def count_hosts(entries: Sequence[WorkerEntry]) -> Counter[str]:
    """Count workers by their host; workers without one are left out."""
    return Counter(entry.worker.host for entry in entries if entry.worker is not None and entry.worker.host)


def count_versions(entries: Sequence[WorkerEntry]) -> Counter[str]:
    """Count workers by the version that they report, such as `RQ 2.6, Python 3.12`. Others are left out."""
    facts = (fact for entry in entries if entry.worker is not None for fact in entry.worker.facts)
    return Counter(fact.value for fact in facts if fact.name == "version" and isinstance(fact.value, str))
