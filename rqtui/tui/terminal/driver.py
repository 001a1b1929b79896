"""Provide a terminal driver that reads the keyboard only when there is input. It replaces Textual's Linux driver.

Textual 8.2 checks ten times a second whether an escape sequence was cut off, which is two thirds of an idle app's
processor time. This driver checks only just after a key. It also fixes three bugs: a byte that is not UTF-8 ended the
app; a standard input at its end was read again and again for ever; and a SIGCONT to a program that was not stopped
started a second keyboard thread, for which the end of the process waited for ever.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
from threading import Event
from typing import Any

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from rqtui.tui.terminal.hooks import has_parameters

# The seconds between two checks for the rest of an escape sequence, and the number of checks after a key.
ESCAPE_CHECK_S, ESCAPE_CHECKS = 0.1, 5
INSTANCE_ATTRIBUTES = ("fileno", "exit_event", "_debug")


def supports_installed_textual(_app: App[Any]) -> bool:
    """Return whether Textual's Linux driver still has the methods that rqtui's driver overrides and calls."""
    return (
        has_parameters(LinuxDriver.run_input_thread)
        and has_parameters(LinuxDriver.process_message, "message")
        and has_parameters(XTermParser, "debug")
        and has_parameters(XTermParser.feed, "data")
        and has_parameters(XTermParser.tick)
        and has_parameters(LinuxDriver._sigcont_application)
        and has_parameters(LinuxDriver.stop_application_mode)
        and has_parameters(LinuxDriver.suspend_application_mode)
        and has_parameters(LinuxDriver.resume_application_mode)
    )


def install_hook(app: App[Any]) -> None:
    """Make the app use rqtui's terminal driver in place of Textual's Linux driver, unless it has another driver."""
    if app.driver_class is LinuxDriver:
        app.driver_class = QuietDriver


class SelectableEvent(Event):
    """A `threading.Event` that also wakes a thread blocked in `select`: after `set`, the pipe `woken` is readable.

    The event is set before the pipe is written, so that the woken thread finds it set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.woken, self.wakes = os.pipe()

    def set(self) -> None:
        """Set the event and wake a thread that is blocked in `select`."""
        super().set()
        os.write(self.wakes, b".")


class QuietDriver(LinuxDriver):
    """A terminal driver on standard input and output that sleeps until there is input."""

    has_ended = False  # the terminal was given back for good
    _is_suspended = _is_suspending = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if hasattr(self, "exit_event"):
            self.exit_event = SelectableEvent()

    def suspend_application_mode(self) -> None:
        """Give the terminal back to the shell until `resume_application_mode` is called."""
        self._is_suspending = True
        try:
            super().suspend_application_mode()
        finally:
            self._is_suspending = False
        self._is_suspended = True

    def resume_application_mode(self) -> None:
        """Take the terminal from the shell again after a suspension, unless the program was ended in the meantime."""
        if not self.has_ended:
            self._is_suspended = False
            super().resume_application_mode()

    def stop_application_mode(self) -> None:
        """Give the terminal back to the shell, permanently unless the driver is being suspended.

        A suspended program must not touch the terminal, which belongs to the shell: that would stop the program again.
        """
        self.has_ended = self.has_ended or not self._is_suspending
        if not self._is_suspended:
            super().stop_application_mode()

    def disable_input(self) -> None:
        """Stop reading keys, unless the driver is suspended and the terminal belongs to the shell."""
        if not self._is_suspended:
            super().disable_input()

    def _sigcont_application(self, *_: object) -> None:
        """Schedule taking the terminal again after the signal SIGCONT continued the program.

        The work is done on the event loop, because the signal handler may interrupt a start or a stop.
        """
        if self._auto_restart:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._resume_after_sigcont)

    def _resume_after_sigcont(self) -> None:
        """Take the terminal and repaint the screen after SIGCONT, unless the program has ended."""
        if self.has_ended:
            return
        # The key thread still runs after SIGSTOP, and after a SIGCONT to a program that was not stopped.
        if self._key_thread is not None and self._key_thread.is_alive():
            self.suspend_application_mode()
        self.resume_application_mode()
        self._app.refresh(repaint=True, layout=True)

    def run_input_thread(self) -> None:
        """Read keys from standard input and send them to the app until the input is disabled.

        Runs on its own thread.
        """
        if not all(hasattr(self, name) for name in INSTANCE_ATTRIBUTES) or not isinstance(
            self.exit_event, SelectableEvent
        ):
            super().run_input_thread()
            return
        woken = self.exit_event.woken
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        watched, checks_left = [self.fileno, woken], 0
        while not self.exit_event.is_set():
            ready, _, _ = select.select(watched, (), (), ESCAPE_CHECK_S if checks_left else None)
            checks_left = ESCAPE_CHECKS if ready else checks_left - 1
            if woken in ready:
                os.read(woken, 64)
            if self.fileno in ready:
                raw = os.read(self.fileno, 4096)
                if not raw:
                    watched = [woken]
                elif text := decode(raw):
                    self._send_input_events(parser.feed(text))
            self._send_input_events(parser.tick())
        try:
            for _ in parser.feed(""):
                pass
        except (EOFError, ParseError):
            pass

    def _send_input_events(self, events: Any) -> None:
        for event in events:
            self.process_message(event)
