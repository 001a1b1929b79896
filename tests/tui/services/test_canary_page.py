"""Compare the page of a canary with text snapshots: while its jobs run, at the question, and after a failure."""

from __future__ import annotations

import asyncio

import pytest
from screens import read_text
from slow_cases import mark_slow_cases
from text_snapshots import NARROW, SMALL, WIDE, check_snapshot, planted_url, stopped_clock
from textual.pilot import Pilot

from screenshots.canary import STAGES, build_page
from screenshots.seeded import open_still_app, wait_until_still

__all__ = ["planted_url", "stopped_clock"]  # fixtures

SIZES = {"160x45": WIDE, "80x24": NARROW, "60x16": SMALL}


@pytest.mark.parametrize("stage", mark_slow_cases(STAGES, ("running", "question")))
def test_the_page_of_a_canary_matches_its_snapshots(planted_url: str, stage: str) -> None:
    async def read_pages() -> dict[str, str]:
        texts = {}
        async with open_still_app(planted_url, WIDE, ()) as app:
            page = build_page()
            await app.push_screen(page)
            STAGES[stage](page)
            for title, size in SIZES.items():
                pilot: Pilot[None] = Pilot(app)
                await pilot.resize_terminal(*size)
                await wait_until_still(app, pilot)
                region = page.query_one("#canary").region
                lines = read_text(app).split("\n")[region.y : region.bottom]
                texts[title] = "\n".join(line[region.x : region.right] for line in lines)
        return texts

    for title, text in asyncio.run(read_pages()).items():
        assert text.startswith("╭") and text.endswith("╯")
        check_snapshot(f"canary-{stage}-{title}", text)
