"""The overview and the view of the loops as plain text, from seeded data with a clock that stands still.

After a wanted change: RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/screens/test_overview_pictures.py, and look at what
differs.
"""

from __future__ import annotations

import asyncio

import pytest
from pictures import same_as_kept, stopped
from redis import Redis
from screens import NARROW, WIDE, text_of

from screenshots.seeded import Seed, still

__all__ = ["stopped"]  # the clock of these tests as well

SCREENS = {
    "overview-grouped": ("quotation_mark", "s", "g", "j", "enter"),
    "overview-frozen": ("p",),
    "overview-filtered": ("slash", "u", "s", "enter"),
    "loops-next": ("t",),
}
SIZES = {"80x24": NARROW, "160x45": WIDE}


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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCREENS)
def test_it_looks_as_it_did(planted: str, name: str, size: str) -> None:
    async def look() -> str:
        async with still(planted, SIZES[size], SCREENS[name]) as app:
            return text_of(app)

    same_as_kept(f"{name}-{size}", asyncio.run(look()))


@pytest.mark.parametrize("size", SIZES)
def test_another_system_looks_as_it_did(client: Redis, url: str, size: str) -> None:
    of_two = ("asynq:queues", "asynq:{default}:pending", "asynq:{default}:t:1", "bull:mail:meta", "bull:mail:wait")
    client.mset(dict.fromkeys(of_two, "x"))

    async def look() -> str:
        async with still(url, SIZES[size], ()) as app:
            return text_of(app)

    same_as_kept(f"overview-unspoken-{size}", asyncio.run(look()))
