"""Start a Redis server whose data survive a kill: an append-only file in a folder, and the same port each time.

It runs under rqtui's watchdog, so that it ends with the tests even on kill -9.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from redis import Redis, RedisError
from server_programs import find_server_program
from waiting import wait_until

from rqtui.connection import embedded, watchdog
from rqtui.connection.connect import connect


class DurableServer:
    """A Redis server with an append-only file. `kill()` ends it, `start()` starts it with the data that it had written.

    `fsync` is `always` or `everysec`.
    """

    def __init__(self, folder: Path, fsync: str) -> None:
        self.path = find_server_program()
        self.folder, self.fsync = folder, fsync
        self.port = embedded._find_free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.pid = 0

    def start(self) -> None:
        """Start the server and return when it has loaded its file."""
        options = {"appendonly": "yes", "appendfsync": self.fsync, "save": ""}
        command = embedded.build_server_command(self.path)(self.port, str(self.folder), options)
        inner = self.folder / "watchdog"
        inner.mkdir(exist_ok=True)
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, str(inner), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._watchdog.stdout
        self.pid = int(self._watchdog.stdout.readline())
        wait_until(self._answers, 60, f"the server at port {self.port}", every_s=0.02)

    def kill(self) -> None:
        """Kill the server with SIGKILL, and return when the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._leave()

    def pause(self, is_paused: bool) -> None:
        """Suspend the server's process, or continue it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP if is_paused else signal.SIGCONT)

    def client(self) -> Redis:
        """Return a new client of the server."""
        return connect(self.url)

    def _answers(self) -> bool:
        with contextlib.suppress(RedisError, OSError), connect(self.url, timeout_s=2) as client:
            return bool(client.ping()) and client.info("persistence")["loading"] == 0
        time.sleep(0.01)
        return False

    def _leave(self) -> None:
        if self._watchdog is None:
            return
        for pipe in (self._watchdog.stdin, self._watchdog.stdout):
            if pipe:
                pipe.close()
        self._watchdog.wait(30)
        self._watchdog = None
