"""Differences of two groups of jobs at each bound of the comparison: `differences_at_bounds.txt` has every result.

`RQTUI_WRITE_SNAPSHOTS=1 pytest tests/reports/test_differences_at_bounds.py` writes the text; review the difference as
code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from kept_text import assert_lines_match_file

from rqtui.reports import differences
from rqtui.reports.differences import Condition, Differences, compute_detectable_difference, find_differences
from rqtui.text.fields import Number

KEPT = Path(__file__).with_name("differences_at_bounds.txt")
Jobs = Sequence[Mapping[str, str]]


def share(attribute: str, hits: int, total: int) -> list[dict[str, str]]:
    return [{attribute: "yes" if at < hits else "no"} for at in range(total)]


def merge(*groups: Jobs) -> list[dict[str, str]]:
    """Merge the attributes of the first jobs of each group, of the second ones, and so on."""
    return [{name: value for part in parts for name, value in part.items()} for parts in zip(*groups, strict=True)]


def describe(found: Differences) -> Iterator[str]:
    detectable = None if found.detectable is None else f"{found.detectable:.6f}"
    yield (
        f"  {found.a_total} and {found.b_total}: {found.attributes} attributes, {found.conditions} conditions, "
        f"{found.pairs} pairs, detectable {detectable}"
    )
    for each in found.found:
        flags = "".join(
            f" {name}" for name in ("is_explained", "is_result", "is_time", "is_aside") if getattr(each, name)
        )
        yield (
            f"  {' and '.join(map(str, each.conditions))}: {each.a_jobs} {each.b_jobs}, p {each.p_value:.6g}, "
            f"{each.more} more, size {each.size:.4f}{flags}"
        )


def build_random_groups(random: Random) -> tuple[Jobs, Jobs]:
    """Build two groups with a few attributes, some of which differ alone, in pairs, or as others do."""
    size, groups = random.choice((20, 40, 80, 200)), []
    shares_of_a = [random.random() for _ in range(4)]
    shares_of_b = [min(1, max(0, each + random.choice((0, -0.3, 0.3, 0.5, -0.5, 0.1)))) for each in shares_of_a]
    is_correlated = random.random() < 0.6
    for shares in (shares_of_a, shares_of_b):
        group = []
        for _ in range(size if shares is shares_of_a else random.choice((size, size // 2 + 1))):
            first, job = random.random(), dict[str, str]()
            for at, each in enumerate(shares):
                job[f".c{at}"] = "yes" if (first if is_correlated and at < 2 else random.random()) < each else "no"
            if random.random() < 0.5:
                job[".n"] = Number(random.randrange(12 if shares is shares_of_a else 16))
            if is_correlated and random.random() < 0.9:
                job[".xor"] = "yes" if (job[".c2"] == job[".c3"]) == (shares is shares_of_a) else "no"
            group.append(job)
        groups.append(group)
    return groups[0], groups[1]


def groups() -> Iterator[tuple[str, Jobs, Jobs]]:
    for a_hits, b_hits in ((0, 0), (20, 20), (20, 14), (20, 15), (20, 10), (10, 20), (40, 0), (38, 0), (2, 40)):
        yield f"{a_hits} and {b_hits} of 40", share(".x", a_hits, 40), share(".x", b_hits, 40)
    for total in (1, 2, 3, 4, 8, 10, 12):
        yield f"all and none of {total}", share(".x", total, total), share(".x", 0, total)
    for present in (19, 20, 21):  # an attribute that is no field must be present in half of both groups
        some: Jobs = [{"worker": "w"} if at < present else {} for at in range(40)]
        yield f"{present} of 40 have a worker", some, [{"worker": "v"}] * 40
        yield f"{present} of 40 others have a worker", [{"worker": "w"}] * 40, some
        yield f"{present} of 40 have a field", [{".f": "w"} if job else {} for job in some], [{".f": "w"}] * 40
    for hits in (1, 2, 3):  # a condition that few jobs meet is not tested
        yield f"{hits} of 20 differ", [{".x": "odd"}] * hits + [{".x": "no"}] * (20 - hits), [{".x": "no"}] * 20
        yield (
            f"all but {hits} of 20 differ",
            [{".x": "no"}] * hits + [{".x": "odd"}] * (20 - hits),
            [{".x": "odd"}] * 20,
        )
    for values in (9, 10, 11, 12, 19, 20, 21, 40):
        numbers: Jobs = [{".n": Number(at % values)} for at in range(80)]
        larger: Jobs = [{".n": Number(at % values + (values // 2 if at % 4 else 0))} for at in range(80)]
        yield f"{values} numbers", numbers, larger
        yield f"{values} texts", [{".n": str(job[".n"])} for job in numbers], [{".n": str(job[".n"])} for job in larger]
    mixed: Jobs = [{".n": Number(at) if at % 2 else "nan"} for at in range(60)]
    yield "numbers and texts", mixed, [{".n": Number("nan")}] * 10 + [{".n": Number(at + 30)} for at in range(50)]
    for pair in (24, 30, 36, 40):  # only the pair of both conditions differs
        both = merge(
            share(".x", 20, 40),
            [{".y": "yes" if at < pair - 20 or at >= 20 and at < pair else "no"} for at in range(40)],
        )
        yield (
            f"a pair, {pair}",
            both,
            merge(share(".x", 20, 40), [{".y": "no" if at < 20 else "yes"} for at in range(40)]),
        )
    eighty = [{".x": "yes" if at % 2 else "no", ".y": "yes" if at // 2 % 2 else "no"} for at in range(80)]
    yield (
        "a pair without a single one",
        [job for job in eighty if job[".x"] == job[".y"]] * 2,
        [job for job in eighty if job[".x"] != job[".y"]] * 2,
    )
    yield (
        "two equal attributes",
        merge(share(".x", 30, 40), share(".y", 30, 40)),
        merge(share(".x", 5, 40), share(".y", 5, 40)),
    )
    yield (
        "a result and a time",
        merge(share("attempts", 40, 40), share("age", 35, 40), share(".x", 30, 40)),
        merge(share("attempts", 0, 40), share("age", 5, 40), share(".x", 5, 40)),
    )
    yield "only a result", share("attempts", 40, 40), share("attempts", 0, 40)
    for seed in (8, 14, 18, 20, 71, 94, 122, 146):  # of the first 150 those in which most results are near a bound
        yield f"random jobs {seed}", *build_random_groups(Random(seed))
    for hits in (35, 36, 37):  # 36 of 40 explains the groups, so that no pair is tested
        yield (
            f"{hits} of 40 and none",
            merge(share(".x", hits, 40), share(".y", 20, 40)),
            merge(share(".x", 0, 40), share(".y", 20, 40)),
        )
    for few in (159, 160, 161):  # a pair must gain more where a single condition differs by 0.6 or more
        singles: Jobs = [
            {".x": "yes" if at < few else "no", ".y": "yes" if at + 140 >= few else "no"} for at in range(400)
        ]
        usual: Jobs = [{".x": "yes", ".y": "yes"}] * 400
        limited: Jobs = [
            {".x": "yes" if at < few else "no", ".y": "yes" if few - 140 <= at < 2 * few - 140 else "no"}
            for at in range(400)
        ]
        yield f"two of {few} of 400", usual, limited
        yield f"two others of {few} of 400", usual, singles
    for hits in (199, 200, 201):  # a certain difference of 5 per cent is reported, a smaller one is not
        yield f"{hits} of 4000", share(".x", hits, 4000), share(".x", 0, 4000)
        yield f"{hits} fewer of 4000", share(".x", 400, 4000), share(".x", 400 - hits, 4000)
    for values in (9, 10, 11):
        same: Jobs = [{".n": Number(at % values)} for at in range(80)]
        low: Jobs = [{".n": Number(min(at % values, at % 7))} for at in range(80)]
        yield f"the same {values} numbers", same, low
        yield f"the same {values} numbers and a text", [*same, *[{".n": "a"}] * 5], [*low, *[{".n": "b"}] * 5]
    yield "no jobs", [], share(".x", 1, 2)
    yield "no others", share(".x", 1, 2), []


def formulas() -> Iterator[str]:
    for a_total, b_total in ((0, 0), (1, 1), (1, 3), (5, 5), (10, 4), (30, 50)):
        for a_hits in sorted({0, 1, a_total // 2, a_total}):
            values = [
                differences.compute_fisher_p_value(min(a_hits, a_total), a_total, b_hits, b_total)
                for b_hits in sorted({0, b_total // 3, b_total})
            ]
            yield f"Fisher {a_hits} of {a_total} and of {b_total}: {' '.join(f'{value:.9g}' for value in values)}"
    for a_total, b_total, conditions in (
        (0, 1, 1),
        (1, 0, 1),
        (1, 1, 1),
        (20, 20, 1),
        (20, 20, 100),
        (9, 9, 0),
        (9_999, 9_999, 1),
    ):
        found = compute_detectable_difference(a_total, b_total, conditions)
        yield f"detectable of {a_total}, {b_total}, {conditions}: {None if found is None else f'{found:.9f}'}"
    for p_values in ((0.01, 0.02, 0.03), (0.008, 0.012, 0.02), (0.0125, 0.012), (0.025,), (0.0251,), (0.001, 0.5)):
        named = {Condition(f".{at}", "=", "v"): value for at, value in enumerate(p_values)}
        corrected = differences._correct_by_holm(named, 0.025)
        yield f"Holm {p_values}: {[(str(each), round(value, 9)) for each, value in corrected.items()]}"


def text() -> Iterator[str]:
    for title, first, second in groups():
        yield f"== {title}"
        yield from describe(find_differences(first, second, ("attempts",), ("age",)))
    yield "== formulas"
    yield from formulas()


def test_differences_match_the_stored_text() -> None:
    assert_lines_match_file(text(), KEPT)
