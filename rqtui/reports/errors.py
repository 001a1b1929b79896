"""Group failed jobs by the cause of their errors, for the errors view and `rqtui errors`.

Failed jobs are dead jobs, and jobs that failed and will be retried. `rqtui.text.causes` decides which errors have the
same cause. A report is built from a bounded sample of each place. To act on a group, `yield_group_members` scans whole
places and finds the jobs of that group only.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from rqtui.engine.engine import Engine
from rqtui.model import Cause, Job, Place, Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Extent, Part, Survey
from rqtui.text import causes, folding, formats, tracebacks
from rqtui.text.causes import Grouping, Key, ParsedError, Width, find_short_error_cause, parse_error
from rqtui.text.masking import mask_text

MAX_PER_PLACE, MAX_JOBS = 5_000, 50_000  # jobs that a report reads, per place and in total
MAX_SCANNED = 100_000  # jobs of a place searched for the members of a group
MAX_DATED_GROUPS = 50  # groups without dead jobs whose last failure is read
MAX_FULL_ERRORS = 10_000  # jobs of a report whose full errors are kept: 20 MB
GROWTH_PER_REPORT = 1.2  # a growing report is regrouped each time it has this many times more jobs
MAX_MESSAGE_LENGTH = folding.MAX_CHARS  # characters of a message
STATES = (State.DEAD, State.SCHEDULED)


def normalise_error(error: str) -> str:
    """Shorten an error to one line of at most 300 characters, with `#` for numbers, ids, paths and quoted text.

    Normalising twice changes nothing. Terminal control characters are kept.
    """
    return parse_error(error).title


def is_failure(job: Job) -> bool:
    """Return whether a job belongs in an error report: it is dead, or it failed and will be retried."""
    return job.state is State.DEAD or bool(job.error and job.attempts)


def normalise_job_error(job: Job) -> str:
    """Return the normalised error of a job; empty if the job has no error."""
    return normalise_error(job.error or job.problem)


SEPARATOR = "\x1f"  # of the parts of a key

# -- groups ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """A group of sampled jobs whose errors have the same cause; the job that failed last comes first.

    `message` is the common part of their errors, `cause` a short form of it, `frame` where the last error was raised
    (`charge.py:88`). `first_ms` and `last_ms` are the known times of failure; `messages` counts the distinct wordings.
    `key` identifies a group in a report. `example` is one of `jobs`.
    """

    key: Key
    message: str
    cause: str
    frame: str
    messages: int
    dead: int
    retrying: int
    first_ms: int | None
    last_ms: int | None
    kinds: tuple[str, ...]
    refs: tuple[Ref, ...]
    jobs: tuple[Job, ...]

    @property
    def count(self) -> int:
        """The number of sampled jobs in an error group."""
        return self.dead + self.retrying

    @property
    def example(self) -> Job:
        """The job of an error group that failed last."""
        return self.jobs[0]

    @property
    def short_message(self) -> str:
        """The message of an error group, with its error class shortened to the name without modules."""
        kind = self.key[0]
        if not kind or not self.message.startswith(kind):
            return self.message
        return causes.shorten_class_name(kind) + self.message[len(kind) :]

    @property
    def id(self) -> str:
        """The key of an error group as one text."""
        return SEPARATOR.join(self.key)


_Pairs = Sequence[tuple[Job, ParsedError]]
_Id = tuple[str, str, bytes]
_Dates = Mapping[_Id, tuple[int, int]]  # first and last failure of the jobs read for it


@dataclass(frozen=True, slots=True)
class Errors:
    """An error report: the error groups, largest first, and the size of the sample they come from.

    `grouping` finds the group of any job. `complete` maps each queue of which every dead job was read to their number.
    """

    groups: tuple[Group, ...]
    size: Extent
    silent: tuple[str, ...] = ()  # systems of these queues that store no errors
    grouping: Grouping = field(default_factory=Grouping)
    pairs: _Pairs = field(default=(), repr=False)
    dates: _Dates = field(default_factory=dict, repr=False)
    complete: Mapping[Ref, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of jobs in all error groups."""
        return sum(group.count for group in self.groups)

    def regroup(self, width: Width) -> Errors:
        """Return an error report of the same jobs with wider or narrower groups."""
        groups, grouping = _build_error_groups(self.pairs, width, self.dates)
        return replace(self, groups=groups, grouping=grouping)


def group_jobs(jobs: Iterable[Job], width: Width = Width.CAUSE) -> tuple[Group, ...]:
    """Group jobs by the cause of their errors, largest group first. Jobs that did not fail are left out."""
    groups, _grouping = _build_error_groups([(job, parse_job_error(job)) for job in jobs if is_failure(job)], width, {})
    return groups


