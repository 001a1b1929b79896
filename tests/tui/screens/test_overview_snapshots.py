"""Compare the overview and the view of the loops with text snapshots, with seeded data and a stopped clock.

After a wanted change: RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/tui/screens/test_overview_snapshots.py, and look at
what differs.
"""

from __future__ import annotations

import asyncio

import pytest
from redis import Redis
from slow_cases import mark_slow_cases
from text_snapshots import NARROW, WIDE, check_snapshot_sizes, stopped_clock

from screenshots.seeded import Seed

__all__ = ["stopped_clock"]  # the clock of these tests as well

SCREENS = {
    "overview-grouped": ("quotation_mark", "s", "g", "j", "enter"),
    "overview-frozen": ("p",),
    "overview-filtered": ("slash", "u", "s", "enter"),
    "loops-next": ("t",),
}
SIZES = (WIDE, NARROW)


@pytest.fixture
def planted_url(client: Redis, url: str) -> str:
    """Plant queues in two groups and one alone, with running leases and jobs that are due later; return the URL."""
    for name, number in (("mail:eu", 12), ("mail:us", 900), ("mail:apac", 3), ("img/thumb", 50), ("img/full", 6)):
        queue = Seed(client, name)
        queue.put(number, 50_000, 1_000)
        queue.beat(f"{name}-1", f"{name}-2")
        queue.take(3, 3_000, f"{name}-1")
        queue.put(2, 9_000, 1_000, delay_ms=60_000)
    Seed(client, "reports").put(4, 400_000, 40_000)
    return url


@pytest.mark.parametrize("name", mark_slow_cases(SCREENS, ("overview-grouped", "overview-filtered", "loops-next")))
def test_it_matches_its_snapshot(planted_url: str, name: str) -> None:
    asyncio.run(check_snapshot_sizes(planted_url, name, SIZES, SCREENS[name]))


def test_another_system_matches_its_snapshot(client: Redis, url: str) -> None:
    of_two = ("asynq:queues", "asynq:{default}:pending", "asynq:{default}:t:1", "bq:mail:id", "bq:mail:jobs")
    client.mset(dict.fromkeys(of_two, "x"))
    asyncio.run(check_snapshot_sizes(url, "overview-unspoken", SIZES, ()))
