"""Connection lost: what the screen says and offers while Redis has never answered.

It opens at once and never ends by itself: where it asked, what went wrong in words, when it asks next; `r` asks now,
`e` edits the URL, `d` starts a Redis of its own with a demo on it. A link that was there and dropped is not its
business: then the last picture stays, dimmed.
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
LOW = 22  # rows of a terminal
_KEYS = (
    ("refresh", "r", "tries now"),
    ("away.edit_url", "e", "edits the URL"),
    ("away.open_demo", "d", "demo"),
    ("quit", "q", "quits"),
)


class ConnectionLost:
    """The diagnosis of a session that has no Redis, and its ways out. `switch` goes over to other settings."""

    def __init__(self, host: Host, navigation: Navigation, switch: Callable[[Settings, Run | None], None]) -> None:
        self._host, self._navigation, self._switch = host, navigation, switch
        self._servers: ExitStack | None = None  # those of the demo that was opened from here

    def show(self) -> None:
        """Says in the middle of the screen what is wrong, as long as there is nothing else to show."""
        session = self._host.session
        lost = session.lost
        if lost is None or not session.is_away:
            return
        wait_s, is_low = lost.next_s - time.monotonic(), self._host.app.size.height < LOW
        words = diagnosis(session.settings.url, lost.error, wait_s, is_low)
        for view in self._navigation.drawn():
            view.diagnose(words)

    def edit_url(self) -> None:
        """Asks for another URL."""
        settings = self._host.session.settings

        def edited(url: str | None) -> None:
            if url:
                self._switch(replace(settings, url=url), None)

        self._host.app.push_screen(EditUrl(settings.url), edited)

    def open_demo(self) -> None:
        """Starts a Redis of its own, and a demo on it."""
        self._host.say("Starting a Redis of its own with a demo …")
        self._host.app.run_worker(self._start_demo, thread=True, exclusive=True)

    def _start_demo(self) -> None:
        """On a thread: a server needs a moment to come up."""
        from rqtui import scenarios
        from rqtui.connection.embedded import embedded

        app = self._host.app
        story = scenarios.scenario(DEMO)
        stack = self._servers = self._servers or ExitStack()
        try:
            running = stack.enter_context(embedded("auto"))
            play = stack.enter_context(scenarios.make_run(story, running.url, 1, running.pid, running.folder))
        except RqtuiError as error:
            app.call_from_thread(self._host.say, str(error), "error")
            return
        before = self._host.session.settings
        settings = replace(before, url=running.url, layouts=(story.layout,), profile="", badge="", is_guarded=False)
        app.call_from_thread(self._switch, settings, play)

    def end(self) -> None:
        """Ends the demo's server."""
        if self._servers is not None:
            self._servers.close()


# ── the words ────────────────────────────────────────────────────────────────────────────────────────────────


def diagnosis(url: str, error: str, next_s: float, is_low: bool = False) -> Content:
    """Where it asked, what went wrong, when it asks next, and the keys that help; `is_low`: in few lines."""
    facts = [
        Content.assemble((label if is_low else f"{label:<9}", "$muted"), " ", safe(value))
        for label, value in _parts(url)
    ]
    offers = [
        Content.assemble((key, "b $accented"), (f" {words}", "$muted"))
        for key, words in ((keys.of(id, key), words) for id, key, words in _KEYS)
    ]
    parts = [
        [Content.styled("No answer from Redis yet", "b $state-dead")],
        [
            Content.styled(safe(connect.mask(url)), "$strong"),
            *([Content("  ").join(facts)] if is_low else facts),
        ],
        [Content(safe(error))],
        [
            Content.styled(f"The next try is in {max(0, round(next_s))} s.", "$muted"),
            Content("  ").join(offers),
        ],
    ]
    return Content("\n" if is_low else "\n\n").join([Content("\n").join(lines) for lines in parts])


def _parts(url: str) -> list[tuple[str, str]]:
    """Host, port, database, TLS and user of a URL that `connect` has accepted."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return [("socket", unquote(parts.path))]
    hosts = urls.hosts_of(url, connect.mask(url))
    user = unquote(parts.username or "") or ("default" if parts.password else "")
    common = [
        ("TLS", "yes" if parts.scheme.startswith("rediss") else "no"),
        ("login", f"{user}, with a password" if parts.password else (user or "none")),
    ]
    if hosts is not None:
        service = [("service", hosts.service)] if hosts.service else []
        return [(_HOSTS[hosts.kind], str(hosts)), *service, *common]
    return [
        ("host", parts.hostname or "localhost"),
        ("port", str(parts.port or 6379)),
        ("database", parts.path.strip("/") or "0"),
        *common,
    ]


_HOSTS = {"sentinel": "sentinels", "cluster": "nodes"}


# ── the form ─────────────────────────────────────────────────────────────────────────────────────────────────


class EditUrl(ModalScreen[str], Leavable):
    """Asks for a URL; the password of the old one is not shown, and kept where its stars are left."""

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
        """A field, what it takes, and what is wrong with what was typed."""
        with Vertical(id="url") as frame:
            frame.border_title = Content(" which Redis? ")
            frame.border_subtitle = Content(" Enter connects   Esc nothing ")
            yield Input(connect.mask(self._url), compact=True, select_on_focus=False)
            yield Static(
                Content.styled("redis://host:6379/0   rediss:// with TLS   unix:///path   redis+sentinel://", "$muted")
            )
            yield Static("", id="problem")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes a URL that can be one; what is wrong with another is said here."""
        url = with_password_of(self._url, event.value.strip())
        try:
            connect.connect(url)  # nothing is sent yet
        except RqtuiError as error:
            problem = self.query_one("#problem", Static)
            problem.update(Content(safe(str(error))))
            problem.display = True
            return
        self.dismiss(url)


def with_password_of(old: str, edited: str) -> str:
    """`edited`, with the password of `old` where the stars that stood for it are still there."""
    password = urlsplit(old).password
    return edited.replace(":***@", f":{password}@", 1) if password else edited
