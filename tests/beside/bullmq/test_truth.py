"""Situations of the truth suite, made by stock BullMQ: a queue that works at its limit."""

from __future__ import annotations

import pytest
from beside.bullmq.stock import Stock
from redis import Redis

pytestmark = pytest.mark.beside


def test_a_queue_that_works_at_its_limit_is_information(stock: Stock, client: Redis) -> None:
    stock.do("whole", queue="mail", verb="setGlobalConcurrency", words=[1])
    stock.run_holding("held", "first")
    stock.add("next-1", "next-2")
    finding = stock.find_finding("at-limit")
    assert (finding["severity"], finding["jobs"]) == ("info", 2)
    assert "at its limit of 1 at once" in finding["text"]
    client.set("go", 1)
    for id in ("held", "next-1", "next-2"):
        stock.until(id, "completed")
    assert not stock.has_finding("at-limit")
