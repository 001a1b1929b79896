"""Meter: counts what a program asks of Redis, at its connections, where all of it passes.

Scripts and plain commands, of the pictures as of loops, discovery and reports, the greeting of a new connection too.
`connect(url, meter=…)` makes a client that counts; what is made like it (`connect_like`, the nodes of a Cluster) counts
on the same meter. Other clients pay nothing. Safe for threads.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from rqtui.model import Cost


class Meter:
    """What was asked so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commands = self._trips = 0
        self._seconds = 0.0

    def sent(self) -> None:
        """Counts a trip."""
        with self._lock:
            self._trips += 1

    def answered(self, seconds: float, commands: int = 1) -> None:
        """Counts commands, which were waited for so long since the one before them."""
        with self._lock:
            self._commands += commands
            self._seconds += seconds

    def total(self) -> Cost:
        """All of it since the meter was made; what several connections wait for at once counts for each of them."""
        with self._lock:
            return Cost(self._commands, self._trips, self._seconds * 1000)


class _Metered:
    """What a connection does to count."""

    meter: Meter
    _since_s = 0.0

    def send_packed_command(self, *args: Any, **options: Any) -> Any:
        """Sends commands, any number of them."""
        self._since_s = time.monotonic()
        self.meter.sent()
        return super().send_packed_command(*args, **options)  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """A reply, which may be an error, or never come."""
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        finally:
            before_s, self._since_s = self._since_s, time.monotonic()
            self.meter.answered(self._since_s - before_s)


def metered(kind: type, meter: Meter) -> type:
    """The class of connections `kind`, which count on that meter."""
    return type(kind.__name__, (_Metered, kind), {"meter": meter})


def meter_of(client: Any) -> Meter | None:
    """The meter that a client counts on; None: it does not count."""
    return of_kind(client.connection_pool.connection_class)


def of_kind(kind: type) -> Meter | None:
    """The meter of a class of connections."""
    return getattr(kind, "meter", None)
