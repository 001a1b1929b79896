"""`metrics`, `acl`: what other programs need of rqtui: figures for Prometheus, and rights in Redis.

`metrics --listen` answers on the loopback unless another address is named; it has no password and shows no job.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from rqtui.commands import output
from rqtui.commands.session import AWAY, DONE, Session, command
from rqtui.errors import UsageError

if TYPE_CHECKING:
    from rqtui.engine import Engine
    from rqtui.model import Snapshot

DISCOVER_S = 30.0  # between two looks for new queues
PORT = 9753
QUEUES = Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Which queues, as NAME or LAYOUT:NAME.")]


def register(app: typer.Typer) -> None:
    """Adds these commands."""
    command(app, "metrics", has_json=False)(metrics)
    command(app, "acl", has_json=False)(acl)


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────


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
    from rqtui.metrics import exposition

    if most < 1:
        raise UsageError("--most is a whole number from 1 on.")
    scrapes = Scrapes(session, most)
    if listen is None:
        found, seconds = scrapes.take()
        output.write_lines(exposition(found, seconds, most).splitlines())
        return DONE if found else AWAY
    return _serve(session, scrapes, *address(listen))


class Scrapes:
    """One engine, looked at by one request at a time."""

    def __init__(self, session: Session, most: int) -> None:
        self.most = most
        self._engine: Engine = session.engine(reached=False)
        self._url = session.settings.url
        self._lock = threading.Lock()
        self._due_s = 0.0
        self._said = ""

    def take(self) -> tuple[Snapshot | None, float]:
        """All queues, and how long it took; None where Redis is away, which is said once."""
        from rqtui.server import reach

        with self._lock:
            began = time.monotonic()
            try:
                reach(self._engine.client, self._url)
                self._engine.client.ping()  # without a queue a snapshot asks nothing
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

    def _tell(self, error: Exception) -> None:
        from rqtui.describing import describe

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


def _serve(session: Session, scrapes: Scrapes, host: str, port: int) -> int:
    from rqtui.commands.ending import stopped_by_signals
    from rqtui.commands.scraping import IDLE_S, Server
    from rqtui.server import mask

    try:
        server = Server((host, port), scrapes)
    except OSError as error:
        raise UsageError(f"nothing can listen at {host}:{port}: {error.strerror or error}.") from None
    with server, stopped_by_signals() as stop:
        shown = f"[{host}]" if ":" in host else host
        at = f"http://{shown}:{server.server_address[1]}"
        output.say(f"{at}/metrics and {at}/healthz tell of {mask(session.settings.url)}; Ctrl+C ends it.")
        if host not in ("127.0.0.1", "::1", "localhost"):
            output.say("whoever reaches that address reads the names of your queues: there is no password.")
        thread = threading.Thread(target=server.serve_forever, name="rqtui-metrics", daemon=True)
        thread.start()
        stop.wait()
        server.shutdown()
        thread.join(IDLE_S)
    return stop.code


# ── acl ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def acl(
    session: Session,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="viewer, worker or operator.")],
    queues: QUEUES,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="The user's name; rqtui-ROLE otherwise.")] = "",
    is_old: Annotated[bool, typer.Option("--redis6", help="For Redis 6: no rights to read alone.")] = False,
    with_server: Annotated[
        bool, typer.Option("--server", help="Also CONFIG GET, CLIENT LIST, SLOWLOG: all that the Redis view shows.")
    ] = False,
    with_nodes: Annotated[bool, typer.Option("--cluster", help="For the nodes of a Cluster: on each of them.")] = False,
) -> int:
    """The least rights that a role needs in Redis, as one ACL SETUSER line for redis-cli.

    Example: rqtui acl viewer mail images
    """
    from rqtui import layouts
    from rqtui.reports import acl as report

    known = {layout.name: layout for layout in layouts.make_all(session.settings.layouts)}
    meant = []
    for word in queues:
        layout, colon, queue = word.partition(":")
        found = known.get(layout) if colon else None
        made = (found, queue) if found else (known.get("native") or next(iter(known.values())), word)
        made[0].keys(made[1])  # a name that cannot be is refused
        meant.append(made)
    if user and not user.isprintable() or any(letter.isspace() for letter in user):
        raise UsageError("--user is a name without spaces.")
    major = 6 if is_old else 7
    found_rights = report.rights(role, meant, major=major, with_server=with_server, with_nodes=with_nodes)
    output.write_lines([report.line(role, found_rights, user=user, major=major)])
    output.say("put a password in place of PASSWORD (after the >), and run it in redis-cli; ACL SAVE keeps it.")
    return DONE


__all__ = ["address", "register"]
