"""A place that all queues share, on the screen: `~` where one looked at a part, filters and verbs that reach all."""

from __future__ import annotations

import json

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


@run_on_event_loop
async def test_a_filter_and_a_verb_go_through_the_whole_place_and_leave_other_queues_alone(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    plant(client)
    async with screen(url, NARROW, systems=("mill",)) as it:
        await it.until_shown("~61", "~118", "~ sampled")  # of flour, of bran
        await it.press("j", "enter", "2")
        await it.until_shown("2 deferred ~61", "1-18 of 34", "~61 in all: / finds the others")
        await it.press("slash", *"call:sift(2", "enter")
        await it.until_shown("30 match", "among 180 of all queues")
        await it.press("asterisk", "D")
        await it.until_shown("30 jobs?")
        await it.press("y")
        await it.until_toast("30 deleted")
    async with screen(url, NARROW, systems=("mill",)) as it:  # without the filter
        await it.until_shown("flour", "bran", "~30")
        await it.press("j", "enter", "2")
        await it.until_shown("flour  mill", "2 deferred ~30")
        await it.press("asterisk", "D")
        await it.until_shown("all of about", "jobs in deferred", "30 jobs")
        await it.press("y")
        await it.until(lambda: client.lrange("mill:deferred", 0, -1) == OTHERS, "the others are left, and nobody else")


@run_on_event_loop
async def test_what_is_left_counts_down_without_another_look(client: Redis, url: str, mill: type[Mill]) -> None:
    add_mill_jobs(client, "flour", "queued", "q1")
    client.rpush("mill:deferred", "nobody's")
    s, _us = client.time()
    client.hset("mill:mice", "flour", (s + 3_599) * 1000)
    async with screen(url, systems=("mill",)) as it:
        await it.until_shown("59m", "left  3 jobs stand before a mouse")
        await it.until_shown("1 job of mill in deferred: of no queue that is known here.")
        it.app.session.change_refresh_interval(60)
        await it.until(lambda: it.app.session.ticker.wait_s > 50, "no picture comes for a minute")
        left = it.app.session.snapshot.queues[0].verdict.until_ms - it.app.session.now_ms
        later = f"{left // 60_000}m{left // 1000 % 60 - 2:02} left" if left // 1000 % 60 > 2 else "58m59 left"
        await it.until_shown(later)
        await it.press("enter")
        await it.until_shown("left  3 jobs stand before a mouse")


@run_on_event_loop
async def test_what_a_system_keeps_of_kinds_and_tells_of_workers_has_columns(
    client: Redis, url: str, mill: type[Mill]
) -> None:
    add_mill_jobs(client, "flour", "queued", "q1", call="mill.sift()")
    kept = {"kind": "mill.sift", "processed": 12_400, "failed": 124, "mean_ms": 1_400, "window_ms": 3_600_000}
    client.rpush("mill:kinds", json.dumps(kept))
    facts = [["busy", "3 of 10"], ["rss", "214 MB"], ["tag", "web"]]
    add_mill_worker(client, "host:26140:a1b2c3", ["flour", "bran"], facts=facts)
    async with screen(url, NARROW, systems=("mill",)) as it:
        await it.press("b")
        await it.until_shown("ran, failing, mean over 1h00", "12 400      1 %")
        await it.press("w")
        await it.until_shown("busy", "rss", "3 of 10", "214 MB")
        row = next(line for line in it.text().splitlines() if "host:" in line)
        assert "3 of 10" in row and "214 MB" in row and "web" not in row
