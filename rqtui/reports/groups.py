"""Group the jobs of a place by a body field, by kind, worker, host, error or age: who fills the queue.

A report is built from a bounded sample: all jobs of a place of up to `MAX_JOBS`, else jobs at random positions where
the place allows that. Each group has the filter that selects its jobs, for `rqtui act` and for the board. Called by the
groups view and by `rqtui group`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rqtui.engine import filters
from rqtui.engine.engine import Engine
from rqtui.engine.filters import Filter
from rqtui.engine.job_times import find_end_ms, find_start_ms
from rqtui.errors import RqtuiError
from rqtui.model import Job, Page, PageSelection, Ref, State
from rqtui.reports import sampling
from rqtui.reports.attributes import AGE_FILTERS, BODY_BYTES, list_group_values
from rqtui.reports.hosts import Hosts, load_hosts
from rqtui.reports.sampling import Extent, Part, Survey
from rqtui.system_base.system import page_request, quote_for_shell
from rqtui.text.masking import MASK, mask_text
from rqtui.verbs import VERBS

MAX_JOBS = 5_000  # jobs that a report reads, with up to `BODY_BYTES` of each body
MAX_DONE_JOBS = 1_000  # the done jobs last ended that are read for the rate of each group
MIN_DONE_MS = 1_000  # a shorter time gives no rate
USUAL_VERBS: Mapping[State, tuple[str, ...]] = {  # of the example command, the first that the system has
    State.SCHEDULED: ("promote", "delete", "kill"),
    State.READY: ("delete", "kill"),
    State.RESERVED: ("release", "reject", "kill"),
    State.DONE: ("requeue", "delete"),
    State.DEAD: ("requeue", "delete"),
}
_FILTER_FIELDS = {"kind": "job", "worker": "worker", "host": "worker", "error": "err"}


@dataclass(frozen=True, slots=True)
class Group:
    """The sampled jobs with the same value in a field.

    `value` is None for jobs that have no value, and for jobs whose value is unknown (`is_unknown`). `filter_text`
    selects exactly these jobs; empty if no filter does, and `problem` says why. `done_per_s` is None if it is unknown.
    """

    value: str | None
    jobs: int
    by_place: Mapping[str, int]
    oldest_ms: int | None  # an age: how long the oldest job is in its place, or since it was enqueued
    filter_text: str = ""
    problem: str = ""
    is_unknown: bool = False
    done_per_s: float | None = None

    @property
    def place(self) -> str:
        """The place with the most jobs of a group."""
        return max(self.by_place, key=lambda place: self.by_place[place])


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of the jobs of some places, largest first, and the sample that they come from.

    `matched` is the number of jobs read that match the report's filter. `is_random` is False if the first jobs of a
    place were read instead of jobs at random positions. `done_ms` is the duration that the rates cover, 0 if they are
    unknown for the reason `rate_problem`. `has_hosts` is true if the host of a job's worker is known.
    """

    ref: Ref
    by: str
    places: tuple[str, ...]
    groups: tuple[Group, ...]
    size: Extent
    matched: int
    is_random: bool
    done_ms: int
    rate_problem: str
    verbs: tuple[str, ...] = ()  # that the system has for jobs of these places
    states: Mapping[str, State] = field(default_factory=dict)  # by place
    has_hosts: bool = False

    def find_usual_verb(self, group: Group) -> str:
        """Return the verb of the example command for a group; empty if the system has none."""
        return next((verb for verb in USUAL_VERBS[self.states[group.place]] if verb in self.verbs), "")

    def estimate_jobs(self, group: Group) -> int:
        """Estimate how many jobs of the places are in a group, from its share of the jobs that were read."""
        is_exact = self.size.looked >= self.size.of
        return group.jobs if is_exact else round(group.jobs * self.size.of / self.size.looked)

    def build_dry_run_command(self, group: Group, queue_argument: str) -> str:
        """Build the command that shows what the usual verb would do to a group; empty without a filter or a verb."""
        verb = self.find_usual_verb(group)
        if not group.filter_text or not verb:
            return ""
        words = f"rqtui act {verb} {queue_argument} --place {quote_for_shell(group.place)}"
        return f"{words} --filter {quote_for_shell(group.filter_text)} --dry-run"


@dataclass
class _Totals:
    jobs: int = 0
    by_place: dict[str, int] = field(default_factory=dict)
    oldest_ms: int | None = None

    def add_job(self, job: Job, now_ms: int) -> None:
        """Count a job of a group."""
        self.jobs += 1
        self.by_place[job.place] = self.by_place.get(job.place, 0) + 1
        if (start_ms := find_start_ms(job)) is not None:
            self.oldest_ms = max(self.oldest_ms or 0, now_ms - start_ms)


