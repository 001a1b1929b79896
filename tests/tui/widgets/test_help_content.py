"""The help and the palette: made from the tables, this screen's keys first, and found by their words."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from redis import Redis
from screens import NARROW, WIDE, Seeded, read_text, run_on_event_loop, screen

from rqtui.connection.embedded import EmbeddedServer
from rqtui.text import formats
from rqtui.tui import keys
from rqtui.tui.widgets import help_content
from rqtui.tui.widgets.finder import Finder
from rqtui.tui.widgets.help_page import KeyGroup, KeyLine, arrange_key_groups, filter_key_groups
from rqtui.verbs import VERBS
from screenshots.seeded import NOW, open_still_app, seed_queues

SNAPSHOTS = Path(__file__).parents[2] / "snapshots"


def test_every_view_and_every_verb_with_a_key_is_in_the_help_once() -> None:
    groups = help_content.build_key_groups("board")
    names = [line.name for group in groups for line in group.lines]
    assert sorted(names) == sorted(
        [look.id for look in keys.list_general_keys()] + [verb.name for verb in VERBS if verb.key in keys.VERB_KEYS]
    )


@pytest.mark.parametrize("view", ["overview", "board", "job", "errors"])
def test_the_keys_of_this_screen_come_first(view: str) -> None:
    first = help_content.build_key_groups(view)[0]
    assert first.title == "On this screen"
    assert {line.name for line in first.lines} == {look.id for look in keys.GENERAL_KEYS if view in look.screens}


def test_keys_that_work_now_are_listed_first_and_once() -> None:
    groups = help_content.build_key_groups("board", {"kill", "filter", "mark"})
    assert groups[0].title == "On the current row"
    assert [line.name for line in groups[0].lines] == ["kill", "mark", "filter"]
    names = [line.name for group in groups for line in group.lines]
    assert len(names) == len(set(names)) and set(names) == {
        line.name for group in help_content.build_key_groups("board") for line in group.lines
    }


@pytest.mark.slow
@run_on_event_loop
async def test_the_help_begins_with_the_keys_that_work_for_what_is_under_the_cursor(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a")
    seeded.bury("d")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        for place, works, other in (("5", "requeue", "kill"), ("2", "kill", "requeue")):
            await ui.press(place)
            await ui.until_shown("1-1 of 1", f"{works}  D delete")
            await ui.press("question_mark")
            await ui.until_shown("On the current row")
            first = "\n".join(ui.text().splitlines()[1:9])
            assert works in first and "delete" in first and other not in first, place
            await ui.press("escape")


@pytest.mark.parametrize("width", [50, 70, 140, 200])
def test_no_line_of_the_help_is_wider_than_its_page(width: int) -> None:
    text = arrange_key_groups(help_content.build_key_groups("board"), width).plain
    assert max(map(formats.cell_len, text.splitlines())) <= width
    titles = {group.title for group in help_content.build_key_groups("board")}
    assert all(title in text for title in titles if len(title) < 40)


def test_the_search_finds_a_key_by_its_sign_its_words_or_its_name() -> None:
    groups = help_content.build_key_groups("board")

    def names(typed: str) -> set[str]:
        return {line.name for group in filter_key_groups(groups, typed) for line in group.lines}

    assert names("D") == {"delete"}
    assert "mark_loaded" in names("mark loaded")
    assert names("mark_loaded") == {"mark_loaded"}
    assert names("no such words") == set()
    assert filter_key_groups([KeyGroup("a", (KeyLine("j", "down"),))], "  ") == [KeyGroup("a", (KeyLine("j", "down"),))]


@pytest.mark.slow
@run_on_event_loop
async def test_the_help_is_searched_and_left_with_keys(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.press("question_mark")
        await ui.until_shown("On the current row")
        await ui.press("slash", '"memory')
        await ui.until_shown("the server: memory")
        assert "On the current row" not in ui.text()
        await ui.press("escape")
        await ui.until_shown("On the current row")
        await ui.press("G")
        await ui.until(lambda: "On the current row" not in ui.text(), "the end of the page")
        await ui.press("escape")
        await ui.until_shown("1 queue")
        assert ui.app.screen is ui.app.navigation.view


@run_on_event_loop
async def test_the_help_of_a_narrow_terminal_can_be_read_to_its_last_line(url: str, client: Redis) -> None:
    async with screen(url, (60, 16)) as ui:
        await ui.press("question_mark")
        last = help_content.build_key_groups("overview")[-1].lines[-1]
        await ui.press("G")
        await ui.until_shown(last.words[:30])


@run_on_event_loop
async def test_the_palette_has_the_verbs_here_every_view_and_the_lock(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("enter")
        await ui.until_shown("2 ready", "send")
        titles = [command.title for command in ui.app.palette.list_commands()]
        assert {"purge", "delete", "reschedule", "lock now", "keys", "theme", "quit"} <= set(titles)
        assert {look.label for look in keys.GENERAL_KEYS if look.action.startswith("open_view")} <= set(titles)
        assert [title for title in titles if titles.count(title) > 1] == [], "two commands with one name"
        words = {word.name for word in ui.app.palette.argument_commands}
        assert {"interval", "theme", "filter", "url", "queue", "view"} <= words


@pytest.mark.slow
@run_on_event_loop
async def test_a_command_of_the_palette_does_what_its_key_does(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await ui.press("colon")
        await ui.until(lambda: isinstance(ui.app.screen, Finder), "the palette")
        await ui.press('"metrics')
        await ui.until_shown("throughput, failures")
        await ui.press("enter")
        await ui.until(
            lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "metrics", "the metrics"
        )


@pytest.mark.slow
@run_on_event_loop
async def test_markup_and_escapes_in_the_name_of_a_queue_are_letters_in_the_palette(url: str, client: Redis) -> None:
    Seeded(client, "[red]x[/red]").put("a")
    async with screen(url) as ui:
        await ui.until_shown("[red]x")
        await ui.press("colon")
        await ui.until(lambda: isinstance(ui.app.screen, Finder), "the palette")
        await ui.press('"queue [')
        await ui.until_shown("queue [red]x[/red]")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("help-board-160x45", WIDE), ("palette-80x24", NARROW)])
def test_it_matches_its_snapshot(
    real_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, name: str, size: tuple[int, int]
) -> None:
    monkeypatch.setattr("time.time", lambda: NOW / 1000)
    with Redis.from_url(real_server.url) as client:
        seed_queues(client)
    pressed = ("mail", "question_mark") if name.startswith("help") else ("mail", "colon")

    async def look() -> str:
        async with open_still_app(real_server.url, size, pressed) as app:
            return read_text(app)

    text = asyncio.run(look()) + "\n"
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("RQTUI_WRITE_SNAPSHOTS"):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


def test_the_help_explains_why_a_system_lacks_a_verb() -> None:
    lines = [
        line
        for group in help_content.build_key_groups("board", missing_verbs={"pause": "s: it cannot"})
        for line in group.lines
    ]
    assert [line.more for line in lines if line.name == "pause"] == ["s: it cannot"]
    assert all("cannot" not in line.more for line in lines if line.name != "pause")


def test_a_verb_has_the_word_of_the_systems_users_and_beside_it_that_of_the_shell() -> None:
    groups = help_content.build_key_groups("board", {"requeue"}, verb_labels={"requeue": "retry", "kill": "cancel"})
    lines = {line.name: (line.words.strip(), line.more) for group in groups for line in group.lines}
    assert lines["requeue"] == ("retry", "requeue: dead, done")
    assert lines["kill"] == ("cancel", "kill: scheduled, ready · asks first")
    assert lines["delete"][0] == "delete" and not lines["delete"][1].startswith("delete:")
