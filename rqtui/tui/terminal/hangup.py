"""End the program when its terminal has closed, for example after a broken SSH connection.

SIGHUP is sent only to the session that the terminal controls. A program that was moved out of that session reads no
input for ever, and blocks at its thirtieth write. So a thread waits for the line to drop, which costs nothing until
then.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

GRACE_S = 1.5  # seconds to end in good order; after that the process may be blocked in a write


def watch_terminal(end: Callable[[], object]) -> None:
    """Start a thread that calls `end` once the terminal on stdin has closed, and exits the process 1.5 s later."""
    if not (hasattr(select, "poll") and sys.platform.startswith("linux")):
        return  # `poll` does not support terminals on other systems
    with suppress(OSError, ValueError, AttributeError):  # no standard input, as in tests
        descriptor = sys.stdin.fileno()
        if os.isatty(descriptor):
            threading.Thread(target=_wait_for_hangup, args=(descriptor, end), name="rqtui-hangup", daemon=True).start()


def _wait_for_hangup(descriptor: int, end: Callable[[], None]) -> None:
    """Wait until the terminal `descriptor` hangs up, call `end`, and exit the process after the grace period."""
    poll = select.poll()
    poll.register(descriptor, 0)  # only the hangup, which poll always reports
    poll.poll()
    with suppress(RuntimeError):  # the app has ended already
        end()
    time.sleep(GRACE_S)
    os._exit(0)
