"""rqtui's verbs on Celery's keys: stock workers run what each of them left, and stock tools see the same."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from beside.celery.stock import STEPS, Stock
from beside.stock import SLOW_S
from redis import Redis
from screens import WIDE, run_on_event_loop, screen
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600


def call(id: str) -> str:
    """Build a task with an id as a person writes it."""
    return json.dumps({"task": "shop.add", "args": [1], "kwargs": {"b": 2}, "id": id})


LATE = {"task_acks_late": True}


def counts(stock: Stock, queue: str = "default") -> dict[str, int | None]:
    """Return the jobs per place as `rqtui snapshot` counts them."""
    [found] = [each for each in stock.rqtui("snapshot")["queues"] if each["queue"] == queue]
    return {place["place"]: place["count"] for place in found["places"]}


def ids(stock: Stock, place: str, queue: str = "default") -> list[str]:
    """Return the ids of the jobs in a place, as `rqtui jobs` lists them."""
    return [job["id"] for job in stock.rqtui("jobs", f"celery:{queue}", place)["jobs"]]


def test_rqtui_shows_what_stock_tools_show(stock: Stock, client: Redis) -> None:
    stock.configure(**LATE)
    for id in ("later-2", "later-1"):
        stock.enqueue(id, countdown=HOUR_S - int(id[-1]) * 60)
    stock.run_holding("held", worker="w1")
    for id in ("next", "other"):
        stock.enqueue(id)
    wait_until(lambda: len(stock.read_unacked()) == 5, SLOW_S, "all are taken")
    stock.enqueue("mailed", "shop.confirm", ({"of": [1, None]},), queue="mail", kwargs={"big": 10**25})
    for priority in (9, 6, 0):
        stock.enqueue(f"p{priority}", queue="mail", priority=priority)
    stock.enqueue("pickled", "shop.add", ([1], {"b": None}), queue="mail", serializer="pickle", priority=3)
    stock.enqueue("zipped", "shop.add", ("a" * 2000,), queue="mail", compression="zlib", priority=3)

    assert (counts(stock)["eta"], counts(stock)["unacked"], counts(stock)["late"], counts(stock)["queue"]) == (
        2,
        3,
        0,
        0,
    )
    assert counts(stock, "mail")["queue"] == stock.do("length", queue="mail") == 6
    assert (
        ids(stock, "queue", "mail") == stock.read_waiting("mail") == ["mailed", "p0", "pickled", "zipped", "p6", "p9"]
    )
    [active] = stock.do("inspect", method="active")["w1@shop"]
    reserved = [each["id"] for each in stock.do("inspect", method="reserved")["w1@shop"]]
    scheduled = {each["request"]["id"]: each for each in stock.do("inspect", method="scheduled")["w1@shop"]}
    assert {*ids(stock, "unacked")} == {active["id"], *reserved} == {"held", "next", "other"}
    assert ids(stock, "eta") == ["later-2", "later-1"]
    assert {*scheduled} == {"later-1", "later-2"}
    calls = {job["id"]: job["call"] for job in stock.rqtui("jobs", "celery:mail", "queue")["jobs"]}
    assert calls["mailed"] == "shop.confirm({'of': [1, None]}, big=10000000000000000000000000)"
    assert calls["pickled"] == "shop.add([1], {'b': None})"
    assert calls["zipped"].startswith("shop.add('aaaa")

    stock.age(HOUR_S + 60, "held")
    assert (counts(stock)["unacked"], counts(stock)["late"]) == (2, 1)
    assert ids(stock, "late") == ["held"]
    facts = {fact["name"]: fact["value"] for fact in stock.rqtui("show", "celery:default", "next")["facts"]}
    assert facts["delivery tag"] in [tag.decode() for tag in client.hkeys("unacked")]


def test_a_result_that_is_kept_is_shown_with_its_traceback(stock: Stock, client: Redis) -> None:
    stock.start()
    stock.enqueue("sum")
    stock.enqueue("bad", "shop.confirm", (7,))
    error = stock.until("bad", "FAILURE")["error"]
    shown = {id: stock.rqtui("show", "celery:default", id) for id in ("sum", "bad")}
    facts = {id: {fact["name"]: fact["value"] for fact in found["facts"]} for id, found in shown.items()}
    assert (facts["sum"]["status"], facts["sum"]["result"]) == ("SUCCESS", 3)
    assert facts["bad"]["status"] == "FAILURE"
    assert [found["place"] for found in shown.values()] == ["succeeded", "failed"]
    assert shown["bad"]["error"] == error.strip()


def test_a_stock_worker_runs_what_rqtui_put_moved_ahead_rescheduled_and_reprioritised(
    stock: Stock, client: Redis
) -> None:
    stock.configure(worker_prefetch_multiplier=1)
    for id in ("first", "second", "deleted", "urgent"):
        stock.enqueue(id, priority=3)
    for id in ("sooner", "never"):
        stock.enqueue(id, countdown=HOUR_S, priority=3)
    stock.enqueue("pickled", args=({"a": (1,)}, {}), serializer="pickle", priority=9)
    assert stock.rqtui("put", stock.queue, call("put"))["results"] == [{"id": "put", "word": "moved"}]
    stock.rqtui("put", stock.queue, call("low"), "--priority", "6")
    stock.rqtui("put", stock.queue, call("put-later"), "--delay", "1h")
    assert [client.llen(f"default{step}") for step in STEPS] == [2, 6, 1, 1]
    assert stock.act("delete", "deleted") == {"deleted": "moved"}
    assert stock.act("bump", "second") == {"second": "moved"}
    assert stock.read_waiting()[0] == "second"
    assert stock.act("reprioritise", "urgent", "--set", "priority=0") == {"urgent": "moved"}
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=0") == {"sooner": "moved"}
    assert stock.act("reschedule", "put-later", "--set", "delay_ms=0") == {"put-later": "moved"}
    assert stock.act("reschedule", "never", "--set", "delay_ms=3000000") == {"never": "moved"}
    never = next(
        json.loads(each)["headers"]
        for each in client.lrange(f"default{STEPS[1]}", 0, -1)
        if json.loads(each)["headers"]["id"] == "never"
    )
    assert never["eta"] > time.strftime("%Y-%m-%dT%H:%M", time.gmtime(time.time() + 2900))

    stock.configure(worker_prefetch_multiplier=1, accept_content=["json", "pickle"])
    ran = ("second", "put", "urgent", "put-later", "first", "sooner", "low")
    stock.start(name="w1")
    for id in ran:
        assert stock.until(id, "SUCCESS")["value"] == 3
    stock.until("pickled", "FAILURE")  # a dict and a dict have no sum: it was run with what it was given
    assert "TypeError" in stock.do("result", id="pickled")["error"]
    order = [*stock.runs()]
    assert order[0] == "second"
    assert {*order} == {*ran, "pickled"}
    assert order.index("low") > order.index("first") > order.index("urgent")
    assert {len(runs) for runs in stock.runs().values()} == {1}
    wait_until(lambda: [*stock.read_unacked()] == ["never"], SLOW_S, "all others are acknowledged")
    [scheduled] = stock.do("inspect", method="scheduled")["w1@shop"]
    assert scheduled["request"]["id"] == "never"
    assert ids(stock, "eta") == ["never"]


def test_a_job_put_for_later_runs_when_it_is_due(stock: Stock, client: Redis) -> None:
    worker = stock.start()
    stock.rqtui("put", stock.queue, call("soon"), "--delay", "2s")
    stock.rqtui("put", stock.queue, call("due"), "--due", "2026-01-01T00:00Z")
    assert stock.until("soon", "SUCCESS")["value"] == 3
    assert stock.until("due", "SUCCESS")["value"] == 3
    assert worker.process.poll() is None


def test_rqtui_revokes_what_waits_what_is_not_due_and_what_runs(stock: Stock, client: Redis) -> None:
    assert stock.act("cancel", "waits", code=1) == {"waits": "unheard"}
    stock.configure(**LATE, worker_prefetch_multiplier=2)
    worker = stock.run_holding("held", worker="w1")
    stock.enqueue("later", countdown=HOUR_S)
    stock.enqueue("prefetched")
    wait_until(lambda: len(stock.read_unacked()) == 3, SLOW_S, "they are taken")
    stock.enqueue("waits")
    assert stock.read_waiting() == ["waits"]
    for id in ("later", "prefetched", "waits", "held"):
        assert stock.act("cancel", id) == {id: "asked"}
    wait_until(
        lambda: {*stock.do("inspect", method="revoked")["w1@shop"]} == {"later", "prefetched", "waits", "held"},
        SLOW_S,
        "the worker keeps them in mind",
        0.05,
    )
    for id in ("prefetched", "waits", "held"):
        stock.until(id, "REVOKED")
    assert stock.runs() == {"held": ["w1"]}
    worker.kill()
    stock.enqueue("alone")
    assert stock.act("cancel", "alone", code=1) == {"alone": "unheard"}


@pytest.mark.parametrize("late", [False, True])
def test_a_revoke_without_a_signal_lets_a_task_end_and_one_with_kill_ends_its_process(
    stock: Stock, client: Redis, late: bool
) -> None:
    stock.configure(**(LATE if late else {}))
    worker = stock.run_holding("ends", "killed", worker="w1")
    assert stock.act("cancel", "ends", "--set", "signal=none") == {"ends": "asked"}
    assert stock.act("cancel", "killed", "--set", "signal=KILL") == {"killed": "asked"}
    stock.until("killed", "REVOKED")
    wait_until(lambda: "Terminating killed (9)" in worker.read_log(), SLOW_S, "it is killed", 0.05)
    assert {*stock.do("inspect", method="revoked")["w1@shop"]} == {"ends", "killed"}
    client.set("go", 1)
    wait_until(lambda: "Task shop.hold[ends] succeeded" in worker.read_log(), SLOW_S, "it ran to its end", 0.05)


def inspect(stock: Stock, worker: str, code: int = 0) -> dict[str, Any]:
    """Return the facts that `rqtui workers --inspect` prints, by name."""
    document = stock.rqtui("workers", stock.queue, "--inspect", worker, code=code)
    assert (code == 0) == (not document["unknown"])
    return {fact["name"]: fact["value"] for fact in document["facts"]}


def test_rqtui_asks_a_worker_what_celery_inspect_asks_it(stock: Stock, client: Redis) -> None:
    worker = stock.run_holding("held", worker="w1", slots=2)
    stock.start("default", "other", name="w2")
    facts = inspect(stock, "w1@shop")
    [active] = stock.do("inspect", method="active", workers=2)["w1@shop"]
    statistics = stock.do("inspect", method="stats", workers=2)["w1@shop"]
    processes = statistics["pool"]["processes"]
    assert (facts["active"], facts["id"], facts["since"]) == ("1 task", "held", round(active["time_start"] * 1000))
    assert facts["runs"] == "shop.hold('go')"
    assert facts["processes"] == f"{len(processes)}: {', '.join(map(str, processes))}"
    assert (facts["pid"], facts["pool"]) == (str(statistics["pid"]), "prefork")
    assert facts["registered"] == ", ".join(stock.do("inspect", method="registered", workers=2)["w1@shop"])
    assert (facts["queues"], inspect(stock, "w2@shop")["queues"]) == ("default", "default, other")
    assert worker.process.poll() is None
    assert inspect(stock, "nobody@shop", code=1) == {}
    assert all(0 < client.ttl(key) <= 3600 for key in client.keys("*.reply.celery.pidbox"))


def test_rqtui_changes_the_size_of_a_pool_and_the_limits_of_a_task(stock: Stock, client: Redis) -> None:
    worker = stock.start(name="w1", pool="prefork", slots=2)
    stock.start("other", name="w2")

    def change(verb: str, *words: str, code: int = 0) -> tuple[str, str]:
        [result] = stock.rqtui("act", verb, stock.queue, *words, "--yes", code=code)["results"]
        return result["word"], result["text"]

    assert change("grow", "w1@shop", "--set", "number=2") == ("asked", "w1@shop replied: pool will grow")
    wait_until(lambda: inspect(stock, "w1@shop")["processes"].startswith("4:"), SLOW_S, "it has grown", 0.05)
    assert change("shrink", "w1@shop", "--set", "number=3") == ("asked", "w1@shop replied: pool will shrink")
    wait_until(lambda: inspect(stock, "w1@shop")["processes"].startswith("1:"), SLOW_S, "it has shrunk", 0.05)
    assert change("grow", "w2@shop", "--set", "number=1", code=1)[0] == "refused"
    assert change("grow", "nobody@shop", "--set", "number=1", code=1)[0] == "unknown"
    limited = change("rate_limit", "--set", "task=shop.add", "--set", "rate=30/m")
    assert limited == ("asked", "2 workers replied: new rate limit set successfully")
    assert "shop.add [rate_limit=30/m]" in inspect(stock, "w1@shop")["registered"]
    assert change("rate_limit", "--set", "task=shop.add", "--set", "rate=0")[0] == "asked"
    assert "30/m" not in inspect(stock, "w1@shop")["registered"]
    assert change("rate_limit", "--set", "task=nobody", "--set", "rate=1/s", code=1) == (
        "refused",
        "2 workers refused: unknown task",
    )
    word, text = change("time_limit", "--set", "task=shop.hold", "--set", "soft=1s")
    assert word == "asked" and "only after its next connection" in text
    ready = worker.read_log().count("mingle: ")
    client.client_kill_filter(_type="pubsub")  # the consumer of a worker connects again
    wait_until(lambda: worker.read_log().count("mingle: ") > ready, SLOW_S, "it has connected again", 0.05)
    stock.enqueue("stopped", "shop.hold", ("go",))
    assert "SoftTimeLimitExceeded" in stock.until("stopped", "FAILURE")["error"]


def test_rqtui_pauses_a_queue_of_workers_that_listen_and_reports_how_many(stock: Stock, client: Redis) -> None:
    refused = stock.read_refusal("pause", queue="celery:celery")
    assert "no worker listens" in refused
    stock.start("default", "other", name="w1")
    stock.start("default", name="w2")

    def consumed() -> set[str]:
        result = stock.do("inspect", method="active_queues", workers=2)
        return {f"{worker.partition('@')[0]} {each['name']}" for worker, queues in result.items() for each in queues}

    assert consumed() == {"w1 default", "w1 other", "w2 default"}
    paused = stock.rqtui("act", "pause", stock.queue, "--yes")
    assert "2" in json.dumps(paused)
    wait_until(lambda: consumed() == {"w1 other"}, SLOW_S, "nobody takes of it", 0.05)
    stock.enqueue("waits")
    stock.enqueue("passes", queue="other")
    stock.until("passes", "SUCCESS")
    assert stock.read_waiting() == ["waits"]
    stock.rqtui("act", "resume", stock.queue, "--yes")
    stock.until("waits", "SUCCESS")
    wait_until(lambda: consumed() == {"w1 default", "w1 other", "w2 default"}, SLOW_S, "both take of it", 0.05)


def test_a_worker_that_is_stopped_ends_after_its_job(stock: Stock, client: Redis) -> None:
    one, other = stock.run_holding("held", worker="w1"), stock.start(name="w2")
    assert stock.rqtui("act", "stop", stock.queue, "w1@shop", "--yes")["results"][0]["word"] == "asked"
    wait_until(lambda: "Got shutdown from remote" in one.read_log(), SLOW_S, "it was told", 0.05)
    assert one.process.poll() is None
    client.set("go", 1)
    wait_until(lambda: one.process.poll() is not None, SLOW_S, "it has ended", 0.05)
    assert stock.do("result", id="held")["status"] == "SUCCESS"
    assert other.process.poll() is None


def test_rqtui_gives_out_again_what_a_killed_worker_held_as_kombu_does(stock: Stock, client: Redis) -> None:
    stock.configure(**LATE)
    killed = stock.run_holding("held", worker="killed")
    stock.enqueue("prefetched", priority=6)
    wait_until(lambda: len(stock.read_unacked()) == 2, SLOW_S, "they are taken")
    killed.kill()
    before = {json.loads(entry)[0]["headers"]["id"]: json.loads(entry)[0] for entry in client.hvals("unacked")}
    assert not any(stock.rqtui("reap", stock.queue, "--once")["reaped"].values())
    stock.age(HOUR_S + 1, "held")
    stock.age(HOUR_S + 2, "prefetched")
    assert stock.act("release", "prefetched") == {"prefetched": "moved"}
    assert stock.rqtui("reap", stock.queue, "--once")["reaped"]["ready"] == 1
    assert stock.read_unacked() == {}
    assert [client.llen(f"default{step}") for step in STEPS] == [1, 0, 1, 0]
    for step in (STEPS[0], STEPS[2]):
        [message] = map(json.loads, client.lrange(f"default{step}", 0, -1))
        values: dict[str, Any] = before[message["headers"]["id"]]
        values["headers"]["redelivered"] = values["properties"]["delivery_info"]["redelivered"] = True
        assert message == values
    client.set("go", 1)
    stock.start(name="next")
    for id in ("held", "prefetched"):
        stock.until(id, "SUCCESS")
    assert stock.runs() == {"held": ["killed", "next"], "prefetched": ["next"]}


def test_undo_brings_back_what_the_stock_worker_then_runs(stock: Stock, client: Redis) -> None:
    for id in ("first", "deleted", "moved", "last"):
        stock.enqueue(id, priority=0)
    stock.enqueue("later", countdown=HOUR_S)
    before = {step: client.lrange(f"default{step}", 0, -1) for step in STEPS}
    for verb, id, *more in (
        ("delete", "deleted"),
        ("bump", "last"),
        ("reprioritise", "moved", "--set", "priority=9"),
        ("reschedule", "later", "--set", "delay_ms=1000"),
    ):
        assert stock.act(verb, id, *more) == {id: "moved"}, verb
        stock.rqtui("undo")
        assert {step: client.lrange(f"default{step}", 0, -1) for step in STEPS} == before, verb
    stock.start()
    for id in ("first", "deleted", "moved", "last"):
        stock.until(id, "SUCCESS")
    assert {id: len(runs) for id, runs in stock.runs().items()} == dict.fromkeys(
        ("first", "deleted", "moved", "last"), 1
    )


def test_a_worker_of_another_queue_runs_what_rqtui_moved_there_and_retries_it_there(
    stock: Stock, client: Redis
) -> None:
    stock.configure(result_extended=True)
    for priority in (0, 6):
        stock.enqueue(f"p{priority}", priority=priority)
    stock.enqueue("fails", "shop.flaky", (7,))
    stock.enqueue("pickled", args=(20, 22), serializer="pickle", priority=6)
    stock.enqueue("stays")
    before = {step: client.lrange(f"default{step}", 0, -1) for step in STEPS}
    ids = ("p0", "p6", "fails", "pickled")

    def move() -> None:
        assert stock.act("move", *ids, "--set", "to_queue=slow") == dict.fromkeys(ids, "moved")

    move()
    assert stock.read_waiting("slow") == ["p0", "fails", "p6", "pickled"]
    assert (stock.do("length", queue="slow"), stock.do("length", queue="default")) == (4, 1)
    stock.enqueue("own", queue="slow")
    own, moved = (json.loads(client.lindex("slow", at))["properties"]["delivery_info"] for at in (0, 1))
    assert own == moved == {"exchange": "", "routing_key": "slow"}
    stock.rqtui("undo")
    assert {step: client.lrange(f"default{step}", 0, -1) for step in STEPS} == before
    assert stock.read_waiting("slow") == ["own"]
    move()
    stock.configure(result_extended=True, accept_content=["json", "pickle"])
    stock.start("slow", name="w-slow")
    assert {id: stock.until(id, "SUCCESS")["value"] for id in (*ids, "own")} == {
        "p0": 3, "p6": 3, "fails": 7, "pickled": 42, "own": 3,
    }  # fmt: skip
    assert stock.runs()["fails"] == ["w-slow", "w-slow"], "it was retried in the queue of its worker"
    assert {json.loads(client.get(f"celery-task-meta-{id}"))["queue"] for id in ids} == {"slow"}
    assert stock.read_waiting() == ["stays"] and "stays" not in stock.runs()


def test_what_a_killed_worker_held_of_moved_tasks_goes_back_to_the_queue_to_which_they_were_moved(
    stock: Stock, client: Redis
) -> None:
    stock.configure(**LATE)
    stock.enqueue("held", "shop.hold", ("go",))
    assert stock.act("move", "held", "--set", "to_queue=slow") == {"held": "moved"}
    killed = stock.start("slow", name="killed", pool="prefork")
    stock.until_ran("held")
    killed.kill()
    assert counts(stock, "slow")["unacked"] == 1
    stock.age(HOUR_S + 1)
    client.set("go", 1)
    stock.start("slow", name="next")  # Kombu itself restores the message
    stock.until("held", "SUCCESS")
    assert stock.runs() == {"held": ["killed", "next"]} and stock.read_waiting() == []


def test_purge_and_what_celery_purges(stock: Stock, client: Redis) -> None:
    for number, priority in enumerate((0, 3, 6, 9, 9)):
        stock.enqueue(f"gone-{number}", priority=priority)
    stock.enqueue("stays", queue="mail")
    ran = stock.rqtui("act", "purge", stock.queue, "--all", "--yes")
    assert "5" in json.dumps(ran)
    assert stock.do("length", queue="default") == 0
    assert stock.do("length", queue="mail") == 1


def test_with_a_prefix_all_of_it_holds(stock: Stock, client: Redis) -> None:
    settings = {"broker_transport_options": {"global_keyprefix": "shop:"}, **LATE}
    stock.configure(**settings)
    system = ("--system", "celery:prefix=shop:")
    stock.enqueue("later", countdown=HOUR_S)
    killed = stock.run_holding("held", worker="w1")
    wait_until(lambda: len(stock.read_unacked("shop:")) == 2, SLOW_S, "they are taken")
    stock.rqtui(*system, "put", stock.queue, call("put"))
    for sentence in (system, ()):  # where all keys of Celery have the same prefix, no option is needed
        [queue] = stock.rqtui(*sentence, "snapshot")["queues"]
        assert (queue["queue"], queue["layout"]) == ("default", "celery")
        assert {place["place"]: place["count"] for place in queue["places"]}["eta"] == 1
    assert stock.rqtui(*system, "act", "cancel", stock.queue, "held", "--yes")["results"][0]["word"] == "asked"
    stock.until("held", "REVOKED")
    assert stock.until("put", "SUCCESS")["value"] == 3
    facts = stock.rqtui(*system, "show", stock.queue, "put")["facts"]
    assert ("status", "SUCCESS") in [(fact["name"], fact["value"]) for fact in facts]
    killed.kill()
    tag = client.zrange("shop:unacked_index", 0, 0)[0]
    client.zincrby("shop:unacked_index", -2 * HOUR_S, tag)
    assert [each["id"] for each in stock.rqtui(*system, "jobs", stock.queue, "eta")["jobs"]] == ["later"]


def test_one_rqtui_shows_and_commands_two_apps_of_one_database(stock: Stock, client: Redis) -> None:
    apps = ("--system", "celery:prefix=shop:", "--system", "celery:prefix=mail:")
    for name in ("shop", "mail"):
        options = {"global_keyprefix": f"{name}:"}
        stock.configure(broker_transport_options=options, result_backend_transport_options=options)
        stock.start(name=f"w-{name}", pool="prefork")
        stock.enqueue(f"held-{name}", "shop.hold", ("go",))
        stock.until_ran(f"held-{name}")
        stock.enqueue(f"later-{name}", countdown=HOUR_S)
        wait_until(lambda name=name: len(stock.read_unacked(f"{name}:")) == 1, SLOW_S, "it is taken")
    shown = {each["layout"]: each["queue"] for each in stock.rqtui(*apps, "snapshot")["queues"]}
    assert shown == {"celery@shop": "default", "celery@mail": "default"}
    for name in ("shop", "mail"):
        ref = f"celery@{name}:default"
        assert [each["id"] for each in stock.rqtui(*apps, "jobs", ref, "eta")["jobs"]] == [f"later-{name}"]
        assert {each["worker"] for each in stock.rqtui(*apps, "workers", ref)} == {f"w-{name}@shop"}
        inspected = stock.rqtui(*apps, "workers", ref, "--inspect", f"w-{name}@shop")
        assert f"held-{name}" in [fact["value"] for fact in inspected["facts"]]
    [result] = stock.rqtui(*apps, "act", "grow", "celery@mail:default", "w-mail@shop", "--set", "number=1", "--yes")[
        "results"
    ]
    assert result["text"] == "w-mail@shop replied: pool will grow"
    other = stock.rqtui(
        *apps, "act", "grow", "celery@mail:default", "w-shop@shop", "--set", "number=1", "--yes", code=1
    )
    assert other["results"][0]["word"] == "unknown", "a worker of the other app does not hear it"


@pytest.mark.parametrize(("prefix", "patterns"), [("/shop/{db}.", True), (False, False)])
@run_on_event_loop
async def test_exchanges_of_other_names_are_received_and_reported(
    stock: Stock, client: Redis, url: str, prefix: str | bool, patterns: bool
) -> None:
    options = {"fanout_prefix": prefix, "fanout_patterns": patterns}
    stock.configure(broker_transport_options=options, event_exchange="shopev", control_exchange="shopctl", **LATE)
    system = f"celery:fanout={prefix or ''},events=shopev,control=shopctl"
    stock.enqueue("waits", queue="mail")
    async with screen(url, WIDE, systems=(system,)) as ui:
        await ui.until_shown("mail", "celery")
        await ui.press("enter", "w")
        worker = stock.start(name="w1", events=True)
        await ui.until_shown("w1@shop")
    result = stock.rqtui("--system", system, "act", "stop", stock.queue, "w1@shop", "--yes")
    assert result["results"][0]["word"] == "asked"
    wait_until(lambda: worker.process.poll() is not None, SLOW_S, "it has ended", 0.05)
    assert "Got shutdown from remote" in worker.read_log()


def test_a_copy_of_a_stock_message_runs_too(stock: Stock, client: Redis) -> None:
    stock.enqueue("one", kwargs={}, priority=6)
    stock.enqueue("pickled", args=(20, 22), serializer="pickle", priority=6)
    for id in ("one", "pickled"):
        stock.rqtui("act", "duplicate", stock.queue, id, "--yes")
    copies = [id for id in stock.read_waiting() if id not in ("one", "pickled")]
    assert len(copies) == 2
    tags = [json.loads(each)["properties"]["delivery_tag"] for each in client.lrange(f"default{STEPS[2]}", 0, -1)]
    tags += [json.loads(each)["properties"]["delivery_tag"] for each in client.lrange("default", 0, -1)]
    assert len({*tags}) == 4, "two with one tag would be acknowledged as one"
    stock.configure(accept_content=["json", "pickle"])
    stock.start()
    assert sorted(stock.until(id, "SUCCESS")["value"] for id in ("one", "pickled", *copies)) == [3, 3, 42, 42]
    stock.until_acked()


def test_migration_takes_what_waits_and_leaves_what_workers_hold(stock: Stock, client: Redis) -> None:
    stock.configure(task_acks_late=True, worker_prefetch_multiplier=1)
    stock.run_holding("held", worker="w1")
    for number, priority in enumerate((0, 3, 9)):
        stock.enqueue(f"moved-{number}", priority=priority)
    bodies = {
        json.loads(each)["headers"]["id"]: each for step in STEPS for each in client.lrange(f"default{step}", 0, -1)
    }
    moved = stock.rqtui("migrate", stock.queue, "native:mail", code=1)
    assert moved["moved"] == 3
    assert moved["left"] == 1
    assert stock.read_waiting() == []
    assert {*stock.read_unacked()} == {"held"}
    for id, body in bodies.items():
        shown = stock.rqtui("show", "native:mail", id, "--body")
        assert shown["body"]["value"] == json.loads(body)
    client.set("go", 1)
    stock.until("held", "SUCCESS")


def test_migration_keeps_when_a_message_is_due(stock: Stock, client: Redis) -> None:
    stock.enqueue("now")
    stock.enqueue("later", countdown=HOUR_S // 2)
    assert stock.rqtui("migrate", stock.queue, "native:mail")["moved"] == 2
    [queue] = [each for each in stock.rqtui("snapshot")["queues"] if each["queue"] == "mail"]
    assert {place["place"]: place["count"] for place in queue["places"] if place["count"]} == {
        "scheduled": 1,
        "ready": 1,
    }
    assert [job["id"] for job in stock.rqtui("jobs", "native:mail", "scheduled")["jobs"]] == ["later"]


def test_a_chain_a_group_and_a_chord_show_what_follows_them(stock: Stock, client: Redis) -> None:
    result = stock.do("canvas", queue="default")
    facts = {
        id: {fact["name"]: fact["value"] for fact in stock.rqtui("show", stock.queue, id)["facts"]}
        for id in stock.read_waiting()
    }
    assert "shop.add(3)" in facts[result["chain"]]["chain"]
    assert [facts[id]["group"] for id in result["chord"]] == [facts[result["chord"][0]]["group"]] * 2
    assert "shop.total" in facts[result["chord"][0]]["chord"]
    for id in result["chord"]:
        assert stock.act("bump", id) == {id: "moved"}
    stock.start()
    assert stock.until(result["ends"]["chain"], "SUCCESS")["value"] == 6
    assert stock.until(result["ends"]["chord"], "SUCCESS")["value"] == 10


def test_a_canary_says_that_celery_does_not_store_how_a_job_ended(stock: Stock, client: Redis) -> None:
    stock.configure(**LATE)
    stock.run_holding("a", "b", worker="w1").kill()
    client.set("go", 1)
    with stock.worker(name="w2"):
        words = ("--place", "unacked", "--all", "--canary", "1", "--rate", "9/s", "--force", "--yes")
        document = stock.rqtui("act", "release", "celery:default", *words, code=1)
        [job] = document["canary"]["jobs"]
        assert (job["outcome"], job["error"]) == ("unknown", None)
        assert isinstance(job["ended_at_ms"], int)
        assert "their system does not store how" in document["stopped"] and document["left"] == 1
