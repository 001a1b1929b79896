"""`rqtui health` finds faults of Sidekiq and of killed workers. Its fix repairs them for stock Sidekiq."""

from __future__ import annotations

import json
import time

import pytest
from beside.sidekiq.stock import LIFE_S, SLOW_S, Stock, is_blocked
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600
RAW = b"\x82\xa5class\xa7HardJob\xa4args\x90"
TORN = b'{"retry":true,"queue":"default","class":"HardJob","args":["ada@exam'


def test_jobs_of_a_killed_process_are_found_with_a_countdown_and_reaped_before_they_are_lost(
    stock: Stock, client: Redis
) -> None:
    worker = stock.run_holding("one", "two", worker="killed")
    assert not stock.has_finding("lost-on-kill")
    worker.kill()
    assert not stock.has_finding("lost-on-kill"), "its beat is not old"
    stock.age(worker, 22)
    finding = stock.find_finding("lost-on-kill")
    assert (finding["severity"], finding["jobs"]) == ("critical", 2)
    assert {*finding["ids"]} & {"one", "two"}
    until_ms = finding["until_at_ms"]
    assert 0 < until_ms - client.time()[0] * 1000 < LIFE_S * 1000
    stock.apply_fix(finding, "rqtui reap sidekiq:default")
    assert stock.jids("default") == [], "it is not silent for 30 s yet"
    stock.age(worker, 10)
    stock.apply_fix(finding, "rqtui reap sidekiq:default")
    assert sorted(stock.jids("default")) == ["one", "two"]
    assert stock.do("work") == []
    assert not stock.has_finding("lost-on-kill")
    client.set("go", 1)
    stock.start(name="next")
    for jid in ("one", "two"):
        stock.until_ran(jid, 2)
    assert stock.runs() == {jid: ["killed", "next"] for jid in ("one", "two")}


def test_a_member_that_a_stock_poller_loses_is_found_and_kept_by_kill(stock: Stock, client: Redis) -> None:
    torn = TORN + b'2"'
    client.zadd("schedule", {torn: time.time() - 1})
    with stock.worker():
        wait_until(lambda: client.zcard("schedule") == 0, SLOW_S, "the poller takes it", 0.05)
    assert client.zcard("retry") == client.zcard("dead") == client.llen("queue:default") == 0, "and has lost it"
    stock.push("good")
    client.zadd("schedule", {TORN: time.time() + HOUR_S})
    finding = stock.find_finding("undecodable")
    assert finding["severity"] == "critical"
    shown = stock.rqtui("jobs", "sidekiq:default", "schedule")["jobs"]
    [job] = shown
    assert job["problem"]
    assert stock.act("kill", job["id"]) == {job["id"]: "moved"}
    assert client.zrange("dead", 0, -1) == [TORN]
    assert not stock.has_finding("undecodable")
    raw = stock.find_finding("raw-bytes")
    [dead] = stock.rqtui("jobs", "sidekiq:default", "dead")["jobs"]
    stock.apply_fix(
        {"remedy": raw["remedy"].replace("ID", dead["id"])}, f"rqtui act delete sidekiq:default {dead['id']}"
    )
    assert client.zcard("dead") == 0
    assert not stock.has_finding("raw-bytes")


def test_bytes_that_no_client_reads_are_killed_by_the_stock_process_that_takes_them_and_found(
    stock: Stock, client: Redis
) -> None:
    client.sadd("queues", "default")
    client.lpush("queue:default", RAW)
    assert stock.find_finding("unreadable")["severity"] == "critical"
    with stock.worker():
        wait_until(lambda: client.zcard("dead"), SLOW_S, "it is dead", 0.05)
    assert client.zrange("dead", 0, -1) == [RAW]
    assert stock.find_finding("raw-bytes")["jobs"] == 1
    assert not stock.has_finding("unreadable")


