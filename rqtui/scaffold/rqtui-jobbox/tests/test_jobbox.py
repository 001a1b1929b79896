"""The scripts keep what rqtui promises of every script, and rqtui shows what is in Redis.

`plant` writes jobs as Jobbox itself does. Everything else follows from it and from the headers of the scripts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
from redis import Redis
from rqtui_jobbox import JobboxQueues

from rqtui.engine.engine import Engine
from rqtui.testing import (
    JobDatabase,
    Planted,
    Request,
    Subject,
    Use,
    cases,
    find_system_faults,
    run_all,
    run_system_checks,
    start_redis,
)

SYSTEM = JobboxQueues()
QUEUE = "mail"
KEYS = SYSTEM.keys(QUEUE)
NOW = int(time.time() * 1000)
HOUR_S = 3600
ALL = {"delayed", "waiting", "running", "failed"}


def record_key(id: bytes) -> bytes:
    return b"jobbox:job:" + id


def body(id: bytes) -> bytes:
    """Build the body of a job. Every third is longer than a page shows."""
    return b'{"id": "%s"}' % id + b" " * (6000 if id.endswith(b"3") else 0)


def plant(client: Redis, place: str, ids: Sequence[bytes], ripe: bool) -> list[Planted]:
    """Plant jobs as Jobbox writes them; with `ripe`, delayed jobs are due and leases are over."""
    now_s = NOW / 1000
    for number, id in enumerate(ids):
        attempts = {"running": 1, "failed": 3}.get(place, 0)
        record = {"body": body(id), "name": "send", "created": f"{now_s - HOUR_S:.3f}", "attempts": attempts}
        if place == "running":
            record["worker"] = "w1"
        if place == "failed":
            record["error"] = "TimeoutError: smtp"
        client.hset(record_key(id), mapping=record)
        if place == "waiting":
            client.rpush(KEYS[place], id)
        else:
            is_past = ripe or place == "failed"
            score = now_s + (-HOUR_S if is_past else HOUR_S) + client.zcard(KEYS[place]) + number / 1000
            client.zadd(KEYS[place], {id: round(score, 3)})
    return [Planted(id, place) for id in ids]


def members(client: Redis, place: str) -> list[bytes]:
    key = KEYS[place]
    return client.lrange(key, 0, -1) if place == "waiting" else client.zrange(key, 0, -1)


def facts(client: Redis, id: bytes) -> object:
    return client.hgetall(record_key(id)) or None


def stored_body(client: Redis, id: bytes) -> bytes | None:
    return client.hget(record_key(id), "body")


def by_id(jobs: Sequence[Planted]) -> Request:
    return Request(rows=[(job.id,) for job in jobs])


def absent(database: JobDatabase) -> Request:
    return by_id([database.create_absent_job()])


def in_place(place: str):  # type: ignore[no-untyped-def]
    return lambda database: by_id(database.plant(place))


def without_record(database: JobDatabase) -> Request:
    jobs = database.plant("failed")
    database.client.delete(record_key(jobs[0].id))
    return by_id(jobs)


def new_jobs(jobs: Sequence[Planted]) -> Request:
    return Request({"now_ms": NOW}, [(job.id, body(job.id), "send", None, None) for job in jobs])


def show(jobs: Sequence[Planted]) -> Request:
    return Request({"now_ms": NOW, "id": jobs[0].id, "body_bytes": -1})


def later(jobs: Sequence[Planted]) -> Request:
    return Request({"now_ms": NOW, "delay_ms": 60_000}, [(job.id,) for job in jobs])


def make_ghost(client: Redis) -> None:
    client.lpush(KEYS["waiting"], "ghost")


def make_abandoned(client: Redis) -> None:
    plant(client, "running", [b"abandoned-1"], ripe=True)


SUBJECT = Subject(
    name=SYSTEM.name,
    scripts=SYSTEM.scripts,
    places=("delayed", "waiting", "running", "failed"),
    key=lambda name: KEYS[name],
    plant=plant,
    members=members,
    facts=facts,
    body=stored_body,
    is_derived=lambda key: key.startswith("jobbox:job:"),
    uses={
        "counts": Use(lambda jobs: Request({"now_ms": NOW}), sources=("waiting",), knows_jobs=False),
        "page": Use(
            lambda jobs: Request({"now_ms": NOW, "place": "waiting", "offset": 0, "limit": 10, "body_bytes": 100}),
            sources=("waiting",),
            knows_jobs=False,
        ),
        "show": Use(show, sources=("waiting",), reach={"gone": lambda database: show([database.create_absent_job()])}),
        "roster": Use(lambda jobs: Request(), sources=("waiting",), knows_jobs=False),
        "faults": Use(lambda jobs: Request({"now_ms": NOW}), sources=("waiting",), knows_jobs=False),
        "enqueue": Use(new_jobs, reach={"exists": lambda database: new_jobs(database.plant("waiting"))}),
        "delete": Use(by_id, reach={"gone": absent, "reserved": in_place("running")}),
        "requeue": Use(by_id, reach={"gone": absent, "wrong_place": in_place("waiting"), "ghost": without_record}),
        "promote": Use(by_id, reach={"gone": absent, "wrong_place": in_place("failed")}),
        "reschedule": Use(
            later,
            repeats=True,
            reach={
                "gone": lambda database: later([database.create_absent_job()]),
                "wrong_place": lambda database: later(database.plant("failed")),
            },
        ),
    },
    system=SYSTEM,
    queue=QUEUE,
    has_plain_bodies=True,
    shown_facts={"failed": {"attempts": 3, "error": "TimeoutError: smtp", "name": "send"}, "running": {"worker": "w1"}},
    attempts_after={"requeue": lambda attempts: 0},
    faults={"ghost": make_ghost, "abandoned": make_abandoned},
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


def test_class_scripts_and_texts_fit() -> None:
    assert find_system_faults(SYSTEM) == []


def test_workers_are_listed_with_their_heartbeats_and_the_live_ones_counted(client: Redis) -> None:
    client.flushall()
    now_s = client.time()[0]
    client.zadd(KEYS["workers"], {"alive": now_s, "silent": now_s - HOUR_S})
    engine = Engine(client, [SYSTEM])
    silent, alive = engine.send_request(SYSTEM.workers_request(QUEUE))
    assert (alive.name, alive.heartbeat_ms, alive.is_late(now_s * 1000)) == ("alive", now_s * 1000, False)
    assert silent.name == "silent" and silent.is_late(now_s * 1000)
    assert engine.send_request(SYSTEM.queue_request(QUEUE)).workers == 1
