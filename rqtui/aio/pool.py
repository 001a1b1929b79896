"""Pool Redis connections for an asyncio loop, with the settings that `rqtui.connection` finds for a URL or a client.

URLs, TLS, Sentinel and Cluster therefore behave as in `rqtui.connection`, whose code looks up the current primary, or
the node of a slot, on a thread. This module never repeats a command.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import select
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import redis
from redis import asyncio as aioredis
from redis import exceptions
from redis.asyncio import connection as theirs
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from rqtui.connection.cluster import copy_pool_sentinels, register_for_failover
from rqtui.connection.connect import (
    Greeting,
    build_wrong_client_error,
    check_client_name_reply,
    connect,
    copy_client,
    translate_protected_mode_error,
)
from rqtui.connection.nodes import find_key_client
from rqtui.connection.pool import copy_pool_options
from rqtui.connection.reply_limits import LimitedAsyncParser
from rqtui.connection.sentinels import NotFound
from rqtui.connection.urls import Address
from rqtui.errors import UsageError

MAX_CONNECTIONS = 50  # for calls; a call waits for a free connection if all are in use
FindAddress = Callable[[], Address]


class Pool(theirs.ConnectionPool):
    """Redis connections of one event loop, lent out one call at a time. They belong to the loop that first uses them.

    `reply_s` limits a round trip: sending, and reading all replies. redis-py's own pool raises an error for the 101st
    concurrent call; here a call waits for its turn.
    """

    def __init__(self, *, reply_s: float, **options: Any) -> None:
        super().__init__(max_connections=2**31, **options)
        self.reply_s = reply_s
        self._free_slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[Any] = []
        self._is_reusing = options.get("credential_provider") is None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get_connection(self, *_words: Any, **_options: Any) -> Any:
        """Return an open Redis connection without unread data, after waiting for a free one.

        Raises the errors of redis-py, and UsageError in another event loop than before.
        """
        self.check_event_loop()
        await self._free_slots.acquire()
        connection = self._idle.pop() if self._idle else self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            await self.ensure_connected(connection)
        except BaseException:
            self._idle.append(connection)
            self._free_slots.release()
            raise
        return connection

    async def release(self, connection: Any) -> None:
        """Return a Redis connection to the pool."""
        try:
            if self._is_reusing and not connection.should_reconnect():
                self._idle.append(connection)
            else:  # redis-py's pool renews the credentials of a provider when a connection is released to it
                await super().release(connection)
        finally:
            self._free_slots.release()

    async def ensure_connected(self, connection: Any) -> None:
        """Connect to Redis if the connection is not open, leads to the wrong node, or was closed by the server."""
        if (
            connection.is_connected
            and not getattr(connection, "is_misplaced", False)
            and not await _is_connection_stale(connection)
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

    def create_extra_connection(self) -> Any:
        """Create a Redis connection outside the limit of the pool, for long waits; its user closes it."""
        return self.make_connection()  # type: ignore[no-untyped-call]

    def check_event_loop(self) -> None:
        """Raise UsageError in another event loop than before, or without a running asyncio loop."""
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
        """Close the connections that are not in use. Each reconnects at its next use."""
        for connection in [*self._idle, *self._available_connections]:
            await connection.disconnect(nowait=True)


async def _is_connection_stale(connection: Any) -> bool:
    """Return whether a Redis connection has unexpected data or was closed."""
    if _has_unread_data(connection):
        # The event loop needs two turns to read the data. Messages of TLS itself are then consumed, so that they do not
        # count as unexpected data.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    can_read = getattr(connection, "can_read", None) or connection.can_read_destructive  # its name before redis-py 8
    try:
        is_stale: bool = await can_read()
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError):
        return True
    return is_stale


def _has_unread_data(connection: Any) -> bool:
    """Return whether the socket of a Redis connection has data that the event loop has not read."""
    get_extra_info = getattr(connection._writer, "get_extra_info", None)  # the writer of fakeredis has no such method
    socket = get_extra_info and get_extra_info("socket")
    if not socket or socket.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def build_asyncio_pool(url_or_client: str | redis.Redis | aioredis.Redis, key: str) -> Pool:
    """Build an asyncio pool for the server of a URL or a redis-py client; in a Cluster, for the node that owns `key`.

    Connects on first use. Raises UsageError for an invalid URL or another type.
    """
    if isinstance(url_or_client, aioredis.Redis):
        return _copy_as_asyncio_pool(url_or_client.connection_pool)
    if not isinstance(url_or_client, str | redis.Redis) and not hasattr(url_or_client, "like"):
        raise build_wrong_client_error(url_or_client, "redis.asyncio.Redis, a redis.Redis")
    client = connect(url_or_client) if isinstance(url_or_client, str) else copy_client(url_or_client)
    return _copy_as_asyncio_pool(find_key_client(client, key).connection_pool)


def _copy_as_asyncio_pool(pool: Any) -> Pool:
    """Build an asyncio pool with the settings of a redis-py pool, for threads or for asyncio."""
    options = copy_pool_options(pool.connection_kwargs)
    source_class = options.pop("connection_class", pool.connection_class)
    find = options.pop("find", None)
    if hasattr(pool, "sentinel_manager"):  # redis-py's asyncio pool; `copy_client` has replaced one for threads before
        find, options["must_lead"] = copy_pool_sentinels(pool).find_primary, True
    connection_class = _select_connection_class(source_class, find is not None)
    if find is not None:
        options = {name: value for name, value in options.items() if name not in ("host", "port")} | {"find": find}
    greeting = options.pop("redis_connect_func", None)
    if isinstance(greeting, Greeting):
        greeting = _build_asyncio_greeting(greeting.client_name)
    if inspect.iscoroutinefunction(greeting):
        options["redis_connect_func"] = greeting
    reply_s = options.pop("socket_timeout")
    options["socket_timeout"] = None  # `reply_s` limits the round trip; a limit per reply would cost a timer and a task
    options["socket_connect_timeout"] = options.get("socket_connect_timeout") or reply_s
    options["retry"] = Retry(NoBackoff(), 0)
    options["parser_class"] = LimitedAsyncParser
    return Pool(
        reply_s=reply_s, connection_class=connection_class, **_select_supported_options(connection_class, options)
    )


def _build_asyncio_greeting(client_name: str) -> Callable[[Any], Awaitable[None]]:
    """Build the asyncio form of `connect.Greeting`, which redis-py calls after it has connected."""

    async def send_first_commands(connection: Any) -> None:
        with translate_protected_mode_error():
            await connection.on_connect()
        if client_name:
            with contextlib.suppress(exceptions.ResponseError), translate_protected_mode_error():
                await connection.send_command("CLIENT", "SETNAME", client_name, check_health=False)
                check_client_name_reply(await connection.read_response())

    return send_first_commands


class _ReaddressingMixin:
    """Mixin of an asyncio connection that connects to the current primary, or to the node that owns a slot.

    Its blocking counterpart is in `rqtui.connection.cluster`.
    """

    host: str
    port: int

    def __init__(self, *, find: FindAddress, must_lead: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._find, self._must_lead = find, must_lead
        self.is_misplaced = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def connect(self) -> None:
        """Connect to the server whose address `find` returns, unless already connected to the right server."""
        if self.is_misplaced:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
        if self.is_connected:  # type: ignore[attr-defined]
            return
        self.host, self.port = await asyncio.to_thread(self._find)
        self.is_misplaced = False
        await super().connect()  # type: ignore[misc]
        if self._must_lead:
            await self._require_primary()
        self._loop = asyncio.get_running_loop()
        register_for_failover(self._find, self)

    @property
    def is_open(self) -> bool:
        """Whether the connection to Redis is established."""
        return bool(self.is_connected)  # type: ignore[attr-defined]

    def cut_connection(self) -> None:
        """Cut the connection from another thread. A pending call raises an error, and the next use reconnects."""
        self.is_misplaced = True
        writer: Any = getattr(self, "_writer", None)
        if writer is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(writer.transport.abort)

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Read a reply of Redis. After MOVED or READONLY, the next `connect` asks for the server's address again."""
        try:
            return await super().read_response(*args, **options)  # type: ignore[misc]
        except (exceptions.MovedError, exceptions.ReadOnlyError):
            self.is_misplaced = True
            raise

    async def _require_primary(self) -> None:
        with contextlib.suppress(exceptions.ResponseError):  # an ACL denies ROLE
            await self.send_command("ROLE", check_health=False)  # type: ignore[attr-defined]
            role = (await self.read_response())[0]
            if role != b"master":
                await self.disconnect(nowait=True)  # type: ignore[attr-defined]
                raise NotFound(f"{self.host}:{self.port}, which the sentinels name, is no primary yet.")


