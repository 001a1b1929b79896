"""Every view in every terminal: from 60×16 to 250×70 and below, in 24 bits, in 16 colours, without any."""

from __future__ import annotations

import os
import re
import signal
import sys

import pytest
from families import name_case
from hostile_text import find_foreign_control_characters
from ptys import run_in_pty
from redis import Redis
from screens import VIEW_KEYS, Screen, Seeded, check_painted_rows, run_on_event_loop, screen
from tmux import RQTUI, Terminal, small  # noqa: F401
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.tui.format import theme
from rqtui.tui.screens import registry

SIZES = ((60, 16), (80, 24), (120, 35), (160, 45), (250, 70))
MARKS = {
    (80, 24): pytest.mark.matrix,
    (250, 70): pytest.mark.matrix,
    (120, 35): pytest.mark.long,
    (160, 45): pytest.mark.long,
}  # the smallest: a plain run
TOO_SMALL = ((59, 16), (60, 11), (20, 5), (1, 1))


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    new_seeded = Seeded(client)
    new_seeded.bury("d1", "d2")
    new_seeded.put("a1", "a2", "日本-a3")
    new_seeded.put("later", delay_ms=3_600_000)
    new_seeded.reserve(1)
    return new_seeded


async def walk(ui: Screen) -> list[str]:
    """Open every view, check each screen, and return the texts of the screens."""
    shown = []
    await ui.until_shown("mail")
    await ui.until_refreshed()
    check_painted_rows(ui)
    shown.append(ui.text())
    await ui.press("enter")
    await ui.until_refreshed()
    check_painted_rows(ui)
    shown.append(ui.text())
    await ui.press("enter")
    check_painted_rows(ui)
    shown.append(ui.text())
    await ui.press("escape")
    for name in registry.VIEWS:
        await ui.press(VIEW_KEYS[name])
        await ui.until(lambda: ui.app.navigation.view is not None and name == ui.app.navigation.view.NAME, name)  # noqa: B023
        await ui.until_refreshed()
        check_painted_rows(ui)
        shown.append(ui.text())
    for key in ("question_mark", "colon", "y"):
        await ui.press(key)
        await ui.pilot.pause()
        check_painted_rows(ui)
        await ui.press("escape")
    return shown


def test_every_view_has_its_key_here() -> None:
    assert list(VIEW_KEYS) == list(registry.VIEWS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [pytest.param(each, marks=MARKS.get(each, ())) for each in SIZES],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def test_every_view_fits_the_terminal(url: str, seeded: Seeded, size: tuple[int, int]) -> None:
    @run_on_event_loop
    async def run() -> None:
        async with screen(url, size) as ui:
            for text in await walk(ui):
                lines = text.splitlines()
                assert lines[0].strip() and lines[-1].strip(), f"header and footer stand:\n{text}"
                assert "keys" in lines[-1], f"the way to the help is always there:\n{text}"

    run()


@pytest.mark.slow
@run_on_event_loop
async def test_below_60_by_12_there_is_a_sentence_and_q_works(url: str, seeded: Seeded) -> None:
    async with screen(url, (80, 24)) as ui:
        await ui.press("enter")
        for width, height in TOO_SMALL:
            with name_case(f"{width}x{height}"):
                await ui.press("D")
                await ui.pilot.resize_terminal(width, height)
                await ui.pilot.pause()
                await ui.press("escape")
                if width > 10:
                    await ui.until(lambda: "This terminal is" in " ".join(ui.text().split()), "the sentence")
                await ui.press("q")
                await ui.pilot.resize_terminal(80, 24)
                await ui.until_shown("queues", "mail", "keys")
                check_painted_rows(ui)
                await ui.press("enter")
                await ui.until_shown("a2", "keys")
                check_painted_rows(ui)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        theme.ANSI,
        pytest.param(theme.LIGHT, marks=pytest.mark.matrix),
        *(pytest.param(name, marks=pytest.mark.long) for name in ("textual-dark", "nord")),
    ],
)
def test_every_view_opens_in_every_kind_of_theme(url: str, seeded: Seeded, name: str) -> None:
    @run_on_event_loop
    async def run() -> None:
        async with screen(url, (120, 35), theme_name=name) as ui:
            assert len(await walk(ui)) == 3 + len(registry.VIEWS)

    run()


