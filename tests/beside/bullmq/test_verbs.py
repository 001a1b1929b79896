"""rqtui's verbs on BullMQ's keys: stock workers run what each of them left, and the stock API sees the same."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from beside.bullmq.stock import SLOW_S, P, Stock
from beside.monitored import record_commands
from beside.stock import FIXED
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_MS = 3_600_000


def _add_job_in_every_place(stock: Stock) -> None:
    """Add a job in each place by stock BullMQ; `failed` gets two."""
    stock.add("done", data={"of": ["ä"]})
    stock.add("bad-1", "bad-2", name="confirm", data={"order": 7})
    with stock.worker():
        for id, state in (("done", "completed"), ("bad-1", "failed"), ("bad-2", "failed")):
            stock.until(id, state)
    stock.run_holding("held", "w1")
    stock.add("next", "last", data={"to": "a@b.c"})
    stock.add("prior", priority=5)
    stock.add("later", delay=HOUR_MS)
    child = {"name": "work", "queueName": "low", "data": {}, "opts": {"jobId": "child"}}
    stock.do("flow", tree={"name": "work", "queueName": "mail", "opts": {"jobId": "parent"}, "children": [child]})


def test_rqtui_shows_what_the_stock_api_shows(stock: Stock, client: Redis) -> None:
    _add_job_in_every_place(stock)
    counts, shown = stock.counts(), stock.read_counts()
    assert {place: counts[place] for place in shown} == shown
    assert sum(counts.values()) == sum(shown.values()) == 9
    for place in shown:
        state = "waiting-children" if place == "waiting_children" else place
        jobs = stock.rqtui("jobs", "bullmq:mail", place)["jobs"]
        assert sorted(job["id"] for job in jobs) == sorted(stock.do("ids", queue="mail", state=state)), place
        for job in jobs:
            values = stock.job(job["id"])
            assert (job["name"], job["body"]["value"]) == (values["name"], values["data"])
    in_order = [job["id"] for job in stock.rqtui("jobs", "bullmq:mail", "wait")["jobs"]]
    assert in_order == stock.do("ids", queue="mail", state="wait") == ["next", "last"]
    failed = stock.rqtui("show", "bullmq:mail", "bad-1")
    assert failed["error"] == stock.job("bad-1")["stacktrace"][-1]
    assert "no such order: 7" in failed["error"]
    [worker] = [each for each in stock.rqtui("workers") if each["queue"] == "mail"]
    assert worker["worker"] == "w1"
    assert any(name.endswith(":w:w1") for name in stock.do("workers", queue="mail"))
    stock.do("whole", queue="mail", verb="pause")
    assert {place: stock.counts()[place] for place in shown} == stock.read_counts()
    [queue] = [each for each in stock.rqtui("snapshot")["queues"] if each["queue"] == "mail"]
    assert queue["paused"]


def test_a_stock_worker_runs_what_each_verb_left(stock: Stock, client: Redis) -> None:
    stock.add("bad", "worse", "given-up", name="confirm", data={"order": 7}, attempts=1)
    stock.add("retried", name="confirm", data={"order": 8}, attempts=2, backoff=HOUR_MS)
    with stock.worker():
        for id in ("bad", "worse", "given-up"):
            stock.until(id, "failed")
        stock.until("retried", "delayed")
    client.set(FIXED, 1)
    stock.add("later", "sooner", "killed-later", "urgent-later", delay=HOUR_MS)
    stock.add("first", "second", "killed", "deleted", "revived", "urgent", data={"of": [], "big": 1.0})

    put = json.dumps({"to": "ä@b.c", "none": [], "ratio": 1.50})
    words = ("put", "bullmq:mail", put, "--name", "work")
    assert stock.rqtui(*words, "--id", "put")["results"] == [{"id": "put", "word": "moved"}]
    assert stock.rqtui(*words, "--id", "put")["results"] == [{"id": "put", "word": "exists"}]
    assert client.hget(f"{P}put", "data") == put.encode()
    stock.rqtui(*words, "--id", "put-later", "--delay", "1h")
    stock.rqtui(*words, "--id", "put-last", "--priority", "9")
    assert stock.job("put-last")["priority"] == 9
    assert stock.states("put", "put-later", "put-last") == {
        "put": "waiting",
        "put-later": "delayed",
        "put-last": "prioritized",
    }
    assert stock.act("requeue", "bad", "worse") == {"bad": "moved", "worse": "moved"}
    assert stock.job("bad")["attemptsMade"] == 0
    killed = ("killed", "killed-later", "revived")
    assert stock.act("kill", *killed) == dict.fromkeys(killed, "moved")
    assert stock.states(*killed) == dict.fromkeys(killed, "failed")
    stock.do("act", queue="mail", id="revived", verb="retry")
    deleted = ("deleted", "given-up")
    assert stock.act("delete", *deleted) == dict.fromkeys(deleted, "moved")
    assert stock.states(*deleted) == dict.fromkeys(deleted, "unknown")
    assert stock.act("bump", "second") == {"second": "moved"}
    assert stock.do("ids", queue="mail", state="wait")[0] == "second"
    assert stock.act("promote", "later", "put-later", "retried") == dict.fromkeys(
        ("later", "put-later", "retried"), "moved"
    )
    assert stock.act("reprioritise", "urgent", "urgent-later", "--set", "priority=3") == dict.fromkeys(
        ("urgent", "urgent-later"), "moved"
    )
    assert stock.states("urgent", "urgent-later") == {"urgent": "prioritized", "urgent-later": "delayed"}
    assert stock.job("urgent")["priority"] == 3
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=60000") == {"sooner": "moved"}
    due_ms = client.zscore(f"{P}delayed", "sooner") / 4096 - client.time()[0] * 1000
    assert 50_000 < due_ms < 61_001
    assert stock.act("reschedule", "sooner", "urgent-later", "--set", "delay_ms=0")

    first = ("second", "first", "put", "bad", "worse", "revived", "later", "put-later", "retried")
    ran = (*first, "sooner", "urgent", "urgent-later", "put-last")
    stock.start()
    for id in ran:
        stock.until(id, "completed")
    runs = stock.runs()
    assert {id: len(runs[id]) for id in ran} == {id: 2 if id in ("bad", "worse", "retried") else 1 for id in ran}
    assert [*runs].index("second") < [*runs].index("first") < [*runs].index("urgent") < [*runs].index("put-last")
    assert [id for id in runs if id not in ran] == ["given-up"]
    assert stock.job("put")["returnvalue"] == json.loads(put)
    assert (stock.counts()["completed"], stock.counts()["failed"]) == (len(ran), 2)
    assert {place: stock.counts()[place] for place in stock.read_counts()} == stock.read_counts()


def test_a_stock_worker_that_waits_is_woken_by_each_verb(stock: Stock, client: Redis) -> None:
    """A push without a marker is seen after seconds at best: the worker waits for the marker alone."""

    def wakes(act: Callable[[], object]) -> bool:
        stock.idle()
        with record_commands(client) as seen:
            act()
        return any([words[0].upper(), words[1]] == ["ZADD", f"{P}marker"] for words in seen if len(words) > 1)

    stock.add("bad", name="confirm", data={"order": 7})
    stock.add("later", "sooner", delay=HOUR_MS)
    stock.start()
    stock.until("bad", "failed")
    client.set(FIXED, 1)
    acts = {
        "bad": lambda: stock.act("requeue", "bad"),
        "later": lambda: stock.act("promote", "later"),
        "sooner": lambda: stock.act("reschedule", "sooner", "--set", "delay_ms=1"),
        "put": lambda: stock.rqtui("put", "bullmq:mail", "{}", "--name", "work", "--id", "put"),
        "put-soon": lambda: stock.rqtui("put", "bullmq:mail", "{}", "--id", "put-soon", "--delay", "10ms"),
        "put-last": lambda: stock.rqtui("put", "bullmq:mail", "{}", "--id", "put-last", "--priority", "2"),
    }
    for id, act in acts.items():
        assert wakes(act), id
        stock.until(id, "completed")
    stock.rqtui("act", "pause", "bullmq:mail", "--yes")
    assert not wakes(lambda: stock.rqtui("put", "bullmq:mail", "{}", "--id", "later-on", "--name", "work"))
    assert stock.do("whole", queue="mail", verb="isPaused")
    assert client.lrange(f"{P}{'paused' if stock.is_5 else 'wait'}", 0, -1) == [b"later-on"]
    assert wakes(lambda: stock.rqtui("act", "resume", "bullmq:mail", "--yes"))
    stock.until("later-on", "completed")
    assert not stock.do("whole", queue="mail", verb="isPaused")


def test_pause_and_resume_agree_with_the_stock_ones_both_ways(stock: Stock, client: Redis) -> None:
    stock.start()
    stock.rqtui("act", "pause", "bullmq:mail", "--yes")
    stock.add("ours")
    assert [client.llen(f"{P}{key}") for key in ("wait", "paused")] == ([0, 1] if stock.is_5 else [1, 0])
    stock.do("whole", queue="mail", verb="resume")
    stock.until("ours", "completed")
    stock.do("whole", queue="mail", verb="pause")
    stock.rqtui("put", "bullmq:mail", "{}", "--id", "theirs")
    assert [client.llen(f"{P}{key}") for key in ("wait", "paused")] == ([0, 1] if stock.is_5 else [1, 0])
    stock.rqtui("act", "resume", "bullmq:mail", "--yes")
    stock.until("theirs", "completed")
    stock.rqtui("act", "limit", "bullmq:mail", "--set", "concurrency=1", "--yes")
    assert stock.do("whole", queue="mail", verb="getGlobalConcurrency") == 1
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"ours": 1, "theirs": 1}


def test_release_gives_back_what_a_killed_worker_held(stock: Stock, client: Redis) -> None:
    stock.run_killed_worker("held")
    assert stock.act("release", "held") == {"held": "moved"}
    assert stock.state("held") == "waiting"
    client.set("go", 1)
    with stock.worker(name="next"):
        stock.until("held", "completed")
    assert stock.runs() == {"held": ["killed", "next"]}


def test_undo_brings_back_what_the_stock_worker_then_runs(stock: Stock, client: Redis) -> None:
    stock.add("deleted", "killed", data={"a": [], "b": 1.0})
    stock.add("later", delay=HOUR_MS)
    before = client.lrange(f"{P}wait", 0, -1), client.zrange(f"{P}delayed", 0, -1, withscores=True)
    for verb, id in (("delete", "deleted"), ("kill", "killed"), ("promote", "later")):
        assert stock.act(verb, id) == {id: "moved"}
        stock.rqtui("undo")
    assert (client.lrange(f"{P}wait", 0, -1), client.zrange(f"{P}delayed", 0, -1, withscores=True)) == before
    with stock.worker():
        for id in ("deleted", "killed"):
            stock.until(id, "completed")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"deleted": 1, "killed": 1}


def test_a_parent_continues_when_its_failed_child_is_requeued_or_deleted(stock: Stock, client: Redis) -> None:
    for parent in ("p1", "p2"):
        child = {"name": "confirm", "queueName": "mail", "data": {"order": 1}, "opts": {"jobId": f"{parent}-child"}}
        tree = {"name": "work", "queueName": "mail", "data": {}, "opts": {"jobId": parent}, "children": [child]}
        stock.do("flow", tree=tree)
    with stock.worker():
        for parent in ("p1", "p2"):
            stock.until(f"{parent}-child", "failed")
    assert stock.states("p1", "p2") == {"p1": "waiting-children", "p2": "waiting-children"}
    client.set(FIXED, 1)
    assert stock.act("requeue", "p1-child") == {"p1-child": "moved"}
    assert stock.act("delete", "p2-child") == {"p2-child": "moved"}
    stock.start()
    for parent in ("p1", "p2"):
        stock.until(parent, "completed")
    wait_until(lambda: stock.read_counts()["waiting_children"] == 0, SLOW_S, "nobody waits")
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"p1": 1, "p2": 1, "p1-child": 2, "p2-child": 1}


@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_canary_reports_the_run_and_the_end_that_bullmq_stored(stock: Stock, client: Redis, is_fixed: bool) -> None:
    stock.add("bad-1", "bad-2", "bad-3", name="confirm", data={"order": 7})
    with stock.worker():
        stock.until("bad-3", "failed")
        if is_fixed:
            client.set(FIXED, 1)
        words = ("act", "requeue", "bullmq:mail", "--place", "failed", "--all", "--canary", "1", "--rate", "50/s")
        document = stock.rqtui(*words, code=0 if is_fixed else 1)
        [job] = document["canary"]["jobs"]
        assert (job["outcome"], bool(job["error"])) == ("done" if is_fixed else "failed", not is_fixed)
        taken, ended = client.hmget(f"{P}{job['id']}", "processedOn", "finishedOn")
        assert (job["taken_at_ms"], job["ended_at_ms"]) == (int(taken), int(ended))
        assert (document["stopped"] is None) is is_fixed
