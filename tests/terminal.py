"""A real terminal for tests: a tmux server of its own, in which a shell waits; keys go in, what stands there comes out.

Nothing here sleeps for a fixed time: each wait polls a condition until `PATIENCE_S` is over, and then shows the screen.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
RQTUI = f"{shlex.quote(sys.executable)} -m rqtui"
PATIENCE_S = 20.0
_EVERY_S = 0.05
_numbers = itertools.count(1)


class Terminal:
    """One window of a tmux server, with a shell at its prompt `$ `; of whatever environment the tests run in, it has
    nothing that points rqtui at another Redis."""

    def __init__(self, width: int, height: int) -> None:
        self._name = f"rqtui-test-{os.getpid()}-{next(_numbers)}"
        unset = "-u RQTUI_URL -u REDIS_URL -u NO_COLOR -u TMUX"
        shell = f"env {unset} PYTHONPATH={shlex.quote(str(ROOT))} PS1='$ ' bash --norc --noprofile"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), shell)

    def keys(self, *keys: str) -> None:
        """Presses keys by tmux's names."""
        for key in keys:
            self._tmux("send-keys", "--", key)

    def type(self, text: str) -> None:
        """Types text as it is."""
        self._tmux("send-keys", "-l", "--", text)

    def run(self, command: str) -> None:
        """Types a command line."""
        self.type(command)
        self.keys("Enter")

    def tab(self) -> None:
        """Goes to a form's next field, and waits until the cursor stands there: what is typed in the same moment as Tab
        still belongs to the field before, for Textual moves the focus one turn later."""
        before = self._ask("#{cursor_x} #{cursor_y}")
        self.keys("Tab")
        wait_until(lambda: self._ask("#{cursor_x} #{cursor_y}") != before, PATIENCE_S, "next field", _EVERY_S)

    def resize(self, width: int, height: int) -> None:
        """Makes the window larger or smaller."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def text(self, *, escapes: bool = False) -> str:
        """What stands on the screen."""
        return self._tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    def title(self) -> str:
        """The title that programs gave the terminal."""
        return self._ask("#{pane_title}")

    def until(self, *words: str) -> str:
        """Waits until all these words stand on the screen."""
        return self._until(lambda text: all(word in text for word in words), f"{words} did not appear")

    def until_gone(self, *words: str) -> str:
        """Waits until none of these words stands on the screen."""
        return self._until(lambda text: not any(word in text for word in words), f"{words} did not go away")

    def until_match(self, pattern: str) -> re.Match[str]:
        """Waits until a pattern is found on the screen."""
        found = re.search(pattern, self._until(lambda text: re.search(pattern, text), f"no {pattern} appeared"))
        assert found
        return found

    def until_back(self) -> None:
        """Waits for the shell's prompt, on the normal screen, with the mouse given back and the cursor to be seen."""

        def is_back() -> bool:
            flags = self._ask("#{alternate_on} #{mouse_any_flag} #{cursor_flag}")
            return flags == "0 0 1" and self.text().rstrip().endswith("$")

        try:
            wait_until(is_back, PATIENCE_S, every_s=_EVERY_S)
        except AssertionError:
            raise AssertionError(f"the prompt is not back; the screen:\n{self.text()}") from None

    def pid_of(self, words: str) -> int:
        """The process below the shell whose command line has these words."""
        shell = self._ask("#{pane_pid}")

        def found() -> int:
            listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", shell], capture_output=True, text=True).stdout
            return next((int(line.split()[0]) for line in listed.splitlines() if words in line), 0)

        return wait_until(found, PATIENCE_S, every_s=_EVERY_S)

    def close(self) -> None:
        """Ends tmux and what runs in it."""
        with contextlib.suppress(subprocess.CalledProcessError):  # it ends by itself when the shell does
            self._tmux("kill-server")

    def _until(self, holds: Callable[[str], object], otherwise: str) -> str:
        try:
            return wait_until(lambda: (text := self.text()) and holds(text) and text, PATIENCE_S, every_s=_EVERY_S)
        except AssertionError:
            raise AssertionError(f"{otherwise}; the screen:\n{self.text()}") from None

    def _ask(self, form: str) -> str:
        return self._tmux("display-message", "-p", form).strip()

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._name, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


@contextlib.contextmanager
def terminal_of(width: int, height: int) -> Iterator[Terminal]:
    """A terminal of that size; it ends with the block."""
    made = Terminal(width, height)
    try:
        yield made
    finally:
        made.close()
