"""Workers: what their beats and leases tell of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pytest
from mill_system import Mill, grind, hire, mill
from redis import Redis
from troubles import beat

from rqtui.client.native_keys import keys
from rqtui.client.queue import Queue
from rqtui.engine.engine import Engine, with_layouts
from rqtui.model import Ref, Worker
from rqtui.reports import workers
from rqtui.reports.workers import Standing
from rqtui.systems import registry

__all__ = ["mill"]  # a fixture
MAIL, IMAGES = Ref("native", "mail"), Ref("native", "images")


T = TypeVar("T")


@pytest.fixture
def engine(client: Redis) -> Engine:
    """An engine that knows the native layout and the dispatcher's."""
    return with_layouts(client, [registry.make("native"), registry.make("dispatcher")])


def last(steps: Iterator[T | None]) -> T:
    """The whole report."""
    *_before, whole = steps
    assert whole is not None
    return whole


def test_workers_stand_as_their_beats_and_leases_tell(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    for number in range(4):
        mail.put({}, id=f"j{number}", name="send")
    for worker in ("late", "busy", "unseen"):
        mail.reserve(1, worker=worker, ttr="1h")
    for name, ago_s in (("gone", 601), ("late", 61), ("busy", 1), ("idle", 1)):
        beat(client, name, ago_s)
    beat(client, "q", 1, order="quiet")
    beat(client, "s", 1, order="stop")
    seats, _now_ms, problems = workers.report(engine, [MAIL])
    assert [(seat.name, seat.standing.value, [job.id for job in seat.jobs]) for seat in seats] == [
        ("late", "late", [b"j0"]),
        ("gone", "gone", []),
        ("unseen", "no beat", [b"j2"]),
        ("busy", "running", [b"j1"]),
        ("idle", "idle", []),
        ("q", "quiet asked", []),
        ("s", "stop asked", []),
    ]
    assert not problems


def test_who_never_beats_and_let_a_lease_pass_is_in_trouble(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    mail.put({}, id="j")
    mail.reserve(1, worker="w", ttr="1h")
    client.zadd(keys("mail")["reserved"], {"j": 1000})
    ((seat,), _now_ms, _problems) = workers.report(engine, [MAIL])
    assert seat.standing is Standing.EXPIRED


def test_a_worker_does_what_it_says_it_does(client: Redis, engine: Engine) -> None:
    mail = Queue("mail", client)
    mail.put({}, id="a")
    mail.put({}, id="b")
    mail.reserve(2, worker="w", ttr="1h")
    beat(client, "w", 1, job="b")
    ((seat,), _now_ms, _problems) = workers.report(engine, [MAIL])
    assert seat.job is not None and seat.job.id == b"b"
    assert len(seat.jobs) == 2


def test_a_key_of_another_type_is_said_and_the_rest_is_shown(client: Redis, engine: Engine) -> None:
    client.set(keys("images")["workers"], "x")
    Queue("images", client).put({})
    beat(client, "w", 1)
    seats, _now_ms, problems = workers.report(engine, [IMAGES, MAIL])
    assert [seat.name for seat in seats] == ["w"]
    assert problems and "workers" in problems[0]


def test_of_many_queues_the_busy_ones_are_asked() -> None:
    refs = [Ref("native", f"q{number:03}") for number in range(150)]
    asked = workers.chosen(refs, {"native": registry.make("native")}, frozenset(refs[-5:]))
    assert len(asked) == workers.MOST_QUEUES
    assert set(refs[-5:]) <= set(asked)


def test_an_order_is_no_trouble_while_it_beats() -> None:
    worker = Worker("w", "mail", 1000, 60_000, "stop")
    assert workers.standing(worker, (), 2000) is Standing.STOPPING
    assert workers.standing(worker, (), 62_000) is Standing.LATE


def test_who_holds_jobs_and_never_beat_stands_above_those_at_work() -> None:
    names = {Standing.RUNNING: "a", Standing.UNSEEN: "z", Standing.LATE: "y", Standing.IDLE: "b"}
    seats = [workers.Seat(Ref("native", "mail"), name, standing, None, (), True) for standing, name in names.items()]
    assert [seat.name for seat in sorted(seats, key=workers.rank)] == ["y", "z", "a", "b"]


def test_a_worker_of_several_queues_stands_there_once_with_the_jobs_of_every_reserved_place(
    client: Redis, mill: type[Mill]
) -> None:
    engine = with_layouts(client, [mill()])
    grind(client, "flour", "queued", "q1")
    grind(client, "bran", "started", "b1", worker="w1", deadline_ms=9)
    grind(client, "bran", "intermediate", "b2", worker="w1", deadline_ms=5)
    grind(client, "bran", "started", "b3", worker="unseen")
    hire(client, "w1", ["flour", "bran"], job="b1", state="busy", facts=[["jobs run", 41]])
    hire(client, "w2", ["bran"])
    flour, bran = Ref("mill", "flour"), Ref("mill", "bran")
    seats, _now_ms, problems = workers.report(engine, [flour, bran])
    assert not problems
    found = {seat.name: seat for seat in seats}
    assert len(seats) == 3 and {seat.id for seat in seats} == {"mill\nw1", f"{bran}\nw2", f"{bran}\nunseen"}
    assert [job.id for job in found["w1"].jobs] == [b"b2", b"b1"]
    assert found["w1"].job is not None and found["w1"].job.id == b"b1", "the one that it names"
    assert (found["w1"].ref, found["w1"].queues) == (bran, ("flour", "bran"))
    assert found["w1"].standing is Standing.RUNNING and found["w1"].worker is not None
    assert found["w1"].worker.facts[0].value == 41
    ((only,), _now_ms, _problems) = workers.report(engine, [flour])
    assert (only.ref, only.jobs, only.standing) == (flour, (), Standing.RUNNING), "its job is of another queue"
