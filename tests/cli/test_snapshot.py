"""Test how `rqtui snapshot --watch` waits between two snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from rqtui.cli import snapshot


@dataclass
class ClockAndEngine:
    """A simulated clock, and an engine that writes down at which second it delivered events."""

    is_listening: bool
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.deliveries_s: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def deliver_events(self) -> None:
        self.deliveries_s.append(self.now_s)


@pytest.mark.parametrize(("is_listening", "expected"), [(True, [1.0, 2.0, 2.5]), (False, [2.5])])
def test_events_are_delivered_every_second_while_the_engine_listens(
    is_listening: bool, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ClockAndEngine(is_listening)
    monkeypatch.setattr(snapshot.time, "sleep", engine.sleep)
    monkeypatch.setattr(snapshot.time, "monotonic", lambda: engine.now_s)
    snapshot._wait_and_deliver_events(cast(Any, engine), 2.5)
    assert engine.deliveries_s == expected
