"""`metrics`: figures for Prometheus, once or served.

`--listen` answers on the loopback unless another address is named; it has no password and shows no job.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.cli import output
from rqtui.cli.session import AWAY, DONE, Session
from rqtui.cli.signals import stopped_by_signals
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.model import Snapshot

DISCOVER_S = 30.0  # between two looks for new queues
HAND_ON_S = 1.0  # between two looks at what was heard
PORT = 9753


def metrics(
    session: Session,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Serve them; a port alone means 127.0.0.1.")
    ] = None,
    most: Annotated[
        int, typer.Option("--most", metavar="N", help="Queues with labels of their own; the rest are summed.")
    ] = 500,
) -> int:
    """Depths, ages, workers and counters as Prometheus reads them: once, or served.

    Example: rqtui metrics --listen 127.0.0.1:9753
    """
    from rqtui.reports.prometheus import exposition

    if most < 1:
        raise UsageError("--most is a whole number from 1 on.")
    scrapes = Scrapes(session)
    if listen is None:
        found, seconds = scrapes.take()
        output.write_lines(exposition(found, seconds, most).splitlines())
        return DONE if found else AWAY
    return _serve(session, scrapes, most, *address(listen))


class Scrapes:
    """One engine, looked at by one request at a time."""

    def __init__(self, session: Session) -> None:
        self._engine: Engine = session.engine(reached=False)
        self._url = session.settings.url
        self._lock = threading.Lock()
        self._due_s = 0.0
        self._said = ""

    def take(self) -> tuple[Snapshot | None, float]:
        """All queues, and how long it took; None where Redis is away, which is said once."""
        from rqtui.connection.connect import reach
        from rqtui.connection.nodes import ping

        with self._lock:
            began = time.monotonic()
            try:
                reach(self._engine.client, self._url)
                ping(self._engine.client)  # without a queue a snapshot asks nothing
                if began >= self._due_s:
                    for _chunk in self._engine.discover():
                        pass
                    self._due_s = time.monotonic() + DISCOVER_S
                found = self._engine.snapshot()
            except Exception as error:  # whatever is wrong, the next scrape may find it well again
                self._tell(error)
                return None, time.monotonic() - began
            self._said = ""
            return found, time.monotonic() - began

    def listen(self) -> None:
        """From the next scrape on what systems publish is heard."""
        self._engine.listen()

    def overhear(self) -> None:
        """What was heard since goes to its layout."""
        with self._lock:
            self._engine.overhear()

    def close(self) -> None:
        """Listens no more."""
        self._engine.close()

    def _tell(self, error: Exception) -> None:
        from rqtui.connection.error_messages import describe

        sentence = describe(error, self._url)
        if sentence != self._said:
            output.say(sentence)
        self._said = sentence


def address(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `:PORT` or `PORT`; an IPv6 address stands in brackets."""
    host, colon, port = listen.rpartition(":")
    host = (host[1:-1] if host.startswith("[") and host.endswith("]") else host) or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) <= 65535) or (colon and ":" in host and listen[0] != "["):
        raise UsageError(f'"{listen}" is no address to listen at; write 127.0.0.1:{PORT}, or [::1]:{PORT}.')
    return host, int(port)


def _serve(session: Session, scrapes: Scrapes, most: int, host: str, port: int) -> int:
    from rqtui.cli.metrics_server import IDLE_S, Server
    from rqtui.connection.connect import mask

    try:
        server = Server((host, port), scrapes.take, most)
    except OSError as error:
        raise UsageError(f"nothing can listen at {host}:{port}: {error.strerror or error}.") from None
    with server, stopped_by_signals() as stop:
        shown = f"[{host}]" if ":" in host else host
        at = f"http://{shown}:{server.server_address[1]}"
        output.say(f"{at}/metrics and {at}/healthz tell of {mask(session.settings.url)}; Ctrl+C ends it.")
        if host not in ("127.0.0.1", "::1", "localhost"):
            output.say("whoever reaches that address reads the names of your queues: there is no password.")
        thread = threading.Thread(target=server.serve_forever, name="rqtui-metrics", daemon=True)
        scrapes.listen()
        thread.start()
        while not stop.wait(HAND_ON_S):
            scrapes.overhear()
        scrapes.close()
        server.shutdown()
        thread.join(IDLE_S)
    return stop.code
