"""The connections of an event loop: made of what `rqtui.connection` makes for threads, so that URLs, TLS, Sentinel and
Cluster mean the same.

Where a primary or the node of a slot is now, is asked for on a thread by the same code. Nothing is sent twice here.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import select
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import redis
from redis import asyncio as aioredis
from redis import exceptions
from redis.asyncio import connection as theirs
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from rqtui.connection.cluster import NotFound
from rqtui.connection.connect import (
    Greeting,
    connect,
    connect_like,
    no_client,
    options_like,
    protected_mode_told,
)
from rqtui.connection.nodes import of_key
from rqtui.connection.urls import Address
from rqtui.errors import UsageError

MOST = 50  # connections for calls; who comes when all are in use waits for one
Find = Callable[[], Address] | Callable[[], Awaitable[Address]]


class Pool(theirs.ConnectionPool):
    """Connections of one loop, handed out one call at a time; they belong to the loop that first uses them.

    `reply_s` bounds a trip: sending, and reading all its replies. redis-py's own pool raises an error for the 101st
    call under way; here a call waits for its turn.
    """

    def __init__(self, *, reply_s: float, **options: Any) -> None:
        super().__init__(max_connections=2**31, **options)
        self.reply_s = reply_s
        self._turns = asyncio.Semaphore(MOST)
        self._idle: list[Any] = []
        self._keeps = options.get("credential_provider") is None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get_connection(self, *_words: Any, **_options: Any) -> Any:
        """A connection that is established and has nothing to be read. Raises the errors of redis-py, and UsageError in
        another loop than before."""
        self.belong()
        await self._turns.acquire()
        connection = self._idle.pop() if self._idle else self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            await self.ready(connection)
        except BaseException:
            self._idle.append(connection)
            self._turns.release()
            raise
        return connection

    async def release(self, connection: Any) -> None:
        """A connection comes back."""
        try:
            if self._keeps and not connection.should_reconnect():
                self._idle.append(connection)
            else:  # credentials that change by themselves are renewed when a connection comes back to redis-py
                await super().release(connection)
        finally:
            self._turns.release()

    async def ready(self, connection: Any) -> None:
        """Connects where that is needed: never yet, at another place than it belongs to, closed by the server."""
        if (
            connection.is_connected
            and not getattr(connection, "is_misplaced", False)
            and not await _is_stale(connection)
        ):
            return
        connect_s = connection.socket_connect_timeout or self.reply_s
        try:
            async with asyncio.timeout(connect_s):
                await connection.disconnect(nowait=True)
                await connection.connect()
        except TimeoutError as error:
            await connection.disconnect(nowait=True)
            raise exceptions.TimeoutError(f"no answer within {connect_s:g} s.") from error

    def extra(self) -> Any:
        """A connection of its own for who waits long; it takes nobody's turn, and its user closes it."""
        return self.make_connection()  # type: ignore[no-untyped-call]

    def belong(self) -> None:
        """Raises UsageError in another loop than before, and where none of asyncio's runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                "rqtui.aio needs a loop of asyncio, and none runs in this process; a forked one starts its own."
            ) from None
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise UsageError("This queue was used in another event loop first; make a Queue in each loop.")

    async def aclose(self) -> None:
        """Closes the connections that are not in use; the next use of each connects again."""
        for connection in [*self._idle, *self._available_connections]:
            await connection.disconnect(nowait=True)


async def _is_stale(connection: Any) -> bool:
    """Whether there is data nobody asked for, or the end of the stream."""
    if _has_news(connection):
        await asyncio.sleep(0)  # the loop hears of it,
        await asyncio.sleep(0)  # and then takes it in: what TLS says by itself is none of ours
    can_read = getattr(connection, "can_read", None) or connection.can_read_destructive  # its name before redis-py 8
    try:
        is_stale: bool = await can_read()
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError):
        return True
    return is_stale


def _has_news(connection: Any) -> bool:
    """Whether there is something to be read of which the loop has not heard yet."""
    asked = getattr(connection._writer, "get_extra_info", None)  # that of fakeredis has none
    socket = asked and asked("socket")
    if not socket or socket.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def pool_of(given: str | redis.Redis | aioredis.Redis, key: str) -> Pool:
    """Connections to the server of a URL or of a client of redis-py, of a Cluster to the node of `key`, wherever that
    goes. Connects at the first use. Raises UsageError for what is neither, and for a URL that is none."""
    if isinstance(given, aioredis.Redis):
        return _pool_like(given.connection_pool)
    if not isinstance(given, str | redis.Redis) and not hasattr(given, "like"):
        raise no_client(given, "redis.asyncio.Redis, a redis.Redis")
    client = connect(given) if isinstance(given, str) else connect_like(given)
    return _pool_like(of_key(client, key).connection_pool)


def _pool_like(pool: Any) -> Pool:
    """The same for a loop as a pool of redis-py, for threads or for a loop."""
    options = options_like(pool.connection_kwargs)
    given = options.pop("connection_class", pool.connection_class)
    find = options.pop("find", None)
    if hasattr(pool, "sentinel_manager"):  # of redis-py's own, for a loop; one for threads became a Following before
        find, options["must_lead"] = _asking(pool), True
    kind = _for_a_loop(given, find is not None)
    if find is not None:
        options = {name: value for name, value in options.items() if name not in ("host", "port")} | {"find": find}
    greeting = options.pop("redis_connect_func", None)
    if isinstance(greeting, Greeting):
        greeting = _greeting(greeting.client_name)
    if inspect.iscoroutinefunction(greeting):
        options["redis_connect_func"] = greeting
    reply_s = options.pop("socket_timeout")
    options["socket_timeout"] = None  # a trip has one limit, not one per reply: that would be a timer and a task each
    options["socket_connect_timeout"] = options.get("socket_connect_timeout") or reply_s
    options["retry"] = Retry(NoBackoff(), 0)
    return Pool(reply_s=reply_s, connection_class=kind, **_taken(kind, options))


def _asking(pool: Any) -> Find:
    async def find() -> Address:
        host, port = await pool.sentinel_manager.discover_master(pool.service_name)
        return str(host), int(port)

    return find


def _greeting(client_name: str) -> Callable[[Any], Awaitable[None]]:
    """As `connect.Greeting` says it."""

    async def greet(connection: Any) -> None:
        with protected_mode_told():
            await connection.on_connect()
        if client_name:
            with contextlib.suppress(exceptions.ResponseError), protected_mode_told():
                await connection.send_command("CLIENT", "SETNAME", client_name, check_health=False)
                await connection.read_response()

    return greet


class _Follows:
    """What a connection does to follow, as `rqtui.connection.cluster` has it for threads."""

    host: str
    port: int

    def __init__(self, *, find: Find, must_lead: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._find, self._must_lead = find, must_lead
        self.is_misplaced = False

    async def connect(self) -> None:
        """Connects to where it belongs now, unless it stands there."""
        if self.is_misplaced:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
        if self.is_connected:  # type: ignore[attr-defined]
            return
        if inspect.iscoroutinefunction(self._find):
            self.host, self.port = await self._find()
        else:
            self.host, self.port = await asyncio.to_thread(cast("Callable[[], Address]", self._find))
        self.is_misplaced = False
        await super().connect()  # type: ignore[misc]
        if self._must_lead:
            await self._refuse_a_replica()

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """A reply; one that says this is the wrong place is kept in mind for the next `connect`."""
        try:
            return await super().read_response(*args, **options)  # type: ignore[misc]
        except (exceptions.MovedError, exceptions.ReadOnlyError):
            self.is_misplaced = True
            raise

    async def _refuse_a_replica(self) -> None:
        with contextlib.suppress(exceptions.ResponseError):  # an ACL denies ROLE
            await self.send_command("ROLE", check_health=False)  # type: ignore[attr-defined]
            role = (await self.read_response())[0]
            if role != b"master":
                await self.disconnect(nowait=True)  # type: ignore[attr-defined]
                raise NotFound(f"{self.host}:{self.port}, which the sentinels name, is no primary yet.")


class _Following(_Follows, theirs.Connection):
    """A connection that follows."""


class _FollowingTls(_Follows, theirs.SSLConnection):
    """The same in TLS."""


_KINDS: Mapping[type, type] = {  # in this order: TLS is a kind of the last
    redis.SSLConnection: theirs.SSLConnection,
    redis.UnixDomainSocketConnection: theirs.UnixDomainSocketConnection,
    redis.Connection: theirs.Connection,
}


def _for_a_loop(kind: type, has_to_follow: bool) -> type:
    """The class of connections for a loop that does what `kind` does, which may be one already."""
    if has_to_follow:
        is_tls = issubclass(kind, redis.SSLConnection | theirs.SSLConnection)
        return _FollowingTls if is_tls else _Following
    if issubclass(kind, theirs.AbstractConnection):
        return kind
    if kind.__module__.startswith("fakeredis"):
        from fakeredis.aioredis import FakeAsyncRedisConnection

        found: type = FakeAsyncRedisConnection
        return found
    for known, ours in _KINDS.items():
        if issubclass(kind, known):
            return ours
    raise UsageError(f"There is no {kind.__name__} for an event loop; give a URL, or a redis.asyncio.Redis.")


def _taken(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that connections of a loop have, too. Raises UsageError for another one that is set."""
    if kind.__module__.startswith("fakeredis"):
        return dict(options)
    names = {name for each in kind.__mro__ if "__init__" in vars(each) for name in inspect.signature(each).parameters}
    for name, value in options.items():
        if name.startswith("ssl_") and name not in names and value:
            raise UsageError(f"{name} is not there for event loops: redis-py has it for threads only.")
    return {name: value for name, value in options.items() if name in names}
