"""The base class `Run`: one running scenario on a Redis server, with the controls of the demo as methods.

The class has the parts that all runs share: life cycle, speed, and the suspension of Redis. `native_run.py` runs on
rqtui's own queues, `foreign_run.py` on those of other systems. Every method may be called from the screen's thread: a
method changes what the next turn does and never waits for Redis.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rqtui.scenarios.pace import SPEEDS, Pace
from rqtui.scenarios.scenario import Control, Scenario

CUT_S = 10.0
R = TypeVar("R", bound="Run")


@dataclass(frozen=True, slots=True)
class Status:
    """The figures of a running scenario at one time, which the demo's strip shows."""

    workers: int  # alive, including stalled ones
    stalled: int
    put: int
    planned: int | None  # jobs of the plan; None: it has no end
    finished: int
    failed: int
    stale: int  # late acks and rejects that were refused
    workers_lost: int
    jobs_s: float
    speed: float
    is_cut: bool  # the Redis process is suspended by `cut_redis`
    is_fixed: bool = False
    error: str = ""  # why the simulation cannot reach Redis
    message: str = ""  # a message of the run for the person


class Run:
    """A running scenario on the Redis server at `url`.

    `server_pid` is the process of an embedded server, which `cut_redis` may suspend, and `folder` is the folder of that
    server, which is deleted with it. They are 0 and empty for a server that the demo did not start. A run is a context
    manager: it starts on entering and stops on leaving.
    """

    def __init__(self, scenario: Scenario, url: str, seed: int = 1, server_pid: int = 0, folder: str = "") -> None:
        self.scenario, self.url, self.seed, self.folder = scenario, url, seed, folder
        self.pace = Pace()
        self.cut_s = CUT_S
        self._server_pid = server_pid
        self._cut_timer: threading.Timer | None = None
        self._scheduled_cut: threading.Timer | None = None
        self._actions: dict[str, Callable[[], str]] = {
            "slower": lambda: self.set_speed(self._find_next_speed(-1)),
            "faster": lambda: self.set_speed(self._find_next_speed(1)),
            "cut": self.cut_redis,
        }

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of the scenario's queues, the most informative one first."""
        return self.scenario.queue_names

    @property
    def controls(self) -> tuple[Control, ...]:
        """The controls that apply to this run, in the order of the demo's strip."""
        can_cut = self._server_pid > 0
        return tuple(control for control in self.scenario.controls if control.name != "cut" or can_cut)

    # -- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Set up the queues of the scenario and start its actors. Raises ServerError if Redis is unreachable."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the scenario and close its connections. Further calls do nothing."""
        raise NotImplementedError

    def __enter__(self: R) -> R:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- looking ----------------------------------------------------------------------------------------------------

    def compute_status(self) -> Status:
        """Return the figures that the demo's strip (the lines below its screen) shows, without a request to Redis."""
        raise NotImplementedError

    # -- the strip --------------------------------------------------------------------------------------------------

    def press(self, name: str) -> str:
        """Run the control called `name` (a key of the demo), and return a sentence about its effect."""
        return self._actions[name]()

    def set_speed(self, speed: float) -> str:
        """Set the speed of arrivals and work in the scenario. Leases and delays follow Redis's clock unchanged."""
        self.pace.set_speed(min(SPEEDS[-1], max(SPEEDS[0], speed)))
        return f"speed ×{self.pace.speed:g}"

    def cut_redis(self, seconds: float = 0.0) -> str:
        """Suspend the process of the embedded Redis for `seconds`, or for `cut_s`. Redis loses no data."""
        seconds = seconds or self.cut_s
        if self._server_pid <= 0:
            return "this Redis is not the demo's own: it is left alone"
        if self._cut_timer is not None:
            return "Redis is cut off already"
        os.kill(self._server_pid, signal.SIGSTOP)
        self._cut_timer = threading.Timer(seconds, self.restore_redis)
        self._cut_timer.daemon = True
        self._cut_timer.start()
        return f"Redis does not answer for {seconds:g} s"

    def schedule_cut(self, after_s: float) -> None:
        """Schedule a suspension of Redis in `after_s` seconds."""
        self._scheduled_cut = threading.Timer(after_s, self.cut_redis)
        self._scheduled_cut.daemon = True
        self._scheduled_cut.start()

    def restore_redis(self) -> None:
        """End a suspension of Redis early, and cancel a scheduled one."""
        if self._scheduled_cut is not None and self._scheduled_cut is not threading.current_thread():
            self._scheduled_cut.cancel()
        timer, self._cut_timer = self._cut_timer, None
        if timer is not None:
            timer.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._server_pid, signal.SIGCONT)
            self.on_redis_restored()

    def on_redis_restored(self) -> None:
        """Continue after a suspension of Redis, when it replies again. Does nothing by default."""

    def _find_next_speed(self, step: int) -> float:
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.pace.speed))
        return SPEEDS[min(len(SPEEDS) - 1, max(0, nearest + step))]
