"""Jobs of stock RQ run in the same order and as often under a stock worker and, after a migration, under rqtui."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from beside.rq.stock import RAN, Stock
from migration_runs import TARGET, list_jobs_by_first_run, migrate_and_run

from rqtui.engine.engine import Engine
from rqtui.systems import registry

pytestmark = pytest.mark.beside


def _plant(stock: Stock) -> None:
    """Plant a job that failed for good, and others that fail: enqueued once, at the front, with retries."""
    charge = {"queue": "default", "func": "shop.confirm", "args": ["o"], "kwargs": {}}
    stock.do("enqueue", **charge, id="dead")
    stock.rq("worker", "--burst", "default")
    stock.client.delete(RAN)
    for id, options in {
        "charge": {},
        "three": {"retries": 2},
        "front": {"at_front": True},
        "two": {"retries": 1},
    }.items():
        stock.do("enqueue", **charge, id=id, **options)


def test_jobs_run_in_the_order_and_as_often_as_under_a_stock_worker(stock: Stock, tmp_path: Path) -> None:
    _plant(stock)
    stock.rq("worker", "--burst", "default")
    expected = [id for id, workers in stock.runs().items() for _worker in workers]
    assert Counter(expected) == {"front": 1, "charge": 1, "three": 3, "two": 2}
    stock.client.flushall()
    _plant(stock)
    error = stock.do("job", id="dead")["error"]
    runs = migrate_and_run(stock.client, stock.url, "rq:default", tmp_path, lambda: [*expected, "dead"])
    assert list_jobs_by_first_run(runs) == list_jobs_by_first_run(expected)
    assert Counter(runs) == Counter(expected)
    dead = Engine(stock.client, [registry.create_system("native")]).fetch_job(TARGET, b"dead")
    assert dead is not None
    assert (dead.state, dead.attempts) == ("dead", 1)
    assert dead.error.strip() == error.strip()
