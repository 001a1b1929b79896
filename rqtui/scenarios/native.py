"""NativeRun: a scenario on rqtui's own queues, with simulated producers and workers.

The producers and the crew are two loops with a connection each. `play.py` runs one without a screen.
"""

from __future__ import annotations

import threading
from itertools import count

from rqtui.client.native_keys import QUEUES, keys
from rqtui.connection.connect import connect
from rqtui.engine.loops import Loop
from rqtui.errors import ServerError
from rqtui.scenarios.crew import Crew
from rqtui.scenarios.past import affordable, live_through
from rqtui.scenarios.producers import Producers
from rqtui.scenarios.proof import prove
from rqtui.scenarios.run import Run, Status
from rqtui.scenarios.scenario import NativeScenario
from rqtui.scenarios.stories import poison_job
from rqtui.scripts import script as scripts
from rqtui.text.formats import numbered

PROOF_S = 4.0


class NativeRun(Run):
    """One seed always gives the same jobs, in one order, with one fate."""

    scenario: NativeScenario

    def __init__(
        self, scenario: NativeScenario, url: str, seed: int = 1, server_pid: int = 0, folder: str = ""
    ) -> None:
        super().__init__(scenario, url, seed, server_pid, folder)
        self._clients = [connect(url, client_name=f"rqtui-demo-{half}") for half in ("producers", "workers")]
        self.producers = Producers(scenario, seed, self._clients[0], self.pace)
        self.crew = Crew(scenario, seed, self._clients[1], self.pace)
        self._loops = (Loop("producers", self.producers.turn), Loop("workers", self.crew.turn))
        self._poisons = count(1)
        self._past = 0
        self._said = ""
        self._prover: threading.Timer | None = None
        self._presses |= {
            "add": self.add_worker,
            "stall": self.stall_worker,
            "kill": self.kill_worker,
            "burst": self.burst,
            "poison": self.poison,
            "fix": self.fix,
            "check": self.check,
        }

    # -- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Set the queues up, and begin. Raises ServerError when Redis cannot be reached."""
        self.prepare()
        for loop in self._loops:
            loop.start()
        if self.scenario.cut_at_s and self._server_pid:
            self.cut_soon(self.scenario.cut_at_s)

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
        past = self.scenario.past(self.seed)
        self._past = live_through(client, past, seconds * 1000 + micros // 1000, affordable(client, past))
        self.pace.restart()

    def stop(self) -> None:
        """End both halves, close the connections and release the jobs of the workers. May be called again."""
        self.restore_redis()
        if self._prover is not None:
            self._prover.cancel()
        for loop in self._loops:
            loop.stop()
        self.crew.give_back()
        for client in self._clients:
            client.close()

    def halt(self, at_s: float | None = None) -> None:
        """End the simulation as if `at_s` seconds had gone by: put what is due by then, give back what is held."""
        self.restore_redis()
        for loop in self._loops:
            loop.stop()
        if at_s is not None:
            self.pace.stop_at(at_s)
            self.producers.flush()
        self.crew.give_back()

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
            said=self._said,
        )

    # -- the strip --------------------------------------------------------------------------------------------------

    def add_worker(self, queue: str = "") -> str:
        """One more worker, on the first queue where none is named."""
        worker = self.crew.add(queue)
        return f"{worker.name} started; {numbered(len(self.crew.workers), 'worker')}"

    def stall_worker(self) -> str:
        """A worker stops answering while it holds a job; it comes back after its lease and acks too late."""
        worker = self.crew.stall()
        return (
            f"{worker.name} hangs, holding {numbered(len(worker.holds), 'job')}" if worker else "no worker holds a job"
        )

    def kill_worker(self) -> str:
        """A worker is gone, and what it held stays in reserved until the lease ends."""
        worker = self.crew.kill()
        return (
            f"{worker.name} died, holding {numbered(len(worker.holds), 'job')}" if worker else "there is no worker left"
        )

    def burst(self, number: int = 0) -> str:
        """Many jobs at once; as many as suit the scenario where no number is given."""
        number = number or self.scenario.burst
        self.producers.burst(number)
        return f"{numbered(number, 'job')} sent"

    def poison(self) -> str:
        """A job that kills every worker that takes it."""
        arrival = poison_job(self.seed, next(self._poisons), self.queues[0])
        self.producers.add(arrival)
        return f"{arrival.job.id} sent to {arrival.queue}"

    def restored(self) -> None:
        """After a while in which everybody finds back, proves what the scenario promises."""
        if self.scenario.is_proved:
            self._prover = threading.Timer(PROOF_S, self._prove)
            self._prover.daemon = True
            self._prover.start()

    def _prove(self) -> None:
        self._said = f"Redis is back. {self.check()}"

    def check(self) -> str:
        """Look for every job that was put. Waits for Redis: not for the screen's thread."""
        with connect(self.url, client_name="rqtui-demo-check") as client:
            try:
                found = prove(client, self.producers.accepted())
            except ServerError as error:
                return f"nothing could be checked: {error}"
        return found.sentence()

    def fix(self) -> str:
        """Repair the code that fails, or break it again."""
        self.crew.is_fixed = not self.crew.is_fixed
        return "the code is fixed: nothing fails from now on" if self.crew.is_fixed else "the code is broken again"
