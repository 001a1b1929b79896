"""Test switching to another Redis while the screen is open, and palette commands with an argument."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from redis import Redis
from screens import Screen, Seeded, run_on_event_loop, screen

from rqtui.config.resolve import CommandLine, resolve_settings
from rqtui.config.settings import Settings
from rqtui.engine.ticker import ServerLost, SnapshotTaken
from rqtui.errors import UsageError
from rqtui.model import Focus
from rqtui.operations.journal import Circumstances
from rqtui.operations.rate_limit import Limits
from rqtui.tui.screens.overview import Overview
from rqtui.tui.services.profiles import remove_invalid_settings
from rqtui.tui.widgets.finder import Finder


def written(folder: Path, text: str) -> str:
    file = folder / "config.toml"
    file.write_text(text)
    return str(file)


async def command(ui: Screen, words: str) -> None:
    """Type words into the palette, and run the first command that is found."""
    await ui.press("colon")
    await ui.until(lambda: isinstance(ui.app.screen, Finder), "the palette")
    await ui.press(f'"{words}')
    await ui.until(lambda: ui.text().count(words[-5:]) > 1, "what was typed, and the command that was found")
    await ui.press("enter")
    await ui.until(lambda: not isinstance(ui.app.screen, Finder), "the palette closed")


async def wait_for_toast(ui: Screen, *words: str) -> None:
    """Wait for a toast with these words, wherever its lines are broken."""
    await ui.until(
        lambda: any(all(word in toast.replace("\n", "") for word in words) for toast in ui.toasts), f"{words} told"
    )


@pytest.mark.slow
@run_on_event_loop
async def test_the_palette_goes_over_to_another_profile(url: str, client: Redis, tmp_path: Path) -> None:
    Seeded(client).put("a", "b")
    config = written(tmp_path, f'[profiles.other]\nurl = "{url}/1"\nbadge = "PROD"\nread_only = true\n')
    async with screen(Settings(url, config=config)) as ui:
        await ui.until_shown("mail")
        await command(ui, "profile other")
        await wait_for_toast(ui, "profile other")
        await ui.until(lambda: ui.app.session.snapshot is not None, "a picture of the other")
        assert ui.app.session.settings.url == f"{url}/1"
        assert ui.app.session.settings.badge == "PROD" and ui.app.session.is_read_only
        assert not ui.app.session.refs
        assert isinstance(ui.app.navigation.view, Overview)
        assert "mail" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_a_switch_takes_a_person_from_a_board_to_the_overview_and_stops_the_loops(
    url: str, client: Redis, tmp_path: Path
) -> None:
    Seeded(client).put("a")
    config = written(tmp_path, f'[profiles.other]\nurl = "{url}/1"\n')
    async with screen(Settings(url, config=config)) as ui:
        await ui.until_shown("mail")
        loops = list(ui.app.session.loops.values())
        await ui.press("enter")
        await ui.press("space")
        ui.app.profiles.switch_to_profile("other")
        await ui.until(lambda: len(ui.app.screen_stack) == 1 and ui.app.session.snapshot is not None, "the overview")
        await ui.until(lambda: not any(loop.is_running for loop in loops), "the loops of before stopped")


@pytest.mark.slow
@run_on_event_loop
async def test_to_and_fro_there_is_one_overview_whatever_was_open_above_it(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        for _ in range(2):
            await ui.until_shown("mail")
            await ui.press("enter", "D")
            ui.app.profiles.switch_to_url(f"{url}/1")
            await ui.until(lambda: ui.app.session.snapshot is not None, "a picture of the empty one")
            await ui.until_shown("database 0 of this Redis has 1 queue")
            assert ui.app.screen_stack == [ui.app.navigation.view] and isinstance(ui.app.navigation.view, Overview)
            ui.app.profiles.switch_to_url(f"{url}/0")
            await ui.until(lambda: ui.app.session.snapshot is not None, "a picture of the first one")


@run_on_event_loop
async def test_a_profile_that_is_not_there_or_has_no_url_is_a_sentence_and_nothing_changes(
    url: str, client: Redis, tmp_path: Path
) -> None:
    config = written(tmp_path, "[profiles.empty]\nread_only = true\n")
    async with screen(Settings(url, config=config)) as ui:
        ticker = ui.app.session.ticker
        ui.app.profiles.switch_to_profile("nowhere")
        await wait_for_toast(ui, "no profile", "nowhere")
        ui.app.profiles.switch_to_profile("empty")
        await wait_for_toast(ui, "config.toml:1", "no url")
        assert ui.app.session.ticker is ticker


@run_on_event_loop
async def test_a_switch_keeps_the_session_read_only_that_was_begun_so(url: str, client: Redis, tmp_path: Path) -> None:
    config = written(tmp_path, f'[profiles.other]\nurl = "{url}/1"\n')
    async with screen(resolve_settings(CommandLine(url, config=config, read_only=True), {}).settings) as ui:
        ui.app.profiles.switch_to_profile("other")
        await ui.until(lambda: ui.app.session.snapshot is not None, "a picture")
        assert ui.app.session.is_read_only


@run_on_event_loop
async def test_a_broken_config_opens_the_screen_and_names_file_and_line(
    url: str, client: Redis, tmp_path: Path
) -> None:
    config = written(tmp_path, "calm = yes\n")
    async with screen(resolve_settings(CommandLine(url, config=config), {}).settings) as ui:
        await wait_for_toast(ui, "config.toml:1", "no TOML")
        await wait_for_toast(ui, "Changes are off")
        assert ui.app.session.is_read_only
        await ui.press("colon")
        await ui.pilot.pause(0.3)
        assert "unlock" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_words_with_an_argument_work_in_the_palette(url: str, client: Redis) -> None:
    Seeded(client).put("a", "b")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await command(ui, "interval 5s")
        assert ui.app.session.ticker.interval_s == 5
        await command(ui, "theme rqtui-light")
        assert ui.app.theme == "rqtui-light"
        await wait_for_toast(ui, 'theme = "rqtui-light"')
        await command(ui, "interval never")
        await wait_for_toast(ui, "interval", "never")
        await command(ui, "queue mail")
        await ui.until_shown("2 ready")


@pytest.mark.slow
@run_on_event_loop
async def test_the_palette_goes_over_to_a_url(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    async with screen(url) as ui:
        await ui.until_shown("mail")
        await command(ui, f"url {url}/1")
        await ui.until(lambda: ui.app.session.settings.url == f"{url}/1", "the other URL")
        await ui.until(lambda: ui.app.session.snapshot is not None, "a picture of the other")
        assert not ui.app.session.refs


@pytest.mark.slow
@run_on_event_loop
async def test_a_switch_asks_first_while_a_change_of_many_jobs_runs(url: str, client: Redis, tmp_path: Path) -> None:
    seeded = Seeded(client)
    seeded.bury(*(f"j{number}" for number in range(40)))
    config = written(tmp_path, f'[profiles.other]\nurl = "{url}/1"\n')
    async with screen(Settings(url, config=config)) as ui:
        await ui.until_shown("mail")
        ui.app.verb_starter.rate_limited.start_change(
            "requeue", [(seeded.ref, seeded.jobs("dead"))], {}, Limits(2.0), "", Circumstances()
        )
        await ui.until_shown("of 40 · 2/s", "X stop")
        ui.app.profiles.switch_to_profile("other")
        await ui.until_shown("Leave this Redis", "would stop here")
        await ui.press("n")
        assert ui.app.session.settings.url == url
        ui.app.profiles.switch_to_profile("other")
        await ui.until_shown("Leave this Redis")
        await ui.press("y")
        await ui.until(lambda: ui.app.session.settings.url == f"{url}/1", "the other Redis")
        await ui.until(lambda: ui.app.session.snapshot is not None, "its picture")
        assert isinstance(ui.app.screen, Overview) and not ui.app.verb_starter.format_progress()
    assert len(seeded.ids("dead")) > 10, "the drip ended with the switch"


@run_on_event_loop
async def test_late_replies_of_the_old_redis_are_ignored(url: str, client: Redis, tmp_path: Path) -> None:
    Seeded(client).put("a")
    config = written(tmp_path, f'[profiles.other]\nurl = "{url}/1"\n')
    async with screen(Settings(url, config=config)) as ui:
        await ui.until_shown("mail")
        old, picture = ui.app.session.ticker, ui.app.session.snapshot
        ui.app.profiles.switch_to_profile("other")
        assert picture is not None
        old.post(SnapshotTaken(picture, Focus()))
        old.post(ServerLost("gone", 0, 0))
        await ui.until(lambda: ui.app.session.snapshot is not None, "a picture of the other")
        await ui.until_refreshed()
        assert "mail" not in ui.text() and ui.app.session.connection_loss is None


@pytest.mark.slow
@run_on_event_loop
async def test_a_filter_typed_into_the_palette_holds_on_the_view(url: str, client: Redis) -> None:
    Seeded(client).put("a")
    Seeded(client, "other").put("b")
    async with screen(url) as ui:
        await ui.until_shown("mail", "other")
        await command(ui, "filter mail")
        await ui.until(lambda: "other" not in ui.text() and "mail" in ui.text(), "only what fits")


@run_on_event_loop
async def test_a_profile_brings_its_theme_and_its_interval(url: str, client: Redis, tmp_path: Path) -> None:
    config = written(tmp_path, f'[profiles.other]\nurl = "{url}/1"\ntheme = "rqtui-light"\ninterval = "7s"\n')
    async with screen(Settings(url, config=config)) as ui:
        ui.app.profiles.switch_to_profile("other")
        await ui.until(lambda: ui.app.session.snapshot is not None, "a picture")
        assert ui.app.theme == "rqtui-light"
        assert ui.app.session.ticker.interval_s == 7


def test_errors_of_a_profile_are_reported_and_left_out_and_those_of_the_command_line_are_refused(
    tmp_path: Path,
) -> None:
    config = written(tmp_path, '[profiles.a]\nurl = "redis://h"\nlayouts = ["nativ"]\ntheme = "nrod"\n')
    opened = remove_invalid_settings(resolve_settings(CommandLine(profile="a", config=config), {}).settings)
    assert opened.read_only and opened.systems == () and opened.theme == ""
    assert any("nativ" in problem for problem in opened.problems)
    assert any(f"{config}:4" in problem and "nord" in problem for problem in opened.problems)
    with pytest.raises(UsageError, match="nativ"):
        remove_invalid_settings(
            resolve_settings(CommandLine("redis://h", systems=("nativ",)), {"RQTUI_CONFIG": os.devnull}).settings
        )
