"""Test the cursor on the findings of a board and of the overview's preview, and the page about one finding."""

from __future__ import annotations

import re

import pytest
from redis import Redis
from screens import NARROW, WIDE, Screen, Seeded, run_on_event_loop, screen

from rqtui.tui.screens.board import Board
from rqtui.tui.screens.incident import IncidentPage
from rqtui.tui.widgets.findings import FindingCursor

SIZES = pytest.mark.parametrize(
    "size", [pytest.param(NARROW, id="80x24"), pytest.param(WIDE, id="160x45", marks=pytest.mark.slow)]
)
FAILING, DIED, PAUSED = "100 % of attempts fail", "20 jobs died in the last 5 min", "paused"


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    """Plant a paused queue of which 20 jobs died just now, so that it has three findings."""
    new_seeded = Seeded(client)
    new_seeded.bury(*(f"dead-{number:02}" for number in range(20)))
    new_seeded.put("ready-1", "ready-2")
    new_seeded.engine.apply_verb("pause", new_seeded.ref, (), {})
    return new_seeded


def find_cursor(ui: Screen) -> FindingCursor | None:
    """Return the widget of findings that has the focus."""
    return ui.app.focused if isinstance(ui.app.focused, FindingCursor) else None


async def focus_findings(ui: Screen) -> FindingCursor:
    """Open the board of the queue, and move the cursor to its findings."""
    await ui.until_shown("mail", FAILING[:5])
    await ui.press("enter", "1", "shift+tab")
    return await ui.until(lambda: find_cursor(ui), "the findings have the focus")


def is_in_order(ui: Screen, *words: str) -> bool:
    """Return whether these words are on the screen one after the other."""
    return re.search(".*".join(map(re.escape, words)), ui.text(), re.DOTALL) is not None


def read_page(ui: Screen) -> IncidentPage:
    view = ui.app.screen
    assert isinstance(view, IncidentPage)
    return view


async def until_page_is_about(ui: Screen, kind: str) -> None:
    """Wait for the page whose first finding has this kind."""
    await ui.until(lambda: isinstance(ui.app.screen, IncidentPage) and ui.app.screen.build_complete_report(), "a page")
    report = read_page(ui).build_complete_report()
    assert report is not None and report.queue.findings[0].kind == kind
    assert len(report.queue.findings) == 3


@SIZES
@run_on_event_loop
async def test_enter_on_a_finding_of_the_board_opens_the_page_about_it(
    url: str, seeded: Seeded, size: tuple[int, int]
) -> None:
    async with screen(url, size) as ui:
        cursor = await focus_findings(ui)
        await ui.until_shown(f"▌ {FAILING}", "⏎ incident", "Esc back")
        await ui.press("j")
        await ui.until_shown(f"▌ {DIED}")
        await ui.press("down", "down")
        await ui.until_shown(f"▌ {PAUSED}")
        await ui.press("k")
        await ui.until_shown(f"▌ {DIED}")
        await ui.press("enter")
        await until_page_is_about(ui, "dead-grows")
        await ui.until(lambda: is_in_order(ui, "incident: mail", DIED, FAILING, PAUSED), "the findings in this order")
        await ui.until_shown("jobs that died per minute")
        await ui.press("escape")
        await ui.until(lambda: find_cursor(ui) is cursor, "the findings have the focus again")
        await ui.press("G", "apostrophe")
        await until_page_is_about(ui, "paused")
        await ui.press("escape", "escape")
        board = ui.app.screen
        assert isinstance(board, Board) and board.focused is board.find_current_pane()
        assert "▌ paused" not in ui.text() and "⏎ incident" not in ui.text()
        await ui.press("apostrophe")
        await until_page_is_about(ui, "failing")


@pytest.mark.slow
@SIZES
@run_on_event_loop
async def test_tab_goes_from_the_last_place_to_the_findings_and_from_there_to_the_first_place(
    url: str, seeded: Seeded, size: tuple[int, int]
) -> None:
    async with screen(url, size) as ui:
        await ui.until_shown("mail")
        await ui.press("enter", "5", "tab")
        await ui.until(lambda: find_cursor(ui), "the findings have the focus")
        for key, place in (("tab", "scheduled"), ("shift+tab", ""), ("h", "dead"), ("l", ""), ("3", "reserved")):
            await ui.press(key)
            board = ui.app.screen
            assert isinstance(board, Board)
            await ui.until(lambda place=place: bool(find_cursor(ui)) == (not place), f"{key}: {place}")
            assert not place or board.find_current_pane().place.name == place


@run_on_event_loop
async def test_no_key_changes_a_job_while_the_cursor_is_on_a_finding(url: str, seeded: Seeded, client: Redis) -> None:
    async with screen(url) as ui:
        await focus_findings(ui)
        await ui.press("2", "shift+tab", "shift+tab")
        before = client.dbsize(), seeded.ids("ready"), seeded.ids("dead")
        await ui.press("K", "D", "R", "space", "a")
        assert isinstance(ui.app.screen, Board) and not ui.app.screen.find_current_pane().marks
        assert (client.dbsize(), seeded.ids("ready"), seeded.ids("dead")) == before
        await ui.press("P")
        await ui.until_shown("Resume mail?")


