"""The search view: how it is opened, what it shows, and how it leads to the jobs."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import run_on_event_loop, screen

from rqtui.client import Queue


@pytest.fixture
def shops(client: Redis) -> None:
    with Queue("mail", client) as mail, Queue("shop", client) as shop:
        mail.put({"customer": {"id": 4711}, "n": 1}, id="first")
        mail.put({"customer": {"id": 5}}, id="other")
        mail.put({"customer": {"id": 4711}}, id="later", delay=3600)
        shop.put({"customer": {"id": 304711}}, id="elsewhere")


@pytest.mark.usefixtures("shops")
@run_on_event_loop
async def test_a_filter_of_the_overview_that_matches_no_queue_searches_the_jobs_of_all(url: str) -> None:
    async with screen(url, size=(80, 24)) as ui:
        await ui.press("slash", '".customer.id:4711', "enter")
        await ui.until_shown("2 matching jobs in 1 queue", "scheduled", "ready")
        await ui.until_shown("first", "later" if "▌ mail                       sch" in ui.text() else "first")
        assert "shop" not in ui.text() and "all queues" not in ui.text().splitlines()[-1]
        await ui.press("G", "enter")
        await ui.until_shown("match", "/.customer.id")
        await ui.press("escape", "escape")
        await ui.until_shown("2 matching jobs in 1 queue")
        await ui.press("escape")
        await ui.until_shown("mail", "shop", "s sort: worst first")


@pytest.mark.usefixtures("shops")
@run_on_event_loop
async def test_the_palette_offers_the_search_and_the_view_searches_again(url: str) -> None:
    async with screen(url, size=(160, 45)) as ui:
        await ui.press("colon", '"304711')
        await ui.until_shown("search 304711")
        await ui.press("enter")
        await ui.until_shown("1 matching job in 1 queue", "elsewhere")
        await ui.press("slash", '"nothing', "enter")
        await ui.until_shown("no job that was read matches")
        await ui.press("slash", '"/[', "enter")
        await ui.until_shown("cannot be read")
