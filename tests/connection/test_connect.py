"""Connecting, masking, describing and probing; and that nothing is ever sent twice."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from families import run_in_one_test
from proxy import Proxy
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ResponseError
from redis.retry import Retry

from rqtui.connection import connect as connect_module
from rqtui.connection.connect import (
    build_server_info,
    connect,
    describe_connection_error,
    hide_url_passwords,
    read_server_info,
)
from rqtui.connection.embedded import EmbeddedServer, start_server
from rqtui.errors import Denied, Refused, RqtuiError, Unknown, Unreachable, UsageError
from rqtui.scripts import script as scripts

NOBODY = "redis://127.0.0.1:1"

TAKE = "return redis.call('LPOP', KEYS[1])"
PUT_HEADER = """\
-- Put one job.
--
-- moves    -> ready
-- KEYS     ready  zset  id by priority
-- ARGV     id     str   the job
-- returns  moved  it stands in ready
local ready = KEYS[1]
local id = ARGV[1]
redis.call('ZADD', ready, 0, id)
return {'moved'}
"""


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy(url) as proxy:
        yield proxy


# One request, one try -------------------------------------------------------------------------------------------------


def test_a_script_whose_reply_is_lost_is_sent_once(client: redis.Redis, proxy: Proxy) -> None:
    client.rpush("jobs", *"abcde")
    proxy.fail("lose reply", "EVAL", times=99)
    with connect(proxy.url) as through, pytest.raises(redis.ConnectionError):
        through.eval(TAKE, 1, "jobs")
    assert proxy.count("EVAL") == 1
    assert client.llen("jobs") == 4


def test_a_pipeline_whose_reply_is_lost_is_sent_once(client: redis.Redis, proxy: Proxy) -> None:
    client.rpush("jobs", *"abcde")
    proxy.fail("lose reply", "EVAL", times=99)
    with connect(proxy.url) as through, pytest.raises(redis.ConnectionError):
        pipe = through.pipeline(transaction=False)
        pipe.eval(TAKE, 1, "jobs").execute()
    assert proxy.count("EVAL") == 1
    assert client.llen("jobs") == 4


def test_the_proxy_sees_a_client_that_retries_lose_jobs(client: redis.Redis, proxy: Proxy) -> None:
    client.rpush("jobs", *"abcde")
    proxy.fail("lose reply", "EVAL", times=99)
    retrying = redis.Redis.from_url(proxy.url, protocol=2, retry=Retry(NoBackoff(), 2))
    with retrying, pytest.raises(redis.ConnectionError):
        retrying.eval(TAKE, 1, "jobs")
    assert proxy.count("EVAL") == 3
    assert client.llen("jobs") == 2


def test_a_reply_that_is_too_late_is_not_requested_again(client: redis.Redis, proxy: Proxy) -> None:
    client.rpush("jobs", *"abcde")
    proxy.fail("swallow", "EVAL", times=99)
    with connect(proxy.url, timeout_s=0.2) as through, pytest.raises(redis.TimeoutError):
        assert through.connection_pool.connection_kwargs["socket_timeout"] == 0.2
        through.eval(TAKE, 1, "jobs")
    assert proxy.count("EVAL") == 1


@pytest.mark.parametrize("fault", ["lose reply", "half reply"])
def test_a_script_whose_reply_is_lost_has_the_outcome_unknown(client: redis.Redis, proxy: Proxy, fault: str) -> None:
    script = scripts.parse_script(PUT_HEADER, "put.lua")
    client.script_load(script.source)
    proxy.fail(fault, "EVAL", times=99)
    with connect(proxy.url) as through, pytest.raises(Unknown):
        scripts.run_call(through, script.build_call(keys={"ready": "ready"}, args={"id": "a"}))
    assert proxy.count("EVAL") == 1
    assert client.zrange("ready", 0, -1) == [b"a"]


def test_a_script_that_could_not_be_sent_is_unreachable_not_unknown(client: redis.Redis, proxy: Proxy) -> None:
    script = scripts.parse_script(PUT_HEADER, "put.lua")
    proxy.refuse()
    with connect(proxy.url) as through, pytest.raises(Unreachable):
        scripts.run_call(through, script.build_call(keys={"ready": "ready"}, args={"id": "a"}))
    assert client.zrange("ready", 0, -1) == []


def test_a_script_that_was_not_forwarded_did_not_run_and_is_unknown_all_the_same(
    client: redis.Redis, proxy: Proxy
) -> None:
    script = scripts.parse_script(PUT_HEADER, "put.lua")
    proxy.fail("cut before", "EVAL", times=99)
    with connect(proxy.url) as through, pytest.raises(Unknown):
        scripts.run_call(through, script.build_call(keys={"ready": "ready"}, args={"id": "a"}))
    assert proxy.count("EVAL") == 1 and "EVAL" not in "".join(proxy.forwarded)
    assert client.zrange("ready", 0, -1) == []


def test_a_slow_link_is_only_slow(client: redis.Redis, proxy: Proxy) -> None:
    proxy.delay_s = 0.1
    started = time.monotonic()
    with connect(proxy.url, client_name="") as through:
        assert through.ping()
    assert time.monotonic() - started >= 0.1


def test_a_blocking_call_may_wait_longer_than_a_reply(client: redis.Redis, url: str) -> None:
    with connect(url, timeout_s=0.3, block_s=0.6) as blocking:
        assert blocking.bzpopmin("nothing", timeout=0.6) is None


def test_a_client_works_again_when_the_server_is_back(client: redis.Redis, proxy: Proxy) -> None:
    with connect(proxy.url) as through:
        assert through.ping()
        proxy.refuse()
        with pytest.raises(redis.ConnectionError):
            through.ping()
        proxy.listen()
        assert through.ping()


# URLs -----------------------------------------------------------------------------------------------------------------


def test_bytes_come_back_as_bytes_in_resp2(client: redis.Redis) -> None:
    client.hset("hash", "field", b"\xff\x00")
    assert client.hgetall("hash") == {b"field": b"\xff\x00"}
    assert client.execute_command("HELLO")[4:6] == [b"proto", 2]


@run_in_one_test(
    ("url", "text"),
    [
        ("", "starts with redis://"),
        ("localhost:6379", "starts with redis://"),
        ("http://localhost", "starts with redis://"),
        ("redis-sentinel://localhost", "starts with redis://"),
        ("redis://host:99999", "no valid host and port"),
        ("redis://host:port", "no valid host and port"),
        ("redis://:pa/ss@host:6379", "no valid host and port"),
        ("redis://:pa#ss@host:6379", "no valid host and port"),
        ("redis://host/zero", "no database number"),
        ("redis://host/-1", "no database number"),
        ("redis://host/0#part", "after #"),
        ("redis://host?db=x", "'db'"),
        ("redis://host?retry_on_timeout=true", "retry_on_timeout"),
        ("redis://host?protocol=3", "protocol"),
        ("redis://ho st", "space"),
        ("redis://host\x1b[31m", "control character"),
        ("unix://", "no socket"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_in_a_sentence(url: str, text: str) -> None:
    with pytest.raises(UsageError, match="URL") as caught:
        connect(url)
    assert text in str(caught.value)
    assert str(caught.value).isprintable()
    assert "pa/ss" not in str(caught.value) and "pa#ss" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["redis://localhost", "redis://", "redis://[::1]:6379/3", "rediss://user:pass@host", "unix:///tmp/redis.sock?db=2"],
)
def test_these_urls_are_understood(url: str) -> None:
    connect(url).close()


@run_in_one_test(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("rediss://user:secret@host:1", "rediss://user:***@host:1"),
        ("redis://user:se@cret@host", "redis://user:***@host"),
        ("redis://:se/cr#et@host", "redis://:***@host"),
        ("redis://:se?cr@host", "redis://:***@host"),
        ("redis://host/0?password=secret&db=1", "redis://host/0?password=***&db=1"),
        ("unix:///run/redis.sock?db=1&password=secret", "unix:///run/redis.sock?db=1&password=***"),
        ("rediss://host?ssl_password=secret", "rediss://host?ssl_password=***"),
        ("no url at all", "no url at all"),
    ],
)
def test_a_shown_url_has_no_password(url: str, shown: str) -> None:
    assert hide_url_passwords(url) == shown


# Words for what goes wrong --------------------------------------------------------------------------------------------


def _failure(url: str, **options: float) -> RqtuiError:
    with pytest.raises(RqtuiError) as caught:
        read_server_info(connect(url, **options), url)
    return caught.value


def test_a_closed_port_is_described() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = _failure(f"redis://:secret@127.0.0.1:{port}")
    assert isinstance(error, Unreachable)
    assert f"Nothing listens at 127.0.0.1:{port}" in str(error) and "secret" not in str(error)


def test_an_error_while_another_one_is_handled_is_described_as_itself() -> None:
    try:
        raise redis.ConnectionError("Connection closed by server.")
    except redis.ConnectionError:
        with connect(NOBODY) as client, pytest.raises(redis.ConnectionError) as caught:
            client.ping()
    assert describe_connection_error(caught.value, NOBODY).startswith(
        "Nothing listens at 127.0.0.1:1: connection refused."
    )


def test_an_unknown_host_is_described() -> None:
    assert "host name of nowhere.invalid:6379 is not known" in str(_failure("redis://nowhere.invalid"))


def test_a_missing_socket_is_described(tmp_path: Path) -> None:
    assert "does not exist. Start Redis with that unixsocket" in str(_failure(f"unix://{tmp_path}/redis.sock"))


def test_a_server_that_reports_nothing_is_described(client: redis.Redis, proxy: Proxy) -> None:
    proxy.is_blackhole = True
    error = _failure(proxy.url, timeout_s=0.2)
    assert isinstance(error, Unreachable) and f"127.0.0.1:{proxy.port} did not answer in time" in str(error)


def test_tls_to_a_server_without_tls_is_described(url: str) -> None:
    assert "the URL starts with redis://" in str(_failure(url.replace("redis://", "rediss://"), timeout_s=0.5))


def test_something_that_is_no_redis_is_described() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=_answer_like_http, args=(listener,), daemon=True).start()
        assert "is not a Redis" in str(_failure(f"redis://127.0.0.1:{port}", timeout_s=1.0))


def _answer_like_http(listener: socket.socket) -> None:
    link, _ = listener.accept()
    with link:
        link.recv(1000)
        link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        link.recv(1000)


def test_a_database_that_does_not_exist_is_described(url: str) -> None:
    assert "no database of that number" in str(_failure(f"{url}/9999"))


def test_a_password_that_was_not_set_is_described(url: str) -> None:
    error = _failure(url.replace("://", "://:secret@"))
    assert isinstance(error, Denied) and "has no password" in str(error)


@pytest.fixture
def guarded(client: redis.Redis, settings: Callable[[str, str], None], url: str) -> str:
    settings("requirepass", "right")
    return url


def test_a_wrong_or_missing_password_is_described(guarded: str) -> None:
    assert "wants a password" in str(_failure(guarded))
    wrong = _failure(guarded.replace("://", "://:wrong@"))
    assert isinstance(wrong, Denied) and "refused the password" in str(wrong) and "wrong" not in str(wrong)
    right = guarded.replace("://", "://:right@")
    with connect(right) as client:
        assert read_server_info(client, right).version


def test_an_error_of_ours_describes_itself() -> None:
    assert describe_connection_error(Refused("The id is empty.")) == "The id is empty."


# Probing --------------------------------------------------------------------------------------------------------------


@pytest.mark.each_server
def test_each_real_server_reports_what_it_is(server: EmbeddedServer, server_client: redis.Redis) -> None:
    info = read_server_info(server_client, server.url)
    assert (info.kind, info.version) == (server.family, server.version)
    assert (info.role, info.mode, info.policy, info.maxmemory_bytes) == ("primary", "standalone", "noeviction", 0)
    assert info.is_persistent is False and info.used_bytes and info.denied == ()


def test_fakeredis_reports_what_it_is_and_what_it_lacks(fake_server: EmbeddedServer) -> None:
    with connect(fake_server.url) as client:
        info = read_server_info(client, fake_server.url)
    assert info.kind == "fakeredis" and info.version == fake_server.version
    assert info.maxmemory_bytes is None and any(line.startswith("INFO") for line in info.denied)


def test_a_user_without_rights_still_connects_and_is_informed_what_is_denied(client: redis.Redis, url: str) -> None:
    client.acl_setuser("viewer", enabled=True, nopass=True, keys=["*"], commands=["+get"], reset=True)
    try:
        theirs = url.replace("://", "://viewer:any@")
        with connect(theirs) as viewer:
            assert viewer.get("nothing") is None
            info = read_server_info(viewer, theirs)
        assert info.used_bytes is None and "INFO" in " ".join(info.denied)
    finally:
        client.acl_deluser("viewer")


def test_a_replica_and_a_persistent_server_are_seen() -> None:
    with start_server(options={"save": "3600 1", "replicaof": "127.0.0.1 1"}) as server, connect(server.url) as client:
        info = read_server_info(client, server.url)
    assert info.role == "replica" and info.is_persistent


HELLO = {"server": "redis", "version": "7.2.4", "role": "master", "mode": "standalone"}
INFO = {"redis_version": "7.2.4", "role": "master", "used_memory": "100", "aof_enabled": "0"}


@run_in_one_test(
    ("hello", "info", "settings", "expected"),
    [
        (HELLO, INFO, {"save": ""}, {"kind": "redis", "version": "7.2.4", "role": "primary", "is_read_only": False}),
        (HELLO, {}, {}, {"version": "7.2.4", "role": "primary", "mode": "standalone", "used_bytes": None}),
        ({}, INFO, {}, {"kind": "redis", "version": "7.2.4", "role": "primary", "used_bytes": 100}),
        ({}, {}, {}, {"kind": "unknown", "version": "", "role": "", "is_read_only": False, "is_persistent": None}),
        ({**HELLO, "role": "replica"}, {}, {}, {"role": "replica", "is_read_only": True}),
        ({}, {"role": "slave", "slave_read_only": "1"}, {}, {"role": "replica", "is_read_only": True}),
        ({}, {"role": "slave", "slave_read_only": "0"}, {}, {"role": "replica", "is_read_only": False}),
        ({}, {"role": "master", "slave_read_only": "1"}, {}, {"is_read_only": False}),
        (
            {"server": "redis", "version": "7.2.4"},
            {"redis_version": "7.2.4", "valkey_version": "9.1.2"},
            {},
            {"kind": "valkey", "version": "9.1.2"},
        ),
        ({}, {"server_name": "valkey", "redis_version": "7.2.4"}, {}, {"kind": "valkey", "version": "7.2.4"}),
        ({}, {"redis_mode": "cluster"}, {}, {"mode": "cluster"}),
        ({}, {"aof_enabled": "1"}, {}, {"is_persistent": True}),
        ({}, {}, {"save": "3600 1"}, {"is_persistent": True}),
        ({}, {"aof_enabled": "0"}, {"save": ""}, {"is_persistent": False}),
        ({}, {"aof_enabled": "0"}, {}, {"is_persistent": None}),
        ({}, {"maxmemory": "-1", "uptime_in_seconds": "soon"}, {}, {"maxmemory_bytes": -1, "uptime_s": None}),
        ({}, {"db10": "", "db2": "", "db0": "", "dbs": ""}, {}, {"databases": (0, 2, 10)}),
    ],
)
def test_properties_of_a_server_are_read_from_whichever_replies_it_gives(
    hello: dict[str, str], info: dict[str, str], settings: dict[str, str], expected: dict[str, object]
) -> None:
    server = build_server_info(hello, info, settings, ["SLOWLOG"])
    assert {name: getattr(server, name) for name in expected} == expected and server.denied == ("SLOWLOG",)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (AuthenticationError("invalid password"), Denied),
        (ResponseError("NOAUTH Authentication required."), Denied),
        (ResponseError("NOPERM this user has no permissions"), None),
    ],
)
def test_a_server_that_wants_a_password_is_denied_and_a_refused_command_is_noted(
    reply: Exception, error: type[Exception] | None
) -> None:
    class Pipe:
        def execute_command(self, *_words: str) -> None: ...

        def time(self) -> None: ...

        def execute(self, raise_on_error: bool) -> list[object]:
            return [reply, (1, 2)]

    client: Any = SimpleNamespace(pipeline=lambda transaction: Pipe())
    denied: list[str] = []
    if error is not None:
        with pytest.raises(error):
            connect_module._read_command_pairs_and_clock(client, "redis://here", denied, ["INFO"])
        return
    pairs, _skew_ms, _rtt_ms = connect_module._read_command_pairs_and_clock(client, "redis://here", denied, ["INFO"])
    assert pairs == [{}] and denied == ["INFO: NOPERM this user has no permissions"]
