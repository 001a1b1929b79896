"""The connections of a client: a free one is handed out and returned without locks, events and counts.

Those of redis-py cost 8 to 12 µs per call, a tenth of what a put took. Everything rare stays redis-py's: making a
connection, the greatest number of them, closing. `connect` and `cluster` make their clients of it; of a connection
only `_sock` is known here that redis-py does not have in public, and without it all goes on.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from redis import ConnectionPool, exceptions


class Pool(ConnectionPool):
    """redis-py's pool, whose idle connections stand on a list of its own; to redis-py they count as in use.

    May be shared by threads: a list's `pop` and `append` are one step each. A process that was forked off drops what
    its parent connected. Credentials that change by themselves are renewed when a connection comes back to redis-py, so
    a pool with a `credential_provider` gives all of them back.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._idle: list[Any] = []
        self._lent: set[Any] = set()  # a connection that came back twice would soon serve two threads
        self._keeps = options.get("credential_provider") is None
        super().__init__(*args, **options)

    def get_connection(self, *_words: Any, **_options: Any) -> Any:
        """A connection that is established and has nothing to be read. Raises the errors of redis-py."""
        connection = self._idle_of_this_process()
        if connection is None:
            connection = super().get_connection()
        else:
            try:
                reconnect_if_stale(connection)
            except BaseException:
                super().release(connection)
                raise
        self._lent.add(connection)
        return connection

    def release(self, connection: Any) -> None:
        """A connection comes back; redis-py brings those that it could not connect."""
        try:
            self._lent.remove(connection)
        except KeyError:
            if connection not in self._idle:  # there it stands when it comes back once more
                super().release(connection)
            return
        if connection.pid != os.getpid():
            return
        if self._keeps and not connection.should_reconnect():
            self._idle.append(connection)
        else:
            super().release(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Closes the idle connections, and those in use unless told not to; the next use of each connects again."""
        with contextlib.suppress(IndexError):
            while True:
                super().release(self._idle.pop())
        super().disconnect(inuse_connections)

    def _idle_of_this_process(self) -> Any:
        """The connection that came back last; those that a parent process made are left alone."""
        pid = os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.pid == pid:
                return connection


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
