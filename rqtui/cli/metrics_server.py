"""Serve metrics over HTTP for `metrics --listen`. The module is separate: no other command needs its imports."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqtui.model import Snapshot

IDLE_S = 10.0  # seconds after which an idle client is disconnected


class MetricsServer(ThreadingHTTPServer):
    """An HTTP server for metrics that answers each request on its own thread, so that no slow client delays others.

    `take` returns a snapshot, or None while Redis is away, and the seconds that it took.
    """

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], take: Callable[[], tuple[Snapshot | None, float]], max_queues: int
    ) -> None:
        import socket

        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.take, self.most = take, max_queues
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    """The HTTP request handler of `/metrics` and `/healthz`."""

    server: MetricsServer
    timeout = IDLE_S
    server_version, sys_version = "rqtui", ""

    def do_GET(self) -> None:
        """Answer an HTTP request with the metrics, the health or 404."""
        from rqtui.reports.prometheus import CONTENT_TYPE, format_exposition

        path = self.path.partition("?")[0]
        if path == "/metrics":
            snapshot, seconds = self.server.take()
            self._send_reply(200, format_exposition(snapshot, seconds, self.server.most), CONTENT_TYPE)
        elif path == "/healthz":
            snapshot, _seconds = self.server.take()
            self._send_reply(200 if snapshot else 503, "ok\n" if snapshot else "Redis is away\n")
        else:
            self._send_reply(404, "There is /metrics and /healthz.\n")

    do_HEAD = do_GET

    def _send_reply(self, code: int, text: str, type: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a scrape every 15 s would fill the log."""
