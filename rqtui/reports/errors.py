"""Errors: dead jobs and those that will be tried again, grouped by their cause.

`rqtui.text.causes` says which errors have the same cause. A report is made from a bounded sample of each place; who
acts on a group looks through whole places with `members`, which finds the jobs of that group and of no other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from rqtui.engine.engine import Engine
from rqtui.model import Job, Place, Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Part, Size
from rqtui.text import causes, folding, formats, tracebacks
from rqtui.text.causes import Grouping, Key, Said, Width, said, short_cause

PER_PLACE, IN_ALL = 5_000, 50_000  # jobs that a report looks at
SCAN = 100_000  # jobs of a place that are looked at for the members of a group
DATED = 50  # groups of jobs that wait for another try whose last failure is asked for
HELD = 10_000  # jobs of a report whose errors are held whole: 20 MB
GROWN = 1.2  # so many times the jobs of the last groups make new ones while a report is on its way
LONGEST = folding.LONGEST  # characters of a message
STATES = (State.DEAD, State.SCHEDULED)


def normalise(error: str) -> str:
    """What an error says, with `#` for numbers, ids, paths and what is quoted: one line of at most 300 characters.

    Doing it again changes nothing. What a terminal obeys is still in it.
    """
    return said(error).title


def is_meant(job: Job) -> bool:
    """Whether a job of these places belongs to a report: it is dead, or it failed and will be tried again."""
    return job.state is State.DEAD or bool(job.error and job.attempts)


def message(job: Job) -> str:
    """What the error of a job says; empty where no error is kept of it."""
    return normalise(job.error or job.problem)


SEPARATOR = "\x1f"  # of the parts of a key

# -- groups ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs whose errors have the same cause, as far as the sample goes, those that died last first.

    `message` is what their errors have in common, `cause` the same in a few words, `frame` where the last one was
    raised (`charge.py:88`). `first_ms` and `last_ms` are when they failed, as far as that is known; `messages` is how
    many wordings there are. `key` tells two groups of a report apart. `example` is one of `jobs`.
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
        """How many there are in the sample."""
        return self.dead + self.retrying

    @property
    def example(self) -> Job:
        """The one that failed last."""
        return self.jobs[0]

    @property
    def short_message(self) -> str:
        """The message, its class without the modules that it stands in."""
        kind = self.key[0]
        if not kind or not self.message.startswith(kind):
            return self.message
        return causes.short_kind(kind) + self.message[len(kind) :]

    @property
    def id(self) -> str:
        """The key as one text."""
        return SEPARATOR.join(self.key)


_Pairs = Sequence[tuple[Job, Said]]
_Id = tuple[str, str, bytes]
_Dates = Mapping[_Id, tuple[int, int]]  # when jobs failed first and last, where that was asked for


@dataclass(frozen=True, slots=True)
class Errors:
    """The groups, the largest first, and what they were made from. `grouping` tells the group of any other job."""

    groups: tuple[Group, ...]
    size: Size
    silent: tuple[str, ...] = ()  # systems among these queues that keep no errors
    grouping: Grouping = field(default_factory=Grouping)
    pairs: _Pairs = field(default=(), repr=False)
    dates: _Dates = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Jobs of all groups."""
        return sum(group.count for group in self.groups)

    def at(self, width: Width) -> Errors:
        """The same jobs in wider or narrower groups."""
        groups, grouping = _grouped(self.pairs, width, self.dates)
        return replace(self, groups=groups, grouping=grouping)


def grouped(jobs: Iterable[Job], width: Width = Width.CAUSE) -> tuple[Group, ...]:
    """The groups of jobs that somebody has at hand, the largest first; jobs that did not fail are left out."""
    groups, _grouping = _grouped([(job, _said(job)) for job in jobs if is_meant(job)], width, {})
    return groups


def group_id(report: Errors, job: Job) -> str:
    """The id of the group that a job is in by the grouping of a report."""
    return SEPARATOR.join(report.grouping.key(_said(job)))


def summary(groups: Sequence[Group], most: int = 2) -> str:
    """`2 500 CardDeclined · 1 300 TimeoutError`: the largest groups, and how many more there are."""
    words = [f"{formats.count(group.count, width=9)} {group.cause or 'without an error'}" for group in groups[:most]]
    more = [f"{len(groups) - most} more"] if len(groups) > most else []
    return " · ".join([*words, *more])


def _said(job: Job) -> Said:
    return said(job.error or job.problem)


def _grouped(pairs: _Pairs, width: Width, dates: _Dates) -> tuple[tuple[Group, ...], Grouping]:
    grouping = Grouping((what for _job, what in pairs), width)
    held: dict[Key, list[tuple[Job, Said]]] = {}
    for job, what in pairs:
        held.setdefault(grouping.key(what), []).append((job, what))
    made = (_group(key, some, width, dates) for key, some in held.items())
    return tuple(sorted(made, key=lambda group: (-group.count, group.message, group.key))), grouping


