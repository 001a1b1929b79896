"""The person on call, before a Redis where the stock application runs: the screen, no option, keys."""

from __future__ import annotations

import pytest
from beside.rq.stock import FIXED, Stock, age_leases
from redis import Redis
from screens import WIDE, run_on_event_loop, screen

pytestmark = pytest.mark.beside


@run_on_event_loop
async def test_r_requeues_a_failed_job_and_the_stock_worker_finishes_it(stock: Stock, client: Redis, url: str) -> None:
    stock.do("enqueue", queue="default", func="shop.confirm", args=[4711], id="bad")
    stock.start(name="w1")
    stock.until("bad", "failed")
    client.set(FIXED, 1)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "rq")
        await ui.press("enter", "8")
        await ui.until_shown("failed 1", "shop.confirm", "no such order: 4711")
        await ui.press("R")
        await ui.until(lambda: stock.do("job", id="bad")["status"] == "finished", "the stock worker has run it")
        await ui.until_shown("finished 1")
    assert stock.runs() == {"bad": ["w1", "w1"]}


@run_on_event_loop
async def test_a_worker_killed_with_9_is_reported_and_its_job_reaped_by_a_key(
    stock: Stock, client: Redis, url: str
) -> None:
    stock.run_holding("held", "killed", retries=1).kill()
    age_leases(client, "default", 600)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "rq")
        await ui.press("enter")
        await ui.until_shown("without a heartbeat for", "killed", ". reaper", "without a hash")
        await ui.press("w")
        await ui.until_shown("gone", "silent 1 with 1 job")
        await ui.press("escape", "full_stop")
        await ui.until(lambda: stock.do("job", id="held")["status"] == "queued", "the reaper has queued it again")
        await ui.until(lambda: "without a heartbeat for" not in ui.text(), "the finding is gone")
        client.set("go", 1)
        stock.start(name="next")
        await ui.until(lambda: stock.do("job", id="held")["status"] == "finished", "a stock worker has run it again")
        await ui.until_shown("finished 1")
    assert stock.runs() == {"held": ["killed", "next"]}


@run_on_event_loop
async def test_each_verb_has_its_key_and_a_stock_worker_runs_what_they_left(
    stock: Stock, client: Redis, url: str
) -> None:
    for id in ("killed", "deleted", "stays"):
        stock.do("enqueue", queue="default", func="shop.add", args=[1, 2], id=id)
    for id in ("sooner", "promoted"):
        stock.do("enqueue", queue="default", func="shop.add", args=[3, 4], id=id, in_s=3600)
    client.zadd("rq:scheduled:default", {"sooner": int(client.zscore("rq:scheduled:default", "promoted")) - 60})
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "rq")
        await ui.press("enter", "4")
        await ui.until_shown("queued 3")
        await ui.press("K", "y")
        await ui.until(lambda: stock.do("job", id="killed")["status"] == "canceled", "K kills")
        await ui.until_shown("queued 2")
        await ui.press("j", "D")
        await ui.until_shown("Delete deleted")
        await ui.press("y")
        await ui.until(lambda: stock.do("job", id="deleted") is None, "D deletes")
        await ui.press("1")
        await ui.until_shown("scheduled 2", "sooner")
        await ui.press("j", "R")
        await ui.until(lambda: stock.do("job", id="promoted")["status"] == "queued", "R promotes")
        await ui.until_shown("scheduled 1")
        await ui.press("k", "T")
        await ui.until_shown("due from now")
        await ui.press('"5m', "enter")
        await ui.until(lambda: 200 < stock.do("due", queue="default")["sooner"] < 301, "T says when")
        await ui.press("P")
        await ui.until_shown("no worker takes a job of any queue")
        await ui.press("y")
        await ui.until(lambda: stock.do("suspended"), "P pauses")
        await ui.until_shown("P resume")
        await ui.press("P", "y")
        await ui.until(lambda: not stock.do("suspended"), "P resumes")
        await ui.press("N")
        await ui.until_shown("Enqueue a job in default", "module.function")
        await ui.press("end", "ctrl+u", '"{"func": "shop.add", "args": [20, 22]}', "tab", '"new', "enter")
        await ui.until(lambda: stock.do("job", id="new"), "N enqueues")
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=0") == {"sooner": "moved"}
    stock.start(options=("--with-scheduler",))
    for id in ("stays", "promoted", "new", "sooner"):
        stock.until(id, "finished")
    assert stock.do("job", id="new")["value"] == 42
    assert {id: len(runs) for id, runs in stock.runs().items()} == dict.fromkeys(
        ("stays", "promoted", "new", "sooner"), 1
    )
