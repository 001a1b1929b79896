"""`rqtui health` finds faults of Celery and of killed workers. Its fix repairs them for stock Celery."""

from __future__ import annotations

import json

import pytest
from beside.celery.heard import record_messages
from beside.celery.stock import STEPS, Stock
from beside.stock import SLOW_S
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
HOUR_S = 3600
SWEEPS = {"unacked_restore_interval": 1, "unacked_restore_throttle": 1}  # every second, not every 100


def test_abandoned_after_kill_9_and_reaped_before_kombu_does(stock: Stock, client: Redis) -> None:
    stock.configure(task_acks_late=True)
    killed = stock.run_holding("held", "again", worker="killed")
    killed.kill()
    assert not stock.has_finding("abandoned"), "its time is not over"
    stock.age(HOUR_S + 200)
    finding = stock.find_finding("abandoned")
    assert (finding["queue"], finding["severity"]) == ("default", "critical")
    assert {*finding["ids"]} & {"held", "again"}
    assert "2" in finding["text"]
    stock.apply_fix(finding, "rqtui reap celery:default")
    assert not stock.has_finding("abandoned")
    assert sorted(stock.read_waiting()) == ["again", "held"]
    client.set("go", 1)
    stock.start(name="next")
    for id in ("held", "again"):
        stock.until(id, "SUCCESS")
    assert stock.runs() == {id: ["killed", "next"] for id in ("held", "again")}


def test_an_eta_beyond_the_visibility_timeout_is_reported_before_it_runs_twice(stock: Stock, client: Redis) -> None:
    stock.configure(broker_transport_options={"visibility_timeout": 6, **SWEEPS})
    system = ("--system", "celery:visibility=6")
    stock.enqueue("reminder", countdown=25)
    stock.enqueue("dropped", countdown=25)
    stock.enqueue("once", countdown=25)
    stock.start(name="w1")
    wait_until(lambda: len(stock.read_unacked()) == 3, SLOW_S, "all are taken")
    [finding] = [
        each for each in stock.rqtui(*system, "health", code=2)["findings"] if each["kind"] == "eta-beyond-visibility"
    ]
    assert finding["severity"] == "critical"
    assert {*finding["ids"]} & {"reminder", "dropped", "once"}
    assert stock.runs() == {}, "it is told before"
    assert "rqtui act extend --system celery:visibility=6 celery:default" in finding["remedy"]
    stock.rqtui(*system, "act", "extend", stock.queue, "once", "--yes")
    stock.rqtui(*system, "act", "cancel", stock.queue, "dropped", "--yes")
    stock.until("dropped", "REVOKED")
    stock.until_ran("reminder", 2)
    wait_until(lambda: "once" in stock.runs(), SLOW_S, "it has run")
    assert {*stock.runs()} == {"reminder", "once"}
    assert len(stock.runs()["once"]) == 1


def test_no_eta_is_too_far_for_a_longer_timeout(stock: Stock, client: Redis) -> None:
    stock.configure(broker_transport_options={"visibility_timeout": 3 * HOUR_S})
    stock.enqueue("reminder", countdown=2 * HOUR_S)
    stock.start()
    wait_until(stock.read_unacked, SLOW_S, "it is taken")
    assert stock.has_finding("eta-beyond-visibility"), "rqtui takes the stock timeout"
    found = stock.rqtui("--system", f"celery:visibility={3 * HOUR_S}", "health", code=1)["findings"]
    assert "eta-beyond-visibility" not in [each["kind"] for each in found]


def test_reply_lists_of_an_inspect_that_was_killed(stock: Stock, client: Redis) -> None:
    worker = stock.start(name="w1")
    assert not stock.has_finding("reply-lists")
    worker.stop()
    with record_messages(client, "/0.celery.pidbox") as ear:
        asking = stock.begin(stock.command("inspect", "-t", "600", "active"))
        wait_until(ear.drain, SLOW_S, "it has asked", 0.05)
    asking.kill()
    worker.resume()
    [reply] = wait_until(lambda: [*client.scan_iter("*.reply.celery.pidbox", _type="list")], SLOW_S, "an answer", 0.05)
    finding = stock.find_finding("reply-lists")
    assert finding["severity"] == "warning"
    assert finding["keys"] == [reply.decode()]
    stock.apply_fix(finding, f"redis-cli EXPIRE {reply.decode()} 3600")
    assert 0 < client.ttl(reply) <= HOUR_S
    assert not stock.has_finding("reply-lists")
    assert stock.do("inspect", method="ping") == {"w1@shop": {"ok": "pong"}}


def test_poison_that_is_no_json_at_the_head_ends_no_worker_once_it_is_deleted(stock: Stock, client: Redis) -> None:
    first = stock.start(name="first")
    client.lpush("default", b"this is no JSON \xff")
    wait_until(lambda: first.process.poll() is not None, SLOW_S, "the worker has ended")
    client.lpush("default", b"this is no JSON \xff")
    stock.enqueue("behind")
    finding = stock.find_finding("poison-json")
    assert (finding["severity"], finding["queue"]) == ("critical", "default")
    [poison] = [job for job in stock.rqtui("jobs", stock.queue, "queue")["jobs"] if job["problem"]]
    assert finding["keys"] == ["default"]
    assert "rqtui act delete celery:default" in finding["remedy"]
    assert stock.act("delete", poison["id"]) == {poison["id"]: "moved"}
    assert not stock.has_finding("poison-json")
    second = stock.start(name="second")
    stock.until("behind", "SUCCESS")
    assert second.process.poll() is None


def test_a_message_without_properties_is_reported_before_it_is_lost(stock: Stock, client: Redis) -> None:
    stock.enqueue("bare")
    message = json.loads(client.rpop("default"))
    del message["properties"]
    client.lpush("default" + STEPS[1], json.dumps(message))
    finding = stock.find_finding("poison-properties")
    assert finding["keys"] == ["default" + STEPS[1]]
    assert stock.act("delete", "bare") == {"bare": "moved"}
    assert not stock.has_finding("poison-properties")


def test_another_programs_key_in_the_place_of_a_queue(stock: Stock, client: Redis) -> None:
    stock.enqueue("one")
    client.delete("default")
    client.set("default", "something else")
    with pytest.raises(Exception, match="WRONGTYPE"):
        stock.enqueue("two")
    finding = stock.find_finding("wrong-type")
    assert finding["keys"] == ["default"]
    client.rename("default", "elsewhere")
    stock.enqueue("three")
    assert not stock.has_finding("wrong-type")
    assert stock.read_waiting() == ["three"]
