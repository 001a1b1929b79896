"""The class `ForeignRun`: a scenario on the keys of another system, run by that system's own producers and workers.

Each actor has a thread and a connection. rqtui's dispatcher and reaper are not part of the run: the demo's screen has
its own, and `headless_foreign.py` starts them for a run without a screen.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from rqtui.connection.connect import connect, open_and_authenticate
from rqtui.scenarios.actors import Actor, Turn, stop_actors
from rqtui.scenarios.ledger import Ledger
from rqtui.scenarios.run import CUT_S, Run, Status
from rqtui.scenarios.stage import ForeignScenario
from rqtui.text.formats import format_quantity


class ForeignRun(Run):
    """A running scenario on another system's keys. The seed fixes jobs and outcomes; threads decide their order."""

    scenario: ForeignScenario

    def __init__(
        self, scenario: ForeignScenario, url: str, seed: int = 1, server_pid: int = 0, folder: str = ""
    ) -> None:
        super().__init__(scenario, url, seed, server_pid, folder)
        self.ledger = Ledger()
        self.stage = scenario.stage(scenario, seed, self.pace, self.ledger)
        self.crew: list[Actor] = []
        self._others: list[Actor] = []
        self._client = connect(url, client_name="rqtui-demo")
        self._numbers = count(1)
        self._actions |= {
            "add": self.add_worker,
            "stall": self.stall_worker,
            "kill": self.kill_worker,
            "burst": self.send_burst,
            **self.stage.actions,
        }

    # -- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Put the first jobs of the scenario, then start all actors. Raises ServerError if Redis is unreachable."""
        self.prepare()
        parts: dict[str, Callable[[Actor], Turn]] = {
            "producer": self.stage.build_producer_turn,
            **self.stage.build_supporter_turns(),
        }
        self._others = [self._create_actor(name, make) for name, make in parts.items()]
        for _ in range(self.stage.workers):
            self.add_worker()
        for actor in self._others:
            actor.start()

    def prepare(self) -> None:
        """Put the jobs that the scenario has at its start."""
        open_and_authenticate(self._client, self.url)
        self.pace.restart()
        self.stage.run_due_commands(self._client)

    def stop(self) -> None:
        """Stop all actors, which finish their current work without delay. Further calls do nothing."""
        self.restore_redis()
        stop_actors([*self.crew, *self._others])
        self._client.close()

    def halt(self, at_s: float | None = None) -> None:
        """Stop the simulation as if `at_s` seconds had passed: put the jobs due by then, and finish current work."""
        stop_actors([*self.crew, *self._others])
        if at_s is not None:
            self.pace.stop_at(at_s)
            while self.stage.run_due_commands(self._client):
                pass

    def _create_actor(self, name: str, build_turn: Callable[[Actor], Turn]) -> Actor:
        # A cut delays replies beyond the usual timeout, and an original that gets a timeout error loses its job.
        client = connect(self.url, timeout_s=CUT_S + 5, client_name=f"demo-{name}")
        return Actor(name, client, self.pace, build_turn, self._record_loss)

    def _record_loss(self, job: bytes) -> None:
        """Record in the ledger that a job was lost with its worker."""
        self.ledger.count(self.ledger.lost_with_worker, job)

    # -- looking ----------------------------------------------------------------------------------------------------

    def compute_status(self) -> Status:
        """Return the figures that the demo's strip (the lines below its screen) shows, without a request to Redis."""
        living = self._list_live_workers()
        words = self.ledger.words
        return Status(
            workers=len(living),
            stalled=sum(actor.state == "stalled" for actor in living),
            put=self.ledger.put.total(),
            planned=self.stage.size,
            finished=len(self.ledger.finished),
            failed=words["rejected"],
            stale=words["late"] + words["stale"],
            workers_lost=self.workers_lost,
            jobs_s=self.ledger.compute_finished_per_s(),
            speed=self.pace.speed,
            is_cut=self._cut_timer is not None,
            is_fixed=self.stage.is_fixed,
            error=next(iter(self.list_errors()), ""),
        )

    def list_errors(self) -> list[str]:
        """Return the errors of actors that cannot continue: Redis is unavailable, or their program ended."""
        return [actor.error for actor in [*list(self.crew), *self._others] if actor.error]

    @property
    def workers_lost(self) -> int:
        """The number of workers that died, by a key of the strip or by the job they took."""
        return len(self.crew) - len(self._list_live_workers())

    def _list_live_workers(self) -> list[Actor]:
        return [actor for actor in list(self.crew) if actor.state != "dead"]

    # -- the strip --------------------------------------------------------------------------------------------------

    def add_worker(self) -> str:
        """Add a worker to the scenario."""
        actor = self._create_actor(self.stage.name_worker(next(self._numbers)), self.stage.build_worker_turn)
        self.crew.append(actor)
        actor.start()
        return f"{actor.name} started; {format_quantity(len(self._list_live_workers()), 'worker')}"

    def stall_worker(self) -> str:
        """Stall a worker that holds a job. The worker continues after its lease ended."""
        actor = self._choose_busy_worker(self.stage.stalls_first)
        if actor is None:
            return "no worker holds a job"
        actor.stall(self.stage.overslept_s)
        return f"{actor.name} hangs for {self.stage.overslept_s:g} s, holding {self.stage.describe_job(actor.holds)}"

    def kill_worker(self) -> str:
        """Kill a worker of the scenario. A job that it holds stays in its place, or is lost."""
        actor = self._choose_busy_worker("") or next(iter(self._list_live_workers()), None)
        if actor is None:
            return "there is no worker left"
        held_text = f", holding {self.stage.describe_job(actor.holds)}" if actor.state == "busy" else ""
        actor.kill()
        loss_text = ": there is no lease, it is lost" if held_text and not self.stage.keeps_leases else ""
        return f"{actor.name} died{held_text}{loss_text}"

    def _choose_busy_worker(self, prefix: str) -> Actor | None:
        busy = [actor for actor in list(self.crew) if actor.state == "busy"]
        return max(busy, key=lambda actor: (actor.name.startswith(prefix), actor.until_s), default=None)

    def send_burst(self, number: int = 0) -> str:
        """Put `number` jobs at once, or as many as the scenario's usual burst if it is 0."""
        return f"{format_quantity(self.stage.add_burst(number or self.stage.bursts_of), 'job')} sent"
