"""rqtui's verbs on RQ's keys: stock workers run what each of them put in the queue, and stock tools see the same."""

from __future__ import annotations

import json

import pytest
from beside.rq.stock import FIXED, SLOW_S, Stock
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600
CALL = json.dumps({"func": "shop.add", "args": [1, 2]})


def _add_job_in_every_place(stock: Stock) -> None:
    """Add a job by stock RQ in each place but the one between queue and start; `failed` gets two."""
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="done")
    for id in ("bad-1", "bad-2"):
        stock.do("enqueue", queue="default", func="shop.confirm", args=[id], id=id, kwargs={})
    with stock.worker():
        stock.until("done", "finished")
        stock.until("bad-2", "failed")
    stock.run_holding("held")
    stock.do("enqueue", queue="default", func="shop.add", args=[1], kwargs={"b": 2}, id="next")
    stock.do("enqueue", queue="default", func="shop.add", args=["a", "b"], id="last")
    stock.do("enqueue", queue="default", func="shop.add", args=[3, 4], id="later", in_s=HOUR_S)
    stock.do("enqueue", queue="default", func="shop.add", args=[5, 6], id="child", depends_on="last")
    stock.do("enqueue", queue="default", func="shop.add", args=[7, 8], id="dropped")
    stock.do("cancel", id="dropped")


def test_rqtui_shows_what_stock_tools_show(stock: Stock) -> None:
    _add_job_in_every_place(stock)
    counts = stock.do("counts", queue="default")
    [queue] = stock.rqtui("snapshot")["queues"]
    assert (queue["queue"], queue["layout"], queue["workers"]) == ("default", "rq", 1)
    shown = {place["place"]: place["count"] for place in queue["places"]}
    assert counts == {place: shown[place] for place in counts}
    assert sum(counts.values()) == sum(shown.values()) == 9
    for place in counts:
        page = stock.rqtui("jobs", "rq:default", place)
        ids = stock.do("ids", queue="default", place=place)
        has_ended = place in ("finished", "failed", "canceled")  # rqtui lists the newest of these first
        assert [job["id"] for job in page["jobs"]] == (ids[::-1] if has_ended else ids), place
        for job in page["jobs"]:
            values = stock.do("job", id=job["id"])
            assert (job["call"], job["name"]) == (values["description"], values["function"])
    info = stock.rq("info")
    assert "default" in info
    assert ", 1 executing, 1 finished, 2 failed" in info
    [worker] = stock.do("workers")
    [seen] = stock.rqtui("workers")
    assert (seen["worker"], seen["queues"]) == (worker["name"], worker["queues"])
    failed = stock.rqtui("show", "rq:default", "bad-1")
    assert failed["error"] == stock.do("job", id="bad-1")["error"]
    done = {fact["name"]: fact["value"] for fact in stock.rqtui("show", "rq:default", "done")["facts"]}
    assert done["result"] in (3, "3")


