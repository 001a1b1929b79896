"""Group dead jobs and jobs that will be retried by the cause of their errors, for the errors view and `rqtui errors`.

`rqtui.text.causes` decides which errors have the same cause. A report is built from a bounded sample of each place. To
act on a group, `yield_members` scans whole places and finds the jobs of that group only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from rqtui.engine.engine import Engine
from rqtui.model import Job, Place, Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Extent, Part
from rqtui.text import causes, folding, formats, tracebacks
from rqtui.text.causes import Grouping, Key, ParsedError, Width, find_short_error_cause, parse_error

MAX_PER_PLACE, MAX_JOBS = 5_000, 50_000  # jobs that a report reads, per place and in total
MAX_SCANNED = 100_000  # jobs of a place searched for the members of a group
MAX_DATED_GROUPS = 50  # groups without dead jobs whose last failure is read
MAX_FULL_ERRORS = 10_000  # jobs of a report whose full errors are kept: 20 MB
GROWTH_PER_REPORT = 1.2  # a growing report is regrouped each time it has this many times more jobs
MAX_MESSAGE_LENGTH = folding.MAX_CHARS  # characters of a message
STATES = (State.DEAD, State.SCHEDULED)


def normalise(error: str) -> str:
    """Shorten an error to one line of at most 300 characters, with `#` for numbers, ids, paths and quoted text.

    Normalising twice changes nothing. Terminal control characters are kept.
    """
    return parse_error(error).title


def is_failure(job: Job) -> bool:
    """Return whether a job belongs in a report: it is dead, or it failed and will be retried."""
    return job.state is State.DEAD or bool(job.error and job.attempts)


def normalise_job_error(job: Job) -> str:
    """Return the normalised error of a job; empty if no error is stored."""
    return normalise(job.error or job.problem)


SEPARATOR = "\x1f"  # of the parts of a key

# -- groups ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """Sampled jobs whose errors have the same cause, the last that died first.

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
        """The number of sampled jobs in the group."""
        return self.dead + self.retrying

    @property
    def example(self) -> Job:
        """The job that failed last."""
        return self.jobs[0]

    @property
    def short_message(self) -> str:
        """The message, with its error class shortened to the name without modules."""
        kind = self.key[0]
        if not kind or not self.message.startswith(kind):
            return self.message
        return causes.shorten_class_name(kind) + self.message[len(kind) :]

    @property
    def id(self) -> str:
        """The key as one text."""
        return SEPARATOR.join(self.key)


_Pairs = Sequence[tuple[Job, ParsedError]]
_Id = tuple[str, str, bytes]
_Dates = Mapping[_Id, tuple[int, int]]  # first and last failure of the jobs read for it


@dataclass(frozen=True, slots=True)
class Errors:
    """The error groups of a report, largest first, with the sample they come from.

    `grouping` finds the group of any job.
    """

    groups: tuple[Group, ...]
    size: Extent
    silent: tuple[str, ...] = ()  # systems of these queues that store no errors
    grouping: Grouping = field(default_factory=Grouping)
    pairs: _Pairs = field(default=(), repr=False)
    dates: _Dates = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """The number of jobs in all groups."""
        return sum(group.count for group in self.groups)

    def regroup(self, width: Width) -> Errors:
        """Return a report of the same jobs with wider or narrower groups."""
        groups, grouping = _build_error_groups(self.pairs, width, self.dates)
        return replace(self, groups=groups, grouping=grouping)


def group_jobs(jobs: Iterable[Job], width: Width = Width.CAUSE) -> tuple[Group, ...]:
    """Group the given jobs by cause, largest group first; jobs that did not fail are left out."""
    groups, _grouping = _build_error_groups([(job, _parse_error(job)) for job in jobs if is_failure(job)], width, {})
    return groups


def find_group_id(report: Errors, job: Job) -> str:
    """Return the id of the group of a job in a report."""
    return SEPARATOR.join(report.grouping.find_group_key(_parse_error(job)))


def format_summary(groups: Sequence[Group], most: int = 2) -> str:
    """Format the largest groups, and the number of other ones: `2 500 CardDeclined · 1 300 TimeoutError`."""
    words = [
        f"{formats.format_count(group.count, width=9)} {group.cause or 'without an error'}" for group in groups[:most]
    ]
    more = [f"{len(groups) - most} more"] if len(groups) > most else []
    return " · ".join([*words, *more])


def _parse_error(job: Job) -> ParsedError:
    return parse_error(job.error or job.problem)


def _build_error_groups(pairs: _Pairs, width: Width, dates: _Dates) -> tuple[tuple[Group, ...], Grouping]:
    grouping = Grouping((what for _job, what in pairs), width)
    held: dict[Key, list[tuple[Job, ParsedError]]] = {}
    for job, what in pairs:
        held.setdefault(grouping.find_group_key(what), []).append((job, what))
    made = (_build_group(key, some, width, dates) for key, some in held.items())
    return tuple(sorted(made, key=lambda group: (-group.count, group.message, group.key))), grouping


