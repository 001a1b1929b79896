"""Signals: SIGINT, SIGTERM and SIGHUP end a command in order.

Commands that go on get an event and end after the step under way; all others are interrupted, as by Ctrl+C, and say
what was done. A request that Redis does not answer holds up nobody: after a second its connection is cut, which is to
the client what a lost link is. A SIGHUP that was ignored at the start (`nohup`) stays ignored.
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
PATIENCE_S = 1.0  # of whoever sent the signal, for the request under way
_ASKED = ("SIGINT", "SIGTERM", "SIGHUP")
URGED_S = (0.05, 0.5)  # after a signal, and again after that

# The commands that run until they are stopped, with their exit code after SIGTERM, while they start as later. That of
# `dispatch` is a shell's for a program that SIGTERM ended, for scripts that were written for redis_queue_dispatcher.
RUN_ON = {"work": DONE, "dispatch": TERMINATED, "reap": DONE}


class Stop(threading.Event):
    """Set by a signal; `code` is what the command exits with: 130 after Ctrl+C, else 0, or as RUN_ON has it."""

    code = DONE
    is_asked = False  # before it is set, by an instant


@contextmanager
def stopped_by_signals(*clients: Redis, command: str = "") -> Iterator[Stop]:
    """An event that the three signals set; a second Ctrl+C interrupts at once.

    What these clients still wait for a second later is cut off. `command` is the one that runs, for its exit code.
    """
    stop = Stop()

    def end(number: int, _frame: object) -> None:
        if number == signal.SIGINT:
            if stop.is_asked:
                raise KeyboardInterrupt
            stop.code = INTERRUPTED
        elif number == signal.SIGTERM:
            stop.code = RUN_ON.get(command, DONE)
        stop.is_asked = True
        # Not `stop.set()` here: the code that was interrupted may be inside `wait`, holding the lock that it takes.
        threading.Thread(target=_set, args=(stop, clients), name="rqtui-ending", daemon=True).start()

    with _handled_by(end, _ASKED):
        yield stop


@contextmanager
def interrupted_by_signals(*, runs_on: bool = False) -> Iterator[list[int]]:
    """SIGTERM and SIGHUP are as Ctrl+C: whatever cleans up behind a KeyboardInterrupt does so. Gives those that came.

    A program that runs on until it is stopped also hears a SIGINT that a script's `&` had it ignore.
    """
    came: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    with _handled_by(interrupt, _ASKED if runs_on else _ASKED[1:]):
        yield came


def ended(came: Sequence[int], command: str) -> int:
    """The exit code of a command that these signals interrupted: of one in RUN_ON the same as `Stop.code` later."""
    if command not in RUN_ON or not came or signal.SIGINT in came:
        return INTERRUPTED
    return RUN_ON[command] if signal.SIGTERM in came else DONE


def _set(stop: Stop, clients: Iterable[Redis]) -> None:
    stop.set()
    if clients:
        time.sleep(PATIENCE_S)
    for client in clients:
        _cut(client)


def _cut(client: Redis) -> None:
    """Ends what the client waits for. Its connections are not closed here, under the hands of their users."""
    pool: Any = client.connection_pool
    for connection in [*getattr(pool, "_in_use_connections", ())]:
        with suppress(OSError, AttributeError):  # closed meanwhile
            connection._sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def _handled_by(handler: Callable[[int, Any], None], names: Iterable[str]) -> Iterator[None]:
    """The handler for these signals, until the block ends; signals go to the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    numbers = [number for number in numbers if not _is_ignored(number)]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        with _heard_while_waiting():
            yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def _heard_while_waiting() -> Iterator[None]:
    """A signal is heard though it comes just before the main thread begins to wait, be it for a line of its input.

    Python's handlers run when a system call is interrupted, and one that had not begun yet is not: it waits for ever.
    So a thread is told of each signal, and interrupts the main one a little later by SIGURG, which means nothing here.
    """
    known = signal.set_wakeup_fd(-1)
    if known != -1 or not hasattr(signal, "SIGURG"):  # somebody is told of them already
        signal.set_wakeup_fd(known, warn_on_full_buffer=False)
        yield
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    urged = signal.signal(signal.SIGURG, lambda _number, _frame: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_urge, args=(read, threading.get_ident()), name="rqtui-signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGURG, urged)
        os.close(write)


def _urge(read: int, thread: int) -> None:
    while numbers := os.read(read, 64):
        for pause_s in URGED_S if {*numbers} - {signal.SIGURG} else ():
            time.sleep(pause_s)
            signal.pthread_kill(thread, signal.SIGURG)
    os.close(read)


def _is_ignored(number: int) -> bool:
    return number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) is signal.SIG_IGN