_Key = tuple[str | None, bool]  # the value, and whether it is unknown


@dataclass
class _Sample:
    """What was read so far of the jobs to group."""

    survey: Survey
    by: str
    accepts: Filter
    hosts: Hosts
    expression: str = ""
    totals: dict[_Key, _Totals] = field(default_factory=dict)
    errors: dict[str, set[str]] = field(default_factory=dict)  # of jobs by group, if they are grouped by error
    workers: set[str] = field(default_factory=set)  # of the jobs
    matched: int = 0

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        """Count the jobs of a page that match the filter."""
        now_ms = self.survey.taken_ms
        for job in filter(self.accepts, jobs):
            self.matched += 1
            values = list_group_values(job, self.by, now_ms, self.hosts.find_host)
            if job.worker:
                self.workers.add(job.worker)
            keys: list[_Key] = [(None, True)] if values is None else [(value, False) for value in values]
            for key in keys or [(None, False)]:
                self.totals.setdefault(key, _Totals()).add_job(job, now_ms)
            if self.by == "error" and values:
                self.errors.setdefault(values[0], set()).add(job.error)

    def build_groups(self, rates: _Rates) -> tuple[Group, ...]:
        """Build the groups of the jobs counted so far, largest first; ages in their own order."""
        texts = [value for value, _is_unknown in self.totals if value is not None]
        has_unknown = (None, True) in self.totals
        groups = [
            Group(
                value,
                totals.jobs,
                totals.by_place,
                totals.oldest_ms,
                # The term comes first, because an expression may end without its closing slash.
                f"{term} {self.expression}".strip() if term else "",
                problem,
                is_unknown,
                None if is_unknown or not rates.duration_ms else rates.by_value.get(value or "", 0.0),
            )
            for (value, is_unknown), totals in self.totals.items()
            for term, problem in [self._build_filter(value, texts, is_unknown=is_unknown, has_unknown=has_unknown)]
        ]
        if self.by == "age":
            order = [*AGE_FILTERS]
            return tuple(sorted(groups, key=lambda group: order.index(group.value) if group.value else len(order)))
        return tuple(sorted(groups, key=lambda group: (-group.jobs, group.value is None, group.value or "")))

    def _build_filter(
        self, value: str | None, texts: Sequence[str], *, is_unknown: bool, has_unknown: bool
    ) -> tuple[str, str]:
        """Return the filter that selects the jobs of a group, and why there is none."""
        if is_unknown and self.by == "host":
            return "", "the hosts of their workers are unknown"
        if is_unknown:
            return "", f"the bodies are longer than {BODY_BYTES} bytes, or the age is not stored"
        if self.by == "age":
            return (AGE_FILTERS[value], "") if value is not None else ("", "the age is not stored")
        name = _FILTER_FIELDS.get(self.by, self.by)
        if value is None:
            if (has_unknown and self.by != "host") or not filters.build_exact_term(name, ""):
                return "", "a filter would also select jobs whose bodies are too long to be read"
            return f"!{name}:/{'^' if name.startswith('.') else '.'}/", ""
        if MASK in value:
            return "", "the value is masked"
        if self.by == "error":
            return self._build_error_filter(value)
        if self.by == "host":
            return self.hosts.build_filter(value, self.workers)
        term = filters.build_exact_term(name, value, texts)
        return term, "" if term else "a filter cannot name this path"

    def _build_error_filter(self, value: str) -> tuple[str, str]:
        """Return a filter for the jobs of an error group, if the name of the cause is in their errors only."""
        text = filters.build_part_term("err", value)
        [term] = filters.parse_filter(text).text_terms
        is_exact = all(
            bool(term.pattern.search(error)) == (cause == value)
            for cause, errors in self.errors.items()
            for error in errors
        )
        return (text, "") if is_exact else ("", "no filter selects exactly these errors; the view of errors does")


