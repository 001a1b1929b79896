"""Run: one scenario at play on a Redis, with the keys of the demo's strip as methods.

The producers and the crew are two loops with a connection each. Every method may be called from the screen's thread: it
changes what the next turn does and never waits for Redis. `play.py` runs one without a screen.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from rqtui import scripts
from rqtui.loops import Loop
from rqtui.names import QUEUES, keys
from rqtui.scenarios.crew import Crew
from rqtui.scenarios.pace import Pace
from rqtui.scenarios.past import live_through
from rqtui.scenarios.producers import Producers
from rqtui.scenarios.scenario import Control, Scenario
from rqtui.scenarios.stories import poison_job
from rqtui.server import connect

CUT_S = 10.0
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


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
    is_fixed: bool
    error: str = ""  # why the simulation cannot reach Redis


class Run:
    """A scenario at play on the Redis at `url`; one seed always gives the same jobs, in one order, with one fate.

    `server_pid` is the process of an embedded server, which `cut_redis` may hold; 0 where it is somebody else's.
    A context manager: `start` on entering, `stop` on leaving.
    """

    def __init__(self, scenario: Scenario, url: str, seed: int = 1, server_pid: int = 0) -> None:
        self.scenario, self.url, self.seed = scenario, url, seed
        self.pace = Pace()
        self._clients = [connect(url, client_name=f"rqtui-demo-{half}") for half in ("producers", "workers")]
        self.producers = Producers(scenario, seed, self._clients[0], self.pace)
        self.crew = Crew(scenario, seed, self._clients[1], self.pace)
        self._loops = (Loop("producers", self.producers.turn), Loop("workers", self.crew.turn))
        self._server_pid = server_pid
        self._poisons = count(1)
        self._cut: threading.Timer | None = None
        self._past = 0
        self._presses: dict[str, Callable[[], str]] = {
            "add": self.add_worker,
            "stall": self.stall_worker,
            "kill": self.kill_worker,
            "burst": self.burst,
            "poison": self.poison,
            "slower": lambda: self.set_speed(self._neighbour(-1)),
            "faster": lambda: self.set_speed(self._neighbour(1)),
            "cut": self.cut_redis,
            "fix": self.fix,
        }

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues it plays on, the most telling one first."""
        return tuple(plan.name for plan in self.scenario.queues)

    @property
    def controls(self) -> tuple[Control, ...]:
        """The keys that mean something here, in the order of the strip."""
        can_cut = self._server_pid > 0
        return tuple(control for control in self.scenario.controls if control.name != "cut" or can_cut)

    # -- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Set the queues up, and begin. Raises ServerError when Redis cannot be reached."""
        self.prepare()
        for loop in self._loops:
            loop.start()

    def prepare(self) -> None:
        """Settings, names and past of the queues; a new run finds those of an earlier one unharmed."""
        client = self._clients[0]
        configure = scripts.load("native")["configure"]
        for plan in self.scenario.queues:
            if plan.settings:
                rows = [[name, str(value)] for name, value in plan.settings.items()]
                scripts.run(client, configure.call(keys(plan.name), {}, rows))
        client.sadd(QUEUES, *self.queues)
        seconds, micros = client.time()
        self._past = live_through(client, self.scenario.past(self.seed), seconds * 1000 + micros // 1000)
        self.pace.restart()

    def stop(self) -> None:
        """End both halves, let go of Redis and give back what the workers hold. May be called again."""
        self.restore_redis()
        for loop in self._loops:
            loop.stop()
        self.crew.give_back()
        for client in self._clients:
            client.close()

    def halt(self, at_s: float | None = None) -> None:
        """End the simulation as if `at_s` seconds had gone by: put what is due by then, give back what is held."""
        for loop in self._loops:
            loop.stop()
        if at_s is not None:
            self.pace.stop_at(at_s)
            self.producers.flush()
        self.crew.give_back()

    def __enter__(self) -> Run:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- looking ----------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """What the strip shows; costs nothing."""
        tally, workers = self.crew.tally, list(self.crew.workers)
        errors = [loop.rounds[-1].error for loop in self._loops if loop.rounds and loop.rounds[-1].error]
        return Status(
            workers=len(workers),
            stalled=sum(worker.state == "stalled" for worker in workers),
            put=self.producers.put + self._past,
            planned=self.producers.size,
            finished=tally.finished,
            failed=tally.failed,
            stale=tally.stale,
            workers_lost=tally.workers_lost,
            jobs_s=self.crew.finished_s(),
            speed=self.pace.speed,
            is_cut=self._cut is not None,
            is_fixed=self.crew.is_fixed,
            error=next(iter(errors), ""),
        )

    # -- the strip --------------------------------------------------------------------------------------------------

    def press(self, name: str) -> str:
        """Do what the control of that name does; a sentence says what happened."""
        return self._presses[name]()

    def add_worker(self, queue: str = "") -> str:
        """One more worker, on the first queue where none is named."""
        worker = self.crew.add(queue)
        return f"{worker.name} started; {len(self.crew.workers)} workers"

    def stall_worker(self) -> str:
        """A worker stops answering while it holds a job; it comes back after its lease and acks too late."""
        worker = self.crew.stall()
        return f"{worker.name} hangs, holding {_jobs(len(worker.holds))}" if worker else "no worker holds a job"

    def kill_worker(self) -> str:
        """A worker is gone, and what it held stays in reserved until the lease ends."""
        worker = self.crew.kill()
        return f"{worker.name} died, holding {_jobs(len(worker.holds))}" if worker else "there is no worker left"

    def burst(self, number: int = 0) -> str:
        """Many jobs at once; as many as suit the scenario where no number is given."""
        number = number or self.scenario.burst
        self.producers.burst(number)
        return f"{_jobs(number)} sent"

    def poison(self) -> str:
        """A job that kills every worker that takes it."""
        arrival = poison_job(self.seed, next(self._poisons), self.queues[0])
        self.producers.add(arrival)
        return f"{arrival.job.id} sent to {arrival.queue}"

    def fix(self) -> str:
        """Repair the code that fails, or break it again."""
        self.crew.is_fixed = not self.crew.is_fixed
        return "the code is fixed: nothing fails from now on" if self.crew.is_fixed else "the code is broken again"

    def set_speed(self, speed: float) -> str:
        """Let jobs arrive and work go on `speed` times as fast; leases and delays are Redis's own and stay."""
        self.pace.set_speed(min(SPEEDS[-1], max(SPEEDS[0], speed)))
        return f"speed ×{self.pace.speed:g}"

    def cut_redis(self, seconds: float = CUT_S) -> str:
        """The server's process is held for so long: it answers nobody, and loses nothing."""
        if self._server_pid <= 0:
            return "this Redis is not the demo's own: it is left alone"
        if self._cut is not None:
            return "Redis is cut off already"
        os.kill(self._server_pid, signal.SIGSTOP)
        self._cut = threading.Timer(seconds, self.restore_redis)
        self._cut.daemon = True
        self._cut.start()
        return f"Redis does not answer for {seconds:g} s"

    def restore_redis(self) -> None:
        """End a cut before its time."""
        timer, self._cut = self._cut, None
        if timer is not None:
            timer.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._server_pid, signal.SIGCONT)

    def _neighbour(self, step: int) -> float:
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.pace.speed))
        return SPEEDS[min(len(SPEEDS) - 1, max(0, nearest + step))]


def _jobs(number: int) -> str:
    return f"{number} job" if number == 1 else f"{number} jobs"
