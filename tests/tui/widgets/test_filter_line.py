"""The filter line: starts empty, remembers, leads to the first match, and offers the paths of the bodies."""

from __future__ import annotations

import json

import msgpack
import pytest
from redis import Redis
from screens import Screen, Seeded, run_on_event_loop, screen

from rqtui.tui.screens.board import Board
from rqtui.tui.widgets.filter_line import FilterLine


def find_filter_line(ui: Screen) -> FilterLine:
    view = ui.app.navigation.view
    assert view is not None
    return view.filter_line


def under_cursor(ui: Screen) -> object:
    board = ui.app.navigation.view
    assert isinstance(board, Board)
    return board.find_current_pane().cursor_id


def plant_bodies(client: Redis) -> Seeded:
    mail = Seeded(client)
    for number, plan in enumerate(("silver", "gold", "gold")):
        body = {"customer": {"plan": plan, "id": number}, "to": f"{number}@b.c", "items": [{"sku": f"s-{number}"}]}
        mail.put(f"{number}-job", body=json.dumps(body).encode())
    return mail


@pytest.mark.slow
@run_on_event_loop
async def test_the_line_starts_empty_and_up_recalls_earlier_filters_the_newest_first(url: str, client: Redis) -> None:
    plant_bodies(client)
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("0-job")
        for word in ("0-job", "1-job", "0-job"):
            await ui.press("slash", f'"{word}', "enter")
        await ui.until_shown("/0-job")
        await ui.press("slash")
        assert find_filter_line(ui).value == ""
        await ui.until_shown("1 of 3 match")  # the filter stays until something is typed
        await ui.press("up")
        assert find_filter_line(ui).value == "0-job"
        await ui.press("up")
        assert find_filter_line(ui).value == "1-job"
        await ui.press("up", "down")
        assert find_filter_line(ui).value == "0-job"
        await ui.press("escape", "q", "slash", "up")  # another screen remembers the same
        assert find_filter_line(ui).value == "0-job"


@pytest.mark.slow
@run_on_event_loop
async def test_ctrl_u_empties_the_line_wherever_the_cursor_is(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.press("slash", '"some words', "left", "left", "ctrl+u")
        assert find_filter_line(ui).value == "" and find_filter_line(ui).is_open


@pytest.mark.slow
@run_on_event_loop
async def test_enter_puts_the_cursor_on_the_first_match(url: str, client: Redis) -> None:
    mail = Seeded(client)
    mail.put(*(f"{'match' if number in (3, 4, 17) else 'other'}-{number}" for number in range(20)))
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("1-18 of 20")
        await ui.press("j", "j", "j", "j")
        await ui.until(lambda: under_cursor(ui) == b"match-4", "the cursor on the second match")
        await ui.press("slash", '"match', "enter")
        await ui.until(lambda: under_cursor(ui) == b"match-3", "the cursor on the first match")


@pytest.mark.slow
@run_on_event_loop
async def test_enter_puts_the_cursor_on_the_first_match_of_a_place_that_is_scanned(url: str, client: Redis) -> None:
    mail = Seeded(client)
    mail.put(*(f"{'match' if number in (7, 600) else 'other'}-{number:03}" for number in range(700)))
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("700")
        await ui.press("G")
        await ui.until(lambda: under_cursor(ui) == b"other-699", "the last job")
        await ui.press("slash", '"match', "enter")
        await ui.until(lambda: under_cursor(ui) == b"match-007", "the cursor on the first match")
        await ui.until_shown("2 of 700 match")


@pytest.mark.slow
@run_on_event_loop
async def test_a_member_of_the_body_is_a_filter_and_tab_offers_its_path(url: str, client: Redis) -> None:
    mail = plant_bodies(client)
    mail.put("packed", body=msgpack.packb({"customer": {"plan": "gold"}}))
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("0-job")
        await ui.press("slash", '".')
        await ui.until_shown("Tab .customer.plan", ".items.sku", ".to")
        assert "0-job" in ui.text()  # a path alone is no condition
        await ui.press('"cus', "tab")
        assert find_filter_line(ui).value == ".customer.plan:"
        await ui.press("tab")
        assert find_filter_line(ui).value == ".customer.id:"
        await ui.press("shift+tab", '"gold', "enter")
        await ui.until_shown("3 of 4 match", "1-job", "packed")
        assert "0-job" not in ui.text() and "Tab .cus" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_tab_in_an_empty_line_offers_every_path_and_puts_in_the_first(url: str, client: Redis) -> None:
    plant_bodies(client)
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("0-job")
        await ui.press("slash", "tab")
        await ui.until(lambda: find_filter_line(ui).value == ".customer.plan:", "the first path")
        await ui.press("ctrl+u", '"!.to', "tab")
        assert find_filter_line(ui).value == "!.to:"
