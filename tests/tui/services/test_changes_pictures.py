"""How the questions before a change look, as plain text from seeded data, the dialog alone; see `test_pictures.py`."""

from __future__ import annotations

import asyncio
import re

import pytest
from pictures import MIDDLE, NARROW, SMALL, WIDE, planted, same_as_kept, stopped
from screens import text_of

from screenshots.seeded import still

__all__ = ["planted", "stopped"]  # fixtures

SCREENS: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "dry-run-80x24": (NARROW, ("mail", "5", "asterisk", "R")),
    "dry-run-160x45": (WIDE, ("mail", "5", "asterisk", "R")),
    "dry-run-60x16": (SMALL, ("mail", "5", "asterisk", "R")),
    "delete-all-80x24": (NARROW, ("mail", "5", "asterisk", "D")),
    "drip-120x35": (MIDDLE, ("mail", "5", "colon", *"drip", "enter")),
    "duplicate-80x24": (NARROW, ("mail", "5", "C")),
    "duplicate-160x45": (WIDE, ("mail", "5", "C")),
    "duplicate-60x16": (SMALL, ("mail", "5", "C")),
}


MORE = {name for name in SCREENS if name.startswith(("dry-run", "duplicate")) and not name.endswith("80x24")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.matrix) if name in MORE else name for name in SCREENS]
)
def test_a_question_looks_as_it_did(planted: str, name: str) -> None:
    size, keys = SCREENS[name]

    async def look() -> str:
        async with still(planted, size, keys) as app:
            dialog = app.screen.query_one("#dialog").region
            lines = text_of(app).split("\n")[dialog.y : dialog.bottom]
            return "\n".join(line[dialog.x : dialog.right] for line in lines)

    text = asyncio.run(look())
    assert text.startswith("╭") and text.endswith("╯")
    text = re.sub(r"redis://127.0.0.1:\d+", lambda url: "redis://there".ljust(len(url[0])), text)
    same_as_kept(name, re.sub(r"(age +).{40}", lambda age: age[1] + "as old as they are".ljust(40), text))
