"""Test how views are found: by their letters in a wide header, else in a list that one key opens."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import NARROW, WIDE, Screen, Seeded, run_on_event_loop, screen

from rqtui.tui.screens.registry import VIEWS


def plant_jobs(client: Redis) -> Seeded:
    """Plant a queue with waiting jobs, and three that died of one cause."""
    seeded = Seeded(client)
    seeded.put("a1", "a2")
    seeded.bury("d1", "d2", "d3")
    return seeded


def header(ui: Screen) -> list[str]:
    """Return the lines above the view."""
    return ui.text().splitlines()[:3]


def find_position(ui: Screen, words: str) -> tuple[int, int]:
    """Return the column and row at which these words begin."""
    rows = ui.text().splitlines()
    y = next(y for y, row in enumerate(rows) if words in row)
    return rows[y].index(words), y


@run_on_event_loop
async def test_a_high_terminal_names_every_view_by_its_letter_in_the_header(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("queues ▸ mail")
        line = header(ui)[1]
        for words in (
            "e errors",
            "w workers",
            "b kinds",
            "f events",
            "m metrics",
            "t loops",
            "i Redis",
            "o operations",
        ):
            assert words in line, line
        assert "1 queue" in header(ui)[2]  # what the view itself says is still there
        assert "; views" not in ui.text()


@run_on_event_loop
async def test_the_header_shows_the_number_of_causes_once_they_were_read_and_nothing_before(
    url: str, client: Redis
) -> None:
    plant_jobs(client)
    async with screen(url, (120, 30)) as ui:
        await ui.press("e")
        await ui.until(lambda: "e errors 1 " in header(ui)[1], "one cause")
        await ui.press("escape")
        await ui.until(lambda: "e errors 1 " in header(ui)[1], "it is remembered")


@pytest.mark.slow
@run_on_event_loop
async def test_a_change_made_here_is_counted_beside_the_operations(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, WIDE) as ui:
        await ui.until(lambda: "o operations 0" in header(ui)[1], "none")
        await ui.press("P", "y")
        await ui.until(lambda: "o operations 1" in header(ui)[1], "one")


@pytest.mark.slow
@run_on_event_loop
async def test_a_click_on_a_view_in_the_header_goes_there(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("e errors 1", "w workers 0", "m metrics")  # nothing moves it any more
        await ui.pilot.click(offset=find_position(ui, "m metrics"))
        await ui.until(lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "metrics")


@pytest.mark.slow
@run_on_event_loop
async def test_at_80_columns_one_key_lists_the_views_and_a_letter_leads_there(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, NARROW) as ui:
        await ui.press("enter")
        await ui.until_shown("; views")
        await ui.press("semicolon")
        await ui.until_shown("its letter goes there", "kinds", "operations")
        rows = ui.text().splitlines()
        assert (
            sum(any(f"{letter}   {label}" in row for row in rows) for letter, label in (("e", "errors"), ("o", "op")))
            == 2
        )
        await ui.press("w")
        await ui.until(lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "workers")
        assert len(VIEWS) == 9


@pytest.mark.slow
@run_on_event_loop
async def test_enter_and_a_click_lead_from_the_list_too_and_escape_leaves_it(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, NARROW) as ui:
        await ui.press("semicolon", "j", "j", "enter")
        await ui.until(lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "kinds")
        await ui.press("semicolon")
        await ui.until_shown("its letter goes there")
        await ui.pilot.click(offset=find_position(ui, "metrics   "))
        await ui.until(lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "metrics")
        await ui.press("semicolon", "escape")
        await ui.until(lambda: "its letter goes there" not in ui.text())
