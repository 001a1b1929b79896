"""Define the interface of the app that screens and services use, so that only the entry point imports `tui/app.py`.

Textual's own app (dialogs, timers, threads) is reached by `app`; data read from Redis by `session`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from textual.app import App
    from textual.notifications import SeverityLevel
    from textual.screen import Screen

    from rqtui.engine.loops import Loop
    from rqtui.model import Finding, Job, Ref
    from rqtui.tui.session import Session
    from rqtui.tui.target import Target
    from rqtui.verbs import Verb


class Host(Protocol):
    """The app as screens and services see it. `tui/app.py` implements this protocol."""

    session: Session

    @property
    def app(self) -> App[Any]:
        """The Textual app, for dialogs, timers and threads."""

    def show_toast(self, message: str, severity: SeverityLevel = "information", timeout: float | None = None) -> None:
        """Show a message in a toast. The implementation sanitises the message."""

    # -- header, footer and refreshes --

    def show_header(self) -> None:
        """Redraw the header lines above the current view."""

    def show_keys(self) -> None:
        """Redraw the footer after the usable keys changed."""

    def request_refresh(self) -> None:
        """Request a refresh of the data that the top view shows."""

    def request_refresh_soon(self) -> None:
        """Request a refresh of the top view's data after a short delay; repeated calls restart the delay."""

    def schedule_connection(self) -> None:
        """Connect to Redis after the first view was painted."""

    # -- from view to view --

    def push_view(self, view: Screen[None]) -> None:
        """Open a view on top of the current one."""

    def open_board(self, ref: Ref) -> None:
        """Open the board of a queue."""

    def open_incident(self, ref: Ref, finding: Finding) -> None:
        """Open the page about a finding of a queue."""

    def open_job(self, ref: Ref, job: Job) -> None:
        """Open the page of a job."""

    def open_search(self, expression: str) -> None:
        """Open the search for a filter expression in the jobs of all queues. Raises UsageError if it is invalid."""

    # -- verbs and loops --

    def check_verb(self, key: str) -> bool | None:
        """Return whether the key of a verb works now: False hides the key, None shows the key greyed out."""

    def start_verb(self, verb: Verb, target: Target, *, is_chosen: bool = False) -> None:
        """Start a verb on a target: ask for confirmation if needed, then send the request."""

    def start_verb_on_jobs(
        self, verb: str, jobs_by_queue: Sequence[tuple[Ref, Sequence[Job]]], about: str, count_difference: str = ""
    ) -> None:
        """Start a verb on jobs of several queues.

        `about` describes what the jobs have in common. `count_difference` describes how they differ from the jobs that
        the user saw counted.
        """

    def find_relevant_loops(self) -> dict[str, tuple[Loop, bool]]:
        """Return the dispatcher and the reaper as {verb: (loop, whether it serves the queue in focus)}.

        A loop that cannot serve that queue is left out.
        """

    def export_operations(self) -> None:
        """Write a report of this session's changes to files."""
