"""The person on call, before a Redis where the stock application runs: the screen, no option, keys."""

from __future__ import annotations

import pytest
from beside.bullmq.stock import P, Stock
from beside.stock import FIXED
from redis import Redis
from screens import WIDE, run_on_event_loop, screen

pytestmark = pytest.mark.beside
HOUR_MS = 3_600_000


@run_on_event_loop
async def test_r_requeues_a_failed_job_and_a_killed_worker_is_followed_to_the_repaired_state(
    stock: Stock, client: Redis, url: str
) -> None:
    stock.add("bad", name="confirm", data={"order": 4711})
    first = stock.start(name="w1")
    stock.until("bad", "failed")
    client.set(FIXED, 1)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("mail", "bullmq")
        await ui.press("enter", "8")
        await ui.until_shown("failed 1", "confirm({order: 4711})", "no such order: 4711")
        await ui.press("R")
        await ui.until(lambda: stock.state("bad") == "completed", "the stock worker has finished it")
        assert stock.runs() == {"bad": ["w1", "w1"]}
        first.kill()
        killed = stock.run_holding("held", "killed")
        await ui.press("6")
        await ui.until_shown("active 1", "held", "killed")
        killed.kill()
        stock.expire_lock("held")
        await ui.until_shown("without a lock", ". reaper")
        await ui.press("full_stop")
        await ui.until(lambda: stock.state("held") == "waiting", "the reaper has put it back")
        await ui.until(lambda: "without a lock" not in ui.text(), "the finding is gone")
        client.set("go", 1)
        stock.start(name="next")
        await ui.until(lambda: stock.state("held") == "completed", "a stock worker has run it again")
        await ui.until_shown("completed 2")
    assert stock.runs()["held"] == ["killed", "next"]


@run_on_event_loop
async def test_each_verb_has_its_key_and_a_stock_worker_runs_what_they_left(
    stock: Stock, client: Redis, url: str
) -> None:
    stock.add("killed", "deleted", "stays")
    stock.add("sooner", delay=HOUR_MS - 60_000)
    stock.add("promoted", delay=HOUR_MS)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("mail", "bullmq")
        await ui.press("enter", "4")
        await ui.until_shown("wait 3")
        await ui.press("K", "y")
        await ui.until(lambda: stock.state("killed") == "failed", "K kills")
        await ui.until_shown("wait 2")
        await ui.press("j", "D")
        await ui.until_shown("Remove deleted")
        await ui.press("y")
        await ui.until(lambda: stock.state("deleted") == "unknown", "D deletes")
        await ui.press("1")
        await ui.until_shown("delayed 2", "sooner")
        await ui.press("j", "R")
        await ui.until(lambda: stock.state("promoted") == "waiting", "R promotes")
        await ui.until_shown("delayed 1")
        await ui.press("k", "T")
        await ui.until_shown("due from now")
        await ui.press('"5m', "enter")
        await ui.until(
            lambda: 200 < client.zscore(f"{P}delayed", "sooner") / 4_096_000 - client.time()[0] < 301, "T says when"
        )
        await ui.press("P", "y")
        await ui.until(lambda: stock.do("whole", queue="mail", verb="isPaused"), "P pauses")
        await ui.until_shown("P resume")
        await ui.press("P", "y")
        await ui.until(lambda: not stock.do("whole", queue="mail", verb="isPaused"), "P resumes")
        await ui.press("N")
        await ui.until_shown("Enqueue a job in mail")
        await ui.press("end", "ctrl+u", '"{"n": 42}', "tab", '"new', "enter")
        await ui.until(lambda: stock.state("new") == "waiting", "N enqueues")
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=0") == {"sooner": "moved"}
    stock.start()
    ran = ("stays", "promoted", "new", "sooner")
    for id in ran:
        stock.until(id, "completed")
    assert {id: len(runs) for id, runs in stock.runs().items()} == dict.fromkeys(ran, 1)
