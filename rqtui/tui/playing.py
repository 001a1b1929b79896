"""Playing: the part of the app that stands beside a running demo: its keys, what to try, and what it finds out."""

from __future__ import annotations

from rqtui import server
from rqtui.tui import keys
from rqtui.tui.part import Part

SLOW = ("check",)  # controls that wait for Redis
LONG_S = 12.0  # for sentences that are worth reading twice


class Playing(Part):
    """A mixin of the app."""

    _demo_told: str

    def begin_session(self) -> None:
        """Its keys are added to those of the app; nothing was said yet."""
        super().begin_session()
        self._demo_told = ""
        demo, known = self.cockpit.demo, self.cockpit._bindings.key_to_bindings
        for binding in keys.demo_bindings(demo.controls) if demo else ():
            known.setdefault(binding.key, []).append(binding)

    def introduce_demo(self) -> None:
        """Says which one it is, and how to learn more."""
        if demo := self.cockpit.demo:
            self.cockpit.say(f"{demo.scenario.name}: {demo.scenario.summary}. d says what to try.", timeout=LONG_S)

    def action_demo(self) -> None:
        """What to try in this demo, and what to watch."""
        from rqtui.tui import help

        app, demo = self.cockpit, self.cockpit.demo
        if demo:
            page = help.demo_page(demo.scenario, server.mask(app.settings.url))
            app.show_page(f"demo: {demo.scenario.name}", lambda: page)

    def action_demo_control(self, name: str) -> None:
        """A key of the strip."""
        app = self.cockpit
        if app.demo is None:
            return
        press = app.demo.press
        if name in SLOW:
            app.run_worker(lambda: app.call_from_thread(app.say, press(name), timeout=LONG_S), thread=True)
            return
        app.say(press(name))
        app.show_header()

    def tell_demo(self) -> None:
        """Says what the demo has found out by itself, once."""
        demo = self.cockpit.demo
        said = demo.status().said if demo else ""
        if said != self._demo_told:
            self._demo_told = said
            self.cockpit.say(said, timeout=LONG_S)
