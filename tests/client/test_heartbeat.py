"""The thread beside a consumer: what it says when its beats fail."""

from __future__ import annotations

import logging

import pytest
from redis import Redis
from waiting import wait_until

from rqtui.client import heartbeat
from rqtui.client.queue import Queue

WORKERS = "rqtui:{mail}:workers"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def calls(client: Redis) -> int:
    found = client.info("commandstats")
    return sum(found.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


def test_beats_that_fail_are_told_once_until_one_is_taken(
    client: Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "RETRY_S", 0.02)
    monkeypatch.setattr(heartbeat, "WORKER_TTL_MS", 60)
    caplog.set_level(logging.WARNING, "rqtui")
    queue = Queue("mail", client)
    queue.put(1, id="a")
    jobs = iter(queue.consume(worker="w1"))
    next(jobs)
    try:
        for _ in range(2):
            wait_until(lambda: client.type(WORKERS) == b"hash", what="a beat that is taken")
            before = len(warnings(caplog))
            client.set(WORKERS, "another program's")
            wait_until(lambda before=before: len(warnings(caplog)) > before, what="the warning")
            began = calls(client)
            wait_until(lambda began=began: calls(client) > began + 10, what="ten tries more")
            assert len(warnings(caplog)) == before + 1, warnings(caplog)
            assert "heartbeat of w1: " in warnings(caplog)[-1] and WORKERS in warnings(caplog)[-1]
            client.delete(WORKERS)
    finally:
        client.delete(WORKERS)
        jobs.close()