class _FollowingConnection(_ReaddressingMixin, theirs.Connection):
    """A plain asyncio connection that always leads to the current primary, or to the node that owns a slot."""


class _FollowingTlsConnection(_ReaddressingMixin, theirs.SSLConnection):
    """A TLS asyncio connection that always leads to the current primary, or to the node that owns a slot."""


_ASYNC_CLASSES: Mapping[type, type] = {  # SSLConnection is a subclass of Connection and must be compared first
    redis.SSLConnection: theirs.SSLConnection,
    redis.UnixDomainSocketConnection: theirs.UnixDomainSocketConnection,
    redis.Connection: theirs.Connection,
}


def _select_connection_class(source_class: type, has_to_follow: bool) -> type:
    """Return the asyncio connection class that corresponds to a blocking one; an asyncio class is returned unchanged.

    With `has_to_follow`, the returned class always leads to the current primary, or to the node that owns a slot.
    """
    if has_to_follow:
        is_tls = issubclass(source_class, redis.SSLConnection | theirs.SSLConnection)
        return _FollowingTlsConnection if is_tls else _FollowingConnection
    if issubclass(source_class, theirs.AbstractConnection):
        return source_class
    if source_class.__module__.startswith("fakeredis"):
        from fakeredis.aioredis import FakeAsyncRedisConnection

        fake_class: type = FakeAsyncRedisConnection
        return fake_class
    for blocking_class, async_class in _ASYNC_CLASSES.items():
        if issubclass(source_class, blocking_class):
            return async_class
    raise UsageError(f"There is no {source_class.__name__} for an event loop; give a URL, or a redis.asyncio.Redis.")


def _select_supported_options(connection_class: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that asyncio connections support. Raises UsageError for any other TLS option that is set."""
    if connection_class.__module__.startswith("fakeredis"):
        return dict(options)
    names = {
        name
        for base in connection_class.__mro__
        if "__init__" in vars(base)
        for name in inspect.signature(base).parameters
    }
    for name, value in options.items():
        if name.startswith("ssl_") and name not in names and value:
            raise UsageError(f"{name} is not there for event loops: redis-py has it for threads only.")
    return {name: value for name, value in options.items() if name in names}
