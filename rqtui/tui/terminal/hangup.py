"""Hangup: ends the screen when its terminal is gone.

A SIGHUP says so only to the session that the terminal controls; a program that was moved out of it reads nothing for
ever, and blocks at its thirtieth write. So a thread waits for the line to drop, which costs nothing until then.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

GRACE_S = 1.5  # for the end in good order; after that there may be a write that nobody will ever take


def watch(end: Callable[[], object]) -> None:
    """Calls `end` on a thread when the terminal on standard input is gone; the process does not outlive that by far."""
    if not (hasattr(select, "poll") and sys.platform.startswith("linux")):  # elsewhere poll knows no terminals
        return
    with suppress(OSError, ValueError, AttributeError):  # no standard input, as in tests
        number = sys.stdin.fileno()
        if os.isatty(number):
            threading.Thread(target=_wait, args=(number, end), name="rqtui-hangup", daemon=True).start()


def _wait(number: int, end: Callable[[], None]) -> None:
    poll = select.poll()
    poll.register(number, 0)  # nothing but that it hung up
    poll.poll()
    with suppress(RuntimeError):  # it has ended already
        end()
    time.sleep(GRACE_S)
    os._exit(0)