def test_a_stock_worker_runs_what_rqtui_put_requeued_promoted_rescheduled_and_moved_ahead(
    stock: Stock, client: Redis
) -> None:
    for id in ("bad", "worse", "given-up"):
        stock.do("enqueue", queue="default", func="shop.confirm", args=[id], id=id)
    with stock.worker():
        for id in ("bad", "worse", "given-up"):
            stock.until(id, "failed")
    client.set(FIXED, 1)
    for id in ("later", "sooner", "killed-later"):
        stock.do("enqueue", queue="default", func="shop.add", args=[3, 4], id=id, in_s=HOUR_S)
    for id in ("first", "second", "killed", "deleted", "revived"):
        stock.do("enqueue", queue="default", func="shop.add", args=[5, 6], id=id)
    stock.do("enqueue", queue="default", func="shop.add", args=[9, 9], id="child", depends_on="later")

    assert stock.rqtui("put", "rq:default", CALL, "--id", "put")["results"] == [{"id": "put", "word": "moved"}]
    assert stock.rqtui("put", "rq:default", CALL, "--id", "put")["results"] == [{"id": "put", "word": "exists"}]
    stock.rqtui("put", "rq:default", CALL, "--id", "put-later", "--delay", "1h")
    assert stock.act("requeue", "bad", "worse") == {"bad": "moved", "worse": "moved"}
    assert stock.act("kill", "killed", "killed-later", "revived") == dict.fromkeys(
        ("killed", "killed-later", "revived"), "moved"
    )
    assert stock.do("statuses", ids=["killed", "killed-later", "bad"]) == ["canceled", "canceled", "queued"]
    assert sorted(stock.do("ids", queue="default", place="canceled")) == ["killed", "killed-later", "revived"]
    assert stock.act("requeue", "revived") == {"revived": "moved"}
    assert stock.act("delete", "deleted", "given-up") == {"deleted": "moved", "given-up": "moved"}
    assert stock.do("statuses", ids=["deleted", "given-up"]) == [None, None]
    assert stock.do("ids", queue="default", place="failed") == []
    assert stock.act("bump", "second") == {"second": "moved"}
    assert stock.do("ids", queue="default", place="queued")[0] == "second"
    assert stock.act("promote", "later", "put-later", "child") == dict.fromkeys(
        ("later", "put-later", "child"), "moved"
    )
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=60000") == {"sooner": "moved"}
    assert 50 < stock.do("due", queue="default")["sooner"] < 61
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=0") == {"sooner": "moved"}
    assert [stock.do("job", id=id)["ttl"] for id in ("bad", "worse", "revived", "later", "put")] == [-1] * 5

    ran = ("second", "first", "put", "bad", "worse", "revived", "later", "put-later", "child", "sooner")
    stock.start(options=("--with-scheduler",))
    for id in ran:
        stock.until(id, "finished")
    assert stock.do("job", id="put") | {"ttl": 0} == {
        "status": "finished",
        "origin": "default",
        "function": "shop.add",
        "args": [1, 2],
        "kwargs": {},
        "description": "shop.add(1, 2)",
        "value": 3,
        "error": None,
        "ttl": 0,
    }
    runs = stock.runs()
    assert {id: len(runs[id]) for id in ran} == {id: 2 if id in ("bad", "worse") else 1 for id in ran}
    assert [id for id in runs if id not in ran] == ["given-up"]
    assert list(runs).index("second") < list(runs).index("first")
    counts = stock.do("counts", queue="default")
    assert counts["finished"] == len(ran)
    assert counts["canceled"] == 2
    assert sum(counts.values()) == len(ran) + 2


def test_rqtui_cancels_a_job_that_runs_stops_a_worker_and_suspends_all(stock: Stock, client: Redis) -> None:
    worker = stock.run_holding("endless", "alone", retries=3)
    assert stock.act("cancel", "endless") == {"endless": "asked"}
    stock.until("endless", "stopped")
    assert stock.do("ids", queue="default", place="failed") == ["endless"]
    result = stock.rqtui("show", "rq:default", "endless")["facts"]
    assert ("status", "stopped") in [(fact["name"], fact["value"]) for fact in result]

    stock.rqtui("act", "pause", "rq:default", "--yes")
    assert stock.do("suspended")
    [queue] = stock.rqtui("snapshot")["queues"]
    assert queue["paused"]
    stock.rqtui("act", "resume", "rq:default", "--yes")
    assert not stock.do("suspended")
    stock.do("suspended", wish=True)
    [queue] = stock.rqtui("snapshot")["queues"]
    assert queue["paused"]
    stock.rqtui("act", "resume", "rq:default", "--yes")
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="after")
    stock.until("after", "finished")

    stock.rqtui("act", "stop", "rq:default", worker.name, "--yes")
    wait_until(lambda: worker.process.poll() is not None, SLOW_S, "the worker has ended")
    assert stock.do("workers") == []
    assert stock.rqtui("workers") == []


def test_what_is_due_is_dispatched_where_no_scheduler_is_and_left_to_one_where_it_is(
    stock: Stock, client: Redis
) -> None:
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="due", in_s=0)
    wait_until(lambda: stock.do("due", queue="default")["due"] < 0, what="it is due")
    assert stock.rqtui("dispatch", "rq:default", "--once")["dispatched"] == 1
    assert stock.do("ids", queue="default", place="queued") == ["due"]
    stock.start(options=("--with-scheduler",))
    stock.until("due", "finished")
    wait_until(lambda: client.exists("rq:scheduler-lock:default"), SLOW_S, "it is a scheduler")
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="theirs", in_s=HOUR_S)
    client.zadd("rq:scheduled:default", {"theirs": 1})
    stock.rqtui("dispatch", "rq:default", "--once")
    stock.until("theirs", "finished")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"due": 1, "theirs": 1}


