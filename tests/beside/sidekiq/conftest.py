"""Fixtures of the tests beside stock Sidekiq: Debian's and the newest, at the server of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from beside.environments import DEBIAN, SIDEKIQ, build_sidekiq
from beside.sidekiq.stock import Stock
from redis import Redis


@pytest.fixture(params=(DEBIAN, *SIDEKIQ))
def stock(request: pytest.FixtureRequest, client: Redis, url: str, tmp_path: Path) -> Iterator[Stock]:
    """Stock Sidekiq, each version in turn, at an empty server."""
    with Stock(build_sidekiq(str(request.param)), url, tmp_path) as found:
        yield found
