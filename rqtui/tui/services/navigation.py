"""Navigation: the views on the screen: which one is on top, how one leads to another, and back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from textual.content import Content

from rqtui.model import Job, Ref
from rqtui.tui import keys
from rqtui.tui.host import Host
from rqtui.tui.target import Target
from rqtui.tui.view import View, top, views


class Navigation:
    """The stack of views. `make` makes a view by its name, `refresh` draws what stands around one that was opened."""

    def __init__(self, host: Host, make: Callable[..., View], refresh: Callable[[], None]) -> None:
        self._host, self._make, self._refresh = host, make, refresh

    @property
    def view(self) -> View | None:
        """The full screen on top, under any dialog."""
        return top(self._host.app.screen_stack)

    def drawn(self) -> list[View]:
        """The views on the stack that can be drawn into, the one on top last."""
        return [view for view in views(self._host.app.screen_stack) if view.is_drawn]

    def target(self) -> Target:
        """What a verb would act on now."""
        return self.view.target() if self.view else Target()

    @property
    def is_asking(self) -> bool:
        """Whether a dialog stands above the view."""
        return self._host.app.screen is not self.view

    # -- from one to another ------------------------------------------------------------------------------------------

    def open_board(self, ref: Ref) -> None:
        """Shows the places of a queue."""
        self.go(self._make("board", ref, self._host.session.layouts[ref.layout]))

    def open_job(self, ref: Ref, job: Job) -> None:
        """Shows a job."""
        self.go(self._make("job", ref, job))

    def open_job_on_board(self, ref: Ref, job: Job) -> None:
        """Shows a job above the board of its queue, which stands at the job's place: back leads there."""
        view = self.view
        if view is None or not view.lists_jobs_of(ref):
            self.open_board(ref)
        board = self.view
        if board is not None:
            board.stand_at(job.place)
        self.open_job(ref, job)

    def open_view(self, name: str) -> None:
        """Goes to a view that a key opens; from one of them it takes its place, with the same queues."""
        view = self.view
        if view is None or name == view.NAME or self.is_asking:
            return
        made = self._make(name, view.scope())
        if view.NAME in keys.VIEWS:
            self._host.app.switch_screen(made)
        else:
            self._host.app.push_screen(made)
        self._host.app.call_after_refresh(self.opened)

    def go(self, view: Any) -> None:
        """Shows a view on top of this one."""
        self._host.app.push_screen(view)
        self._host.app.call_after_refresh(self.opened)

    def opened(self) -> None:
        """Draws the view on top from what is known, and asks for what it wants."""
        session, view = self._host.session, self.view
        if view and not view.is_composed and view.call_after_refresh(self.opened):
            return  # on a busy machine it stands a moment later
        if view and view.is_drawn:
            if session.snapshot:
                view.show(session.snapshot)
            view.dim(session.is_old)
            view.check_size()
        self._refresh()

    def back(self) -> None:
        """One step back; on the overview, nothing."""
        if self.view is not None and self.view.steps_back():
            return
        if len(views(self._host.app.screen_stack)) > 1:
            self._host.app.pop_screen()
            self.opened()

    @property
    def is_at_the_first(self) -> bool:
        """Whether nothing is left to go back from."""
        screen = self._host.app.screen
        return isinstance(screen, View) and screen.IS_FIRST

    # -- pages --------------------------------------------------------------------------------------------------------

    def show_keys_page(self, here: Collection[str]) -> None:
        """Every key, first those of the looks and verbs in `here`, by their names: they work here and now."""
        from rqtui.tui.widgets import help
        from rqtui.tui.widgets.keypage import KeyPage

        session = self._host.session
        name = self.view.NAME if self.view else ""
        controls = session.demo.controls if session.demo else ()
        ref = self.target().ref
        system = session.layouts.get(ref.layout) if ref else None
        lacks = {verb: f"{system.name}: {why}" for verb, why in system.lacks.items()} if system else {}
        groups = help.key_groups(name, here, controls, may_change=not session.is_read_only, lacks=lacks)
        self._host.app.push_screen(KeyPage(groups))

    def show_page(self, title: str, page: Callable[[], Content]) -> None:
        """Shows some text that can be scrolled; `page` makes it anew for another width."""
        from rqtui.tui.widgets.dialogs import Pages

        self._host.app.push_screen(Pages(title, page(), page))
