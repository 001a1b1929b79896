"""Ten thousand hostile bodies: no control byte of data reaches the terminal, wherever data is shown, and no row breaks.

All of them go through the functions that every place of the screen draws with; some hundreds through whole screens,
whose painted cells are judged, through a real terminal's bytes, and through what the command line prints.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import pytest
from hostile import body, commands, harm, id, text
from ptys import in_pty
from redis import Redis
from rich.cells import cell_len
from screens import NARROW, WIDE, Screen, on_screen, screen
from shell import shell

from rqtui.client import Queue
from rqtui.model import Attempt, Job, State
from rqtui.tui import copies, display, views
from rqtui.tui.ascii_look import ascii_of
from rqtui.tui.rows import Column, Row

MANY = 10_000
SHOWN = 240  # that are put into a real queue
VIEW_KEYS = {
    "workers": "w",
    "kinds": "b",
    "errors": "e",
    "events": "f",
    "metrics": "m",
    "loops": "t",
    "redis": "i",
    "operations": "o",
}


def test_ten_thousand_bodies_are_shown_without_a_control_byte() -> None:
    source = random.Random(1)
    for number in range(MANY):
        raw = body(source)
        shown = display.body_view(raw, 4096).text
        assert not harm(shown), (number, raw, harm(shown))


def test_ten_thousand_names_and_errors_keep_to_their_cells() -> None:
    source = random.Random(2)
    columns = [Column("a", "a"), Column("b", "b")]
    for number in range(MANY):
        raw = text(source)
        width = source.randint(1, 40)
        line = display.safe(raw)
        for shown in (line, display.fit(line, width), display.job_id(raw, width), display.elide_middle(line, width)):
            assert not harm(shown, ""), (number, raw, shown)
        assert cell_len(display.fit(line, width)) == width, (number, raw)
        assert cell_len(display.job_id(raw, width)) <= width, (number, raw)
        assert all(not harm(each, "") and cell_len(each) <= width for each in display.wrap(line, width)), (number, raw)
        assert all(not harm(each, "") for each in display.safe_lines(raw)), (number, raw)
        assert display.safe(raw, ascii_only=True) == display.safe(display.safe(raw, ascii_only=True), ascii_only=True)
        tsv = copies.rows(columns, [Row(b"1", (raw, raw))]).data.decode()
        assert not harm(tsv, "\n\t") and tsv.count("\n") == 1 and tsv.count("\t") == 2, (number, raw)
        assert harm(ascii_of(line), "") == "" and ascii_of(line).isascii(), (number, raw)


def test_copies_of_ten_thousand_jobs_are_ascii_where_a_shell_or_a_reader_meets_them() -> None:
    from rqtui import layouts

    source = random.Random(3)
    where = copies.Source(layouts.make("native"), "mail", "redis://localhost")
    for number in range(MANY // 10):
        raw = body(source)
        attempt = Attempt(0, 1, text(source, 2), text(source, 2))
        job = Job(
            id(source, number), "mail", "native", "dead", State.DEAD, b"", body=raw, body_bytes=len(raw),
            error=text(source, 2), worker=text(source, 2), history=(attempt,),
        )  # fmt: skip
        document = copies.as_json([job], where)
        assert document.isascii() and json.loads(document)["body"]["bytes"] == len(raw)
        assert not harm(copies.ids([job], where).decode())
        assert not harm(copies.redis_cli([job], where).decode(), "")
        python = copies.python([job], where).decode()
        assert python.isascii() and compile(python, "copied", "exec")


# ── whole screens ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hostile_queue(client: Redis, url: str) -> Queue:
    """A queue of hostile jobs in every place, with hostile errors and workers."""
    source = random.Random(4)
    queue = Queue("[red]q\u0301日", url)
    for number in range(SHOWN):
        name = "".join(letter for letter in text(source, 2) if letter.isprintable())[:40]
        options: dict[str, Any] = {"delay": "1h"} if number % 5 == 0 else {}
        queue.put(body(source), id=id(source, number), name=name, **options)
    for number in range(SHOWN // 3):
        (job,) = queue.reserve(1, worker=_worker(source))
        if number % 4 == 0:
            job.ack(keep="1h")
        elif number % 4 == 1:
            job.reject(text(source), final=True)
        elif number % 4 == 2:
            job.reject(text(source), delay="1h")
    return queue


def _worker(source: random.Random) -> str:
    made = "".join(letter for letter in text(source, 2) if ord(letter) >= 0x20 and letter != "\x7f")
    return made.encode()[:60].decode("utf-8", "ignore") or "w"


def judge(it: Screen) -> None:
    """Every painted row is as wide as the terminal, and holds nothing that commands it."""
    size = it.app.size
    strips = it.app.screen._compositor.render_strips()
    assert len(strips) == size.height
    for y, strip in enumerate(strips):
        row = "".join(segment.text for segment in strip if not segment.control)
        assert not harm(row, ""), (y, harm(row), row)
        assert not any(segment.control for segment in strip)
        assert cell_len(row) == size.width, (y, cell_len(row), row)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [pytest.param(NARROW, id="80x24"), pytest.param(WIDE, id="160x45", marks=pytest.mark.long)],
)
def test_hundreds_of_hostile_jobs_on_every_page_of_the_board(
    url: str, hostile_queue: Queue, size: tuple[int, int]
) -> None:
    @on_screen
    async def run() -> None:
        async with screen(url, size, read_only=True) as it:
            await it.until_shown("[red]q")
            judge(it)
            await it.press("enter")
            for place in "12345":
                await it.press(place)
                await it.until_refreshed()
                judge(it)
                for _ in range(4):
                    await it.press("pagedown")
                    await it.pilot.pause()
                    judge(it)
            await it.press("2", "g")
            for _ in range(12):
                await it.press("enter")
                judge(it)
                await it.press("c")
                judge(it)
                await it.press("escape", "j")
            await it.press("y")
            judge(it)
            await it.press("t")
            await it.until_told("sent 1 row")
            judge(it)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("name", views.VIEWS)
def test_hostile_names_on_every_side_view(url: str, hostile_queue: Queue, name: str) -> None:
    @on_screen
    async def run() -> None:
        for size in (NARROW, WIDE):
            async with screen(url, size, read_only=True) as it:
                await it.until_shown("[red]q")
                await it.press(VIEW_KEYS[name])
                await it.until(lambda: it.app.view is not None and name == it.app.view.NAME)
                await it.until_refreshed()
                await it.until_refreshed()
                judge(it)
                for key in ("j", "j", "enter"):
                    await it.press(key)
                    await it.pilot.pause()
                    judge(it)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("change", ["D", "K", "C", "N"])
def test_hostile_names_in_questions_and_toasts(url: str, hostile_queue: Queue, change: str) -> None:
    @on_screen
    async def run() -> None:
        async with screen(url, NARROW) as it:
            await it.until_shown("[red]q")
            await it.press("enter")
            await it.until_refreshed()
            for _ in range(4):
                await it.press(change)
                await it.pilot.pause()
                judge(it)
                if change in "DK":
                    await it.press("tab", "tab", "y")
                    await it.pilot.pause(0.1)
                    judge(it)
                await it.press("escape", "escape") if it.app.screen is not it.app.view else None
                if it.app.view is not None and it.app.view.NAME == "overview":
                    await it.press("enter")
                await it.press("j")

    run()


@pytest.mark.slow
@pytest.mark.real_terminal
def test_no_control_byte_of_hundreds_of_jobs_is_in_what_the_terminal_gets(url: str, hostile_queue: Queue) -> None:
    with in_pty([sys.executable, "-m", "rqtui", "--read-only", url], 160, 45) as terminal:
        terminal.until(b"[red]q")
        for key in (
            b"\r",
            b"5",
            b"2",
            b"\x1b[6~",
            b"\x1b[6~",
            b"\r",
            b"q",
            b"j",
            b"\r",
            b"q",
            b"1",
            b"3",
            b"\r",
            b"c",
            b"q",
        ):
            terminal.press(key)
            terminal.read(0.3)
        shown = terminal.output
        terminal.press(b"qq")
        terminal.until_ended()
    assert b"hunter2" not in shown
    assert commands(shown) == b"", commands(shown)
    assert b"\x1b]0;" not in shown and b"\x1b]52;" not in shown


# ── the command line ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_no_control_byte_is_printed_by_a_command(url: str, hostile_queue: Queue) -> None:
    name = hostile_queue.name
    lines = [["snapshot"], ["health"], ["check", name]]
    lines += [["jobs", name, place, "--limit", "100"] for place in ("scheduled", "ready", "reserved", "done", "dead")]
    listed = shell(url, "jobs", name, "ready", "--json").json["jobs"][:20]
    ids = [f"base64:{row['id']}" if row.get("id_encoding") else row["id"] for row in listed]
    lines += [["show", name, "--", each] for each in ids]
    for words in lines:
        for as_json in ((), ("--json",)):
            ran = shell(url, words[0], *as_json, *words[1:])
            assert not harm(ran.out), (words, harm(ran.out))
            assert not harm(ran.err), (words, harm(ran.err))
            assert ran.out or ran.err, words
