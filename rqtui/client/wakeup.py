"""Waiting for work without polling: the wake marker, a local timer, and both at once (the protocol: `lua/README.md`).

A `Doorbell` blocks on `BZPOPMIN …:wake` on a connection of its own and watches its socket, so that a local timer, exact
to the millisecond, and a stop from another thread end the wait as well. Used by `consumer`; it runs no scripts.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from enum import Enum
from typing import Any

from redis import Redis, exceptions

from rqtui.errors import Refused, RqtuiError, ServerError
from rqtui.scripts import replies

BLOCK_S = 10.0  # at most so long does Redis hold one BZPOPMIN
GRACE_S = 5.0  # without a reply that much after its end, the connection is dead
LOOK_S = 0.2  # how soon a threading.Event is noticed; `interrupt` is noticed at once
EPOLL_S = 0.001  # the units of an epoll, which the selectors of Python fill up
UNBLOCK_LAG_S = 0.005  # an UNBLOCK may overtake the BZPOPMIN it is meant for: then it is asked again


class Woken(Enum):
    """Why a wait ended."""

    MARKER = "marker"  # something is ready or falls due sooner; the timer is now ours to hold
    TIMER = "timer"
    NOTHING = "nothing"  # Redis let go after BLOCK_S, as it does when nothing happens
    INTERRUPTED = "interrupted"


class Doorbell:
    """One waiter on the wake key of a queue. Only `interrupt` may be called from another thread or a signal handler."""

    def __init__(self, client: Redis, key: str) -> None:
        self._client = client
        self._key = key
        self._connection: Any = None
        self._socket: Any = None  # that of the connection, as the selector knows it
        self._client_id: int | None = None  # None: nobody can be unblocked, so the server keeps the time
        self._may_unblock = True
        self._is_watchable = True
        self._asked_s: float | None = None  # since when a BZPOPMIN is under way
        self._asks_s = BLOCK_S
        self._read_fd, self._write_fd = os.pipe()
        for end in (self._read_fd, self._write_fd):
            os.set_blocking(end, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._read_fd, selectors.EVENT_READ)

    def interrupt(self) -> None:
        """End the wait under way, or the next one."""
        with contextlib.suppress(OSError):  # full: it will wake up anyway; closed: nobody waits
            os.write(self._write_fd, b"!")

    def wait(self, timer_s: float | None, stop: threading.Event | None = None) -> Woken:
        """Wait for the marker, for `timer_s` (None: no timer), for `stop` or `interrupt`.

        After anything but MARKER and NOTHING call `withdraw` before working. Raises Unreachable, Denied, ServerError.
        """
        until_s = None if timer_s is None else time.monotonic() + timer_s
        if timer_s is not None and timer_s <= UNBLOCK_LAG_S and self._asked_s is None:
            return Woken.INTERRUPTED if self.pause(timer_s, stop) else Woken.TIMER
        with self._errors_translated():
            if not self._connect():
                return self._wait_in_slices(until_s, stop)
            self._ask(timer_s)
            if self._client_id is None:
                until_s = None  # the server's own time-out is the timer
            while True:
                ready = self._ready(until_s, stop)
                if ready is Woken.MARKER:
                    return self._read()
                if ready is not Woken.NOTHING:
                    return ready
                if time.monotonic() > (self._asked_s or 0) + self._asks_s + GRACE_S:
                    raise exceptions.ConnectionError("Redis does not answer any more.")

    def pause(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Wait without asking Redis; True when interrupted or stopped before the time was over."""
        until_s = time.monotonic() + seconds
        while True:
            if stop is not None and stop.is_set():
                return True
            left_s = max(0.0, until_s - time.monotonic())
            if left_s < EPOLL_S:
                time.sleep(left_s)
                left_s = 0.0
            look_s = _in_whole_ms(left_s if stop is None else min(left_s, LOOK_S))
            # Not the selector: the socket of a BZPOPMIN under way would end each turn at once.
            with selectors.DefaultSelector() as pipe:
                pipe.register(self._read_fd, selectors.EVENT_READ)
                if pipe.select(look_s):
                    self._drain()
                    return True
            if left_s == 0:
                return False

    def withdraw(self) -> None:
        """End the BZPOPMIN under way, and put a marker back that it took at the last moment: others wait for it."""
        if self._asked_s is None:
            return
        with self._errors_translated():
            if self._client_id is None:
                self._disconnect()
                self._client.zadd(self._key, {b"wake": 0})  # it may have taken the marker; one too many does no harm
                return
            while not self._readable(0):
                self._unblock()
                if self._asked_s is None or self._readable(UNBLOCK_LAG_S):
                    break
            if self._asked_s is not None and self._read() is Woken.MARKER:
                self._client.zadd(self._key, {b"wake": 0})

    def pass_on(self) -> None:
        """Leave the marker for another consumer, which then holds the timer."""
        with self._errors_translated():
            self._client.zadd(self._key, {b"wake": 0})

    def close(self) -> None:
        """Give the connection and the pipe back; the last call."""
        self._disconnect()
        if self._connection is not None:
            self._client.connection_pool.release(self._connection)
            self._connection = None
        self._selector.close()
        read_fd, self._read_fd, write_fd, self._write_fd = self._read_fd, -1, self._write_fd, -1
        os.close(read_fd)  # the numbers are forgotten first: a late `interrupt` must not write into another file
        os.close(write_fd)

    def _ask(self, timer_s: float | None) -> None:
        if self._asked_s is not None:
            return
        self._asks_s = BLOCK_S
        if self._client_id is None and timer_s is not None:
            self._asks_s = max(0.01, min(BLOCK_S, timer_s))  # 0 would mean for ever
        self._connection.send_command("BZPOPMIN", self._key, f"{self._asks_s:.3f}", check_health=False)
        self._asked_s = time.monotonic()

    def _wait_in_slices(self, until_s: float | None, stop: threading.Event | None) -> Woken:
        """What `wait` does on fakeredis inside this process, whose connections have no socket to watch."""
        end_s = time.monotonic() + BLOCK_S
        while (now_s := time.monotonic()) < end_s:
            if until_s is not None and now_s >= until_s:
                return Woken.TIMER
            if self.pause(0, stop):
                return Woken.INTERRUPTED
            left_s = min(LOOK_S, end_s - now_s, LOOK_S if until_s is None else until_s - now_s)
            if self._client.bzpopmin(self._key, timeout=max(0.01, left_s)):
                return Woken.MARKER
        return Woken.NOTHING

    def _connect(self) -> bool:
        """Have a connection whose socket can be watched; False where there are none such."""
        connection = self._connection
        if not self._is_watchable:
            return False
        if connection is None:
            pool: Any = self._client.connection_pool
            connection = self._connection = pool.get_connection()
        elif self._socket is not None and connection._sock is self._socket:
            return True
        self._disconnect()
        connection.connect()
        try:
            connection.send_command("CLIENT", "ID", check_health=False)
            self._client_id = int(connection.read_response())
        except exceptions.ResponseError:  # an ACL denies it
            self._client_id = None
        if not self._may_unblock:
            self._client_id = None
        # That of fakeredis only looks like a socket: its `fileno` is a counter and may name any file of this process.
        self._is_watchable = isinstance(connection._sock, socket.socket)
        if self._is_watchable:
            self._selector.register(connection._sock, selectors.EVENT_READ)
            self._socket = connection._sock
        return self._is_watchable

    def _ready(self, until_s: float | None, stop: threading.Event | None) -> Woken:
        """MARKER: a reply stands on the socket; NOTHING: look again."""
        if stop is not None and stop.is_set():
            return Woken.INTERRUPTED
        now_s = time.monotonic()
        if until_s is not None and now_s >= until_s:
            return Woken.TIMER
        wait_s = self._asks_s + GRACE_S if stop is None else LOOK_S
        if self._is_pending():
            return Woken.MARKER
        if until_s is not None:
            if until_s - now_s < EPOLL_S:
                time.sleep(until_s - now_s)
                return Woken.TIMER
            wait_s = min(wait_s, _in_whole_ms(until_s - now_s))
        found = {key.fileobj for key, _ in self._selector.select(wait_s)}
        if self._read_fd in found:
            self._drain()
            return Woken.INTERRUPTED
        return Woken.MARKER if found else Woken.NOTHING

    def _readable(self, wait_s: float) -> bool:
        if self._is_pending():
            return True
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return bool(selector.select(wait_s))

    def _is_pending(self) -> bool:
        """Whether TLS has decrypted more than was read: the socket itself would never become readable for that."""
        if self._connection._sock is not self._socket:
            raise exceptions.ConnectionError("The connection was closed.")  # by Queue.close in another thread
        pending = getattr(self._socket, "pending", None)
        return bool(pending and pending())

    def _read(self) -> Woken:
        reply = self._connection.read_response()
        self._asked_s = None
        return Woken.NOTHING if reply is None else Woken.MARKER

    def _unblock(self) -> None:
        try:
            self._client.execute_command("CLIENT", "UNBLOCK", self._client_id)  # type: ignore[no-untyped-call]
        except exceptions.ResponseError:  # an ACL denies it: from now on the server keeps the time
            self._disconnect()
            self._may_unblock = False
            self._client.zadd(self._key, {b"wake": 0})

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_fd, 512):
                pass

    def _disconnect(self) -> None:
        self._asked_s = None
        if self._socket is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._socket)
            self._socket = None
        if self._connection is not None:
            self._connection.disconnect()

    @contextlib.contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            self._disconnect()
            raise translated(error) from error


def _in_whole_ms(seconds: float) -> float:
    """As long as a selector can wait without its rounding up; the rest is slept."""
    return max(0.0, math.floor(seconds / EPOLL_S) * EPOLL_S - 1e-6)


def translated(error: Exception) -> RqtuiError:
    """Our error for one of redis-py's, of a command that does no harm when it is sent again."""
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        return replies.from_connecting(error)
    found = replies.from_reply(error, "waiting for work", "")
    return ServerError(str(found)) if isinstance(found, Refused) else found
