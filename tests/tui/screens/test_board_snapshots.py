"""The board with a filter, its panes one by one, and the page of a job in several ways, as kept text."""

from __future__ import annotations

import asyncio

import pytest
from screens import read_text
from slow_cases import mark_slow_cases
from text_snapshots import NARROW, SMALL, WIDE, check_snapshot, planted_url, stopped_clock

from screenshots.seeded import open_still_app

__all__ = ["planted_url", "stopped_clock"]  # fixtures
TYPED = {"timeout": ("t", "i", "m", "e", "o", "u", "t"), "digest": ("d", "i", "g", "e", "s", "t")}
SCREENS: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "filter-80x24": (NARROW, ("mail", "5", "slash", *TYPED["timeout"])),
    "found-80x24": (NARROW, ("mail", "slash", *TYPED["digest"], "enter", "j", "space")),
    "found-160x45": (WIDE, ("mail", "slash", *TYPED["digest"], "enter", "asterisk")),
    "found-60x16": (SMALL, ("mail", "slash", *TYPED["digest"], "enter")),
    "findings-80x24": (NARROW, ("mail", "1", "shift+tab")),
    "findings-160x45": (WIDE, ("mail", "1", "shift+tab")),
    "zoom-160x45": (WIDE, ("mail", "5", "plus")),
    "job-text-80x24": (NARROW, ("mail", "5", "enter", "v")),
    "job-hex-160x45": (WIDE, ("mail", "5", "enter", "v", "v")),
    "job-60x16": (SMALL, ("mail", "5", "enter")),
}


@pytest.mark.parametrize("name", mark_slow_cases(SCREENS, [name for name in SCREENS if not name.endswith("80x24")]))
def test_it_matches_its_snapshot(planted_url: str, name: str) -> None:
    size, keys = SCREENS[name]

    async def read_screen() -> str:
        async with open_still_app(planted_url, size, keys) as app:
            return read_text(app)

    text = asyncio.run(read_screen())
    assert text.count("\n") + 1 == size[1]
    check_snapshot(name, text)
