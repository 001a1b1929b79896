"""The embedded server: which one is taken, that it serves, and that it never outlives its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import wait_until

from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer, start_server
from rqtui.errors import ServerError, UsageError

PARENT = """
import sys, time
from rqtui.connection.embedded import start_server
server = start_server(sys.argv[1])
print(server.pid, server.folder, flush=True)
time.sleep(60)
"""


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.each_server
def test_each_server_reports_what_it_is_and_takes_jobs(any_server: EmbeddedServer) -> None:
    titles = {"redis": "Redis ", "valkey": "Valkey ", "fakeredis": "fakeredis "}
    assert any_server.kind.startswith(titles[any_server.family] + any_server.version)
    with connect(any_server.url) as client:
        assert client.eval("return redis.call('INCR', KEYS[1])", 1, "embedded") >= 1


@pytest.mark.each_server
def test_an_error_reply_leaves_the_connection_open(any_server: EmbeddedServer) -> None:
    with connect(any_server.url) as client:
        client.ping()
        pipe = client.pipeline(transaction=False)
        pipe.evalsha("0" * 40, 0)
        pipe.execute_command("NONSENSE")
        pipe.incr("embedded")
        replies = pipe.execute(raise_on_error=False)
        assert [type(reply).__name__ for reply in replies] == ["NoScriptError", "ResponseError", "int"]
        assert client.ping()


def test_stop_ends_the_process_and_removes_its_folder() -> None:
    server = start_server()
    assert server.is_running and Path(server.folder).is_dir()
    server.stop()
    server.stop()
    assert not server.is_running and not _lives(server.pid) and not Path(server.folder).exists()


@pytest.mark.parametrize(
    ("kind", "signal_number"),
    [
        ("auto", signal.SIGKILL),
        ("auto", signal.SIGTERM),
        ("fake", signal.SIGKILL),
        pytest.param("auto", signal.SIGINT, marks=pytest.mark.matrix),
        pytest.param("fake", signal.SIGTERM, marks=pytest.mark.matrix),
        pytest.param("fake", signal.SIGINT, marks=pytest.mark.matrix),
    ],
)
def test_the_server_dies_with_its_parent(kind: str, signal_number: int) -> None:
    root = str(Path(__file__).resolve().parents[2])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, kind], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=root
    )
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    assert _lives(int(pid))
    parent.send_signal(signal_number)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not _lives(int(pid)), what="the server is gone")
    wait_until(lambda: not Path(folder).exists(), what="its folder is gone")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a child that its parent is gone")
def test_the_server_dies_with_its_watchdog() -> None:
    with start_server() as server:
        os.kill(server._process.pid, signal.SIGKILL)
        wait_until(lambda: not _lives(server.pid), what="the server is gone")


def test_options_reach_the_server() -> None:
    with start_server(options={"maxmemory": "8mb", "save": "3600 1"}) as server, connect(server.url) as client:
        assert client.config_get("maxmemory") == {"maxmemory": "8388608"} or client.config_get("maxmemory") == {
            b"maxmemory": b"8388608"
        }


def test_a_server_that_does_not_start_explains_why() -> None:
    with pytest.raises(ServerError, match="ended at once.*nonsense"):
        start_server(options={"nonsense": "yes"})


def test_a_port_that_is_taken_is_another_servers(monkeypatch: pytest.MonkeyPatch, real_server: EmbeddedServer) -> None:
    import rqtui.connection.embedded as module

    ports = iter([real_server.port])
    free = module._find_free_port
    monkeypatch.setattr(module, "_find_free_port", lambda: next(ports, None) or free())
    with start_server() as server:
        assert server.port != real_server.port


def test_an_unknown_kind_and_a_missing_server_are_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match='no server kind "nonsense"'):
        start_server("nonsense")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="Install one"):
        start_server("system")


def test_a_reply_that_no_client_reads_for_a_while_arrives_whole_from_fakeredis(fake_server: EmbeddedServer) -> None:
    value = b"x" * 20_000_000
    with connect(fake_server.url) as client:
        client.set("long", value)
    with socket.create_connection(("127.0.0.1", fake_server.port)) as slow:
        slow.sendall(b"*2\r\n$3\r\nGET\r\n$4\r\nlong\r\n")
        time.sleep(0.5)  # the server has filled all buffers on the way
        with slow.makefile("rb") as reader:
            assert reader.read(len(value) + 1) == b"+" + value
    with connect(fake_server.url) as client:
        client.delete("long")
