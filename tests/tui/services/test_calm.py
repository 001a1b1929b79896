"""`--calm`: nothing is sent but what a key or a refresh changed. `--ascii`: nothing is shown but ASCII."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from rich.cells import cell_len
from screens import HANGS_S, NARROW, WIDE, Screen, Seeded, read_text

from rqtui.config.settings import Settings
from rqtui.tui.app import Cockpit
from rqtui.tui.session import Refreshed
from rqtui.tui.terminal.ascii_filter import to_ascii

SIZES = pytest.mark.parametrize(
    "size", [pytest.param(NARROW, id="80x24"), pytest.param(WIDE, id="160x45", marks=pytest.mark.matrix)]
)


class Counted(Cockpit):
    """An app that counts its paints and its refreshes."""

    painted = pictures = 0

    def on_refreshed(self, _message: Refreshed) -> None:
        """Before the app itself hears it."""
        self.pictures += 1

    def _display(self, screen: Any, renderable: Any) -> None:
        self.painted += renderable is not None
        super()._display(screen, renderable)


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    return Seeded(client)


async def wait_until_shown(ui: Screen, *words: str) -> None:
    await ui.until(lambda: ui.app.session.snapshot is not None, "a first picture")
    await ui.until_shown(*words)


@pytest.mark.slow
@SIZES
def test_when_calm_a_refresh_paints_once_and_nothing_paints_in_between(
    url: str, seeded: Seeded, size: tuple[int, int]
) -> None:
    seeded.put("a1", "a2")
    seeded.put("due", delay_ms=1)  # the header then shows how many seconds ago the dispatcher moved it

    async def run() -> None:
        app = Counted(Settings(url, is_calm=True), interval_s=0.5)
        app.loops.announce_first_moves = lambda: None  # type: ignore[method-assign]  # its toast is painted and ends
        async with app.run_test(size=size, notifications=True) as pilot:
            ui = Screen(app, pilot)
            await wait_until_shown(ui, "mail")
            await ui.press("enter")
            await ui.until_shown("a2", "due")
            for _ in range(3):
                await ui.until_refreshed()
            await pilot.pause(0.1)
            painted, pictures = app.painted, app.pictures
            for _ in range(4):
                await ui.until_refreshed()
            await pilot.pause(0.1)
            assert app.painted - painted <= app.pictures - pictures
            app.session.ticker.interval_s = 60.0
            await ui.until_refreshed()
            await pilot.pause(0.1)
            before = app.painted
            await pilot.pause(1.3)  # longer than the clock's second
            assert app.painted == before

    asyncio.run(asyncio.wait_for(run(), HANGS_S))


@pytest.mark.slow
def test_when_calm_no_cursor_blinks_and_nothing_is_animated(url: str, seeded: Seeded) -> None:
    seeded.put("a1")

    async def run(is_calm: bool) -> None:
        app = Cockpit(Settings(url, is_calm=is_calm), interval_s=0.25)
        async with app.run_test(size=NARROW, notifications=True) as pilot:
            ui = Screen(app, pilot)
            await wait_until_shown(ui, "mail")
            await ui.press("N")
            for name in ("Input", "TextArea"):
                widget = app.screen.query(name).first()
                app.screen.set_focus(widget)
                await pilot.pause()
                assert widget.cursor_blink is not is_calm  # type: ignore[attr-defined]
            assert (app.animation_level == "none") is is_calm

    asyncio.run(asyncio.wait_for(run(True), HANGS_S))
    asyncio.run(asyncio.wait_for(run(False), HANGS_S))


# ── ASCII ────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(max_size=60))
def test_ascii_is_as_wide_as_what_it_stands_for(text: str) -> None:
    shown = to_ascii(text)
    assert shown.isascii()
    assert cell_len(shown) == sum(map(cell_len, text)) or not text.isprintable()


def test_a_field_that_distinguishes_rows_stays() -> None:
    assert to_ascii("╭─ ready ▶ 12/s ─╮ × ◆ … café 日 ⣿") == "+- ready > 12/s -+ x * ~ cafe ?? @"


@pytest.mark.slow
@SIZES
def test_with_ascii_every_view_and_dialog_is_ascii(url: str, seeded: Seeded, size: tuple[int, int]) -> None:
    seeded.put("café-日本", "a2")
    seeded.bury("d1")
    seeded.reserve()

    async def run() -> None:
        app = Cockpit(Settings(url, is_ascii=True), interval_s=0.25)
        async with app.run_test(size=size, notifications=True) as pilot:
            ui = Screen(app, pilot)
            await wait_until_shown(ui, "mail")
            await ui.press("enter", "2")
            await ui.until_shown("a2")
            for keys in (
                ["3"],
                ["5"],
                ["enter"],
                ["escape", "y"],
                ["escape", "D"],
                ["escape", "N"],
                ["escape", "colon"],
            ):
                await ui.press(*keys)
                text = read_text(app)
                assert text.isascii(), [letter for letter in text if not letter.isascii()]
            await ui.press("escape", "question_mark")
            assert read_text(app).isascii() and "+-" in read_text(app)

    asyncio.run(asyncio.wait_for(run(), HANGS_S))
