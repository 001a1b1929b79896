"""Show a running demo's strip, the line below the screen with its keys and messages, and run those keys.

Messages replace the strip's keys for a few seconds, because a toast would cover rows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rqtui.tui.host import Host
from rqtui.tui.services.navigation import Navigation

if TYPE_CHECKING:
    from rqtui.scenarios.run import Run

SLOW_CONTROLS = ("check",)  # controls that wait for Redis
MESSAGE_S = 8.0  # long enough to read a sentence twice


class DemoStrip:
    """The line below the screen with the keys and messages of a running demo."""

    def __init__(self, host: Host, demo: Run, navigation: Navigation) -> None:
        self._host, self._demo, self._navigation = host, demo, navigation
        self._last_demo_message = ""
        self._message, self._until_s = "", 0.0

    @property
    def message(self) -> str:
        """The current message of the demo, or an empty string `MESSAGE_S` seconds after it was shown."""
        return self._message if time.monotonic() < self._until_s else ""

    def _show_message(self, message: str) -> None:
        self._message, self._until_s = message, time.monotonic() + MESSAGE_S
        self._host.show_header()

    def show_introduction(self) -> None:
        """Show the name and summary of the demo as a message."""
        story = self._demo.scenario
        self._show_message(f"{story.name}: {story.summary}")

    def show_page(self) -> None:
        """Open the page that lists what to try and what to watch in the running demo."""
        from rqtui.tui.widgets import help_content

        page = help_content.build_demo_page(self._demo.scenario, self._host.session.url)
        self._navigation.show_page(f"demo: {self._demo.scenario.name}", lambda: page)

    def press_control(self, name: str) -> None:
        """Run a control of the demo, such as "faster", and show its message.

        Controls in `SLOW_CONTROLS` run on a background thread.
        """
        press, app = self._demo.press, self._host.app
        if name in SLOW_CONTROLS:
            app.run_worker(lambda: app.call_from_thread(self._show_message, press(name)), thread=True)
            return
        self._show_message(press(name))

    def show_new_message(self) -> None:
        """Show a message that the demo itself has produced since the last call, if there is one."""
        message = self._demo.compute_status().message
        if message != self._last_demo_message:
            self._last_demo_message = message
            self._show_message(message)
