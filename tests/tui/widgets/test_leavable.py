"""Test a screen that is left before it is mounted: the screen below and the program continue."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis
from screens import VIEW_KEYS, Seeded, run_on_event_loop, screen

from rqtui.tui.services.connection_lost import EditUrl
from rqtui.tui.services.copying import ChoiceDialog
from rqtui.tui.widgets.question_dialog import Question
from rqtui.tui.widgets.view_list import ViewList


@pytest.mark.slow
@run_on_event_loop
async def test_a_screen_closed_before_it_is_mounted_leaves_the_one_below(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a1")
    async with screen(url) as ui:
        [job], navigation = seeded.jobs("ready"), ui.app.navigation
        opens: dict[str, Callable[[], object]] = {
            **{name: lambda name=name: navigation.open_view(name) for name in VIEW_KEYS},
            "board": lambda: navigation.open_board(seeded.ref),
            "job": lambda: navigation.open_job(seeded.ref, job),
            "keys": lambda: navigation.show_keys_page(()),
            "question": lambda: ui.app.push_screen(Question("Delete", [], (), "delete", True)),
            "choice": lambda: ui.app.push_screen(ChoiceDialog("Copy", [("i", "the id")])),
            "views": lambda: ui.app.push_screen(ViewList(ui.app.frame_content.list_view_links())),
            "url": lambda: ui.app.push_screen(EditUrl(url)),
        }
        for name, opened in opens.items():
            opened()
            assert len(ui.app.screen_stack) == 2, name
            ui.app.pop_screen()
            await ui.pilot.pause()
            assert ui.app.screen is navigation.view and navigation.is_at_first_view, name
        await ui.press("enter")
        await ui.until_shown("a1")
