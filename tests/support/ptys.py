"""Run a program on its own pseudo-terminal, without tmux: every byte that the program sends is kept.

with run_in_pty([sys.executable, "-m", "rqtui", url]) as terminal:
    terminal.until(b"mail")
    terminal.press(b"q")
    terminal.until_ended()
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0
_INSIDE = ("TMUX", "TMUX_PANE", "STY", "NO_COLOR")  # of the terminal that the tests run in


class Pty:
    """A pseudo-terminal with a program on it; `output` is all that the program has sent."""

    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process, self._end = process, end
        self.output = b""

    def press(self, keys: bytes) -> None:
        """Type keys on the pseudo-terminal."""
        os.write(self._end, keys)

    def read(self, seconds: float) -> bytes:
        """Return the program's output of the next `seconds`, or until the program ends."""
        before, deadline = len(self.output), time.monotonic() + seconds
        while (remaining_s := deadline - time.monotonic()) > 0 and self._read_available(remaining_s):
            pass
        return self.output[before:]

    def until(self, words: bytes) -> None:
        """Wait until the program has written these words."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.output:
            remaining_s = deadline - time.monotonic()
            assert remaining_s > 0 and self._read_available(remaining_s), (
                f"{words!r} was not sent; the end of it: {self.output[-2000:]!r}"
            )

    def until_ended(self) -> int:
        """Wait for the end of the program, and return its exit code. Output until then is kept."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read_available(0.05)
        while self._read_available(0.05):
            pass
        return self.process.wait(1.0)

    def _read_available(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._end], [], [], seconds)
        if not ready:
            return self.process.poll() is None and seconds > 0.05
        with contextlib.suppress(OSError):  # it is gone
            received = os.read(self._end, 65536)
            self.output += received
            return bool(received)
        return False


@contextmanager
def run_in_pty(command: Sequence[str], width: int = 80, height: int = 24, **environ: str) -> Iterator[Pty]:
    """Run a program on its own pseudo-terminal, and end the program when the `with` block ends."""
    test_end, program_end = pty.openpty()
    fcntl.ioctl(program_end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in _INSIDE}
    process = subprocess.Popen(
        command,
        stdin=program_end,
        stdout=program_end,
        stderr=program_end,
        cwd=ROOT,
        env={**variables, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **environ},
        start_new_session=True,
    )
    os.close(program_end)
    try:
        yield Pty(process, test_end)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(test_end)
