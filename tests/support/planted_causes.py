"""Groups of jobs with a planted cause, from a seed: how often `find_differences` finds it, and what else it reports.

`python tests/support/planted_causes.py` prints the table of docs/groups-and-differences.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from rqtui.reports.attributes import RESULT_ATTRIBUTES, TIME_ATTRIBUTES
from rqtui.reports.differences import Differences, find_differences
from rqtui.text.fields import Number

CAUSES = ("one field", "two fields", "a worker", "an hour", "none")
DATA_SETS = 200
Job = dict[str, str]


class DataSet(NamedTuple):
    """Two groups of jobs, and the attributes of the planted cause; none if both groups are alike."""

    cause: str
    planted: frozenset[str]
    failed: list[Job]
    done: list[Job]


class Score(NamedTuple):
    """The results for one kind of cause.

    `found` counts data sets whose first difference is exactly the planted cause, `false` those with a difference that
    is neither part of the cause nor marked as explained by it.
    """

    cause: str
    data_sets: int
    found: int
    false: int


def build_job(rng: Random) -> Job:
    """Return a job of a shop, in which no attribute depends on another but the currency and the city on the country."""
    country = rng.choices(("DE", "FR", "IT", "PL", "AT"), (5, 3, 2, 2, 1))[0]
    job = {
        ".country": country,
        ".currency": "PLN" if country == "PL" else "EUR",
        ".city": f"{country}-{rng.randrange(4)}",
        ".tenant": rng.choices(("acme", "globex", "initech", "umbrella", "hooli", "wayne"), (6, 4, 3, 2, 2, 1))[0],
        ".plan": rng.choice(("free", "basic", "pro")),
        ".total_cents": Number(str(rng.randrange(500, 90_000))),
        ".items": Number(str(rng.randrange(1, 9))),
        ".order": Number(str(rng.randrange(10**9))),
        ".express": rng.choice(("true", "false")),
        "kind": rng.choice(("charge_card", "refund_card", "notify_warehouse", "send_invoice")),
        "worker": f"worker-{rng.randrange(6)}",
        "enqueued_hour": f"2026-11-27 {rng.randrange(8, 16):02}:00",
        "body_bytes": Number(str(rng.randrange(120, 400))),
    }
    if rng.random() < 0.2:
        job[".coupon"] = rng.choice(("XMAS", "SPRING"))
    return job


_PLANTED: dict[str, tuple[tuple[str, str], ...]] = {
    "one field": ((".country", "FR"),),
    "two fields": ((".country", "FR"), (".plan", "pro")),
    "a worker": (("worker", "worker-3"),),
    "an hour": (("enqueued_hour", "2026-11-27 11:00"),),
    "none": (),
}


def build_data_set(seed: int) -> DataSet:
    """Build the two groups of a seed: 100 to 600 jobs each, of which 30 to 100 % failed because of the cause."""
    rng = Random(f"planted:{seed}")
    cause = CAUSES[seed % len(CAUSES)]
    planted = _PLANTED[cause]
    strength = rng.uniform(0.3, 1.0)

    def draw(*, has_cause: bool | None) -> Job:
        while True:
            job = build_job(rng)
            if has_cause is None or all(job.get(name) == value for name, value in planted) == has_cause:
                return job

    failed = [draw(has_cause=True if rng.random() < strength else None) for _ in range(rng.randrange(100, 600))]
    # A few jobs with the cause succeed all the same, as after a retry.
    done = [
        draw(has_cause=None if not planted or rng.random() < 0.1 else False) for _ in range(rng.randrange(100, 600))
    ]
    return DataSet(cause, frozenset(name for name, _value in planted), failed, done)


def has_found(data_set: DataSet, report: Differences) -> bool:
    """Return whether the first difference is exactly the planted cause; without a cause, whether nothing differs."""
    if not data_set.planted:
        return not report.found
    first = {(condition.attribute, condition.value) for condition in report.found[0].conditions} if report.found else {}
    return first == set(_PLANTED[data_set.cause])


def list_false_finds(data_set: DataSet, report: Differences) -> list[str]:
    """Return the differences that are neither part of the planted cause nor marked as explained."""
    return [
        " and ".join(map(str, difference.conditions))
        for difference in report.found
        if not difference.is_explained
        and not {condition.attribute for condition in difference.conditions} <= data_set.planted
    ]


def score_data_sets(seeds: Sequence[int] = range(DATA_SETS)) -> list[Score]:
    """Compare the groups of each seed, and count what is found of each kind of cause."""
    counts = {cause: [0, 0, 0] for cause in CAUSES}
    for seed in seeds:
        data_set = build_data_set(seed)
        report = find_differences(data_set.failed, data_set.done, RESULT_ATTRIBUTES, TIME_ATTRIBUTES)
        counted = counts[data_set.cause]
        counted[0] += 1
        counted[1] += has_found(data_set, report)
        counted[2] += bool(list_false_finds(data_set, report))
    return [Score(cause, *numbers) for cause, numbers in counts.items()]


def format_scores(scores: Sequence[Score]) -> list[str]:
    """Return the scores as lines of a Markdown table."""
    rows = [f"| {each.cause} | {each.data_sets} | {each.found} | {each.false} |" for each in scores]
    return ["| planted cause | data sets | found, and ranked first | with a false find |", "|---|---|---|---|", *rows]


if __name__ == "__main__":
    print("\n".join(format_scores(score_data_sets())))
