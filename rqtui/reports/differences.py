"""Find the conditions in which two groups of jobs differ, such as `.country = FR`, and rank them. Pure functions.

Each job is a mapping from attributes to values. A condition is a value of an attribute, a limit of a number, or a
missing attribute. The measure is the difference between the shares of both groups that meet a condition: the support
difference of Bay and Pazzani, "Detecting group differences: mining contrast sets" (2001). Differences that chance
explains are left out: Fisher's exact test, two-sided, with the correction of Holm (1979) for the number of conditions.
A pair of conditions is tested only if no single condition explains the groups, and is reported only if each condition
still matters among the jobs that meet the other. `docs/groups-and-differences.md` has the measured recall.

`rqtui.reports.comparison` reads the jobs of both groups and calls `find_differences`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import erfc, sqrt
from statistics import NormalDist

from rqtui.text.fields import Number

LEVEL = 0.05  # the probability that a report of two equal groups has a difference at all
MIN_DIFFERENCE = 0.05  # of shares; smaller ones are not reported, however certain they are
EXPLAINS = 0.9  # a single condition with this difference explains the groups, so that no pairs are tested
STRONG, MIN_GAIN = 0.6, 0.1  # a pair must exceed a single condition with this difference by so much
MAX_CATEGORIES = 10  # a number with more distinct values is also compared with limits
MAX_PAIR_CONDITIONS = 200  # conditions that are combined to pairs, the most frequent ones: 20 000 pairs, 0.05 s
LIMITS = 10  # the values of a number are divided into this many parts of equal size
MIN_PRESENT = 0.5  # an attribute that is no body field is compared if this share of both groups has it
OWN_LEVEL = 0.01  # a difference that chance explains with this probability among equal jobs is marked as explained
POWER = 0.8  # the probability with which the smallest detectable difference would be found
PATH = "."  # the first character of the name of a body field


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one attribute of a job: `=` a value, `≥` a number, or `missing`."""

    attribute: str
    operator: str
    value: str = ""

    def __str__(self) -> str:
        return (
            f"no {self.attribute}" if self.operator == "missing" else f"{self.attribute} {self.operator} {self.value}"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """One or two conditions that the jobs of group A meet more often, or less often, than those of group B.

    `p_value` is corrected for the number of conditions. `more` counts further conditions of the same attribute that
    differ too. With `is_explained`, the difference vanishes among jobs that are equal in the first difference.
    """

    conditions: tuple[Condition, ...]
    a_jobs: int  # that meet the conditions
    b_jobs: int
    a_total: int
    b_total: int
    p_value: float
    more: int = 0
    is_explained: bool = False
    is_result: bool = False  # the attribute follows from the end of a run, such as its attempts
    is_time: bool = False  # the attribute is a time, which often differs only because the places keep their jobs so

    @property
    def is_aside(self) -> bool:
        """Whether the difference is more likely an effect than a cause: it is listed last and explains no other."""
        return self.is_result or self.is_time

    @property
    def a_share(self) -> float:
        """The share of group A that meets the conditions, from 0 to 1."""
        return self.a_jobs / self.a_total

    @property
    def b_share(self) -> float:
        """The share of group B that meets the conditions, from 0 to 1."""
        return self.b_jobs / self.b_total

    @property
    def size(self) -> float:
        """The absolute difference of both shares, from 0 to 1."""
        return abs(self.a_share - self.b_share)


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences of two groups, the largest first, and the number of conditions and pairs that were tested.

    `detectable` is the smallest difference of shares that would have been found with a probability of 80 %, for a
    condition that half of the jobs meet; None if both groups are too small for any.
    """

    found: tuple[Difference, ...]
    a_total: int
    b_total: int
    attributes: int = 0
    conditions: int = 0
    pairs: int = 0
    detectable: float | None = None


def find_differences(
    group_a: Sequence[Mapping[str, str]],
    group_b: Sequence[Mapping[str, str]],
    results: Collection[str] = (),
    times: Collection[str] = (),
) -> Differences:
    """Find the conditions in which two groups of jobs differ.

    A job is a mapping from attributes to values; numbers are `rqtui.text.fields.Number`. The attributes in `results`
    are known only after a run, those in `times` are times of a job. They are listed last, in no pairs, and explain
    nothing.
    """
    if not group_a or not group_b:
        return Differences((), len(group_a), len(group_b))
    table = _Table(group_a, group_b)
    masks = _build_condition_masks([*group_a, *group_b], len(group_a))
    singles = _find_single_differences(table, masks, results, times)
    best = max((single.size for single in singles if not single.is_aside), default=0.0)
    tested_pairs, pairs = 0, list[Difference]()
    if best < EXPLAINS:
        asides = {*results, *times}
        usable = {condition: mask for condition, mask in masks.items() if condition.attribute not in asides}
        smallest = best + MIN_GAIN if best >= STRONG else best - MIN_DIFFERENCE
        tested_pairs, pairs = _find_pair_differences(table, usable, smallest)
    found = _mark_explained(table, masks, [*pairs[:1], *singles])
    return Differences(
        tuple(found),
        len(group_a),
        len(group_b),
        len({attribute for job in (*group_a, *group_b) for attribute in job}),
        len(masks),
        tested_pairs,
        compute_detectable_difference(len(group_a), len(group_b), len(masks)),
    )


class _Table:
    """The jobs of both groups as bits: bit n of a mask is job n, and those of group A come first."""

    def __init__(self, group_a: Sequence[object], group_b: Sequence[object]) -> None:
        self.a_total, self.b_total = len(group_a), len(group_b)
        self.a_mask = (1 << self.a_total) - 1
        self.all_mask = (1 << (self.a_total + self.b_total)) - 1

    def count(self, mask: int) -> tuple[int, int]:
        """Return how many jobs of group A and of group B are in a mask."""
        in_a = (mask & self.a_mask).bit_count()
        return in_a, mask.bit_count() - in_a

    def compute_size(self, mask: int) -> float:
        """Return the absolute difference of the shares of both groups that are in a mask."""
        in_a, in_b = self.count(mask)
        return abs(in_a / self.a_total - in_b / self.b_total)

    def build_difference(self, conditions: tuple[Condition, ...], mask: int, p_value: float) -> Difference:
        """Build the difference of both groups in some conditions, which the jobs of `mask` meet."""
        return Difference(conditions, *self.count(mask), self.a_total, self.b_total, p_value)


# -- conditions --------------------------------------------------------------------------------------------------------


def _build_condition_masks(jobs: Sequence[Mapping[str, str]], a_total: int) -> dict[Condition, int]:
    """Return the conditions that can differ enough to be reported, each with the mask of the jobs that meet it.

    The choice depends only on how many jobs of both groups together meet a condition, so it favours no difference.
    """
    smallest = MIN_DIFFERENCE * min(a_total, len(jobs) - a_total)
    values: dict[str, dict[str, int]] = {}
    for number, job in enumerate(jobs):
        for attribute, value in job.items():
            by_value = values.setdefault(attribute, {})
            by_value[value] = by_value.get(value, 0) | 1 << number
    a_mask, all_mask, masks = (1 << a_total) - 1, (1 << len(jobs)) - 1, dict[Condition, int]()
    for attribute, by_value in values.items():
        present = 0
        for mask in by_value.values():
            present |= mask
        present_in_a = (present & a_mask).bit_count()
        present_in_b = present.bit_count() - present_in_a
        if not attribute.startswith(PATH) and (
            present_in_a < MIN_PRESENT * a_total or present_in_b < MIN_PRESENT * (len(jobs) - a_total)
        ):
            continue
        candidates = {Condition(attribute, "=", value): mask for value, mask in by_value.items()}
        if attribute.startswith(PATH):
            candidates[Condition(attribute, "missing")] = all_mask & ~present
        candidates.update(_build_limit_masks(attribute, by_value))
        masks.update(
            (condition, mask)
            for condition, mask in candidates.items()
            if max(2.0, smallest) <= mask.bit_count() <= len(jobs) - max(2.0, smallest)
        )
    return masks


def _build_limit_masks(attribute: str, by_value: Mapping[str, int]) -> Iterator[tuple[Condition, int]]:
    """Yield conditions such as `≥ 500` for a number, at the limits that divide its values into equal parts."""
    numbers = sorted((_parse_number(value), value, mask) for value, mask in by_value.items() if _is_number(value))
    if len(numbers) <= MAX_CATEGORIES:
        return
    total = sum(mask.bit_count() for _number, _value, mask in numbers)
    above, counted, part = 0, 0, 1
    for _number, value, mask in reversed(numbers):
        above, counted = above | mask, counted + mask.bit_count()
        if counted >= total * part / LIMITS and counted < total:
            part = counted * LIMITS // total + 1
            yield Condition(attribute, "≥", value), above


def _is_number(value: str) -> bool:
    return isinstance(value, Number) and _parse_number(value) == _parse_number(value)  # NaN has no order.


def _parse_number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")


# -- single conditions -------------------------------------------------------------------------------------------------


def _find_single_differences(
    table: _Table, masks: Mapping[Condition, int], results: Collection[str], times: Collection[str]
) -> list[Difference]:
    """Return the differences in single conditions, one per attribute, the largest first."""
    p_values = {condition: _compute_p_value(table, mask) for condition, mask in masks.items()}
    differences = [
        replace(
            table.build_difference((condition,), masks[condition], p),
            is_result=condition.attribute in results,
            is_time=condition.attribute in times,
        )
        for condition, p in _correct_by_holm(p_values, LEVEL / 2).items()
    ]
    ranked = sorted(differences, key=_rank_difference)
    numbers = Counter(difference.conditions[0].attribute for difference in ranked)
    best: dict[str, Difference] = {}
    for difference in ranked:
        attribute = difference.conditions[0].attribute
        best.setdefault(attribute, replace(difference, more=numbers[attribute] - 1))
    return list(best.values())


def _rank_difference(difference: Difference) -> tuple[bool, bool, float, bool, str]:
    """Return the sort key of a difference. Among equal ones, those more frequent in group A come first."""
    is_rarer_in_a = difference.a_share < difference.b_share
    asides = difference.is_result, difference.is_time
    return *asides, -round(difference.size, 9), is_rarer_in_a, str(difference.conditions[0])


def _compute_p_value(table: _Table, mask: int) -> float:
    """Return the p-value of the difference of both groups in a mask; 1 if the difference is too small to report."""
    if table.compute_size(mask) < MIN_DIFFERENCE:
        return 1.0
    in_a, in_b = table.count(mask)
    return compute_fisher_p_value(in_a, table.a_total, in_b, table.b_total)


def _correct_by_holm(p_values: Mapping[Condition, float], level: float) -> dict[Condition, float]:
    """Return the conditions whose p-value, corrected by the step-down procedure of Holm, is at most `level`."""
    corrected, largest = dict[Condition, float](), 0.0
    for rank, (condition, p_value) in enumerate(sorted(p_values.items(), key=lambda item: (item[1], str(item[0])))):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_value))
        if largest > level:
            break
        corrected[condition] = largest
    return corrected


def compute_fisher_p_value(a_hits: int, a_total: int, b_hits: int, b_total: int) -> float:
    """Return the two-sided p-value of Fisher's exact test for a_hits of a_total against b_hits of b_total.

    The p-value is the sum of the hypergeometric probabilities of all tables with the same margins that are at most as
    probable as the observed one, as in R's `fisher.test`. Probabilities are computed relative to that of the mode.
    """
    hits, first, last = a_hits + b_hits, max(0, a_hits + b_hits - b_total), min(a_hits + b_hits, a_total)
    mode = min(last, max(first, (hits + 1) * (a_total + 1) // (a_total + b_total + 2)))
    weights = {mode: 1.0}
    weight = 1.0
    for number in range(mode, last):  # from `number` hits in A to one more
        weight *= (hits - number) * (a_total - number) / ((number + 1) * (b_total - hits + number + 1))
        if not weight:
            break
        weights[number + 1] = weight
    weight = 1.0
    for number in range(mode, first, -1):  # from `number` hits in A to one fewer
        weight *= number * (b_total - hits + number) / ((hits - number + 1) * (a_total - number + 1))
        if not weight:
            break
        weights[number - 1] = weight
    observed = weights.get(a_hits, 0.0) * (1 + 1e-7)
    return min(1.0, sum(each for each in weights.values() if each <= observed) / sum(weights.values()))


def compute_detectable_difference(a_total: int, b_total: int, conditions: int) -> float | None:
    """Return the smallest difference of shares near one half that would be found with a probability of `POWER`.

    The formula is the usual sample size formula for two proportions (Fleiss, "Statistical Methods for Rates and
    Proportions"), with the strictest level of Holm's correction. Returns None if no difference would be found.
    """
    if not a_total or not b_total:
        return None
    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - LEVEL / 4 / max(1, conditions)) + normal.inv_cdf(POWER)
    difference = quantiles * sqrt(0.25 / a_total + 0.25 / b_total)
    return max(MIN_DIFFERENCE, difference) if difference < 1 else None


# -- pairs of conditions -----------------------------------------------------------------------------------------------


def _find_pair_differences(
    table: _Table, masks: Mapping[Condition, int], smallest: float
) -> tuple[int, list[Difference]]:
    """Return how many pairs of conditions were tested, and the pairs that differ by at least `smallest`.

    The p-value of a pair is the larger one of two tests: whether the second condition matters among the jobs that meet
    the first, and the first among those that meet the second (an intersection-union test, Berger 1982).
    """
    usual = sorted(masks, key=lambda condition: (-masks[condition].bit_count(), str(condition)))
    chosen = usual[:MAX_PAIR_CONDITIONS]  # A choice by the differences themselves would favour some of them.
    tested, p_values = 0, dict[tuple[Condition, Condition], float]()
    for first, second in combinations(chosen, 2):
        if first.attribute == second.attribute:
            continue
        tested += 1
        both = masks[first] & masks[second]
        if table.compute_size(both) >= max(MIN_DIFFERENCE, smallest):
            p_values[first, second] = max(
                _compute_p_value_within(table, masks[first], both), _compute_p_value_within(table, masks[second], both)
            )
    found = [
        table.build_difference(pair, masks[pair[0]] & masks[pair[1]], min(1.0, p_value * tested))
        for pair, p_value in p_values.items()
        if p_value * tested <= LEVEL / 2  # Bonferroni, because almost all pairs are too small to be tested
    ]
    return tested, sorted(found, key=_rank_difference)


def _compute_p_value_within(table: _Table, outer: int, inner: int) -> float:
    """Return the p-value of the difference of both groups in `inner`, among the jobs of `outer` only."""
    a_total, b_total = table.count(outer)
    a_hits, b_hits = table.count(inner)
    return compute_fisher_p_value(a_hits, a_total, b_hits, b_total)


# -- explained differences ---------------------------------------------------------------------------------------------


def _mark_explained(
    table: _Table, masks: Mapping[Condition, int], differences: Sequence[Difference]
) -> list[Difference]:
    """Mark the differences that vanish among jobs which are equal in the first one.

    The test is that of Cochran, Mantel and Haenszel, with the combinations of the first difference's conditions as
    strata. Without a stratum that has jobs of both groups the test has no information; that counts as explained.
    """
    if not differences or differences[0].is_aside:
        return [*differences]
    first, *others = differences
    strata = [table.all_mask]
    for condition in first.conditions:
        mask = masks[condition]
        strata = [part for stratum in strata for part in (stratum & mask, stratum & ~mask)]
    return [
        first,
        *(
            replace(
                other, is_explained=_compute_stratified_p_value(table, strata, other, masks) > OWN_LEVEL / len(others)
            )
            for other in others
        ),
    ]


def _compute_stratified_p_value(
    table: _Table, strata: Iterable[int], difference: Difference, masks: Mapping[Condition, int]
) -> float:
    """Return the p-value of the Cochran-Mantel-Haenszel test, without a continuity correction; 1 without information.

    Source: Mantel and Haenszel (1959); the statistic has a chi-squared distribution with one degree of freedom.
    """
    mask = table.all_mask
    for condition in difference.conditions:
        mask &= masks[condition]
    deviation = variance = 0.0
    for stratum in strata:
        in_a, in_b = table.count(stratum)
        hits_a, hits_b = table.count(stratum & mask)
        total, hits = in_a + in_b, hits_a + hits_b
        if total > 1:
            deviation += hits_a - in_a * hits / total
            variance += in_a * in_b * hits * (total - hits) / (total * total * (total - 1))
    return erfc(sqrt(deviation * deviation / variance / 2)) if variance > 0 else 1.0
