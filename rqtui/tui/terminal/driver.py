"""Driver: Textual's own for Linux, which here reads the keyboard when there is something to read.

Textual 8.2 looks ten times a second whether a key was cut off in its middle, which is two thirds of what an app costs
in which nothing happens. Here it does so only just after a key. Two faults of it are mended in passing: a byte that is
no UTF-8 ended the app, and a standard input that has come to its end was read again and again for ever.
"""

from __future__ import annotations

import codecs
import os
import select
from threading import Event
from typing import Any

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from rqtui.tui.terminal.hooks import takes

LOOK_S, LOOKS = 0.1, 5  # how often, after a key, it is asked whether what began with Escape goes on
OF_AN_INSTANCE = ("fileno", "exit_event", "_debug")


def fits(_app: App[Any]) -> bool:
    """Whether Textual's driver reads the keyboard as it did when this one was written."""
    return (
        takes(LinuxDriver.run_input_thread)
        and takes(LinuxDriver.process_message, "message")
        and takes(XTermParser, "debug")
        and takes(XTermParser.feed, "data")
        and takes(XTermParser.tick)
    )


def install(app: App[Any]) -> None:
    """Lets the app read by this driver, unless another was asked for."""
    if app.driver_class is LinuxDriver:
        app.driver_class = QuietDriver


class Waking(Event):
    """An event that is also seen by who waits for files: once it is set, something can be read from `woken`.

    In this order: who is woken finds it set, and need not go on waiting.
    """

    def __init__(self) -> None:
        super().__init__()
        self.woken, self.wakes = os.pipe()

    def set(self) -> None:
        super().set()
        os.write(self.wakes, b".")


class QuietDriver(LinuxDriver):
    """A terminal on standard input and output."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if hasattr(self, "exit_event"):
            self.exit_event = Waking()

    def run_input_thread(self) -> None:
        """Reads keys until the input is disabled; runs on a thread of its own."""
        if not all(hasattr(self, name) for name in OF_AN_INSTANCE) or not isinstance(self.exit_event, Waking):
            super().run_input_thread()
            return
        woken = self.exit_event.woken
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        watched, looks = [self.fileno, woken], 0
        while not self.exit_event.is_set():
            ready, _, _ = select.select(watched, (), (), LOOK_S if looks else None)
            looks = LOOKS if ready else looks - 1
            if woken in ready:
                os.read(woken, 64)
            if self.fileno in ready:
                raw = os.read(self.fileno, 4096)
                if not raw:
                    watched = [woken]
                elif text := decode(raw):
                    self._process(parser.feed(text))
            self._process(parser.tick())
        try:
            for _ in parser.feed(""):
                pass
        except (EOFError, ParseError):
            pass

    def _process(self, events: Any) -> None:
        for event in events:
            self.process_message(event)
