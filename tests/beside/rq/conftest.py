"""Fixtures of the tests beside stock programs: RQ of each version, at the server of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from beside.environments import PINS, build_rq
from beside.rq.stock import Stock
from redis import Redis


@pytest.fixture(params=sorted(PINS))
def stock(request: pytest.FixtureRequest, client: Redis, url: str, tmp_path: Path) -> Iterator[Stock]:
    """Stock RQ, each version in turn, at an empty server."""
    version = str(request.param)
    with Stock(build_rq(version), version, url, tmp_path) as found:
        yield found
