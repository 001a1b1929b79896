"""The public test helpers for a queue system that another package adds to rqtui: the conformance suite and its tools.

    from rqtui.testing import Request, Subject, Use, cases, run_all, start_redis

    @pytest.mark.parametrize("script", SUBJECT.scripts)
    def test_a_script_keeps_its_promises(script, client):
        run_all(cases(SUBJECT, [script]), SUBJECT, client)

The package needs no pytest, and no other part of rqtui imports it. `docs/writing-a-system.md` explains its use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis

from rqtui.connection.connect import connect
from rqtui.connection.embedded import start_server
from rqtui.system_base.system_lint import find_system_faults
from rqtui.testing.conformance import Case, cases, run_all
from rqtui.testing.keyspace import diff, dump, plant
from rqtui.testing.subject import JobDatabase, Planted, PreparedScript, Request, Subject, Use, list_words
from rqtui.testing.system_suite import run_system_checks

__all__ = [
    "Case",
    "Planted",
    "Request",
    "PreparedScript",
    "Subject",
    "Use",
    "JobDatabase",
    "start_redis",
    "cases",
    "diff",
    "dump",
    "find_system_faults",
    "plant",
    "run_all",
    "run_system_checks",
    "list_words",
]


@contextmanager
def start_redis() -> Iterator[Redis]:
    """Start an empty, temporary Redis server, and yield a client of it; see `rqtui.connection.embedded`."""
    with start_server() as server:
        client = connect(server.url)
        try:
            yield client
        finally:
            client.close()