def _group(key: Key, pairs: _Pairs, width: Width, dates: _Dates) -> Group:
    """A group of its jobs; `dates` are known where none of them is dead."""
    ordered = sorted(pairs, key=lambda pair: (pair[0].state is not State.DEAD, -(pair[0].since_ms or 0)))
    jobs = tuple(job for job, _what in ordered)
    died = [job.since_ms for job in jobs if job.state is State.DEAD and job.since_ms]
    asked = [dates[_id(job)] for job in jobs if _id(job) in dates] if dates and not died else []
    first = min(died, default=min((first for first, _last in asked), default=None))
    last = max(died, default=max((last for _first, last in asked), default=None))
    dead = sum(job.state is State.DEAD for job in jobs)
    said_once = list({what.template: what for _job, what in ordered}.values())
    newest = ordered[0][1]
    return Group(
        key,
        causes.title([what for _job, what in ordered], width),
        causes.short_of(newest),
        newest.frame.short if newest.frame else "",
        len(said_once),
        dead,
        len(jobs) - dead,
        first,
        last,
        tuple(sorted({job.name for job in jobs if job.name})),
        tuple(dict.fromkeys(Ref(job.layout, job.queue) for job in jobs)),
        jobs,
    )


def _id(job: Job) -> _Id:
    return job.layout, job.queue, job.id


def _of_failures(place: Place) -> bool:
    return place.failures


# -- the report --------------------------------------------------------------------------------------------------------


def report(engine: Engine, refs: Sequence[Ref], width: Width = Width.CAUSE) -> Iterator[Errors | None]:
    """The report, more of it after some places, None between; the last one is whole. A step is a round trip."""
    silent = sampling.silent(engine, refs, "error")
    survey = yield from sampling.survey(engine, refs, STATES, PER_PLACE, IN_ALL, _of_failures)
    pairs: list[tuple[Job, Said]] = []
    shown = 0

    def so_far(dates: _Dates) -> Errors:
        groups, grouping = _grouped(pairs, width, dates)
        return Errors(groups, survey.size(), silent, grouping, tuple(pairs), dates)

    for part in survey.parts:
        for page in survey.pages(engine, part, is_newest=part.state is State.DEAD):
            read = [(job, _said(job)) for job in page.jobs if is_meant(job)]
            if len(pairs) >= HELD:
                read = [(replace(job, error=tracebacks.line_of(job.error)), what) for job, what in read]
            pairs += read
            yield None
        if len(pairs) >= GROWN * shown:
            shown = len(pairs)
            yield so_far({})
    yield so_far(_dates(engine, so_far({}).groups))


def _dates(engine: Engine, groups: Sequence[Group]) -> dict[_Id, tuple[int, int]]:
    """When the example of groups without a dead job failed first and last, from its history, in one round trip."""
    undated = [group for group in groups if group.last_ms is None and group.retrying][:DATED]
    examples = [group.example for group in undated]
    asks = [partial(engine.layouts[job.layout].job_ask, job.queue, job.id, 0) for job in examples]
    found = engine.ask_each(asks) if asks else []
    jobs = [(example, job) for example, job in zip(examples, found, strict=True) if isinstance(job, Job)]
    known = {_id(example): [run.end_ms or run.start_ms for run in job.history] for example, job in jobs}
    return {id: (min(filter(None, times_ms)), max(times_ms)) for id, times_ms in known.items() if any(times_ms)}


# -- all members of a group --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Members:
    """The jobs of a group found in a page, and how far the search is: `looked` of `of`; `left` it will not look at."""

    ref: Ref
    jobs: tuple[Job, ...]
    looked: int
    of: int
    left: int


def members(
    engine: Engine, refs: Sequence[Ref], wanted: Key, grouping: Grouping, states: Sequence[State] = STATES
) -> Iterator[Members]:
    """Every job of a group of that grouping, a round trip per step; of a place the newest 100 000 are looked at."""
    counted = [queue for some in sampling.counted(engine, refs, _of_failures) for queue in some]
    looked_at = sampling.parts(counted, states, SCAN, SCAN * 100)
    looked, of = 0, sum(min(part.count, part.most) for part in looked_at)
    left = sum(queue.count_in(state) for queue in counted for state in states) - of
    for part in looked_at:
        for page in sampling.pages(engine, part, is_newest=part.state is State.DEAD):
            looked += len(page.jobs)
            # What the error says instead of its text: a hundred thousand of them are held until they are acted on.
            found = [
                replace(job, error=sys.intern(what.title))
                for job in page.jobs
                if is_meant(job) and grouping.key(what := _said(job)) == wanted
            ]
            yield Members(part.ref, tuple(found), looked, of, left)


def whole(engine: Engine, job: Job) -> Job:
    """The job with the whole text of its last error; as it is where it is gone."""
    found = engine.job(Ref(job.layout, job.queue), job.id, 0)
    return job if found is None else replace(found, error=found.history[-1].error if found.history else found.error)


__all__ = [
    "Errors",
    "Group",
    "Grouping",
    "Key",
    "Members",
    "Part",
    "Width",
    "grouped",
    "members",
    "message",
    "normalise",
    "report",
    "short_cause",
    "summary",
    "whole",
]
