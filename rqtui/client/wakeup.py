"""Wait for new jobs without polling: for the wake marker and a local timer at once (the protocol: `lua/README.md`).

A `WakeWaiter` blocks on `BZPOPMIN …:wake` on a connection of its own and watches the socket. So a local timer, exact to
the millisecond, or a stop from another thread can end the wait, too. `consumer` uses this module. No script is run
here.
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

from rqtui.connection.redis_errors import error_replies
from rqtui.errors import Refused, RqtuiError, ServerError

BLOCK_S = 10.0  # the timeout of one BZPOPMIN
GRACE_S = 5.0  # if the reply is later than the timeout by this much, the connection is dead
STOP_CHECK_S = 0.2  # how soon a threading.Event is noticed; `interrupt` is noticed at once
EPOLL_S = 0.001  # the unit of an epoll timeout; Python's selectors round up to it
UNBLOCK_LAG_S = 0.005  # an UNBLOCK may reach Redis before the BZPOPMIN that it shall end; then it is sent again


class WakeReason(Enum):
    """The reason why a consumer's wait for new jobs ended."""

    MARKER = "marker"  # a job is ready or becomes due sooner; this consumer now has to keep the timer
    TIMER = "timer"
    NOTHING = "nothing"  # the BZPOPMIN timed out after BLOCK_S
    INTERRUPTED = "interrupted"


