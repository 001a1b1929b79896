"""Tests for a queue system that another package teaches rqtui: the conformance suite and what it needs.

    from rqtui.testing import Request, Subject, Use, a_redis, cases, run_all

    @pytest.mark.parametrize("script", SUBJECT.scripts)
    def test_a_script_keeps_its_promises(script, client):
        run_all(cases(SUBJECT, [script]), SUBJECT, client)

It needs no pytest. Nothing of rqtui imports it; `docs/writing-a-system.md` leads through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis

from rqtui.connection.connect import connect
from rqtui.connection.embedded import embedded
from rqtui.testing.conformance import Case, cases, run_all
from rqtui.testing.keyspace import diff, dump, plant
from rqtui.testing.subject import Planted, Request, Scene, Subject, Use, World, words_of

__all__ = [
    "Case",
    "Planted",
    "Request",
    "Scene",
    "Subject",
    "Use",
    "World",
    "a_redis",
    "cases",
    "diff",
    "dump",
    "plant",
    "run_all",
    "words_of",
]


@contextmanager
def a_redis() -> Iterator[Redis]:
    """A client of an empty Redis of its own, which is gone afterwards; see `connection/embedded.py`."""
    with embedded() as server:
        client = connect(server.url)
        try:
            yield client
        finally:
            client.close()
