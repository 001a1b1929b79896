"""The connections of a client: a free one is handed out and returned without locks, events and counts.

Those of redis-py cost 8 to 12 µs per call, a tenth of what a put took. Everything rare stays redis-py's: making a
connection, the greatest number of them, closing. `connect` and `cluster` make their clients of it. Of a connection only
`_sock` and its parser's `_reader` are known here that redis-py does not have in public, and without them all goes on.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from typing import Any

import hiredis
from redis import Connection, ConnectionPool, exceptions


class Line:
    """A connection, and of the socket that it has now what is asked for in each call.

    `is_plain`: bytes may pass beside redis-py, since its connection would do nothing but pass them: no TLS, no class
    that follows, counts, or is the caller's own.
    """

    __slots__ = ("_has_data", "_poll", "_reader", "_sock", "connection", "is_plain")

    _sock: Any
    _reader: Any

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.look()

    def look(self) -> None:
        """Looks what socket the connection has now."""
        connection = self.connection
        sock: Any = getattr(connection, "_sock", None)
        reader: Any = getattr(getattr(connection, "_parser", None), "_reader", None)
        self._sock, self._reader = sock, reader
        self.is_plain: bool = (
            type(sock) is socket.socket
            and type(reader) is hiredis.Reader
            and hasattr(select, "poll")
            and only_passes_bytes(type(connection))
        )
        if self.is_plain:
            asked = select.poll()
            asked.register(sock, select.POLLIN)
            self._poll, self._has_data = asked.poll, reader.has_data

    def is_ready(self) -> bool:
        """Whether it is established and has nothing to be read, where that can be told at once."""
        return self.is_plain and self.connection._sock is self._sock and not self._has_data() and not self._poll(0)

    def reads(self, expected: bytes) -> bool:
        """Whether what comes next is exactly this, of a plain line; all else is left to its connection, to be read.

        Raises redis-py's TimeoutError; OSError.
        """
        try:
            found = self._sock.recv(len(expected))
        except TimeoutError:
            raise exceptions.TimeoutError("Timeout reading from socket") from None
        if found == expected:
            return True
        if found:  # without: the end, which the connection finds, too
            self._reader.feed(found)
        return False


def only_passes_bytes(kind: type) -> bool:
    """Whether connections of this class send, read and look as those of redis-py do."""
    ours = ("send_packed_command", "read_response", "can_read")
    return all(getattr(kind, name, None) is getattr(Connection, name) for name in ours)


class Pool(ConnectionPool):
    """redis-py's pool, whose idle connections stand on a list of its own; to redis-py they count as in use.

    May be shared by threads: a list's `pop` and `append` are one step each. A process that was forked off drops what
    its parent connected. Credentials that change by themselves are renewed when a connection comes back to redis-py, so
    a pool with a `credential_provider` gives all of them back.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._idle: list[Line] = []
        self._lent: dict[Any, Line] = {}  # a connection that came back twice would soon serve two threads
        self._keeps = options.get("credential_provider") is None
        super().__init__(*args, **options)
        self.only_passes_bytes = only_passes_bytes(self.connection_class)

    def get_connection(self, *_words: Any, **_options: Any) -> Any:
        """A connection that is established and has nothing to be read. Raises the errors of redis-py."""
        line = self.take()
        self._lent[line.connection] = line
        return line.connection

    def release(self, connection: Any) -> None:
        """A connection comes back; redis-py brings those that it could not connect."""
        try:
            line = self._lent.pop(connection)
        except KeyError:
            if all(line.connection is not connection for line in self._idle):  # when it comes back once more
                super().release(connection)
            return
        self.give_back(line)

    def take(self) -> Line:
        """The same as `get_connection`; who takes it calls `give_back`, once."""
        pid = os.getpid()
        while True:
            try:
                line = self._idle.pop()  # the one that came back last
            except IndexError:
                return Line(super().get_connection())
            if line.connection.pid == pid:  # those that a parent process made are left alone
                break
        if not line.is_ready():
            try:
                reconnect_if_stale(line.connection)
            except BaseException:
                super().release(line.connection)
                raise
            line.look()
        return line

    def give_back(self, line: Line) -> None:
        """What `take` handed out comes back."""
        connection = line.connection
        if connection.pid != os.getpid():
            return
        if self._keeps and not connection.should_reconnect():
            self._idle.append(line)
        else:
            super().release(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Closes the idle connections, and those in use unless told not to; the next use of each connects again."""
        with contextlib.suppress(IndexError):
            while True:
                super().release(self._idle.pop().connection)
        super().disconnect(inuse_connections)


def reconnect_if_stale(connection: Any) -> None:
    """Connects where that is needed: never yet, at another place than it belongs to, closed by the server meanwhile."""
    if connection._sock is None or getattr(
        connection, "is_misplaced", False
    ):  # `can_read` would connect, but by itself
        connection.connect()
    try:
        is_stale = connection.can_read()
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError):
        is_stale = True
    if is_stale:  # data nobody asked for, or the end of the stream
        connection.disconnect()
        connection.connect()
