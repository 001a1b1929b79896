"""Jobs of stock Sidekiq run in the same order and as often under a stock process as, after a migration, under rqtui."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from beside.sidekiq.stock import Stock
from beside.stock import RAN
from migration_runs import TARGET, list_jobs_by_first_run, migrate_and_run
from waiting import wait_until

from rqtui.engine.engine import Engine
from rqtui.systems import registry

pytestmark = pytest.mark.beside
RUNS = {"never-again": 1, "four": 4, "fatal": 1, "failed": 3}


def _plant(stock: Stock) -> None:
    """Plant a dead job, a job that failed once of four times, and others: all of them fail."""
    stock.push("dead", job="FatalJob", args=("o",))
    stock.push("failed", job="FailJob", args=("o",), retry=3)
    with stock.worker(threads=1):
        wait_until(lambda: stock.client.zcard("dead") == stock.client.zcard("retry") == 1, 60, "both have failed")
    stock.client.delete(RAN)
    for member, _score in stock.client.zrange("retry", 0, -1, withscores=True):
        stock.client.zadd("retry", {member: time.time() + 3600})
    stock.push("never-again", job="FailJob", args=("o",), retry=False)
    stock.push("four", job="FailJob", args=("o",), retry=3)
    stock.push("fatal", job="FatalJob", args=("o",))


def _have_run(stock: Stock) -> bool:
    """Return whether each job ran as often as it may. Retries are made due once the others have run."""
    runs = stock.runs()
    if all(runs[id] for id in ("never-again", "four", "fatal")):
        for member in stock.client.zrange("retry", 0, -1):
            stock.client.zadd("retry", {member: time.time()}, xx=True)
    return all(len(runs[id]) >= times for id, times in RUNS.items())


def test_jobs_run_in_the_order_and_as_often_as_under_a_stock_process(stock: Stock, tmp_path: Path) -> None:
    _plant(stock)
    with stock.worker(threads=1):
        wait_until(lambda: _have_run(stock), 90, "all have run", every_s=0.1)
        wait_until(lambda: stock.client.zcard("dead") == 4, 60, "none is retried")
    expected = [id for id, workers in stock.runs().items() for _worker in workers]
    assert Counter(expected) == RUNS
    stock.client.flushall()
    _plant(stock)
    runs = migrate_and_run(stock.client, stock.url, "sidekiq:default", tmp_path, lambda: [*expected, "dead"])
    assert list_jobs_by_first_run(runs) == list_jobs_by_first_run(expected)
    assert Counter(runs) == Counter(expected)
    dead = Engine(stock.client, [registry.create_system("native")]).fetch_job(TARGET, b"dead")
    assert dead is not None
    assert (dead.state, dead.attempts, "no such order" in dead.error) == ("dead", 1, True)
