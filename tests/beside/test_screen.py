"""The person on call, before a Redis where the stock application runs: the screen, no option, keys."""

from __future__ import annotations

import pytest
from beside.stock import FIXED, Stock, aged
from redis import Redis
from screens import WIDE, on_screen, screen

pytestmark = pytest.mark.beside


@on_screen
async def test_r_requeues_a_failed_job_and_the_stock_worker_finishes_it(stock: Stock, client: Redis, url: str) -> None:
    stock.do("enqueue", queue="default", func="shop.confirm", args=[4711], id="bad")
    stock.start(name="w1")
    stock.until("bad", "failed")
    client.set(FIXED, 1)
    async with screen(url, WIDE) as it:
        await it.until_shown("default", "rq")
        await it.press("enter", "8")
        await it.until_shown("failed 1", "shop.confirm", "no such order: 4711")
        await it.press("R")
        await it.until(lambda: stock.do("job", id="bad")["status"] == "finished", "the stock worker has run it")
        await it.until_shown("finished 1")
    assert stock.runs() == {"bad": ["w1", "w1"]}


@on_screen
async def test_a_worker_killed_with_9_is_told_and_its_job_reaped_by_a_key(
    stock: Stock, client: Redis, url: str
) -> None:
    stock.holding("held", "killed", retries=1).kill()
    aged(client, "default", 600)
    async with screen(url, WIDE) as it:
        await it.until_shown("default", "rq")
        await it.press("enter")
        await it.until_shown("without a sign of life", "killed", "rqtui reap rq:default", "without a hash")
        await it.press("w")
        await it.until_shown("gone", "silent 1 with 1 job")
        await it.press("escape", "full_stop")
        await it.until(lambda: stock.do("job", id="held")["status"] == "queued", "the reaper has queued it again")
        await it.until(lambda: "without a sign of life" not in it.text(), "the finding is gone")
        client.set("go", 1)
        stock.start(name="next")
        await it.until(lambda: stock.do("job", id="held")["status"] == "finished", "a stock worker has run it again")
        await it.until_shown("finished 1")
    assert stock.runs() == {"held": ["killed", "next"]}
