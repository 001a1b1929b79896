"""Host: what screens and services know of the app that holds them; `tui/app.py` is one, and nobody else imports it.

What Textual's own app does (dialogs, timers, threads) is reached by `app`, as everywhere in Textual; what is known of
Redis by `session`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from textual.app import App
    from textual.notifications import SeverityLevel
    from textual.screen import Screen

    from rqtui.engine.loops import Loop
    from rqtui.model import Job, Ref
    from rqtui.tui.session import Session
    from rqtui.tui.target import Target
    from rqtui.verbs import Verb


class Host(Protocol):
    """The app, as screens and services see it."""

    session: Session

    @property
    def app(self) -> App[Any]:
        """Textual's own app."""

    def say(self, words: str, severity: SeverityLevel = "information", timeout: float | None = None) -> None:
        """A toast: what happened, in words that are made safe there."""

    # -- the frame and the picture --

    def show_header(self) -> None:
        """The lines above the view say something else now."""

    def show_keys(self) -> None:
        """What the keys can do changed."""

    def look_again(self) -> None:
        """Takes a picture of what the view on top wants."""

    def look_soon(self) -> None:
        """Takes it in a moment, once."""

    def connect_soon(self) -> None:
        """The first view stands: begins to talk to Redis after its first picture."""

    # -- from view to view --

    def go(self, view: Screen[None]) -> None:
        """Shows a view on top of this one."""

    def open_board(self, ref: Ref) -> None:
        """Shows the places of a queue."""

    def open_job(self, ref: Ref, job: Job) -> None:
        """Shows a job."""

    # -- verbs and loops --

    def check_verb(self, key: str) -> bool | None:
        """Whether a verb's key works now: False hides it, None shows it grey."""

    def begin(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """The way from a verb to its request: a question where one is due, then the inbox."""

    def begin_many(self, verb: str, chosen: Sequence[tuple[Ref, Sequence[Job]]], about: str, counted: str = "") -> None:
        """A verb on jobs of several queues; `about` says what they have in common, `counted` how the jobs differ from
        those that the person saw counted."""

    def shown_loops(self) -> dict[str, tuple[Loop, bool]]:
        """The loops that mean something for the queue in focus, and whether each serves it."""

    def export_operations(self) -> None:
        """Writes the journal of this session into files."""
