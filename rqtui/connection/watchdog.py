"""Runs one command and ends it when the process that asked for it ends, however that happens.

A program of its own, of the standard library alone: `python -I -S watchdog.py FOLDER COMMAND…`. Its standard input is
a pipe whose other end only the asking process holds, so the kernel closes it on kill -9 too. That works on every Unix;
Linux's PDEATHSIG alone would not do, because there the server would die with the *thread* that started it. The first
line on standard output is the command's process id. FOLDER is removed once the parent is gone or closed the pipe; when
the command ends by itself, it stays for the parent to read the log in it. Called by `connection/embedded.py`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

LOOK_S = 0.2  # how soon the end of the command is noticed; the end of the parent is noticed at once
GRACE_S = 2.0  # between SIGTERM and SIGKILL
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(folder: str, command: list[str]) -> int:
    """Run `command` until it ends, standard input ends or SIGTERM comes; its exit code, or 0 when it was ended."""
    signal.signal(signal.SIGTERM, _leave)
    # The command leads a group of its own, so that whatever it starts ends with it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        start_new_session=True,
        preexec_fn=_dying_with_parent(),  # noqa: PLW1509 - there is one thread only
    )
    try:
        print(process.pid, flush=True)
        while process.poll() is None:
            readable, _, _ = select.select([0], [], [], LOOK_S)
            if readable and not os.read(0, 64):
                return 0
        return process.returncode
    finally:
        was_running = process.poll() is None
        _end(process)
        if was_running:
            _remove(folder)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _dying_with_parent() -> Callable[[], object] | None:
    """What the child calls before it becomes the command: where the kernel can, it dies with this watchdog too.

    This process has one thread, so neither forking with Python code nor the thread rule of PDEATHSIG can bite here.
    """
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
            return


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
