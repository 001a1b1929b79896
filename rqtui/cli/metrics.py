"""Implement `metrics`: print metrics for Prometheus once, or serve them over HTTP.

`--listen` serves on the loopback address unless another is given. The server has no password and shows no job data.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import output
from rqtui.cli.past import AT, read_recorded_moment
from rqtui.cli.session import DONE, NO_WAIT, UNREACHABLE, Session
from rqtui.cli.signals import stop_on_signals
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Queue, Snapshot

DISCOVER_S = 30.0  # seconds between two searches for new queues
EVENT_POLL_S = 1.0  # seconds between two checks for Pub/Sub events
DEFAULT_PORT = 9753


def metrics(
    session: Session,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Serve the metrics over HTTP; a port alone means 127.0.0.1."
        ),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", metavar="N", help="Label at most N queues; the others are summed up.")
    ] = 500,
    no_wait: NO_WAIT = False,
    at: AT = None,
) -> int:
    """Print depths, ages, workers and counters in Prometheus format: once, or with --listen over HTTP.

    Example: rqtui metrics --listen 127.0.0.1:9753
    """
    from rqtui.reports.prometheus import build_families, format_exposition

    if most < 1:
        raise UsageError("--most is a whole number from 1 on.")
    if at is not None:
        if listen is not None:
            raise UsageError("--listen serves the present, and --at shows the past; name one of them.")
        families = build_families(read_recorded_moment(session, at, None).snapshot.queues, most)
        output.write_lines(line for family in families for line in family.yield_lines())
        return DONE
    scrapes = SnapshotSource(session)
    if listen is None:
        snapshot, seconds = scrapes.take_snapshot()
        output.write_lines(format_exposition(snapshot, seconds, most).splitlines())
        return DONE if snapshot else UNREACHABLE
    address = parse_listen_address(listen)
    if no_wait and scrapes.take_snapshot()[0] is None:
        return UNREACHABLE
    return _serve_metrics(session, scrapes, most, *address)


class SnapshotSource:
    """An engine that takes snapshots for the HTTP requests of Prometheus, one request at a time."""

    def __init__(self, session: Session) -> None:
        self._engine: Engine = session.create_engine(reached=False)
        self._url = session.settings.url
        self._lock = threading.Lock()
        self._due_s = 0.0
        self._last_error = ""

    def take_snapshot(self) -> tuple[Snapshot | None, float]:
        """Take a snapshot of all queues, and return it with the seconds that it took.

        The snapshot is None while Redis is away, which is reported once.
        """
        from rqtui.connection.connect import open_and_authenticate
        from rqtui.connection.nodes import ping_server

        with self._lock:
            began = time.monotonic()
            try:
                open_and_authenticate(self._engine.client, self._url)
                ping_server(self._engine.client)  # without queues a snapshot sends no command
                if began >= self._due_s:
                    for _chunk in self._engine.discover():
                        pass
                    self._due_s = time.monotonic() + DISCOVER_S
                snapshot = self._engine.take_snapshot()
            except Exception as error:  # the next scrape may succeed
                self._report_error(error)
                return None, time.monotonic() - began
            self._last_error = ""
            return self._drop_derived_counters(snapshot), time.monotonic() - began

    def _drop_derived_counters(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot without counters that can decrease. Prometheus would take a decrease for a restart."""

        def drop_queue_counters(queue: Queue) -> Queue:
            derived = self._engine.systems[queue.system].derived_counters
            if not derived & queue.counters.keys():
                return queue
            return queue._replace(counters={name: n for name, n in queue.counters.items() if name not in derived})

        return replace(snapshot, queues=tuple(map(drop_queue_counters, snapshot.queues)))

    def start_listening(self) -> None:
        """Start to listen to the systems' Pub/Sub events, so that later snapshots count them."""
        self._engine.start_listening()

    def deliver_events(self) -> None:
        """Pass the Pub/Sub events that arrived to their systems."""
        with self._lock:
            self._engine.deliver_events()

    def close(self) -> None:
        """Stop listening and close the engine."""
        self._engine.stop_listening()

    def _report_error(self, error: Exception) -> None:
        """Print a connection error unless it was the last one printed."""
        from rqtui.connection.redis_errors.connecting import describe_connection_error

        sentence = describe_connection_error(error, self._url)
        if sentence != self._last_error:
            output.print_message(sentence)
        self._last_error = sentence


def parse_listen_address(listen: str) -> tuple[str, int]:
    """Parse the address of `--listen`: `HOST:PORT`, `:PORT` or `PORT`, with an IPv6 host in brackets.

    Raises UsageError.
    """
    host, colon, port = listen.rpartition(":")
    host = (host[1:-1] if host.startswith("[") and host.endswith("]") else host) or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) <= 65535) or (colon and ":" in host and listen[0] != "["):
        raise UsageError(
            f'"{listen}" is no address to listen at; write 127.0.0.1:{DEFAULT_PORT}, or [::1]:{DEFAULT_PORT}.'
        )
    return host, int(port)


def _serve_metrics(session: Session, source: SnapshotSource, max_queues: int, host: str, port: int) -> int:
    """Serve metrics over HTTP until a signal ends the command, and return the exit code."""
    from rqtui.cli.metrics_server import IDLE_S, MetricsServer
    from rqtui.connection.connect import hide_url_passwords

    try:
        server = MetricsServer((host, port), source.take_snapshot, max_queues)
    except OSError as error:
        raise UsageError(f"nothing can listen at {host}:{port}: {error.strerror or error}.") from None
    with server, stop_on_signals() as stop:
        url_host = f"[{host}]" if ":" in host else host
        at = f"http://{url_host}:{server.server_address[1]}"
        output.print_message(
            f"{at}/metrics and {at}/healthz report {hide_url_passwords(session.settings.url)}; Ctrl+C ends it."
        )
        if host not in ("127.0.0.1", "::1", "localhost"):
            output.print_message(
                "everybody who can reach that address can read the names of your queues: there is no password."
            )
        thread = threading.Thread(target=server.serve_forever, name="rqtui-metrics", daemon=True)
        source.start_listening()
        thread.start()
        while not stop.wait(EVENT_POLL_S):
            source.deliver_events()
        source.close()
        server.shutdown()
        thread.join(IDLE_S)
    return stop.code
