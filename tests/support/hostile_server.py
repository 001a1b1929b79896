"""A server on a free loopback port that answers each command with one reply that Redis would never send.

    with HostileServer(REPLIES["a value of 10^12 bytes"]) as server:
        ran = shell(server.url, "snapshot")

`python hostile_server.py COMMANDS` runs commands against each reply, and prints their exit codes and output as JSON.
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from proxy import find_request_size, parse_command_name
from shell import shell

GREETINGS = ("CLIENT", "SELECT", "AUTH", "HELLO")  # the first commands of a new connection
_FILL = 1 << 16


@dataclass(frozen=True)
class Reply:
    """The bytes of a hostile reply: a beginning, and a part that is repeated without end."""

    head: bytes
    fill: bytes = b""


REPLIES = {
    "a value of 10^12 bytes": Reply(b"$1000000000000\r\n", b"x" * _FILL),
    "a value of 10^12 bytes in a table": Reply(b"*2\r\n*1\r\n$1000000000000\r\n", b"x" * _FILL),
    "a line without an end": Reply(b"+", b"x" * _FILL),
    "an error without an end": Reply(b"-", b"x" * _FILL),
    "a table of 2^31 numbers": Reply(b"*2147483648\r\n", b":1\r\n" * (_FILL // 4)),
    "a table of 2^31 empty tables": Reply(b"*2147483648\r\n", b"*0\r\n" * (_FILL // 4)),
    "a table of 2^31 values that never come": Reply(b"*2147483648\r\n"),
    "a number": Reply(b":1\r\n"),
    "a text": Reply(b"+OK\r\n"),
    "nothing": Reply(b"$-1\r\n"),
    "an empty table": Reply(b"*0\r\n"),
    "a table of a number": Reply(b"*1\r\n:1\r\n"),
    "a table of numbers": Reply(b"*3\r\n:1\r\n:2\r\n:3\r\n"),
    "deep tables": Reply(b"*1\r\n" * 100_000),
    "an error of 1 MB": Reply(b"-ERR " + b"x" * (1 << 20) + b"\r\n"),
    "bytes of no protocol": Reply(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
}


class HostileServer:
    """A server that answers all commands with one hostile reply.

    With `greets`, the commands that open a connection get proper replies.
    """

    def __init__(self, reply: Reply, *, greets: bool = True) -> None:
        self._reply, self._greets = reply, greets
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_over = threading.Event()

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept_clients, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._is_over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept_clients(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                client.settimeout(0.2)
                threading.Thread(target=self._serve_client, args=(client,), daemon=True).start()

    def _serve_client(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            for command in self._read_requests(client):
                if self._greets and command.startswith(GREETINGS):
                    self._send_slowly(client, b"+OK\r\n")
                    continue
                self._send_slowly(client, self._reply.head)
                while self._reply.fill and not self._is_over.is_set():
                    self._send_slowly(client, self._reply.fill)

    def _read_requests(self, client: socket.socket) -> Iterator[str]:
        buffer = b""
        while not self._is_over.is_set():
            try:
                received = client.recv(65536)
            except TimeoutError:
                continue
            if not received:
                return
            buffer += received
            while (size := find_request_size(buffer)) is not None:
                request, buffer = buffer[:size], buffer[size:]
                yield parse_command_name(request).upper()

    def _send_slowly(self, client: socket.socket, data: bytes) -> None:
        """Send all bytes to a client, however slowly the client reads, unless the server ends."""
        unsent = memoryview(data)
        while unsent and not self._is_over.is_set():
            with contextlib.suppress(TimeoutError):
                unsent = unsent[client.send(unsent) :]


def main() -> None:
    """Run command lines of rqtui against each hostile reply, and print the results and the peak memory."""
    commands = json.loads(sys.argv[1])
    for name, reply in REPLIES.items():
        for words in commands:
            with HostileServer(reply) as server:
                began_s = time.monotonic()
                result = shell(server.url, *words)
                row = {"reply": name, "words": words, "code": result.code, "out": result.out[:200], "err": result.err}
                seconds = time.monotonic() - began_s
            print(json.dumps({**row, "seconds": seconds, "megabytes": read_peak_memory_mb()}), flush=True)


def read_peak_memory_mb() -> float:
    """Return the most memory (MB) that this program has used.

    On Linux `ru_maxrss` also counts the process that was forked to start this one, which may be a large pytest.
    """
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
