"""Hooks into Textual: all are on here, one switch turns them off, and where Textual differs the screen still works."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
import screens
from differing_textual import DIFFERENCES, apply_difference
from ptys import run_in_pty
from redis import Redis
from screens import WIDE, Screen, Seeded, run_on_event_loop, screen
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.widgets import Static

from rqtui.config.settings import Settings
from rqtui.tui.app import Cockpit
from rqtui.tui.terminal import border_title, hooks, raw_output, screen_text, scroll_length, style_cache, uncaught_error
from rqtui.tui.terminal.hooks import has_parameters, is_hook_usable
from rqtui.tui.widgets.table import Table


def _table(app: App[Any]) -> Table:
    return app.screen.query(Table).first()


IS_ON: dict[str, Callable[[App[Any]], bool]] = {
    "driver": lambda app: app.driver_class is not LinuxDriver,
    "diff_output": lambda app: "_display" in vars(app),
    "typeahead": lambda app: "on_event" in vars(app),
    "uncaught_error": lambda app: "_fatal_error" in vars(app),
    "style_cache": lambda _app: is_hook_usable(style_cache.supports_installed_textual),
    "border_title": lambda app: is_hook_usable(border_title.supports_installed_textual, _table(app), "border_title"),
    "scroll_length": lambda app: is_hook_usable(scroll_length.supports_installed_textual, _table(app)),
    "line_cache": lambda app: type(_table(app)._styles_cache).__name__ == "CachedLines",
    "screen_text": lambda app: screen_text.is_screen_readable(app.screen),
    "raw_output": lambda app: raw_output.find_terminal_writer(app) is not None,
}


async def _use_screen(ui: Screen, client: Redis) -> set[str]:
    """Open a board, look at it and delete a job, and return the hooks that were on."""
    mail = Seeded(client)
    await ui.until_shown("mail")
    await ui.press("enter")
    await ui.until_shown("a00", "40")
    on = {name for name, is_on in IS_ON.items() if is_on(ui.app)}
    await ui.press("j", "j", "k", "G")
    await ui.until_shown("a39")
    await ui.press("g", "D", "y")
    await ui.until(lambda: "a00" not in mail.ids("ready"), "the job was deleted")
    await ui.press("j")

    def ids() -> str:  # without the toast, which names the job
        return "\n".join(line[:20] for line in ui.text().splitlines())

    await ui.until(lambda: "a01" in ids() and "a00" not in ids() and "of 39" in ui.text(), "the job is gone")
    return on


def _forty(client: Redis) -> None:
    Seeded(client).put(*(f"a{number:02}" for number in range(40)))


@pytest.mark.slow
@pytest.mark.hooks
@run_on_event_loop
async def test_every_hook_is_on_here(url: str, client: Redis) -> None:
    _forty(client)
    async with screen(url) as ui:
        assert await _use_screen(ui, client) == IS_ON.keys() == DIFFERENCES.keys()


@pytest.mark.slow
@run_on_event_loop
async def test_one_switch_turns_all_of_them_off(url: str, client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hooks.SWITCH, "1")
    _forty(client)
    async with screen(url) as ui:
        assert await _use_screen(ui, client) == set()


@pytest.mark.slow
@pytest.mark.hooks
@pytest.mark.parametrize(
    "hook",
    [
        hook if hook in ("typeahead", "diff_output") else pytest.param(hook, marks=pytest.mark.matrix)
        for hook in DIFFERENCES
    ],
)
def test_where_textual_differs_the_screen_works_without_that_hook(
    hook: str, url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forty(client)
    apply_difference(hook, monkeypatch)
    if hook == "screen_text":
        monkeypatch.setattr(
            screens, "read_text", lambda app: "\n".join(s.text for s in app.screen._compositor.strips())
        )

    async def run() -> None:
        async with screen(url) as ui:
            assert await _use_screen(ui, client) == IS_ON.keys() - {hook}

    asyncio.run(asyncio.wait_for(run(), screens.HANGS_S))


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["driver", "diff_output"])
def test_where_textual_differs_a_terminal_is_drawn_to_and_read(hook: str, url: str, client: Redis) -> None:
    _forty(client)
    with run_in_pty([sys.executable, "-m", "differing_textual", hook, url], PYTHONPATH="tests/support") as terminal:
        terminal.until(b"mail")
        terminal.press(b"\r")
        terminal.until(b"a05")
        terminal.press(b"G")
        terminal.until(b"a39")
        terminal.press(b"qq")
        assert terminal.until_ended() == 0


@run_on_event_loop
async def test_without_its_lines_the_screen_is_not_offered_for_a_copy(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forty(client)
    async with screen(url) as ui:
        await ui.until_shown("mail")
        monkeypatch.setenv(hooks.SWITCH, "1")
        await ui.press("y")
        await ui.until_shown("name of the queue", "the list (1 row)")
        assert "the screen" not in ui.text()


@pytest.mark.slow
@run_on_event_loop
async def test_without_a_way_to_the_terminal_textual_copies(
    url: str, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(hooks.SWITCH, "1")
    _forty(client)
    async with screen(url) as ui:
        await ui.press("enter", "y", "i")
        await ui.until_toast("sent 1 id (3 bytes) to the terminal")
        assert ui.app.clipboard == "a00"


class Faulty(App[None]):
    """Falls over at once; its driver writes nothing."""

    def on_mount(self) -> None:
        password = "hunter2"
        raise RuntimeError(f"a fault of {len(password)}")


@pytest.mark.parametrize("is_debug", [False, True])
def test_without_its_hook_a_fault_shows_variables_only_on_request(
    is_debug: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(hooks.SWITCH, "1")
    app = Faulty()
    uncaught_error.install_error_output(app, str, is_debug)
    app.run(headless=True)
    error_text = capsys.readouterr().err
    assert app.return_code == 1
    assert ("hunter2" in error_text) is is_debug
    assert (error_text.split() == uncaught_error.FIXED_SENTENCE.split()) is not is_debug


@pytest.mark.slow
@pytest.mark.hooks
@run_on_event_loop
async def test_cached_lines_of_widgets_equal_freshly_drawn_ones(url: str, client: Redis) -> None:
    _forty(client)
    async with screen(url, WIDE) as ui:
        await ui.until_shown("mail")
        for key in ("", "j", "/", "a", "escape", "enter", "j", "space", "2", "G", "p", "escape", "x", "e", "escape"):
            await ui.press(*filter(None, [key]))
            await ui.until_refreshed()
            compositor = ui.app.screen._compositor
            strips = [list(strip) for strip in compositor.render_strips()]
            for widget in ui.app.screen.walk_children(with_self=True):
                widget._styles_cache.clear()  # type: ignore[attr-defined]
            assert [list(strip) for strip in compositor.render_strips()] == strips, key


# ── what a hook asks for ─────────────────────────────────────────────────────────────────────────────────────


def test_the_parameters_of_a_function_are_listed_by_name_and_order() -> None:
    def usual(self: object, one: int, two: int = 2) -> None: ...
    def open_(*given: object, **named: object) -> None: ...

    assert (
        has_parameters(usual, "one")
        and has_parameters(usual, "one", "two")
        and has_parameters(open_)
        and has_parameters(open_, "one")
    )
    assert (
        not has_parameters(usual)
        and not has_parameters(usual, "two", "one")
        and not has_parameters(usual, "one", "two", "three")
    )
    assert has_parameters(Static().refresh) and not has_parameters(len, "thing")


def test_a_missing_name_of_textual_turns_a_hook_off_and_other_faults_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(hooks.SWITCH, raising=False)

    def missing() -> bool:
        return bool(App.no_such_thing)  # type: ignore[attr-defined]

    def broken() -> bool:
        raise RuntimeError

    assert not is_hook_usable(missing)
    with pytest.raises(RuntimeError):
        is_hook_usable(broken)


def test_an_app_that_was_given_another_driver_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(hooks.SWITCH, raising=False)
    monkeypatch.setattr(App, "get_driver_class", lambda _self: Static)
    assert Cockpit(Settings("redis://127.0.0.1:1")).driver_class is Static  # type: ignore[comparison-overlap]
