"""Compare two groups of jobs of a queue: dead against done, an error against the rest, or two filters.

Both groups are samples of bounded size, at random positions where the places allow that. The statistics are in
`rqtui.reports.differences`. Called by the view of differences and by `rqtui diff`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from rqtui.engine import filters
from rqtui.engine.engine import Engine
from rqtui.engine.filters import Filter
from rqtui.errors import UsageError
from rqtui.model import Job, Ref
from rqtui.reports import sampling
from rqtui.reports.attributes import BODY_BYTES, RESULT_ATTRIBUTES, TIME_ATTRIBUTES, read_attributes
from rqtui.reports.differences import Condition, Difference, Differences, find_differences
from rqtui.reports.hosts import load_hosts
from rqtui.reports.sampling import Extent, Part, Survey
from rqtui.text.formats import format_long_count, format_quantity, format_share
from rqtui.text.masking import MASK

MAX_PER_PLACE, MAX_JOBS = 2_000, 8_000  # jobs that a comparison reads, per place and in total
MAX_NAMED_JOBS, NAMED_JOBS_PER_TRIP = 500, 50  # marked jobs that are read one by one
MAX_NAMED_BODY_BYTES = 65_536  # a longer body of such a job is not read
_SELECTING_ATTRIBUTES = {"job": "kind", "worker": "worker"}  # by field of a filter
_FILTER_FIELDS = {attribute: name for name, attribute in _SELECTING_ATTRIBUTES.items()}


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs of one group: those of some places or states that match a filter.

    `words` are names of places or states. An empty `expression` selects all jobs. `accepts` is a further condition that
    no filter can express; `ids` names the jobs one by one instead. Such a selection has a `label`.
    """

    words: tuple[str, ...]
    expression: str = ""
    accepts: Callable[[Job], bool] | None = None
    ids: tuple[bytes, ...] = ()
    label: str = ""
    attributes: frozenset[str] = frozenset()  # by which `accepts` selects; they are not compared

    @property
    def is_whole(self) -> bool:
        """Return whether all jobs of the places are selected."""
        return not self.expression and self.accepts is None and not self.ids

    def __str__(self) -> str:
        if self.label:
            return self.label
        places = " and ".join(self.words)
        return f"{places} with {self.expression}" if self.expression else places


