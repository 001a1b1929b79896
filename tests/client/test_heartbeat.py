"""Test the heartbeat thread of a consumer: what it reports when its heartbeats fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from waiting import wait_until

from rqtui.client import heartbeat
from rqtui.client.outcome_buffer import OutcomeBuffer
from rqtui.coroutines import run_without_event_loop

WORKERS = "rqtui:{mail}:workers"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def calls(client: Redis) -> int:
    found = client.info("commandstats")
    return sum(found.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


@pytest.mark.slow
def test_heartbeats_that_fail_are_reported_once_until_one_is_taken(
    client: Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: Any, url: str
) -> None:
    monkeypatch.setattr(heartbeat, "RETRY_S", 0.02)
    monkeypatch.setattr(heartbeat, "WORKER_TTL_MS", 60)
    caplog.set_level(logging.WARNING, "rqtui")
    queue = kind("mail", url)
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
        queue.close()


def test_outcomes_that_a_heartbeat_was_sending_when_it_was_cancelled_are_sent_again() -> None:
    async def cancelled(calls: Sequence[Any]) -> Any:
        raise asyncio.CancelledError

    outbox = OutcomeBuffer(lambda verb, rows: (verb, *rows), lambda job: None)  # type: ignore[arg-type,return-value]
    outbox.add_outcome("ack", SimpleNamespace(id_bytes=b"a", token="t"))  # type: ignore[arg-type]
    beats = heartbeat.HeartbeatLoop(
        cancelled,
        lambda verb, args, rows: verb,  # type: ignore[arg-type,return-value]
        outbox,
        identity={"worker": "w1"},
        ttr_ms=None,
        find_current_id=lambda: b"",
        on_order=lambda word: None,
        on_tick=lambda: None,
    )
    with pytest.raises(asyncio.CancelledError):
        run_without_event_loop(beats._run_step_and_log_errors())
    assert [parcel.call for parcel in outbox.take_outcome_batches()] == [("ack", (b"a", "t"))]
