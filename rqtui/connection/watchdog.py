"""Run one command, and end it when the process that started it ends, however that happens.

A separate program that uses only the standard library: `python -I -S watchdog.py FOLDER COMMAND…`. Its standard input
is a pipe whose other end only the parent process holds, so the kernel closes it even after kill -9. That works on every
Unix. Linux's PDEATHSIG alone is not enough: with it, the server would die with the *thread* that started it.

The first line on standard output is the process id of the command. FOLDER is removed when the parent has ended or
closed the pipe. If the command ends by itself, the folder stays, so that the parent can read the log in it. Called by
`connection/embedded.py`.
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

POLL_S = 0.2  # how soon the end of the command is noticed; the end of the parent is noticed at once
GRACE_S = 2.0  # between SIGTERM and SIGKILL
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(folder: str, command: list[str]) -> int:
    """Run a command until it ends, standard input closes or SIGTERM arrives.

    Returns the exit code of the command, or 0 if the command was ended here.
    """
    signal.signal(signal.SIGTERM, _exit_on_signal)
    # The command leads its own process group, so that all processes it starts can be ended with it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        start_new_session=True,
        preexec_fn=_build_parent_death_hook(),  # noqa: PLW1509 - there is one thread only
    )
    try:
        print(process.pid, flush=True)
        while process.poll() is None:
            readable, _, _ = select.select([0], [], [], POLL_S)
            if readable and not os.read(0, 64):
                return 0
        return process.returncode
    finally:
        was_running = process.poll() is None
        _terminate_process_group(process)
        if was_running:
            _remove_folder(folder)


def _exit_on_signal(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _build_parent_death_hook() -> Callable[[], object] | None:
    """Return a function that makes the Linux kernel kill the started command when this watchdog process dies.

    The child process calls it before it runs the command. Returns None where the kernel cannot do that. This process
    has one thread, so forking with Python code is safe, and the thread rule of PDEATHSIG does not matter.
    """
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _terminate_process_group(process: subprocess.Popen[bytes]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
            return


def _remove_folder(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
