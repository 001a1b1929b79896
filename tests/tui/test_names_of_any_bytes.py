"""Queues whose names are no UTF-8 on the screen: every view, every key, and nothing that a terminal could not write."""

from __future__ import annotations

import pytest
from families import name_case
from named_queues import (
    NAMES,
    SYSTEMS,
    NamedSystem,
    build_queue_name,
    can_be_named,
    convert_name_to_argument,
    plant_named_queue,
)
from redis import Redis
from screens import (
    NARROW,
    WIDE,
    Screen,
    Seeded,
    check_painted_rows,
    open_view,
    return_to_overview,
    run_on_event_loop,
    screen,
)

from rqtui.config.settings import Settings
from rqtui.text.sanitise import safe
from rqtui.tui.screens import registry
from rqtui.tui.services.copying import Copying

SOME = NAMES[:2] + NAMES[5:8]
every_system = pytest.mark.parametrize(
    "system",
    [each if each is SYSTEMS[0] else pytest.param(each, marks=pytest.mark.matrix) for each in SYSTEMS],
    ids=str,
)


def plant_queues(client: Redis, system: NamedSystem) -> tuple[str, ...]:
    """Plant queues with names of any bytes, as many as one command line can name; return the systems that see them."""
    Seeded(client).put("one")
    able = [name for name in SOME if can_be_named(system, name)]
    for name in able if system.is_seen else able[:1]:
        plant_named_queue(client, system, name)
    return ("native", *dict.fromkeys(system.spec(name) for name in (able if system.is_seen else able[:1])))


async def press_and_check(ui: Screen, *keys: str) -> None:
    for key in keys:
        await ui.press(key)
        check_painted_rows(ui)


@pytest.mark.slow
@every_system
def test_every_view_and_key_takes_such_a_queue(url: str, client: Redis, system: NamedSystem) -> None:
    systems = plant_queues(client, system)

    @run_on_event_loop
    async def run() -> None:
        async with screen(url, WIDE, systems=systems) as ui:
            await ui.until_shown("mail", safe(build_queue_name(system, SOME[0])))
            check_painted_rows(ui)
            await press_and_check(ui, "s", "s", '"', '"', "p", "p", "/", "escape", "y", "escape")
            await ui.press("/", '"\\x9b', "enter")
            await ui.until_shown(safe(build_queue_name(system, SOME[0])))
            keys = ("g", "enter", "1", "2", "3", "P", "y", "P", "y", "j", "enter", "c", "escape", "escape")
            await press_and_check(ui, *keys)
            await press_and_check(ui, "*", "D", "escape", "escape", "N", "escape", ":", "escape", "y", "n", "escape")
            await press_and_check(ui, "2", "g", "D", "y")
            await ui.pilot.pause(0.3)
            check_painted_rows(ui)
            await press_and_check(ui, "z", "y", "y", "o", "escape", "question_mark", "escape")
            assert ui.app.session.refresh_failure is None and ui.app.session.connection_loss is None

    run()


@pytest.mark.slow
@run_on_event_loop
async def test_every_side_view_shows_such_queues(url: str, client: Redis) -> None:
    for system in SYSTEMS:
        if system.is_seen:
            for each in NAMES:
                plant_named_queue(client, system, each)
    Seeded(client).put("one")
    async with screen(url, NARROW) as ui:
        await ui.until(lambda: len(ui.app.session.refs) > 2 * len(NAMES))
        check_painted_rows(ui)
        for name in registry.VIEWS:
            with name_case(name):
                await return_to_overview(ui)
                await open_view(ui, name)
                await press_and_check(ui, "j", "j", "c", "escape", "enter", "escape")
                assert ui.app.session.refresh_failure is None


@pytest.mark.slow
@run_on_event_loop
async def test_such_a_queue_is_chosen_in_the_palette_and_confirmed_by_the_name_that_is_shown(
    url: str, client: Redis
) -> None:
    client.lpush(b"\x9b", "a", "b")
    client.sadd(b"\x9b:done", "c")
    async with screen(Settings(url, ("safe_pop",), is_guarded=True)) as ui:
        await ui.until_shown("\\x9b")
        await ui.press(":", '"queue \\x9b', "enter")
        await ui.until(lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "board")
        await ui.press("*", "D")
        await ui.until_shown("type \\x9b")
        ui.app.screen.query_one("#guard-word").focus()
        await ui.press('"\\x9b', "enter", "enter")
        await ui.until(lambda: client.llen(b"\x9b") == 0 and ui.app.session.changes)
        assert convert_name_to_argument(b"\x9b") == ui.app.session.changes[-1].ref.queue


@run_on_event_loop
async def test_copies_of_such_a_queue_name_are_its_bytes(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.lpush(b"\x9b", "a")
    client.sadd(b"\x9b:done", "c")
    sent: list[bytes] = []
    monkeypatch.setattr(Copying, "_send_to_clipboard", lambda _self, clipboard_data: sent.append(clipboard_data.data))
    async with screen(url, systems=("safe_pop",)) as ui:
        await ui.until_shown("\\x9b")
        await ui.press("y", "i")
        await ui.until(lambda: sent)
        assert sent == [b"\x9b"]