def test_missing_pollers_and_workers_of_a_queue_are_found(stock: Stock, client: Redis) -> None:
    stock.push("reminder", "other", in_s=HOUR_S)
    for member in client.zrange("schedule", 0, -1):
        client.zadd("schedule", {member: time.time() - 90})
    finding = stock.find_finding("nobody-polls")
    assert (finding["severity"], finding["jobs"]) == ("critical", 2)
    [command] = {each for each in ("reminder", "other") if f"promote sidekiq:default {each}" in finding["remedy"]}
    stock.apply_fix(finding, f"rqtui act promote sidekiq:default {command}")
    assert stock.jids("default") == [command]
    stock.start("low")  # it polls, and works on another queue
    wait_until(lambda: client.zcard("schedule") == 0, SLOW_S, "it polls", 0.05)
    assert not stock.has_finding("nobody-polls")
    assert stock.find_finding("no-consumer")["queue"] == "default"
    stock.start()
    for jid in ("reminder", "other"):
        stock.until_ran(jid)
    assert not stock.has_finding("no-consumer")


def test_a_job_without_retry_vanishes_where_its_class_cannot_be_loaded_and_is_found_before(
    stock: Stock, client: Redis
) -> None:
    body = {
        "class": "NoSuchJob",
        "args": [7],
        "queue": "default",
        "created_at": time.time(),
        "enqueued_at": time.time(),
    }
    for jid in ("bare", "bare-too"):
        client.lpush("queue:default", json.dumps({**body, "jid": jid}))
    client.sadd("queues", "default")
    finding = stock.find_finding("no-retry")
    assert (finding["jobs"], finding["ids"][0][:4]) == (2, "bare")
    assert stock.act("delete", "bare") == {"bare": "moved"}
    put = stock.rqtui("put", "sidekiq:default", '{"class": "NoSuchJob", "args": [7], "jid": "whole"}')
    assert put["results"] == [{"id": "whole", "word": "moved"}]
    with stock.worker():
        stock.until("whole", "retry")
        stock.until("bare-too", "")
    assert client.zcard("dead") == 0
    assert not stock.has_finding("no-retry")


def test_a_process_that_is_missing_stays_on_the_list_until_it_is_taken_off(stock: Stock, client: Redis) -> None:
    stock.push("waits", queue="low")
    worker = stock.start(name="gone")
    identity = stock.identity(worker)
    worker.kill()
    stock.age(worker, LIFE_S + 1)
    assert not client.exists(identity)
    finding = stock.find_finding("stale-process")
    assert identity in finding["remedy"]
    stock.apply_fix(finding, f"redis-cli SREM processes {identity}")
    assert not stock.has_finding("stale-process")
    assert stock.do("processes") == []


def test_a_job_in_the_hands_of_a_process_between_two_heartbeats_is_in_no_place_when_it_is_killed(
    stock: Stock, client: Redis
) -> None:
    worker = stock.start(threads=1)
    for number in range(20):  # it asks for two seconds at a time: it may stop asking just before it hangs
        wait_until(lambda: is_blocked(client), SLOW_S, "it waits for a job")
        worker.stop()
        stock.push(f"lost-{number}")
        if not client.llen("queue:default"):
            break
        worker.resume()
        stock.until_ran(f"lost-{number}")
    worker.kill()
    assert stock.where(f"lost-{number}") == ""
    assert f"lost-{number}" not in stock.runs()
    snapshot = stock.rqtui("snapshot")["queues"]
    assert not any(place["count"] for queue in snapshot for place in queue["places"])


def test_schedules_of_stock_cron(stock: Stock, client: Redis) -> None:
    if not stock.has["cron"]:
        pytest.skip("no sidekiq-cron")
    assert stock.do("cron", name="night", cron="0 3 * * *", klass="HardJob", args=[1])
    assert stock.do("cron", name="often", cron="*/5 * * * *", klass="HardJob")
    assert all("no process" in each["problem"] for each in stock.rqtui("schedules"))
    stock.start()
    entries_by_pattern = {each["pattern"]: each for each in stock.rqtui("schedules")}
    assert (
        sorted(entries_by_pattern) == sorted(each["cron"] for each in stock.do("crons")) == ["*/5 * * * *", "0 3 * * *"]
    )
    for each in entries_by_pattern.values():
        assert (each["queue"], each["layout"], each["problem"]) == ("default", "sidekiq", None)
    assert "HardJob" in entries_by_pattern["0 3 * * *"]["call"]
