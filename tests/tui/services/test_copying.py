"""Copying: what `y` offers, that each form is right to the byte, and that it arrives outside of the terminal."""

from __future__ import annotations

import base64
import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ptys import run_in_pty
from redis import Redis
from screens import WIDE, Seeded, run_on_event_loop, screen
from tmux import ROOT, RQTUI, Terminal, small  # noqa: F401

from rqtui.client.queue import Queue
from rqtui.model import Job, State
from rqtui.systems import registry
from rqtui.text.masking import MASK
from rqtui.text.pieces import Piece
from rqtui.tui.format import copy_formats
from rqtui.tui.format.copy_formats import JobSource
from rqtui.tui.format.rows import Column, Row
from rqtui.tui.terminal import clipboard


@pytest.fixture
def seeded(client: Redis) -> Seeded:
    return Seeded(client)


def build_job(id: bytes = b"a1", body: bytes = b"{}", **more: object) -> Job:
    return Job(id, "mail", "native", "ready", State.READY, id, body=body, body_bytes=len(body), **more)  # type: ignore[arg-type]


def source(url: str = "redis://localhost:6379", system: str = "native", queue: str = "mail") -> JobSource:
    return JobSource(registry.create_system(system), queue, url)


# ── forms ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_id_that_a_shell_would_obey_is_quoted() -> None:
    jobs = [build_job(b"a1"), build_job(b"\xff\x00"), build_job(b"x\nrm -rf ~\x1b"), build_job("日本".encode())]
    assert copy_formats.format_job_ids(jobs, source()).decode().split("\n") == [
        "a1",
        r'"\xff\x00"',
        r'"x\nrm -rf ~\x1b"',
        "日本",
    ]


def test_json_is_masked_unless_the_screen_shows_what_is_secret() -> None:
    job = build_job(body=b'{"password": "hunter2", "n": [1]}', error="token=hunter2 failed", token=b"lease-1")
    document = json.loads(copy_formats.format_jobs_as_json([job], source()))
    assert "hunter2" not in json.dumps(document)
    assert document["token"] == "lease-1" and document["body"]["value"]["n"] == [1]
    shown = copy_formats.format_jobs_as_json(
        [job], JobSource(registry.create_system("native"), "mail", "redis://h", is_revealed=True)
    )
    assert json.loads(shown)["body"]["value"]["password"] == "hunter2"
    assert [one["id"] for one in json.loads(copy_formats.format_jobs_as_json([job, build_job(b"b2")], source()))] == [
        "a1",
        "b2",
    ]


def test_a_body_that_is_no_text_is_masked_where_it_names_a_secret() -> None:
    document = json.loads(copy_formats.format_jobs_as_json([build_job(body=b"\xff\xfepassword=hunter2")], source()))
    assert document["body"]["encoding"] == "masked" and document["body"]["value"] == MASK
    assert base64.b64encode(b"hunter2")[:6].decode() not in document["body"]["value"]


def test_the_redis_cli_line_names_the_server_and_never_its_password() -> None:
    line = copy_formats.format_redis_cli_lines([build_job()], source("rediss://ann:sesame@db.example:7000/3")).decode()
    assert line == "redis-cli -h db.example -p 7000 -n 3 --tls --user ann HGET 'rqtui:{mail}:jobs' a1"
    assert (
        copy_formats.format_redis_cli_lines([build_job()], source("unix:///run/redis.sock"))
        .decode()
        .startswith("redis-cli -s /run/redis")
    )
    assert "sesame" not in copy_formats.format_python_program([build_job()], source("redis://:sesame@h")).decode()


@pytest.mark.parametrize("id", [b"a1", b"q\"u'o\\te", b"\xff\x00\n\x1b", "日本 x".encode(), b"$(touch x) `y` ;"])
@pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not installed")
def test_the_redis_cli_line_reads_the_job_whatever_its_id(client: Redis, url: str, id: bytes) -> None:
    Queue("mail", url).put(b'{"n": 1}', id=id)
    line = copy_formats.format_redis_cli_lines([build_job(id)], source(url)).decode()
    copied = subprocess.run(["sh", "-c", line], capture_output=True, timeout=20, check=True).stdout
    assert b'{"n": 1}' in copied


@pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not installed")
def test_an_entry_of_another_system_is_found_where_it_is(client: Redis, url: str) -> None:
    client.rpush("readytasklist", b"one", b"two \xff")
    job = Job(b"x", "readytasklist", "dispatcher", "ready", State.READY, b"two \xff")
    line = copy_formats.format_redis_cli_lines([job], source(url, "dispatcher", "readytasklist")).decode()
    assert subprocess.run(["sh", "-c", line], capture_output=True, timeout=20, check=True).stdout.strip() == b"1"


@pytest.mark.slow
def test_the_python_puts_the_same_job(client: Redis, url: str) -> None:
    job = build_job(b"\xff1", b'{"a": "\xc3\xa9\\u0000"}', name="send", priority=-3, ttr_ms=30_000, max_attempts=7)
    code = copy_formats.format_python_program([job], source(url)).decode()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20, cwd=ROOT)
    (put,) = Seeded(client).jobs("ready")
    put = Seeded(client).engine.fetch_job(Seeded(client).ref, put.id, -1) or put
    assert (put.id, put.body, put.name, put.priority) == (job.id, job.body, "send", -3)
    assert (put.ttr_ms, put.max_attempts) == (30_000, 7)


def test_rows_are_tab_separated_and_no_cell_breaks_them() -> None:
    columns = [Column("mark"), Column("id", "id"), Column("n", "size")]
    rows = [Row(b"1", ("▌", "a\tb", (Piece("1"), Piece(" kB")))), Row(b"2", ("", "[red]", ""))]
    copied = copy_formats.convert_table_rows(columns, rows)
    assert copied.data.decode().split("\n") == ["id\tsize", "a⇥b\t1 kB", "[red]\t"]
    assert copied.description == "2 rows"


# ── the way out ──────────────────────────────────────────────────────────────────────────────────────────────


def send_text(data: bytes, **environ: str) -> tuple[clipboard.CopyResult, str]:
    written: list[str] = []
    return clipboard.send_to_clipboard(data, written.append, environ), "".join(written)


def test_a_plain_terminal_gets_osc_52_once() -> None:
    how, written = send_text(b"a1\xff")
    assert how == clipboard.CopyResult("the terminal")
    assert written == f"\x1b]52;c;{base64.b64encode(b'a1' + bytes([0xFF])).decode()}\x07"


def test_gnu_screen_gets_it_wrapped_in_strings_that_it_takes() -> None:
    how, written = send_text(b"x" * 2000, STY="1.pts")
    parts = re.findall(r"\x1bP(.*?)\x1b\\", written, re.DOTALL)
    assert how.where == "screen" and max(map(len, parts)) <= 500
    assert "".join(parts) == f"\x1b]52;c;{base64.b64encode(b'x' * 2000).decode()}\x07"


def test_text_that_is_too_long_is_in_a_file_that_only_its_owner_reads() -> None:
    assert send_text(b"x" * clipboard.MAX_BYTES)[0].why == ""
    assert len(base64.b64encode(b"x" * clipboard.MAX_BYTES)) <= 74_994  # of xterm and mosh
    how, written = send_text(b"x" * (clipboard.MAX_BYTES + 1))
    path = Path(how.where)
    try:
        assert not written and "56 kB at most" in how.why
        assert path.stat().st_size == clipboard.MAX_BYTES + 1
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        path.unlink()


def test_a_tmux_that_does_not_answer_leaves_it_in_a_file() -> None:
    how, written = send_text(b"a1", TMUX="/nowhere/sock,1,0", TMUX_TMPDIR="/nowhere")
    try:
        assert how.why and "tmux" in how.why and not written
        assert Path(how.where).read_bytes() == b"a1"
    finally:
        Path(how.where).unlink()


# ── on the screen ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@run_on_event_loop
async def test_y_offers_what_is_under_the_cursor(url: str, seeded: Seeded) -> None:
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press("y")
        await ui.until_shown("name of the queue", "this row", "the list (1 row)")
        await ui.press("escape", "enter", "y")
        await ui.until_shown("copy a1", "i  id", "j  JSON", "redis-cli", "Python", "raw bytes", "the list (2 rows)")
        await ui.press("escape", "space", "space", "y")
        await ui.until_shown("copy 2 jobs", "the 2 marked rows")
        await ui.press("escape")
        assert seeded.ids("ready") == ["a1", "a2"]


