"""A TCP proxy in front of a Redis that drops, delays and cuts traffic on demand, and counts requests.

It parses requests (RESP arrays), so that a fault affects the request that a test names. Replies are passed unchanged.

    with Proxy(server.url) as proxy:
        client = connect(proxy.url)
        proxy.fail("lose reply", "EVAL")     # the next EVAL or EVALSHA runs, but its reply never arrives
"""

from __future__ import annotations

import contextlib
import queue
import re
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

FAULTS = (
    "cut before",  # the request is not forwarded, the connection is closed
    "lose reply",  # the request is forwarded, its reply is dropped, the connection is closed
    "half reply",  # the first half of the reply arrives, then the connection is closed
    "swallow",  # this request and all later ones of its connection are not forwarded; the connection stays open
)


@dataclass
class Fault:
    """A fault that the proxy applies to requests: its kind, the command, and the number of requests."""

    kind: str
    command: str  # the start of the command's name
    times: int  # the number of requests that are still affected


@dataclass
class Proxy:
    """A TCP proxy on a free loopback port. `requests` has the names of all commands in order, forwarded or not."""

    target: str
    delay_s: float = 0.0  # before each request is forwarded
    latency_s: float = 0.0  # added to each direction of a link, whatever the amount of data
    is_blackhole: bool = False  # connections are accepted, requests are never forwarded
    requests: list[str] = field(default_factory=list)
    forwarded: list[str] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        parts = urlsplit(self.target)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 6379)
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._links: set[_Link] = set()
        self._listener: socket.socket | None = None
        self._open = threading.Event()
        self._open.set()
        self.held = 0

    @property
    def url(self) -> str:
        """Return the URL of the Redis server through this proxy."""
        return f"redis://127.0.0.1:{self.port}"

    def fail(self, kind: str, command: str = "", times: int = 1) -> None:
        """Let the next `times` requests of a command suffer a fault of FAULTS.

        The command's name must start with `command`. A space ends a name: `EVALSHA ` is not EVALSHA_RO.
        """
        assert kind in FAULTS, kind
        with self._lock:
            self._faults.append(Fault(kind, command.upper(), times))

    def count(self, command: str) -> int:
        """Return the number of requests whose command starts with `command`."""
        with self._lock:
            return sum(name.startswith(command.upper()) for name in self.requests)

    def hold(self) -> None:
        """Hold all replies of the server until `release()`; `held` counts the connections that wait."""
        self._open.clear()

    def release(self) -> None:
        """Pass on the held replies and all later ones."""
        self._open.set()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        with self._lock:
            return len(self._links)

    def refuse(self) -> None:
        """Cut all connections of the proxy and refuse new ones until `listen()`."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # Closing alone would leave accept() and with it the port alive until the next connection.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut()

    def cut(self) -> None:
        """Close all connections of the proxy. New ones are accepted."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    def listen(self) -> None:
        """Accept connections again after `refuse()`, on the same port."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept_connections, args=(listener,), daemon=True).start()

    def __enter__(self) -> Self:
        self.listen()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()
        self.refuse()

    def _accept_connections(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self._address, timeout=10)
            except OSError:
                if self._listener is not listener:
                    return
                client.close()  # the target does not accept connections, so this one is closed
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            if self._listener is not listener:  # `refuse()` was called meanwhile and may have missed this connection
                link.close()
                return
            link.start()

    def _record_request(self, command: str) -> str:
        """Record a request and return its fault, or an empty string."""
        with self._lock:
            self.requests.append(command)
            for fault in self._faults:
                if fault.times > 0 and f"{command} ".startswith(fault.command):
                    fault.times -= 1
                    return fault.kind
        return "swallow" if self.is_blackhole else ""

    def _wait_while_held(self) -> None:
        """Block until `release()` if the proxy holds replies."""
        if self._open.is_set():
            return
        with self._lock:
            self.held += 1
        self._open.wait()
        with self._lock:
            self.held -= 1

    def _remove_link(self, link: _Link) -> None:
        """Remove a connection of the proxy that has ended."""
        with self._lock:
            self._links.discard(link)


class _Link:
    """A client's connection to the proxy together with the proxy's connection to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.reply_fault = ""
        self.is_silent = False  # TCP loses no bytes, so after a swallowed request no later one may arrive
        self.to_server, self.to_client = _DelayedSender(server, proxy), _DelayedSender(client, proxy)
        for end in (client, server):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        """Start the threads that forward requests and replies."""
        for pump in (self._pump_requests, self._pump_replies):
            threading.Thread(target=self._run_pump, args=(pump,), daemon=True).start()

    def close(self) -> None:
        """Close both connections of the link."""
        self.proxy._remove_link(self)
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _run_pump(self, pump) -> None:
        with contextlib.suppress(OSError):
            pump()
        self.close()

    def _pump_requests(self) -> None:
        buffer = b""
        while received := self.client.recv(65536):
            buffer += received
            while (size := find_request_size(buffer)) is not None:
                request, buffer = buffer[:size], buffer[size:]
                if not self._forward_request(request):
                    return

    def _forward_request(self, request: bytes) -> bool:
        command = parse_command_name(request)
        fault = self.proxy._record_request(command)
        if fault == "cut before":
            return False
        self.is_silent = self.is_silent or fault == "swallow"
        if self.is_silent:
            return True
        if self.proxy.delay_s:
            time.sleep(self.proxy.delay_s)
        if fault:
            self.reply_fault = fault  # set before the request is sent, so that its reply cannot pass
        self.to_server.send_later(request)
        with self.proxy._lock:
            self.proxy.forwarded.append(command)
        return True

    def _pump_replies(self) -> None:
        while reply := self.server.recv(65536):
            if self.reply_fault == "lose reply":
                return
            if self.reply_fault == "half reply":
                self.client.sendall(reply[: max(1, len(reply) // 2)])
                return
            self.proxy._wait_while_held()
            self.to_client.send_later(reply)


class _DelayedSender:
    """A sender for one direction of a connection, which sends data in order after `latency_s`."""

    def __init__(self, end: socket.socket, proxy: Proxy) -> None:
        self._end, self._proxy = end, proxy
        self._waiting: queue.Queue[tuple[float, bytes]] | None = None

    def send_later(self, data: bytes) -> None:
        """Send data after `latency_s`, or at once if no latency is set."""
        if not self._proxy.latency_s and self._waiting is None:
            self._end.sendall(data)
            return
        if self._waiting is None:
            self._waiting = queue.Queue()
            threading.Thread(target=self._send_waiting_data, args=(self._waiting,), daemon=True).start()
        self._waiting.put((time.monotonic() + self._proxy.latency_s, data))

    def _send_waiting_data(self, waiting: queue.Queue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while True:
                due_s, data = waiting.get()
                time.sleep(max(0.0, due_s - time.monotonic()))
                self._end.sendall(data)


def find_request_size(buffer: bytes) -> int | None:
    """Return the length of the first complete request (RESP2) in `buffer`, or None if there is none."""
    head = re.match(rb"\*(\d+)\r\n", buffer)
    if head is None:
        line = buffer.find(b"\n")
        return line + 1 if line >= 0 and not buffer.startswith(b"*") else None
    at = head.end()
    for _ in range(int(head[1])):
        word = re.compile(rb"\$(\d+)\r\n").match(buffer, at)
        if word is None:
            return None
        at = word.end() + int(word[1]) + 2
        if at > len(buffer):
            return None
    return at


def parse_command_name(request: bytes) -> str:
    """Return the first word of a request in upper case."""
    words = request.split(b"\r\n", 3)
    name = words[2] if request.startswith(b"*") else (request.split() or [b""])[0]
    return name.decode("ascii", "replace").upper()
