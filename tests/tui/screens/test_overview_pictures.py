"""The overview and the view of the loops as plain text, from seeded data with a clock that stands still.

After a wanted change: RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/screens/test_overview_pictures.py, and look at what
differs.
"""

from __future__ import annotations

import asyncio

import pytest
from pictures import NARROW, WIDE, sizes_as_kept, stopped
from redis import Redis

from screenshots.seeded import Seed

__all__ = ["stopped"]  # the clock of these tests as well

SCREENS = {
    "overview-grouped": ("quotation_mark", "s", "g", "j", "enter"),
    "overview-frozen": ("p",),
    "overview-filtered": ("slash", "u", "s", "enter"),
    "loops-next": ("t",),
}
SIZES = (WIDE, NARROW)


@pytest.fixture
def planted(client: Redis, url: str) -> str:
    """Queues in two groups and one that stands alone, with leases that run and jobs that are due later."""
    for name, number in (("mail:eu", 12), ("mail:us", 900), ("mail:apac", 3), ("img/thumb", 50), ("img/full", 6)):
        queue = Seed(client, name)
        queue.put(number, 50_000, 1_000)
        queue.beat(f"{name}-1", f"{name}-2")
        queue.take(3, 3_000, f"{name}-1")
        queue.put(2, 9_000, 1_000, delay_ms=60_000)
    Seed(client, "reports").put(4, 400_000, 40_000)
    return url


@pytest.mark.parametrize("name", SCREENS)
def test_it_looks_as_it_did(planted: str, name: str) -> None:
    asyncio.run(sizes_as_kept(planted, name, SIZES, SCREENS[name]))


def test_another_system_looks_as_it_did(client: Redis, url: str) -> None:
    of_two = ("asynq:queues", "asynq:{default}:pending", "asynq:{default}:t:1", "bq:mail:id", "bq:mail:jobs")
    client.mset(dict.fromkeys(of_two, "x"))
    asyncio.run(sizes_as_kept(url, "overview-unspoken", SIZES, ()))