def build_report(jobs: Iterable[Job], width: Width, size: Extent) -> Errors:
    """Build the error report of jobs that were read before; `size` says how many those are of how many."""
    pairs = [(job, parse_job_error(job)) for job in jobs if is_failure(job)]
    groups, grouping = _build_error_groups(pairs, width, {})
    return Errors(groups, size, grouping=grouping, pairs=tuple(pairs))


def find_group_id(report: Errors, job: Job) -> str:
    """Return the id of the error group of a job in a report."""
    return SEPARATOR.join(report.grouping.find_group_key(parse_job_error(job)))


def format_summary(groups: Sequence[Group], max_groups: int = 2) -> str:
    """Format the largest error groups, and the number of the others: `2 500 CardDeclined · 1 300 TimeoutError`."""
    group_texts = [
        f"{formats.format_long_count(group.count)} {group.cause or 'without an error'}" for group in groups[:max_groups]
    ]
    rest_text = [f"{len(groups) - max_groups} more"] if len(groups) > max_groups else []
    return " · ".join([*group_texts, *rest_text])


def parse_job_error(job: Job) -> ParsedError:
    """Parse the error of a job, or the problem of a job that could not be read."""
    return parse_error(job.error or job.problem)


def _build_error_groups(pairs: _Pairs, width: Width, dates: _Dates) -> tuple[tuple[Group, ...], Grouping]:
    """Group jobs with their parsed errors, and return the groups, largest first, with the grouping."""
    grouping = Grouping((error for _job, error in pairs), width)
    pairs_by_key: dict[Key, list[tuple[Job, ParsedError]]] = {}
    for job, error in pairs:
        pairs_by_key.setdefault(grouping.find_group_key(error), []).append((job, error))
    groups = (_build_error_group(key, group_pairs, width, dates) for key, group_pairs in pairs_by_key.items())
    return tuple(sorted(groups, key=lambda group: (-group.count, group.message, group.key))), grouping


def _build_error_group(key: Key, pairs: _Pairs, width: Width, dates: _Dates) -> Group:
    """Build an error group from its jobs. `dates` are used only if none of the jobs is dead."""
    ordered = sorted(pairs, key=lambda pair: (pair[0].state is not State.DEAD, -(pair[0].since_ms or 0)))
    jobs = tuple(job for job, _error in ordered)
    died_ms = [job.since_ms for job in jobs if job.state is State.DEAD and job.since_ms]
    known_dates = (
        [dates[_build_job_key(job)] for job in jobs if _build_job_key(job) in dates] if dates and not died_ms else []
    )
    first = min(died_ms, default=min((first for first, _last in known_dates), default=None))
    last = max(died_ms, default=max((last for _first, last in known_dates), default=None))
    dead_jobs = sum(job.state is State.DEAD for job in jobs)
    wordings = list({error.template: error for _job, error in ordered}.values())
    newest = ordered[0][1]
    return Group(
        key,
        causes.build_group_title([error for _job, error in ordered], width),
        causes.shorten_error_cause(newest),
        newest.frame.short if newest.frame else "",
        len(wordings),
        dead_jobs,
        len(jobs) - dead_jobs,
        first,
        last,
        tuple(sorted({job.name for job in jobs if job.name})),
        tuple(dict.fromkeys(Ref(job.system, job.queue) for job in jobs)),
        jobs,
    )


def _build_job_key(job: Job) -> _Id:
    """Return the system, the queue and the id of a job, which identify it among all jobs."""
    return job.system, job.queue, job.id


def _has_failures(place: Place) -> bool:
    """Return whether a place can contain failed jobs."""
    return place.has_failures


# -- the report --------------------------------------------------------------------------------------------------------


def yield_error_reports(engine: Engine, refs: Sequence[Ref], width: Width = Width.CAUSE) -> Iterator[Errors | None]:
    """Yield growing error reports, with None for steps that add nothing; the last report is complete.

    Each step is one round trip.
    """
    silent = sampling.list_silent_systems(engine, refs, "error")
    survey = yield from sampling.yield_survey(engine, refs, STATES, MAX_PER_PLACE, MAX_JOBS, _has_failures)
    pairs: list[tuple[Job, ParsedError]] = []
    jobs_of_next_report = 0.0
    complete: dict[Ref, int] = {}

    def build_error_report(dates: _Dates) -> Errors:
        groups, grouping = _build_error_groups(pairs, width, dates)
        return Errors(groups, survey.compute_extent(), silent, grouping, tuple(pairs), dates, complete)

    for part in survey.parts:
        for page in survey.yield_pages(engine, part, is_newest=part.state is State.DEAD):
            failures = [(job, parse_job_error(job)) for job in page.jobs if is_failure(job)]
            if len(pairs) >= MAX_FULL_ERRORS:
                failures = [
                    (replace(job, error=tracebacks.summarize_error(job.error)), error) for job, error in failures
                ]
            pairs += failures
            yield None
        if len(pairs) >= jobs_of_next_report:
            jobs_of_next_report = GROWTH_PER_REPORT * len(pairs)
            yield build_error_report({})
    complete.update(_count_complete_deaths(survey, pairs))
    for ref, counted in _count_death_causes(pairs, complete).items():
        found = [Cause(mask_text(text), jobs) for text, jobs in counted.most_common() if text]
        engine.store_complete_causes(ref, complete[ref], found)
    yield build_error_report(_read_failure_dates(engine, build_error_report({}).groups))


