"""Jobs of stock BullMQ run in the same order and as often under a stock worker and, after a migration, under rqtui."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from beside.bullmq.stock import Stock
from beside.stock import RAN
from migration_runs import list_jobs_by_first_run, migrate_and_run

pytestmark = pytest.mark.beside


def _plant(stock: Stock) -> None:
    """Plant a job that failed once of three times, and jobs with priorities, lifo, attempts and a delay. All fail."""
    stock.add("tried", name="confirm", attempts=3, backoff={"type": "fixed", "delay": 3_600_000})
    with stock.worker():
        stock.until("tried", "delayed")
    stock.client.delete(RAN)
    stock.do("act", queue="mail", id="tried", verb="changeDelay", words=[3_600_000])
    for priority in (7, 3, 1, 5, 2, 6, 4):
        stock.add(f"p{priority}", name="confirm", priority=priority)
    stock.add("once", name="confirm")
    stock.add("thrice", name="confirm", attempts=3, backoff={"type": "fixed", "delay": 3000})
    stock.add("lifo", name="confirm", lifo=True)
    stock.add("later", name="confirm", delay=7_200_000, attempts=2)


def test_jobs_run_in_the_order_and_as_often_as_under_a_stock_worker(stock: Stock, tmp_path: Path) -> None:
    at_once = ["lifo", "once", "thrice", *(f"p{priority}" for priority in range(1, 8))]
    _plant(stock)
    with stock.worker():
        for id in at_once:
            stock.until(id, "failed")
        for id, state in (("tried", "delayed"), ("later", "failed")):
            stock.do("act", queue="mail", id=id, verb="promote")
            stock.until_ran(id)
            stock.until(id, state)
        stock.do("act", queue="mail", id="tried", verb="promote")
        stock.until("tried", "failed")
    expected = [id for id, workers in stock.runs().items() for _worker in workers]
    assert Counter(expected) == {**dict.fromkeys(at_once, 1), "thrice": 3, "later": 2, "tried": 2}
    stock.client.flushall()
    _plant(stock)
    runs = migrate_and_run(stock.client, stock.url, "bullmq:mail", tmp_path, lambda: expected)
    assert list_jobs_by_first_run(runs) == list_jobs_by_first_run(expected)
    assert Counter(runs) == Counter(expected)
