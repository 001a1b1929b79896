"""Fixtures of the tests beside stock programs: arq at the server of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from beside.arq.stock import Stock
from beside.environments import ARQ, build_arq
from redis import Redis


@pytest.fixture(params=sorted(ARQ))
def stock(request: pytest.FixtureRequest, client: Redis, url: str, tmp_path: Path) -> Iterator[Stock]:
    """Stock arq at an empty server."""
    with Stock(build_arq(str(request.param)), url, tmp_path) as found:
        yield found
