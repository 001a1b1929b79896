"""Errors of public projects, whose causes are known: no group holds two causes, and few causes have several groups."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))

import error_groups  # noqa: E402

sys.path.remove(str(FOLDER))

SPLIT = 10  # causes with several groups, of some 136


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(more, marks=pytest.mark.matrix) for more in (2, 3))])
def test_no_group_holds_two_causes_and_few_causes_are_split(seed: int) -> None:
    found = error_groups.measure_groups(error_groups.build_messages(seed=seed))
    assert found.messages == error_groups.MESSAGES
    assert found.causes >= 130
    assert not found.mixed, "\n".join(error_groups.format_lines(found))
    assert len(found.split) <= SPLIT, "\n".join(error_groups.format_lines(found))
    assert found.groups <= found.causes + 2 * SPLIT


def test_every_report_names_its_source_and_no_person() -> None:
    reports = error_groups.read_reports()
    assert len({report.source.partition("#")[0] for report in reports}) >= 80
    texts = "\n".join(report.text for report in reports)
    assert not re.search(r"[\w.+-]+@[\w-]+\.\w+", texts)
    assert not re.search(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])", texts)
    assert all(slot in error_groups.SLOTS for slot in re.findall(r"<<(\w+)>>", texts))


def test_the_same_seed_makes_the_same_messages() -> None:
    assert error_groups.build_messages(300, 5) == error_groups.build_messages(300, 5)