def _count_complete_deaths(survey: Survey, pairs: _Pairs) -> dict[Ref, int]:
    """Return the number of dead jobs of each queue of which all were read."""
    read = Counter((job.system, job.queue, job.place) for job, _error in pairs if job.state is State.DEAD)
    parts = [part for part in survey.parts if part.state is State.DEAD]
    read_parts = {part: read[part.ref.system, part.ref.queue, part.place] for part in parts}
    cut = {part.ref for part in parts if read_parts[part] < survey.counted.get(part, part.count)}
    complete: Counter[Ref] = Counter()
    for part, number in read_parts.items():
        complete[part.ref] += number
    return {ref: number for ref, number in complete.items() if number and ref not in cut}


def _count_death_causes(pairs: _Pairs, refs: Iterable[Ref]) -> dict[Ref, Counter[str]]:
    """Return for each of these queues how many dead jobs have each cause, as findings name it."""
    counted: dict[Ref, Counter[str]] = {ref: Counter() for ref in refs}
    for job, error in pairs:
        if (
            job.state is State.DEAD
            and job.error
            and (causes_of_queue := counted.get(Ref(job.system, job.queue))) is not None
        ):
            causes_of_queue[causes.shorten_error_cause(error)] += 1
    return counted


def _read_failure_dates(engine: Engine, groups: Sequence[Group]) -> dict[_Id, tuple[int, int]]:
    """Read the first and last failure of groups without dead jobs from one job of each, in one round trip."""
    undated = [group for group in groups if group.last_ms is None and group.retrying][:MAX_DATED_GROUPS]
    examples = [group.example for group in undated]
    request_builders = [partial(engine.systems[job.system].job_request, job.queue, job.id, 0) for job in examples]
    results = engine.send_requests_isolated(request_builders) if request_builders else []
    jobs = [(example, job) for example, job in zip(examples, results, strict=True) if isinstance(job, Job)]
    times_by_job = {
        _build_job_key(example): [run.end_ms or run.start_ms for run in job.history] for example, job in jobs
    }
    return {id: (min(filter(None, times_ms)), max(times_ms)) for id, times_ms in times_by_job.items() if any(times_ms)}


# -- all members of a group --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Members:
    """The jobs of one error group that were found in one page, and the progress of the search.

    `looked` of `of` jobs were read; `left` jobs will not be read.
    """

    ref: Ref
    jobs: tuple[Job, ...]
    looked: int
    of: int
    left: int


def yield_group_members(
    engine: Engine, refs: Sequence[Ref], wanted_key: Key, grouping: Grouping, states: Sequence[State] = STATES
) -> Iterator[Members]:
    """Yield all jobs of an error group, one page per round trip.

    Only the newest 100 000 jobs of each place are read.
    """
    queues = [queue for chunk in sampling.yield_queue_counts(engine, refs, _has_failures) for queue in chunk]
    parts = sampling.choose_places_to_sample(queues, states, MAX_SCANNED, MAX_SCANNED * 100)
    read_jobs, total = 0, sum(min(part.count, part.most) for part in parts)
    unread = sum(queue.count_in_state(state) for queue in queues for state in states) - total
    for part in parts:
        for page in sampling.yield_pages(engine, part, is_newest=part.state is State.DEAD):
            read_jobs += len(page.jobs)
            # The normalised error replaces the text, because 100 000 jobs are kept until the change runs.
            members = [
                replace(job, error=sys.intern(error.title))
                for job in page.jobs
                if is_failure(job) and grouping.find_group_key(error := parse_job_error(job)) == wanted_key
            ]
            yield Members(part.ref, tuple(members), read_jobs, total, unread)


def load_full_error(engine: Engine, job: Job) -> Job:
    """Load a job with the full text of its last error. A job that was deleted is returned as it is."""
    job_with_history = engine.fetch_job(Ref(job.system, job.queue), job.id, 0)
    return (
        job
        if job_with_history is None
        else replace(
            job_with_history,
            error=job_with_history.history[-1].error if job_with_history.history else job_with_history.error,
        )
    )


__all__ = [
    "Errors",
    "Group",
    "Grouping",
    "Key",
    "Members",
    "Part",
    "Width",
    "group_jobs",
    "yield_group_members",
    "normalise_job_error",
    "normalise_error",
    "yield_error_reports",
    "find_short_error_cause",
    "format_summary",
    "load_full_error",
]
