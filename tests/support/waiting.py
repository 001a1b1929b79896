"""Wait for a condition with a deadline, so that no test sleeps for longer than necessary."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 30.0  # a busy machine is slow, not wrong


def wait_until(predicate: Callable[[], T], timeout_s: float = PATIENCE_S, what: str = "", every_s: float = 0.005) -> T:
    """Wait until `predicate` returns a true value, and return the value. Fail with `what` after `timeout_s`.

    A timeout shorter than PATIENCE_S is raised to PATIENCE_S, so a test must not conclude anything from the time it
    took.
    """
    timeout_s = max(timeout_s, PATIENCE_S)
    deadline = time.monotonic() + timeout_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what or predicate} did not come true within {timeout_s} s; last: {value!r}")
        time.sleep(every_s)
