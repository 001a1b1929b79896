"""Tasks of stock Celery run in the same order and as often under a stock worker and, after a migration, under rqtui."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from beside.celery.stock import Stock
from migration_runs import list_jobs_by_first_run, migrate_and_run

pytestmark = pytest.mark.beside


def _plant(stock: Stock) -> None:
    for id, priority in (("a", 9), ("b", 6), ("c", 4), ("d", 3), ("e", 0), ("f", 0), ("g", 7)):
        stock.enqueue(id, "shop.confirm", ("o",), priority=priority)


def test_tasks_run_in_the_order_and_as_often_as_under_a_stock_worker(stock: Stock, tmp_path: Path) -> None:
    _plant(stock)
    with stock.worker():
        for id in "abcdefg":
            stock.until_ran(id)
    expected = [id for id, workers in stock.runs().items() for _worker in workers]
    assert expected == ["e", "f", "c", "d", "b", "g", "a"]
    stock.client.flushall()
    _plant(stock)
    runs = migrate_and_run(stock.client, stock.url, "celery:default", tmp_path, lambda: expected)
    assert list_jobs_by_first_run(runs) == list_jobs_by_first_run(expected)
    assert Counter(runs) == Counter(expected)
