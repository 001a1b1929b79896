"""Stop the program on Ctrl+Z as its shell expects, and repaint the screen when `fg` continues it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from textual.app import App, SuspendNotSupported

# A signal that another thread receives may reach the main thread's handler late: seconds between checks, and checks.
SIGNAL_CHECK_S, SIGNAL_CHECKS = 0.01, 200
END_SIGNALS = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)
NO_SHELL = "no shell waits for this program here, so it could not be continued"


def has_job_control_shell() -> bool:
    """Return whether a shell with job control started this program: its process group is not the session leader's."""
    return hasattr(signal, "SIGTSTP") and os.getpgrp() != os.getsid(0)


def call_on_sigquit(end: Callable[[], object]) -> None:
    """Call `end` on the running event loop at SIGQUIT, which otherwise kills the program in the alternate screen.

    The handler is set with the signal module, not with the event loop, because another handler replaces it while an
    editor runs.
    """
    loop = asyncio.get_running_loop()

    def schedule_end(_number: int, _frame: object) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed, and the terminal was given back
            loop.call_soon_threadsafe(end)

    if hasattr(signal, "SIGQUIT") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGQUIT, schedule_end)


def stop_program(app: App[Any]) -> float:
    """Stop the program as Ctrl+Z does, until the shell continues it, and return how many seconds it was stopped.

    The terminal is given back to the shell meanwhile. The whole process group is stopped, including the program's
    launcher (`uv run`), because otherwise the shell would not notice. Textual's handler of SIGCONT would start the
    driver a second time after `suspend`, so SIGCONT is handled here. If another thread receives the signal, the handler
    runs a little later, and the function waits for it.

    Raises SuspendNotSupported if no shell could continue the program.
    """
    if not has_job_control_shell():
        raise SuspendNotSupported(NO_SHELL)
    began_s = time.time()  # wall-clock time, because the monotonic clock may stop while a laptop sleeps
    continue_signals: list[int] = []
    end_signals: list[int] = []
    with app.suspend():
        handlers = {
            signal.SIGCONT: lambda number, _frame: continue_signals.append(number),
            # The event loop gets these signals too, and ends the app.
            **dict.fromkeys(END_SIGNALS, lambda number, _frame: end_signals.append(number)),
        }
        previous_handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            os.killpg(os.getpgrp(), signal.SIGTSTP)
            for _check in range(SIGNAL_CHECKS):
                if continue_signals:
                    break
                time.sleep(SIGNAL_CHECK_S)
        finally:
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)
        if end_signals:  # after `kill %1` the shell has the terminal; taking it would stop the program again
            app._driver.has_ended = True  # type: ignore[union-attr]  # of `driver.QuietDriver`; others ignore it
    app.refresh(repaint=True, layout=True)
    return time.time() - began_s
