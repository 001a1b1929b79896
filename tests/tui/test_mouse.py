"""The mouse: tabs, heads of columns, keys of the frame, verdicts, rows and the wheel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis
from screens import NARROW, WIDE, Screen, Seeded, run_on_event_loop, screen
from textual.content import Content
from textual.events import MouseDown, MouseScrollDown, MouseUp

from rqtui.tui import keys
from rqtui.tui.screens.board import Board
from rqtui.tui.screens.overview import Overview
from rqtui.tui.widgets import frame
from rqtui.tui.widgets.question_dialog import Question


async def click(ui: Screen, words: str, *, row: int = -1, times: int = 1) -> None:
    """Click on the first cell of words on the screen, in the row `row` if one is given."""
    await ui.until_shown(words)
    lines = ui.text().splitlines()
    y = row % len(lines) if row != -1 else next(at for at, line in enumerate(lines) if words in line)
    await ui.pilot.click(offset=(lines[y].index(words), y), times=times)
    await ui.pilot.pause()


async def press_and_release(ui: Screen, words: str, then: Callable[[], object]) -> None:
    """Press and release the mouse button on these words: the button comes up after the screen has answered."""
    await ui.until_shown(words)
    lines = ui.text().splitlines()
    y = next(at for at, line in enumerate(lines) if words in line)
    at = (lines[y].index(words), y)
    ui.app.post_message(MouseDown(None, *at, 0, 0, 1, False, False, False, *at))
    await ui.until(then, f"the answer to a press on {words}")
    await ui.pilot.pause()
    ui.app.post_message(MouseUp(None, *at, 0, 0, 1, False, False, False, *at))
    await ui.pilot.pause()


def rows(ui: Screen) -> str:
    """Return the lines of the screen from the frame of the queues on."""
    return ui.text().partition("─  queues")[2]


def board(ui: Screen) -> Board:
    view = ui.app.navigation.view
    assert isinstance(view, Board)
    return view


@pytest.mark.slow
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["tabs", "panes"])
@run_on_event_loop
async def test_a_click_on_the_name_of_a_place_goes_there(url: str, client: Redis, size: tuple[int, int]) -> None:
    Seeded(client).put("a")
    async with screen(url, size) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("send")
        for number, name in ((5, "dead"), (1, "scheduled")):
            await ui.until_refreshed()  # the places are where they will stay
            await click(ui, f" {number} {name}")
            await ui.until(lambda name=name: board(ui).find_current_pane().place.name == name, f"{name} is opened")


@pytest.mark.slow
@run_on_event_loop
async def test_a_press_on_a_pane_counts_though_the_panes_move_under_the_mouse(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.bury("dead-1", "dead-2")
    for id, form in (("held", {"priority": -1}), ("wait", {}), ("late", {"delay_ms": 3_600_000})):
        for each in ("1", "2"):
            seeded.put(f"{id}-{each}", name=f"{id}-{each}", **form)
        if id == "held":
            seeded.reserve(2, ttr_ms=600_000)
    places = {"scheduled": "late-2", "ready": "wait-2", "reserved": "held-2"}
    async with screen(url, WIDE) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown(*places.values())
        for number, name in ((5, "dead"), (1, "scheduled"), (3, "reserved"), (2, "ready"), (5, "dead")):
            await press_and_release(
                ui, f"─  {number} {name}", lambda name=name: board(ui).find_current_pane().place.name == name
            )
            assert (
                board(ui).focused is board(ui).find_current_pane() and board(ui).find_current_pane().place.name == name
            )
        for name, id in places.items():
            await press_and_release(ui, id, lambda name=name: board(ui).find_current_pane().place.name == name)
            job = await ui.until(
                lambda name=name: (
                    board(ui).find_current_pane().place.name == name
                    and board(ui).find_current_pane().find_current_job()
                ),
                name,
            )
            assert job.id.decode() == id


@run_on_event_loop
async def test_a_click_on_the_head_of_a_column_sorts_by_it(url: str, client: Redis) -> None:
    Seeded(client, "aaa").put("a")
    Seeded(client, "zzz").bury("d1", "d2")
    async with screen(url, WIDE) as ui:
        await ui.until_shown("aaa", "zzz")
        view = ui.app.navigation.view
        assert isinstance(view, Overview)
        await click(ui, " dead ")
        await ui.until(lambda: view.sort == "dead", "sorted by dead jobs")
        await ui.until(lambda: rows(ui).index("zzz") < rows(ui).index("aaa"), "most dead jobs first")
        await click(ui, "queue  ")
        await ui.until(lambda: view.sort == "name" and rows(ui).index("aaa") < rows(ui).index("zzz"), "by name")


@pytest.mark.slow
@run_on_event_loop
async def test_a_click_on_a_key_of_the_footer_or_on_its_words_presses_it(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("K kill", "␣ mark")
        await click(ui, "kill  D")
        assert isinstance(ui.app.screen, Question)
        await ui.press("escape")
        await click(ui, "␣ mark")
        await ui.until_shown("1 marked")
        await click(ui, "? keys")
        await ui.until_shown("On the current row")
        assert seeded.ids("ready") == ["a"]


@pytest.mark.slow
@run_on_event_loop
async def test_a_click_on_a_verdict_goes_where_it_leads(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a")
    seeded.engine.apply_verb("pause", seeded.ref)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("paused")
        await click(ui, "paused")
        await ui.until(lambda: isinstance(ui.app.navigation.view, Board), "the board: its key changes something")


@pytest.mark.slow
@run_on_event_loop
async def test_two_clicks_open_a_row_and_the_wheel_scrolls(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put(*(f"job-{number:03}" for number in range(100)))
    async with screen(url) as ui:
        await click(ui, "mail", times=2)
        await ui.until_shown("of 100")
        pane = board(ui).find_current_pane()
        for _turn in range(4):
            ui.app.post_message(MouseScrollDown(None, 20, 10, 0, 0, 0, False, False, False, 20, 10))
        await ui.until(lambda: pane.first_visible_line > 0, "rows further down")
        await ui.until(lambda: "1-18 of 100" not in ui.text(), "they are painted")


def test_a_click_finds_the_key_of_a_hint_and_none_between_two() -> None:
    line = Content("  ").join(
        [frame.format_key_hint("K", "kill"), frame.format_key_hint("Esc", "stops it"), frame.format_key_hint(",", "")]
    )
    text = line.plain
    assert [frame.find_key_at_cell(line, text.index(word)) for word in ("K", "kill", "Esc", "it", ",")] == [
        "K",
        "K",
        "Esc",
        "Esc",
        ",",
    ]
    assert frame.find_key_at_cell(line, text.index("  ") + 1) == ""
    assert frame.find_key_at_cell(line, 70) == ""


@pytest.mark.parametrize(
    ("sign", "name"),
    [("K", "K"), ("␣", "space"), ("Enter", "enter"), (":", "colon"), ("Ctrl+T", "ctrl+t"), ("+", "plus"), ("5", "5")],
)
def test_every_sign_has_the_name_of_its_key(sign: str, name: str) -> None:
    assert keys.to_textual_key(sign) == name


def test_the_view_that_a_verdict_names_by_its_key() -> None:
    assert keys.find_view_in_text("e groups them, R requeues them") == "errors"
    assert keys.find_view_in_text("P resumes it") == ""
    assert keys.find_view_in_text("") == ""