@dataclass(frozen=True, slots=True)
class Side:
    """One group of a comparison: what it selects, and its jobs among the jobs that were read of its places."""

    selection: Selection
    places: tuple[str, ...]
    jobs: int
    looked: int  # jobs read of these places
    of: int  # jobs in these places
    is_random: bool = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of two groups of jobs, and the samples that they come from.

    A job of the first group is never in the second one. `left_out` names the attributes by which the groups were
    selected, which are not compared.
    """

    ref: Ref
    a: Side
    b: Side
    differences: Differences
    size: Extent
    left_out: tuple[str, ...] = ()


@dataclass
class _Samples:
    """The jobs read so far: their attributes in each of both groups."""

    accepts: tuple[Callable[[Job], bool], Callable[[Job], bool]]
    named_ids: frozenset[bytes]  # of group A, which are read one by one
    places: tuple[frozenset[str], frozenset[str]]
    left_out: frozenset[str]
    find_host: Callable[[str], str] = lambda _worker: ""
    groups: tuple[list[Mapping[str, str]], list[Mapping[str, str]]] = field(default_factory=lambda: ([], []))
    looked: dict[str, int] = field(default_factory=dict)  # by place

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        """Put each job of a page in the first group that it belongs to."""
        for job in jobs:
            self.looked[job.place] = self.looked.get(job.place, 0) + 1
            if job.id in self.named_ids:
                continue
            for accepts, places, group in zip(self.accepts, self.places, self.groups, strict=True):
                if job.place in places and accepts(job):
                    group.append(self.read_compared_attributes(job))
                    break

    def read_compared_attributes(self, job: Job) -> dict[str, str]:
        """Return the attributes of a job without those by which the groups were selected."""
        attributes = read_attributes(job, self.find_host(job.worker) if job.worker else "")
        return {name: value for name, value in attributes.items() if name not in self.left_out}


def yield_comparisons(engine: Engine, ref: Ref, a: Selection, b: Selection) -> Iterator[Comparison | None]:
    """Yield None for each round trip, and at last the comparison of two groups of a queue's jobs.

    Jobs that are in both selections are in group A only. Raises UsageError for a word that is no place, for a wrong
    filter, and for two equal selections.
    """
    if a == b:
        raise UsageError("both groups are the same jobs; name another place, or a filter for one of them.")
    system = engine.systems[ref.system]
    a_places, b_places = (
        tuple(dict.fromkeys(place for word in selection.words for place in system.find_places(word)))
        for selection in (a, b)
    )
    a_names, b_names = (frozenset(place.name for place in places) for places in (a_places, b_places))
    parsed = [filters.parse_filter(each.expression, [system]) for each in (a, b)]
    left_out = frozenset(attribute for each in parsed for attribute in _list_selecting_attributes(each))
    left_out |= a.attributes | b.attributes
    states = tuple(dict.fromkeys(place.state for place in (*a_places, *b_places)))
    survey = yield from sampling.yield_survey(
        engine, [ref], states, MAX_PER_PLACE, MAX_JOBS, lambda place: place.name in a_names | b_names
    )
    accepts = _combine_conditions(a, parsed[0]), _combine_conditions(b, parsed[1])
    samples = _Samples(accepts, frozenset(a.ids), (a_names, b_names), left_out, load_hosts(engine, ref).find_host)
    yield None
    for start in range(0, len(a.ids[:MAX_NAMED_JOBS]), NAMED_JOBS_PER_TRIP):
        _add_named_jobs(engine, ref, a.ids[start : min(start + NAMED_JOBS_PER_TRIP, MAX_NAMED_JOBS)], samples)
        yield None
    for part in survey.parts:
        for page in survey.yield_random_pages(engine, part, body_bytes=BODY_BYTES):
            samples.add_jobs(page.jobs)
            yield None
    group_a, group_b = samples.groups
    sides = [
        _build_side(engine, survey, samples, selection, tuple(place.name for place in places), len(group))
        for selection, places, group in ((a, a_places, group_a), (b, b_places, group_b))
    ]
    compared = {name for group in samples.groups for job in group for name in job}
    yield Comparison(
        ref,
        sides[0],
        sides[1],
        find_differences(group_a, group_b, RESULT_ATTRIBUTES, TIME_ATTRIBUTES),
        survey.compute_extent(),
        tuple(sorted(left_out - compared)),
    )


def _combine_conditions(selection: Selection, accepts: Filter) -> Callable[[Job], bool]:
    if selection.ids:
        return lambda _job: False  # The jobs are read by their ids.
    condition = selection.accepts
    return accepts if condition is None else lambda job: accepts(job) and condition(job)


def _add_named_jobs(engine: Engine, ref: Ref, ids: Sequence[bytes], samples: _Samples) -> None:
    """Read jobs by their ids in one round trip and add them to group A. Jobs that are missing now are left out."""
    system = engine.systems[ref.system]
    requests = [partial(system.job_request, ref.queue, id, MAX_NAMED_BODY_BYTES) for id in ids]
    jobs = [result for result in engine.send_requests_isolated(requests) if isinstance(result, Job)]
    samples.groups[0].extend(map(samples.read_compared_attributes, jobs))


def _build_side(
    engine: Engine, survey: Survey, samples: _Samples, selection: Selection, places: tuple[str, ...], jobs: int
) -> Side:
    parts = [part for part in survey.parts if part.place in places]
    return Side(
        selection,
        places,
        jobs,
        sum(samples.looked.get(part.place, 0) for part in parts),
        sum(survey.counted.get(part, part.count) for part in parts),
        all(_is_random(engine, part) for part in parts),
    )


def _is_random(engine: Engine, part: Part) -> bool:
    return part.count <= part.most or sampling.can_sample_at_random(engine, part)


def _list_selecting_attributes(accepts: Filter) -> Iterator[str]:
    """Yield the attributes on which a filter's terms depend: they differ because the groups were selected so."""
    for term in accepts.terms:
        yield _SELECTING_ATTRIBUTES.get(term.field, term.field)


