"""Navigation: the part of the app that leads from one screen to another, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from rqtui.tui import views
from rqtui.tui.overview import Overview
from rqtui.tui.part import Part
from rqtui.tui.view import View

if TYPE_CHECKING:
    from rqtui.model import Job, Ref


class Navigation(Part):
    """A mixin of the app."""

    def open_board(self, ref: Ref) -> None:
        """Shows the places of a queue."""
        from rqtui.tui.board import Board

        self.go(Board(ref, self.cockpit.layouts[ref.layout]))

    def open_job(self, ref: Ref, job: Job) -> None:
        """Shows a job."""
        from rqtui.tui.job import JobPage

        self.go(JobPage(ref, job))

    def busiest(self, refs: Sequence[Ref], most: int) -> tuple[Ref, ...]:
        """All of these queues or, of more than a view can follow, the busiest."""
        if len(refs) <= most:
            return tuple(refs)
        overview = next(screen for screen in self.cockpit.screen_stack if isinstance(screen, Overview))
        return tuple(overview.busiest(refs)[:most])

    def go(self, view: View) -> None:
        """Shows a view on top of this one."""
        self.cockpit.push_screen(view)
        self.cockpit.call_after_refresh(self._opened)

    def _opened(self) -> None:
        app, view = self.cockpit, self.cockpit.view
        if view and not view.is_composed and view.call_after_refresh(self._opened):
            return  # on a busy machine it stands a moment later
        if view and view.is_drawn:
            if app.snapshot:
                view.show(app.snapshot)
            view.dim(app.lost is not None)
            view.check_size()
        app.show_diagnosis()
        app.look_again()
        app.show_header()
        app.show_keys()

    async def action_back(self) -> None:
        """Stops a change of many jobs; else one step back; on the overview, nothing."""
        app = self.cockpit
        if app.stop_changes() or (app.view is not None and app.view.steps_back()):
            return
        if len([screen for screen in app.screen_stack if isinstance(screen, View)]) > 1:
            app.pop_screen()
            self._opened()

    async def action_quit_or_back(self) -> None:
        """One step back; on the overview, the end."""
        if isinstance(self.cockpit.screen, Overview):
            self.cockpit.exit()
        else:
            await self.action_back()

    def action_open_view(self, name: str) -> None:
        """Goes to one of the views in `views.VIEWS`; from one of them it takes its place, with the same queues."""
        app, view = self.cockpit, self.cockpit.view
        if view is None or name == view.NAME or app.screen is not view:
            return
        made = views.make(name, view.scope())
        if view.NAME in views.VIEWS:
            app.switch_screen(made)
        else:
            app.push_screen(made)
        app.call_after_refresh(self._opened)

    def action_help(self) -> None:
        """Every key, those that work here first."""
        from rqtui.tui import help
        from rqtui.tui.keypage import KeyPage

        app = self.cockpit
        name = app.view.NAME if app.view else ""
        controls = app.demo.controls if app.demo else ()
        app.push_screen(KeyPage(help.key_groups(name, controls, may_change=not app.is_read_only)))

    def show_page(self, title: str, page: Callable[[], Content]) -> None:
        """Shows some text that can be scrolled; `page` makes it anew for another width."""
        from rqtui.tui.dialogs import Pages

        self.cockpit.push_screen(Pages(title, page(), page))
