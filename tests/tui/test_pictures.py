"""The main screens as plain text, from seeded data with a clock that stands still: `tests/snapshots/*.txt`.

After a wanted change: RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui/test_pictures.py, and look at the difference.
"""

from __future__ import annotations

import asyncio
import re
import socket

import pytest
from pictures import MIDDLE, NARROW, SMALL, WIDE, planted, same_as_kept, sizes_as_kept, stopped
from redis import Redis
from screens import text_of

from rqtui.engine.engine import Engine
from rqtui.model import Focus, Ref
from screenshots import systems
from screenshots.seeded import still

__all__ = ["planted", "stopped"]  # fixtures

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


@pytest.mark.parametrize("name", SIZES)
def test_in_each_size_it_looks_as_it_did(planted: str, name: str) -> None:
    sizes, keys = SIZES[name]
    asyncio.run(sizes_as_kept(planted, name, sizes, keys))


@pytest.mark.parametrize("name", SCREENS)
def test_it_looks_as_it_did(planted: str, name: str) -> None:
    size, keys = SCREENS[name]

    async def look() -> str:
        async with still(planted, size, keys) as app:
            return text_of(app)

    text = asyncio.run(look())
    assert text.count("\n") + 1 == size[1]
    same_as_kept(name, text)


def test_read_only_looks_as_it_did(planted: str) -> None:
    async def look() -> str:
        async with still(planted, NARROW, ("mail",), read_only=True) as app:
            return text_of(app)

    same_as_kept("read-only-80x24", asyncio.run(look()))


def test_the_diagnosis_looks_as_it_did() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]

    async def look() -> str:
        async with still(f"redis://127.0.0.1:{port}", NARROW, ()) as app:
            return text_of(app)

    text = re.sub(r"(next try \S+ \S*) ?\d+ s", r"\1 N s", asyncio.run(look()).replace(f":{port}", ":PORT"))
    same_as_kept("diagnosis-80x24", re.sub(r"lost \d+s ago", "lost Ns ago", text))


def test_the_pictures_of_other_systems_have_jobs_in_every_queue(client: Redis) -> None:
    systems.plant(client)
    refs = [Ref(*name.split(":")) for name in systems.PLANTS]
    told = Engine(client, systems.stopped()).snapshot(Focus(queues=refs)).queues
    assert not [queue.error for queue in told if queue.error]
    assert all(sum(count.count for count in queue.counts) > 5 for queue in told)
