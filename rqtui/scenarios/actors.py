"""Actor: one worker or producer of an original system, on a thread and a connection of its own.

It takes its turns until it is dismissed or killed, and survives Redis being away as a supervised process would: by
beginning again. The original calls its `work` and `pause`, where it takes its time, hangs, or dies.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rqtui.connection.error_messages import describe
from rqtui.durations import backoff_s
from rqtui.errors import ServerError
from rqtui.scenarios.pace import Pace

Turn = Callable[[], float]
"""One turn; answers for how many seconds it rests now."""
LOOK_S = 0.25  # how soon a change of speed is noticed


class Killed(BaseException):
    """The worker is dead: not an error that its program could catch."""


class Actor:
    """Plays one part. `make(actor)` gives it its turn, `fell(job)` is told of what it held when it died."""

    def __init__(
        self, name: str, client: Any, pace: Pace, make: Callable[[Actor], Turn], fell: Callable[[bytes], None]
    ) -> None:
        self.name, self.client, self.pace = name, client, pace
        self.state = "idle"  # idle | busy | stalled | dead
        self.holds = b""
        self.until_s = 0.0  # busy: when it will be done, in the scenario's time
        self.error = ""
        self.gaps_s: Mapping[str, float] = {}  # how long it rests in a gap between two steps of the original
        self.dies_in = ""  # the gap in which it dies; else death comes at work, or between two turns
        self._fell = fell
        self._orders = threading.Event()
        self._is_killed = self.is_dismissed = False
        self._stalls_until_s = self._not_before_s = 0.0  # by the wall clock
        self._turn = make(self)
        self._thread = threading.Thread(target=self._go, name=f"demo-{name}", daemon=True)

    # -- from other threads -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to take turns."""
        self._thread.start()

    def dismiss(self) -> None:
        """Finish what is at hand at once, and end."""
        self.is_dismissed = True
        self._orders.set()

    def join(self, timeout_s: float = 5.0) -> None:
        """Wait for its end."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def kill(self) -> None:
        """End without another word to Redis; what it held stays where it is."""
        self._is_killed = True
        self.state = "dead"
        self._orders.set()

    def stall(self, seconds: float) -> None:
        """Answer nobody for so long, then go on as if nothing had happened."""
        self._stalls_until_s = time.monotonic() + seconds
        self.state = "stalled"

    def wake(self) -> None:
        """One that is stalled or late goes on before its time."""
        self._stalls_until_s = self._not_before_s = 0.0

    # -- what the original calls --------------------------------------------------------------------------------------

    def work(self, job: bytes, run_s: float, at_least_s: float = 0.0, *, falls: bool = False) -> None:
        """Work on a job for `run_s` of the scenario, and for `at_least_s` by the wall clock.

        `falls`: nobody else knows of the job any more, so that it is gone with this worker.
        """
        self.holds, self.until_s = job, self.pace.now_s() + run_s
        if self.state == "idle":
            self.state = "busy"
        self._not_before_s = time.monotonic() + at_least_s
        try:
            while True:
                self._obey()
                wall_s = max(self._not_before_s, self._stalls_until_s) - time.monotonic()
                left_s = max(wall_s, (self.until_s - self.pace.now_s()) / self.pace.speed)
                if left_s <= 0 or self.is_dismissed:
                    break
                self._orders.wait(min(left_s, LOOK_S))
        except Killed:
            if falls:
                self._fell(job)
            raise
        self.state = "idle"

    def pause(self, gap: str) -> None:
        """The original stands between two steps that belong together."""
        if gap == self.dies_in:
            self.kill()
            raise Killed
        if gap in self.gaps_s:
            self.rest(self.gaps_s[gap])

    def rest(self, seconds: float) -> None:
        """Rest for so long by the wall clock, or until it is dismissed or killed."""
        if seconds > 0:
            self._orders.wait(seconds)

    # -- its thread ---------------------------------------------------------------------------------------------------

    def _obey(self) -> None:
        if self._is_killed:
            raise Killed

    def _go(self) -> None:
        failures = 0
        try:
            while not self.is_dismissed:
                try:
                    rest_s = self._turn()
                    self.error, failures = "", 0
                except Exception as error:
                    if not _is_of_redis(error):
                        self.error, self.state = repr(error), "dead"
                        raise
                    self.error, rest_s = describe(error), backoff_s(failures)
                    failures += 1
                    self.state = "idle"
                self._obey()
                self.rest(rest_s)
        except Killed:
            self.state = "dead"
        finally:
            self.client.close()


def _is_of_redis(error: Exception) -> bool:
    from redis.exceptions import RedisError

    return isinstance(error, RedisError | ServerError | OSError)


def stop_all(actors: Iterable[Actor]) -> None:
    """Dismiss all of them, then wait for all."""
    known = list(actors)
    for actor in known:
        actor.dismiss()
    for actor in known:
        actor.join()
