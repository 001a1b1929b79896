"""Errors: dead jobs and those that will be tried again, grouped by what their errors have in common.

`normalise` takes out of a message what differs from job to job. A report is made from a bounded sample of each place;
who acts on a group looks through whole places with `members`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from rqtui.engine.engine import Engine
from rqtui.model import Job, Ref, State
from rqtui.reports import sampling
from rqtui.reports.sampling import Part, Size

PER_PLACE, IN_ALL = 5_000, 50_000  # jobs that a report looks at
SCAN = 100_000  # jobs of a place that are looked at for the members of a group
DATED = 50  # groups of jobs that wait for another try whose last failure is asked for
LONGEST = 200  # characters of a message
STATES = (State.DEAD, State.SCHEDULED)

# -- what two errors have in common ------------------------------------------------------------------------------------

_CLASS = re.compile(r"(?:[A-Za-z_]\w{0,40}\.){0,3}[A-Z]\w{0,60}[A-Za-z](?=:|$)")
# Whose quoted words are names in a program, and tell one fault from another.
_NAMES_CODE = frozenset({"KeyError", "AttributeError", "NameError", "TypeError", "ImportError", "ModuleNotFoundError"})
_QUOTED = r"""(?<!\w)'[^']*'(?!\w)|"[^"]*"|`[^`]*`"""
_VARIES = (
    r"(?<!\w)\w{1,20}://[^\s'\"`]+"  # URLs
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"  # addresses
    r"|(?<![\w#])(?:[A-Za-z]:)?[\\/](?:[\w.#+-]+[\\/])+[\w.#+-]*"  # paths
    r"|(?<![\w#-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w#-])"  # UUIDs
    r"|0[xX][0-9A-Fa-f]+"
    r"|(?<![\w#])(?=[A-Za-z]*\d)(?:[0-9A-Fa-f]{8,}|[0-9A-Za-z]{20,})(?![\w#])"  # digests and other generated ids
    r"|\d+(?:[.,:_-]\d+)*"
)
_ANY = re.compile(f"{_QUOTED}|{_VARIES}")
_ANY_BUT_QUOTED = re.compile(_VARIES)
_FRAME = re.compile(r'\s+File "')


@lru_cache(8192)  # a report is made again and again of the same jobs
def normalise(error: str) -> str:
    """What an error has in common with its like: one line, with `#` for numbers, ids, paths and what is quoted.

    The class of an exception stays, and so does what `KeyError` and its like quote: that is no data. Doing it again
    changes nothing. At most 200 characters; what a terminal obeys is still in it.
    """
    text = " ".join(line_of(error).split())[: 2 * LONGEST]
    named = _CLASS.match(text)
    name, rest = (named[0], text[named.end() :]) if named else ("", text)
    varies = _ANY_BUT_QUOTED if name.rpartition(".")[2] in _NAMES_CODE else _ANY
    # Twice: where it is cut, something may end that did not before.
    return name + _without(varies, _without(varies, rest)[: LONGEST - len(name)]).rstrip()


def _without(varies: re.Pattern[str], text: str) -> str:
    """Text with `#` for what varies, until there is no more: what is taken out may divide two halves of another."""
    before = None
    while text != before:
        before, text = text, varies.sub("#", text)
    return text


def line_of(error: str) -> str:
    """The line of an error that says what happened: of a traceback the one behind its last frame.

    Of a message with indented lines below it (a stack of another language) the first; else the last, which is where
    commands say why they ended.
    """
    lines = [line for line in error.splitlines() if line.strip()]
    if not lines:
        return ""
    frames = [at for at, line in enumerate(lines) if _FRAME.match(line)]
    if frames:
        behind = (line for line in lines[frames[-1] + 1 :] if not line[0].isspace())
        return next(behind, lines[-1])
    return lines[0] if len(lines) > 1 and lines[1][0].isspace() else lines[-1]


def is_meant(job: Job) -> bool:
    """Whether a job of these places belongs to a report: it is dead, or it failed and will be tried again."""
    return job.state is State.DEAD or bool(job.error and job.attempts)


def message(job: Job) -> str:
    """The group of a job; empty where no error is kept of it."""
    return normalise(job.error or job.problem)


