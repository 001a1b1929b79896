"""Fixtures of several fault tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet import Fleet


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Yield a `Fleet`, whose Redis servers end with the test."""
    with Fleet() as fleet:
        yield fleet
