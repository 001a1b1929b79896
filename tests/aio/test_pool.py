"""The pool of an event loop: which connections it lends out, and how they follow the primary."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import fakeredis
import pytest
import redis
from aio_facade import run_on_event_loop
from fakeredis.aioredis import FakeAsyncRedisConnection
from families import run_in_one_test
from proxy import Proxy
from redis import Redis, exceptions
from redis import asyncio as aioredis
from redis.asyncio import connection as theirs

from rqtui.aio import pool as pools
from rqtui.connection.sentinels import NotFound
from rqtui.connection.urls import Address
from rqtui.errors import UsageError


def address_of(url: str) -> Address:
    host, port = url.removeprefix("redis://").split("/")[0].split(":")
    return host, int(port)


class Finder:
    """A search for the primary whose answer the test sets."""

    def __init__(self, url: str) -> None:
        self.url, self.searches = url, 0

    def __call__(self) -> Address:
        self.searches += 1
        return address_of(self.url)


def following(find: Finder, **options: Any) -> pools.Pool:
    class Pool:
        connection_class = redis.Connection
        connection_kwargs = {"find": find, "host": "nowhere", "port": 1, "socket_timeout": 5.0, **options}

    return pools._copy_as_asyncio_pool(Pool)


@run_on_event_loop
async def test_a_connection_follows_the_primary_after_an_order_to_leave(client: Redis, url: str) -> None:
    with Proxy(url) as proxy:
        find = Finder(url)
        pool = following(find)
        connection = await pool.get_connection()
        assert (type(connection).__name__, connection.is_open, find.searches) == ("_FollowingConnection", True, 1)
        await pool.release(connection)
        assert await pool.get_connection() is connection and find.searches == 1
        await connection.connect()
        assert find.searches == 1, "an open connection needs no address"
        find.url = proxy.url
        await asyncio.to_thread(connection.cut_connection)
        with pytest.raises((exceptions.ConnectionError, OSError)):
            await connection.read_response()
        await pool.release(connection)
        assert await pool.get_connection() is connection
        assert (connection.port, find.searches, connection.is_misplaced) == (address_of(proxy.url)[1], 2, False)
        await connection.send_command("PING")
        assert await connection.read_response() == b"PONG"
        await pool.release(connection)
        await pool.aclose()
        assert not connection.is_open
        connection.cut_connection()  # a closed connection has no writer


@run_on_event_loop
async def test_a_replica_is_refused_as_primary_and_a_write_to_one_searches_again(client: Redis, url: str) -> None:
    client.replicaof("127.0.0.1", 1)
    try:
        find = Finder(url)
        with pytest.raises(NotFound, match="which the sentinels name, is no primary yet"):
            await following(find, must_lead=True).get_connection()
        pool = following(find)
        connection = await pool.get_connection()
        await connection.send_command("SET", "key", "value")
        with pytest.raises(exceptions.ReadOnlyError):
            await connection.read_response()
        assert connection.is_misplaced
        await pool.release(connection)
    finally:
        client.replicaof("NO", "ONE")
    searches = find.searches
    assert await pool.get_connection() is connection and find.searches == searches + 1
    leading = following(find, must_lead=True)
    assert (await leading.get_connection()).is_open
    for each in (pool, leading):
        await each.disconnect()


@run_on_event_loop
async def test_the_call_after_the_fiftieth_waits_for_a_free_connection(client: Redis, url: str) -> None:
    pool = pools.build_asyncio_pool(url, "key")
    lent = [await pool.get_connection() for _ in range(50)]
    assert len({*lent}) == 50
    waiting = asyncio.create_task(pool.get_connection())
    await asyncio.sleep(0)
    assert pool._free_slots.locked() and not waiting.done()
    await pool.release(lent[7])
    assert await waiting is lent[7]
    await pool.disconnect()


@run_on_event_loop
async def test_a_connection_that_must_reconnect_is_closed_when_it_is_returned(client: Redis, url: str) -> None:
    pool = pools.build_asyncio_pool(url, "key")
    connection = await pool.get_connection()
    await pool.release(connection)
    assert connection.is_connected and pool._idle == [connection]
    connection = await pool.get_connection()
    connection.mark_for_reconnect()
    await pool.release(connection)
    assert not connection.is_connected and pool._idle == []


@run_on_event_loop
async def test_a_connection_with_unread_data_is_replaced(client: Redis, url: str) -> None:
    pool = pools.build_asyncio_pool(url, "key")
    connection = await pool.get_connection()
    await connection.send_command("CLIENT", "ID")
    first = await connection.read_response()
    await connection.send_command("PING")
    while not pools._has_unread_data(connection) and not connection._reader._buffer:
        await asyncio.sleep(0)
    await pool.release(connection)
    assert await pool.get_connection() is connection
    await connection.send_command("CLIENT", "ID")
    assert await connection.read_response() != first
    await pool.disconnect()
    assert not pools._has_unread_data(connection)


class OwnAsyncConnection(theirs.Connection):
    """A connection class of the application."""


@run_in_one_test(
    "source, follows, expected",
    [
        (redis.Connection, False, theirs.Connection),
        (redis.SSLConnection, False, theirs.SSLConnection),
        (redis.UnixDomainSocketConnection, False, theirs.UnixDomainSocketConnection),
        (OwnAsyncConnection, False, OwnAsyncConnection),
        (fakeredis.FakeRedis().connection_pool.connection_class, False, FakeAsyncRedisConnection),
        (redis.Connection, True, pools._FollowingConnection),
        (OwnAsyncConnection, True, pools._FollowingConnection),
        (redis.SSLConnection, True, pools._FollowingTlsConnection),
        (theirs.SSLConnection, True, pools._FollowingTlsConnection),
        (str, False, UsageError),
    ],
)
def test_each_kind_of_connection_has_one_for_event_loops(source: type, follows: bool, expected: type) -> None:
    if expected is UsageError:
        with pytest.raises(UsageError, match="There is no str for an event loop"):
            pools._select_connection_class(source, follows)
    else:
        assert pools._select_connection_class(source, follows) is expected


def test_a_tls_option_that_event_loops_lack_is_refused_only_if_it_is_set() -> None:
    lacking = {"ssl_unknown": None, "ssl_check_hostname": True, "unknown": 1, "db": 3}
    options = pools._select_supported_options(theirs.SSLConnection, lacking)
    assert options == {"ssl_check_hostname": True, "db": 3}
    assert pools._select_supported_options(FakeAsyncRedisConnection, lacking) == lacking
    with pytest.raises(UsageError, match="ssl_unknown is not there for event loops"):
        pools._select_supported_options(theirs.SSLConnection, {**lacking, "ssl_unknown": 1})


def test_only_a_url_or_a_client_makes_a_pool() -> None:
    with pytest.raises(UsageError, match=r"redis\.asyncio\.Redis"):
        pools.build_asyncio_pool(3, "key")  # type: ignore[arg-type]
    for connect_s, expected_s in ((None, 3), (2, 2)):
        pool = pools.build_asyncio_pool(aioredis.Redis(db=4, socket_timeout=3, socket_connect_timeout=connect_s), "key")
        options = pool.connection_kwargs
        assert (pool.reply_s, options["db"], options["socket_timeout"]) == (3, 4, None)
        assert options["socket_connect_timeout"] == expected_s


def test_a_pool_belongs_to_the_first_loop_that_uses_it() -> None:
    pool = pools.build_asyncio_pool("redis://127.0.0.1:1", "key")
    with pytest.raises(UsageError, match="none runs in this process"):
        pool.check_event_loop()

    async def check() -> None:
        pool.check_event_loop()
        pool.check_event_loop()

    asyncio.run(check())
    with pytest.raises(UsageError, match="another event loop"):
        asyncio.run(check())


@run_on_event_loop
async def test_a_connection_that_fails_is_returned_to_the_pool() -> None:
    pool = pools.build_asyncio_pool("redis://127.0.0.1:1", "key")
    for _ in range(3):
        with pytest.raises(exceptions.ConnectionError):
            await pool.get_connection()
    assert len(pool._idle) == 1 and pool._free_slots._value == pools.MAX_CONNECTIONS


@run_in_one_test("number, polls", [(-1, []), (0, [0]), (5, [5])])
def test_a_closed_socket_has_no_unread_data(number: int, polls: list[int]) -> None:
    polled: list[int] = []
    poll = SimpleNamespace(register=lambda number, _event: polled.append(number), poll=lambda _wait_ms: [1])
    sock = SimpleNamespace(fileno=lambda: number)
    connection = SimpleNamespace(_writer=SimpleNamespace(get_extra_info={"socket": sock}.get))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "select", SimpleNamespace(poll=lambda: poll, POLLIN=1))
        assert pools._has_unread_data(connection) is bool(polls) and polled == polls
        assert not pools._has_unread_data(SimpleNamespace(_writer=None))
