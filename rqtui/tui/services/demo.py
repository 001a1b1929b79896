"""Demo: the keys of a running demo's strip, its page of things to try, and its findings.

What it says stands in the strip for a while, in place of its keys: a toast would cover rows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation

if TYPE_CHECKING:
    from rqtui.scenarios.run import Run

SLOW = ("check",)  # controls that wait for Redis
LONG_S = 8.0  # for sentences that are worth reading twice


class DemoStrip:
    """The keys and the words of a demo."""

    def __init__(self, host: Host, demo: Run, navigation: Navigation) -> None:
        self._host, self._demo, self._navigation = host, demo, navigation
        self._told = ""
        self._words, self._until_s = "", 0.0

    @property
    def words(self) -> str:
        """What it says now, in its strip, where it covers no row; empty after a while."""
        return self._words if time.monotonic() < self._until_s else ""

    def _say(self, words: str) -> None:
        self._words, self._until_s = words, time.monotonic() + LONG_S
        self._host.show_header()

    def introduce(self) -> None:
        """Says which one it is."""
        story = self._demo.scenario
        self._say(f"{story.name}: {story.summary}")

    def show_page(self) -> None:
        """What to try in this demo, and what to watch."""
        from rqtui.tui.widgets import help

        page = help.demo_page(self._demo.scenario, self._host.session.url)
        self._navigation.show_page(f"demo: {self._demo.scenario.name}", lambda: page)

    def press(self, name: str) -> None:
        """A key of the strip."""
        press, app = self._demo.press, self._host.app
        if name in SLOW:
            app.run_worker(lambda: app.call_from_thread(self._say, press(name)), thread=True)
            return
        self._say(press(name))

    def tell(self) -> None:
        """Says what the demo has found out by itself, once."""
        said = self._demo.status().said
        if said != self._told:
            self._told = said
            self._say(said)
