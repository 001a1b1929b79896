"""Thousands of hostile bodies: no control byte of data reaches the terminal, wherever data is shown, and no row breaks.

All of them go through the functions that every place of the screen draws with; some hundreds through whole screens,
whose painted cells are judged, through a real terminal's bytes, and through what the command line prints.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import pytest
from families import name_case
from hostile_text import (
    build_hostile_body,
    build_hostile_id,
    build_hostile_text,
    find_foreign_control_characters,
    find_harmful_character,
)
from ptys import run_in_pty
from redis import Redis
from rich.cells import cell_len
from screens import NARROW, WIDE, check_painted_rows, open_view, return_to_overview, run_on_event_loop, screen
from shell import shell

from rqtui.client.queue import Queue
from rqtui.model import Attempt, Job, State
from rqtui.testing import keyspace
from rqtui.text import formats
from rqtui.text.body import render_body
from rqtui.text.sanitise import safe, safe_lines
from rqtui.tui.format import copy_formats
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.screens import registry
from rqtui.tui.terminal.ascii_filter import to_ascii

MANY = pytest.mark.parametrize("many", [1_000, pytest.param(10_000, marks=pytest.mark.matrix)])
SHOWN = 240  # that are put into a real queue


@MANY
def test_thousands_of_bodies_are_shown_without_a_control_byte(many: int) -> None:
    source = random.Random(1)
    for number in range(many):
        raw = build_hostile_body(source)
        shown = render_body(raw, 4096).text
        assert not find_harmful_character(shown), (number, raw, find_harmful_character(shown))


@pytest.mark.slow
@MANY
def test_thousands_of_names_and_errors_keep_to_their_cells(many: int) -> None:
    source = random.Random(2)
    columns = [Column("a", "a"), Column("b", "b")]
    for number in range(many):
        raw = build_hostile_text(source)
        width = source.randint(1, 40)
        line = safe(raw)
        for shown in (
            line,
            formats.fit_to_width(line, width),
            formats.shorten_job_id(raw, width),
            formats.elide_middle(line, width),
        ):
            assert not find_harmful_character(shown, ""), (number, raw, shown)
        assert cell_len(formats.fit_to_width(line, width)) == width, (number, raw)
        assert cell_len(formats.shorten_job_id(raw, width)) <= width, (number, raw)
        assert all(
            not find_harmful_character(each, "") and cell_len(each) <= width
            for each in formats.wrap_to_width(line, width)
        ), (
            number,
            raw,
        )
        assert all(not find_harmful_character(each, "") for each in safe_lines(raw)), (number, raw)
        assert safe(raw, ascii_only=True) == safe(safe(raw, ascii_only=True), ascii_only=True)
        tsv = copy_formats.convert_table_rows(columns, [Row(b"1", (raw, raw))]).data.decode()
        assert not find_harmful_character(tsv, "\n\t") and tsv.count("\n") == 1 and tsv.count("\t") == 2, (number, raw)
        assert find_harmful_character(to_ascii(line), "") == "" and to_ascii(line).isascii(), (number, raw)


@MANY
def test_copies_of_many_jobs_are_ascii_where_a_shell_or_a_reader_meets_them(many: int) -> None:
    from rqtui.systems import registry as systems

    source = random.Random(3)
    where = copy_formats.JobSource(systems.create_system("native"), "mail", "redis://localhost")
    for number in range(many // 10):
        raw = build_hostile_body(source)
        attempt = Attempt(0, 1, build_hostile_text(source, 2), build_hostile_text(source, 2))
        job = Job(
            build_hostile_id(source, number), "mail", "native", "dead", State.DEAD, b"", body=raw, body_bytes=len(raw),
            error=build_hostile_text(source, 2), worker=build_hostile_text(source, 2), history=(attempt,),
        )  # fmt: skip
        document = copy_formats.format_jobs_as_json([job], where)
        assert document.isascii() and json.loads(document)["body"]["bytes"] == len(raw)
        assert not find_harmful_character(copy_formats.format_job_ids([job], where).decode())
        assert not find_harmful_character(copy_formats.format_redis_cli_lines([job], where).decode(), "")
        python = copy_formats.format_python_program([job], where).decode()
        assert python.isascii() and compile(python, "copied", "exec")


# ── whole screens ────────────────────────────────────────────────────────────────────────────────────────────


PLANTED: keyspace.Keyspace = {}  # what the first test of this process has put there


@pytest.fixture
def hostile_queue(client: Redis, url: str) -> Queue:
    """Plant a queue of hostile jobs in every place, with hostile errors and workers."""
    queue = Queue("[red]q\u0301日", url)
    if not PLANTED:
        _fill(queue)
        PLANTED.update(keyspace.dump(client))
    else:
        keyspace.plant(client, PLANTED)
    return queue


def _fill(queue: Queue) -> None:
    source = random.Random(4)
    for number in range(SHOWN):
        name = "".join(letter for letter in build_hostile_text(source, 2) if letter.isprintable())[:40]
        options: dict[str, Any] = {"delay": "1h"} if number % 5 == 0 else {}
        queue.put(build_hostile_body(source), id=build_hostile_id(source, number), name=name, **options)
    for number in range(SHOWN // 3):
        (job,) = queue.reserve(1, worker=_worker(source))
        if number % 4 == 0:
            job.ack(keep="1h")
        elif number % 4 == 1:
            job.reject(build_hostile_text(source), final=True)
        elif number % 4 == 2:
            job.reject(build_hostile_text(source), delay="1h")


def _worker(source: random.Random) -> str:
    text = "".join(letter for letter in build_hostile_text(source, 2) if ord(letter) >= 0x20 and letter != "\x7f")
    return text.encode()[:60].decode("utf-8", "ignore") or "w"


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [pytest.param(NARROW, id="80x24"), pytest.param(WIDE, id="160x45", marks=pytest.mark.long)],
)
def test_hundreds_of_hostile_jobs_on_every_page_of_the_board(
    url: str, hostile_queue: Queue, size: tuple[int, int]
) -> None:
    @run_on_event_loop
    async def run() -> None:
        async with screen(url, size, read_only=True) as ui:
            await ui.until_shown("[red]q")
            check_painted_rows(ui)
            await ui.press("enter")
            for place in "12345":
                await ui.press(place)
                await ui.until_refreshed()
                check_painted_rows(ui)
                for _ in range(4):
                    await ui.press("pagedown")
                    await ui.pilot.pause()
                    check_painted_rows(ui)
            await ui.press("2", "g")
            for _ in range(12):
                await ui.press("enter")
                check_painted_rows(ui)
                await ui.press("c")
                check_painted_rows(ui)
                await ui.press("escape", "j")
            await ui.press("y")
            check_painted_rows(ui)
            await ui.press("t")
            await ui.until_toast("sent 1 row")
            check_painted_rows(ui)

    run()


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [pytest.param(NARROW, id="80x24"), pytest.param(WIDE, id="160x45", marks=pytest.mark.matrix)],
)
@run_on_event_loop
async def test_hostile_names_on_every_side_view(url: str, hostile_queue: Queue, size: tuple[int, int]) -> None:
    async with screen(url, size, read_only=True) as ui:
        for name in registry.VIEWS:
            with name_case(name):
                await return_to_overview(ui)
                await ui.until_shown("[red]q")
                await open_view(ui, name)
                await ui.until_refreshed()
                check_painted_rows(ui)
                for key in ("j", "j", "enter"):
                    await ui.press(key)
                    await ui.pilot.pause()
                    check_painted_rows(ui)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, pytest.param(8, marks=pytest.mark.matrix)])
@run_on_event_loop
async def test_hostile_names_in_questions_and_toasts(url: str, hostile_queue: Queue, rows: int) -> None:
    async with screen(url, NARROW) as ui:
        for change in ("D", "K", "C", "N"):
            with name_case(change):
                await return_to_overview(ui)
                await ui.until_shown("[red]q")
                await ui.press("enter")
                await ui.until_refreshed()
                for _ in range(rows):
                    await ui.press(change)
                    await ui.pilot.pause()
                    check_painted_rows(ui)
                    if change in "DK":
                        await ui.press("tab", "tab", "y")
                        await ui.pilot.pause(0.1)
                        check_painted_rows(ui)
                    await ui.press("escape", "escape") if ui.app.screen is not ui.app.navigation.view else None
                    if ui.app.navigation.view is not None and ui.app.navigation.view.NAME == "overview":
                        await ui.press("enter")
                    await ui.press("j")


@pytest.mark.slow
@pytest.mark.real_terminal
def test_no_control_byte_of_hundreds_of_jobs_is_in_what_the_terminal_gets(url: str, hostile_queue: Queue) -> None:
    with run_in_pty([sys.executable, "-m", "rqtui", "--read-only", url], 160, 45) as terminal:
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
    assert find_foreign_control_characters(shown) == b"", find_foreign_control_characters(shown)
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
            assert not find_harmful_character(ran.out), (words, find_harmful_character(ran.out))
            assert not find_harmful_character(ran.err), (words, find_harmful_character(ran.err))
            assert ran.out or ran.err, words