@pytest.mark.slow
@run_on_event_loop
async def test_the_focus_leaves_findings_that_are_over_and_the_filter_line_is_that_of_the_list(
    url: str, client: Redis
) -> None:
    seeded = Seeded(client)
    seeded.put("ready-1")
    seeded.engine.apply_verb("pause", seeded.ref, (), {})
    async with screen(url) as ui:
        await ui.until_shown("mail", "paused")
        await ui.press("enter", "1", "shift+tab")
        await ui.until(lambda: find_cursor(ui), "the findings have the focus")
        await ui.press("slash", "escape")
        board = ui.app.screen
        assert isinstance(board, Board) and board.focused is board.find_current_pane()
        await ui.press("shift+tab")
        assert find_cursor(ui) is not None
        seeded.engine.apply_verb("resume", seeded.ref, (), {})
        await ui.until(lambda: board.focused is board.find_current_pane(), "the pane has the focus")
        await ui.press("shift+tab")
        assert board.find_current_pane().place.name == "dead", "a board without findings has only its places"


@pytest.mark.slow
@SIZES
@run_on_event_loop
async def test_a_click_on_a_finding_of_the_board_opens_it_and_a_click_on_its_key_presses_the_key(
    url: str, seeded: Seeded, size: tuple[int, int]
) -> None:
    async with screen(url, size) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await click(ui, FAILING)
        await until_page_is_about(ui, "failing")
        await ui.press("escape")
        await ui.until_shown("5 dead 20", FAILING)
        assert find_cursor(ui) is None, "a click does not move the focus"
        await click(ui, "e errors", below=2)
        await ui.until_shown(" errors of mail ")


@pytest.mark.slow
@SIZES
@run_on_event_loop
async def test_tab_and_enter_on_the_overview_open_the_page_about_a_finding_of_the_preview(
    url: str, seeded: Seeded, size: tuple[int, int]
) -> None:
    async with screen(url, size) as ui:
        await ui.until_shown("mail", DIED)
        await ui.press("tab", "j")
        await ui.until_shown(f"▌ {DIED}", "⏎ incident")
        await ui.press("enter")
        await until_page_is_about(ui, "dead-grows")
        await ui.press("escape")
        await ui.until_shown(f"▌ {DIED}", " queues ")
        await ui.press("tab")
        await ui.until(lambda: find_cursor(ui) is None and ui.app.focused is not None, "the list has the focus")
        await ui.press("tab", "escape")
        assert ui.app.focused is not None and ui.app.focused.id == "queues"
        await click(ui, DIED)
        await until_page_is_about(ui, "dead-grows")
        await ui.press("escape")
        await ui.until_shown(" queues ")
        await click(ui, "P resume")
        await ui.until_shown("Resume mail?")


@pytest.mark.slow
@run_on_event_loop
async def test_tab_on_the_overview_explains_why_there_is_no_finding(url: str, client: Redis) -> None:
    for number in range(30):
        Seeded(client, f"queue-{number:02}").put("a")
    async with screen(url) as ui:
        await ui.until_shown("queue-01")
        await ui.press("tab")
        await ui.until_toast("A higher terminal shows the findings")
    client.flushall()
    for name in ("mail:eu", "mail:us"):
        Seeded(client, name).put("a", delay_ms=3_600_000)
    async with screen(url) as ui:
        await ui.until_shown("mail:eu", "next due")
        await ui.press("tab")
        await ui.until_toast("The queue under the cursor has no findings.")
        await ui.press("quotation_mark", "g")
        await ui.until_shown("▸ mail:")
        await ui.press("tab")
        await ui.until_toast("The group under the cursor has no findings of its own.")


@pytest.mark.slow
@run_on_event_loop
async def test_a_page_continues_with_the_worst_finding_after_its_own_is_over(url: str, seeded: Seeded) -> None:
    async with screen(url, WIDE) as ui:
        await focus_findings(ui)
        await ui.press("G", "enter")
        await until_page_is_about(ui, "paused")
        seeded.engine.apply_verb("resume", seeded.ref, (), {})
        await ui.until_shown("over      paused", "the page is about the worst finding now")
        assert re.search(r"(when it ended is unknown|it ended at \d\d:\d\d)", ui.text())
        assert is_in_order(ui, "incident: mail", "over      paused", FAILING)
        seeded.engine.apply_verb("pause", seeded.ref, (), {})
        await ui.until(lambda: "the worst finding now" not in ui.text(), "the page is about the finding again")


@pytest.mark.slow
@run_on_event_loop
async def test_the_help_names_the_keys_of_the_findings(url: str, seeded: Seeded) -> None:
    async with screen(url, WIDE) as ui:
        await focus_findings(ui)
        await ui.press("question_mark")
        await ui.until_shown("the next place, or the findings (Enter opens one)", "or the finding under the cursor")


async def click(ui: Screen, words: str, below: int = 0) -> None:
    """Click on the first cell of words on the screen, from line `below` on."""
    await ui.until_shown(words)
    y, line = next((at, line) for at, line in enumerate(ui.text().splitlines()) if at >= below and words in line)
    await ui.pilot.click(offset=(line.index(words), y))
    await ui.pilot.pause()
