"""Keys that come all at once: each does what it does at a person's pace."""

from __future__ import annotations

import asyncio

import pytest
from redis import Redis
from screens import Screen, Seeded, build_key_event, run_on_event_loop, screen
from textual.events import Paste

from rqtui.tui.terminal import typeahead
from rqtui.tui.widgets.help_page import KeyPage

pytestmark = pytest.mark.newest_textual


def burst(ui: Screen, *keys: str) -> None:
    """Send keys to the app all at once, as a terminal can; `"text` types, `'text` is pasted."""
    for key in keys:
        if key.startswith("'"):
            ui.app.post_message(Paste(key[1:]))
        else:
            for each in key[1:] if key.startswith('"') else [key]:
                ui.app.post_message(build_key_event(each))


@pytest.mark.slow
@pytest.mark.hooks
@run_on_event_loop
async def test_a_job_is_made_by_keys_that_come_at_once(url: str, client: Redis) -> None:
    mail = Seeded(client)
    mail.put("a1")
    async with screen(url) as ui:
        burst(ui, "enter", "N", "tab", '"first', "enter", "N", "tab", "'second", "tab", '"mail', "enter")
        await ui.until(lambda: {"first", "second"} <= set(mail.ids("ready")), "both were made")
        first, second = mail.job("first"), mail.job("second")
        assert first and second and (first.name, second.name) == ("", "mail")


@pytest.mark.slow
@pytest.mark.hooks
@run_on_event_loop
async def test_a_filter_and_what_is_done_with_what_it_found(url: str, client: Redis) -> None:
    mail = Seeded(client)
    mail.put("a1", "a2", "a3")
    async with screen(url) as ui:
        await ui.press("enter")
        await ui.until_shown("a1", "a2", "a3")
        burst(ui, "slash", '"id:a2', "enter")
        await ui.until(lambda: "a1" not in ui.text() and "a2" in ui.text(), "the filter holds")
        burst(ui, "D", "y", "escape", "question_mark", "slash", '"reap')
        await ui.until(lambda: mail.ids("ready") == ["a1", "a3"], "the one was deleted")
        await ui.until(lambda: isinstance(ui.app.screen, KeyPage), "the page of keys is open")
        await ui.until_shown("reap")


@run_on_event_loop
async def test_a_key_that_never_has_its_effect_does_not_hold_up_the_way_out(url: str) -> None:
    async with screen(url) as ui:
        stuck = ui.app.focused
        assert stuck is not None
        goes_on = asyncio.Event()
        stuck.call_later(goes_on.wait)
        burst(ui, "j", "k", "ctrl+q")
        async with asyncio.timeout(3 * typeahead.MAX_WAIT_S):
            while not ui.app._exit:
                await asyncio.sleep(0.01)
        goes_on.set()
