"""Start several servers for one test: replicas, sentinels, a Cluster. Pause, kill and promote them.

    with Fleet() as fleet:
        first = fleet.start(appendonly="yes")
        second = fleet.start(replicaof=first)
        nodes = fleet.cluster(replicas=1)  # one per node; the replicas are last in the list
    with Fleet(files) as fleet:  # servers that accept only TLS, with the files of `authority`

A `Server` has `url`, `client`, `kill()`, `pause()`, `resume()`, and `start()`, which restarts it on the same port. All
servers end with the context.
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
from server_programs import find_server_program
from waiting import wait_until

from rqtui.connection.connect import connect

if TYPE_CHECKING:
    from authority import Files

START_S = 30.0
SLOTS = 16384


class Server:
    """A Redis server process on its own port, which a test can kill, pause and restart."""

    def __init__(self, folder: Path, port: int, arguments: Sequence[str], url: str = "redis://127.0.0.1:{}") -> None:
        self.port, self.url = port, url.format(port)
        self._folder, self.words = folder, list(arguments)
        folder.mkdir()
        self.client: Redis = connect(self.url)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start or restart the Redis server, and wait until it replies, even if only that it is loading."""
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(self.words, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._is_replying, START_S, f"the server on port {self.port}")
        return self

    def _is_replying(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._folder / "log").read_text()
            if "Failed finding TLS support" in log:
                pytest.skip("needs a server that was built with TLS (apt-get install redis-server)")
            raise AssertionError(log)
        try:
            return bool(self.client.execute_command("PING"))
        except RedisError as error:
            return any(error_word in str(error).lower() for error_word in ("loading", "masterdown", "authentication"))

    def signal(self, number: int) -> None:
        """Send a signal to the process of the Redis server."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def pause(self) -> None:
        """Suspend the Redis server's process, which leaves its connections open."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the suspended process of the Redis server."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the Redis server's process with SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def info(self, section: str) -> dict[str, Any]:
        """Return one section of the server's INFO."""
        return self.client.info(section)

    def replicate(self, primary: Server | None) -> None:
        """Make the server a replica of `primary`, or a primary if `primary` is None."""
        arguments = ("127.0.0.1", str(primary.port)) if primary else ("NO", "ONE")
        self.client.execute_command("REPLICAOF", *arguments)

    def wait_for_link(self) -> None:
        """Wait until the replica is connected to its primary."""
        wait_until(
            lambda: self.info("replication").get("master_link_status") == "up", START_S, "the link to the primary"
        )


