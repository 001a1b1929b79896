"""Time inside a scenario, which a person may slow down or speed up, and how often its two halves talk to Redis."""

from __future__ import annotations

import math
import time

TURN_S = 0.05  # the shortest rest between two turns: at most 20 round trips a second per half
IDLE_S = 0.25  # the longest: how soon an idle worker looks again
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


class Pace:
    """Time inside a scenario, in seconds since it began: it runs `speed` times as fast as the wall clock."""

    def __init__(self) -> None:
        self.speed = 1.0
        self.most_s = math.inf  # where it stands still by itself: a thread that comes late adds nothing
        self._base, self._since = 0.0, time.monotonic()
        self._end: float | None = None

    def now_s(self) -> float:
        """Seconds since the beginning."""
        if self._end is not None:
            return self._end
        return min(self.most_s, self._base + (time.monotonic() - self._since) * self.speed)

    def set_speed(self, speed: float) -> None:
        """Go on from here at another speed."""
        self._base, self._since = self.now_s(), time.monotonic()
        self.speed = speed

    def restart(self) -> None:
        """The scenario begins now."""
        self._base, self._since, self._end = 0.0, time.monotonic(), None

    def stop_at(self, end_s: float) -> None:
        """Stand still at `end_s`."""
        self._end = end_s
