"""The queue of the tests of the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis


@pytest.fixture
def queue(kind: Any, client: Redis, url: str) -> Iterator[Any]:
    """The queue `mail` on an empty server."""
    with kind("mail", url) as made:
        yield made