class Fleet:
    """The Redis servers that a test starts; they end with the `with` block."""

    def __init__(self, files: Files | None = None) -> None:
        self._program = find_server_program()
        self._folder = Path(tempfile.mkdtemp(prefix="rqtui-fleet-"))
        self.servers: list[Server] = []
        self._files = files
        self.scheme = "rediss" if files else "redis"
        self.options = files.options if files else ""  # the query string of every URL

    def _create_server(self, port: int, arguments: Sequence[str]) -> Server:
        url = f"{self.scheme}://127.0.0.1:{{}}{self.options}"
        server = Server(self._folder / str(port), port, arguments, url)
        self.servers.append(server)
        return server

    def _build_port_settings(self, port: int) -> dict[str, str]:
        """Return the server settings for a port, with TLS if the fleet uses TLS."""
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
        """Start a Redis server with these settings (`_` for `-`), `without` these commands.

        `under` are the words in front of the command line, such as those of faketime.
        """
        port = find_free_port()
        all_settings = {
            "bind": "127.0.0.1",
            "save": "",
            "repl_diskless_sync": "yes",
            "repl_diskless_sync_delay": "0",
            **settings,
        }
        words = [*under, program or self._program]
        for name, value in {**self._build_port_settings(port), **all_settings}.items():
            words += [f"--{name.replace('_', '-')}", *(value.split() or [""])]
        for command in without:
            words += ["--rename-command", command, ""]
        if replicaof:
            words += ["--replicaof", "127.0.0.1", str(replicaof.port)]
        server = self._create_server(port, words).start()
        if replicaof:
            server.wait_for_link()
        return server

    def sentinel(self, primary: Server, service: str = "jobs", quorum: int = 1, lines: Sequence[str] = ()) -> Server:
        """Start a Redis sentinel that replaces `primary` by a replica when `primary` does not reply for a second."""
        port = find_free_port()
        written = [
            *(f"{name} {value}" for name, value in self._build_port_settings(port).items()),
            "bind 127.0.0.1",
            f"sentinel monitor {service} 127.0.0.1 {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {service} 1000",
            f"sentinel failover-timeout {service} 3000",
            *lines,
        ]
        file = self._folder / f"sentinel-{port}.conf"
        file.write_text("\n".join(written) + "\n")
        return self._create_server(port, [self._program, str(file), "--sentinel"]).start()

    def cluster(self, size: int = 3, replicas: int = 0, **settings: str) -> list[Server]:
        """Start a Redis Cluster of `size` nodes that share the slots equally, with replicas.

        Returns the nodes, then their replicas.
        """
        all_settings = {"cluster_enabled": "yes", "cluster_node_timeout": "1000", **settings}
        if self._files:
            all_settings["tls_cluster"] = "yes"
        servers = [self.start(**all_settings) for _ in range(size * (1 + replicas))]
        nodes = servers[:size]
        edges = [SLOTS * index // size for index in range(size + 1)]
        for index, node in enumerate(nodes):
            node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", edges[index], edges[index + 1] - 1)
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for node in servers[1:]:
            node.client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        for node in servers:
            wait_until(lambda node=node: self._has_met_all_nodes(node, len(servers)), START_S, "the Cluster")
        for index, node in enumerate(servers[size:]):
            primary = nodes[index % size].client.execute_command("CLUSTER", "MYID")
            wait_until(lambda node=node, id=primary: self._try_to_make_replica(node, id), START_S, "a replica")
        for node in servers[size:]:
            node.wait_for_link()
        return servers

    @staticmethod
    def _try_to_make_replica(node: Server, id: bytes) -> bool:
        """Make a Cluster node a replica. Return False if the node refused because it has not met its primary."""
        try:
            return bool(node.client.execute_command("CLUSTER", "REPLICATE", id))
        except ResponseError:
            return False

    @staticmethod
    def _has_met_all_nodes(node: Server, size: int) -> bool:
        """Return whether a Cluster node has met all other nodes and has an owner for every slot."""
        reply = node.client.execute_command("CLUSTER", "INFO")
        text = reply.decode() if isinstance(reply, bytes) else str(reply)
        lines = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        values = int(lines["cluster_known_nodes"]), int(lines["cluster_slots_assigned"])
        return lines["cluster_state"] == "ok" and values == (size, SLOTS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for server in self.servers:
            with contextlib.suppress(OSError):
                server.resume()
            server.kill()
            server.client.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def kill_with_keys(server: Server, number: int) -> None:
    """Kill a Redis server after it rewrote its append-only file with `number` more keys.

    Loading can then be slowed down: `--key-load-delay` delays each key of the rewritten file.
    """
    pipe = server.client.pipeline(transaction=False)
    for key in range(number):
        pipe.set(f"other:{key}", "x" * 20)
    pipe.execute()
    server.client.execute_command("BGREWRITEAOF")
    for field in ("aof_rewrite_in_progress", "aof_rewrite_scheduled"):
        wait_until(lambda field=field: not server.info("persistence")[field], 60.0, field)
    server.kill()


def find_free_port() -> int:
    """Return a free loopback port whose Cluster bus port (10 000 higher) is free too."""
    while True:
        with socket.socket() as candidate, socket.socket() as bus:
            candidate.bind(("127.0.0.1", 0))
            port: int = candidate.getsockname()[1]
            if port >= 55000:
                continue
            try:
                bus.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
        return port
