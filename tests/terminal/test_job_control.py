"""Ctrl+Z and `fg`, Ctrl+C once and twice, in a shell with job control."""

from __future__ import annotations

import contextlib
import signal
import sys

import pytest
from ptys import run_in_pty
from redis import Redis
from screens import Seeded
from soak_run import is_process_suspended
from tmux import PATIENCE_S, RQTUI, Terminal, terminal  # noqa: F401  (a fixture)
from waiting import wait_until

pytestmark = [pytest.mark.real_terminal]


@pytest.fixture
def opened(terminal: Terminal, url: str, client: Redis) -> Terminal:  # noqa: F811
    Seeded(client).put("a1")
    terminal.run(f"{RQTUI} -u {url}")
    terminal.until("mail", "? keys")
    return terminal


@pytest.mark.slow
def test_ctrl_z_gives_the_terminal_back_and_fg_comes_back_painted(opened: Terminal) -> None:
    for _turn in range(2):
        opened.keys("C-z")
        opened.until("Stopped")
        opened.until_back()
        opened.run("echo still the $((6 * 7))")
        opened.until("still the 42")
        opened.run("fg")
        text = opened.until("mail", "? keys", "Resumed after")
        assert "still the 42" not in text and "Stopped" not in text
    opened.keys("Enter")
    opened.until("2 ready", "send")
    opened.keys("q", "q")
    opened.until_back()


@pytest.mark.matrix
def test_a_program_in_the_background_waits_for_fg(opened: Terminal) -> None:
    opened.keys("C-z")
    opened.until("Stopped")
    opened.run("bg")
    opened.run("echo the shell is $((6 * 7))")
    opened.until("the shell is 42")
    opened.run("fg")
    opened.until("mail", "? keys")
    opened.keys("Enter")
    opened.until("2 ready", "send")
    opened.keys("q", "q")
    opened.until_back()


@pytest.mark.matrix
def test_ctrl_z_works_above_a_dialog_too(opened: Terminal) -> None:
    opened.keys("Enter")
    opened.until("send")
    opened.keys("D")
    opened.until("Delete a1")
    opened.keys("C-z")
    opened.until("Stopped")
    opened.run("fg")
    opened.until("Delete a1", "Enter, Esc cancel")
    opened.keys("Escape")
    opened.wait_until_hidden("Delete a1")
    opened.keys("q", "q")
    opened.until_back()


def test_ctrl_c_reports_how_to_leave_and_a_second_one_leaves_a_clean_terminal(opened: Terminal) -> None:
    opened.keys("C-c")
    opened.until("quits; Ctrl+C", "mail")
    wait_until(lambda: "quits; Ctrl+C" not in opened.text(), PATIENCE_S, "the words are gone", every_s=0.1)
    opened.keys("C-c", "C-c")  # the first of them is the first again
    opened.until_back()


@pytest.mark.slow
def test_where_no_shell_waits_ctrl_z_stops_nothing(url: str, client: Redis) -> None:
    Seeded(client).put("a1")
    with run_in_pty(
        [sys.executable, "-m", "rqtui", "-u", url]
    ) as own:  # it leads its session: no shell could continue it
        own.until(b"mail")
        own.press(b"\x1a")
        own.until(b"stops nothing")
        own.press(b"q")
        assert own.until_ended() == 0


LEFT = b"\x1b[?1049l"  # the alternate screen is left
ENTERED = b"\x1b[?1049h"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["CONT", "TERM", "QUIT"])
def test_signals_to_continue_and_to_end_leave_no_process_behind(url: str, client: Redis, first: str) -> None:
    """systemd stops a unit with SIGTERM and SIGCONT, in this order."""
    Seeded(client).put("a1")
    with run_in_pty([sys.executable, "-m", "rqtui", "-u", url]) as own:
        own.until(b"mail")
        own.process.send_signal(getattr(signal, f"SIG{first}"))
        own.process.send_signal(signal.SIGCONT)
        if first == "CONT":
            wait_until(lambda: own.read(0.05) is not None and own.output.count(ENTERED) >= 2, PATIENCE_S, "a new start")
            own.press(b"q")
        assert own.until_ended() == 0
        assert own.output.count(LEFT) == own.output.count(ENTERED), "the alternate screen was left as often as entered"
        assert own.output.rindex(LEFT) > own.output.rindex(ENTERED)


@pytest.mark.slow
def test_a_signal_to_continue_that_comes_after_the_end_began_starts_nothing(url: str, client: Redis) -> None:
    Seeded(client).put("a1")
    with run_in_pty([sys.executable, "-m", "rqtui", "-u", url]) as own:
        own.until(b"mail")
        own.process.send_signal(signal.SIGTERM)
        own.until(LEFT)
        with contextlib.suppress(ProcessLookupError):
            own.process.send_signal(signal.SIGCONT)
        assert own.until_ended() == 0
        assert own.output.rindex(LEFT) > own.output.rindex(ENTERED)


@pytest.mark.slow
def test_a_program_that_was_stopped_from_outside_is_painted_again_and_reads_keys(url: str, client: Redis) -> None:
    Seeded(client).put("a1")
    with run_in_pty([sys.executable, "-m", "rqtui", "-u", url]) as own:
        own.until(b"mail")
        own.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_process_suspended(own.process.pid), PATIENCE_S, "it stands still")
        own.process.send_signal(signal.SIGCONT)
        wait_until(lambda: own.read(0.05) is not None and own.output.count(ENTERED) >= 2, PATIENCE_S, "a new start")
        own.output = own.output[own.output.rindex(ENTERED) :]
        own.until(b"mail")
        own.press(b"q")
        assert own.until_ended() == 0


def test_a_program_suspended_for_its_shell_is_ended_by_kill(opened: Terminal) -> None:
    """The shell sends SIGTERM and SIGCONT; the program is in the background then, and may not touch the terminal."""
    opened.keys("C-z")
    opened.until("Stopped")
    opened.until_back()
    opened.run("pid=$(jobs -p); kill %1; while kill -0 $pid; do sleep 0.1; done; echo gone $((6 * 7))")
    opened.until("gone 42")
    opened.run("stty -a | grep -o ' echo ' && echo the terminal is $((6 * 7))")
    opened.until("the terminal is 42")
