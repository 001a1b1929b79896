"""The main screens as plain text, from seeded data with a clock that stands still: `tests/snapshots/*.txt`.

After a wanted change: RQTUI_WRITE_SNAPSHOTS=1 pytest tests/test_snapshots.py, and look at the difference.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from screens import text_of

from rqtui import server
from rqtui.embedded import EmbeddedServer
from screenshots.seeded import NOW, Seed, seed, still

FOLDER = Path(__file__).with_name("snapshots")
WIDE, MIDDLE, NARROW, SMALL = (160, 45), (120, 35), (80, 24), (60, 16)
SCREENS: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "overview-160x45": (WIDE, ()),
    "overview-80x24": (NARROW, ()),
    "overview-60x16": (SMALL, ()),
    "board-160x45": (WIDE, ("mail", "j", "j")),
    "board-120x35": (MIDDLE, ("mail", "4")),
    "board-80x24": (NARROW, ("mail", "space", "j", "space")),
    "board-60x16": (SMALL, ("mail", "1")),
    "board-250x70": ((250, 70), ("mail", "5")),
    "reserved-80x24": (NARROW, ("mail", "3")),
    "chosen-80x24": (NARROW, ("mail", "5", "asterisk")),
    "job-160x45": (WIDE, ("mail", "5", "enter")),
    "job-80x24": (NARROW, ("mail", "5", "enter")),
    "hostile-80x24": (NARROW, ("reports", "enter")),
    "delete-80x24": (NARROW, ("mail", "5", "space", "space", "D")),
    "reject-80x24": (NARROW, ("mail", "3", "K")),
    "new-80x24": (NARROW, ("mail", "N")),
    "new-60x16": (SMALL, ("N",)),
    "help-80x24": (NARROW, ("question_mark",)),
    "loops-80x24": (NARROW, ("t",)),
    "too-small-40x10": ((40, 10), ()),
}


@pytest.fixture(scope="module")
def planted(real_server: EmbeddedServer) -> str:
    """The URL of a server with the data of the pictures, and one hostile job."""
    with server.connect(real_server.url) as client:
        seed(client)
        reports = Seed(client, "reports")
        row = {
            "id": b"\x1b[31mid\x07",
            "name": "[bold]n[/bold]",
            "body": b'{"a": "\x1b]0;owned\x07", "b": "\xe2\x80\xae\xe8\x8a\xb1"}',
        }
        reports.do("enqueue", 50_000, {}, [{**row, "priority": -1}])
    return real_server.url


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock stands at NOW, in UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setattr(time, "time", lambda: NOW / 1000)
        yield
    time.tzset()


def same_as_kept(name: str, text: str) -> None:
    """Compares with the kept file, or writes it when asked to."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.write_text(text + "\n", "utf-8")
    assert text + "\n" == file.read_text("utf-8")


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
