"""Fixtures of the tests beside stock programs: BullMQ 5 and 6, at the server of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from beside.bullmq.stock import Stock
from beside.environments import BULLMQ, build_bullmq
from redis import Redis


@pytest.fixture(params=sorted(BULLMQ))
def stock(request: pytest.FixtureRequest, client: Redis, url: str, tmp_path: Path) -> Iterator[Stock]:
    """Stock BullMQ, each version in turn, at an empty server."""
    version = str(request.param)
    with Stock(build_bullmq(version), version, url, tmp_path) as found:
        yield found
