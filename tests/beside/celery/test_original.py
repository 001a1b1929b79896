"""Check what stock Celery writes and how it fails, on which the system `celery` relies."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from beside.celery.heard import record_messages
from beside.celery.stock import SLOW_S, STEPS, Stock
from redis import Redis
from waiting import wait_until

pytestmark = pytest.mark.beside
DAY_S, HOUR_S = 24 * 3600, 3600
SWEEPS = {"unacked_restore_interval": 1, "unacked_restore_throttle": 1}  # every second, not every 100


def body(message: dict[str, Any]) -> Any:
    """Return the parts of a JSON message: args, kwargs, and the rest."""
    return json.loads(base64.b64decode(message["body"]))


def written(id: str, task: str = "shop.add", args: tuple[Any, ...] = (1, 2), queue: str = "default") -> bytes:
    """Build the smallest message that a stock worker runs."""
    message = {
        "body": base64.b64encode(json.dumps([args, {}, {}]).encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"task": task, "id": id},
        "properties": {
            "body_encoding": "base64",
            "delivery_tag": f"tag-{id}",
            "delivery_info": {"exchange": "", "routing_key": queue},
        },
    }
    return json.dumps(message).encode()


def broadcast(client: Redis, method: str, **arguments: Any) -> int:
    """Send a hand-written command to all workers, and return how many connections received it."""
    command = {"method": method, "arguments": arguments, "destination": None, "pattern": None, "matcher": None}
    message = {
        "body": base64.b64encode(json.dumps(command).encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"clock": 1, "expires": time.time() + 60},
        "properties": {
            "delivery_mode": 2,
            "delivery_info": {"exchange": "celery.pidbox", "routing_key": ""},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": "told",
        },
    }
    return int(client.publish("/0.celery.pidbox", json.dumps(message)))


def test_a_message_is_in_the_list_of_its_priority_and_0_is_taken_first(stock: Stock, client: Redis) -> None:
    for priority in (9, 7, 6, 5, 3, 2, 0, None):
        stock.enqueue(f"p{priority}", kwargs={"b": None}, **({} if priority is None else {"priority": priority}))
    assert [client.llen(f"default{step}") for step in STEPS] == [3, 2, 2, 1]
    message = json.loads(client.lindex("default", -1))
    assert {*message} == {"body", "content-encoding", "content-type", "headers", "properties"}
    assert body(message)[:2] == [[1, 2], {"b": None}]
    assert {*body(message)[2]} == {"callbacks", "errbacks", "chain", "chord"}
    assert {"task", "id", "eta", "expires", "retries", "timelimit", "root_id", "group", "argsrepr", "kwargsrepr"} <= {
        *message["headers"]
    }
    assert message["properties"]["body_encoding"] == "base64"
    assert message["properties"]["delivery_info"] == {"exchange": "", "routing_key": "default"}
    now = str(client.time()[0])[:6]
    assert now not in client.lindex("default", -1).decode(), "no time of its enqueueing stands in it"
    order = stock.read_waiting()
    assert order == ["p2", "p0", "pNone", "p5", "p3", "p7", "p6", "p9"]
    members = {key: client.smembers(key) for key in client.scan_iter("_kombu.binding.*")}
    assert b"default\x06\x16\x06\x16default" in members[b"_kombu.binding.default"]
    stock.configure(worker_prefetch_multiplier=1)
    client.delete("default", *(f"default{step}" for step in STEPS[1:]))
    for priority in (9, 6, 3, 0):
        stock.enqueue(f"p{priority}", priority=priority)
    stock.start()
    stock.until("p9", "SUCCESS")
    assert [*stock.runs()] == ["p0", "p3", "p6", "p9"]


def test_the_least_message_that_a_stock_worker_runs(stock: Stock, client: Redis) -> None:
    client.lpush("default", written("least"))
    client.lpush("default" + STEPS[2], written("low"))
    stock.start(name="w1")
    assert stock.until("least", "SUCCESS")["value"] == 3
    assert stock.until("low", "SUCCESS")["value"] == 3
    assert stock.runs() == {"least": ["w1"], "low": ["w1"]}


def test_held_messages_are_in_one_hash_for_all_queues_that_names_no_worker(stock: Stock, client: Redis) -> None:
    stock.configure(task_acks_late=True)
    stock.enqueue("later", countdown=HOUR_S)
    assert stock.read_waiting() == ["later"]
    assert json.loads(client.lindex("default", 0))["headers"]["eta"].startswith(time.strftime("%Y-"))
    before = time.time()
    stock.run_holding("held", worker="w1")
    stock.enqueue("next")
    wait_until(lambda: {*stock.read_unacked()} == {"held", "later", "next"}, SLOW_S, "all are taken")
    assert stock.read_waiting() == []
    assert all(before <= since <= time.time() + 1 for since in stock.read_unacked().values())
    for tag, entry in client.hgetall("unacked").items():
        message, exchange, routing_key = json.loads(entry)
        assert (exchange, routing_key, message["properties"]["delivery_tag"]) == ("", "default", tag.decode())
    assert b"w1" not in b"".join(client.hvals("unacked"))
    assert {*stock.do("inspect", method="active")} == {"w1@shop"}
    [active] = stock.do("inspect", method="active")["w1@shop"]
    [reserved] = stock.do("inspect", method="reserved")["w1@shop"]
    [scheduled] = stock.do("inspect", method="scheduled")["w1@shop"]
    assert (active["id"], reserved["id"], scheduled["request"]["id"]) == ("held", "next", "later")
    client.set("go", 1)
    stock.until("next", "SUCCESS")
    wait_until(lambda: {*stock.read_unacked()} == {"later"}, SLOW_S, "they are acknowledged")


@pytest.mark.parametrize("late", [False, True])
def test_kill_9_leaves_only_what_is_acknowledged_late(stock: Stock, client: Redis, late: bool) -> None:
    stock.configure(task_acks_late=late)
    worker = stock.run_holding("held", worker="killed")
    if not late:
        stock.until_acked()
    worker.kill()
    assert [*stock.read_unacked()] == (["held"] if late else [])
    stock.start(name="next")
    stock.enqueue("other")
    stock.until("other", "SUCCESS")
    left = ["held"] if late else []
    wait_until(lambda: [*stock.read_unacked()] == left, SLOW_S, "the next job is acknowledged, the killed one stays")
    assert "held" not in stock.read_waiting()


def test_outcomes_are_stored_under_their_ids_for_a_day_and_published(stock: Stock, client: Redis) -> None:
    with record_messages(client, "*celery-task-meta-*") as ear:
        stock.enqueue("sum")
        stock.enqueue("bad", "shop.confirm", (7,))
        stock.start()
        stock.until("sum", "SUCCESS")
        assert "no such order: 7" in stock.until("bad", "FAILURE")["error"]
        wait_until(lambda: {"celery-task-meta-sum", "celery-task-meta-bad"} == ear.channels(), SLOW_S, "both are said")
        actual = dict(ear.drain())
    for id in ("sum", "bad"):
        key = f"celery-task-meta-{id}"
        assert actual[key].encode() == client.get(key)
        assert DAY_S - 300 < client.ttl(key) <= DAY_S
        assert {*json.loads(actual[key])} >= {"status", "result", "traceback", "date_done", "task_id"}
        assert not {"name", "args", "queue"} & {*json.loads(actual[key])}, "whose job it was is not told"
    assert json.loads(actual["celery-task-meta-bad"])["result"]["exc_type"] == "ValueError"
    stock.kill_all()
    stock.configure(result_extended=True)
    with stock.worker(name="extended"):
        stock.enqueue("told", kwargs={})
        stock.until("told", "SUCCESS")
    document = json.loads(client.get("celery-task-meta-told"))
    assert (document["name"], document["args"], document["queue"], document["worker"]) == (
        "shop.add",
        [1, 2],
        "default",
        "extended@shop",
    )


@pytest.mark.parametrize("events", [False, True])
def test_workers_always_send_heartbeats_and_report_tasks_only_with_option_e(
    stock: Stock, client: Redis, events: bool
) -> None:
    with record_messages(client, "/0.celeryev/*") as ear:
        stock.start(name="w1", events=events)
        stock.enqueue("sum")
        stock.enqueue("bad", "shop.confirm", (7,))
        stock.until("bad", "FAILURE")
        seen_at = len(ear.drain())
        wait_until(lambda: "/0.celeryev/worker.heartbeat" in dict(ear.drain()[seen_at:]), SLOW_S, "it beats", 0.05)
        if events:
            wait_until(lambda: "/0.celeryev/task.multi" in ear.channels(), SLOW_S, "tasks are told", 0.05)
        actual = ear.drain()
    of_tasks = [json.loads(text) for channel, text in actual if "/task." in channel]
    assert bool(of_tasks) == events
    beats = [body(json.loads(text)) for channel, text in actual if channel.endswith("worker.heartbeat")]
    assert {beat["hostname"] for beat in beats} == {"w1@shop"}
    assert {"pid", "active", "processed", "loadavg", "freq", "sw_ver", "timestamp"} <= {*beats[-1]}
    assert beats[-1]["freq"] == 2
    actual = [each for message in of_tasks for each in body(message)]
    if events:
        types = [(each["uuid"], each["type"]) for each in actual]
        assert types == [
            ("sum", "task-received"),
            ("sum", "task-started"),
            ("sum", "task-succeeded"),
            ("bad", "task-received"),
            ("bad", "task-started"),
            ("bad", "task-failed"),
        ]
        assert not any("queue" in each for each in actual)
        assert actual[0]["name"] == "shop.add"
        assert "name" not in actual[-1]


def test_with_a_prefix_keys_and_channels_have_it(stock: Stock, client: Redis) -> None:
    stock.configure(broker_transport_options={"global_keyprefix": "shop:"}, task_acks_late=True)
    with record_messages(client, "*") as ear:
        stock.run_holding("held", events=True)
        stock.enqueue("sum")
        client.set("go", 1)
        wait_until(
            lambda: not stock.read_unacked("shop:") and not stock.read_waiting(prefix="shop:"), SLOW_S, "all is done"
        )
        actual = {"shop:/0.celeryev/worker.heartbeat", "shop:/0.celeryev/task.multi", "celery-task-meta-sum"}
        wait_until(lambda: actual <= ear.channels(), SLOW_S, "all is told", 0.05)
    keys = {key.decode() for key in client.scan_iter("*")} - {"beside:ran", "go"}
    assert {key for key in keys if not key.startswith("shop:")} == {"celery-task-meta-held", "celery-task-meta-sum"}
    assert b"default\x06\x16\x06\x16default" in client.smembers("shop:_kombu.binding.default")


def test_results_have_a_prefix_of_their_own(stock: Stock, client: Redis) -> None:
    stock.configure(result_backend_transport_options={"global_keyprefix": "shop:"})
    with record_messages(client, "*") as ear:
        stock.start()
        stock.enqueue("sum")
        stock.until("sum", "SUCCESS")
        wait_until(lambda: "/0.celeryev/worker.heartbeat" in ear.channels(), SLOW_S, "it beats", 0.05)
    assert client.exists("shop:celery-task-meta-sum")
    assert "shop:celery-task-meta-sum" in ear.channels()


def test_a_revoke_written_by_hand_is_received_and_its_reply_is_the_number_of_receivers(
    stock: Stock, client: Redis
) -> None:
    assert broadcast(client, "revoke", task_id="waits", terminate=False) == 0
    worker = stock.run_holding("held", worker="w1")
    stock.enqueue("waits")
    assert broadcast(client, "revoke", task_id="waits", terminate=False) == 1
    wait_until(lambda: "waits" in worker.read_log(), SLOW_S, "it notes it", 0.05)
    assert broadcast(client, "revoke", task_id="held", terminate=True, signal="SIGTERM") == 1
    stock.until("held", "REVOKED")
    stock.until("waits", "REVOKED")
    assert stock.runs() == {"held": ["w1"]}


def test_a_consumer_that_is_cancelled_takes_nothing_of_the_queue_until_it_is_added(stock: Stock, client: Redis) -> None:
    stock.start("default", "other", name="w1")
    assert broadcast(client, "cancel_consumer", queue="default") == 1
    wait_until(
        lambda: [each["name"] for each in stock.do("inspect", method="active_queues")["w1@shop"]] == ["other"],
        SLOW_S,
        "it is cancelled",
    )
    stock.enqueue("waits")
    stock.enqueue("passes", queue="other")
    stock.until("passes", "SUCCESS")
    assert stock.read_waiting() == ["waits"]
    assert broadcast(client, "add_consumer", queue="default") == 1
    stock.until("waits", "SUCCESS")


def test_a_message_that_is_no_json_ends_the_worker_that_pops_it(stock: Stock, client: Redis) -> None:
    worker = stock.start()
    client.lpush("default", "this is no JSON")
    wait_until(lambda: worker.process.poll() is not None, SLOW_S, "it has ended")
    assert client.llen("default") == 0, "and the message is lost"
    assert "JSONDecodeError" in worker.read_log() or "Expecting value" in worker.read_log()


def test_a_message_without_properties_restarts_the_consumer_and_is_lost(stock: Stock, client: Redis) -> None:
    worker = stock.start()
    message = json.loads(written("bare"))
    del message["properties"]
    client.lpush("default", json.dumps(message))
    stock.enqueue("after")
    stock.until("after", "SUCCESS")
    assert worker.process.poll() is None
    assert "KeyError" in worker.read_log()
    assert [*stock.runs()] == ["after"]
    stock.until_acked()


def test_an_eta_beyond_the_visibility_timeout_is_given_out_again_and_runs_twice(stock: Stock, client: Redis) -> None:
    stock.configure(broker_transport_options={"visibility_timeout": 2, **SWEEPS})
    stock.enqueue("reminder", countdown=15)
    stock.start(name="w1")
    wait_until(stock.read_unacked, SLOW_S, "it is taken")
    wait_until(lambda: len(stock.runs()["reminder"]) >= 2, 90, "it has run twice", 0.1)
    assert {*stock.runs()["reminder"]} == {"w1"}


@pytest.mark.parametrize("tool", ["inspect", "flower"])
def test_a_client_that_inspects_workers_restores_messages_by_its_own_timeout(
    stock: Stock, client: Redis, tool: str
) -> None:
    stock.configure(task_acks_late=True, worker_prefetch_multiplier=1)  # it takes no second one
    stock.run_holding("held", worker="living")
    stock.age(60)
    stock.inspect_workers("inspect", visibility_s=HOUR_S)
    assert {*stock.read_unacked()} == {"held"}, "a tool with the same timeout leaves it"
    stock.inspect_workers(tool, visibility_s=5)
    wait_until(lambda: stock.read_waiting() == ["held"], 120, "it is given out again while it runs", 0.1)
    message = json.loads(client.lindex("default", -1))
    assert message["headers"]["redelivered"] is True
    assert message["properties"]["delivery_info"]["redelivered"] is True
    stock.start(name="second")
    stock.until_ran("held", 2)
    client.set("go", 1)
    assert stock.runs() == {"held": ["living", "second"]}


def test_replies_to_an_inspect_that_is_killed_stay_for_ever(stock: Stock, client: Redis) -> None:
    worker = stock.start(name="w1")
    worker.stop()
    with record_messages(client, "/0.celery.pidbox") as ear:
        asking = stock.begin(stock.command("inspect", "-t", "600", "active"))
        wait_until(ear.drain, SLOW_S, "it has asked", 0.05)
    asking.kill()
    worker.resume()
    [reply] = wait_until(lambda: [*client.scan_iter("*.reply.celery.pidbox", _type="list")], SLOW_S, "an answer", 0.05)
    assert client.ttl(reply) == -1
