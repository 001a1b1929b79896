"""Fixtures of the tests beside stock programs: Celery, at the server of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from beside.celery.stock import Stock
from beside.environments import CELERY, build_celery
from redis import Redis


@pytest.fixture(params=sorted(CELERY))
def stock(request: pytest.FixtureRequest, client: Redis, url: str, tmp_path: Path) -> Iterator[Stock]:
    """Stock Celery at an empty server."""
    with Stock(build_celery(str(request.param)), url, tmp_path) as found:
        yield found
