"""Mark some cases of a parametrised test as slow, so that a plain run omits them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def mark_slow_cases(cases: Iterable[object], slow: Container[object]) -> list[Any]:
    """Return the cases for `pytest.mark.parametrize`, with the mark `slow` on those in `slow`."""
    return [pytest.param(case, marks=pytest.mark.slow) if case in slow else case for case in cases]
