"""The HTTP server of `metrics --listen`; a file of its own, since no other command needs what it imports."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqtui.model import Snapshot

IDLE_S = 10.0  # a client that says nothing for longer is let go


class Server(ThreadingHTTPServer):
    """Answers each request on a thread of its own, so that a slow client holds up nobody.

    `take` gives a snapshot, None where Redis is away, and the seconds that it took.
    """

    daemon_threads = True

    def __init__(self, where: tuple[str, int], take: Callable[[], tuple[Snapshot | None, float]], most: int) -> None:
        import socket

        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        self.take, self.most = take, most
        super().__init__(where, _Handler)


class _Handler(BaseHTTPRequestHandler):
    """`/metrics` and `/healthz`."""

    server: Server
    timeout = IDLE_S
    server_version, sys_version = "rqtui", ""

    def do_GET(self) -> None:
        """The one method there is."""
        from rqtui.reports.prometheus import CONTENT_TYPE, exposition

        path = self.path.partition("?")[0]
        if path == "/metrics":
            found, seconds = self.server.take()
            self._answer(200, exposition(found, seconds, self.server.most), CONTENT_TYPE)
        elif path == "/healthz":
            found, _seconds = self.server.take()
            self._answer(200 if found else 503, "ok\n" if found else "Redis is away\n")
        else:
            self._answer(404, "There is /metrics and /healthz.\n")

    do_HEAD = do_GET

    def _answer(self, code: int, text: str, type: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A scrape each 15 s is no news."""
