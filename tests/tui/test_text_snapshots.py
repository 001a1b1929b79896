"""Compare the main screens with text snapshots, with seeded data and a stopped clock: `tests/snapshots/*.txt`.

After a wanted change: RQTUI_WRITE_SNAPSHOTS=1 pytest -m "" tests/tui/test_text_snapshots.py, and look at what
differs.
"""

from __future__ import annotations

import asyncio
import re
import socket

import pytest
from redis import Redis
from screens import read_text
from slow_cases import mark_slow_cases
from text_snapshots import MIDDLE, NARROW, SMALL, WIDE, check_snapshot, check_snapshot_sizes, planted_url, stopped_clock

from rqtui.engine.engine import Engine
from rqtui.model import Focus, Ref
from screenshots import systems
from screenshots.seeded import open_still_app

__all__ = ["planted_url", "stopped_clock"]  # fixtures

SCREENS: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "board-160x45": (WIDE, ("mail", "j", "j")),
    "board-120x35": (MIDDLE, ("mail", "4")),
    "board-80x24": (NARROW, ("mail", "space", "j", "space")),
    "board-60x16": (SMALL, ("mail", "1")),
    "board-250x70": ((250, 70), ("mail", "5")),
    "reserved-80x24": (NARROW, ("mail", "3")),
    "chosen-80x24": (NARROW, ("mail", "5", "asterisk")),
    "hostile-80x24": (NARROW, ("reports", "enter")),
    "delete-80x24": (NARROW, ("mail", "5", "space", "space", "D")),
    "reject-80x24": (NARROW, ("mail", "3", "K")),
    "new-80x24": (NARROW, ("mail", "N")),
    "new-60x16": (SMALL, ("N",)),
    "help-80x24": (NARROW, ("question_mark",)),
    "loops-80x24": (NARROW, ("t",)),
    "too-small-40x10": ((40, 10), ()),
}

SIZES: dict[str, tuple[tuple[tuple[int, int], ...], tuple[str, ...]]] = {
    "overview": ((WIDE, NARROW, SMALL), ()),
    "job": ((WIDE, NARROW), ("mail", "5", "enter")),
}


@pytest.mark.parametrize("name", mark_slow_cases(SIZES, ("job",)))
def test_in_each_size_it_matches_its_snapshot(planted_url: str, name: str) -> None:
    sizes, keys = SIZES[name]
    asyncio.run(check_snapshot_sizes(planted_url, name, sizes, keys))


@pytest.mark.parametrize(
    "name", mark_slow_cases(SCREENS, ["delete-80x24", *(name for name in SCREENS if not name.endswith("80x24"))])
)
def test_it_matches_its_snapshot(planted_url: str, name: str) -> None:
    size, keys = SCREENS[name]

    async def read_screen() -> str:
        async with open_still_app(planted_url, size, keys) as app:
            return read_text(app)

    text = asyncio.run(read_screen())
    assert text.count("\n") + 1 == size[1]
    check_snapshot(name, text)


def test_read_only_matches_its_snapshot(planted_url: str) -> None:
    async def read_screen() -> str:
        async with open_still_app(planted_url, NARROW, ("mail",), read_only=True) as app:
            return read_text(app)

    check_snapshot("read-only-80x24", asyncio.run(read_screen()))


def test_the_diagnosis_matches_its_snapshot() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

    async def read_screen() -> str:
        async with open_still_app(f"redis://127.0.0.1:{port}", NARROW, ()) as app:
            return read_text(app)

    text = re.sub(r"(next try \S+ \S*) ?\d+ s", r"\1 N s", asyncio.run(read_screen()).replace(f":{port}", ":PORT"))
    check_snapshot("diagnosis-80x24", re.sub(r"not connected for \d+s", "not connected for Ns", text))


def test_the_pictures_of_other_systems_have_jobs_in_every_queue(client: Redis) -> None:
    systems.plant(client)
    refs = [Ref(*name.split(":")) for name in systems.PLANTS]
    queues = Engine(client, systems.build_stopped_systems()).take_snapshot(Focus(queues=refs)).queues
    assert not [queue.error for queue in queues if queue.error]
    assert all(sum(count.count for count in queue.counts) > 5 for queue in queues)
