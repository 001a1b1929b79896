"""The keyboard: what is read of it, how seldom it is looked at, and that nothing that comes over it ends the screen."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.events import Key
from textual.message import Message
from waiting import wait_until

from rqtui.config.settings import Settings
from rqtui.tui.app import Cockpit
from rqtui.tui.terminal import driver
from rqtui.tui.terminal.driver import QuietDriver, SelectableEvent

pytestmark = pytest.mark.newest_textual


class Keyboard(QuietDriver):
    """A driver whose terminal is a pipe; `keys` are those it made of what was written into it."""

    def __init__(self) -> None:
        self.fileno, self.hand = os.pipe()
        self._debug, self.exit_event = False, SelectableEvent()
        self.keys: list[str] = []
        self.thread = threading.Thread(target=self.run_input_thread, daemon=True)

    def process_message(self, message: Message) -> None:
        """Instead of the app."""
        if isinstance(message, Key):
            self.keys.append(message.key)

    def type(self, raw: bytes) -> None:
        os.write(self.hand, raw)

    def closes(self) -> None:
        """Close the keyboard as `disable_input` does."""
        self.exit_event.set()
        self.thread.join(2)


@pytest.fixture
def poll_timeouts(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Record how long each poll of the keyboard was willing to wait."""
    items: list[float | None] = []

    class Counting:
        @staticmethod
        def select(readable: Any, writable: Any, odd: Any, timeout: float | None) -> Any:
            items.append(timeout)
            return select.select(readable, writable, odd, timeout)

    monkeypatch.setattr(driver, "select", Counting)
    return items


@pytest.fixture
def keyboard(poll_timeouts: list[float | None]) -> Iterator[Keyboard]:
    new_keyboard = Keyboard()
    new_keyboard.thread.start()
    yield new_keyboard
    new_keyboard.closes()
    assert not new_keyboard.thread.is_alive()
    for number in (
        new_keyboard.hand,
        new_keyboard.fileno,
        new_keyboard.exit_event.woken,
        new_keyboard.exit_event.wakes,
    ):
        os.close(number)


def test_it_is_looked_at_for_a_moment_after_a_key_and_then_only_when_there_is_one(
    keyboard: Keyboard, poll_timeouts: list[float | None]
) -> None:
    keyboard.type(b"j")
    wait_until(lambda: keyboard.keys == ["j"] and poll_timeouts[-1] is None and len(poll_timeouts) > 1, 5, "it rests")
    assert poll_timeouts == [None, *[driver.ESCAPE_CHECK_S] * driver.ESCAPE_CHECKS, None]
    keyboard.type("é".encode()[:1])
    keyboard.type("é".encode()[1:])
    keyboard.type(b"k")
    wait_until(lambda: keyboard.keys[-1] == "k", 5)
    assert keyboard.keys == ["j", "é", "k"]


def test_escape_alone_is_a_key_and_one_that_is_cut_in_its_middle_is_another(keyboard: Keyboard) -> None:
    keyboard.type(b"\x1b")
    wait_until(lambda: keyboard.keys == ["escape"], 5)
    keyboard.type(b"\x1b[")
    keyboard.type(b"A")
    wait_until(lambda: len(keyboard.keys) > 1, 5)
    assert keyboard.keys == ["escape", "up"]


def test_a_byte_that_is_no_letter_ends_nothing(keyboard: Keyboard) -> None:
    keyboard.type(b"\xff\xc3(\x80")
    keyboard.type(b"q")
    wait_until(lambda: "q" in keyboard.keys, 5)
    assert keyboard.thread.is_alive()


def test_a_keyboard_that_came_to_its_end_is_not_read_again(
    keyboard: Keyboard, poll_timeouts: list[float | None]
) -> None:
    keyboard.hand, closed = os.dup(keyboard.fileno), keyboard.hand
    os.close(closed)
    wait_until(lambda: len(poll_timeouts) > driver.ESCAPE_CHECKS and poll_timeouts[-1] is None, 5, "it rests")
    count = len(poll_timeouts)
    time.sleep(0.2)
    assert len(poll_timeouts) == count


def test_the_thread_ends_however_slowly_the_input_is_disabled(
    keyboard: Keyboard, poll_timeouts: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until(lambda: poll_timeouts == [None], 5, "it waits for a key")
    monkeypatch.setattr(driver.LinuxDriver, "_disable_mouse_support", lambda _self: time.sleep(0.3))
    monkeypatch.setattr(keyboard, "_key_thread", SimpleNamespace(join=partial(keyboard.thread.join, 5)), raising=False)
    keyboard.disable_input()
    assert not keyboard.thread.is_alive()


@pytest.mark.hooks
def test_the_screen_reads_by_it_unless_another_was_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Cockpit(Settings("redis://127.0.0.1:1")).driver_class is QuietDriver
    monkeypatch.setattr("textual.constants.DRIVER", "textual.drivers.headless_driver:HeadlessDriver")
    assert Cockpit(Settings("redis://127.0.0.1:1")).driver_class is HeadlessDriver


def test_where_an_instance_lacks_what_it_reads_by_textual_reads(
    keyboard: Keyboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(driver.LinuxDriver, "run_input_thread", lambda _self: read.append("by Textual"))
    other = object.__new__(QuietDriver)
    other.exit_event = threading.Event()
    other.run_input_thread()
    assert read == ["by Textual"]


@pytest.mark.parametrize(("of_textual", "expected"), [(threading.Event(), SelectableEvent), (None, type(None))])
def test_only_an_exit_event_of_textual_is_replaced(
    monkeypatch: pytest.MonkeyPatch, of_textual: threading.Event | None, expected: type
) -> None:
    def start(self: Any, *_: Any) -> None:
        if of_textual:
            self.exit_event = of_textual

    monkeypatch.setattr(driver.LinuxDriver, "__init__", start)
    exit_event = getattr(QuietDriver(object()), "exit_event", None)
    assert type(exit_event) is expected
    if isinstance(exit_event, SelectableEvent):
        os.close(exit_event.woken)
        os.close(exit_event.wakes)
