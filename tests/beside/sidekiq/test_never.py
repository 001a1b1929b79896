"""What must never be done to Sidekiq's keys: each is refused in words, or cannot come about; looking writes nothing."""

from __future__ import annotations

import json

import pytest
from beside.monitored import check_reads_only
from beside.sidekiq.record import run_stock_jobs as in_every_place
from beside.sidekiq.stock import SLOW_S, Stock
from redis import Redis
from shell import shell
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600
PLACES = ("schedule", "retry", "queue", "work", "dead")
LOOKS = (
    *((word,) for word in ("snapshot", "health", "workers", "errors", "kinds", "stats", "loops", "schedules")),
    *(("jobs", "sidekiq:default", place) for place in PLACES),
    ("show", "sidekiq:default", "fatal"),
    ("show", "sidekiq:default", "slow-1"),
)


def test_reading_writes_nothing(stock: Stock, client: Redis) -> None:
    in_every_place(stock, client)
    stock.kill_all()
    check_reads_only(stock, client, LOOKS, lambda: stock.do("act", place="dead", jid="fatal", verb="delete"))


def test_the_jobs_of_a_process_with_heartbeats_are_not_touched(stock: Stock, client: Redis) -> None:
    stock.run_holding("held", worker="living")
    assert stock.rqtui("reap", "sidekiq:default", "--once")["reaped"] == {"ready": 0, "dead": 0}
    assert "beats" in stock.read_refusal("release", "held")
    for verb in ("delete", "kill", "requeue", "promote"):
        stock.read_refusal(verb, "held")
    assert stock.jids("default") == stock.jids("dead") == []
    client.set("go", 1)
    stock.until("held", "")
    assert stock.runs() == {"held": ["living"]}


def test_only_the_named_one_of_two_jobs_with_one_score_is_changed(stock: Stock, client: Redis) -> None:
    stock.push("one", "two", "three", in_s=HOUR_S)
    for member in client.zrange("schedule", 0, -1):
        client.zadd("schedule", {member: 2_000_000_000})
    assert stock.act("kill", "two") == {"two": "moved"}
    assert sorted(stock.jids("schedule")) == ["one", "three"]
    assert stock.act("delete", "one") == {"one": "moved"}
    assert stock.jids("schedule") == ["three"]
    assert stock.act("promote", "three") == {"three": "moved"}
    assert stock.jids("dead") == ["two"]
    assert stock.jids("default") == ["three"]


def test_a_verb_on_many_jobs_of_a_shared_place_leaves_those_of_other_queues(stock: Stock, client: Redis) -> None:
    stock.push("ours-1", "ours-2", in_s=HOUR_S)
    stock.push("theirs", in_s=HOUR_S, queue="low")
    found = stock.rqtui("act", "kill", "sidekiq:default", "--place", "schedule", "--all", "--yes")
    assert found
    assert stock.jids("schedule") == ["theirs"]
    assert sorted(stock.jids("dead")) == ["ours-1", "ours-2"]


def test_there_is_no_pause_and_it_is_reported(stock: Stock, client: Redis) -> None:
    stock.push("waits")
    ran = shell(stock.url, "act", "pause", "sidekiq:default", "--yes")
    assert ran.code == 2
    assert "pause" in ran.err
    assert not client.exists("paused")


def test_a_body_that_is_no_job_is_refused_and_what_is_put_is_stock_json(stock: Stock, client: Redis) -> None:
    for body in ("[1, 2]", "{}", '{"class": 7}', '{"class": "HardJob", "args": 3}', "no json", '{"args": []}'):
        ran = shell(stock.url, "put", "sidekiq:default", body)
        assert (ran.code, ran.out) == (2, ""), body
        assert "class" in ran.err or "args" in ran.err or "JSON" in ran.err, ran.err
    assert client.dbsize() == 0
    args = ["ä", [1.5, None, True, {"b": [], "c": {}}], 12345678901234567890]
    stock.rqtui("put", "sidekiq:default", json.dumps({"class": "HardJob", "args": args, "jid": "odd"}))
    [job] = stock.do("jobs", place="default")
    assert (job["jid"], job["args"], job["item"]["retry"]) == ("odd", args, True)
    with stock.worker():
        stock.until_ran("odd")
    wait_until(lambda: stock.where("odd") == "", SLOW_S, "it is done", 0.05)
