"""Ctrl+Z and `fg`, Ctrl+C once and twice, in a shell with job control."""

from __future__ import annotations

import sys

import pytest
from ptys import in_pty
from redis import Redis
from screens import Seeded
from tmux import PATIENCE_S, RQTUI, Terminal, terminal  # noqa: F401  (a fixture)
from waiting import wait_until

pytestmark = [pytest.mark.real_terminal]


@pytest.fixture
def opened(terminal: Terminal, url: str, client: Redis) -> Terminal:  # noqa: F811
    Seeded(client).put("a1")
    terminal.run(f"{RQTUI} -u {url}")
    terminal.until("mail", "? keys")
    return terminal


def test_ctrl_z_gives_the_terminal_back_and_fg_comes_back_painted(opened: Terminal) -> None:
    for _turn in range(2):
        opened.keys("C-z")
        opened.until("Stopped")
        opened.until_back()
        opened.run("echo still the $((6 * 7))")
        opened.until("still the 42")
        opened.run("fg")
        text = opened.until("mail", "? keys", "Awake again")
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
    opened.until("Delete: a1")
    opened.keys("C-z")
    opened.until("Stopped")
    opened.run("fg")
    opened.until("Delete: a1", "Enter, Esc no")
    opened.keys("Escape")
    opened.until_gone("Delete: a1")
    opened.keys("q", "q")
    opened.until_back()


def test_ctrl_c_says_how_to_leave_and_a_second_one_leaves_a_clean_terminal(opened: Terminal) -> None:
    opened.keys("C-c")
    opened.until("quits; Ctrl+C", "mail")
    wait_until(lambda: "quits; Ctrl+C" not in opened.text(), PATIENCE_S, "the words are gone", every_s=0.1)
    opened.keys("C-c", "C-c")  # the first of them is the first again
    opened.until_back()


def test_where_no_shell_waits_ctrl_z_stops_nothing(url: str, client: Redis) -> None:
    Seeded(client).put("a1")
    with in_pty([sys.executable, "-m", "rqtui", "-u", url]) as own:  # it leads its session: nobody could wake it
        own.until(b"mail")
        own.press(b"\x1a")
        own.until(b"stops nothing")
        own.press(b"q")
        assert own.until_ended() == 0
