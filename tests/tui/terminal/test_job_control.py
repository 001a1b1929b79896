"""Test Ctrl+Z: the driver starts once when the program continues, however late the main thread runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rqtui.tui.terminal import job_control


class Painted:
    """What `stop` asks of an app."""

    def __init__(self) -> None:
        self.is_suspended = False

    @contextmanager
    def suspend(self) -> Iterator[None]:
        self.is_suspended = True
        yield
        self.is_suspended = False

    def refresh(self, **_how: Any) -> None:
        assert not self.is_suspended


def test_a_late_signal_to_continue_does_not_reach_the_drivers_own_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, drivers = Painted(), []
    goes_on = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGCONT))
    monkeypatch.setattr(job_control, "has_job_control_shell", lambda: True)
    monkeypatch.setattr(os, "killpg", lambda _group, _number: goes_on.start())
    before = signal.signal(signal.SIGCONT, lambda _number, _frame: drivers.append(app.is_suspended))
    try:
        job_control.stop_program(app)  # type: ignore[arg-type]
        goes_on.join()
        assert not app.is_suspended and drivers == [], "it would start a driver that runs already"
        os.kill(os.getpid(), signal.SIGCONT)
        assert drivers == [False], "it is the driver's again"
    finally:
        signal.signal(signal.SIGCONT, before)
