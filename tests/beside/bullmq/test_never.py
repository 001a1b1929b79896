"""What must never be done to BullMQ's keys: each is refused in words, or cannot come about; looking writes nothing."""

from __future__ import annotations

import pytest
from beside.bullmq.stock import SLOW_S, P, Stock
from beside.monitored import check_reads_only
from redis import Redis
from shell import shell
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_MS = 3_600_000
LOOKS = (
    *((word,) for word in ("snapshot", "health", "workers", "errors", "kinds", "stats", "loops", "schedules")),
    *(("jobs", "bullmq:mail", place) for place in ("delayed", "wait", "active", "completed", "failed")),
    ("show", "bullmq:mail", "bad"),
)


def test_reading_writes_nothing(stock: Stock, client: Redis) -> None:
    stock.add("bad", name="confirm", data={"order": 7})
    stock.add("done")
    with stock.worker():
        stock.until("bad", "failed")
        stock.until("done", "completed")
    stock.run_killed_worker("held")
    stock.add("later", delay=HOUR_MS)
    stock.add("next")
    check_reads_only(stock, client, LOOKS, lambda: stock.do("act", queue="mail", id="next", verb="remove"))


def test_a_held_job_is_left_to_its_worker(stock: Stock, client: Redis) -> None:
    stock.run_holding("held", "living")
    assert stock.rqtui("reap", "bullmq:mail", "--once")["reaped"] == {"ready": 0, "dead": 0}
    for verb in ("release", "delete"):
        assert "holds its lock" in stock.read_refusal(verb, "held"), verb
    for verb in ("kill", "requeue", "promote", "reprioritise"):
        more = ("--set", "priority=1") if verb == "reprioritise" else ()
        stock.read_refusal(verb, "held", *more)
    assert stock.state("held") == "active"
    client.set("go", 1)
    stock.until("held", "completed")
    assert stock.runs() == {"held": ["living"]}


def test_no_lease_is_taken_and_no_job_ended_for_a_worker(stock: Stock, client: Redis) -> None:
    stock.add("waits")
    for verb in ("reserve", "ack"):
        ran = shell(stock.url, "act", verb, "bullmq:mail", *(("waits",) if verb == "ack" else ()), "--yes")
        assert ran.code == 2, (ran.out, ran.err)
        assert "lock" in ran.err
    assert stock.state("waits") == "waiting"


def test_the_next_job_of_a_scheduler_and_a_child_are_spared(stock: Stock, client: Redis) -> None:
    stock.do("schedule", queue="mail", id="often", every={"pattern": "0 3 * * *"}, name="work", data={})
    [next_id] = stock.do("ids", queue="mail", state="delayed")
    assert "unschedule" in stock.read_refusal("delete", next_id)
    assert "unschedule" in stock.read_refusal("kill", next_id)
    children = [{"name": "work", "queueName": "mail", "data": {}, "opts": {"jobId": "child"}}]
    stock.do("flow", tree={"name": "work", "queueName": "mail", "opts": {"jobId": "parent"}, "children": children})
    assert "delete it instead" in stock.read_refusal("kill", "child")
    assert "force" in stock.read_refusal("delete", "parent")
    assert stock.states("child", "parent", next_id) == {
        "child": "waiting",
        "parent": "waiting-children",
        next_id: "delayed",
    }
    with stock.worker():
        stock.until("parent", "completed")
    assert stock.act("promote", next_id) == {next_id: "moved"}
    with stock.worker():
        stock.until(next_id, "completed")
    wait_until(lambda: stock.do("ids", queue="mail", state="delayed"), SLOW_S, "the scheduler goes on", 0.05)


def test_a_paused_5_gets_nothing_into_wait(stock: Stock, client: Redis) -> None:
    stock.add("bad", "worse", name="confirm", data={"order": 7})
    with stock.worker():
        for id in ("bad", "worse"):
            stock.until(id, "failed")
    stock.add("later", delay=HOUR_MS)
    stock.do("whole", queue="mail", verb="pause")
    stock.act("requeue", "bad")
    stock.act("promote", "later")
    stock.rqtui("put", "bullmq:mail", "{}", "--id", "put", "--name", "work")
    waits, paused = client.llen(f"{P}wait"), client.llen(f"{P}paused")
    assert (waits, paused) == ((0, 3) if stock.is_5 else (3, 0))
    stock.do("whole", queue="mail", verb="resume")
    with stock.worker():
        for id in ("later", "put"):
            stock.until(id, "completed")
        stock.until("bad", "failed")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"bad": 2, "worse": 1, "later": 1, "put": 1}


def test_a_body_that_is_no_json_is_refused_and_nothing_is_written(stock: Stock, client: Redis) -> None:
    for body in ("no json", "{", "NaN"):
        ran = shell(stock.url, "put", "bullmq:mail", body, "--id", "bad")
        assert (ran.code, ran.out) == (2, ""), body
        assert "JSON" in ran.err
    assert client.dbsize() == 0
