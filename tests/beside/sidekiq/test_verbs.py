"""rqtui's verbs on Sidekiq's keys: stock processes run what each of them left, and the stock API sees the same."""

from __future__ import annotations

import json

import pytest
from beside.sidekiq.record import run_stock_jobs as in_every_place
from beside.sidekiq.stock import SLOW_S, Stock
from beside.stock import FIXED
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600


def call(jid: str) -> str:
    """Build a job with a jid as a person writes it."""
    return json.dumps({"class": "HardJob", "args": [1, 2], "jid": jid})


def test_rqtui_shows_what_the_stock_api_shows(stock: Stock, client: Redis) -> None:
    in_every_place(stock, client)
    values, snapshot = stock.do("stats"), stock.rqtui("snapshot")
    queues = {queue["queue"]: queue for queue in snapshot["queues"]}
    assert {name: {each["place"]: each["count"] for each in queues[name]["places"]}["queue"] for name in queues} == {
        name: values["queues"].get(name, 0) for name in queues
    }
    assert {*queues} >= {"default", "low"}
    for place in ("schedule", "retry", "dead"):
        counted = sum(each["count"] for queue in queues.values() for each in queue["places"] if each["place"] == place)
        assert counted == values[place], place
    for place in ("queue", "schedule", "retry", "dead"):
        shown = stock.rqtui("jobs", "sidekiq:default", place)["jobs"]
        result = stock.do("jobs", place="default" if place == "queue" else place)
        result.reverse()  # the API begins with the youngest, and with what is due last
        assert [job["id"] for job in shown] == [job["jid"] for job in result], place
        for job, known_job in zip(shown, result, strict=True):
            assert (job["name"], job["body"]["value"]) == (known_job["class"], known_job["item"])
            assert (known_job["error"] or "") in (job["error"] or "")
    [dead] = stock.do("jobs", place="dead")
    shown = stock.rqtui("show", "sidekiq:default", "fatal")
    for line in dead["backtrace"]:
        assert line in shown["error"]
    running = stock.rqtui("jobs", "sidekiq:default", "work")["jobs"]
    work = {each["jid"]: each for each in stock.do("work")}
    assert {job["id"] for job in running} == {*work} == {"slow-1", "slow-2"}
    for job in running:
        assert (job["worker"], job["token"]) == (
            work[job["id"]]["process"],
            f"{job['worker']} {work[job['id']]['tid']}",
        )
    processes = {each["identity"]: each for each in stock.do("processes")}
    workers = {each["worker"]: each for each in stock.rqtui("workers")}
    assert {*workers} == {each for each, process in processes.items() if "default" in process["queues"]}
    for identity, worker in workers.items():
        assert worker["queues"] == processes[identity]["queues"]
    [greeting] = [
        job for job in stock.rqtui("jobs", "sidekiq:default", "queue")["jobs"] if job["name"] == "GreetJob"
    ] or [None]
    if stock.has["active_job"]:
        assert greeting["call"] == 'GreetJob.perform("zoë", loud: true)'
    if stock.has["cron"]:
        [schedule] = stock.rqtui("schedules")
        assert (schedule["queue"], schedule["layout"], schedule["pattern"]) == ("default", "sidekiq", "0 3 * * *")


