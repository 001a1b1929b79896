"""HotQueue's scripts keep what rqtui promises of every script; `python -m pytest` runs it beside an installed rqtui."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pytest
from redis import Redis
from rqtui_hotqueue import HotQueue

from rqtui.model import Job
from rqtui.testing import Planted, Request, Subject, Use, cases, run_all, run_system_checks, start_redis

NOW = 1_780_000_000_000
SYSTEM = HotQueue()
KEY = SYSTEM.keys("mail")["waiting"]


def body(id: bytes) -> bytes:
    """Build the body of a job. Every third is too long for a page."""
    return pickle.dumps((id, "x" * (6000 if id.endswith(b"3") else 3)), 2)


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant jobs as `HotQueue.put` does."""
    for id in ids:
        client.rpush(KEY, body(id))
    return [Planted(id, place) for id in ids]


def members(client: Redis, _place: str) -> list[bytes]:
    return [pickle.loads(entry)[0] for entry in client.lrange(KEY, 0, -1)]


def read_body_if_waiting(client: Redis, id: bytes) -> bytes | None:
    return body(id) if id in members(client, "waiting") else None


def identify(job: Job) -> bytes:
    """Return the id in the body of a planted job; a new job has none."""
    content = pickle.loads(job.body or b"")
    return content[0] if isinstance(content, tuple) else b""


def request_show(jobs: Sequence[Planted]) -> Request:
    entry = body(jobs[0].id)
    return Request({"now_ms": NOW, "head": entry, "size": len(entry), "tail": entry[-64:], "body_bytes": -1})


def by_entry(jobs: Sequence[Planted]) -> Request:
    return Request(rows=[(body(job.id),) for job in jobs])


SUBJECT = Subject(
    name=SYSTEM.name,
    scripts=SYSTEM.scripts,
    places=("waiting",),
    key=lambda name: SYSTEM.keys("mail")[name],
    plant=plant,
    members=members,
    facts=read_body_if_waiting,
    body=read_body_if_waiting,
    uses={
        "counts": Use(lambda jobs: Request({"now_ms": NOW}), sources=("waiting",), knows_jobs=False),
        "page": Use(
            lambda jobs: Request({"now_ms": NOW, "place": "waiting", "offset": 0, "limit": 10, "body_bytes": 100}),
            sources=("waiting",),
            knows_jobs=False,
        ),
        "show": Use(
            request_show,
            sources=("waiting",),
            reach={"gone": lambda database: request_show([database.create_absent_job()])},
        ),
        "enqueue": Use(by_entry, repeats=True),
        "delete": Use(by_entry, reach={"gone": lambda database: by_entry([database.create_absent_job()])}),
    },
    system=SYSTEM,
    queue="mail",
    identify=identify,
    has_plain_bodies=True,
)


@pytest.fixture(scope="session")
def client() -> Iterator[Redis]:
    with start_redis() as redis:
        yield redis


@pytest.mark.parametrize("script", SUBJECT.scripts)
def test_a_script_keeps_its_promises(script: str, client: Redis) -> None:
    run_all(cases(SUBJECT, [script]), SUBJECT, client)


def test_what_is_in_redis_is_what_people_see(client: Redis) -> None:
    run_system_checks(SUBJECT, client)
