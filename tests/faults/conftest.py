"""Fixtures of several fault tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet import Fleet

from rqtui import durability


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Servers that a test starts; a durable put waits for them for a second."""
    monkeypatch.setattr(durability, "TIMEOUT_MS", 1000)
    with Fleet() as fleet:
        yield fleet
