"""The class `NativeRun`: a scenario that runs on rqtui's own queues, with simulated producers and workers.

The producers and the workers are two background loops with a connection each. The demo's screen and `runs.py` use it.
"""

from __future__ import annotations

import threading
from itertools import count

from rqtui.client.native_keys import QUEUES, build_queue_keys
from rqtui.connection.connect import connect
from rqtui.engine.loops import Loop
from rqtui.errors import ServerError
from rqtui.scenarios.native_scenarios import build_poison_job
from rqtui.scenarios.past import choose_share, create_past
from rqtui.scenarios.producers import Producers
from rqtui.scenarios.proof import verify_accepted_jobs
from rqtui.scenarios.run import Run, Status
from rqtui.scenarios.scenario import NativeScenario
from rqtui.scenarios.simulated_workers import SimulatedWorkers
from rqtui.scripts import script as scripts
from rqtui.text.formats import format_quantity

CHECK_DELAY_S = 4.0


class NativeRun(Run):
    """A running scenario on rqtui's own queues. One seed always gives the same jobs, order and outcomes."""

    scenario: NativeScenario

    def __init__(
        self, scenario: NativeScenario, url: str, seed: int = 1, server_pid: int = 0, folder: str = ""
    ) -> None:
        super().__init__(scenario, url, seed, server_pid, folder)
        self._clients = [connect(url, client_name=f"rqtui-demo-{half}") for half in ("producers", "workers")]
        self.producers = Producers(scenario, seed, self._clients[0], self.pace)
        self.crew = SimulatedWorkers(scenario, seed, self._clients[1], self.pace)
        self._loops = (Loop("producers", self.producers.turn), Loop("workers", self.crew.turn))
        self._poison_numbers = count(1)
        self._past_count = 0
        self._message = ""
        self._check_timer: threading.Timer | None = None
        self._actions |= {
            "add": self.add_worker,
            "stall": self.stall_worker,
            "kill": self.kill_worker,
            "burst": self.send_burst,
            "poison": self.send_poison,
            "fix": self.toggle_fix,
            "check": self.check_jobs,
        }

    # -- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Set up the queues of the scenario and start it. Raises ServerError if Redis is unreachable."""
        self.prepare()
        for loop in self._loops:
            loop.start()
        if self.scenario.cut_at_s and self._server_pid:
            self.schedule_cut(self.scenario.cut_at_s)

    def prepare(self) -> None:
        """Write the settings, the names and the past jobs of the queues. Jobs of an earlier run are unchanged."""
        client = self._clients[0]
        configure = scripts.load_scripts("native")["configure"]
        for plan in self.scenario.queues:
            if plan.settings:
                rows = [[name, str(value)] for name, value in plan.settings.items()]
                scripts.run_call(client, configure.build_call(build_queue_keys(plan.name), {}, rows))
        client.sadd(QUEUES, *self.queues)
        seconds, micros = client.time()
        past = self.scenario.past(self.seed)
        self._past_count = create_past(client, past, seconds * 1000 + micros // 1000, choose_share(client, past))
        self.pace.restart()

    def stop(self) -> None:
        """Stop producers and workers, release the workers' jobs and close the connections. Further calls do nothing."""
        self.restore_redis()
        if self._check_timer is not None:
            self._check_timer.cancel()
        for loop in self._loops:
            loop.stop()
        self.crew.release_jobs()
        for client in self._clients:
            client.close()

    def halt(self, at_s: float | None = None) -> None:
        """Stop the simulation as if `at_s` seconds had passed: put the jobs due by then, and release held jobs."""
        self.restore_redis()
        for loop in self._loops:
            loop.stop()
        if at_s is not None:
            self.pace.stop_at(at_s)
            self.producers.flush()
        self.crew.release_jobs()

    # -- looking ----------------------------------------------------------------------------------------------------

    def compute_status(self) -> Status:
        """Return the figures that the demo's strip (the lines below its screen) shows, without a request to Redis."""
        totals, workers = self.crew.totals, list(self.crew.workers)
        errors = [loop.rounds[-1].error for loop in self._loops if loop.rounds and loop.rounds[-1].error]
        return Status(
            workers=len(workers),
            stalled=sum(worker.state == "stalled" for worker in workers),
            put=self.producers.put + self._past_count,
            planned=self.producers.size,
            finished=totals.finished,
            failed=totals.failed,
            stale=totals.stale,
            workers_lost=totals.workers_lost,
            jobs_s=self.crew.compute_finished_per_s(),
            speed=self.pace.speed,
            is_cut=self._cut_timer is not None,
            is_fixed=self.crew.is_fixed,
            error=next(iter(errors), ""),
            message=self._message,
        )

    # -- the strip --------------------------------------------------------------------------------------------------

    def add_worker(self, queue: str = "") -> str:
        """Add a worker to `queue`, or to the first queue."""
        worker = self.crew.add(queue)
        return f"{worker.name} started; {format_quantity(len(self.crew.workers), 'worker')}"

    def stall_worker(self) -> str:
        """Stall a worker that holds a job. The worker continues after its lease ended."""
        worker = self.crew.stall()
        return (
            f"{worker.name} hangs, holding {format_quantity(len(worker.holds), 'job')}"
            if worker
            else "no worker holds a job"
        )

    def kill_worker(self) -> str:
        """Kill a worker of the scenario. Its jobs stay where they are until their leases end."""
        worker = self.crew.kill()
        return (
            f"{worker.name} died, holding {format_quantity(len(worker.holds), 'job')}"
            if worker
            else "there is no worker left"
        )

    def send_burst(self, number: int = 0) -> str:
        """Put `number` jobs at once, or as many as the scenario's usual burst if it is 0."""
        number = number or self.scenario.burst
        self.producers.add_burst(number)
        return f"{format_quantity(number, 'job')} sent"

    def send_poison(self) -> str:
        """Put a job that kills every worker that takes it."""
        arrival = build_poison_job(self.seed, next(self._poison_numbers), self.queues[0])
        self.producers.add(arrival)
        return f"{arrival.job.id} sent to {arrival.queue}"

    def on_redis_restored(self) -> None:
        """Start the scenario's final check after a delay in which all workers reconnect."""
        if self.scenario.is_proved:
            self._check_timer = threading.Timer(CHECK_DELAY_S, self._publish_check)
            self._check_timer.daemon = True
            self._check_timer.start()

    def _publish_check(self) -> None:
        """Check all jobs after Redis was suspended, and show the result in the demo's strip."""
        self._message = f"Redis is back. {self.check_jobs()}"

    def check_jobs(self) -> str:
        """Search for every job that was put. Waits for Redis, so do not call it from the screen's thread."""
        with connect(self.url, client_name="rqtui-demo-check") as client:
            try:
                found = verify_accepted_jobs(client, self.producers.copy_accepted_ids())
            except ServerError as error:
                return f"nothing could be checked: {error}"
        return found.format_result()

    def toggle_fix(self) -> str:
        """Apply the fix of the scenario's failing code, or remove it again; return a sentence about the effect."""
        self.crew.is_fixed = not self.crew.is_fixed
        return "the code is fixed: nothing fails from now on" if self.crew.is_fixed else "the code is broken again"
