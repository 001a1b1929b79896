"""Run a program on a pseudo-terminal for measurements: send keys, and time and count the bytes of its output.

The module also has a proxy that delays every request, as a slow link does.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

SIZE = (45, 160)  # rows, columns
PATIENCE_S = 30.0


class Terminal:
    """A terminal with a program on it. All output is read, and only its end is kept."""

    def __init__(self, leader: int, process: subprocess.Popen[bytes]) -> None:
        self._leader, self._process = leader, process
        self.began_s = time.perf_counter()
        self.bytes_read = 0
        self.tail = b""

    @property
    def pid(self) -> int:
        """The id of the program's process."""
        return self._process.pid

    def press(self, keys: str) -> None:
        """Send keys as a keyboard does."""
        os.write(self._leader, keys.encode())

    def read(self, wait_s: float) -> bytes:
        """Read the output of the next `wait_s`, and return early if there is some. Return empty bytes otherwise."""
        readable, _, _ = select.select([self._leader], [], [], wait_s)
        if not readable:
            return b""
        try:
            chunk = os.read(self._leader, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            return b""
        self.bytes_read += len(chunk)
        self.tail = (self.tail + chunk)[-65536:]
        return chunk

    def wait_for_text(self, mark: str) -> float | None:
        """Return the seconds from the program's start until it writes `mark`, or None if it does not."""
        while time.perf_counter() - self.began_s < PATIENCE_S:
            if mark.encode() in self.tail:
                return time.perf_counter() - self.began_s
            if not self.read(0.5) and self._process.poll() is not None:
                return None
        return None

    def run(self, seconds: float) -> int:
        """Let the program run for `seconds` and return how many bytes it wrote."""
        before, end_s = self.bytes_read, time.perf_counter() + seconds
        while (left_s := end_s - time.perf_counter()) > 0:
            self.read(left_s)
        return self.bytes_read - before

    def settle(self, quiet_s: float = 0.3) -> None:
        """Wait until the program has written nothing for `quiet_s`."""
        deadline_s = time.perf_counter() + PATIENCE_S
        while self.read(quiet_s) and time.perf_counter() < deadline_s:
            pass

    def measure_ms_to_first_byte(self, keys: str) -> float | None:
        """Return the milliseconds from the keys to the first byte of output."""
        began = time.perf_counter()
        self.press(keys)
        return (time.perf_counter() - began) * 1000 if self.read(2.0) else None

    def measure_ms_to_last_byte(self, keys: str, quiet_s: float = 0.15) -> float | None:
        """Return the milliseconds from the keys to the last byte before a quiet period."""
        began = time.perf_counter()
        self.press(keys)
        last = None
        while self.read(2.0 if last is None else quiet_s):
            last = (time.perf_counter() - began) * 1000
        return last

    def measure_ms_to_bytes(self, keys: str, least: int) -> float | None:
        """Return the milliseconds from the keys until `least` bytes are written, or None after two seconds."""
        began, before = time.perf_counter(), self.bytes_read
        self.press(keys)
        while (spent_s := time.perf_counter() - began) < 2.0:
            if self.bytes_read - before >= least:
                return spent_s * 1000
            self.read(2.0 - spent_s)
        return None

    def cpu_s(self) -> float | None:
        """Return the program's processor time so far in seconds, or None without /proc."""
        with suppress(OSError):
            threads = [each.read_text().split()[0] for each in Path(f"/proc/{self.pid}/task").glob("*/schedstat")]
            if threads:
                return sum(map(int, threads)) / 1e9
        with suppress(OSError):
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return None

    def memory_mb(self) -> float | None:
        """Return the program's resident memory in MB of 10^6 bytes, or None without /proc."""
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024 / 1e6
        return None

    def share(self, seconds: float) -> float | None:
        """Return the percentage of a core that the program uses during the next `seconds`."""
        before = self.cpu_s()
        self.run(seconds)
        after = self.cpu_s()
        return None if before is None or after is None else 100 * (after - before) / seconds


@cache
def _find_bytecode_folder() -> TemporaryDirectory[str]:
    """Return a folder for compiled modules, because a checkout, unlike an installed program, may have none."""
    return TemporaryDirectory(prefix="rqtui-bench-")


@contextmanager
def run_terminal(command: Sequence[str], size: tuple[int, int] = SIZE) -> Iterator[Terminal]:
    """Run a command on a terminal of its own with `size` rows and columns, and end it afterwards."""
    import fcntl
    import pty
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    replaced = ("PYTHONDONTWRITEBYTECODE", "COLUMNS", "LINES")  # Textual takes the last two before the terminal's size
    environment = {name: value for name, value in os.environ.items() if name not in replaced}
    environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "RQTUI_CONFIG": os.devnull}
    environment["PYTHONPYCACHEPREFIX"] = _find_bytecode_folder().name
    began_s = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env=environment, start_new_session=True
    )
    os.close(follower)
    terminal = Terminal(leader, process)
    terminal.began_s = began_s
    try:
        yield terminal
    finally:
        process.terminate()
        deadline_s = time.perf_counter() + 5
        while process.poll() is None and time.perf_counter() < deadline_s:
            terminal.read(0.05)  # whoever writes its last words must not be held up
        process.kill()
        process.wait()
        os.close(leader)


@contextmanager
def start_delay_proxy(url: str, delay_s: float) -> Iterator[str]:
    """Start a proxy on loopback that delays each request to the Redis at `url`. Yield the proxy's URL."""
    parts = urlsplit(url)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(
        target=_accept_connections,
        args=(listener, (parts.hostname or "127.0.0.1", parts.port or 6379), delay_s),
        daemon=True,
    ).start()
    try:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}{parts.path}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept_connections(listener: socket.socket, address: tuple[str, int], delay_s: float) -> None:
    while True:
        try:
            client, _ = listener.accept()
            server = socket.create_connection(address, timeout=10)
        except OSError:
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, target, wait in ((client, server, lambda: time.sleep(delay_s)), (server, client, lambda: None)):
            threading.Thread(target=_forward_bytes, args=(source, target, wait), daemon=True).start()


def _forward_bytes(source: socket.socket, target: socket.socket, wait: Callable[[], None]) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            wait()
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
