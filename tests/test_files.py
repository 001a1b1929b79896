"""Files that a person names: none makes a command hang, and none is read without bound."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis
from shell import build_environment

from rqtui import files
from rqtui.operations import journal

RQTUI = [sys.executable, "-m", "rqtui"]


def run(url: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a program of its own, so that one that hangs ends the test and not the whole run."""
    env = {**build_environment(url), **variables}
    return subprocess.run(
        [*RQTUI, *words], env=env, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False
    )


def in_shell(url: str, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `rqtui` is the program."""
    env = {**build_environment(url), "PYTHON": sys.executable}
    script = f'rqtui() {{ "$PYTHON" -m rqtui "$@"; }}; {line}'
    return subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_named_pipe_or_an_endless_device_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="It is a pipe, not a regular file"):
        files.read_small_file(tmp_path / "pipe", 10, is_pipe_allowed=True)
    with pytest.raises(OSError, match="It is a device, not a regular file"):
        files.read_small_file("/dev/zero", 10)
    with pytest.raises(OSError, match="It is a device, not a regular file"):
        files.open_file_or_pipe("/dev/zero")
    with pytest.raises(OSError, match="It is a pipe, not a regular file"):
        files.require_regular_file(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        files.read_small_file(tmp_path, 10)
    assert files.read_small_file("/dev/null", 10) == b"" and files.open_file_or_pipe("/dev/null").read() == b""


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert files.read_small_file(path, 10) == b"x" * 10
    with pytest.raises(OSError, match="It has more than 9 bytes"):
        files.read_small_file(path, 9)


def test_a_pipe_that_the_shell_handed_over_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"secret\n")
    os.close(writing)
    try:
        assert files.read_small_file(f"/dev/fd/{reading}", 100, is_pipe_allowed=True) == b"secret\n"
        with pytest.raises(OSError, match="It is a pipe"):
            files.read_small_file(f"/dev/fd/{reading}", 100)
    finally:
        os.close(reading)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["pipe", "zero"])
def test_a_pipe_or_an_endless_device_in_place_of_a_file_hangs_no_command(
    client: Redis, url: str, state_folder: Path, tmp_path: Path, what: str
) -> None:
    state_folder.mkdir(mode=0o700)
    named = tmp_path / "named"
    kind = "a pipe" if what == "pipe" else "a device"

    def plant(path: Path) -> None:
        os.mkfifo(path) if what == "pipe" else path.symlink_to("/dev/zero")

    plant(named)
    plant(state_folder / journal.FILE_NAME)
    result = run(url, "operations")
    assert result.returncode == 1 and f"cannot be read: It is {kind}" in result.stderr
    assert "no change was made" not in result.stderr
    page = run(url, "operations", "--markdown")
    assert page.returncode == 1 and "No change was made" not in page.stdout and "cannot be read" in page.stdout
    assert run(url, "put", "mail", "1", "--id", "one").returncode == 0
    changed = run(url, "act", "delete", "mail", "one", "--yes")
    assert changed.returncode == 0 and "cannot be written" in changed.stderr
    undone = run(url, "undo")
    assert undone.returncode == 0 and "cannot be read" in undone.stderr
    assert client.zcard("rqtui:{mail}:ready") == 1
    for result in (
        run(url, "snapshot", RQTUI_CONFIG=str(named)),
        run(url, "snapshot", "--config", str(named)),
        run(url, "snapshot", RQTUI_PASSWORD_FILE=str(named)),
    ):
        assert result.returncode == 2 and f"It is {kind}" in result.stderr, result
    for option in ("ssl_ca_certs", "ssl_certfile"):
        result = run(url, "snapshot", "--url", f"rediss://127.0.0.1:1/0?{option}={named}")
        assert result.returncode == 2 and f"It is {kind}" in result.stderr, result


def test_an_undo_record_that_is_a_pipe_is_left_out_with_the_reason(client: Redis, url: str, state_folder: Path) -> None:
    (state_folder / "undo").mkdir(mode=0o700, parents=True)
    os.mkfifo(state_folder / "undo" / "1-delete-ab.jsonl")
    result = run(url, "undo", "--list")
    assert result.returncode == 0 and "cannot be read: It is a pipe" in result.stderr


@pytest.mark.slow
def test_lines_and_bodies_still_come_from_pipes(client: Redis, url: str, tmp_path: Path) -> None:
    line = """'{"body": 1}\\n{"body": 2}\\n'"""
    for command in (
        f"printf {line} | rqtui put mail --lines -",
        f"printf {line} | rqtui put mail --lines /dev/stdin",
        f"rqtui put mail --lines <(printf {line})",
        f"mkfifo {tmp_path}/named; printf {line} > {tmp_path}/named & rqtui put mail --lines {tmp_path}/named",
        "printf 5 | rqtui put mail - && printf 6 | rqtui put mail -",
    ):
        before = client.zcard("rqtui:{mail}:ready")
        ran = in_shell(url, command)
        assert ran.returncode == 0 and client.zcard("rqtui:{mail}:ready") == before + 2, (command, ran)
    assert in_shell(url, "rqtui snapshot --config <(printf 'calm = true')").returncode == 0
    refused = in_shell(url, "rqtui put mail --lines /dev/zero")
    assert refused.returncode == 2 and "It is a device" in refused.stderr


def test_a_password_comes_from_a_pipe_of_the_shell(url: str) -> None:
    ran = in_shell(url, "RQTUI_PASSWORD_FILE=<(printf '') rqtui snapshot")
    assert ran.returncode == 2 and "is empty" in ran.stderr