def test_a_stock_process_runs_what_rqtui_put_requeued_promoted_rescheduled_and_moved_ahead(
    stock: Stock, client: Redis
) -> None:
    stock.push("bad", "worse", "given-up", job="FatalJob", args=(7,))
    stock.push("again", "dropped", "buried", job="FailJob", args=(8,))
    with stock.worker():
        for jid in ("bad", "worse", "given-up"):
            stock.until(jid, "dead")
        for jid in ("again", "dropped", "buried"):
            stock.until(jid, "retry")
    client.set(FIXED, 1)
    stock.push("later", "sooner", "killed-later", in_s=HOUR_S)
    stock.push("first", "second", "killed", "deleted", "revived", args=(5, {"of": [], "big": 10**25, "ratio": 1.0}))

    assert stock.rqtui("put", "sidekiq:default", call("put"))["results"] == [{"id": "put", "word": "moved"}]
    stock.rqtui("put", "sidekiq:default", call("put-later"), "--delay", "1h")
    assert stock.act("requeue", "bad", "worse") == {"bad": "moved", "worse": "moved"}
    assert stock.act("promote", "again") == {"again": "moved"}
    killed = ("killed", "killed-later", "revived", "buried")
    assert stock.act("kill", *killed) == dict.fromkeys(killed, "moved")
    assert stock.do("where", jids=[*killed, "bad"]) == {**dict.fromkeys(killed, ["dead"]), "bad": ["default"]}
    assert stock.act("requeue", "revived") == {"revived": "moved"}
    deleted = ("deleted", "given-up", "dropped")
    assert stock.act("delete", *deleted) == dict.fromkeys(deleted, "moved")
    assert stock.do("where", jids=[*deleted]) == {jid: [] for jid in deleted}
    assert stock.act("bump", "second") == {"second": "moved"}
    assert stock.jids("default")[-1] == "second"
    assert stock.act("promote", "later", "put-later") == {"later": "moved", "put-later": "moved"}
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=60000") == {"sooner": "moved"}
    [sooner] = [job for job in stock.do("jobs", place="schedule") if job["jid"] == "sooner"]
    assert 50 < sooner["score"] - client.time()[0] < 61
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=0") == {"sooner": "moved"}
    items = {job["jid"]: job["item"] for job in stock.do("jobs", place="default")}
    assert items["revived"]["args"] == [5, {"of": [], "big": 10**25, "ratio": 1.0}]
    is_ms = int(stock.version.split(".")[0]) >= 8
    for jid in ("revived", "bad", "again", "later"):
        assert isinstance(items[jid]["enqueued_at"], int if is_ms else float), (jid, items[jid])

    ran = ("second", "first", "put", "bad", "worse", "again", "revived", "later", "put-later", "sooner")
    stock.start(threads=1)
    for jid in ran:
        stock.until_ran(jid, 2 if jid in ("bad", "worse", "again") else 1)
    wait_until(lambda: not stock.jids("default") and not stock.do("work"), SLOW_S, "all are done", 0.05)
    assert {jid: len(runs) for jid, runs in stock.runs().items() if jid not in ("given-up", "dropped", "buried")} == {
        jid: 2 if jid in ("bad", "worse", "again") else 1 for jid in ran
    }
    assert list(stock.runs()).index("second") < list(stock.runs()).index("first")
    assert sorted(stock.jids("dead")) == ["buried", "killed", "killed-later"]
    assert stock.jids("retry") == stock.jids("schedule") == []


def test_a_stock_process_of_another_queue_runs_what_was_moved_there_and_retries_it_there(
    stock: Stock, client: Redis
) -> None:
    stock.push("bad", job="FatalJob", args=(7,))
    stock.push("again", job="FailJob", args=(8,))
    with stock.worker():
        stock.until("bad", "dead")
        stock.until("again", "retry")
    client.set(FIXED, 1)
    stock.push("first", "second", args=(5, {"big": 10**25, "ratio": 1.0}))
    stock.push("flaky", job="FlakyJob", args=(9,))
    stock.push("later", in_s=HOUR_S)
    stock.push("stays")
    in_queue = ["first", "second", "flaky"]
    if stock.has["active_job"]:
        in_queue.append(stock.do("greet", name="nobody"))
    other = {"bad": "dead", "again": "retry", "later": "schedule"}
    before = {job["jid"]: job for place in ("default", *other.values()) for job in stock.do("jobs", place=place)}
    moved = [*in_queue, *other]
    assert stock.act("move", *moved, "--set", "to_queue=low") == dict.fromkeys(moved, "moved")
    assert stock.jids("default") == ["stays"]
    assert stock.jids("low") == in_queue[::-1]  # the API begins with the youngest
    assert stock.do("stats")["queues"] == {"default": 1, "low": len(in_queue)}
    after = {job["jid"]: job for place in ("low", *other.values()) for job in stock.do("jobs", place=place)}
    for jid in moved:
        assert after[jid]["queue"] == after[jid]["item"]["queue"] == "low"
        assert after[jid]["args"] == before[jid]["args"] and after[jid]["score"] == before[jid]["score"]
    queues = {queue["queue"]: queue for queue in stock.rqtui("snapshot")["queues"]}
    for name, counts in {
        "default": {"queue": 1, "schedule": 0, "retry": 0, "dead": 0},
        "low": {"queue": len(in_queue), "schedule": 1, "retry": 1, "dead": 1},
    }.items():
        assert {each["place"]: each["count"] for each in queues[name]["places"] if each["place"] in counts} == counts

    assert stock.act("requeue", "bad", queue="sidekiq:low") == {"bad": "moved"}
    assert stock.act("reschedule", "again", "later", "--set", "delay_ms=0", queue="sidekiq:low") == {
        "again": "moved",
        "later": "moved",
    }
    worker = stock.start("low", threads=1)
    stock.until("flaky", "retry")
    [retried] = [job for job in stock.do("jobs", place="retry") if job["jid"] == "flaky"]
    assert retried["queue"] == "low"
    assert stock.act("reschedule", "flaky", "--set", "delay_ms=0", queue="sidekiq:low") == {"flaky": "moved"}
    for jid in ("first", "second", "bad", "again", "later", "flaky"):
        stock.until_ran(jid, 2 if jid in ("bad", "again", "flaky") else 1)
        assert stock.runs()[jid][-1] == worker.name
    assert [*stock.runs()].index("first") < [*stock.runs()].index("second") < [*stock.runs()].index("flaky")
    if stock.has["active_job"]:  # which enqueues the greeting again, under another jid
        wait_until(lambda: len({*stock.runs()} - {*moved, "stays"}) == 1, SLOW_S, "it greets again", 0.05)
    wait_until(lambda: not stock.jids("low") and not stock.do("work"), SLOW_S, "all are done", 0.05)
    assert stock.jids("default") == ["stays"] and "stays" not in stock.runs()
    assert stock.jids("retry") == stock.jids("schedule") == stock.jids("dead") == []


