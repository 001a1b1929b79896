"""Explain on the screen why Redis has never replied in this session, and offer what a person can do.

The page shows the address, the error message and the time of the next attempt. `r` connects now, `e` edits the URL, `d`
starts a local Redis with a demo. A connection that is lost later is handled elsewhere: the last snapshot stays on
screen, dimmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote, urlsplit

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from rqtui.connection import connect, urls
from rqtui.errors import RqtuiError
from rqtui.text.sanitise import safe
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation
from rqtui.tui.widgets.leavable import Leavable

if TYPE_CHECKING:
    from rqtui.config.settings import Settings
    from rqtui.scenarios import Run

AWAY_ACTIONS = ("edit_url", "open_demo")
AWAY_BINDINGS = [
    Binding(key, action, show=False, id=f"away.{action}") for key, action in zip("ed", AWAY_ACTIONS, strict=True)
]
DEMO = "delays"
LOW_ROWS = 22  # terminals with fewer rows get the short diagnosis
_KEYS = (
    ("refresh", "r", "tries now"),
    ("away.edit_url", "e", "edits the URL"),
    ("away.open_demo", "d", "demo"),
    ("quit", "q", "quits"),
)


class ConnectionLost:
    """The error page of a session that has not reached Redis yet, and its keys. `switch` opens other settings."""

    def __init__(self, host: Host, navigation: Navigation, switch: Callable[[Settings, Run | None], None]) -> None:
        self._host, self._navigation, self._switch = host, navigation, switch
        self._servers: ExitStack | None = None  # servers of the demo that was opened from this page

    def show_connection_diagnosis(self) -> None:
        """Show in every view why Redis cannot be reached, until the first reply from Redis."""
        session = self._host.session
        loss = session.connection_loss
        if loss is None or not session.is_never_connected:
            return
        wait_s, is_low = loss.next_s - time.monotonic(), self._host.app.size.height < LOW_ROWS
        diagnosis = format_diagnosis(session.settings.url, loss.error, wait_s, is_low)
        for view in self._navigation.list_drawable_views():
            view.show_connection_diagnosis(diagnosis)

    def edit_url(self) -> None:
        """Ask for another Redis URL and connect to it."""
        settings = self._host.session.settings

        def connect_to_url(url: str | None) -> None:
            if url:
                self._switch(replace(settings, url=url), None)

        self._host.app.push_screen(EditUrl(settings.url), connect_to_url)

    def open_demo(self) -> None:
        """Start a local Redis server with a demo and connect to it."""
        self._host.show_toast("Starting a Redis of its own with a demo …")
        self._host.app.run_worker(self._start_demo, thread=True, exclusive=True)

    def _start_demo(self) -> None:
        """Start the demo's server on a background thread, because a server takes a moment to come up."""
        from rqtui import scenarios
        from rqtui.connection.embedded import start_server

        app = self._host.app
        scenario = scenarios.find_scenario(DEMO)
        stack = self._servers = self._servers or ExitStack()
        try:
            server = stack.enter_context(start_server("auto"))
            demo_run = stack.enter_context(scenarios.create_run(scenario, server.url, 1, server.pid, server.folder))
        except RqtuiError as error:
            app.call_from_thread(self._host.show_toast, str(error), "error")
            return
        previous = self._host.session.settings
        settings = replace(previous, url=server.url, systems=(scenario.system,), profile="", badge="", is_guarded=False)
        app.call_from_thread(self._switch, settings, demo_run)

    def stop_demo_server(self) -> None:
        """Stop the demo servers that were started from this page."""
        if self._servers is not None:
            self._servers.close()


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────


def format_diagnosis(url: str, error: str, next_s: float, is_low: bool = False) -> Content:
    """Format the page of a failed connection: address, error message, seconds until the next attempt, and keys.

    `is_low` saves lines on a low terminal.
    """
    facts = [
        Content.assemble((label if is_low else f"{label:<9}", "$muted"), " ", safe(value))
        for label, value in _label_url_parts(url)
    ]
    offers = [
        Content.assemble((key, "b $accented"), (f" {label}", "$muted"))
        for key, label in ((keys.find_dialog_key(id, key), label) for id, key, label in _KEYS)
    ]
    parts = [
        [Content.styled("No answer from Redis yet", "b $state-dead")],
        [
            Content.styled(safe(connect.hide_url_passwords(url)), "$strong"),
            *([Content("  ").join(facts)] if is_low else facts),
        ],
        [Content(safe(error))],
        [
            Content.styled(f"The next try is in {max(0, round(next_s))} s.", "$muted"),
            Content("  ").join(offers),
        ],
    ]
    return Content("\n" if is_low else "\n\n").join([Content("\n").join(lines) for lines in parts])


def _label_url_parts(url: str) -> list[tuple[str, str]]:
    """Return (label, value) of the parts of a Redis URL: host, port, database, TLS and user."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return [("socket", unquote(parts.path)), ("database", urls.find_database(url))]
    hosts = urls.parse_multi_host_url(url, connect.hide_url_passwords(url))
    user = unquote(parts.username or "") or ("default" if parts.password else "")
    common = [
        ("TLS", "yes" if parts.scheme.startswith("rediss") else "no"),
        ("login", f"{user}, with a password" if parts.password else (user or "none")),
    ]
    if hosts is not None:
        service = [("service", hosts.service)] if hosts.service else []
        return [(_HOST_LABELS[hosts.kind], str(hosts)), *service, *common]
    return [
        ("host", parts.hostname or "localhost"),
        ("port", str(parts.port or 6379)),
        ("database", urls.find_database(url)),
        *common,
    ]


_HOST_LABELS = {"sentinel": "sentinels", "cluster": "nodes"}


# ── the form ─────────────────────────────────────────────────────────────────────────────────────────────────


class EditUrl(ModalScreen[str], Leavable):
    """A dialog that asks for a Redis URL. The old password is masked, and kept if its stars stay in the text."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "no", show=False, id="url.no")]
    CSS = """
    EditUrl #url { width: 76; max-width: 96%; height: auto; padding: 0 2; background: $ground; }
    EditUrl #url { border: round $accented; border-title-color: $strong; border-title-background: $ground; }
    EditUrl #url { border-subtitle-color: $muted; border-subtitle-background: $ground; }
    EditUrl Input, EditUrl Input:focus { border: none; height: 1; padding: 0 1; background: $cursor-row; }
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def compose(self) -> ComposeResult:
        """Create the input field, a line with example URLs, and the line for an error message."""
        with Vertical(id="url") as frame:
            frame.border_title = Content(" which Redis? ")
            frame.border_subtitle = Content(" Enter connects   Esc nothing ")
            yield Input(connect.hide_url_passwords(self._url), compact=True, select_on_focus=False)
            yield Static(
                Content.styled("redis://host:6379/0   rediss:// with TLS   unix:///path   redis+sentinel://", "$muted")
            )
            yield Static("", id="problem")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the dialog with the URL if it is valid, else show the error message."""
        url = restore_password(self._url, event.value.strip())
        try:
            connect.connect(url)  # validates the URL; nothing is sent yet
        except RqtuiError as error:
            problem = self.query_one("#problem", Static)
            problem.update(Content(safe(str(error))))
            problem.display = True
            return
        self.dismiss(url)


def restore_password(old_url: str, edited_url: str) -> str:
    """Return an edited URL in which the mask `***` is replaced by the password of the old URL."""
    password = urlsplit(old_url).password
    return edited_url.replace(":***@", f":{password}@", 1) if password else edited_url
