"""A place that all queues share, on the screen: `~` where one looked at a part, filters and verbs that reach all."""

from __future__ import annotations

import json

import pytest
from mill_system import Mill, add_mill_jobs, add_mill_worker, mill
from redis import Redis
from screens import NARROW, run_on_event_loop, screen

__all__ = ["mill"]  # a fixture
OTHERS = [b"b%d" % number for number in range(120)]


def plant(client: Redis) -> None:
    """60 jobs of flour among 180: every third one; the counts look at 100."""
    for number, other in enumerate(OTHERS):
        if number % 2 == 0:
            add_mill_jobs(client, "flour", "deferred", f"f{number // 2}", call=f"mill.sift({number % 4})")
        add_mill_jobs(client, "bran", "deferred", other.decode())


@pytest.mark.slow
@run_on_event_loop
async def test_a_filter_and_a_verb_go_through_the_whole_place_and_leave_other_queues_alone(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    plant(client)
    async with screen(url, NARROW, systems=("mill",)) as ui:
        await ui.until_shown("~61", "~118", "~ sampled")  # of flour, of bran
        await ui.press("j", "enter", "2")
        await ui.until_shown("2 deferred ~61", "1-18 of 34", "~61 in all: / finds the others")
        await ui.press("slash", *"call:sift(2", "enter")
        await ui.until_shown("30 match", "among 180 of all queues")
        await ui.press("asterisk", "D")
        await ui.until_shown("30 jobs?")
        await ui.press("y")
        await ui.until_toast("30 deleted")
    async with screen(url, NARROW, systems=("mill",)) as ui:  # without the filter
        await ui.until_shown("flour", "bran", "~30")
        await ui.press("j", "enter", "2")
        await ui.until_shown("flour  mill", "2 deferred ~30")
        await ui.press("asterisk", "D")
        await ui.until_shown("all of about", "jobs in deferred", "30 jobs")
        await ui.press("y")
        await ui.until(lambda: client.lrange("mill:deferred", 0, -1) == OTHERS, "the others are left, and nobody else")


@pytest.mark.slow
@run_on_event_loop
async def test_the_remaining_time_counts_down_without_another_poll(client: Redis, url: str, mill: type[Mill]) -> None:
    add_mill_jobs(client, "flour", "queued", "q1")
    client.rpush("mill:deferred", "nobody's")
    s, _us = client.time()
    client.hset("mill:mice", "flour", (s + 3_599) * 1000)
    async with screen(url, systems=("mill",)) as ui:
        await ui.until_shown("59m", "left  3 jobs stand before a mouse")
        await ui.until_shown("1 job of mill in deferred: of no queue that is known here.")
        ui.app.session.change_refresh_interval(60)
        await ui.until(lambda: ui.app.session.ticker.wait_s > 50, "no picture comes for a minute")
        left = ui.app.session.snapshot.queues[0].verdict.until_ms - ui.app.session.now_ms
        later = f"{left // 60_000}m{left // 1000 % 60 - 2:02} left" if left // 1000 % 60 > 2 else "58m59 left"
        await ui.until_shown(later)
        await ui.press("enter")
        await ui.until_shown("left  3 jobs stand before a mouse")


@run_on_event_loop
async def test_statistics_of_kinds_and_facts_of_workers_have_columns(client: Redis, url: str, mill: type[Mill]) -> None:
    add_mill_jobs(client, "flour", "queued", "q1", call="mill.sift()")
    statistics = {"kind": "mill.sift", "processed": 12_400, "failed": 124, "mean_ms": 1_400, "window_ms": 3_600_000}
    client.rpush("mill:kinds", json.dumps(statistics))
    facts = [["busy", "3 of 10"], ["rss", "214 MB"], ["tag", "web"]]
    add_mill_worker(client, "host:26140:a1b2c3", ["flour", "bran"], facts=facts)
    async with screen(url, NARROW, systems=("mill",)) as ui:
        await ui.press("b")
        await ui.until_shown("ran, failing, mean over 1h00", "12 400      1 %")
        await ui.press("w")
        await ui.until_shown("busy", "rss", "3 of 10", "214 MB")
        row = next(line for line in ui.text().splitlines() if "host:" in line)
        assert "3 of 10" in row and "214 MB" in row and "web" not in row
