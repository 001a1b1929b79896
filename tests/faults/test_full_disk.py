"""Disks that are full: under the server's own log, under undo records and journal, under what a command prints.

A small disk is a tmpfs, which only root may mount; `tests/tui/services/test_changes_that_cannot_hurt.py` needs none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet
from redis import Redis
from screens import Seeded, run_on_event_loop, screen
from shell import build_environment, shell
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.errors import ServerError

FULL = Path("/dev/full")


class SmallDisk:
    """A file system of a few kilobytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Fill the disk completely."""
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(1024))
            except OSError:
                pass

    def free_space(self) -> None:
        """Delete the file that filled the disk."""
        (self.folder / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "small"
    folder.mkdir()
    result = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True)
    if result.returncode:
        pytest.skip("needs to mount a tmpfs: root on Linux")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_where_the_server_cannot_write_its_log_a_change_is_refused_in_a_sentence_and_later_taken(
    disk: SmallDisk,
) -> None:
    with Fleet() as fleet:
        server = fleet.start(appendonly="yes", dir=str(disk.folder), auto_aof_rewrite_percentage="0")
        with Queue("mail", server.url) as queue:
            queue.put("x", id="before")
            disk.fill()
            refused = wait_until(lambda: _refusal(queue), what="the first refusal")
            assert "MISCONF" in refused or "No space left" in refused
            ran = shell(server.url, "put", "mail", "1")
            assert ran.code == 3 and "Redis refuses it for now" in ran.err and "Traceback" not in ran.err
            assert shell(server.url, "snapshot", "--json").json["queues"][0]["queue"] == "mail"
            disk.free_space()
            wait_until(lambda: not _refusal(queue), what="the end of the refusals")
            assert {job.id for job in queue.reserve(500)} >= {"before"}


def _refusal(queue: Queue) -> str:
    try:
        queue.put("x" * 900)
    except ServerError as error:
        return str(error)
    return ""


@pytest.mark.slow
@run_on_event_loop
async def test_on_a_full_disk_the_question_reports_that_there_is_no_undo(
    disk: SmallDisk, client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQTUI_STATE_DIR", str(disk.folder / "state"))
    seeded = Seeded(client)
    seeded.put("a", "b", "c")
    async with screen(url, (120, 35)) as ui:
        await ui.press("enter", "2")
        await ui.until_shown("a")
        await ui.press("D", "y")
        await ui.until(lambda: len(seeded.ids("ready")) == 2, "the first, with an undo")
        disk.fill()
        await ui.press("down", "D")
        await ui.until_shown("no undo: its folder cannot be written (No space")
        await ui.press("y")
        await ui.until(lambda: len(seeded.ids("ready")) == 1, "the second, without")
        assert not [toast for toast in ui.toasts if "should not happen" in toast]


def test_a_command_on_a_full_disk_reports_that_it_has_no_undo_and_no_journal(
    disk: SmallDisk, client: Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQTUI_STATE_DIR", str(disk.folder / "state"))
    seeded = Seeded(client)
    seeded.put("a", "b")
    disk.fill()
    ran = shell(url, "act", "delete", "mail", "a", "--yes")
    assert ran.code == 0 and seeded.ids("ready") == ["b"]
    assert "nothing can be undone" in ran.err and "The journal" in ran.err and "No space left on device" in ran.err
    disk.free_space()
    ran = shell(url, "act", "delete", "mail", "b", "--yes")
    assert ran.code == 0 and "undone" not in ran.err and seeded.ids("ready") == []
    assert shell(url, "undo").code == 0 and seeded.ids("ready") == ["b"]


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full, which Linux has")
@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "put --help",
        *(pytest.param(more, marks=pytest.mark.matrix) for more in ("--help", "snapshot --json", "metrics")),
    ],
)
def test_a_full_disk_under_what_is_printed_is_a_sentence(client: Redis, url: str, line: str) -> None:
    with FULL.open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "rqtui", *line.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**build_environment(url), "COLUMNS": "80"},
            timeout=60,
        )
    error_text = ran.stderr.decode()
    assert ran.returncode == 1, error_text
    assert (
        "what this command prints cannot be written: No space left on device." in error_text
        and "Traceback" not in error_text
    )
    assert os.linesep not in error_text.strip()
