"""Job control: stops the program for the shell it was started from, and paints it again when `fg` wakes it."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from textual.app import App, SuspendNotSupported

LATE_S, LOOKS = (
    0.01,
    200,
)  # how long a signal that was told to another thread may take until the main one runs its handler
NO_SHELL = "no shell waits for this program here, so nobody could wake it again"


def has_shell() -> bool:
    """Whether a shell with job control started this program: it is then no part of the session leader's own group."""
    return hasattr(signal, "SIGTSTP") and os.getpgrp() != os.getsid(0)


def stop(app: App[Any]) -> float:
    """Gives the terminal back and stops until somebody wakes the program; the seconds that took.

    The whole process group stops, also what started this program (`uv run`): the shell would not notice otherwise.
    Textual's handler of SIGCONT starts the driver again unless it runs within `suspend`, which starts it, too. Where
    another thread is told of the signal, the handler runs a little later; so that is waited for.
    Raises SuspendNotSupported where nobody would wake it.
    """
    if not has_shell():
        raise SuspendNotSupported(NO_SHELL)
    began_s = time.time()  # by the clock on the wall: the other one may stand while a laptop sleeps
    woken: list[int] = []
    with app.suspend():
        before = signal.signal(signal.SIGCONT, lambda number, _frame: woken.append(number))
        try:
            os.killpg(os.getpgrp(), signal.SIGTSTP)
            for _look in range(LOOKS):
                if woken:
                    break
                time.sleep(LATE_S)
        finally:
            signal.signal(signal.SIGCONT, before)
    app.refresh(repaint=True, layout=True)
    return time.time() - began_s
