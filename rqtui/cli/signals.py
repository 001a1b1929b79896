"""Handle SIGINT, SIGTERM and SIGHUP so that a command finishes its current step before it ends.

Commands that run until they are stopped get an event and end after the step in progress. All others are interrupted, as
by Ctrl+C, and report what was done. A request that Redis does not answer delays no exit: after a second its connection
is cut, and the client sees a lost connection. A SIGHUP that was ignored at the start (`nohup`) stays ignored.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis import Redis

DONE, INTERRUPTED, TERMINATED = 0, 130, 143
CUT_DELAY_S = 1.0  # seconds that a request in progress may take after a signal
_SIGNAL_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
WAKE_DELAYS_S = (0.05, 0.5)  # seconds after a signal, and after the first SIGURG

# The commands that run until they are stopped, with their exit code after SIGTERM, also while they start. That of
# `dispatch` is a shell's for a program that SIGTERM ended, for scripts that were written for redis_queue_dispatcher.
LONG_RUNNING = {"work": DONE, "dispatch": TERMINATED, "reap": DONE, "record": DONE}


class Stop(threading.Event):
    """A threading event that a signal sets.

    `code` is the command's exit code: 130 after Ctrl+C, else 0 or as in LONG_RUNNING.
    """

    code = DONE
    is_requested = False  # set by the handler itself, slightly before the event


@contextmanager
def stop_on_signals(*clients: Redis, command: str = "") -> Iterator[Stop]:
    """Yield an event that SIGINT, SIGTERM and SIGHUP set; a second Ctrl+C raises KeyboardInterrupt at once.

    One second after a signal, the requests in progress on `clients` are cut off. `command` selects the exit code.
    """
    stop = Stop()

    def request_stop(number: int, _frame: object) -> None:
        if number == signal.SIGINT:
            if stop.is_requested:
                raise KeyboardInterrupt
            stop.code = INTERRUPTED
        elif number == signal.SIGTERM:
            stop.code = LONG_RUNNING.get(command, DONE)
        stop.is_requested = True
        # Not `stop.set()` here: the code that was interrupted may be inside `wait`, holding the lock that it takes.
        threading.Thread(target=_stop_and_cut_requests, args=(stop, clients), name="rqtui-ending", daemon=True).start()

    with _install_signal_handler(request_stop, _SIGNAL_NAMES):
        yield stop


@contextmanager
def interrupt_on_signals(*, runs_on: bool = False) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt also on SIGTERM and SIGHUP, so that cleanup code runs. Yields the received signals.

    With `runs_on`, for a program that runs until it is stopped, SIGINT is handled even if a shell script's `&` ignored
    it.
    """
    received: list[int] = []

    def raise_interrupt(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    with _install_signal_handler(raise_interrupt, _SIGNAL_NAMES if runs_on else _SIGNAL_NAMES[1:]):
        yield received


def choose_signal_exit_code(received: Sequence[int], command: str) -> int:
    """Return the exit code of a command that received these signals; for commands in LONG_RUNNING, as `Stop.code`."""
    if command not in LONG_RUNNING or not received or signal.SIGINT in received:
        return INTERRUPTED
    return LONG_RUNNING[command] if signal.SIGTERM in received else DONE


def _stop_and_cut_requests(stop: Stop, clients: Iterable[Redis]) -> None:
    """Set the stop event, and one second later cut the requests that are still in progress."""
    stop.set()
    if clients:
        time.sleep(CUT_DELAY_S)
    for client in clients:
        _shut_down_connections(client)


def _shut_down_connections(client: Redis) -> None:
    """Shut down the sockets that a client is using. They are not closed, because other threads use them."""
    pool: Any = client.connection_pool
    for connection in [*getattr(pool, "_in_use_connections", ())]:
        with suppress(OSError, AttributeError):  # the connection was closed in the meantime
            connection._sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def _install_signal_handler(handler: Callable[[int, Any], None], names: Iterable[str]) -> Iterator[None]:
    """Install `handler` for the named signals until the `with` block ends. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    numbers = [number for number in numbers if not _is_ignored(number)]
    previous_handlers = {number: signal.signal(number, handler) for number in numbers}
    try:
        with _wake_main_thread():
            yield
    finally:
        for number, previous_handler in previous_handlers.items():
            signal.signal(number, previous_handler)


@contextmanager
def _wake_main_thread() -> Iterator[None]:
    """Interrupt the main thread for a signal that arrives just before the thread begins a blocking call.

    Python's handlers run when a system call is interrupted, but a call that had not begun yet is not interrupted: it
    blocks for ever. So a thread is notified of each signal, and interrupts the main thread a little later by SIGURG,
    which has no other meaning here.
    """
    previous = signal.set_wakeup_fd(-1)
    if previous != -1 or not hasattr(signal, "SIGURG"):  # another part of the process is notified already
        signal.set_wakeup_fd(previous, warn_on_full_buffer=False)
        yield
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    urged = signal.signal(signal.SIGURG, lambda _number, _frame: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(
        target=_send_urgent_signals, args=(read, threading.get_ident()), name="rqtui-signals", daemon=True
    ).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGURG, urged)
        os.close(write)


def _send_urgent_signals(read: int, thread: int) -> None:
    """Send SIGURG to the main thread shortly after each signal that is read from the pipe."""
    while numbers := os.read(read, 64):
        for pause_s in WAKE_DELAYS_S if {*numbers} - {signal.SIGURG} else ():
            time.sleep(pause_s)
            signal.pthread_kill(thread, signal.SIGURG)
    os.close(read)


def _is_ignored(number: int) -> bool:
    """Return whether the signal is SIGHUP and is ignored, as under `nohup`."""
    return number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) is signal.SIG_IGN
