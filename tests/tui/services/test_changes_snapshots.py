"""Compare the questions before a change, the dialog alone, with text snapshots; see `test_text_snapshots.py`."""

from __future__ import annotations

import asyncio
import re

import pytest
from screens import read_text
from text_snapshots import MIDDLE, NARROW, SMALL, WIDE, check_snapshot, planted_url, stopped_clock

from screenshots.seeded import open_still_app

__all__ = ["planted_url", "stopped_clock"]  # fixtures

SCREENS: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "dry-run-80x24": (NARROW, ("mail", "5", "asterisk", "R")),
    "dry-run-160x45": (WIDE, ("mail", "5", "asterisk", "R")),
    "dry-run-60x16": (SMALL, ("mail", "5", "asterisk", "R")),
    "delete-all-80x24": (NARROW, ("mail", "5", "asterisk", "D")),
    "drip-120x35": (MIDDLE, ("mail", "5", "colon", *"throttl", "enter")),
    "duplicate-80x24": (NARROW, ("mail", "5", "C")),
    "duplicate-160x45": (WIDE, ("mail", "5", "C")),
    "duplicate-60x16": (SMALL, ("mail", "5", "C")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCREENS)
def test_a_question_matches_its_snapshot(planted_url: str, name: str) -> None:
    size, keys = SCREENS[name]

    async def read_dialog() -> str:
        async with open_still_app(planted_url, size, keys) as app:
            dialog = app.screen.query_one("#dialog").region
            lines = read_text(app).split("\n")[dialog.y : dialog.bottom]
            return "\n".join(line[dialog.x : dialog.right] for line in lines)

    text = asyncio.run(read_dialog())
    assert text.startswith("╭") and text.endswith("╯")
    text = re.sub(r"redis://127.0.0.1:\d+", lambda url: "redis://there".ljust(len(url[0])), text)
    check_snapshot(name, re.sub(r"(age +).{40}", lambda age: age[1] + "as old as they are".ljust(40), text))
