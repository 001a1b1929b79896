"""The class `Actor`: one worker or producer of another queue system, with its own thread and connection.

An actor runs the code of `originals/`, which sends the Redis commands of the system's own program. It takes turns until
it is dismissed or killed. When Redis is unavailable it starts again, as a supervised process would. The code of
`originals/` calls the actor's `work` and `pause`, in which the actor spends time, stalls or dies. `foreign_run.py`
creates the actors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rqtui.connection.redis_errors.connecting import describe_connection_error
from rqtui.durations import compute_reconnect_delay_s
from rqtui.errors import ServerError
from rqtui.scenarios.pace import Pace

Turn = Callable[[], float]
"""One turn of an actor; returns the seconds to rest after it."""
SPEED_CHECK_S = 0.25  # seconds until a change of speed takes effect


class Killed(BaseException):
    """Raised in the thread of a worker to simulate its death. The program that the worker runs must not catch it."""


class Actor:
    """One simulated worker or producer of another queue system, on a thread of its own.

    `build_turn(actor)` returns the function that runs one turn of the actor, and returns the seconds until the next
    turn. `on_loss(job)` is called for a job that is lost because the actor dies.
    """

    def __init__(
        self, name: str, client: Any, pace: Pace, build_turn: Callable[[Actor], Turn], on_loss: Callable[[bytes], None]
    ) -> None:
        self.name, self.client, self.pace = name, client, pace
        self.state = "idle"  # idle | busy | stalled | dead
        self.holds = b""
        self.until_s = 0.0  # busy: the scenario time at which the work ends
        self.error = ""
        self.gaps_s: Mapping[str, float] = {}  # seconds to rest in each gap between two steps of the original
        self.dies_in = ""  # the gap in which the actor dies; if empty, it dies at work or between two turns
        self._on_loss = on_loss
        self._orders = threading.Event()
        self._is_killed = self.is_dismissed = False
        self._stalls_until_s = self._not_before_s = 0.0  # by the wall clock
        self._turn = build_turn(self)
        self._thread = threading.Thread(target=self._take_turns, name=f"demo-{name}", daemon=True)

    # -- from other threads -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread of an actor, which then takes turns."""
        self._thread.start()

    def dismiss(self) -> None:
        """Let an actor finish its current work without delay, and stop taking turns."""
        self.is_dismissed = True
        self._orders.set()

    def join(self, timeout_s: float = 5.0) -> None:
        """Wait until the thread of an actor has ended."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def kill(self) -> None:
        """Stop an actor without another command to Redis. A held job stays in its place."""
        self._is_killed = True
        self.state = "dead"
        self._orders.set()

    def stall(self, seconds: float) -> None:
        """Let an actor hang for the given seconds, then continue as if nothing had happened."""
        self._stalls_until_s = time.monotonic() + seconds
        self.state = "stalled"

    def wake(self) -> None:
        """Let an actor continue at once if it is stalled or late."""
        self._stalls_until_s = self._not_before_s = 0.0

    # -- called by the original --------------------------------------------------------------------------------------

    def work(self, job: bytes, run_s: float, at_least_s: float = 0.0, *, is_lost_with_worker: bool = False) -> None:
        """Simulate work on a job for `run_s` of the scenario, and for at least `at_least_s` by the wall clock.

        `is_lost_with_worker`: no other process can find the job, so that it is lost if this worker dies.
        """
        self.holds, self.until_s = job, self.pace.read_clock_s() + run_s
        if self.state == "idle":
            self.state = "busy"
        self._not_before_s = time.monotonic() + at_least_s
        try:
            while True:
                self._raise_if_killed()
                wall_s = max(self._not_before_s, self._stalls_until_s) - time.monotonic()
                left_s = max(wall_s, (self.until_s - self.pace.read_clock_s()) / self.pace.speed)
                if left_s <= 0 or self.is_dismissed:
                    break
                self._orders.wait(min(left_s, SPEED_CHECK_S))
        except Killed:
            if is_lost_with_worker:
                self._on_loss(job)
            raise
        self.state = "idle"

    def pause(self, gap: str) -> None:
        """Wait in the gap between two Redis commands that belong together, or die there.

        Tests and demos can act in the gap.
        """
        if gap == self.dies_in:
            self.kill()
            raise Killed
        if gap in self.gaps_s:
            self.sleep(self.gaps_s[gap])

    def sleep(self, seconds: float) -> None:
        """Rest for the given seconds of wall time, or until the actor is dismissed or killed."""
        if seconds > 0:
            self._orders.wait(seconds)

    # -- its thread ---------------------------------------------------------------------------------------------------

    def _raise_if_killed(self) -> None:
        """Raise Killed if the actor was killed, to end its thread."""
        if self._is_killed:
            raise Killed

    def _take_turns(self) -> None:
        """Run the actor's thread: take turns, and back off while Redis is unavailable."""
        failures = 0
        try:
            while not self.is_dismissed:
                try:
                    rest_s = self._turn()
                    self.error, failures = "", 0
                except Exception as error:
                    if not _is_redis_error(error):
                        self.error, self.state = repr(error), "dead"
                        raise
                    self.error, rest_s = describe_connection_error(error), compute_reconnect_delay_s(failures)
                    failures += 1
                    self.state = "idle"
                self._raise_if_killed()
                self.sleep(rest_s)
        except Killed:
            self.state = "dead"
        finally:
            self.client.close()


def _is_redis_error(error: Exception) -> bool:
    from redis.exceptions import RedisError

    return isinstance(error, RedisError | ServerError | OSError)


def stop_actors(actors: Iterable[Actor]) -> None:
    """Dismiss all actors, then wait until all have ended."""
    stopped = list(actors)
    for actor in stopped:
        actor.dismiss()
    for actor in stopped:
        actor.join()
