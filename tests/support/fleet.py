"""Several servers at once, started from `redis-server`: replicas, sentinels, a Cluster; paused, killed, promoted.

    with Fleet() as fleet:
        first = fleet.start(appendonly="yes")
        second = fleet.start(replicaof=first)
        nodes = fleet.cluster()

A `Server` has `url`, `client`, `kill()`, `pause()`, `resume()`, `start()` (again, on the same port). All end with the
context.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from redis import Redis
from redis.exceptions import RedisError
from waiting import wait_until

from rqtui.connection import embedded
from rqtui.connection.connect import connect

START_S = 30.0
SLOTS = 16384


class Server:
    """One process on a port of its own."""

    def __init__(self, folder: Path, port: int, words: Sequence[str]) -> None:
        self.port, self.url = port, f"redis://127.0.0.1:{port}"
        self._folder, self.words = folder, list(words)
        folder.mkdir()
        self.client: Redis = connect(self.url)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Starts it, also again; returns when it answers, be it that it is still loading."""
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(self.words, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers, START_S, f"the server on port {self.port}")
        return self

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self._folder / "log").read_text()
        try:
            return bool(self.client.execute_command("PING"))
        except RedisError as error:
            return any(word in str(error).lower() for word in ("loading", "masterdown", "authentication"))

    def signal(self, number: int) -> None:
        """Sends its process a signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def pause(self) -> None:
        """It stands still, and its connections stay open."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on as if nothing had been."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def info(self, section: str) -> dict[str, Any]:
        """INFO, of one section."""
        return self.client.info(section)

    def replicates(self, other: Server | None) -> None:
        """Makes it a replica of another, or a primary."""
        words = ("127.0.0.1", str(other.port)) if other else ("NO", "ONE")
        self.client.execute_command("REPLICAOF", *words)

    def wait_for_link(self) -> None:
        """Until its replication stands."""
        wait_until(
            lambda: self.info("replication").get("master_link_status") == "up", START_S, "the link to the primary"
        )


class Fleet:
    """Starts servers and ends them."""

    def __init__(self) -> None:
        self._program = embedded.installed("redis-server")
        if self._program is None:
            pytest.skip("needs redis-server")
        self._folder = Path(tempfile.mkdtemp(prefix="rqtui-fleet-"))
        self.servers: list[Server] = []

    def start(self, replicaof: Server | None = None, **settings: str) -> Server:
        """A server with these settings (`_` for `-`), a replica with `replicaof`."""
        port = free_port()
        given = {"save": "", "repl_diskless_sync": "yes", "repl_diskless_sync_delay": "0", **settings}
        words = [self._program or "", "--port", str(port), "--bind", "127.0.0.1"]
        for name, value in given.items():
            words += [f"--{name.replace('_', '-')}", *(value.split() or [""])]
        if replicaof:
            words += ["--replicaof", "127.0.0.1", str(replicaof.port)]
        server = Server(self._folder / str(port), port, words)
        self.servers.append(server)
        server.start()
        if replicaof:
            server.wait_for_link()
        return server

    def sentinel(self, primary: Server, service: str = "jobs", quorum: int = 1, lines: Sequence[str] = ()) -> Server:
        """A sentinel that watches a primary, and gives it up after a second."""
        port = free_port()
        written = [
            f"port {port}",
            "bind 127.0.0.1",
            f"sentinel monitor {service} 127.0.0.1 {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {service} 1000",
            f"sentinel failover-timeout {service} 3000",
            *lines,
        ]
        file = self._folder / f"sentinel-{port}.conf"
        file.write_text("\n".join(written) + "\n")
        server = Server(self._folder / str(port), port, [self._program or "", str(file), "--sentinel"])
        self.servers.append(server)
        return server.start()

    def cluster(self, size: int = 3, **settings: str) -> list[Server]:
        """Nodes that share all slots, each an equal part, in their order."""
        given = {"cluster_enabled": "yes", "cluster_node_timeout": "1000", **settings}
        nodes = [self.start(**given) for _ in range(size)]
        edges = [SLOTS * at // size for at in range(size + 1)]
        for at, node in enumerate(nodes):
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", edges[at], edges[at + 1] - 1)
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
        for node in nodes[1:]:
            node.client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        for node in nodes:
            wait_until(lambda node=node: self._knows_all(node, size), START_S, "the Cluster")
        return nodes

    @staticmethod
    def _knows_all(node: Server, size: int) -> bool:
        found = node.client.execute_command("CLUSTER", "INFO")
        text = found.decode() if isinstance(found, bytes) else str(found)
        lines = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        return lines["cluster_state"] == "ok" and int(lines["cluster_known_nodes"]) == size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for server in self.servers:
            with contextlib.suppress(OSError):
                server.resume()
            server.kill()
            server.client.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def free_port() -> int:
    """A port of the loopback that nobody has, and whose sibling for the bus of a Cluster is a valid port too."""
    while True:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port: int = found.getsockname()[1]
        if port < 55000:
            return port
