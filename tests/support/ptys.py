"""A program on a pseudo-terminal of its own, without tmux: every byte that it sends is kept.

with in_pty([sys.executable, "-m", "rqtui", url]) as terminal:
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
    """The program's end and ours; `output` is all that it has sent."""

    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process, self._end = process, end
        self.output = b""

    def press(self, keys: bytes) -> None:
        """Types."""
        os.write(self._end, keys)

    def read(self, seconds: float) -> bytes:
        """What it sends within so many seconds."""
        before, deadline = len(self.output), time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self._take(left):
            pass
        return self.output[before:]

    def until(self, words: bytes) -> None:
        """Waits until it has sent these words."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.output:
            left = deadline - time.monotonic()
            assert left > 0 and self._take(left), f"{words!r} was not sent; the end of it: {self.output[-2000:]!r}"

    def until_ended(self) -> int:
        """Waits for its end, and reads what it sends until then; its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self._take(0.05)
        while self._take(0.05):
            pass
        return self.process.wait(1.0)

    def _take(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._end], [], [], seconds)
        if not ready:
            return self.process.poll() is None and seconds > 0.05
        with contextlib.suppress(OSError):  # it is gone
            received = os.read(self._end, 65536)
            self.output += received
            return bool(received)
        return False


@contextmanager
def in_pty(command: Sequence[str], width: int = 80, height: int = 24, **environ: str) -> Iterator[Pty]:
    """Runs a program; it is ended when the block is left."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    given = {name: value for name, value in os.environ.items() if name not in _INSIDE}
    process = subprocess.Popen(
        command,
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=ROOT,
        env={**given, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **environ},
        start_new_session=True,
    )
    os.close(its)
    try:
        yield Pty(process, ours)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(ours)
