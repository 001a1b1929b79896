"""Away: what the screen says and offers while there has never been an answer from Redis.

It opens at once and never ends by itself: where it asked, what went wrong in words, when it asks next; `r` asks now,
`e` edits the URL, `d` starts a Redis of its own with a demo on it. A link that was there and dropped is not its
business: then the last picture stays, dimmed.
"""

from __future__ import annotations

import time
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

from rqtui import addresses, server
from rqtui.errors import RqtuiError
from rqtui.tui import display, keys
from rqtui.tui.part import Part

if TYPE_CHECKING:
    from rqtui.scenarios import Run
    from rqtui.settings import Settings

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


class Away(Part):
    """A mixin of the app."""

    _demo_stack: ExitStack | None = None  # the server of the demo that was opened from here

    @property
    def is_away(self) -> bool:
        """Whether Redis was asked, and has never answered."""
        return self.cockpit.lost is not None and self.cockpit.snapshot is None

    def show_diagnosis(self) -> None:
        """Says in the middle of the screen what is wrong, as long as there is nothing else to show."""
        lost = self.cockpit.lost
        if lost is None or not self.is_away:
            return
        wait_s, is_low = lost.next_s - time.monotonic(), self.cockpit.size.height < LOW
        words = diagnosis(self.cockpit.settings.url, lost.error, wait_s, is_low)
        for view in self.cockpit.drawn_views():
            view.diagnose(words)

    def action_edit_url(self) -> None:
        """Asks for another URL."""

        def edited(url: str | None) -> None:
            if url:
                self._restart(replace(self.cockpit.settings, url=url))

        self.cockpit.push_screen(EditUrl(self.cockpit.settings.url), edited)

    def action_open_demo(self) -> None:
        """Starts a Redis of its own, and a demo on it."""
        self.cockpit.say("Starting a Redis of its own with a demo …")
        self.cockpit.run_worker(self._start_demo, thread=True, exclusive=True)

    def _start_demo(self) -> None:
        """On a thread: a server needs a moment to come up."""
        from rqtui import scenarios
        from rqtui.embedded import embedded

        app = self.cockpit
        story = scenarios.scenario(DEMO)
        stack = self._demo_stack = self._demo_stack or ExitStack()
        try:
            running = stack.enter_context(embedded("auto"))
            play = stack.enter_context(scenarios.make_run(story, running.url, 1, running.pid))
        except RqtuiError as error:
            app.call_from_thread(app.say, str(error), "error")
            return
        settings = replace(
            app.settings, url=running.url, layouts=(story.layout,), profile="", badge="", is_guarded=False
        )
        app.call_from_thread(self._restart, settings, play)

    def on_unmount(self) -> None:
        """Ends the demo's server."""
        if self._demo_stack is not None:
            self._demo_stack.close()

    def _restart(self, settings: Settings, demo: Run | None = None) -> None:
        """Asks another Redis from now on; of this one nothing was ever seen."""
        self.cockpit.switch_to(settings, demo=demo)
        self.cockpit.introduce_demo()


# ── the words ────────────────────────────────────────────────────────────────────────────────────────────────


def diagnosis(url: str, error: str, next_s: float, is_low: bool = False) -> Content:
    """Where it asked, what went wrong, when it asks next, and the keys that help; `is_low`: in few lines."""
    facts = [
        Content.assemble((label if is_low else f"{label:<9}", "$muted"), " ", display.safe(value))
        for label, value in _parts(url)
    ]
    offers = [
        Content.assemble((key, "b $accented"), (f" {words}", "$muted"))
        for key, words in ((keys.of(id, key), words) for id, key, words in _KEYS)
    ]
    parts = [
        [Content.styled("No answer from Redis yet", "b $state-dead")],
        [
            Content.styled(display.safe(server.mask(url)), "$strong"),
            *([Content("  ").join(facts)] if is_low else facts),
        ],
        [Content(display.safe(error))],
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
    hosts = addresses.hosts_of(url, server.mask(url))
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


class EditUrl(ModalScreen[str]):
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
            yield Input(server.mask(self._url), compact=True, select_on_focus=False)
            yield Static(
                Content.styled("redis://host:6379/0   rediss:// with TLS   unix:///path   redis+sentinel://", "$muted")
            )
            yield Static("", id="problem")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes a URL that can be one; what is wrong with another is said here."""
        url = with_password_of(self._url, event.value.strip())
        try:
            server.connect(url)  # nothing is sent yet
        except RqtuiError as error:
            problem = self.query_one("#problem", Static)
            problem.update(Content(display.safe(str(error))))
            problem.display = True
            return
        self.dismiss(url)


def with_password_of(old: str, edited: str) -> str:
    """`edited`, with the password of `old` where the stars that stood for it are still there."""
    password = urlsplit(old).password
    return edited.replace(":***@", f":{password}@", 1) if password else edited
