"""Waiting for a condition with a deadline, so that no test sleeps for longer than it has to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], timeout_s: float = 10.0, what: str = "", every_s: float = 0.005) -> T:
    """The first true value of `predicate`, asked again and again; fails after `timeout_s`, naming `what`."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what or predicate} did not come true within {timeout_s} s; last: {value!r}")
        time.sleep(every_s)
