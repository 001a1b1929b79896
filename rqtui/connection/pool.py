"""A connection pool for redis-py clients that hands out idle connections without locks, events or metrics.

The pool of redis-py costs 8 to 12 µs per call, a tenth of the time of a put. Rare operations stay with redis-py:
opening connections, their maximum number, closing. `connect` and `cluster` create their clients with this pool. Of a
connection, only two private attributes are used, `_sock` and its parser's `_reader`; without them, the pool works
through redis-py alone.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Mapping
from typing import Any

import hiredis
from redis import Connection, ConnectionPool, exceptions

_DROPPED_OPTIONS = ("himport_registry", "maint_notifications_config", "maint_notifications_pool_handler")


class PooledConnection:
    """A Redis connection with its socket, poll function and hiredis reader, which each call needs.

    `is_plain` means that bytes may be sent and received without redis-py's connection, because it would only pass them
    on: no TLS, no connection that follows a failover or counts commands, no class of the caller.
    """

    __slots__ = ("_has_data", "_poll", "_reader", "_sock", "connection", "is_plain")

    _sock: Any
    _reader: Any

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.refresh_socket()

    def refresh_socket(self) -> None:
        """Read the current socket and reader of the Redis connection, and update `is_plain`."""
        connection = self.connection
        sock: Any = getattr(connection, "_sock", None)
        reader: Any = getattr(getattr(connection, "_parser", None), "_reader", None)
        self._sock, self._reader = sock, reader
        self.is_plain: bool = (
            type(sock) is socket.socket
            and isinstance(reader, hiredis.Reader)
            and hasattr(select, "poll")
            and is_passthrough(type(connection))
        )
        if self.is_plain:
            poller = select.poll()
            poller.register(sock, select.POLLIN)
            self._poll, self._has_data = poller.poll, reader.has_data

    def is_ready(self) -> bool:
        """Return whether the Redis connection is open and has no unread data. False if a check would be expensive."""
        return self.is_plain and self.connection._sock is self._sock and not self._has_data() and not self._poll(0)

    def receive_expected(self, expected: bytes) -> bool:
        """Read the next bytes of a plain connection and return whether they are `expected`.

        Other bytes are passed to the connection's reader, which parses them later. Raises redis-py's TimeoutError, and
        OSError.
        """
        try:
            received = self._sock.recv(len(expected))
        except TimeoutError:
            raise exceptions.TimeoutError("Timeout reading from socket") from None
        if received == expected:
            return True
        if received:  # Empty means that the server closed the connection, which the next read reports.
            self._reader.feed(received)
        return False


def is_passthrough(kind: type) -> bool:
    """Return whether a connection class sends, reads and polls exactly as redis-py's own Connection does."""
    method_names = ("send_packed_command", "read_response", "can_read")
    return all(getattr(kind, name, None) is getattr(Connection, name) for name in method_names)


class Pool(ConnectionPool):
    """A redis-py connection pool with its own list of idle connections. To redis-py, those count as in use.

    Threads may share the pool: `pop` and `append` of a list are atomic. A forked process drops the connections of its
    parent. A pool with a `credential_provider` returns every connection to redis-py, which renews the credentials at
    that moment.
    """

    sent_scripts: set[str] | None = None
    """The digests of the scripts whose text was sent to the server; None if scripts are always named by digest."""
    read_ahead: Any = None
    """The `ReadAhead` (`rqtui.scripts.read_ahead`) with replies that were read before they are needed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._idle: list[PooledConnection] = []
        self._lent: dict[Any, PooledConnection] = {}  # A connection released twice would otherwise serve two threads.
        self._keeps = options.get("credential_provider") is None
        super().__init__(*args, **options)
        self.is_passthrough = is_passthrough(self.connection_class)

    def get_connection(self, *_words: Any, **_options: Any) -> Any:
        """Return an open Redis connection without unread data. Raises the errors of redis-py."""
        line = self.take_connection()
        self._lent[line.connection] = line
        return line.connection

    def release(self, connection: Any) -> None:
        """Return a Redis connection to the pool. redis-py also calls this for connections that it could not open."""
        try:
            line = self._lent.pop(connection)
        except KeyError:
            if all(line.connection is not connection for line in self._idle):  # It may be released a second time.
                super().release(connection)
            return
        self.return_connection(line)

    def take_connection(self) -> PooledConnection:
        """Return an open Redis connection as a PooledConnection.

        The caller must pass it to `return_connection` exactly once.
        """
        pid = os.getpid()
        while True:
            try:
                line = self._idle.pop()  # The most recently used connection is the least likely to be stale.
            except IndexError:
                return PooledConnection(super().get_connection())
            if line.connection.pid == pid:  # Connections of the parent process must not be used or closed.
                break
        if not line.is_ready():
            try:
                reconnect_if_stale(line.connection)
            except BaseException:
                super().release(line.connection)
                raise
            line.refresh_socket()
        return line

    def return_connection(self, pooled_connection: PooledConnection) -> None:
        """Put a connection from `take_connection` back into the pool."""
        connection = pooled_connection.connection
        if connection.pid != os.getpid():
            return
        if self._keeps and not connection.should_reconnect():
            self._idle.append(pooled_connection)
        else:
            super().release(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Close the idle connections to Redis and, by default, those in use. Each reconnects at its next use."""
        with contextlib.suppress(IndexError):
            while True:
                super().release(self._idle.pop().connection)
        super().disconnect(inuse_connections)


def reconnect_if_stale(connection: Any) -> None:
    """Open a Redis connection if it is new, belongs to another server, or was closed by the server meanwhile."""
    # `can_read` would also open a new connection, but without the checks of `connect`.
    if connection._sock is None or getattr(connection, "is_misplaced", False):
        connection.connect()
    try:
        is_stale = connection.can_read()
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError):
        is_stale = True
    if is_stale:  # There is unexpected data, or the server closed the connection.
        connection.disconnect()
        connection.connect()


def copy_pool_options(pool_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a redis-py connection pool, with the settings of `connect` in place of its own.

    The option `retry` is left out: blocking and asyncio clients need different classes for it.
    """
    from rqtui.connection.reply_limits import LimitedParser

    options = {
        name: value
        for name, value in pool_options.items()
        if name not in _DROPPED_OPTIONS and not name.startswith("orig_")
    }
    options["socket_timeout"] = options.get("socket_timeout") or 5.0
    options.update(retry_on_error=[], protocol=2, decode_responses=False, health_check_interval=0)
    options["parser_class"] = LimitedParser
    return options
