"""What must never be done to RQ's keys: each is refused in words, or cannot come about; and looking writes nothing."""

from __future__ import annotations

import json
import time

import pytest
from beside.monitored import check_reads_only
from beside.rq.stock import Stock, age_leases
from redis import Redis
from shell import shell
from waiting import wait_until

from rqtui.testing.keyspace import dump

pytestmark = pytest.mark.beside
HOUR_S = 3600
LOOKS = (
    ("snapshot",),
    ("health",),
    ("workers",),
    ("errors",),
    ("kinds",),
    ("stats",),
    ("loops",),
    ("schedules",),
    *(("jobs", "rq:default", place) for place in ("queued", "started", "failed", "scheduled", "finished", "canceled")),
    ("show", "rq:default", "bad"),
    ("show", "rq:default", "held"),
)


def test_reading_writes_nothing_where_rq_info_moves_jobs(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", queue="default", func="shop.confirm", args=[7], id="bad")
    with stock.worker():
        stock.until("bad", "failed")
    stock.run_holding("held", "first").kill()
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="later", in_s=0)
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="next")
    age_leases(client, "default", 600)
    check_reads_only(stock, client, LOOKS, lambda: stock.rq("info"), telling=("health",))
    assert stock.do("job", id="held")["status"] == "failed"


def test_jobs_that_a_living_worker_runs_are_neither_reaped_nor_deleted(stock: Stock, client: Redis) -> None:
    stock.run_holding("held", "living")
    client.zadd("rq:wip:default", {client.zrange("rq:wip:default", 0, 0)[0]: time.time() - 5})
    before = client.zrange("rq:wip:default", 0, -1)
    reaped = shell(stock.url, "reap", "rq:default", "--once", "--json")
    assert reaped.code == 0
    assert not any(reaped.json["reaped"].values())
    assert "cancel it first" in stock.read_refusal("delete", "held")
    assert "cancel it first" in stock.read_refusal("delete", "held", "--force")
    for verb in ("kill", "requeue", "promote"):
        stock.read_refusal(verb, "held")
    assert client.zrange("rq:wip:default", 0, -1) == before
    client.set("go", 1)
    stock.until("held", "finished")
    assert stock.runs() == {"held": ["living"]}


def test_a_killed_job_is_in_no_list_where_it_would_run(stock: Stock, client: Redis) -> None:
    for id in ("killed", "next"):
        stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id=id)
    client.hset("rq:job:next", "status", "canceled")  # only the status, which has no effect: the worker runs it
    assert stock.act("kill", "killed") == {"killed": "moved"}
    assert stock.do("ids", queue="default", place="queued") == ["next"]
    with stock.worker():
        stock.until("next", "finished")
    assert [*stock.runs()] == ["next"]
    assert stock.do("job", id="killed")["status"] == "canceled"


def test_a_body_that_is_no_call_is_refused_and_an_accepted_one_is_stored_as_a_pickle(
    stock: Stock, client: Redis
) -> None:
    for body in (
        "[1, 2]",
        "{}",
        '{"func": 7}',
        '{"func": "shop.add", "args": 3}',
        '{"func": "shop.add", "kwargs": []}',
    ):
        ran = shell(stock.url, "put", "rq:default", body, "--id", "bad")
        assert (ran.code, ran.out) == (2, ""), body
        assert "func" in ran.err or "args" in ran.err
    assert client.dbsize() == 0
    call = {"func": "shop.add", "args": ["ä", [1.5, None, True, {"b": []}]], "kwargs": {}}
    stock.rqtui("put", "rq:default", json.dumps(call), "--id", "odd")
    assert stock.do("job", id="odd")["args"] == call["args"]


def test_a_job_that_others_wait_for_is_not_deleted_unasked(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="parent")
    stock.do("enqueue", queue="default", func="shop.add", args=[3, 4], id="child", depends_on="parent")
    assert "other jobs depend on it" in stock.read_refusal("delete", "parent")
    assert stock.do("statuses", ids=["parent", "child"]) == ["queued", "deferred"]
    assert stock.act("delete", "parent", "--force") == {"parent": "moved"}
    assert stock.do("statuses", ids=["parent", "child"]) == [None, "deferred"]
    assert stock.act("promote", "child") == {"child": "moved"}
    stock.start()
    assert stock.until("child", "finished")["value"] == 7


@pytest.mark.parametrize("stock", ["3.0.0"], indirect=True)
def test_jobs_with_a_rate_limit_are_left_to_rq(stock: Stock, client: Redis) -> None:
    for id in ("first", "second"):
        stock.do("limited", queue="default", func="shop.add", args=[1, 2], id=id, key="api")
    before = dump(client)
    for verb, id in (("kill", "first"), ("delete", "first"), ("delete", "second")):
        assert "it has a rate limit, whose slots only RQ can assign" in stock.read_refusal(verb, id), verb
    stock.read_refusal("promote", "second")  # it is in no place of the queue
    assert dump(client) == before
    stock.start()
    for id in ("first", "second"):
        stock.until(id, "finished")
    wait_until(lambda: sum(map(len, stock.runs().values())) == 2, what="each ran once")
