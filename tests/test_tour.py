"""The tour can be followed: the keys that `docs/tour.md` names are pressed in its demo, and show what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from screens import Screen, run_on_event_loop

from rqtui.config.settings import Settings
from rqtui.connection.embedded import start_server
from rqtui.scenarios import create_run, find_scenario
from rqtui.tui.app import Cockpit

TOUR = Path(__file__).resolve().parents[1] / "docs" / "tour.md"
STEP = re.compile(r"<!-- press: (?P<keys>.+?) \| shows: (?P<words>.+?) -->")


def steps() -> list[tuple[list[str], list[str]]]:
    """Return (keys, words that are then on the screen or in a toast) for each step of the tour."""
    return [(found["keys"].split(), found["words"].split(", ")) for found in STEP.finditer(TOUR.read_text())]


def test_every_command_of_the_tour_is_one() -> None:
    from rqtui.cli.main import COMMANDS

    commands_in_tour = {words.split()[0] for words in re.findall(r"^rqtui ([a-z].*)$", TOUR.read_text(), re.MULTILINE)}
    assert commands_in_tour and commands_in_tour <= set(COMMANDS)


@pytest.mark.matrix
@pytest.mark.slow
@run_on_event_loop
async def test_the_tour_can_be_followed_key_by_key() -> None:
    with start_server("auto") as server, create_run(find_scenario("incident"), server.url, 1, server.pid) as play:
        app = Cockpit(Settings(server.url, ("native",)), play, open_queue="orders", interval_s=0.25)
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            ui = Screen(app, pilot)
            await ui.until_shown("orders", "1 scheduled")
            for keys, words in steps():
                await ui.press(*keys)
                await ui.until(
                    lambda words=words: all(w in ui.text() or any(w in toast for toast in ui.toasts) for w in words),
                    f"{keys}: {words}",
                )
