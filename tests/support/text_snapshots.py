"""Compare screens as plain text with the files in `tests/snapshots`, with seeded data and a stopped clock.

To rewrite them after a wanted change: RQTUI_WRITE_SNAPSHOTS=1 pytest tests/tui. Read the diff before you commit it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from families import name_case
from kept_text import utc_time_zone
from redis import Redis
from screens import Screen, read_text
from textual.pilot import Pilot

from rqtui.connection import connect
from rqtui.connection.embedded import EmbeddedServer
from screenshots.seeded import NOW, Seed, open_still_app, seed_queues, wait_until_still

FOLDER = Path(__file__).parents[1] / "snapshots"


WIDE, MIDDLE, NARROW, SMALL = (160, 45), (120, 35), (80, 24), (60, 16)


_planted_by: dict[
    str, tuple[str, int]
] = {}  # by server URL: the last module that planted data, and the number of FLUSHALLs until then


@pytest.fixture
def planted_url(real_server: EmbeddedServer, request: pytest.FixtureRequest) -> str:
    """Plant the data of the snapshots and a hostile job once per module, in any order, and return the server's URL."""
    with connect.connect(real_server.url) as client:

        def read_database_state() -> tuple[str, int]:
            return request.module.__name__, client.info("commandstats").get("cmdstat_flushall", {"calls": 0})["calls"]

        if _planted_by.get(real_server.url) != read_database_state():
            client.flushall()
            _plant_data(client)
            _planted_by[real_server.url] = read_database_state()
    return real_server.url


def _plant_data(client: Redis) -> None:
    seed_queues(client)
    reports = Seed(client, "reports")
    row = {
        "id": b"\x1b[31mid\x07",
        "name": "[bold]n[/bold]",
        "body": b'{"a": "\x1b]0;owned\x07", "b": "\xe2\x80\xae\xe8\x8a\xb1"}',
    }
    reports.do("enqueue", 50_000, {}, [{**row, "priority": -1}])


def _stop_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with utc_time_zone(), monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: NOW / 1000)
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the clock at NOW, in UTC."""
    yield from _stop_clock(monkeypatch)


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the clock at NOW, in UTC, for every test of a module that imports this fixture."""
    yield from _stop_clock(monkeypatch)


def check_snapshot(name: str, text: str) -> None:
    """Compare a screen's text with its snapshot file. With RQTUI_WRITE_SNAPSHOTS the file is written first."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.write_text(text + "\n", "utf-8")
    assert text + "\n" == file.read_text("utf-8")


async def until_snapshot(ui: Screen, name: str) -> None:
    """Wait until a screen matches its snapshot file. With RQTUI_WRITE_SNAPSHOTS the file is written instead."""
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        check_snapshot(name, ui.text())
    kept = (FOLDER / f"{name}.txt").read_text("utf-8")
    await ui.until(lambda: ui.text() + "\n" == kept, name)


async def check_snapshot_sizes(url: str, name: str, sizes: Iterable[tuple[int, int]], keys: Sequence[str]) -> None:
    """Press keys in one app, resize the terminal to each size, and compare the screens with their snapshots.

    The snapshot files are named `name`-WxH.
    """
    first, *others = sizes
    async with open_still_app(url, first, keys) as app:
        for size in (first, *others):
            with name_case(f"{name}-{size[0]}x{size[1]}") as title:
                if size != first:
                    pilot: Pilot[Any] = Pilot(app)
                    await pilot.resize_terminal(*size)
                    await wait_until_still(app, pilot)
                text = read_text(app)
                assert text.count("\n") + 1 == size[1]
                check_snapshot(title, text)
