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
    """No sentinel or node returned an address to connect to. The text is a sentence for a person."""


class Watched(Protocol):
    """A connection to the primary that a watching thread may cut. All members are used from another thread."""

    host: str
    port: int

    @property
    def is_open(self) -> bool:
        """Whether the connection is connected."""
        ...

    def leave(self) -> None:
        """Cut the connection, also during a request. Its next use connects to the address that the sentinels name."""
        ...


class Sentinels:
    """The sentinels of one service. Threads may share it, and it works after a fork."""

    def __init__(
        self,
        service: str,
        sentinels: Sequence[tuple[Address, Redis]],
        is_up: Callable[[Mapping[str, Any], str], bool],
    ) -> None:
        """Store the sentinels. `is_up` checks the state of the primary: redis-py's `Sentinel.check_master_state`."""
        self._service, self._sentinels, self._is_up = service, tuple(sentinels), is_up
        self._trusted = 0  # The sentinel to ask first: an unreachable one would delay each connection by a time-out.
        self._reset()

    def find_primary(self) -> Address:
        """Return the address of the primary. Raises NotFound with a reason for each sentinel."""
        self._reset_after_fork()
        reasons = []
        for number in sorted(range(len(self._sentinels)), key=lambda number: number != self._trusted):
            address, client = self._sentinels[number]
            try:
                state = _read_primaries(client).get(self._service)
            except RedisError as error:
                reasons.append(describe_sentinel_error(error, address))
                continue
            if state and self._is_up(state, self._service):
                self._trusted = number
                self._views[number] = view = _parse_view(state)
                return view[1]
            reasons.append(f"{format_address(address)} {'holds it for down' if state else 'does not know it'}.")
        at = ", ".join(format_address(address) for address, _client in self._sentinels)
        raise NotFound(f'The sentinels at {at} name no primary of "{self._service}": {" ".join(reasons)}')

    def watch(self, connection: Watched) -> None:
        """Cut `connection` when the sentinels name another primary than the server it is connected to."""
        self._reset_after_fork()
        with self._lock:
            self._watched.add(connection)
            for number in {*range(len(self._sentinels))} - self._followed:
                self._followed.add(number)
                threading.Thread(
                    target=self._watch_sentinel, args=(number,), name="rqtui-sentinel", daemon=True
                ).start()

    def _reset_after_fork(self) -> None:
        """Start without threads and connections after a fork.

        Otherwise the child process would cut the connections of its parent.
        """
        if self._pid != os.getpid():
            self._reset()

    def _reset(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._watched: WeakSet[Watched] = WeakSet()
        self._followed: set[int] = set()
        self._views: dict[int, tuple[int, Address]] = {}  # by sentinel: epoch and address of the primary

    def _watch_sentinel(self, number: int) -> None:
        """Keep the state of one sentinel up to date while connections are open. Runs on its own thread."""
        pubsub = self._sentinels[number][1].pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        try:
            while self._is_needed(number):
                self._poll_sentinel(number)
                try:
                    if not pubsub.subscribed:
                        pubsub.subscribe(SWITCHED)
                    pubsub.get_message(timeout=POLL_S)
                except (RedisError, OSError):  # The sentinel is unreachable, or an ACL denies SUBSCRIBE.
                    time.sleep(POLL_S)
        finally:
            pubsub.close()

    def _is_needed(self, number: int) -> bool:
        with self._lock:
            if any(connection.is_open for connection in self._watched):
                return True
            self._followed.discard(number)  # The next connection starts another thread.
            return False

    def _poll_sentinel(self, number: int) -> None:
        """Ask one sentinel for the primary, and cut connections to other servers.

        Sentinels that were cut off from the others still name the old primary, so the highest epoch wins.
        """
        try:
            state = _read_primaries(self._sentinels[number][1]).get(self._service)
        except (RedisError, OSError):
            state = None
        with self._lock:
            if state and self._is_up(state, self._service):
                self._views[number] = _parse_view(state)
            else:
                self._views.pop(number, None)
            views = {**self._views}
            if not views:
                return
            self._trusted = max(views, key=lambda each: (views[each][0], each == self._trusted))
            primary = views[self._trusted][1]
            replaced = [one for one in self._watched if one.is_open and (one.host, one.port) != primary]
        for connection in replaced:
            connection.leave()


def _read_primaries(sentinel: Redis) -> Mapping[str, Any]:
    states: Any = sentinel.sentinel_masters()
    return states  # type: ignore[no-any-return]


def _parse_view(state: Mapping[str, Any]) -> tuple[int, Address]:
    return int(state.get("config-epoch", 0)), (str(state["ip"]), int(state["port"]))
