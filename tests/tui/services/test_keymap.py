"""Test the keymap of the config file: accepted keys, reported errors, and that footer and help follow it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from screens import Seeded, run_on_event_loop, screen
from textual.binding import Binding

from rqtui.config.file import parse_config_text
from rqtui.config.settings import Settings
from rqtui.tui import keys
from rqtui.tui.app import Cockpit
from rqtui.tui.services.keymap import ValidatedKeymap, list_movable_bindings, map_keymap_names_to_ids, validate_keymap
from rqtui.verbs import VERBS


@pytest.fixture(autouse=True)
def _no_keymap_afterwards() -> Iterator[None]:
    yield
    keys.set_keymap({})


def parse_keymap(text: str) -> ValidatedKeymap:
    config = parse_config_text(Path("config.toml"), f"[keymap]\n{text}\n")
    assert not config.problems
    return validate_keymap(config.keymap, config)


def test_a_binding_is_named_by_its_look_by_its_verb_or_by_its_id() -> None:
    assert parse_keymap('workers = "W"').keymap == {"workers": "W"}
    assert parse_keymap('delete = "ctrl+d"').keymap == {"verb_D": "ctrl+d"}
    assert parse_keymap('"table.mark" = "m,ctrl+t"').problems  # m is taken
    assert parse_keymap('mark = "ctrl+t"').keymap == {"table.mark": "ctrl+t"}


def test_a_sign_may_be_written_as_itself() -> None:
    assert parse_keymap('sort = "~"').keymap == {"sort": "tilde"}


def test_a_key_that_is_taken_is_reported_with_its_line_and_the_others_are_bound() -> None:
    keymap = parse_keymap('workers = "e"\nfilter = "~"')
    assert keymap.keymap == {"filter": "tilde"}
    (problem,) = keymap.problems
    assert problem == 'config.toml:2: keymap.workers: "e" is taken by "errors" already.'


def test_the_first_of_two_bindings_for_one_key_applies() -> None:
    keymap = parse_keymap('workers = "W"\nerrors = "W"')
    assert keymap.keymap == {"workers": "W"}
    assert "config.toml:3" in keymap.problems[0]


def test_two_bindings_may_change_places() -> None:
    keymap = parse_keymap('workers = "e"\nerrors = "w"')
    assert keymap.keymap == {"workers": "e", "errors": "w"}
    assert not keymap.problems


def test_bindings_of_different_screens_may_share_a_key() -> None:
    assert not parse_keymap('sort = "c"').problems, "c reveals on the job's page, sort is elsewhere"


def test_an_unknown_binding_and_an_unknown_key_are_reported_with_the_nearest() -> None:
    assert 'no binding "wokers". Did you mean "workers"?' in parse_keymap('wokers = "W"').problems[0]
    assert 'no key "hyper"' in parse_keymap('workers = "hyper"').problems[0]


def test_no_read_and_no_verb_share_a_name() -> None:
    looks = {look.id for look in keys.GENERAL_KEYS}
    assert not [verb.name for verb in VERBS if verb.key and verb.name in looks]
    assert set(map_keymap_names_to_ids().values()) <= set(list_movable_bindings())


def test_every_binding_that_can_be_moved_is_one_of_the_app_or_of_what_it_opens() -> None:
    ids = {binding.id for binding in keys.build_app_bindings()} | {
        binding.id for view in keys.LISTS for binding in keys.build_tab_bindings(view)
    }
    loose = [id for id in list_movable_bindings() if id not in ids and "." not in id]
    assert not loose


@pytest.mark.slow
@run_on_event_loop
async def test_a_mapped_key_works_the_old_one_does_nothing_and_the_footer_and_the_help_show_it(
    url: str, client: Redis
) -> None:
    Seeded(client).put("a")
    keymap = {"pause": "ctrl+t", "filter": "~", "mark": "m", "metrics": "B"}
    async with screen(Settings(url, keymap=keymap), (120, 40)) as ui:
        await ui.until_shown("mail", "Ctrl+T pause", "~ filter")
        await ui.press("P")
        await ui.press("ctrl+t", "y")
        await ui.until_toast("pause")
        await ui.until_shown("paused")
        await ui.press("enter", "m")
        await ui.until_shown("◆a")
        await ui.press("question_mark")
        await ui.until_shown("On the current row")
        assert re.search(r"│ m +mark the job", ui.text())


@run_on_event_loop
async def test_a_keymap_with_an_error_opens_the_screen_and_reports_it(url: str, client: Redis, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[keymap]\nworkers = "e"\n')
    settings = Settings(url, keymap=parse_config_text(config, config.read_text()).keymap, config=str(config))
    async with screen(settings) as ui:
        await ui.until_toast("config.toml:2", 'taken by "errors"')
        await ui.press("e")
        await ui.until(
            lambda: ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "errors", "the errors"
        )


def test_sentences_name_the_keys_of_the_keymap() -> None:
    keys.set_keymap({"enqueue": "ctrl+n", "verb_N": "ctrl+n", "reaper": "f2", "verb_R": "U", "back": "backspace"})
    assert (
        keys.apply_keymap("no queues yet: Esc, then N enqueues a job")
        == "no queues yet: Backspace, then Ctrl+N enqueues a job"
    )
    assert keys.apply_keymap(". starts the reaper") == "F2 starts the reaper"
    assert keys.apply_keymap("e groups them, R requeues them") == "e groups them, U requeues them"
    assert keys.apply_keymap("A drip is going on. It ends.") == "A drip is going on. It ends."
    keys.set_keymap({})
    assert keys.apply_keymap("Esc, then N") == "Esc, then N"


@pytest.mark.slow
@run_on_event_loop
async def test_empty_panes_findings_and_questions_name_the_keys_of_the_keymap(url: str, client: Redis) -> None:
    here = Seeded(client)
    here.put("one")
    here.engine.apply_verb("pause", here.ref, ())
    settings = Settings(
        url, keymap=parse_keymap('resume = "ctrl+u"\nundo = "Z"\nfilter = "~"\nenqueue = "ctrl+n"').keymap
    )
    async with screen(settings) as ui:
        await ui.until_shown("paused", "Ctrl+U resume")
        await ui.press("tilde", *"nothing")
        await ui.until_shown("no queue matches: ~ changes the filter")
        await ui.press("enter")
        await ui.until_shown("no job that was read matches: ~ searches for something else")
        await ui.press("escape", "enter", "2", "D")
        await ui.until_shown("Z undoes it")
        await ui.press("escape", "escape")
        here.engine.apply_verb("delete", here.ref, here.jobs("ready"))
        await ui.press("enter", "2")
        await ui.until_shown("no job is ready: Ctrl+N enqueues one")


def test_textual_finds_nothing_to_object_to_in_a_granted_keymap() -> None:
    keymap = parse_keymap('workers = "e"\nerrors = "w"\ndelete = "ctrl+d"')
    app = Cockpit(Settings())
    assert not app._bindings.copy().apply_keymap(dict(keymap.keymap)).clashed_bindings


@run_on_event_loop
async def test_a_key_that_the_app_bound_later_is_reported_once_however_many_keys_are_pressed(
    url: str, client: Redis
) -> None:
    async with screen(Settings(url, keymap={"workers": "W"})) as ui:
        ui.app._bindings.key_to_bindings["W"] = [Binding("W", "bell", "bell")]
        await ui.press("j", "k", "j", "k")
        await ui.until_toast("W (bell)")
        assert len([toast for toast in ui.toasts if "W (bell)" in toast]) == 1
        assert len(ui.app._notifications) == 1
