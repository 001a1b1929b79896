"""Fixtures of several fault tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet import Fleet


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Servers that a test starts."""
    with Fleet() as fleet:
        yield fleet
