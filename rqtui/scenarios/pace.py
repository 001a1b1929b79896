"""The clock of a scenario, which a person may slow down or speed up, and the pauses of the loops of a run."""

from __future__ import annotations

import math
import time

TURN_S = 0.05  # the shortest rest between two turns: at most 20 round trips per second and loop
IDLE_S = 0.25  # the longest rest, after which an idle worker polls again
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


class Pace:
    """The clock of a scenario: seconds since its start, `speed` times as fast as the wall clock."""

    def __init__(self) -> None:
        self.speed = 1.0
        self.max_s = math.inf  # the time at which the clock stops by itself, so that a late thread adds no jobs
        self._base, self._since = 0.0, time.monotonic()
        self._end: float | None = None

    def read_clock_s(self) -> float:
        """Return the scenario time in seconds since the start."""
        if self._end is not None:
            return self._end
        return min(self.max_s, self._base + (time.monotonic() - self._since) * self.speed)

    def set_speed(self, speed: float) -> None:
        """Let the scenario's clock continue from the present time at another speed."""
        self._base, self._since = self.read_clock_s(), time.monotonic()
        self.speed = speed

    def restart(self) -> None:
        """Restart the scenario time at zero."""
        self._base, self._since, self._end = 0.0, time.monotonic(), None

    def stop_at(self, end_s: float) -> None:
        """Stop the scenario's clock at `end_s`."""
        self._end = end_s
