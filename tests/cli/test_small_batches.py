"""Commands over batches of two jobs do what they do in one batch, for each number of jobs and each limit."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from native_jobs import PLACES, list_ids
from normalised_output import list_document_lines, normalise_output
from redis import Redis
from screens import Seeded
from shell import Ran, shell

from rqtui.testing import keyspace

SMALL = (
    "rqtui.cli.act.BATCH", "rqtui.cli.act.LOOKUP_BATCH", "rqtui.cli.jobs.PAGE_JOBS", "rqtui.cli.check.STEP",
    "rqtui.cli.put.BATCH",
)  # fmt: skip
JOBS = 5
LINES = b"".join(b'{"body": %d, "id": "new-%d"}\n' % (n, n) for n in range(JOBS))
FILTERS = ((), ("--filter", "id:ready"), ("--filter", "!id:ready-2"), ("--filter", "id:ready-4"))


def lines() -> Iterator[tuple[str, ...]]:
    for some in FILTERS:
        for limit in range(1, JOBS + 2):
            yield ("jobs", "mail", "ready", *some, "--limit", str(limit))
            yield ("jobs", "mail", "ready", *some, "--limit", str(limit), "--cursor", "2")
        act = ("act", "kill", "mail", "--place", "ready", "--yes", *(some or ("--all",)))
        yield from ((*act, *more) for more in ((), ("--limit", "1"), ("--limit", "2"), ("--limit", "3")))
    for number in range(1, JOBS + 1):
        ids = [f"ready-{n}" for n in range(number)]
        yield ("act", "delete", "mail", *ids, "nothing", "--yes")
        yield ("check", "mail", *ids)
    yield from (("act", "purge", "mail", "--place", "ready", "--yes", "--limit", str(n)) for n in range(1, JOBS + 2))
    yield ("act", "purge", "mail", "--place", "ready", "--yes")
    yield ("put", "mail", "--lines", "-")


def outcome(url: str, client: Redis, words: tuple[str, ...]) -> tuple[Ran, list[str], list[list[bytes]]]:
    ran = shell(url, *words, "--json", stdin=LINES)
    documents = [json.loads(line) for line in ran.out.splitlines()]
    found = [normalise_output(line) for document in documents for line in list_document_lines(document)]
    return ran, found, [list_ids(client, place) for place in PLACES]


@pytest.mark.slow
def test_commands_do_the_same_in_small_batches(client: Redis, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Seeded(client).put(*(f"ready-{n}" for n in range(JOBS)))
    copies, different = keyspace.dump_raw_values(client), []
    for words in lines():
        outcomes = []
        for size in (None, 2):
            client.flushall()
            keyspace.restore_raw_values(client, copies)
            with monkeypatch.context() as patched:
                for name in SMALL if size else ():
                    patched.setattr(name, size)
                ran, *rest = outcome(url, client, words)
            outcomes.append((ran.code, normalise_output(ran.err), *rest))
        if outcomes[0] != outcomes[1]:
            different.append((words, *outcomes))
    assert different == []


@pytest.mark.parametrize("number", [2, 3, 4])
def test_outcomes_that_fit_a_screen_are_listed_and_more_are_only_counted(
    client: Redis, url: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("rqtui.cli.act_result.SCREENFUL", 3)
    ids = [f"ready-{n}" for n in range(number)]
    Seeded(client).put(*ids)
    ran = shell(url, "act", "kill", "mail", *ids, "--yes")
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == (ids if number <= 3 else [])
    assert f"{number} moved" in ran.err