@pytest.mark.slow
@pytest.mark.real_terminal
def test_under_no_color_no_colour_is_sent_and_every_state_has_its_word(url: str, seeded: Seeded) -> None:
    with run_in_pty([sys.executable, "-m", "rqtui", url], 160, 45, NO_COLOR="1") as terminal:
        terminal.until(b"mail")
        for key in (b"\r", b"5", b"w", b"e", b"t", b"i"):
            terminal.press(key)
            terminal.read(0.4)
        terminal.press(b"\x1b")
        terminal.read(0.4)
        sent = terminal.output
        terminal.press(b"qqq")
    codes = {code for found in re.findall(rb"\x1b\[([\d;]*)m", sent) for code in found.split(b";")}
    assert not codes & {str(n).encode() for n in (*range(30, 38), *range(40, 48), *range(90, 108))}, codes
    assert not re.search(rb"\x1b\[[\d;]*[34]8;[25];", sent), "no colours of 256 or 24 bits"
    assert find_foreign_control_characters(sent) == b""
    for word in (b"scheduled", b"ready", b"reserved", b"dead"):
        assert word in sent


@run_on_event_loop
async def test_without_colours_the_cursor_a_mark_and_a_job_that_left_are_distinguished(url: str, client: Redis) -> None:
    seeded = Seeded(client)
    seeded.put("a1", "a2", "a3")
    async with screen(url, (80, 24), theme_name=theme.ANSI) as ui:
        await ui.press("enter", "space", "space")
        await ui.until_shown("2 marked")
        lines = ui.text().splitlines()
        rows = {key: next(line for line in lines if f"{key} " in line) for key in ("a1", "a2", "a3")}
        assert len(rows) == 3, ui.text()
        assert "◆" in rows["a1"] and "▌" not in rows["a1"]
        assert "▌" in rows["a3"] and "◆" not in rows["a3"]
        seeded.engine.apply_verb("delete", seeded.ref, [seeded.jobs("ready")[2]])
        await ui.until(lambda: any("×" in line and "a3" in line for line in ui.text().splitlines()), "a3 is gone")


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.real_terminal
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.matrix)],
    ids=lambda number: number.name,
)
def test_a_signal_gives_the_terminal_back_while_a_dialog_is_open(
    small: Terminal,  # noqa: F811
    url: str,
    client: Redis,
    number: int,
) -> None:
    Queue("mail", url).put({}, id="job-one")
    small.run(f"{RQTUI} {url}")
    small.until("mail", "write")
    small.keys("Enter")
    small.until("job-one")
    small.keys("D")
    small.until("cancel")
    os.kill(small.pid_of("rqtui"), number)
    small.until_back()
    assert client.zcard("rqtui:{mail}:ready") == 1


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.real_terminal
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_gives_the_terminal_back_during_a_change_of_many_jobs(
    small: Terminal,  # noqa: F811
    url: str,
    client: Redis,
    number: int,
) -> None:
    total = 60_000
    queue = Queue("mail", url)
    queue.put_many([{"body": {}, "id": f"j{number}"} for number in range(total)])
    others = {each["id"] for each in client.client_list()}
    small.run(f"{RQTUI} {url}")
    small.until("mail", "write")
    small.keys("Enter")
    small.until("j0")
    small.keys("*", "D")
    small.until("cancel")
    small.keys("y")
    wait_until(lambda: client.zcard("rqtui:{mail}:ready") < total, 20.0, "it began", every_s=0.005)
    os.kill(small.pid_of("rqtui"), number)
    small.until_back()
    wait_until(lambda: not {each["id"] for each in client.client_list()} - others, 20.0, "its connections are closed")
    left = client.zcard("rqtui:{mail}:ready")
    assert client.hlen("rqtui:{mail}:jobs") == left, "each job is whole or gone"


@pytest.mark.slow
def test_a_terminal_that_says_dumb_still_gets_text(url: str, seeded: Seeded) -> None:
    with run_in_pty([sys.executable, "-m", "rqtui", url], TERM="dumb", LANG="C.UTF-8") as terminal:
        terminal.until(b"mail")
        terminal.press(b"q")
        assert terminal.until_ended() == 0
