"""One grammar of questions: `y` does it, Enter and Esc leave it; what was typed is not thrown away by one key."""

from __future__ import annotations

import pytest
from redis import Redis
from screens import Screen, Seeded, run_on_event_loop, screen
from textual.widgets import Button, Input

from rqtui.config.settings import Settings
from rqtui.model import State
from rqtui.tui.screens.overview import Overview
from rqtui.tui.widgets.question_dialog import Question

PALETTE = ("purge", "lease", "pull", "throttled requeue", "bump")


def list_ids_by_place(seeded: Seeded) -> dict[str, list[str]]:
    return {state.value: seeded.ids(state.value) for state in State}


def is_asking(ui: Screen) -> bool:
    return isinstance(ui.app.screen, Question)


async def is_left(ui: Screen) -> None:
    await ui.until(lambda: not is_asking(ui) and ui.app.screen is ui.app.navigation.view, "the question is left")


@pytest.mark.slow
@run_on_event_loop
async def test_every_question_has_its_focus_on_cancel_and_enter_esc_and_n_leave_it(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.bury("d1", "d2")
    seeded.put("held")
    seeded.reserve(ttr_ms=3_600_000)
    seeded.put("a1", "a2")
    before = list_ids_by_place(seeded)
    pressed = [("2", "D"), ("2", "K"), ("2", "P"), ("3", "L"), ("3", "A"), ("3", "K"), ("3", "D"), ("5", "D")]
    asked = [*pressed, *((place, "asterisk", key) for place, key in (("5", "R"), ("2", "K"), ("5", "D"), ("3", "L")))]
    asked += [("5", "colon", f'"{words}', "enter") for words in PALETTE if words != "bump"]
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("a1")
        for number, keys in enumerate(asked):
            await ui.press(*keys)
            await ui.until(lambda: is_asking(ui), f"the question of {keys}")
            focused = ui.app.focused
            assert isinstance(focused, Button) and focused.id == "no", keys
            assert "Enter, Esc cancel" in ui.text(), (keys, ui.text())
            await ui.press(("enter", "escape", "n")[number % 3])
            await is_left(ui)
            await ui.press("u")
        await ui.until_refreshed()
        assert list_ids_by_place(seeded) == before
        assert not client.hget("rqtui:{mail}:meta", "paused")


@pytest.mark.slow
@run_on_event_loop
async def test_a_form_that_was_typed_into_asks_before_esc_throws_it_away(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a1")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter", "N")
        await ui.until(lambda: is_asking(ui), "the form")
        await ui.press("escape")
        await is_left(ui)  # nothing was typed
        await ui.press("T")
        await ui.until_shown("Reschedule")
        await ui.press('"2h', "escape")
        await ui.until_shown("Leave the form", "y throw away   Enter, Esc cancel")
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.focused, Input), "the form again")
        field = ui.app.focused
        assert isinstance(field, Input) and field.value == "2h"
        await ui.press("escape")
        await ui.until_shown("Leave the form")
        await ui.press("y")
        await is_left(ui)
        assert seeded.ids("ready") == ["a1"]


@pytest.mark.slow
@run_on_event_loop
async def test_the_body_of_a_new_job_is_not_thrown_away_by_one_key(url: str, client: Redis) -> None:
    Seeded(client).put("a1")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter", "N")
        await ui.until_shown("Enqueue a job")
        await ui.press('" ', "escape")
        await ui.until_shown("Leave the form")
        await ui.press("escape", "escape")
        await ui.until_shown("Leave the form")
        await ui.press("y")
        await is_left(ui)


@pytest.mark.slow
@run_on_event_loop
async def test_a_guarded_question_is_answered_by_the_name_alone(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a1")
    async with screen(Settings(url, badge="PROD", is_guarded=True)) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("a1")
        await ui.press("D")
        await ui.until_shown("type mail")
        await ui.press("y")  # goes to where the name is typed, and does nothing
        assert seeded.ids("ready") == ["a1"]
        await ui.press('"mail', "enter", "y")
        await ui.until(lambda: not seeded.ids("ready"), "it is deleted")


@pytest.mark.slow
@run_on_event_loop
async def test_q_asks_before_it_stops_a_change_of_many_jobs(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.bury(*(f"j{number}" for number in range(40)))
    async with screen(url) as ui:
        await ui.until_shown("mail")
        ui.app.start_verb_on_jobs("drip requeue", [(seeded.ref, seeded.jobs("dead"))], "an error")
        await ui.until_shown("Requeue 40 jobs?")
        await ui.press("y")
        await ui.until_shown("of 40 · 5/s")
        await ui.press("q")
        await ui.until_shown("Quit", "would stop here")
        await ui.press("enter")
        await ui.until(lambda: isinstance(ui.app.screen, Overview), "the overview")
        assert ui.app.is_running and ui.app.verb_starter.format_progress()
        await ui.press("q", "y")
        await ui.until(lambda: not ui.app.is_running, "the end")
