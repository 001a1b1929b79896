"""Count the commands and round trips that a program sends to Redis, and the time it waits for replies.

Connections count everything: scripts and plain commands, of refreshes, background threads, discovery and reports, and
the first commands of a new connection. `connect(url, meter=…)` creates a client that counts. Clients copied from it
(`copy_client`, the nodes of a Cluster) count on the same meter. Other clients have no overhead. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from rqtui.model import Cost


class Meter:
    """A thread-safe counter of the commands and round trips to Redis, and of the time waited for replies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commands = self._trips = 0
        self._seconds = 0.0

    def count_round_trip(self) -> None:
        """Count one round trip to Redis."""
        with self._lock:
            self._trips += 1

    def count_replies(self, seconds: float, commands: int = 1) -> None:
        """Count commands that Redis replied to, and add the seconds waited since the reply before them."""
        with self._lock:
            self._commands += commands
            self._seconds += seconds

    def compute_total_cost(self) -> Cost:
        """Return all commands, round trips and waiting time since the meter was created.

        If several connections wait at the same time, the waiting time of each is counted.
        """
        with self._lock:
            return Cost(self._commands, self._trips, self._seconds * 1000)


class _MeteredMixin:
    """Mixin that lets a redis-py connection class count its commands and waiting time on a meter."""

    meter: Meter
    _since_s = 0.0

    def send_packed_command(self, *args: Any, **options: Any) -> Any:
        """Send encoded commands to Redis at once, and count one round trip."""
        self._since_s = time.monotonic()
        self.meter.count_round_trip()
        return super().send_packed_command(*args, **options)  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read a reply of Redis and count it, also if it is an error or does not arrive."""
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        finally:
            before_s, self._since_s = self._since_s, time.monotonic()
            self.meter.count_replies(self._since_s - before_s)


def add_meter_to_class(kind: type, meter: Meter) -> type:
    """Return a subclass of a redis-py connection class that counts commands and round trips on `meter`."""
    return type(kind.__name__, (_MeteredMixin, kind), {"meter": meter})


def find_client_meter(client: Any) -> Meter | None:
    """Return the meter on which a Redis client counts, or None if the client does not count."""
    return find_class_meter(client.connection_pool.connection_class)


def find_class_meter(kind: type) -> Meter | None:
    """Return the meter on which a connection class counts, or None if it does not count."""
    return getattr(kind, "meter", None)