@pytest.mark.hooks
@run_on_event_loop
async def test_y_offers_the_screen_and_sends_its_lines(
    url: str, seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied_bodies: list[bytes] = []
    monkeypatch.setattr(
        clipboard,
        "send_to_clipboard",
        lambda data, *_, **__: copied_bodies.append(data) or clipboard.CopyResult("here"),
    )
    seeded.put("a1", "a2")
    async with screen(url) as ui:
        await ui.press("y")
        await ui.until_shown("name of the queue", "this row", "the list (1 row)", "the screen")
        await ui.press("s")
        await ui.until_toast("sent the screen", "to here")
        assert "mail" in copied_bodies[0].decode() and len(copied_bodies[0].decode().split("\n")) == ui.app.size.height


@pytest.mark.slow
@run_on_event_loop
async def test_sent_requests_are_counted_by_number_and_size(
    url: str, seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    seeded.put("a1", "a2")
    async with screen(url, WIDE) as ui:
        await ui.press("enter", "y", "i")
        await ui.until_toast("sent 1 id (2 bytes) to the terminal")
        await ui.press("space", "space", "y", "b")
        await ui.until_toast("sent 2 bodies (31 bytes) to the terminal")
        await ui.press("y", "l")
        await ui.until_toast("sent 2 rows")
        await ui.press("u", "k", "y")
        seeded.client.flushall()
        await ui.press("j")
        await ui.until_toast("Nothing was copied: the job no longer exists")


@pytest.mark.slow
@run_on_event_loop
async def test_a_body_of_80_kb_goes_into_a_file(url: str, seeded: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    seeded.put("a1", body=b'"' + b"x" * 80_000 + b'"')
    async with screen(url, WIDE) as ui:
        await ui.press("enter", "y", "b")
        toast = await ui.until_toast("1 body (78.1 kB) are in the file", "56 kB at most")
        path = Path(re.sub(r"\s", "", toast).partition("file")[2].partition(":")[0])
        assert path.stat().st_size == 80_002
        path.unlink()


# ── in real terminals ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.real_terminal
def test_in_a_stock_tmux_the_id_is_in_tmuxs_buffer(small: Terminal, url: str, client: Redis) -> None:  # noqa: F811
    Queue("mail", url).put({}, id="the-id-14-long")
    small.run(f"{RQTUI} {url}")
    small.until("mail", "write")
    small.keys("Enter")
    small.until("the-id-14-long")
    small.keys("y")
    small.until("redis-cli line")
    small.keys("i")
    small.until("sent 1 id (14 bytes) to tmux")
    assert small._run_tmux("show-buffer") == "the-id-14-long"


@pytest.mark.slow
@pytest.mark.real_terminal
def test_outside_of_tmux_osc_52_reaches_the_terminal_once(url: str, client: Redis) -> None:
    Queue("mail", url).put({}, id="the-id-14-long")
    with run_in_pty([sys.executable, "-m", "rqtui", url]) as terminal:
        terminal.until(b"mail")
        terminal.press(b"\r")
        terminal.until(b"the-id-14-long")
        terminal.press(b"y")
        terminal.until(b"redis-cli line")
        terminal.press(b"i")
        terminal.until(b"]52;c;")
        terminal.until(b"to the termina")  # the last letter may be sent in a part of its own
        sequence = b"\x1b]52;c;" + base64.b64encode(b"the-id-14-long") + b"\x07"
        assert terminal.output.count(sequence) == terminal.output.count(b"]52;") == 1
        terminal.press(b"qq")
        terminal.until_ended()


@pytest.mark.slow
@run_on_event_loop
async def test_a_key_that_copies_nothing_goes_to_the_view(url: str, seeded: Seeded) -> None:
    seeded.bury("d1")
    async with screen(url) as ui:
        await ui.press("enter", "5", "R")  # one job needs no question, so that a habitual y opens the dialog of copies
        await ui.until(lambda: seeded.ids("ready") == ["d1"], "the requeue")
        await ui.press("y")
        await ui.until_shown("copy")
        await ui.press("z")
        await ui.until(lambda: seeded.ids("dead") == ["d1"], "the undo")


@pytest.mark.slow
@run_on_event_loop
async def test_a_key_that_closes_the_dialog_of_copies_does_nothing_else(url: str, seeded: Seeded) -> None:
    seeded.put("a1")
    async with screen(url) as ui:
        for key in ("escape", "q", "y"):
            await ui.press("enter", "y")
            await ui.until_shown("copy a1")
            await ui.press(key)
            await ui.until(lambda: ui.app.screen is ui.app.navigation.view, "the end of the dialog")
            assert not ui.app.navigation.is_at_first_view, key
            await ui.press("escape")
            await ui.until(lambda: ui.app.navigation.is_at_first_view, "the overview")
