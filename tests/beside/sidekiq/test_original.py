"""The demo's producers, processes and poller, written from the wire description, beside stock Sidekiq: both ways."""

from __future__ import annotations

import pytest
from beside.environments import VARIABLE, build_sidekiq
from beside.sidekiq.stock import SLOW_S, Stock
from redis import Redis
from waiting import wait_until

from rqtui.scenarios.originals import sidekiq as original

pytestmark = pytest.mark.beside


def test_a_stock_process_runs_what_the_demo_pushes_delays_and_fails(stock: Stock, client: Redis) -> None:
    producer = original.Client(client, "default")
    producer.push(producer.build_item("plain", "HardJob", 1, {"of": ["ä"]}))
    producer.push_in(0, producer.build_item("later", "HardJob", 2))
    if stock.has["active_job"]:
        job = original.wrap_active_job("GreetJob", "0d-1", "zoë")
        is_new = int(stock.version.split(".")[0]) >= 7
        old = {} if is_new else {"class": "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"}
        producer.push(producer.build_item("greeting", "GreetJob", **{**job, **old}))
    error = original.JobError("ArgumentError", "no such order: 7", "shop.rb:1:in `perform'")
    failing = original.Process(client, "default", "demo", lambda _item: _raise(error))
    producer.push(producer.build_item("fails", "HardJob", 7))
    producer.push({**producer.build_item("dies", "HardJob", 8), "retry": 0})
    taken = [failing.step() for _ in range(client.llen("queue:default"))]
    assert taken.count("dead") == 1
    assert set(taken) == {"retried", "dead"}
    [dead] = stock.do("jobs", place="dead")
    assert (dead["jid"], dead["error"], dead["backtrace"]) == ("dies", error.message, [*error.lines])
    retried = stock.jids("retry")
    assert {*retried} >= {"plain", "fails"}
    stock.start()
    for jid in retried:
        stock.do("act", place="retry", jid=jid, verb="retry")
    stock.do("act", place="dead", jid="dies", verb="retry")
    for jid in (*retried, "dies", "later"):
        stock.until_ran(jid)
    assert {len(runs) for runs in stock.runs().values()} == {1}


def test_the_demo_runs_and_polls_what_stock_pushes_and_the_stock_api_sees_its_process(
    stock: Stock, client: Redis
) -> None:
    ran: list[str] = []
    process = original.Process(client, "default", "demo-1", lambda item: ran.append(item["jid"]))
    stock.push("one", "two")
    stock.push("later", in_s=3600)
    assert [process.step(), process.step(), process.step()] == ["finished", "finished", "idle"]
    assert original.enqueue_due_jobs(client) == 0
    client.zadd("schedule", {client.zrange("schedule", 0, 0)[0]: 1})
    assert original.enqueue_due_jobs(client) == 1
    assert process.step() == "finished"
    assert ran == ["one", "two", "later"]
    stock.push("held")
    process.begin(client.rpop("queue:default"))
    process.beat()
    [seen] = stock.do("processes")
    assert (seen["identity"], seen["queues"], seen["busy"]) == (process.identity, ["default"], 1)
    assert client.get("stat:processed") == b"3"
    if stock.work_key == ":work":
        assert [(each["jid"], each["process"]) for each in stock.do("work")] == [("held", process.identity)]
    process.leave()
    assert stock.do("processes") == []


def test_a_stock_poller_and_the_demos_lose_the_same(stock: Stock, client: Redis) -> None:
    for is_stock in (True, False):
        client.zadd("schedule", {b'{"torn': 1})
        if is_stock:
            with stock.worker():
                wait_until(lambda: not client.zcard("schedule"), SLOW_S, "the poller takes it", 0.05)
        else:
            with pytest.raises(original.Unreadable):
                original.enqueue_due_jobs(client)
        assert client.zcard("schedule") == client.zcard("dead") == client.llen("queue:default") == 0


def test_stock_that_is_not_there_skips_its_tests_with_the_reason(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    for name, body in (("gem", "echo no rubygems.org here >&2; exit 2"), ("ruby", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "beside"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(pytest.skip.Exception, match=r"Sidekiq 8.1.7 .*: no rubygems.org here"):
        build_sidekiq("8.1.7")
    with pytest.raises(pytest.skip.Exception, match="apt-get install ruby-sidekiq"):
        build_sidekiq("debian")


def _raise(error: Exception) -> None:
    raise error
