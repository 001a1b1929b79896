"""What stock BullMQ records, as rqtui reads it: events and metrics."""

from __future__ import annotations

import pytest
from beside.bullmq.stock import Stock
from shell import shell

pytestmark = pytest.mark.beside


def test_events_and_metrics_of_stock_workers(stock: Stock) -> None:
    stock.start(metrics=60)
    stock.add("good-1")
    stock.add("good-2")
    stock.add("bad", name="confirm", data={"order": 7})
    for id, state in (("good-1", "completed"), ("good-2", "completed"), ("bad", "failed")):
        stock.until(id, state)
    events = shell(stock.url, "events", stock.queue, "--json").lines
    assert [event["verb"] for event in events if event["id"] == "good-1"] == ["added", "waiting", "active", "completed"]
    [failed] = [event for event in events if event["verb"] == "failed"]
    assert (failed["id"], failed["detail"]) == ("bad", "no such order: 7")
    [stats] = stock.rqtui("stats", stock.queue)
    assert stats["totals"] == {"completed": 2, "failed": 1}
    metrics = {type: stock.do("metrics", queue="mail", type=type) for type in ("completed", "failed")}
    assert {type: found["meta"]["count"] for type, found in metrics.items()} == stats["totals"]
    assert [sum(row[flow] for row in stats["minutes"]) for flow in ("out", "failed")] == [2, 1]
    [kind] = [kind for kind in stock.rqtui("kinds", stock.queue)["kinds"] if kind["name"] == "work"]
    assert 0 <= kind["wait_ms"] < 60_000 and 0 <= kind["run_ms"] < 60_000
