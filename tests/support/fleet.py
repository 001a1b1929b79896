"""Several servers at once, started from `redis-server`: replicas, sentinels, a Cluster; paused, killed, promoted.

    with Fleet() as fleet:
        first = fleet.start(appendonly="yes")
        second = fleet.start(replicaof=first)
        nodes = fleet.cluster(replicas=1)  # of each node; those come last
    with Fleet(files) as fleet:  # the same with TLS and nothing else, by the files of `authority`

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
from typing import TYPE_CHECKING, Any, Self

import pytest
from redis import Redis
from redis.exceptions import RedisError, ResponseError
from waiting import wait_until

from rqtui.connection import embedded
from rqtui.connection.connect import connect

if TYPE_CHECKING:
    from authority import Files

START_S = 30.0
SLOTS = 16384


class Server:
    """One process on a port of its own."""

    def __init__(self, folder: Path, port: int, words: Sequence[str], url: str = "redis://127.0.0.1:{}") -> None:
        self.port, self.url = port, url.format(port)
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

    def __init__(self, files: Files | None = None) -> None:
        self._program = embedded.installed("redis-server")
        if self._program is None:
            pytest.skip("needs redis-server")
        self._folder = Path(tempfile.mkdtemp(prefix="rqtui-fleet-"))
        self.servers: list[Server] = []
        self._files = files
        self.scheme = "rediss" if files else "redis"
        self.options = files.options if files else ""  # of every URL

    def _server(self, port: int, words: Sequence[str]) -> Server:
        url = f"{self.scheme}://127.0.0.1:{{}}{self.options}"
        server = Server(self._folder / str(port), port, words, url)
        self.servers.append(server)
        return server

    def _listening(self, port: int) -> dict[str, str]:
        """The settings of a port, with TLS where the fleet has it."""
        if self._files is None:
            return {"port": str(port)}
        return {
            "port": "0", "tls-port": str(port), "tls-replication": "yes",
            "tls-cert-file": str(self._files.certificate), "tls-key-file": str(self._files.key),
            "tls-ca-cert-file": str(self._files.authority),
        }  # fmt: skip

    def start(
        self,
        replicaof: Server | None = None,
        without: Sequence[str] = (),
        under: Sequence[str] = (),
        program: str = "",
        **settings: str,
    ) -> Server:
        """A server with these settings (`_` for `-`); `without` these commands, `under` other words."""
        port = free_port()
        given = {
            "bind": "127.0.0.1",
            "save": "",
            "repl_diskless_sync": "yes",
            "repl_diskless_sync_delay": "0",
            **settings,
        }
        words = [*under, program or self._program or ""]
        for name, value in {**self._listening(port), **given}.items():
            words += [f"--{name.replace('_', '-')}", *(value.split() or [""])]
        for command in without:
            words += ["--rename-command", command, ""]
        if replicaof:
            words += ["--replicaof", "127.0.0.1", str(replicaof.port)]
        server = self._server(port, words).start()
        if replicaof:
            server.wait_for_link()
        return server

    def sentinel(self, primary: Server, service: str = "jobs", quorum: int = 1, lines: Sequence[str] = ()) -> Server:
        """A sentinel that watches a primary, and gives it up after a second."""
        port = free_port()
        written = [
            *(f"{name} {value}" for name, value in self._listening(port).items()),
            "bind 127.0.0.1",
            f"sentinel monitor {service} 127.0.0.1 {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {service} 1000",
            f"sentinel failover-timeout {service} 3000",
            *lines,
        ]
        file = self._folder / f"sentinel-{port}.conf"
        file.write_text("\n".join(written) + "\n")
        return self._server(port, [self._program or "", str(file), "--sentinel"]).start()

    def cluster(self, size: int = 3, replicas: int = 0, **settings: str) -> list[Server]:
        """Nodes that share all slots, each an equal part, in their order; behind them their replicas in turn."""
        given = {"cluster_enabled": "yes", "cluster_node_timeout": "1000", **settings}
        if self._files:
            given["tls_cluster"] = "yes"
        everyone = [self.start(**given) for _ in range(size * (1 + replicas))]
        nodes = everyone[:size]
        edges = [SLOTS * at // size for at in range(size + 1)]
        for at, node in enumerate(nodes):
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", edges[at], edges[at + 1] - 1)
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
        for node in everyone[1:]:
            node.client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        for node in everyone:
            wait_until(lambda node=node: self._knows_all(node, len(everyone)), START_S, "the Cluster")
        for at, node in enumerate(everyone[size:]):
            primary = nodes[at % size].client.execute_command("CLUSTER", "MYID")
            wait_until(lambda node=node, id=primary: self._has_become_replica(node, id), START_S, "a replica")
        for node in everyone[size:]:
            node.wait_for_link()
        return everyone

    @staticmethod
    def _has_become_replica(node: Server, id: bytes) -> bool:
        """Whether it took the order; a node that still shakes hands with that primary does not know it."""
        try:
            return bool(node.client.execute_command("CLUSTER", "REPLICATE", id))
        except ResponseError:
            return False

    @staticmethod
    def _knows_all(node: Server, size: int) -> bool:
        """Whether it has heard of all the others, and of every slot."""
        found = node.client.execute_command("CLUSTER", "INFO")
        text = found.decode() if isinstance(found, bytes) else str(found)
        lines = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        knows = int(lines["cluster_known_nodes"]), int(lines["cluster_slots_assigned"])
        return lines["cluster_state"] == "ok" and knows == (size, SLOTS)

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
    """A port of the loopback that nobody has, nor its sibling for the bus of a Cluster."""
    while True:
        with socket.socket() as found, socket.socket() as bus:
            found.bind(("127.0.0.1", 0))
            port: int = found.getsockname()[1]
            if port >= 55000:
                continue
            try:
                bus.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
        return port
