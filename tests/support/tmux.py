"""Run programs in a real terminal with tmux, send keys to them and read the screen as text."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


RQTUI = f"{shlex.quote(sys.executable)} -m rqtui"


PATIENCE_S = 40.0


POLL_S = 0.1  # reading the screen starts a program


class Terminal:
    """A tmux server of a test with one window, in which a shell waits at its prompt `$ `."""

    def __init__(self, width: int, height: int) -> None:
        self._name = f"rqtui-test-{os.getpid()}-{time.monotonic_ns()}"
        # pytest imports readline, which sets LINES and COLUMNS. A program with these variables ignores a new size.
        unset = "-u LINES -u COLUMNS"
        shell = f"env {unset} PYTHONPATH={shlex.quote(str(ROOT))} PS1='$ ' bash --norc --noprofile"
        self._run_tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), shell)

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names, in one burst, as a slow link delivers them.

        Escape must be sent alone, and the caller waits for its effect. A terminal program that reads Escape together
        with the next key takes both for one key.
        """
        assert keys == ("Escape",) or "Escape" not in keys
        self._run_tmux("send-keys", "--", *keys)

    def type(self, text: str) -> None:
        """Type text literally into the terminal."""
        self._run_tmux("send-keys", "-l", "--", text)

    def run(self, command: str) -> None:
        """Type a command line in the terminal and press Enter."""
        self.type(command)
        self.keys("Enter")

    def text(self, *, escapes: bool = False) -> str:
        """Return the text on the terminal's screen."""
        return self._run_tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    def until(self, *words: str) -> str:
        """Wait until all these words are on the terminal's screen, and return the screen's text."""
        shown = ""

        def are_all_words_shown() -> bool:
            nonlocal shown
            shown = self.text()
            return all(word in shown for word in words)

        try:
            wait_until(are_all_words_shown, PATIENCE_S, every_s=POLL_S)
        except AssertionError:
            raise AssertionError(f"{words} did not appear; the screen:\n{shown}") from None
        return shown

    def wait_until_hidden(self, words: str) -> None:
        """Wait until these words are no longer on the terminal's screen."""
        wait_until(lambda: words not in self.text(), PATIENCE_S, f"{words} vanishes", POLL_S)

    def until_back(self) -> None:
        """Wait for the shell's prompt on the normal screen, with the mouse released and the cursor visible."""
        shown = ""

        def is_shell_prompt_back() -> bool:
            nonlocal shown
            shown = self.text()
            return self._read_terminal_flags() == "0 0 1" and shown.rstrip().endswith("$")

        try:
            wait_until(is_shell_prompt_back, PATIENCE_S, every_s=POLL_S)
        except AssertionError:
            raise AssertionError(
                f"the program did not end, flags {self._read_terminal_flags()}; the screen:\n{shown}"
            ) from None

    def pid_of(self, words: str) -> int:
        """Return the child process of the shell whose command line contains these words."""
        shell = self._run_tmux("display-message", "-p", "#{pane_pid}").strip()

        def find_child_process() -> int:
            listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", shell], capture_output=True, text=True).stdout
            return next((int(line.split()[0]) for line in listed.splitlines() if words in line), 0)

        return wait_until(find_child_process, PATIENCE_S, every_s=POLL_S)

    def close(self) -> None:
        """End tmux and the programs in it."""
        self._run_tmux("kill-server")

    def _read_terminal_flags(self) -> str:
        return self._run_tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").strip()

    def _run_tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._name, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


@pytest.fixture(
    params=[
        pytest.param((80, 24), id="80x24"),
        pytest.param((160, 45), id="160x45", marks=pytest.mark.matrix),
    ]
)
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """Yield a tmux terminal of each tested size."""
    terminal = Terminal(*request.param)
    yield terminal
    terminal.close()


@pytest.fixture
def small() -> Iterator[Terminal]:
    """Yield a tmux terminal of 80×24 cells."""
    terminal = Terminal(80, 24)
    yield terminal
    terminal.close()
