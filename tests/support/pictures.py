"""Pictures of screens as plain text: seeded data, a clock that stands still, and the kept files in `tests/snapshots`.

After a wanted change: RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui, and look at the difference.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from families import case
from redis import Redis
from screens import text_of
from textual.pilot import Pilot

from rqtui.connection import connect
from rqtui.connection.embedded import EmbeddedServer
from screenshots.seeded import NOW, Seed, seed, settle, still

FOLDER = Path(__file__).parents[1] / "snapshots"


WIDE, MIDDLE, NARROW, SMALL = (160, 45), (120, 35), (80, 24), (60, 16)


_held: dict[
    str, tuple[str, int]
] = {}  # by server: the file whose tests were the last to plant, and FLUSHALLs until then


@pytest.fixture
def planted(real_server: EmbeddedServer, request: pytest.FixtureRequest) -> str:
    """The URL of a server with the data of the pictures, and one hostile job; once for a file, in whatever order."""
    with connect.connect(real_server.url) as client:

        def holds() -> tuple[str, int]:
            return request.module.__name__, client.info("commandstats").get("cmdstat_flushall", {"calls": 0})["calls"]

        if _held.get(real_server.url) != holds():
            client.flushall()
            _plant(client)
            _held[real_server.url] = holds()
    return real_server.url


def _plant(client: Redis) -> None:
    seed(client)
    reports = Seed(client, "reports")
    row = {
        "id": b"\x1b[31mid\x07",
        "name": "[bold]n[/bold]",
        "body": b'{"a": "\x1b]0;owned\x07", "b": "\xe2\x80\xae\xe8\x8a\xb1"}',
    }
    reports.do("enqueue", 50_000, {}, [{**row, "priority": -1}])


def _stand_still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setattr(time, "time", lambda: NOW / 1000)
        yield
    time.tzset()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock stands at NOW, in UTC."""
    yield from _stand_still(monkeypatch)


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same, for every test of a file that imports it."""
    yield from _stand_still(monkeypatch)


def same_as_kept(name: str, text: str) -> None:
    """Compares with the kept file, or writes it when asked to."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.write_text(text + "\n", "utf-8")
    assert text + "\n" == file.read_text("utf-8")


async def sizes_as_kept(url: str, name: str, sizes: Iterable[tuple[int, int]], keys: Sequence[str]) -> None:
    """One app after these keys, whose terminal takes each size in turn, looks in each as kept under `name`-WxH."""
    first, *others = sizes
    async with still(url, first, keys) as app:
        for size in (first, *others):
            with case(f"{name}-{size[0]}x{size[1]}") as title:
                if size != first:
                    pilot: Pilot[Any] = Pilot(app)
                    await pilot.resize_terminal(*size)
                    await settle(app, pilot)
                text = text_of(app)
                assert text.count("\n") + 1 == size[1]
                same_as_kept(title, text)
