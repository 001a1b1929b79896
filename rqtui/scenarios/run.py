"""Run: one scenario at play on a Redis, with the keys of the demo's strip as methods.

What every run has is here: its life, its speed, Redis held for a while. `native.py` plays on rqtui's own
queues, `foreign.py` on those of other systems. Every method may be called from the screen's thread: it changes
what the next turn does and never waits for Redis.
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
    """The simulation at one instant, for the strip."""

    workers: int  # that live, the stalled ones too
    stalled: int
    put: int
    planned: int | None  # how many the plan has; None: it has no end
    finished: int
    failed: int
    stale: int  # late acks and rejects that were refused
    workers_lost: int
    jobs_s: float
    speed: float
    is_cut: bool  # Redis is held by `cut_redis`
    is_fixed: bool = False
    error: str = ""  # why the simulation cannot reach Redis
    said: str = ""  # what it found out by itself, for the person to read


class Run:
    """A scenario at play on the Redis at `url`.

    `server_pid` is the process of an embedded server, which `cut_redis` may hold, and `folder` is that server's own,
    which goes with it; 0 and empty where it is somebody else's.
    A context manager: `start` on entering, `stop` on leaving.
    """

    def __init__(self, scenario: Scenario, url: str, seed: int = 1, server_pid: int = 0, folder: str = "") -> None:
        self.scenario, self.url, self.seed, self.folder = scenario, url, seed, folder
        self.pace = Pace()
        self.cut_s = CUT_S
        self._server_pid = server_pid
        self._cut: threading.Timer | None = None
        self._cut_soon: threading.Timer | None = None
        self._presses: dict[str, Callable[[], str]] = {
            "slower": lambda: self.set_speed(self._neighbour(-1)),
            "faster": lambda: self.set_speed(self._neighbour(1)),
            "cut": self.cut_redis,
        }

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues it plays on, the most telling one first."""
        return self.scenario.queue_names

    @property
    def controls(self) -> tuple[Control, ...]:
        """The keys that mean something here, in the order of the strip."""
        can_cut = self._server_pid > 0
        return tuple(control for control in self.scenario.controls if control.name != "cut" or can_cut)

    # -- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Set the queues up, and begin. Raises ServerError when Redis cannot be reached."""
        raise NotImplementedError

    def stop(self) -> None:
        """End all of it and close its connections. May be called again."""
        raise NotImplementedError

    def __enter__(self: R) -> R:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- looking ----------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """What the strip shows; costs nothing."""
        raise NotImplementedError

    # -- the strip --------------------------------------------------------------------------------------------------

    def press(self, name: str) -> str:
        """Do what the control of that name does; a sentence says what happened."""
        return self._presses[name]()

    def set_speed(self, speed: float) -> str:
        """Let jobs arrive and work go on `speed` times as fast; leases and delays are Redis's own and stay."""
        self.pace.set_speed(min(SPEEDS[-1], max(SPEEDS[0], speed)))
        return f"speed ×{self.pace.speed:g}"

    def cut_redis(self, seconds: float = 0.0) -> str:
        """The server's process is held for so long, or for `cut_s`: it answers nobody, and loses nothing."""
        seconds = seconds or self.cut_s
        if self._server_pid <= 0:
            return "this Redis is not the demo's own: it is left alone"
        if self._cut is not None:
            return "Redis is cut off already"
        os.kill(self._server_pid, signal.SIGSTOP)
        self._cut = threading.Timer(seconds, self.restore_redis)
        self._cut.daemon = True
        self._cut.start()
        return f"Redis does not answer for {seconds:g} s"

    def cut_soon(self, after_s: float) -> None:
        """The same, in a while."""
        self._cut_soon = threading.Timer(after_s, self.cut_redis)
        self._cut_soon.daemon = True
        self._cut_soon.start()

    def restore_redis(self) -> None:
        """End a cut before its time, also one that is to come."""
        if self._cut_soon is not None and self._cut_soon is not threading.current_thread():
            self._cut_soon.cancel()
        timer, self._cut = self._cut, None
        if timer is not None:
            timer.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._server_pid, signal.SIGCONT)
            self.restored()

    def restored(self) -> None:
        """Redis answers again."""

    def _neighbour(self, step: int) -> float:
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.pace.speed))
        return SPEEDS[min(len(SPEEDS) - 1, max(0, nearest + step))]
