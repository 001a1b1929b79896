"""The demo's producers and workers, written from the wire format, beside stock BullMQ: both ways."""

from __future__ import annotations

from pathlib import Path

import pytest
from beside.bullmq.stock import P, Stock
from beside.environments import VARIABLE, build_bullmq
from redis import Redis

from rqtui.scenarios.originals import bullmq as original

pytestmark = pytest.mark.beside


def test_a_stock_worker_runs_what_the_demo_adds_delays_and_fails(stock: Stock, client: Redis) -> None:
    queue = original.Queue(client, "mail")
    queue.connect(f"bullmq:{stock.version}")
    tries = {"attempts": 2, "backoff": {"type": "fixed", "delay": 10}}
    assert queue.add("plain", "work", {"of": ["ä"]}, {})
    assert not queue.add("plain", "work", {}, {})
    queue.add("later", "work", {}, {}, delay_ms=20)
    queue.add("prior", "work", {}, {"priority": 3}, priority=3)
    queue.add("retried", "work", {}, tries)
    queue.add("dies", "work", {}, {})
    taken: list[str] = []

    def fails(id: str, _name: str, _data: object) -> None:
        taken.append(id)
        raise original.JobError("TypeError", "no such order: 7", "confirm (shop.js:1:1)")

    words = []
    worker = original.Worker(client, "mail", "demo", fails)
    while "dies" not in taken:
        words.append(worker.step())
    assert {*words} <= {"failed", "retried", "idle"}
    failed = stock.job("dies")
    assert (failed["state"], failed["failedReason"], failed["attemptsMade"]) == ("failed", "no such order: 7", 1)
    assert failed["stacktrace"] == ["TypeError: no such order: 7\n    at confirm (shop.js:1:1)"]
    for id in {*taken} - {"retried"}:
        stock.do("act", queue="mail", id=id, verb="retry")
    stock.start()
    for id in ("plain", "later", "prior", "retried", "dies"):
        stock.until(id, "completed")
    assert stock.job("plain")["returnvalue"] == {"of": ["ä"]}
    assert {len(runs) for runs in stock.runs().values()} == {1}


def test_the_demo_runs_what_stock_adds_and_the_stock_api_sees_its_worker(stock: Stock, client: Redis) -> None:
    stock.add("one", "two", data={"n": [1.5]})
    stock.add("prior", priority=2)
    child = {"name": "work", "queueName": "mail", "data": {}, "opts": {"jobId": "child"}}
    stock.do(
        "flow", tree={"name": "work", "queueName": "mail", "data": {}, "opts": {"jobId": "parent"}, "children": [child]}
    )
    ran: list[tuple[str, object]] = []
    worker = original.Worker(client, "mail", "demo-1", lambda id, _name, data: ran.append((id, data)))
    worker.connect()
    assert any(name.endswith(":w:demo-1") for name in stock.do("workers", queue="mail"))
    assert [worker.step() for _ in range(6)] == [*["completed"] * 5, "idle"]
    assert [id for id, _data in ran] == ["one", "two", "child", "parent", "prior"]
    assert ran[0][1] == {"n": [1.5]}
    assert stock.states("one", "child", "parent", "prior") == dict.fromkeys(
        ("one", "child", "parent", "prior"), "completed"
    )
    stock.add("held")
    taken = worker.take()
    assert taken is not None
    assert stock.state("held") == "active"
    client.delete(f"{P}held:lock")
    assert worker.queue.move_stalled_jobs() == 0, "the first look only remembers"
    client.delete(f"{P}stalled-check")
    assert worker.queue.move_stalled_jobs() == 1
    with stock.worker(name="next"):
        stock.until("held", "completed")


def test_a_stock_pause_and_that_of_the_demo_lose_the_same(stock: Stock, client: Redis) -> None:
    """BullMQ 5 renames; what stood under the other name is in no place."""
    if not stock.is_5:
        pytest.skip("BullMQ 6 renames nothing")
    queue = original.Queue(client, "mail")
    for is_stock in (True, False):
        name = "stock" if is_stock else "demo"
        stock.add(f"{name}-kept")
        if is_stock:
            stock.do("whole", queue="mail", verb="pause")
        else:
            assert queue.pause_or_resume_as_version_5(True) == []
        client.hset(f"{P}{name}-lost", mapping=queue.build_fields("work", {}, {}))
        client.lpush(f"{P}wait", f"{name}-lost")  # as BullMQ 6 does
        if is_stock:
            stock.do("whole", queue="mail", verb="resume")
        else:
            assert queue.pause_or_resume_as_version_5(False) == [b"demo-lost"]
        assert client.lrange(f"{P}wait", 0, -1) == [f"{name}-kept".encode()]
        assert not client.exists(f"{P}paused")
        assert stock.state(f"{name}-lost") == "unknown"
        client.delete(f"{P}wait")


def test_stock_that_is_not_there_skips_its_tests_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, body in (("npm", "echo no registry here >&2; exit 2"), ("node", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "beside"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(pytest.skip.Exception, match=r"BullMQ 6\.7\.0 .*: no registry here"):
        build_bullmq("6.7.0")
    (tmp_path / "npm").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="needs npm"):
        build_bullmq("6.7.0")
