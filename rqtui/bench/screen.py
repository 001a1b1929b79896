"""Measurements of start-up and of the screen: wall time of processes, in a pseudo-terminal where one is needed."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rqtui.bench.line import Bench, Line
from rqtui.client import BYTES, Queue

MARK = "painted"
_EMPTY_APP = f"""
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("{MARK}")
Empty().run()
"""
_SIZE = (45, 160)  # rows, columns
_PATIENCE_S = 30.0
_COMPLETION = {"_RQTUI_COMPLETE": "complete_bash", "COMP_WORDS": "rqtui ", "COMP_CWORD": "1"}


def start_up(on: Bench) -> Iterator[Line]:
    """Wall time of `rqtui --version` and of completion"""
    times = on.size(7, 1)
    rqtui = [sys.executable, "-m", "rqtui"]
    bare, _ = _wall_s([sys.executable, "-c", "pass"], times)
    yield Line("bare Python, wall time", bare, "s")
    version, code = _wall_s([*rqtui, "--version"], times)
    yield Line("rqtui --version, wall time", version, "s", "≤ 0.15", f"exit code {code}" if code else "")
    completion, code = _wall_s(rqtui, times, _COMPLETION)
    yield Line("completion of commands, wall time", completion, "s", "≤ 0.15", f"exit code {code}" if code else "")


def _wall_s(command: Sequence[str], times: int, variables: Mapping[str, str] | None = None) -> tuple[float, int]:
    """The median wall time of a command over some runs, after one that warms the disk's cache; and its exit code."""
    environment = {**os.environ, **(variables or {})}
    spent = []
    code = 0
    for _ in range(times + 1):
        began = time.perf_counter()
        code = subprocess.run(command, capture_output=True, env=environment, check=False).returncode
        spent.append(time.perf_counter() - began)
    return statistics.median(spent[1:]), code


def first_paint(on: Bench) -> Iterator[Line]:
    """First paint against an empty Textual app, in a pseudo-terminal"""
    Queue(MARK, on.client, BYTES).put_many([b'{"to":"a@b.example"}'] * on.size(1_000, 10))
    ours = [sys.executable, "-m", "rqtui", on.server.url]
    empty_s, ours_s, counted_s = _best_painted_s(
        [([sys.executable, "-c", _EMPTY_APP], MARK), (ours, str(on.server.port)), (ours, MARK)], on.size(6, 1)
    )
    yield Line("first paint of an empty Textual app", empty_s, "s")
    note = "" if ours_s else "not measured: it did not paint"
    yield Line("first paint of rqtui: its header and its frames", ours_s, "s", note=note)
    yield Line("  against the empty app", ours_s / empty_s if ours_s and empty_s else None, "×", "≤ 1.5")
    yield Line("until the overview shows a queue and its counts", counted_s, "s", note=note)


def _best_painted_s(programs: Sequence[tuple[Sequence[str], str]], times: int) -> list[float | None]:
    """For each program and its mark the shortest of some runs; they take turns, so that all meet the same machine."""
    spent: list[list[float]] = [[] for _ in programs]
    for _ in range(times):
        for number, (command, mark) in enumerate(programs):
            painted, _ = _in_terminal(command, lambda _pid: None, mark)
            spent[number] += [painted] if painted else []
    return [min(found, default=None) for found in spent]


def at_rest(on: Bench) -> Iterator[Line]:
    """The screen at rest: its share of a core while it refreshes"""
    Queue(MARK, on.client, BYTES).put_many([b"{}"] * on.size(20_000, 10))
    seconds = max(1.0, 10 * on.scale)

    def watch(pid: int) -> float | None:
        before = _cpu_s(pid)
        time.sleep(seconds)
        after = _cpu_s(pid)
        return None if before is None or after is None else 100 * (after - before) / seconds

    painted, share = _in_terminal([sys.executable, "-m", "rqtui", on.server.url], watch)
    note = "" if painted and share is not None else "not measured"
    yield Line(f"the screen at rest over {seconds:.0f} s, of a core", share, "%", note=note)


def _in_terminal(
    command: Sequence[str], then: Callable[[int], float | None], mark: str = MARK
) -> tuple[float | None, float | None]:
    """Run a command on a terminal of its own until `mark` is on it: seconds until then, and what `then` gives."""
    import fcntl
    import pty
    import struct
    import termios

    began = time.perf_counter()
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env=environment, start_new_session=True
    )
    os.close(follower)
    try:
        painted = _until(leader, mark.encode(), began)
        result = None
        if painted is not None:
            drained = _Drain(leader)
            with drained:
                result = then(process.pid)
        return painted, result
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()
        os.close(leader)


def _until(leader: int, mark: bytes, began: float) -> float | None:
    import select

    seen = b""
    while time.perf_counter() - began < _PATIENCE_S:
        readable, _, _ = select.select([leader], [], [], 0.5)
        if not readable:
            continue
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            return None
        if not chunk:
            return None
        seen = (seen + chunk)[-65536:]
        if mark in seen:
            return time.perf_counter() - began
    return None


class _Drain:
    """Reads and forgets what a terminal shows, so that the program on it is never held up."""

    def __init__(self, leader: int) -> None:
        import threading

        self._leader, self._stop = leader, threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        import select

        while not self._stop.is_set():
            readable, _, _ = select.select([self._leader], [], [], 0.1)
            with suppress(OSError):
                if readable and not os.read(self._leader, 65536):
                    return


def _cpu_s(pid: int) -> float | None:
    """Processor time of a process so far; None where the system has no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


MEASURES = (start_up, first_paint, at_rest)
