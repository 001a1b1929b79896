"""Fixtures for tests of the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis


@pytest.fixture
def queue(kind: Any, client: Redis, url: str) -> Iterator[Any]:
    """Open the queue `mail` on an empty server, once with each class of queues."""
    with kind("mail", url) as queue:
        yield queue
