"""The demo's producers, workers and scheduler, written from the wire description, beside stock RQ: both ways."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from beside.environments import VARIABLE, build_rq
from beside.rq.stock import Stock
from redis import Redis
from waiting import wait_until

from rqtui.scenarios.originals import rq as original

pytestmark = pytest.mark.beside


def _enqueue(queue: original.Queue, id: str, function: str, *args: object, **fields: object) -> None:
    queue.enqueue(id, original.encode_call(function, *args), original.format_call(function, *args), **fields)


def test_a_stock_worker_runs_what_the_demo_enqueues_delays_and_retries(stock: Stock, client: Redis) -> None:
    queue = original.Queue(client, "default")
    _enqueue(queue, "sum", "shop.add", 1, 2)
    _enqueue(queue, "bad", "shop.confirm", 7)
    _enqueue(queue, "twice", "shop.confirm", 8, retries_left=1)
    queue.enqueue_in(0, "due", original.encode_call("shop.add", 1, b=4), original.format_call("shop.add", 1, b=4))
    stock.start(options=("--with-scheduler",))
    assert stock.until("sum", "finished")["value"] == 3
    assert stock.until("due", "finished")["value"] == 5
    assert "no such order: 7" in stock.until("bad", "failed")["error"]
    assert stock.until("twice", "failed")["description"] == "shop.confirm(8)"
    assert {id: len(runs) for id, runs in stock.runs().items()} == {"sum": 1, "bad": 1, "twice": 2, "due": 1}


def test_the_demo_runs_what_stock_enqueues_and_stock_tools_see_the_outcome(stock: Stock, client: Redis) -> None:
    def run(job: original.Job) -> int:
        if job.function == "shop.confirm":
            raise ValueError("no such order")
        return 42

    stock.do("enqueue", queue="default", func="shop.add", args=[1], kwargs={"b": 2}, id="sum")
    stock.do("enqueue", queue="default", func="shop.confirm", args=[7], id="bad")
    stock.do("enqueue", queue="default", func="shop.confirm", args=[8], id="twice", retries=1)
    stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id="due", in_s=0)
    worker = original.Worker(client, "default", "demo-1", run)
    worker.register()
    assert [worker.step() for _ in range(5)] == ["finished", "failed", "retried", "failed", "idle"]
    wait_until(lambda: original.enqueue_due_jobs(client, "default", "me"), what="it is due")
    assert [worker.step() for _ in range(2)] == ["finished", "idle"]
    places = ("queued", "scheduled", "started", "finished", "failed")
    assert [stock.do("counts", queue="default")[place] for place in places] == [0, 0, 0, 2, 2]
    assert stock.do("job", id="sum")["value"] == 42
    assert "ValueError: no such order" in stock.do("job", id="bad")["error"]
    [seen] = stock.do("workers")
    assert (seen["name"], seen["state"], seen["done"], seen["failed"]) == ("demo-1", "idle", 2, 3)
    assert "demo-1" in stock.rq("info")
    worker.unregister()
    assert stock.do("workers") == []


def test_jobs_of_the_demos_killed_worker_are_abandoned_for_stock_tools_too(stock: Stock, client: Redis) -> None:
    class Killed(BaseException):
        """The end of it."""

    def die(_job: original.Job) -> None:
        raise Killed

    for id in ("lost", "spared"):
        stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id=id, retries=int(id == "spared"))
        with pytest.raises(Killed):
            original.Worker(client, "default", f"of-{id}", die, clock=lambda: time.time() - 100).step()
    assert stock.do("ids", queue="default", place="started") == ["lost", "spared"]
    stock.do("clean", queue="default")
    assert stock.do("ids", queue="default", place="failed") == ["lost"]
    assert stock.do("ids", queue="default", place="queued") == ["spared"]


def test_an_environment_that_cannot_be_created_skips_its_tests_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho one line >&2; echo no ensurepip here >&2; exit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    for root, reason in (
        (tmp_path, "RQ 3.0.0 .*: no ensurepip here"),
        (python, "Not a directory|File exists"),
    ):
        monkeypatch.setenv(VARIABLE, str(root))
        with pytest.raises(pytest.skip.Exception, match=reason):
            build_rq("3.0.0")
