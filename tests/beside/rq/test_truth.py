"""Situations of the truth suite, made by stock RQ: limits, and jobs that wait for a failed one."""

from __future__ import annotations

import pytest
from beside.rq.stock import FIXED, Stock
from redis import Redis

pytestmark = pytest.mark.beside


def test_jobs_that_wait_for_a_failed_job_are_found_and_run_after_its_requeue(stock: Stock, client: Redis) -> None:
    stock.do("enqueue", queue="default", func="shop.confirm", args=[7], id="charge")
    waiting = [f"mail-{number}" for number in range(3)]
    for id in waiting:
        stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id=id, depends_on="charge")
    assert not stock.has_finding("parent-failed")
    with stock.worker():
        stock.until("charge", "failed")
    finding = stock.find_finding("parent-failed")
    assert (finding["severity"], finding["jobs"], finding["ids"]) == ("warning", 3, ["charge"])
    assert stock.do("statuses", ids=waiting) == ["deferred"] * 3
    client.set(FIXED, 1)
    stock.apply_fix(finding, "rqtui act requeue rq:default charge")
    assert not stock.has_finding("parent-failed")
    with stock.worker():
        for id in waiting:
            stock.until(id, "finished")


def test_jobs_behind_a_rate_limit_are_information(stock: Stock) -> None:
    if stock.version.startswith("2."):
        pytest.skip("RQ has rate limits from 3.0 on")
    for number in range(3):
        stock.do("limited", queue="default", func="shop.add", args=[1, 2], id=f"limited-{number}", key="smtp")
    finding = stock.find_finding("held-by-limit")
    assert (finding["severity"], finding["jobs"]) == ("info", 2)
    assert "at its limit of 1 job at once" in finding["text"] and "smtp" in finding["text"]
    with stock.worker():
        for number in range(3):
            stock.until(f"limited-{number}", "finished")
    assert not stock.has_finding("held-by-limit")
