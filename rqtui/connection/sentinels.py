"""Find the primary of a sentinel service, and cut connections to a server that the sentinels replaced.

A failover does not close the connections to the old primary. A primary that was paused or cut off from the sentinels
accepts commands for about ten more seconds, and every change it accepts in that time is lost. So while a connection is
open, one thread per sentinel waits for `+switch-master`, asks the sentinel again each second, and cuts connections to
any other server. Requests themselves have no overhead. `cluster` and `rqtui.aio.pool` create these connections.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakSet

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisError

from rqtui.connection.redis_errors.connecting import describe_sentinel_error
from rqtui.connection.urls import Address, format_address

POLL_S = 1.0  # how often a sentinel is asked again whose `+switch-master` did not arrive
SWITCHED = "+switch-master"


class NotFound(NoConnection):
    """No sentinel or Cluster node returned a server address to connect to. The text is a sentence for a person."""


class Watched(Protocol):
    """A connection to a Redis primary that a watching thread may cut. All members are used from that thread."""

    host: str
    port: int

    @property
    def is_open(self) -> bool:
        """Whether the connection to Redis is open."""
        ...

    def cut_connection(self) -> None:
        """Cut the connection, also during a request. Its next use connects to the address that the sentinels name."""
        ...


class Sentinels:
    """The Redis sentinels of one service: they find its primary, and cut connections after a failover.

    Threads may share the object, and it works after a fork.
    """

    def __init__(
        self,
        service: str,
        sentinels: Sequence[tuple[Address, Redis]],
        is_up: Callable[[Mapping[str, Any], str], bool],
    ) -> None:
        """Store the redis-py client of each sentinel.

        `is_up` checks the state of a primary (`Sentinel.check_master_state`).
        """
        self._service, self._sentinels, self._is_up = service, tuple(sentinels), is_up
        self._trusted = 0  # The sentinel to ask first: an unreachable one would delay each connection by a time-out.
        self._reset_threads()

    def find_primary(self) -> Address:
        """Return the address of the primary that the sentinels name.

        Raises NotFound with a reason for each sentinel.
        """
        self._reset_after_fork()
        reasons = []
        for number in sorted(range(len(self._sentinels)), key=lambda number: number != self._trusted):
            address, client = self._sentinels[number]
            try:
                state = _read_sentinel_masters(client).get(self._service)
            except RedisError as error:
                reasons.append(describe_sentinel_error(error, address))
                continue
            if state and self._is_up(state, self._service):
                self._trusted = number
                self._views[number] = view = _parse_primary_state(state)
                return view[1]
            reasons.append(f"{format_address(address)} {'holds it for down' if state else 'does not know it'}.")
        addresses = ", ".join(format_address(address) for address, _client in self._sentinels)
        raise NotFound(f'The sentinels at {addresses} name no primary of "{self._service}": {" ".join(reasons)}')

    def watch_connection(self, connection: Watched) -> None:
        """Cut a connection when the sentinels name another primary than the server it is connected to."""
        self._reset_after_fork()
        with self._lock:
            self._watched.add(connection)
            for number in {*range(len(self._sentinels))} - self._followed:
                self._followed.add(number)
                threading.Thread(
                    target=self._watch_sentinel, args=(number,), name="rqtui-sentinel", daemon=True
                ).start()

    def _reset_after_fork(self) -> None:
        """Forget the threads and connections of the parent process after a fork.

        Otherwise the child process would cut the connections of its parent.
        """
        if self._pid != os.getpid():
            self._reset_threads()

    def _reset_threads(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._watched: WeakSet[Watched] = WeakSet()
        self._followed: set[int] = set()
        self._views: dict[int, tuple[int, Address]] = {}  # by sentinel: epoch and address of the primary

    def _watch_sentinel(self, number: int) -> None:
        """Ask one sentinel for the primary again and again while connections are open. Runs on its own thread."""
        pubsub = self._sentinels[number][1].pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        try:
            while self._has_open_connections(number):
                self._check_sentinel_primary(number)
                try:
                    if not pubsub.subscribed:
                        pubsub.subscribe(SWITCHED)
                    pubsub.get_message(timeout=POLL_S)
                except (RedisError, OSError):  # The sentinel is unreachable, or an ACL denies SUBSCRIBE.
                    time.sleep(POLL_S)
        finally:
            pubsub.close()

    def _has_open_connections(self, number: int) -> bool:
        with self._lock:
            if any(connection.is_open for connection in self._watched):
                return True
            self._followed.discard(number)  # The next connection starts another thread.
            return False

    def _check_sentinel_primary(self, number: int) -> None:
        """Ask one sentinel for the primary, and cut connections to other servers.

        Sentinels that were cut off from the others still name the old primary, so the highest epoch wins.
        """
        try:
            state = _read_sentinel_masters(self._sentinels[number][1]).get(self._service)
        except (RedisError, OSError):
            state = None
        with self._lock:
            if state and self._is_up(state, self._service):
                self._views[number] = _parse_primary_state(state)
            else:
                self._views.pop(number, None)
            views = {**self._views}
            if not views:
                return
            self._trusted = max(views, key=lambda sentinel: (views[sentinel][0], sentinel == self._trusted))
            primary = views[self._trusted][1]
            replaced = [
                connection_to_check
                for connection_to_check in self._watched
                if connection_to_check.is_open and (connection_to_check.host, connection_to_check.port) != primary
            ]
        for connection in replaced:
            connection.cut_connection()


def _read_sentinel_masters(sentinel: Redis) -> Mapping[str, Any]:
    states: Any = sentinel.sentinel_masters()
    return states  # type: ignore[no-any-return]


def _parse_primary_state(state: Mapping[str, Any]) -> tuple[int, Address]:
    return int(state.get("config-epoch", 0)), (str(state["ip"]), int(state["port"]))
