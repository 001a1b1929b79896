"""The search view: how it is opened, what it shows, and how it leads to the jobs."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import run_on_event_loop, screen

from rqtui.client import Queue
from rqtui.model import Job, Ref, State
from rqtui.reports.search import PlaceMatches
from rqtui.tui.screens.search import _format_matches


@pytest.fixture
def shops(client: Redis) -> None:
    with Queue("mail", client) as mail, Queue("shop", client) as shop:
        mail.put({"customer": {"id": 4711}, "n": 1}, id="first")
        mail.put({"customer": {"id": 5}}, id="other")
        mail.put({"customer": {"id": 4711}}, id="later", delay=3600)
        shop.put({"customer": {"id": 304711}}, id="elsewhere")


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_the_second_line_of_a_matching_job_is_indented() -> None:
    job = Job(b"first", "mail", "native", "dead", State.DEAD, b"", name="send", error="E: " + "word " * 12, body=b"{}")
    place = PlaceMatches(Ref("native", "mail"), "dead", State.DEAD, 3, 3, 2, (job,))
    lines = _format_matches(place, 40).plain.splitlines()
    assert lines[0].startswith("first  send  E: word") and lines[-1].startswith("… and 1 more")
    assert len(lines) > 3 and all(line.startswith("    ") and len(line) <= 40 for line in lines[1:-1])