# -- the report --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs whose errors say the same, as far as the sample goes, those that died last first.

    `first_ms` and `last_ms` are when they failed, as far as that is known. `example` is one of `jobs`.
    """

    message: str
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


@dataclass(frozen=True, slots=True)
class Errors:
    """The groups, the largest first, and what they were made from."""

    groups: tuple[Group, ...]
    size: Size
    silent: tuple[str, ...] = ()  # systems among these queues that keep no errors


@dataclass
class _Gathered:
    """Jobs by message, while they are looked at."""

    jobs: dict[str, list[Job]] = field(default_factory=dict)
    dates: dict[str, tuple[int, int]] = field(default_factory=dict)

    def groups(self) -> tuple[Group, ...]:
        made = (_group(message, jobs, self.dates.get(message)) for message, jobs in self.jobs.items())
        return tuple(sorted(made, key=lambda group: (-group.count, group.message)))


def report(engine: Engine, refs: Sequence[Ref]) -> Iterator[Errors | None]:
    """The report, more of it after each place, None between; the last one is whole. A step is a round trip."""
    silent = sampling.silent(engine, refs, "error")
    survey = yield from sampling.survey(engine, refs, STATES, PER_PLACE, IN_ALL)
    gathered = _Gathered()

    def so_far() -> Errors:
        return Errors(gathered.groups(), survey.size(), silent)

    for part in survey.parts:
        for page in survey.pages(engine, part, is_newest=part.state is State.DEAD):
            for job in filter(is_meant, page.jobs):
                gathered.jobs.setdefault(message(job), []).append(job)
            yield None
        yield so_far()
    gathered.dates.update(_dates(engine, gathered.groups()))
    yield so_far()


def _group(message: str, jobs: Sequence[Job], dates: tuple[int, int] | None) -> Group:
    """A group of its jobs; `dates` are known where none of them is dead."""
    ordered = sorted(jobs, key=lambda job: (job.state is not State.DEAD, -(job.since_ms or 0)))
    died = [job.since_ms for job in jobs if job.state is State.DEAD and job.since_ms]
    first, last = (min(died), max(died)) if died else dates or (None, None)
    dead = sum(job.state is State.DEAD for job in jobs)
    return Group(
        message,
        dead,
        len(jobs) - dead,
        first,
        last,
        tuple(sorted({job.name for job in jobs if job.name})),
        tuple(dict.fromkeys(Ref(job.layout, job.queue) for job in jobs)),
        tuple(ordered),
    )


def _dates(engine: Engine, groups: Sequence[Group]) -> dict[str, tuple[int, int]]:
    """When the example of groups without a dead job failed first and last, from its history, in one round trip."""
    undated = [group for group in groups if group.last_ms is None and group.retrying][:DATED]
    examples = [group.example for group in undated]
    asks = [partial(engine.layouts[job.layout].job_ask, job.queue, job.id, 0) for job in examples]
    found = engine.ask_each(asks) if asks else []
    return {
        group.message: (job.history[0].end_ms, job.history[-1].end_ms)
        for group, job in zip(undated, found, strict=True)
        if isinstance(job, Job) and job.history
    }


# -- all members of a group --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Members:
    """The jobs of a group found in a page, and how far the search is: `looked` of `of`; `left` it will not look at."""

    ref: Ref
    jobs: tuple[Job, ...]
    looked: int
    of: int
    left: int


def members(engine: Engine, refs: Sequence[Ref], wanted: str, states: Sequence[State] = STATES) -> Iterator[Members]:
    """Every job of a group, a round trip per step; of a place the newest 100 000 are looked at."""
    counted = [queue for some in sampling.counted(engine, refs) for queue in some]
    looked_at = sampling.parts(counted, states, SCAN, SCAN * 100)
    looked, of = 0, sum(min(part.count, part.most) for part in looked_at)
    left = sum(queue.count_in(state) for queue in counted for state in states) - of
    belongs = member_of(wanted)
    for part in looked_at:
        for page in sampling.pages(engine, part, is_newest=part.state is State.DEAD):
            looked += len(page.jobs)
            # The message instead of each job's own error: a hundred thousand of them are held until they are acted on.
            found = tuple(replace(job, error=wanted) for job in page.jobs if belongs(job))
            yield Members(part.ref, found, looked, of, left)


def member_of(wanted: str) -> Callable[[Job], bool]:
    """Whether a job belongs to the group of that message."""
    return lambda job: is_meant(job) and message(job) == wanted


def whole(engine: Engine, job: Job) -> Job:
    """The job with the whole text of its last error; as it is where it is gone."""
    found = engine.job(Ref(job.layout, job.queue), job.id, 0)
    return job if found is None else replace(found, error=found.history[-1].error if found.history else found.error)


__all__ = [
    "Errors",
    "Group",
    "Members",
    "Part",
    "line_of",
    "member_of",
    "members",
    "message",
    "normalise",
    "report",
    "whole",
]