# -- texts -------------------------------------------------------------------------------------------------------------


def format_conditions(conditions: Sequence[Condition]) -> str:
    """Return the conditions of a difference as text: `.country = FR and kind = charge_card`."""
    return " and ".join(map(str, conditions))


def name_sides(comparison: Comparison) -> tuple[str, str]:
    """Return short names of both groups: their places without filters, else `A` and `B`."""
    if comparison.a.selection.is_whole and comparison.b.selection.is_whole:
        return str(comparison.a.selection), str(comparison.b.selection)
    return "A", "B"


def format_difference(comparison: Comparison, difference: Difference) -> str:
    """Return a difference as a sentence without its sample: `.country = FR in 100 % of dead, 3 % of done`."""
    a_name, b_name = name_sides(comparison)
    a_share = format_share(difference.a_jobs, difference.a_total)
    b_share = format_share(difference.b_jobs, difference.b_total)
    return f"{format_conditions(difference.conditions)} in {a_share} of {a_name}, {b_share} of {b_name}"


def format_side(side: Side) -> str:
    """Return what a group contains and what was read for it: `dead (1 000 of 5 000 read at random)`."""
    if side.selection.ids:
        return f"{side.selection} ({side.jobs} of {format_long_count(len(side.selection.ids))} read)"
    how = "" if side.looked >= side.of else " at random" if side.is_random else " from the start"
    read = f"{format_long_count(side.looked)} of {format_long_count(side.of)} read{how}"
    if not side.selection.is_whole:
        read = f"{format_long_count(side.jobs)} match, {read}"
    return f"{side.selection} ({read})"


def format_certainty(difference: Difference) -> str:
    """Return how probable such a difference is by chance, as text: `p = 3e-05`."""
    return "p < 1e-12" if difference.p_value < 1e-12 else f"p = {difference.p_value:.1g}"


def build_condition_filter(comparison: Comparison, difference: Difference) -> str:
    """Build the filter of the jobs of group A that meet the conditions; empty if no filter can express all of them."""
    terms = []
    for condition in difference.conditions:
        field_name = _FILTER_FIELDS.get(condition.attribute, condition.attribute)
        is_path = field_name.startswith(".")
        is_exact = condition.operator == "=" and not condition.value.endswith("…") and MASK not in condition.value
        if not is_path and field_name not in _FILTER_FIELDS.values():
            return ""
        term = filters.build_exact_term(field_name, condition.value) if is_exact else ""
        if condition.operator == "missing" and filters.build_exact_term(field_name, ""):
            term = f"!{field_name}:/^/"
        if not term:
            return ""
        terms.append(term)
    return " ".join([*terms, comparison.a.selection.expression]).strip()


def explain_no_difference(comparison: Comparison) -> str:
    """Return a sentence for a comparison without differences: what was compared, and what would have been found."""
    differences = comparison.differences
    for side in (comparison.a, comparison.b):
        if not side.jobs:
            return f"nothing to compare: no job that was read is {side.selection}"
    if differences.detectable is None:
        return f"too few jobs to find a difference: {differences.a_total} and {differences.b_total}"
    values = format_quantity(differences.conditions, "frequent value")
    tested = f"{format_quantity(differences.attributes, 'field')} with {values}"
    percentage = f"{100 * differences.detectable:.0f}"
    return (
        f"no field differs more than by chance: {tested} and {format_quantity(differences.pairs, 'pair')} were "
        f"compared; a difference of {percentage} percentage points would probably have been found"
    )
