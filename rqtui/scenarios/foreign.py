"""ForeignRun: a scenario on the keys of another system, played by the original's own producers and workers.

Each actor has a thread and a connection. rqtui's dispatcher and reaper are not among them: on the screen they are the
screen's own loops, and `play_foreign.py` runs them where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from rqtui.connection.connect import connect, reach
from rqtui.scenarios.actors import Actor, Turn, stop_all
from rqtui.scenarios.ledger import Ledger
from rqtui.scenarios.run import CUT_S, Run, Status
from rqtui.scenarios.stage import ForeignScenario
from rqtui.text.formats import numbered


class ForeignRun(Run):
    """One seed gives the same jobs with the same fates; which worker takes which, and when, is up to the threads."""

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
        self._presses |= {
            "add": self.add_worker,
            "stall": self.stall_worker,
            "kill": self.kill_worker,
            "burst": self.burst,
            **self.stage.presses,
        }

    # -- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The first jobs are there; then everybody begins. Raises ServerError when Redis cannot be reached."""
        self.prepare()
        parts: dict[str, Callable[[Actor], Turn]] = {"producer": self.stage.producer, **self.stage.supporters()}
        self._others = [self._actor(name, make) for name, make in parts.items()]
        for _ in range(self.stage.workers):
            self.add_worker()
        for actor in self._others:
            actor.start()

    def prepare(self) -> None:
        """Put what is there at the beginning."""
        reach(self._client, self.url)
        self.pace.restart()
        self.stage.produce(self._client)

    def stop(self) -> None:
        """Everybody finishes what is at hand at once, and goes. May be called again."""
        self.restore_redis()
        stop_all([*self.crew, *self._others])
        self._client.close()

    def halt(self, at_s: float | None = None) -> None:
        """End the simulation as if `at_s` seconds had gone by: what is due by then is put, what is at hand finished."""
        stop_all([*self.crew, *self._others])
        if at_s is not None:
            self.pace.stop_at(at_s)
            while self.stage.produce(self._client):
                pass

    def _actor(self, name: str, make: Callable[[Actor], Turn]) -> Actor:
        # A cut holds an answer up for longer than the usual time-out, after which an original would lose its job.
        client = connect(self.url, timeout_s=CUT_S + 5, client_name=f"demo-{name}")
        return Actor(name, client, self.pace, make, self._fell)

    def _fell(self, job: bytes) -> None:
        self.ledger.note(self.ledger.fell, job)

    # -- looking ----------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """What the strip shows; costs nothing."""
        living = self._living()
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
            jobs_s=self.ledger.finished_s(),
            speed=self.pace.speed,
            is_cut=self._cut is not None,
            is_fixed=self.stage.is_fixed,
            error=next(iter(self.errors()), ""),
        )

    def errors(self) -> list[str]:
        """Why actors cannot go on: Redis is away, or their program has ended."""
        return [actor.error for actor in [*list(self.crew), *self._others] if actor.error]

    @property
    def workers_lost(self) -> int:
        """How many died, by a key of the strip or of what they took."""
        return len(self.crew) - len(self._living())

    def _living(self) -> list[Actor]:
        return [actor for actor in list(self.crew) if actor.state != "dead"]

    # -- the strip --------------------------------------------------------------------------------------------------

    def add_worker(self) -> str:
        """One more worker."""
        actor = self._actor(self.stage.name(next(self._numbers)), self.stage.worker)
        self.crew.append(actor)
        actor.start()
        return f"{actor.name} started; {numbered(len(self._living()), 'worker')}"

    def stall_worker(self) -> str:
        """A worker stops answering while it holds a job, and goes on when its lease is over."""
        actor = self._somebody_at_work(self.stage.stalls_first)
        if actor is None:
            return "no worker holds a job"
        actor.stall(self.stage.overslept_s)
        return f"{actor.name} hangs for {self.stage.overslept_s:g} s, holding {self.stage.title(actor.holds)}"

    def kill_worker(self) -> str:
        """A worker is gone."""
        actor = self._somebody_at_work("") or next(iter(self._living()), None)
        if actor is None:
            return "there is no worker left"
        held = f", holding {self.stage.title(actor.holds)}" if actor.state == "busy" else ""
        actor.kill()
        gone = ": there is no lease, it is lost" if held and not self.stage.keeps_leases else ""
        return f"{actor.name} died{held}{gone}"

    def _somebody_at_work(self, prefix: str) -> Actor | None:
        busy = [actor for actor in list(self.crew) if actor.state == "busy"]
        return max(busy, key=lambda actor: (actor.name.startswith(prefix), actor.until_s), default=None)

    def burst(self, number: int = 0) -> str:
        """Many jobs at once; as many as suit the scenario where no number is given."""
        return f"{numbered(self.stage.burst(number or self.stage.bursts_of), 'job')} sent"