def yield_group_reports(
    engine: Engine, ref: Ref, word: str, field_name: str, expression: str = ""
) -> Iterator[Groups | None]:
    """Yield growing reports of the groups of a queue's jobs, with None for steps that add nothing.

    `word` is a place or a state, `field_name` a field of `attributes.is_group_field`. Jobs that do not match the filter
    `expression` are in no group. Each step is one round trip. The last report is complete. Raises UsageError for a word
    that is no place, and for a wrong filter.
    """
    system = engine.systems[ref.system]
    accepts = filters.parse_filter(expression, [system])
    places = system.find_places(word)
    names = {place.name for place in places}
    survey = yield from sampling.yield_survey(
        engine, [ref], tuple({place.state for place in places}), MAX_JOBS, MAX_JOBS, lambda place: place.name in names
    )
    hosts = load_hosts(engine, ref)
    sample = _Sample(survey, field_name, accepts, hosts, expression)
    states = {place.name: place.state for place in places}
    verbs = tuple(
        verb.name
        for verb in VERBS
        if verb.scope == "job"
        and not verb.script
        and not verb.is_hidden
        and any(system.can(verb.name, n) for n in names)
    )
    is_random = all(_is_random(engine, part) for part in survey.parts)

    def build_report(rates: _Rates) -> Groups:
        return Groups(
            ref,
            field_name,
            tuple(place.name for place in places),
            sample.build_groups(rates),
            survey.compute_extent(),
            sample.matched,
            is_random,
            rates.duration_ms,
            rates.problem,
            verbs,
            states,
            any(map(hosts.find_host, sample.workers)),
        )

    for part in survey.parts:
        for page in survey.yield_random_pages(engine, part, body_bytes=_choose_body_bytes(field_name, accepts)):
            sample.add_jobs(page.jobs)
            yield None
        yield build_report(_NO_RATES)
    yield build_report(_read_rates(engine, ref, field_name, accepts, survey, hosts))


def _choose_body_bytes(field_name: str, accepts: Filter) -> int:
    """Return how much of each body a report needs: nothing if neither its field nor its filter reads bodies."""
    needs_bodies = bool(accepts.terms) and accepts.needs_job_bodies
    return BODY_BYTES if needs_bodies or field_name.startswith(".") else 0


def _is_random(engine: Engine, part: Part) -> bool:
    return part.count <= part.most or sampling.can_sample_at_random(engine, part)


# -- rates -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rates:
    """The jobs completed per second by value, and the duration that they cover; 0 if unknown for a `problem`."""

    by_value: Mapping[str, float] = field(default_factory=dict)
    duration_ms: int = 0
    problem: str = ""


_NO_RATES = _Rates(problem="not read yet")


def _read_rates(engine: Engine, ref: Ref, field_name: str, accepts: Filter, survey: Survey, hosts: Hosts) -> _Rates:
    """Read how many jobs of each group are completed per second: from the system's statistics, or the done jobs.

    The done jobs are those that ended last, if their place keeps them in the order of their ends. The rates cover the
    time from the first of their ends to now. Groups without a done job are at 0.
    """
    if field_name == "age":
        return _Rates(problem="a done job has no age of waiting")
    if field_name == "error":
        return _Rates(problem="a done job has no error")
    system = engine.systems[ref.system]
    if field_name == "kind" and (rates := _read_kind_rates(engine, ref)) is not None:
        return rates
    done_places = [place for place in system.places if place.state is State.DONE]
    if [place.is_newest_last and not system.is_shared(place.name) for place in done_places] != [True]:
        return _Rates(problem=f"{ref.system} keeps no list of done jobs in the order of their ends")
    [done_place] = done_places
    body_bytes = _choose_body_bytes(field_name, accepts)
    half = sampling.JOBS_PER_PAGE
    selections = [
        PageSelection(ref, done_place.name, skipped, half, body_bytes, is_newest_first=True)
        for skipped in range(0, MAX_DONE_JOBS, half)
    ]
    pages: list[Page] = engine.send_requests([page_request(system, selection) for selection in selections])
    if error := next((page.error for page in pages if page.error), ""):
        return _Rates(problem=error)
    jobs = {job.id: job for page in pages for job in page.jobs}.values()
    ends_ms = [end_ms for job in jobs if (end_ms := find_end_ms(job)) is not None]
    if not ends_ms or len(ends_ms) < len(jobs):
        return _Rates(problem="no job is done" if not jobs else f"{ref.system} does not store when done jobs ended")
    duration_ms = survey.taken_ms - min(ends_ms)
    if duration_ms < MIN_DONE_MS:
        return _Rates(problem="the done jobs ended less than a second ago")
    counts: dict[str, int] = {}
    for job in filter(accepts, jobs):
        values = list_group_values(job, field_name, survey.taken_ms, hosts.find_host)
        for value in [] if values is None else values or [""]:
            counts[value] = counts.get(value, 0) + 1
    return _Rates({value: 1000 * number / duration_ms for value, number in counts.items()}, duration_ms)


def _read_kind_rates(engine: Engine, ref: Ref) -> _Rates | None:
    """Read the rates of each kind from the system's own statistics of a recent period; None if it keeps none."""
    request = engine.systems[ref.system].kinds_request(ref.queue)
    if request is None:
        return None
    [statistics] = engine.send_requests_isolated([lambda: request])
    if isinstance(statistics, RqtuiError):
        return _Rates(problem=str(statistics))
    usable = [each for each in statistics if each.queue == ref.queue and each.window_ms]
    if not usable:
        return None
    rates = {mask_text(each.kind): 1000 * (each.processed - each.failed) / each.window_ms for each in usable}
    return _Rates(rates, usable[0].window_ms)
