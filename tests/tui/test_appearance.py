"""Test the look that all views share: the keys in the footer, ASCII if requested, the accent."""

from __future__ import annotations

import pytest
from families import name_case
from redis import Redis
from screens import NARROW, VIEW_KEYS, WIDE, Screen, Seeded, open_view, run_on_event_loop, screen

from rqtui.config.settings import Settings
from rqtui.tui.screens.loops import Loops
from rqtui.tui.screens.registry import VIEWS


def read_footer(ui: Screen) -> str:
    """Return the footer's text."""
    return ui.text().splitlines()[-1]


def plant_jobs(client: Redis) -> Seeded:
    """Plant a queue with a job in every place; one id and one error are not ASCII."""
    seeded = Seeded(client)
    seeded.put("first", "second", "third", "café-日本")
    seeded.put("later", delay_ms=90_000)
    seeded.bury("d1")
    seeded.reserve()
    return seeded


@run_on_event_loop
async def test_at_80_columns_the_verbs_of_the_row_come_first_then_filter_and_mark(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, NARROW) as ui:
        await ui.press("enter", "2")
        await ui.until_shown("second")
        await ui.until(
            lambda: read_footer(ui).startswith(" K kill  D delete  T reschedule  / filter  ␣ mark"), "its keys"
        )
        assert "; views  :  ? keys" in read_footer(ui)


@pytest.mark.slow
@run_on_event_loop
async def test_the_footer_shows_undo_while_there_is_something_to_undo(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, NARROW) as ui:
        await ui.press("enter", "2")
        await ui.until_shown("second")
        assert "z undo" not in read_footer(ui)
        await ui.press("D", "y")
        await ui.until(lambda: "z undo  ; views" in read_footer(ui), "undo below")
        assert "/ filter" in read_footer(ui)
        await ui.press("z")
        await ui.until(lambda: "z undo" not in read_footer(ui), "nothing left to undo")


@pytest.mark.parametrize(
    ("name", "first"),
    [("loops", ", dispatcher  . reaper  < step  > step"), ("metrics", "r refresh"), ("redis", "r refresh")],
)
def test_a_side_view_names_its_own_keys_first_and_no_verb_that_does_nothing(
    url: str, client: Redis, name: str, first: str
) -> None:
    plant_jobs(client)

    @run_on_event_loop
    async def check_view() -> None:
        async with screen(url, WIDE) as ui:
            await ui.press(VIEW_KEYS[name])
            await ui.until(lambda: read_footer(ui).startswith(f" {first}"), "its keys")
            assert not [words for words in ("A ack", "D delete", "E extend") if words in read_footer(ui)]

    check_view()


@run_on_event_loop
async def test_a_read_only_screen_offers_no_key_of_the_loops(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, NARROW, read_only=True) as ui:
        await ui.press("t")
        await ui.until_shown("The loops are off")
        assert "dispatcher" not in read_footer(ui) and "step" not in read_footer(ui)


@run_on_event_loop
async def test_at_80_columns_a_name_of_fifteen_letters_is_whole(url: str, client: Redis) -> None:
    Seeded(client, "billing.refunds").put("a1")
    async with screen(url, NARROW) as ui:
        await ui.until_shown("billing.refunds")


@pytest.mark.slow
@pytest.mark.parametrize("size", [NARROW, pytest.param(WIDE, marks=pytest.mark.matrix)], ids=["80x24", "160x45"])
@run_on_event_loop
async def test_with_ascii_every_side_view_is_ascii(url: str, client: Redis, size: tuple[int, int]) -> None:
    plant_jobs(client)
    async with screen(Settings(url, is_ascii=True), size) as ui:
        for name in VIEWS:
            with name_case(name):
                await open_view(ui, name)
                text = ui.text()
                assert text.isascii(), sorted({letter for letter in text if not letter.isascii()})
                assert "+-" in text


@pytest.mark.slow
@run_on_event_loop
async def test_the_accent_is_for_keys_and_the_cursor_not_for_the_names_of_loops(url: str, client: Redis) -> None:
    plant_jobs(client)
    async with screen(url, WIDE) as ui:
        await ui.press("t")
        await ui.until_shown("nothing late", "later")
        accent = ui.app.get_css_variables()["accented"].lower()
        view = ui.app.navigation.view
        assert isinstance(view, Loops)
        strips = view._compositor.render_strips()
        hues = {
            piece.style.color.name.lower()
            for line in strips
            for piece in line
            if piece.text.strip() == "dispatch" and piece.style and piece.style.color
        }
        assert hues and accent not in hues