def _build_group(key: Key, pairs: _Pairs, width: Width, dates: _Dates) -> Group:
    """Build a group from its jobs; `dates` are used only if none of them is dead."""
    ordered = sorted(pairs, key=lambda pair: (pair[0].state is not State.DEAD, -(pair[0].since_ms or 0)))
    jobs = tuple(job for job, _what in ordered)
    died = [job.since_ms for job in jobs if job.state is State.DEAD and job.since_ms]
    asked = [dates[_identify_job(job)] for job in jobs if _identify_job(job) in dates] if dates and not died else []
    first = min(died, default=min((first for first, _last in asked), default=None))
    last = max(died, default=max((last for _first, last in asked), default=None))
    dead = sum(job.state is State.DEAD for job in jobs)
    said_once = list({what.template: what for _job, what in ordered}.values())
    newest = ordered[0][1]
    return Group(
        key,
        causes.build_group_title([what for _job, what in ordered], width),
        causes.shorten_error_cause(newest),
        newest.frame.short if newest.frame else "",
        len(said_once),
        dead,
        len(jobs) - dead,
        first,
        last,
        tuple(sorted({job.name for job in jobs if job.name})),
        tuple(dict.fromkeys(Ref(job.system, job.queue) for job in jobs)),
        jobs,
    )


def _identify_job(job: Job) -> _Id:
    return job.system, job.queue, job.id


def _has_failures(place: Place) -> bool:
    return place.has_failures


# -- the report --------------------------------------------------------------------------------------------------------


def yield_reports(engine: Engine, refs: Sequence[Ref], width: Width = Width.CAUSE) -> Iterator[Errors | None]:
    """Yield growing reports after some places and None between; the last one is complete.

    Each step is one round trip.
    """
    silent = sampling.list_silent_systems(engine, refs, "error")
    survey = yield from sampling.yield_survey(engine, refs, STATES, MAX_PER_PLACE, MAX_JOBS, _has_failures)
    pairs: list[tuple[Job, ParsedError]] = []
    shown = 0

    def build_report(dates: _Dates) -> Errors:
        groups, grouping = _build_error_groups(pairs, width, dates)
        return Errors(groups, survey.compute_extent(), silent, grouping, tuple(pairs), dates)

    for part in survey.parts:
        for page in survey.yield_pages(engine, part, is_newest=part.state is State.DEAD):
            read = [(job, _parse_error(job)) for job in page.jobs if is_failure(job)]
            if len(pairs) >= MAX_FULL_ERRORS:
                read = [(replace(job, error=tracebacks.summarize_error(job.error)), what) for job, what in read]
            pairs += read
            yield None
        if len(pairs) >= GROWTH_PER_REPORT * shown:
            shown = len(pairs)
            yield build_report({})
    yield build_report(_read_failure_dates(engine, build_report({}).groups))


def _read_failure_dates(engine: Engine, groups: Sequence[Group]) -> dict[_Id, tuple[int, int]]:
    """Return the first and last failure of the example jobs of groups without dead jobs, read in one round trip."""
    undated = [group for group in groups if group.last_ms is None and group.retrying][:MAX_DATED_GROUPS]
    examples = [group.example for group in undated]
    asks = [partial(engine.systems[job.system].job_request, job.queue, job.id, 0) for job in examples]
    found = engine.send_requests_isolated(asks) if asks else []
    jobs = [(example, job) for example, job in zip(examples, found, strict=True) if isinstance(job, Job)]
    known = {_identify_job(example): [run.end_ms or run.start_ms for run in job.history] for example, job in jobs}
    return {id: (min(filter(None, times_ms)), max(times_ms)) for id, times_ms in known.items() if any(times_ms)}


# -- all members of a group --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Members:
    """Jobs of a group found in one page, and the progress of the search.

    `looked` of `of` jobs were read; `left` jobs will not be read.
    """

    ref: Ref
    jobs: tuple[Job, ...]
    looked: int
    of: int
    left: int


def yield_members(
    engine: Engine, refs: Sequence[Ref], wanted: Key, grouping: Grouping, states: Sequence[State] = STATES
) -> Iterator[Members]:
    """Yield all jobs of a group, one page per round trip; only the newest 100 000 jobs of each place are read."""
    counted = [queue for some in sampling.yield_counts(engine, refs, _has_failures) for queue in some]
    looked_at = sampling.choose_parts(counted, states, MAX_SCANNED, MAX_SCANNED * 100)
    looked, of = 0, sum(min(part.count, part.most) for part in looked_at)
    left = sum(queue.count_in_state(state) for queue in counted for state in states) - of
    for part in looked_at:
        for page in sampling.yield_pages(engine, part, is_newest=part.state is State.DEAD):
            looked += len(page.jobs)
            # The normalised error replaces the text, because 100 000 jobs are kept until the change runs.
            found = [
                replace(job, error=sys.intern(what.title))
                for job in page.jobs
                if is_failure(job) and grouping.find_group_key(what := _parse_error(job)) == wanted
            ]
            yield Members(part.ref, tuple(found), looked, of, left)


def load_full_error(engine: Engine, job: Job) -> Job:
    """Return the job with the full text of its last error; unchanged if it is deleted."""
    found = engine.fetch_job(Ref(job.system, job.queue), job.id, 0)
    return job if found is None else replace(found, error=found.history[-1].error if found.history else found.error)


__all__ = [
    "Errors",
    "Group",
    "Grouping",
    "Key",
    "Members",
    "Part",
    "Width",
    "group_jobs",
    "yield_members",
    "normalise_job_error",
    "normalise",
    "yield_reports",
    "find_short_error_cause",
    "format_summary",
    "load_full_error",
]
