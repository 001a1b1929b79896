"""Test the transport: a predicted reply is recognised by its bytes, with the same result as a parsed reply."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from families import run_in_one_test
from proxy import Proxy, find_request_size

from rqtui.client import native_keys
from rqtui.connection.cluster import Following, FollowingTls
from rqtui.connection.connect import connect
from rqtui.connection.meter import Meter, add_meter_to_class
from rqtui.connection.pool import Pool, PooledConnection
from rqtui.errors import RqtuiError
from rqtui.scripts import script as scripts
from rqtui.scripts.script import Call
from rqtui.scripts.transport import send_one_call
from rqtui.testing.keyspace import dump

NATIVE = scripts.load_scripts("native")
KEYS = native_keys.build_queue_keys("mail")
Case = Callable[[redis.Redis, Proxy], Call]


def enqueue(*ids: str, delay_ms: int | None = None) -> Call:
    rows = [{"id": id, "body": b"b", "delay_ms": delay_ms} for id in ids]
    return NATIVE["enqueue"].build_call(KEYS, {"now_ms": 1_764_547_200_000}, rows)


def enqueue_ids(client: redis.Redis, *ids: str) -> None:
    scripts.run_call(client, enqueue(*ids))


def failing(kind: str) -> Case:
    def case(client: redis.Redis, proxy: Proxy) -> Call:
        enqueue_ids(client, "known")
        proxy.fail(kind, "EVALSHA")
        return enqueue("a")

    return case


def after(change: Callable[[redis.Redis], object], call: Call) -> Case:
    def case(client: redis.Redis, _proxy: Proxy) -> Call:
        change(client)
        return call

    return case


def cut(_client: redis.Redis, proxy: Proxy) -> Call:
    proxy.cut()
    return enqueue("a")


def refuse_connections(_client: redis.Redis, proxy: Proxy) -> Call:
    proxy.refuse()
    return enqueue("a")


CASES: dict[str, tuple[Case, str]] = {
    "one job": (after(lambda client: None, enqueue("a")), "moved"),
    "several jobs": (after(lambda client: None, enqueue("a", "b", "c")), "moved moved moved"),
    "a job that is known": (after(lambda client: enqueue_ids(client, "a"), enqueue("a")), "exists"),
    "the first of several is known": (
        after(lambda client: enqueue_ids(client, "a"), enqueue("a", "b")),
        "exists moved",
    ),
    "the last of several is known": (
        after(lambda client: enqueue_ids(client, "b"), enqueue("a", "b")),
        "moved exists",
    ),
    "a word without rows": (after(lambda client: None, NATIVE["pause"].build_call(KEYS)), "paused"),
    "another word without rows": (
        after(
            lambda client: scripts.run_call(client, NATIVE["pause"].build_call(KEYS)), NATIVE["pause"].build_call(KEYS)
        ),
        "already",
    ),
    "values and a table": (
        after(lambda client: enqueue_ids(client, "a"), NATIVE["reserve"].build_call(KEYS, {"limit": 1, "now_ms": 1})),
        "moved",
    ),
    "a question": (after(lambda client: enqueue_ids(client, "a"), NATIVE["counts"].build_call(KEYS)), "counts"),
    "a script that the server forgot": (after(lambda client: client.script_flush(), enqueue("a")), "moved"),
    "a refusal": (after(lambda client: None, enqueue("a", delay_ms=-1)), "Refused: job 1 of the batch"),
    "a key of another type": (
        after(lambda client: client.set(KEYS["ready"], "mine"), enqueue("a")),
        "WrongType: key rqtui:{mail}:ready holds a string, not a zset: another program uses this name. Nothing was",
    ),
    "a lost reply": (failing("lose reply"), "Unknown: enqueue: its reply was lost: Connection closed by server."),
    "half a reply": (failing("half reply"), "Unknown: enqueue: its reply was lost: Connection closed by server."),
    "a request that never came": (failing("cut before"), "Unknown: enqueue: its reply was lost: Connection closed"),
    "no reply in time": (failing("swallow"), "Unknown: enqueue: its reply was lost: Timeout reading from socket"),
    "a line that was cut before": (cut, "moved"),
    "a server that is away": (refuse_connections, "Unreachable: no connection to Redis"),
}


def run_case(
    url: str, client: redis.Redis, case: Case, expected: str, meter: Meter | None
) -> tuple[str, dict[Any, Any]]:
    """Run a case and return its result and the keys after it; with a meter every byte passes through redis-py."""
    client.flushall()
    with Proxy(url) as proxy, connect(proxy.url, timeout_s=0.5, meter=meter) as through:
        for verb in ("enqueue", "pause", "reserve", "counts"):  # connected, and with all scripts known
            client.script_load(NATIVE[verb].source)
        through.ping()
        call = case(client, proxy)
        pool: Any = through.connection_pool
        line = pool._idle[0]
        assert line.is_plain is (meter is None)
        result = send_one_call(through, call)
        text = (
            f"{type(result).__name__}: {result}"
            if isinstance(result, RqtuiError)
            else " ".join(each.word for each in result.each) or result.word
        )
        text = text.replace(f":{proxy.port}", ":PORT")
        assert text.startswith(expected), text
        if not isinstance(result, RqtuiError):
            assert send_one_call(through, NATIVE["counts"].build_call(KEYS)).word == "counts", (
                "the next call has its own reply"
            )
        return text, {key: value for key, value in dump(client).items() if key != KEYS["meta"].encode()}


@run_in_one_test("name", CASES)
def test_a_cached_reply_equals_a_parsed_one(name: str, client: redis.Redis, url: str) -> None:
    case, expected = CASES[name]
    quick, general = (run_case(url, client, case, expected, meter) for meter in (None, Meter()))
    assert quick[0] == general[0]
    assert quick[1].keys() == general[1].keys()


class Counting(redis.Connection):
    def read_response(self, *args: Any, **options: Any) -> Any:
        return super().read_response(*args, **options)


@run_in_one_test(
    "kind, passes",
    [
        (redis.Connection, True),
        (redis.UnixDomainSocketConnection, True),
        (Following, False),
        (FollowingTls, False),
        (add_meter_to_class(redis.Connection, Meter()), False),
        (Counting, False),
    ],
)
def test_bytes_pass_beside_redis_py_where_a_connection_would_only_pass_them(kind: type, passes: bool) -> None:
    assert Pool(connection_class=kind).is_passthrough is passes
    assert not PooledConnection(kind.__new__(kind)).is_plain, "before it has a socket"


@pytest.mark.parametrize("pieces", [(1,), (5, 9), (4, 1, 1), tuple([1] * 15)])
def test_a_reply_in_pieces_is_the_same_reply(pieces: tuple[int, ...]) -> None:
    reply = b"*1\r\n$5\r\nmoved\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            taken, _ = listener.accept()
            with taken:
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                buffer = b""
                while found := taken.recv(65536):
                    buffer += found
                    while size := find_request_size(buffer):
                        request, buffer = buffer[:size], buffer[size:]
                        if b"EVALSHA" not in request:
                            taken.sendall(b"+OK\r\n")
                            continue
                        at = 0
                        for piece in pieces:
                            taken.sendall(reply[at : at + piece])
                            at += piece
                            time.sleep(0.002)  # so that they seldom come as one
                        taken.sendall(reply[at:])

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        with connect(f"redis://127.0.0.1:{listener.getsockname()[1]}") as client:
            for id in ("a", "b"):
                assert [each.word for each in scripts.run_call(client, enqueue(id)).each] == ["moved"]
        server.join(10)


def test_what_was_not_requested_is_taken_for_no_answer(client: redis.Redis, url: str) -> None:
    with connect(url) as ours:
        enqueue_ids(ours, "known")
        pool: Any = ours.connection_pool
        line = pool.take_connection()
        line.connection.send_packed_command([b"*1\r\n$4\r\nPING\r\n"])
        assert line.receive_expected(b"+PON") and not line.is_ready()  # the rest is on its way
        pool.return_connection(line)
        assert [each.word for each in scripts.run_call(ours, enqueue("a")).each] == ["moved"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_in_the_middle_of_a_call_shares_no_connection(client: redis.Redis, url: str) -> None:
    with connect(url) as ours:
        enqueue_ids(ours, "known")
        pool: Any = ours.connection_pool
        line = pool.take_connection()
        child = os.fork()
        if child == 0:
            pool.return_connection(line)
            os._exit(0 if not pool._idle else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        pool.return_connection(line)
        assert [each.word for each in scripts.run_call(ours, enqueue("a")).each] == ["moved"]


def test_what_was_read_too_much_reaches_no_other_caller(client: redis.Redis, url: str) -> None:
    with connect(url) as ours:
        enqueue_ids(ours, "known")
        pool: Any = ours.connection_pool
        line = pool.take_connection()
        line.connection._parser._reader.feed(b"+of the one before\r\n")
        pool.return_connection(line)
        assert ours.echo("mine") == b"mine"


def test_a_connection_that_was_closed_here_is_created_again_whoever_has_its_number_now(
    client: redis.Redis, url: str
) -> None:
    with connect(url) as ours:
        enqueue_ids(ours, "known")
        pool: Any = ours.connection_pool
        line = pool.take_connection()
        line.connection.disconnect()
        pool.return_connection(line)
        others = socket.socketpair()  # the lowest numbers that are free: one is that of the closed connection
        try:
            assert [each.word for each in scripts.run_call(ours, enqueue("a")).each] == ["moved"]
        finally:
            for other in others:
                other.close()
