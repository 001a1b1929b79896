"""rqtui beside stock arq: its workers run what rqtui put, promoted and requeued, and report rqtui's numbers."""

from __future__ import annotations

import time

import pytest
from beside.arq.stock import FIXED, SLOW_S, Stock
from redis import Redis
from shell import shell
from waiting import wait_until

pytestmark = pytest.mark.beside
STATUSES = {"deferred": "deferred", "queued": "queued", "in_progress": "in_progress", "complete": "complete"}


def put(stock: Stock, id: str, body: str, *words: str) -> None:
    stock.rqtui("put", stock.queue, body, "--id", id, *words)


def test_a_stock_worker_runs_what_rqtui_put_promoted_and_requeued(stock: Stock, client: Redis) -> None:
    put(stock, "sum", '{"function": "add", "args": [1], "kwargs": {"b": 2}}')
    put(stock, "later", '{"function": "add", "args": [40, 2]}', "--delay", "1h")
    put(stock, "bad", '{"function": "confirm", "args": [7]}')
    assert stock.do("statuses", ids=["sum", "later", "bad"]) == {"sum": "queued", "later": "deferred", "bad": "queued"}
    stock.start()
    stock.until("sum", "complete")
    stock.until("bad", "complete")
    assert stock.do("results") == {
        "sum": [True, 1, "3"],
        "bad": [False, 1, "ValueError('no such order: 7')"],
    }
    [failed] = stock.rqtui("jobs", stock.queue, "failed")["jobs"]
    assert (failed["id"], failed["error"]) == ("bad", "ValueError: no such order: 7")
    assert stock.count_places() == {"deferred": 1, "queued": 0, "in_progress": 0, "complete": 1, "failed": 1}
    assert stock.act("promote", "later") == {"later": "moved"}
    stock.until("later", "complete")
    client.set(FIXED, 1)
    assert stock.act("requeue", "bad") == {"bad": "moved"}
    wait_until(lambda: stock.do("results").get("bad") == [True, 1, "7"], SLOW_S, "it is run again")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"sum": 1, "bad": 2, "later": 1}


def test_a_job_that_stock_put_twice_is_put_once_and_the_same_for_rqtui(stock: Stock) -> None:
    assert stock.do("enqueue", func="add", args=[1], id="a") == "a"
    ran = shell(stock.url, "put", stock.queue, '{"function": "add", "args": [2]}', "--id", "a", "--json")
    assert [result["word"] for result in ran.json["results"]] == ["exists"]
    put(stock, "b", '{"function": "add", "args": [3]}')
    assert stock.do("enqueue", func="add", args=[4], id="b") is None
    assert [[id, args] for id, _func, args, _score in stock.do("queued_jobs")] == [["a", [1]], ["b", [3]]]


def test_stock_reports_the_places_and_due_times_that_rqtui_shows(stock: Stock, client: Redis) -> None:
    for number in range(4):
        stock.do("enqueue", func="hold", args=["go"], id=f"held-{number}")
    worker = stock.start(SHOP_MAX_JOBS="2")
    wait_until(lambda: stock.count_places()["in_progress"] == 2, SLOW_S, "two jobs run")
    stock.do("enqueue", func="add", args=[1, 2], id="later", defer_by=3600)
    stock.do("enqueue", func="missing", id="unknown", defer_by=7200)
    assert stock.count_places() == {"deferred": 2, "queued": 2, "in_progress": 2, "complete": 0, "failed": 0}
    shown = {
        job["id"]: place for place in STATUSES for job in stock.rqtui("jobs", stock.queue, place)["jobs"] if job["id"]
    }
    assert stock.do("statuses", ids=[*shown]) == {id: STATUSES[place] for id, place in shown.items()}
    assert len(shown) == 6
    scores = {id: score for id, _func, _args, score in stock.do("queued_jobs")}
    [later, *_rest] = stock.rqtui("jobs", stock.queue, "deferred")["jobs"]
    assert (later["due_at_ms"], later["name"], later["call"]) == (scores["later"], "add", "add(1, 2)")
    assert stock.act("reschedule", "unknown", "--set", "delay_ms=0") == {"unknown": "moved"}
    client.set("go", 1)
    stock.until("unknown", "complete")
    wait_until(lambda: len(stock.do("results")) == 5, SLOW_S, "all ended")
    places = stock.count_places()
    results = stock.do("results")
    assert places["complete"] == sum(is_success for is_success, _tries, _text in results.values()) == 4
    assert (places["failed"], results["unknown"][0]) == (1, False)
    worker.kill()


def test_a_cancelled_job_is_aborted_by_its_worker(stock: Stock) -> None:
    stock.do("enqueue", func="hold", args=["go"], id="held")
    stock.start()
    stock.until_ran("held")
    assert stock.act("cancel", "held") == {"held": "asked"}
    stock.until("held", "complete")
    [failed] = stock.rqtui("jobs", stock.queue, "failed")["jobs"]
    assert (failed["id"], failed["error"]) == ("held", "asyncio.exceptions.CancelledError")


def test_a_job_of_a_killed_worker_runs_again_after_a_release(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", func="hold", args=["go"], id="held")
    stock.start().kill()
    dead = stock.start()
    stock.until_ran("held")
    dead.kill()
    assert stock.do("statuses", ids=["held"]) == {"held": "in_progress"}
    assert shell(stock.url, "act", "delete", stock.queue, "held", "--yes").code == 1
    assert stock.act("release", "held") == {"held": "moved"}
    client.set("go", 1)
    stock.start()
    stock.until("held", "complete")
    assert stock.do("results")["held"][:2] == [True, 2]


def test_workers_starve_behind_a_hundred_running_jobs(stock: Stock, client: Redis) -> None:
    for number in range(101):
        stock.do("enqueue", func="hold", args=["go"], id=f"held-{number:03}")
    for _worker in range(11):
        stock.start()
    wait_until(lambda: stock.count_places()["in_progress"] == 100, SLOW_S, "a hundred jobs run")
    starved = stock.find_finding("starved")
    assert "100" in starved["text"] and "held-100" in starved["ids"]
    assert stock.do("statuses", ids=["held-100"]) == {"held-100": "queued"}, "eleven workers have 110 slots"
    client.set("go", 1)
    stock.until("held-100", "complete")
    assert not stock.has_finding("starved")


def test_a_leaked_abort_request_is_found_and_stops_a_later_job_of_its_id(stock: Stock, client: Redis) -> None:
    stock.start()
    assert stock.do("abort", id="nobody") in (None, False)
    client.zadd("arq:abort", {"nobody": time.time() * 1000 - 120_000, "other": time.time() * 1000 - 120_000})
    finding = stock.find_finding("abort-leak")
    stock.do("enqueue", func="add", args=[1, 2], id="other")
    stock.until("other", "complete")
    assert "CancelledError" in stock.do("results")["other"][2], "arq keeps requests for ever"
    stock.apply_fix(finding, "redis-cli ZREM arq:abort nobody")
    assert not stock.has_finding("abort-leak")


def test_a_job_whose_record_expired_is_found_before_a_worker_fails_it(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", func="add", args=[1, 2], id="old")
    client.delete("arq:job:old")
    assert stock.find_finding("expired")["ids"] == ["old"]
    stock.start()
    stock.until("old", "complete")
    assert "job expired" in stock.do("results")["old"][2]
    assert not stock.has_finding("expired")
