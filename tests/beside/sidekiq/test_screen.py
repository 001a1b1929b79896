"""The person on call, before a Redis where the stock application runs: the screen, no option, keys."""

from __future__ import annotations

import pytest
from beside.sidekiq.stock import Stock
from beside.stock import FIXED
from redis import Redis
from screens import WIDE, run_on_event_loop, screen

pytestmark = pytest.mark.beside
HOUR_S = 3600


@run_on_event_loop
async def test_r_requeues_a_failed_job_and_a_killed_worker_is_followed_to_the_repaired_state(
    stock: Stock, client: Redis, url: str
) -> None:
    stock.push("dead", job="FatalJob", args=(4711,))
    stock.push("retried", job="FailJob", args=(4712,))
    first = stock.start(name="w1")
    stock.until("dead", "dead")
    stock.until("retried", "retry")
    client.set(FIXED, 1)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "sidekiq")
        await ui.press("enter", "6")
        await ui.until_shown("FatalJob", "no such order: 4711")
        await ui.press("R")
        await ui.until(lambda: len(stock.runs()["dead"]) == 2, "the stock process has run the dead one")
        await ui.press("2")
        await ui.until_shown("FailJob", "no such order: 4712")
        await ui.press("R")
        await ui.until(lambda: len(stock.runs()["retried"]) == 2, "and the one that waited for a retry")
        assert stock.runs() == {jid: ["w1", "w1"] for jid in ("dead", "retried")}
        first.kill()
        killed = stock.run_holding("held", worker="killed")
        await ui.press("4")
        await ui.until_shown("SlowJob", "held")
        killed.kill()
        stock.age(killed, 22)
        await ui.until_shown("s left", "sends no heartbeats", ". reaper")
        stock.age(killed, 10)
        await ui.press("full_stop")
        await ui.until(lambda: stock.where("held") == "default", "the reaper has put it back")
        await ui.until(lambda: "sends no heartbeats" not in ui.text(), "the finding is gone")
        client.set("go", 1)
        stock.start(name="next")
        await ui.until(lambda: len(stock.runs()["held"]) == 2, "a stock process runs it again")
    assert stock.runs()["held"] == ["killed", "next"]


@run_on_event_loop
async def test_each_verb_has_its_key_and_a_stock_process_runs_what_they_left(
    stock: Stock, client: Redis, url: str
) -> None:
    stock.push("killed", "deleted", "stays")
    stock.push("sooner", in_s=HOUR_S - 60)
    stock.push("promoted", in_s=HOUR_S)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("default", "sidekiq")
        await ui.press("enter", "3")
        await ui.until_shown("queue 3")
        await ui.press("K", "y")
        await ui.until(lambda: stock.where("killed") == "dead", "K kills")
        await ui.until_shown("queue 2")
        await ui.press("j", "D")
        await ui.until_shown("Delete deleted")
        await ui.press("y")
        await ui.until(lambda: stock.where("deleted") == "", "D deletes")
        await ui.press("1")
        await ui.until_shown("schedule 2", "sooner")
        await ui.press("j", "R")
        await ui.until(lambda: stock.where("promoted") == "default", "R promotes")
        await ui.until_shown("schedule 1")
        await ui.press("k", "T")
        await ui.until_shown("due from now")
        await ui.press('"5m', "enter")
        await ui.until(lambda: 200 < stock.do("jobs", place="schedule")[0]["score"] - client.time()[0] < 301, "T moves")
        await ui.press("N")
        await ui.until_shown("Enqueue a job in default", "HardJob")
        await ui.press("end", "ctrl+u", '"{"class": "HardJob", "args": [20, 22]}', "tab", '"new', "enter")
        await ui.until(lambda: stock.where("new") == "default", "N enqueues")
    assert stock.act("reschedule", "sooner", "--set", "delay_ms=0") == {"sooner": "moved"}
    stock.start()
    ran = ("stays", "promoted", "new", "sooner")
    for jid in ran:
        stock.until_ran(jid)
    assert {jid: len(runs) for jid, runs in stock.runs().items()} == dict.fromkeys(ran, 1)
