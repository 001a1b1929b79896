"""The demo's producers and workers, written from the wire description, beside stock Celery: both ways."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from beside.celery.stock import Stock
from beside.stock import SLOW_S
from redis import Redis
from waiting import wait_until

from rqtui.scenarios.originals import celery as original

pytestmark = pytest.mark.beside
SWEEPS = {"visibility_timeout": 30, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}


def _send(client: Redis, id: str, name: str, args: tuple[object, ...], **more: Any) -> None:
    original.declare_queue(client, "default")
    original.publish_message(client, "default", original.build_task_message(name, id, "default", args, **more))


def test_a_stock_worker_runs_what_the_demo_sends(stock: Stock, client: Redis) -> None:
    _send(client, "low", "shop.add", (1, 2), priority=9)
    _send(client, "sum", "shop.add", (1,), kwargs={"b": 2})
    _send(client, "bad", "shop.confirm", (7,), priority=3)
    _send(client, "due", "shop.add", (3, 4), eta_s=time.time() + 1)
    stock.configure(worker_prefetch_multiplier=1)
    stock.start(name="w1")
    assert stock.until("low", "SUCCESS")["value"] == stock.until("sum", "SUCCESS")["value"] == 3
    assert stock.until("due", "SUCCESS")["value"] == 7
    assert "no such order: 7" in stock.until("bad", "FAILURE")["error"]
    assert [id for id in stock.runs() if id != "due"] == ["sum", "bad", "low"]
    stock.until_acked()


def test_the_demo_runs_what_stock_sends_and_stock_tools_see_the_outcome(stock: Stock, client: Redis) -> None:
    def run(headers: Mapping[str, Any], args: list[Any], kwargs: dict[str, Any]) -> object:
        if headers["task"] == "shop.confirm":
            is_first = not headers["retries"]
            raise original.TaskError(
                "ValueError", "no such order", "Traceback: no such order", 0.0 if is_first else None
            )
        return sum(args) + kwargs.get("b", 0)

    stock.enqueue("low", args=(1, 2), priority=9)
    stock.enqueue("sum", args=(1,), kwargs={"b": 2})
    stock.enqueue("due", args=(3, 4), countdown=0.5)
    stock.enqueue("bad", "shop.confirm", (7,))
    worker = original.Worker(client, "default", "demo@shop", run)
    worker.begin()
    ended: list[str] = []
    wait_until(lambda: ended.append(worker.step()) or ended.count("succeeded") + ended.count("failed") == 4, SLOW_S)
    assert sorted(word for word in ended if word != "idle") == ["failed", "retried", *["succeeded"] * 3]
    assert [stock.do("result", id=id)["value"] for id in ("low", "sum", "due")] == [3, 3, 7]
    assert stock.do("result", id="bad")["status"] == "FAILURE"
    assert "no such order" in stock.do("result", id="bad")["error"]
    assert stock.read_unacked() == {}

    is_over = threading.Event()

    def tend() -> None:
        while not is_over.wait(0.02):
            worker.run_background_step(client)

    tending = threading.Thread(target=tend)
    tending.start()
    try:
        assert stock.do("inspect", method="ping") == {"demo@shop": {"ok": "pong"}}
        stock.do("revoke", id="dropped")
        wait_until(lambda: stock.do("result", id="dropped")["status"] == "REVOKED", SLOW_S, "it was told")
    finally:
        is_over.set()
        tending.join()
    stock.enqueue("dropped")
    assert worker.step() == "revoked"
    worker.leave()
    assert stock.read_unacked() == {}


def test_jobs_of_the_demos_killed_worker_are_redelivered_by_a_stock_worker(stock: Stock, client: Redis) -> None:
    class Killed(BaseException):
        """The end of it."""

    def die(*_: object) -> object:
        raise Killed

    stock.enqueue("held")
    stock.enqueue("prefetched", priority=6)
    worker = original.Worker(client, "default", "demo@shop", die, clock=lambda: time.time() - 60)
    worker.begin()
    with pytest.raises(Killed):
        worker.step()
    worker.die()
    assert {*stock.read_unacked()} == {"held", "prefetched"}
    stock.configure(broker_transport_options=SWEEPS)
    stock.start(name="next")
    for id in ("held", "prefetched"):
        assert stock.until(id, "SUCCESS")["value"] == 3
    assert stock.runs() == {"held": ["next"], "prefetched": ["next"]}


def test_the_demo_gives_out_again_what_a_killed_stock_worker_held(stock: Stock, client: Redis) -> None:
    stock.configure(task_acks_late=True)
    stock.run_holding("held", worker="killed").kill()
    assert original.restore_overdue_messages(client, 3600.0) == 0
    stock.age(3700)
    assert original.restore_overdue_messages(client, 3600.0) == 1
    client.set("go", 1)
    stock.start(name="next")
    stock.until("held", "SUCCESS")
    assert stock.runs() == {"held": ["killed", "next"]}