def test_stock_workers_of_the_other_queue_run_retry_fail_and_count_moved_jobs(stock: Stock, client: Redis) -> None:
    for id in ("failed", "given-up"):
        stock.do("enqueue", queue="default", func="shop.confirm", args=[id], id=id)
    with stock.worker():
        stock.until("failed", "failed")
        stock.until("given-up", "failed")
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="stays")
    stock.do("enqueue", queue="default", func="shop.flaky", args=[1], id="flaky", retries=1)
    stock.do("enqueue", queue="default", func="shop.confirm", args=["bad"], id="bad")
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="parent")
    stock.do("enqueue", queue="default", func="shop.add", args=[3, 4], id="child", depends_on="parent")
    stock.do("enqueue", queue="default", func="shop.add", args=[3, 4], id="grandchild", depends_on="child")
    stock.do("enqueue", queue="default", func="shop.add", args=[5, 6], id="later", in_s=HOUR_S)
    stock.do("enqueue", queue="default", func="shop.add", args=[7, 8], id="canceled")
    stock.do("cancel", id="canceled")
    stock.do("enqueue", queue="default", func="shop.add", args=[9, 9], id="back")

    moved = ("flaky", "bad", "parent", "grandchild", "later", "canceled", "failed", "back")
    assert stock.act("move", *moved, "--set", "to_queue=other") == dict.fromkeys(moved, "moved")
    assert stock.act("move", "back", "--set", "to_queue=default", queue="rq:other") == {"back": "moved"}
    counts = {"started": 0, "finished": 0}
    here, there = stock.do("counts", queue="default"), stock.do("counts", queue="other")
    assert here == {**counts, "queued": 2, "scheduled": 0, "deferred": 1, "failed": 1, "canceled": 0}
    assert there == {**counts, "queued": 3, "scheduled": 1, "deferred": 1, "failed": 1, "canceled": 1}
    assert stock.do("ids", queue="other", place="queued") == ["flaky", "bad", "parent"]
    assert "other" in stock.rq("info")
    assert stock.act("promote", "later", queue="rq:other") == {"later": "moved"}

    with stock.worker("other", name="w-other"):
        for id, status in (("flaky", "finished"), ("bad", "failed"), ("parent", "finished"), ("later", "finished")):
            assert stock.until(id, status)["origin"] == "other"
        assert sorted(stock.do("ids", queue="other", place="failed")) == ["bad", "failed"]
        assert stock.do("ids", queue="default", place="failed") == ["given-up"]
        client.set(FIXED, 1)
        stock.do("requeue", queue="other", id="failed")
        assert stock.until("failed", "finished")["origin"] == "other"
        wait_until(lambda: "child" in stock.do("ids", queue="default", place="queued"), SLOW_S, "child is queued")
        assert stock.do("ids", queue="default", place="queued") == ["stays", "back", "child"]
        with stock.worker("default", name="w-default"):
            for id in ("stays", "back", "child"):
                assert stock.until(id, "finished")["origin"] == "default"
        assert stock.until("grandchild", "finished")["origin"] == "other"
    runs = stock.runs()
    assert runs["flaky"] == ["w-other"] * 2
    assert all(runs[id] == ["w-other"] for id in ("bad", "parent", "later", "grandchild"))
    assert all(runs[id] == ["w-default"] for id in ("stays", "back", "child"))
    assert stock.do("counts", queue="other") == {
        "queued": 0, "scheduled": 0, "deferred": 0, "started": 0, "finished": 5, "failed": 1, "canceled": 1
    }  # fmt: skip


@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_canary_reports_the_run_and_the_end_that_rq_stored(stock: Stock, client: Redis, is_fixed: bool) -> None:
    for id in ("bad-1", "bad-2", "bad-3"):
        stock.do("enqueue", queue="default", func="shop.confirm", args=[id], id=id)
    with stock.worker(name="w1"):
        stock.until("bad-3", "failed")
        if is_fixed:
            client.set(FIXED, 1)
        words = ("act", "requeue", "rq:default", "--place", "failed", "--all", "--canary", "1", "--rate", "50/s")
        document = stock.rqtui(*words, code=0 if is_fixed else 1)
        [job] = document["canary"]["jobs"]
        assert job["outcome"] == ("done" if is_fixed else "failed")
        stored = stock.rqtui("show", "rq:default", job["id"])
        if is_fixed:
            assert (job["taken_at_ms"], job["error"]) == (stored["reserved_at_ms"], None)
        else:
            attempt = stored["history"][-1]
            assert (job["taken_at_ms"], job["ended_at_ms"]) == (attempt["start_at_ms"], attempt["end_at_ms"])
            assert job["error"].rstrip().endswith(f"no such order: {job['id']}")
        assert job["taken_at_ms"] <= job["ended_at_ms"]
        assert (document["stopped"] is None) is is_fixed
