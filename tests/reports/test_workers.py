"""Test the report on workers: what their heartbeats and leases show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
from mill_system import Mill, add_mill_jobs, add_mill_worker, mill
from planted_jobs import add_worker
from redis import Redis

from rqtui.client.native_keys import build_queue_keys
from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine, build_engine
from rqtui.model import Job, Ref, State, Worker
from rqtui.reports import workers
from rqtui.reports.workers import WorkerHealth
from rqtui.system_base.event_cache import MOST_WORKERS
from rqtui.systems import registry
from rqtui.systems.celery.system import Celery
from rqtui.systems.rq.system import MIN_WORKERS

__all__ = ["mill"]  # a fixture
CELERY, FULL = Ref("celery", "celery"), "only 1 000 workers with the newest events were kept; there may be more"
MAIL, IMAGES = Ref("native", "mail"), Ref("native", "images")


T = TypeVar("T")


@pytest.fixture
def engine(client: Redis) -> Engine:
    """Create an engine with the systems native and dispatcher."""
    return build_engine(client, [registry.create_system("native"), registry.create_system("dispatcher")])


def last(steps: Iterator[T | None]) -> T:
    """Return the complete report, the last item of `steps`."""
    *_before, whole = steps
    assert whole is not None
    return whole


def test_the_health_of_workers_follows_from_their_heartbeats_and_leases(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    for number in range(4):
        mail.put({}, id=f"j{number}", name="send")
    for worker in ("late", "busy", "unseen"):
        mail.reserve(1, worker=worker, ttr="1h")
    for name, ago_s in (("gone", 601), ("late", 61), ("busy", 1), ("idle", 1)):
        add_worker(client, name, ago_s)
    add_worker(client, "q", 1, order="quiet")
    add_worker(client, "s", 1, order="stop")
    seats, _now_ms, problems = workers.load_workers(engine, [MAIL])
    assert [(seat.name, seat.health.value, [job.id for job in seat.jobs]) for seat in seats] == [
        ("late", "late", [b"j0"]),
        ("gone", "gone", []),
        ("unseen", "unknown", [b"j2"]),
        ("busy", "running", [b"j1"]),
        ("idle", "idle", []),
        ("q", "quiet asked", []),
        ("s", "stop asked", []),
    ]
    assert not problems


def test_a_worker_without_a_heartbeat_is_silent_when_it_held_a_job_for_a_minute(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    for id in ("new", "old"):
        mail.put({}, id=id)
        mail.reserve(1, worker=id, ttr="1h")
    line = client.hget(build_queue_keys("mail")["attempts"], "old").split(b" ")
    line[3] = b"%d" % (int(line[3]) - 61_000)
    client.hset(build_queue_keys("mail")["attempts"], "old", b" ".join(line))
    seats, _now_ms, _problems = workers.load_workers(engine, [MAIL])
    assert [(seat.name, seat.health.value) for seat in seats] == [("old", "silent"), ("new", "unknown")]
    assert seats[0].health in workers.UNHEALTHY


def test_a_worker_without_heartbeats_and_with_an_expired_lease_is_reported(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    mail.put({}, id="j")
    mail.reserve(1, worker="w", ttr="1h")
    client.zadd(build_queue_keys("mail")["reserved"], {"j": 1000})
    ((seat,), _now_ms, _problems) = workers.load_workers(engine, [MAIL])
    assert seat.health is WorkerHealth.EXPIRED


def test_a_worker_does_what_it_says_it_does(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    mail.put({}, id="a")
    mail.put({}, id="b")
    mail.reserve(2, worker="w", ttr="1h")
    add_worker(client, "w", 1, job="b")
    ((seat,), _now_ms, _problems) = workers.load_workers(engine, [MAIL])
    assert seat.job is not None and seat.job.id == b"b"
    assert len(seat.jobs) == 2


def test_a_key_of_another_type_is_reported_and_the_rest_is_shown(client: Redis, engine: Engine) -> None:
    client.set(build_queue_keys("images")["workers"], "x")
    Queue("images", client).put({})
    add_worker(client, "w", 1)
    seats, _now_ms, problems = workers.load_workers(engine, [IMAGES, MAIL])
    assert [seat.name for seat in seats] == ["w"]
    assert problems and "workers" in problems[0]


def test_the_busy_ones_of_many_queues_are_among_those_read() -> None:
    refs = [Ref("native", f"q{number:03}") for number in range(150)]
    asked = workers.choose_queues(refs, {"native": registry.create_system("native")}, frozenset(refs[-5:]))
    assert len(asked) == workers.QUEUES_PER_TRIP
    assert set(refs[-5:]) <= set(asked)


def test_an_order_is_no_problem_while_heartbeats_arrive() -> None:
    worker = Worker("w", "mail", 1000, 60_000, "stop")
    assert workers.evaluate_health(worker, (), 2000) is WorkerHealth.STOPPING
    assert workers.evaluate_health(worker, (), 62_000) is WorkerHealth.LATE


def test_a_worker_with_jobs_and_no_heartbeat_is_listed_above_running_ones() -> None:
    names = {WorkerHealth.RUNNING: "a", WorkerHealth.UNSEEN: "z", WorkerHealth.LATE: "y", WorkerHealth.IDLE: "b"}
    seats = [
        workers.WorkerEntry(Ref("native", "mail"), name, standing, None, (), True) for standing, name in names.items()
    ]
    assert [seat.name for seat in sorted(seats, key=workers.compute_worker_sort_key)] == ["y", "z", "a", "b"]


def test_a_worker_of_several_queues_is_listed_once_with_the_jobs_of_every_reserved_place(
    client: Redis, mill: type[Mill]
) -> None:
    engine = build_engine(client, [mill()])
    add_mill_jobs(client, "flour", "queued", "q1")
    add_mill_jobs(client, "bran", "started", "b1", worker="w1", deadline_ms=9)
    add_mill_jobs(client, "bran", "intermediate", "b2", worker="w1", deadline_ms=5)
    add_mill_jobs(client, "bran", "started", "b3", worker="unseen")
    add_mill_worker(client, "w1", ["flour", "bran"], job="b1", state="busy", facts=[["jobs run", 41]])
    add_mill_worker(client, "w2", ["bran"])
    flour, bran = Ref("mill", "flour"), Ref("mill", "bran")
    seats, _now_ms, problems = workers.load_workers(engine, [flour, bran])
    assert not problems
    found = {seat.name: seat for seat in seats}
    assert len(seats) == 3 and {seat.id for seat in seats} == {"mill\nw1", f"{bran}\nw2", f"{bran}\nunseen"}
    assert [job.id for job in found["w1"].jobs] == [b"b2", b"b1"]
    assert found["w1"].job is not None and found["w1"].job.id == b"b1", "the one that it names"
    assert (found["w1"].ref, found["w1"].queues) == (bran, ("flour", "bran"))
    assert found["w1"].health is WorkerHealth.RUNNING and found["w1"].worker is not None
    assert found["w1"].worker.facts[0].value == 41
    ((only,), _now_ms, _problems) = workers.load_workers(engine, [flour])
    assert (only.ref, only.jobs, only.health) == (flour, (), WorkerHealth.RUNNING), "its job is of another queue"


def list_notes(client: Redis, system: str, queue: str) -> tuple[str, ...]:
    engine = build_engine(client, [registry.create_system(system)])
    return workers.load_workers(engine, [Ref(system.partition(":")[0], queue)])[2]


def test_a_limit_on_the_workers_that_are_read_is_reported(client: Redis) -> None:
    client.sadd("processes", *(f"host:{number}:x" for number in range(900)))
    [note] = list_notes(client, "sidekiq", "default")
    assert note.endswith(" of 900 processes of Sidekiq were read") and 300 <= int(note.split()[0]) < 400
    client.rpush("bull:mail:active", *map(str, range(250)))
    assert list_notes(client, "bullmq", "mail") == (
        "200 of 250 running jobs of mail were read for the workers that hold their locks",
    )
    client.hset("orizuru:heartbeats", mapping={f"c{number}": 1 for number in range(3_000)})
    [note] = list_notes(client, "orizuru:source=jobs", "jobs")
    assert note.endswith(" of 3 000 consumers of orizuru were read")
    client.flushdb()
    for system, queue in (("sidekiq", "default"), ("bullmq", "mail"), ("orizuru:source=jobs", "jobs")):
        assert list_notes(client, system, queue) == ()


def test_more_workers_than_one_request_reads_are_read_at_once(client: Redis) -> None:
    names = [f"rq:worker:w{number:03}" for number in range(MIN_WORKERS + 1)]
    client.sadd("rq:workers:default", *names)
    engine = build_engine(client, [registry.create_system("rq")])
    entries, _now_ms, problems = workers.load_workers(engine, [Ref("rq", "default")])
    assert (len(entries), problems) == (len(names), ())


def test_a_worker_that_is_known_by_events_is_one_row_in_all_queues() -> None:
    celery = registry.create_system("celery")
    assert isinstance(celery, Celery)
    mail, news = Ref("celery", "mail"), Ref("celery", "news")

    def list_entries(*refs: Ref) -> list[workers.WorkerEntry]:
        rosters = [celery.workers_request(ref.queue).parse(()) for ref in refs]
        results = {"workers": rosters, "held": [() for _ref in refs]}
        return [*workers.parse_workers(refs, {"celery": celery}, results, 1)[0]]

    celery.event_cache.record_heartbeat(Worker("w1", "", 1, 1000))
    [in_one_queue], [in_two_queues] = list_entries(news), list_entries(news, mail)
    assert in_one_queue.id == in_two_queues.id == "celery\nw1"
    assert (in_two_queues.ref, in_two_queues.queues) == (news, ("news", "mail"))
    celery.event_cache.record_heartbeat(Worker("w1", "", 2, 1000, queues=("mail",)))
    [with_a_known_queue] = list_entries(news, mail)
    assert (with_a_known_queue.ref, with_a_known_queue.queues) == (mail, ("mail",))


def test_a_worker_without_heartbeats_that_holds_jobs_of_two_queues_has_the_worst_health_of_both() -> None:
    job = Job(b"a", "mail", "celery", "unacked", State.RESERVED, b"a", worker="w1", reserved_ms=5)
    in_mail = workers.WorkerEntry(
        Ref("celery", "mail"), "w1", WorkerHealth.UNSEEN, None, (job,), True, is_known_by_events=True
    )
    in_news = replace(in_mail, ref=Ref("celery", "news"), health=WorkerHealth.EXPIRED, jobs=())
    [entry] = workers.merge_worker_entries([in_mail, in_news], 10)
    assert (entry.health, entry.worker, entry.jobs) == (WorkerHealth.EXPIRED, None, (job,))


def test_a_full_cache_of_workers_from_events_is_reported() -> None:
    celery = registry.create_system("celery")
    assert isinstance(celery, Celery)
    for number in range(MOST_WORKERS + 5):
        celery.event_cache.record_heartbeat(Worker(f"w{number}", "", 1, 1000))
        request = celery.workers_request("celery") if number in (MOST_WORKERS - 2, MOST_WORKERS + 4) else None
        if request:
            _workers, problems = workers.parse_workers(
                [CELERY], {"celery": celery}, {"workers": [request.parse(())], "held": [()]}, 1
            )
            assert problems == ((FULL,) if number > MOST_WORKERS else ())
