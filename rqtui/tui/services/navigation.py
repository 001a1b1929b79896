"""Manage the stack of views: which view is on top, how one view opens another, and how to go back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from textual.content import Content

from rqtui.model import Finding, Job, Ref
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.target import Target
from rqtui.tui.view import View, filter_views, find_top_view


class Navigation:
    """The stack of views.

    `make` creates a view by its name, `refresh` redraws header and footer after a view was opened.
    """

    def __init__(self, host: Host, create_view: Callable[..., View], refresh_frame: Callable[[], None]) -> None:
        self._host, self._create_view, self._refresh_frame = host, create_view, refresh_frame

    @property
    def view(self) -> View | None:
        """The full-screen view on top of the stack, under any dialog; None before the first one is open."""
        return find_top_view(self._host.app.screen_stack)

    def list_drawable_views(self) -> list[View]:
        """Return the views of the stack that are ready to be drawn into, the top one last."""
        return [view for view in filter_views(self._host.app.screen_stack) if view.is_drawn]

    def find_target(self) -> Target:
        """Return the queue, place and jobs that a verb would change now."""
        return self.view.build_target() if self.view else Target()

    @property
    def has_dialog(self) -> bool:
        """Whether a dialog is open above the current view."""
        return self._host.app.screen is not self.view

    # -- opening and leaving views ------------------------------------------------------------------------------------

    def open_board(self, ref: Ref) -> None:
        """Open the board of a queue, which lists its places."""
        self.push_view(self._create_view("board", ref, self._host.session.systems[ref.system]))

    def open_job(self, ref: Ref, job: Job) -> None:
        """Open the page of a job."""
        self.push_view(self._create_view("job", ref, job))

    def open_incident(self, ref: Ref, finding: Finding) -> None:
        """Open the page about a finding of a queue."""
        if not self.has_dialog:
            self.push_view(self._create_view("incident", ref, finding))

    def open_incident_at_cursor(self) -> None:
        """Open the page about the finding or the queue under the cursor, or build it again if it is open."""
        view, ref = self.view, self.find_target().ref
        if view is None or self.has_dialog:
            return
        if view.NAME == "incident":
            view.recompute()
        elif ref is None:
            self._host.show_toast("Put the cursor on a queue: the page is about one queue.", "warning")
        else:
            self.push_view(self._create_view("incident", ref, view.find_selected_finding()))

    def open_search(self, expression: str) -> None:
        """Open the search for a filter expression in the jobs of all queues. Raises UsageError if it is invalid."""
        self.push_view(self._create_view("search", expression))

    def open_job_on_board(self, ref: Ref, job: Job) -> None:
        """Open the page of a job above the board of its queue, so that going back leads to the job's place."""
        view = self.view
        if view is None or not view.is_list_of_queue(ref):
            self.open_board(ref)
        board = self.view
        if board is not None:
            board.go_to_place(job.place)
        self.open_job(ref, job)

    def open_view(self, name: str) -> None:
        """Open a view of the header by its name, for the queues of the current view.

        The new view replaces another view of the header.
        """
        view = self.view
        if view is None or name == view.NAME or self.has_dialog or self._refuse_unrecorded_view(name):
            return
        new_view = self._create_view(name, view.list_scope_queues())
        if view.NAME in keys.VIEWS:
            self._host.app.switch_screen(new_view)
        else:
            self._host.app.push_screen(new_view)
        self._host.app.call_after_refresh(self.draw_opened_view)

    def _refuse_unrecorded_view(self, name: str) -> bool:
        """Show that a recording has no data for a view. Return whether that is so."""
        if not self._host.session.is_replay or name in keys.RECORDED_VIEWS:
            return False
        from rqtui.recording.replay import NOTHING_ELSE

        self._host.show_toast(NOTHING_ELSE, "warning")
        return True

    def push_view(self, view: Any) -> None:
        """Push a view on top of the stack and draw it."""
        if isinstance(view, View) and view.NAME != "board" and self._refuse_unrecorded_view(view.NAME):
            return
        self._host.app.push_screen(view)
        self._host.app.call_after_refresh(self.draw_opened_view)

    def draw_opened_view(self) -> None:
        """Draw the view on top of the stack from the last snapshot, and request what it needs."""
        session, view = self._host.session, self.view
        if view and not view.is_composed and view.call_after_refresh(self.draw_opened_view):
            return  # on a busy machine the view is composed a moment later
        if view and view.is_drawn:
            if session.snapshot:
                view.show_snapshot(session.snapshot)
            view.set_dimmed(session.is_stale)
            view.check_terminal_size()
        self._refresh_frame()

    def go_back(self) -> None:
        """Undo the last step on the current view, such as a filter, or close the view. Does nothing on the overview."""
        if self.view is not None and self.view.step_back():
            return
        if len(filter_views(self._host.app.screen_stack)) > 1:
            self._host.app.pop_screen()
            self.draw_opened_view()

    @property
    def is_at_first_view(self) -> bool:
        """Whether the first view is on top, so that there is no view to go back to."""
        screen = self._host.app.screen
        return isinstance(screen, View) and screen.IS_FIRST

    # -- pages --------------------------------------------------------------------------------------------------------

    def show_keys_page(self, active_names: Collection[str]) -> None:
        """Show the help page with all keys. Those in `active_names` work on the current row and come first."""
        from rqtui.tui.widgets import help_content
        from rqtui.tui.widgets.help_page import KeyPage

        session = self._host.session
        name = self.view.NAME if self.view else ""
        controls = session.demo.controls if session.demo else ()
        ref = self.find_target().ref
        system = session.systems.get(ref.system) if ref else None
        missing_verbs = {verb: f"{system.name}: {why}" for verb, why in system.missing_verbs.items()} if system else {}
        groups = help_content.build_key_groups(
            name,
            active_names,
            controls,
            can_change=not session.is_read_only,
            in_replay=session.is_replay,
            missing_verbs=missing_verbs,
            verb_labels=system.verb_labels if system else {},
        )
        self._host.app.push_screen(KeyPage(groups))

    def show_page(self, title: str, build_text: Callable[[], Content]) -> None:
        """Show a page of scrolling text. `build_text` builds the text again, for example for another width."""
        from rqtui.tui.widgets.text_dialog import Pages

        self._host.app.push_screen(Pages(title, build_text(), build_text))