def test_undo_brings_back_what_the_stock_process_then_runs(stock: Stock, client: Redis) -> None:
    stock.push("deleted", "killed", args=(1, 2.50, {"a": []}))
    stock.push("later", in_s=HOUR_S)
    before = {jid: client.lrange("queue:default", 0, -1) for jid in ("deleted",)}["deleted"]
    later = client.zrange("schedule", 0, -1, withscores=True)
    for verb, jid in (("delete", "deleted"), ("kill", "killed"), ("promote", "later")):
        assert stock.act(verb, jid) == {jid: "moved"}
        stock.rqtui("undo")
    assert sorted(client.lrange("queue:default", 0, -1)) == sorted(before)
    assert client.zrange("schedule", 0, -1, withscores=True) == later
    with stock.worker():
        for jid in ("deleted", "killed"):
            stock.until_ran(jid)
    assert {jid: len(runs) for jid, runs in stock.runs().items()} == {"deleted": 1, "killed": 1}


def test_rqtui_orders_a_process_to_be_quiet_or_stop_and_cancels_an_iterating_job(stock: Stock, client: Redis) -> None:
    worker = stock.start(name="w1")
    identity = stock.identity(worker)
    stock.rqtui("act", "quiet", "sidekiq:default", identity, "--yes")
    wait_until(lambda: stock.do("processes")[0]["quiet"], SLOW_S, "it is quiet", 0.05)
    stock.push("waits")
    stock.rqtui("act", "stop", "sidekiq:default", identity, "--yes")
    wait_until(lambda: worker.process.poll() is not None, SLOW_S, "it has ended")
    assert stock.where("waits") == "default"
    assert stock.runs() == {}
    if stock.has["steps"]:
        stock.act("delete", "waits")
        stock.run_holding("long", job="StepsJob", args=(100_000,))
        assert "it keeps no state of an iteration" in stock.read_refusal("cancel", "long")
        wait_until(lambda: client.exists("it-long"), SLOW_S, "where it stands is kept, after 5 s", 0.05)
        assert stock.act("cancel", "long") == {"long": "asked"}
        wait_until(lambda: stock.where("long") == "", SLOW_S, "it has ended", 0.05)


@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_canary_sees_how_a_job_ended_that_a_stock_process_ran(stock: Stock, client: Redis, is_fixed: bool) -> None:
    with stock.worker():
        stock.push("bad-1", "bad-2", job="FatalJob", args=(7,))
        stock.until("bad-1", "dead")
        stock.until("bad-2", "dead")
        if is_fixed:
            client.set(FIXED, 1)
        words = ("act", "requeue", "sidekiq:default", "--place", "dead", "--all", "--canary", "1", "--rate", "50/s")
        document = stock.rqtui(*words, code=0 if is_fixed else 1)
        [job] = document["canary"]["jobs"]
        assert job["outcome"] == ("done" if is_fixed else "failed") and isinstance(job["ended_at_ms"], int)
        assert is_fixed or "no such order: 7" in job["error"]
        assert (document["stopped"] is None) is is_fixed
