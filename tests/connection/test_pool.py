"""Test the pool: each connection that it returns is connected, belongs to this process, and has only one user."""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from proxy import Proxy
from redis import Redis
from waiting import wait_until

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect, copy_client
from rqtui.errors import Denied, Unreachable


def read_client_number(client: Redis) -> int:
    return int(client.client_id())


def test_one_connection_serves_one_call_after_the_other(client: Redis, url: str) -> None:
    with connect(url) as ours:
        pool: Any = ours.connection_pool
        assert len({read_client_number(ours) for _ in range(5)}) == 1
        first, second = pool.get_connection(), pool.get_connection()
        assert first is not second
        for connection in (first, second, second, first):  # each comes back once, however often it is brought
            pool.release(connection)
        assert pool.get_connection() is not pool.get_connection()
        assert {type(ours.connection_pool), type(copy_client(ours).connection_pool)} == {type(pool)}


def test_a_server_that_is_away_for_long_uses_no_connections_up() -> None:
    with connect("redis://127.0.0.1:1") as away:
        pool: Any = away.connection_pool
        for _ in range(pool.max_connections + 1):
            with pytest.raises(redis.ConnectionError, match="refused"):
                away.ping()
        assert not pool._in_use_connections


def test_threads_that_end_leave_their_connections_to_the_next(client: Redis, url: str) -> None:
    with Queue("mail", url) as queue:
        for _ in range(5):
            threads = [threading.Thread(target=queue.put, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert queue.counts()["ready"] == 40
        pool: Any = queue.client.connection_pool
        assert len(pool._in_use_connections) <= 8


def test_a_connection_that_the_server_closed_is_created_again_before_anything_is_sent(client: Redis, url: str) -> None:
    with Queue("mail", url) as queue, Proxy(url) as proxy, Queue("mail", proxy.url) as through:
        for times in range(1, 4):
            assert [queue.put(times).word, through.put(times).word] == ["moved"] * 2
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            proxy.cut()
        assert queue.counts()["ready"] == 6
        queue.close()  # what is not in use is closed; the next call connects again
        assert queue.put(7).word == "moved"
        proxy.refuse()
        with pytest.raises(Unreachable):
            through.put(8)
        proxy.listen()
        assert through.put(9).word == "moved"


def test_what_was_not_read_reaches_no_other_caller(client: Redis, url: str) -> None:
    with connect(url) as ours:
        connection: Any = ours.connection_pool.get_connection()
        connection.send_command("ECHO", "of the one before")
        wait_until(connection.can_read, what="the reply")
        ours.connection_pool.release(connection)
        assert ours.echo("mine") == b"mine"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_between_two_puts_shares_no_connection(client: Redis, url: str) -> None:
    with Queue("mail", url) as queue:
        queue.put("before", id="before")
        mine = read_client_number(queue.client)
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:  # no pytest in the child: whatever happens, it leaves at once
            try:
                word = queue.put("child", id="child").word
                theirs.sendall(f"{word} {read_client_number(queue.client)} {read_client_number(queue.client)}".encode())
            finally:
                os._exit(0)
        theirs.close()
        for n in range(50):  # while the child works
            assert queue.put(n, id=f"parent-{n}").word == "moved"
        word, *numbers = ours.recv(100).decode().split()
        ours.close()
        os.waitpid(child, 0)
        assert word == "moved" and len(set(numbers)) == 1 and str(mine) not in numbers
        assert read_client_number(queue.client) == mine, "the child closed a connection of its parent"
        assert queue.counts()["ready"] == 52


def test_a_password_that_was_changed_is_asked_for_again(client: Redis, url: str) -> None:
    def user(*words: str) -> None:
        client.execute_command("ACL", "SETUSER", "producer", *words)

    user("on", ">old", "~*", "&*", "+@all")
    try:
        with Queue("mail", url.replace("://", "://producer:old@")) as queue:
            assert queue.put(1).word == "moved"
            user("resetpass", ">new")
            client.execute_command("CLIENT", "KILL", "USER", "producer")
            with pytest.raises(Denied):
                queue.put(2)
            user(">old")
            assert queue.put(3).word == "moved"
    finally:
        client.execute_command("ACL", "DELUSER", "producer")


def test_a_pool_with_a_credential_provider_gives_connections_back_to_redis_py(client: Redis, url: str) -> None:
    provider = redis.UsernamePasswordCredentialProvider("rotating", "sesame")
    client.execute_command("ACL", "SETUSER", "rotating", "on", ">sesame", "~*", "&*", "+@all")
    try:
        with (
            redis.Redis.from_url(url, protocol=2, credential_provider=provider) as theirs,
            copy_client(theirs) as ours,
        ):
            pool: Any = ours.connection_pool
            ours.ping()
            assert len(pool._available_connections) == 1 and not pool._in_use_connections
    finally:
        client.execute_command("ACL", "DELUSER", "rotating")


def test_many_threads_never_share_a_connection(client: Redis, url: str) -> None:
    with connect(url) as ours, ThreadPoolExecutor(12) as threads:
        pool: Any = ours.connection_pool
        held: set[int] = set()
        wrong: list[int] = []

        def echo_on_own_connection(n: int) -> None:
            connection = pool.get_connection()
            if id(connection) in held:
                wrong.append(n)
            held.add(id(connection))
            connection.send_command("ECHO", str(n))
            if connection.read_response() != str(n).encode():
                wrong.append(n)
            held.discard(id(connection))
            pool.release(connection)

        list(threads.map(echo_on_own_connection, range(1500)))
        assert wrong == []
    wait_until(lambda: len(client.client_list()) <= 2, what="the connections to close")
