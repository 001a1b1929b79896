"""Test that files on this machine's disk can be read only by their owner, also if the files existed before."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from shell import shell

from rqtui.client.queue import Queue
from rqtui.config.state_folder import create_private_folder
from rqtui.operations import journal as operations
from rqtui.operations import undo_files
from rqtui.operations.journal import Journal, Operation, append_line
from rqtui.reports.postmortem import export_report
from rqtui.tui.terminal import clipboard


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_umask() -> object:
    """Set the widest umask: narrow permissions are then set on purpose."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_change_leaves_files_and_folders_that_only_their_owner_may_read(
    client: Redis, url: str, state_folder: Path
) -> None:
    Queue("mail", client).put({"secret": 1}, id="one")
    assert shell(url, "act", "delete", "mail", "one", "--yes").code == 0
    found = {path for path in (state_folder, *state_folder.rglob("*"))}
    assert {path.name for path in found} >= {"operations.jsonl", "undo"} and len(found) >= 4
    for path in found:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_files_and_folders_that_were_there_with_wider_rights_lose_them(
    client: Redis, url: str, state_folder: Path
) -> None:
    (state_folder / "undo").mkdir(parents=True)
    (state_folder / operations.FILE_NAME).write_text("")
    for path, wide in (
        (state_folder, 0o755),
        (state_folder / "undo", 0o777),
        (state_folder / operations.FILE_NAME, 0o644),
    ):
        path.chmod(wide)
    Queue("mail", client).put(1, id="one")
    assert shell(url, "act", "delete", "mail", "one", "--yes").code == 0
    assert mode(state_folder) == mode(state_folder / "undo") == 0o700
    assert mode(state_folder / operations.FILE_NAME) == 0o600


def _link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def _hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


def _pipe(path: Path, victim: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("planted", [_link, _hard_link, _pipe])
def test_a_file_planted_in_place_of_the_journal_is_not_written_to(tmp_path: Path, planted: object) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o644)
    folder = tmp_path / "kept"
    create_private_folder(folder)
    planted(folder / operations.FILE_NAME, victim)  # type: ignore[operator]
    journal = Journal(folder)
    journal.record_change("delete", "mail", "native", [b"one"])
    assert victim.read_text() == "mine" and mode(victim) == 0o644
    assert "cannot be written" in journal.problem


def test_a_new_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="File exists"):
        append_line(tmp_path / "link", b"x", is_new=True)
    assert not (tmp_path / "victim").exists()


def test_a_folder_that_all_share_keeps_its_rights_and_holds_no_journal(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    journal = Journal(shared)
    journal.record_change("delete", "mail", "native", [b"one"])
    assert "not a folder of this user alone" in journal.problem
    assert mode(shared) == 0o1777 and list(shared.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    journal = Journal(theirs)
    journal.record_change("delete", "mail", "native", [b"one"])
    assert journal.problem and list(theirs.iterdir()) == []


def test_without_a_safe_place_for_undo_nothing_is_written_and_that_is_reported(
    client: Redis, url: str, state_folder: Path, tmp_path: Path
) -> None:
    state_folder.mkdir()
    (state_folder / "undo").mkdir()
    (state_folder / "undo").chmod(0o1777)
    Queue("mail", client).put(1, id="one")
    ran = shell(url, "act", "delete", "mail", "one", "--yes")
    assert ran.code == 0 and "nothing can be undone" in ran.err and "not a folder of this user alone" in ran.err
    assert list((state_folder / "undo").iterdir()) == [] and client.zcard("rqtui:{mail}:ready") == 0


def test_undo_records_are_not_written_through_a_link(
    client: Redis, url: str, state_folder: Path, tmp_path: Path
) -> None:
    state_folder.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)  # owned by the user: only the link shows that another user prepared it
    (state_folder / "undo").symlink_to(elsewhere)
    Queue("mail", client).put(1, id="one")
    ran = shell(url, "act", "delete", "mail", "one", "--yes")
    assert ran.code == 0 and "nothing can be undone" in ran.err and "a link to another folder" in ran.err
    assert list(elsewhere.iterdir()) == [] and client.zcard("rqtui:{mail}:ready") == 0


def test_an_export_is_new_and_its_owners_alone(tmp_path: Path) -> None:
    operation = Operation(1, "me@here", "delete", "mail", "native", ids=(b"one",), count=1)
    first, second = export_report([operation], tmp_path), export_report([operation], tmp_path)
    assert len({*first, *second}) == 4
    assert {mode(path) for path in (*first, *second)} == {0o600}


def test_text_too_long_for_a_clipboard_goes_into_a_private_file() -> None:
    sent = clipboard.send_to_clipboard(b"x" * (clipboard.MAX_BYTES + 1), lambda _sequence: None, {})
    try:
        assert mode(Path(sent.where)) == 0o600
    finally:
        Path(sent.where).unlink()


def test_the_reason_why_a_folder_is_refused_is_the_real_one(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(OSError, match="other users may write to it \\(mode 1777\\):"):
        create_private_folder(shared)
    shared.chmod(0o1700)  # sticky, and its owner's alone all the same
    create_private_folder(shared)
    if os.geteuid() == 0:
        os.chown(shared, 12345, 12345)
        with pytest.raises(OSError, match="It belongs to user 12345"):
            create_private_folder(shared)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 64 kB, whose root is a folder that all users share, as that of each new tmpfs."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "tmpfs", str(folder)]
    if (
        os.geteuid()
        or not shutil.which("mount")
        or subprocess.run(mounting, capture_output=True, check=False).returncode
    ):
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_as_the_reason(small_disk: Path) -> None:
    state = small_disk / "state"
    create_private_folder(state)
    with (small_disk / "filling").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    for folder in (state, small_disk):
        journal = Journal(folder)
        journal.record_change("delete", "mail", "native", [b"one"])
        problems = (journal.problem, undo_files.find_folder_problem(folder / "undo"))
        assert "No space left on device" in problems[0] or "its disk is full" in problems[0], folder
        assert "No space left on device" in problems[1], folder
