"""Going: the part of the app that leads from one screen to another, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual.content import Content

from rqtui import server
from rqtui.tui import help, views
from rqtui.tui.overview import Overview
from rqtui.tui.view import View

if TYPE_CHECKING:
    from rqtui.model import Job, Ref
    from rqtui.tui.app import Cockpit


class Going:
    """A mixin of the app."""

    @property
    def _goer(self) -> Cockpit:
        return cast("Cockpit", self)

    def open_board(self, ref: Ref) -> None:
        """Shows the places of a queue."""
        from rqtui.tui.board import Board

        self.go(Board(ref, self._goer.layouts[ref.layout]))

    def open_job(self, ref: Ref, job: Job) -> None:
        """Shows a job."""
        from rqtui.tui.job import JobPage

        self.go(JobPage(ref, job))

    def go(self, view: View) -> None:
        """Shows a view on top of this one."""
        self._goer.push_screen(view)
        self._goer.call_after_refresh(self._opened)

    def _opened(self) -> None:
        app, view = self._goer, self._goer.view
        if view and not view._is_composed and view.call_after_refresh(self._opened):
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
        app = self._goer
        if app.stop_changes() or (app.view is not None and app.view.steps_back()):
            return
        if len([screen for screen in app.screen_stack if isinstance(screen, View)]) > 1:
            app.pop_screen()
            self._opened()

    async def action_quit_or_back(self) -> None:
        """One step back; on the overview, the end."""
        if isinstance(self._goer.screen, Overview):
            self._goer.exit()
        else:
            await self.action_back()

    def action_open_view(self, name: str) -> None:
        """Goes to one of the views in `views.VIEWS`; from one of them it takes its place, with the same queues."""
        app, view = self._goer, self._goer.view
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
        from rqtui.tui.keypage import KeyPage

        app = self._goer
        name = app.view.NAME if app.view else ""
        controls = app.demo.controls if app.demo else ()
        app.push_screen(KeyPage(help.key_groups(name, controls, may_change=not app.is_read_only)))

    def action_demo(self) -> None:
        """What to try in this demo, and what to watch."""
        demo = self._goer.demo
        if demo:
            page = help.demo_page(demo.scenario, server.mask(self._goer.settings.url))
            self._show_page(f"demo: {demo.scenario.name}", lambda: page)

    def _show_page(self, title: str, page: Callable[[], Content]) -> None:
        from rqtui.tui.dialogs import Pages

        self._goer.push_screen(Pages(title, page(), page))
