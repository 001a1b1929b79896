"""A link with a given round trip time to a Redis server: a proxy on loopback that delays and counts round trips."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Link:
    """A proxy in front of the Redis at `target`. Data is delayed by half of `rtt_s` in each direction.

    A round trip is counted when a client sends after it has received, so a pipeline counts once. Opening a connection
    is not delayed and not counted; over a real link it takes one more round trip.
    """

    def __init__(self, target: str, rtt_s: float = 0.0) -> None:
        parts = urlsplit(target)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 6379)
        self._delay_s = rtt_s / 2
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.round_trips = self.bytes_sent = 0
        self.requests: list[bytes] = []  # what each round trip sent first
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept_connections, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept_connections(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._address, timeout=10)
            except OSError:
                return
            server.settimeout(None)
            connection = _Connection()
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, target, is_request in ((client, server, True), (server, client, False)):
                arguments = (source, target, connection, is_request)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, connection: _Connection, is_request: bool) -> None:
        waiting: queue.Queue[tuple[float, bytes]] = queue.Queue()
        threading.Thread(target=_send_delayed, args=(waiting, target), daemon=True).start()
        with suppress(OSError):
            while data := source.recv(1 << 20):
                self._count(connection, is_request, data)
                waiting.put((time.monotonic() + self._delay_s, data))
        waiting.put((time.monotonic() + self._delay_s, b""))

    def _count(self, connection: _Connection, is_request: bool, data: bytes) -> None:
        with self._lock:
            if is_request and not connection.is_sending:
                self.round_trips += 1
                self.requests.append(data)
            self.bytes_sent += len(data) if is_request else 0
            connection.is_sending = is_request


class _Connection:
    """The state of a connection: whether its last data went to the server."""

    is_sending = False


def _send_delayed(waiting: queue.Queue[tuple[float, bytes]], target: socket.socket) -> None:
    """Send data when it is due; empty data ends the connection."""
    with suppress(OSError):
        while True:
            due_s, data = waiting.get()
            time.sleep(max(0.0, due_s - time.monotonic()))
            if not data:
                target.shutdown(socket.SHUT_RDWR)
                return
            target.sendall(data)


@contextmanager
def open_link(target: str, rtt_s: float = 0.0) -> Iterator[Link]:
    """Start a link to the Redis at `target`, and stop it afterwards."""
    link = Link(target, rtt_s)
    try:
        yield link
    finally:
        link.close()