class WakeWaiter:
    """Waits for new jobs on the wake key of a queue.

    Only `interrupt` may be called from other threads or signal handlers.
    """

    def __init__(self, client: Redis, key: str) -> None:
        self._client = client
        self._key = key
        self._connection: Any = None
        self._socket: Any = None  # the connection's socket that is registered with the selector
        self._client_id: int | None = None  # None: CLIENT UNBLOCK is not possible, so BZPOPMIN's timeout is the timer
        self._may_unblock = True
        self._is_watchable = True
        self._requested_s: float | None = None  # when the pending BZPOPMIN was sent; None: none is pending
        self._block_s = BLOCK_S
        self._read_fd, self._write_fd = os.pipe()
        for end in (self._read_fd, self._write_fd):
            os.set_blocking(end, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._read_fd, selectors.EVENT_READ)

    def interrupt(self) -> None:
        """End the current wait for new jobs, or the next one."""
        with contextlib.suppress(OSError):  # a full pipe ends the wait anyway; after `close` there is no wait to end
            os.write(self._write_fd, b"!")

    def wait(self, timer_s: float | None, stop: threading.Event | None = None) -> WakeReason:
        """Wait for the wake marker, for `timer_s` (None: no timer), for `stop` or `interrupt`.

        After a reason other than MARKER and NOTHING, call `cancel_wait` before the next job is claimed. Raises
        Unreachable, Denied, ServerError.
        """
        until_s = None if timer_s is None else time.monotonic() + timer_s
        if timer_s is not None and timer_s <= UNBLOCK_LAG_S and self._requested_s is None:
            return WakeReason.INTERRUPTED if self.pause(timer_s, stop) else WakeReason.TIMER
        with self._translate_wait_errors():
            if not self._open_wake_connection():
                return self._wait_in_slices(until_s, stop)
            self._send_bzpopmin(timer_s)
            if self._client_id is None:
                until_s = None  # the timeout of BZPOPMIN is the timer
            while True:
                reason = self._wait_for_event(until_s, stop)
                if reason is WakeReason.MARKER:
                    return self._read_wake_reply()
                if reason is not WakeReason.NOTHING:
                    return reason
                if time.monotonic() > (self._requested_s or 0) + self._block_s + GRACE_S:
                    raise exceptions.ConnectionError("Redis does not answer any more.")

    def pause(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Wait some seconds without a request to Redis; return whether an interrupt or `stop` ended the wait."""
        until_s = time.monotonic() + seconds
        while True:
            if stop is not None and stop.is_set():
                return True
            left_s = max(0.0, until_s - time.monotonic())
            if left_s < EPOLL_S:
                time.sleep(left_s)
                left_s = 0.0
            select_s = _round_seconds_down_to_ms(left_s if stop is None else min(left_s, STOP_CHECK_S))
            # A selector of its own, because a readable socket of a pending BZPOPMIN would end each turn at once.
            with selectors.DefaultSelector() as pipe:
                pipe.register(self._read_fd, selectors.EVENT_READ)
                if pipe.select(select_s):
                    self._drain_interrupt_pipe()
                    return True
            if left_s == 0:
                return False

    def cancel_wait(self) -> None:
        """End the pending BZPOPMIN, and put back a wake marker that it took at the last moment for other consumers."""
        if self._requested_s is None:
            return
        with self._translate_wait_errors():
            if self._client_id is None:
                self._close_wake_connection()
                # BZPOPMIN may have taken the marker; a second one is harmless.
                self._client.zadd(self._key, {b"wake": 0})
                return
            while not self._has_readable_reply(0):
                self._unblock_bzpopmin()
                if self._requested_s is None or self._has_readable_reply(UNBLOCK_LAG_S):
                    break
            if self._requested_s is not None and self._read_wake_reply() is WakeReason.MARKER:
                self._client.zadd(self._key, {b"wake": 0})

    def restore_marker(self) -> None:
        """Put the wake marker back for another consumer, which then keeps the timer."""
        with self._translate_wait_errors():
            self._client.zadd(self._key, {b"wake": 0})

    def close(self) -> None:
        """Release the waiter's connection and pipe. No other method may be called afterwards."""
        self._close_wake_connection()
        if self._connection is not None:
            self._client.connection_pool.release(self._connection)
            self._connection = None
        self._selector.close()
        read_fd, self._read_fd, write_fd, self._write_fd = self._read_fd, -1, self._write_fd, -1
        os.close(read_fd)  # after the attributes are cleared, so that a late `interrupt` does not write to another file
        os.close(write_fd)

    def _send_bzpopmin(self, timer_s: float | None) -> None:
        if self._requested_s is not None:
            return
        self._block_s = BLOCK_S
        if self._client_id is None and timer_s is not None:
            self._block_s = max(0.01, min(BLOCK_S, timer_s))  # 0 would block without a timeout
        self._connection.send_command("BZPOPMIN", self._key, f"{self._block_s:.3f}", check_health=False)
        self._requested_s = time.monotonic()

    def _wait_in_slices(self, until_s: float | None, stop: threading.Event | None) -> WakeReason:
        """Wait for new jobs on a fakeredis inside this process, in short slices: there is no socket to watch."""
        end_s = time.monotonic() + BLOCK_S
        while (now_s := time.monotonic()) < end_s:
            if until_s is not None and now_s >= until_s:
                return WakeReason.TIMER
            if self.pause(0, stop):
                return WakeReason.INTERRUPTED
            left_s = min(STOP_CHECK_S, end_s - now_s, STOP_CHECK_S if until_s is None else until_s - now_s)
            if self._client.bzpopmin(self._key, timeout=max(0.01, left_s)):
                return WakeReason.MARKER
        return WakeReason.NOTHING

    def _open_wake_connection(self) -> bool:
        """Open the connection whose socket is watched for the wake marker; return False if the client has no socket."""
        connection = self._connection
        if not self._is_watchable:
            return False
        if connection is None:
            pool: Any = self._client.connection_pool
            connection = self._connection = pool.get_connection()
        elif self._socket is not None and connection._sock is self._socket:
            return True
        self._close_wake_connection()
        connection.connect()
        try:
            connection.send_command("CLIENT", "ID", check_health=False)
            self._client_id = int(connection.read_response())
        except exceptions.ResponseError:  # an ACL denies it
            self._client_id = None
        if not self._may_unblock:
            self._client_id = None
        # The socket of fakeredis is no real one: its `fileno` is a counter, which may be any open file of this process.
        self._is_watchable = isinstance(connection._sock, socket.socket)
        if self._is_watchable:
            self._selector.register(connection._sock, selectors.EVENT_READ)
            self._socket = connection._sock
        return self._is_watchable

    def _wait_for_event(self, until_s: float | None, stop: threading.Event | None) -> WakeReason:
        """Wait for a reply, the timer, `stop` or an interrupt.

        MARKER means that the socket has a reply, NOTHING that the caller has to call again.
        """
        if stop is not None and stop.is_set():
            return WakeReason.INTERRUPTED
        now_s = time.monotonic()
        if until_s is not None and now_s >= until_s:
            return WakeReason.TIMER
        wait_s = self._block_s + GRACE_S if stop is None else STOP_CHECK_S
        if self._has_decrypted_data():
            return WakeReason.MARKER
        if until_s is not None:
            if until_s - now_s < EPOLL_S:
                time.sleep(until_s - now_s)
                return WakeReason.TIMER
            wait_s = min(wait_s, _round_seconds_down_to_ms(until_s - now_s))
        ready = {key.fileobj for key, _ in self._selector.select(wait_s)}
        if self._read_fd in ready:
            self._drain_interrupt_pipe()
            return WakeReason.INTERRUPTED
        return WakeReason.MARKER if ready else WakeReason.NOTHING

    def _has_readable_reply(self, wait_s: float) -> bool:
        if self._has_decrypted_data():
            return True
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return bool(selector.select(wait_s))

    def _has_decrypted_data(self) -> bool:
        """Return whether TLS has decrypted unread data, for which the socket never becomes readable."""
        if self._connection._sock is not self._socket:
            raise exceptions.ConnectionError("The connection was closed.")  # by Queue.close in another thread
        pending = getattr(self._socket, "pending", None)
        return bool(pending and pending())

    def _read_wake_reply(self) -> WakeReason:
        reply = self._connection.read_response()
        self._requested_s = None
        return WakeReason.NOTHING if reply is None else WakeReason.MARKER

    def _unblock_bzpopmin(self) -> None:
        try:
            self._client.execute_command("CLIENT", "UNBLOCK", self._client_id)  # type: ignore[no-untyped-call]
        except exceptions.ResponseError:  # an ACL denies it: from now on the timeout of BZPOPMIN is the timer
            self._close_wake_connection()
            self._may_unblock = False
            self._client.zadd(self._key, {b"wake": 0})

    def _drain_interrupt_pipe(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_fd, 512):
                pass

    def _close_wake_connection(self) -> None:
        self._requested_s = None
        if self._socket is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._socket)
            self._socket = None
        if self._connection is not None:
            self._connection.disconnect()

    @contextlib.contextmanager
    def _translate_wait_errors(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            self._close_wake_connection()
            raise translate_wait_error(error) from error


def _round_seconds_down_to_ms(seconds: float) -> float:
    """Round seconds down to whole milliseconds, because a selector rounds up; the caller sleeps for the rest."""
    return max(0.0, math.floor(seconds / EPOLL_S) * EPOLL_S - 1e-6)


def translate_wait_error(error: Exception) -> RqtuiError:
    """Convert an error of redis-py while waiting for jobs to one of rqtui's. The command may safely be sent again."""
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        return error_replies.build_connection_error(error)
    translated = error_replies.build_reply_error(error, "waiting for work", "")
    return ServerError(str(translated)) if isinstance(translated, Refused) else translated
