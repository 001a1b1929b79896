"""The scenario `latecomer`: a worker slower than its lease, whose ack comes when another has the job (safe_pop).

Some workers are those of the package redis-queue, others are rqtui's on the same keys. rqtui's workers use the entry as
their token, so a late ack is refused. A late `mark_done` of the package is accepted: it marks a job as done that
another worker still runs. `registry.py` lists the scenario.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any
from uuid import UUID

from rqtui.engine.engine import Engine
from rqtui.model import Ref
from rqtui.scenarios import bodies
from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.originals import safe_pop as original
from rqtui.scenarios.pace import IDLE_S
from rqtui.scenarios.scenario import CONTROLS, Control
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, Stage, map_places
from rqtui.scripts import script as scripts
from rqtui.systems import registry

QUEUE = "parcels"
TIMEOUT_S = 4
_SLOW_S = TIMEOUT_S + 3.5  # late is strictly more than the timeout, in whole seconds
_SLOW = 0.3  # the share of jobs for which the slow worker is too slow
_FIRST = 40
_RQTUI_PREFIX, _ORIGINAL_PREFIX = "rqtui", "python"
_GAP = "popped, not yet pushed back"


class Latecomer(Stage):
    """The producer and workers of the scenario `latecomer`: rqtui's workers, one of them slow, and the package's."""

    workers = 5
    bursts_of = 20
    overslept_s = _SLOW_S
    stalls_first = _RQTUI_PREFIX

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._crashes = 0
        self.actions = {"crash": self._request_crash}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield the commands of the producer: the first jobs at once, then two per second."""
        rng = Random(f"latecomer:{self.seed}")
        at_ms = 0.0
        for number in range(1 << 30):
            yield _build_parcel(rng, int(at_ms))
            at_ms += 0 if number < _FIRST else rng.expovariate(1 / 550)

    def plan_burst(self) -> Iterator[ProducerCommand]:
        """Yield the commands of bursts of parcels."""
        rng = Random(f"latecomer-burst:{self.seed}")
        while True:
            yield _build_parcel(rng, 0)

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Push a job as `push_msg` does, with an id from the seed."""
        client.set(original.build_data_key(QUEUE, command.job), command.body, ex=original.DATA_S)
        original.push_message_id(client, QUEUE, command.job)
        self.ledger.put[command.job] = 1

    def name_worker(self, number: int) -> str:
        """Return the name of a worker; every second worker is rqtui's."""
        return f"{_RQTUI_PREFIX if number % 2 else _ORIGINAL_PREFIX}-{number}"

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker: half of the workers are rqtui's, the others those of the package redis-queue."""
        return (
            self._build_rqtui_turn(actor) if actor.name.startswith(_RQTUI_PREFIX) else self._build_original_turn(actor)
        )

    def _build_original_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker of the package redis-queue."""

        def simulate_job_run(id: bytes, _message: bytes) -> None:
            self.count_attempt(id)
            actor.work(id, self._choose_run_s(id))

        worker = original.Worker(
            actor.client,
            QUEUE,
            simulate_job_run,
            task_timeout_s=TIMEOUT_S,
            block_s=1,  # 30 in the original, which sleeps that long when it meets a running entry
            pause=actor.pause,
            sleep=actor.sleep,
        )

        def run_worker_turn() -> float:
            if self._crashes:
                self._crashes -= 1
                actor.dies_in = _GAP
            if worker.step() == "finished":
                self.ledger.finish(actor.holds)
            return 0.0

        return run_worker_turn

    def _build_rqtui_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker that uses rqtui's scripts with tokens."""
        system = registry.create_system(self.scenario.system)
        engine, ref = Engine(actor.client, [system]), Ref(system.name, QUEUE)
        is_slow = actor.name == f"{_RQTUI_PREFIX}-1"

        def run_worker_turn() -> float:
            reply = scripts.run_call(actor.client, system.build_call("reserve", QUEUE, {"limit": 1}))
            taken = system.read_taken_jobs(QUEUE, reply)
            for job in taken:
                attempt = self.count_attempt(job.id)
                slow = is_slow and self.draw_fraction(job.id, f"slow {attempt}") < _SLOW
                actor.work(job.id, self._choose_run_s(job.id), _SLOW_S if slow else 0.0)
                [outcome] = engine.apply_verb("ack", ref, [job])
                if outcome.moved:
                    self.ledger.finish(job.id)
                else:
                    self.ledger.count_word("stale")
            return 0.0 if taken else IDLE_S

        return run_worker_turn

    def _choose_run_s(self, id: bytes) -> float:
        return 0.4 + 1.6 * self.draw_fraction(id)

    def _request_crash(self) -> str:
        self._crashes += 1
        return "the next original worker that pops dies before it has pushed back: that job is lost, in no list at all"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the listed ids by place, without those marked as done, which a worker of the package drops later."""
        done = client.smembers(f"{QUEUE}:done")
        entries = [entry.partition(b"|")[::2] for entry in client.lrange(QUEUE, 0, -1)]
        return map_places(
            ready=[id for id, at_s in entries if not at_s],
            handed_out=[id for id, at_s in entries if at_s and id not in done],
        )


def _build_parcel(rng: Random, at_ms: int) -> ProducerCommand:
    id = str(UUID(int=rng.getrandbits(128), version=4)).encode()
    return ProducerCommand(at_ms, id, bodies.build_order(rng))


CRASH = Control("0", "crash", "crash", "an original worker dies between its pop and its push")

LATECOMER = ForeignScenario(
    name="latecomer",
    summary="a worker that is slower than its lease",
    system=f"safe_pop:queue={QUEUE},timeout_s={TIMEOUT_S}",
    queue=QUEUE,
    stage=Latecomer,
    controls=(*(control for control in CONTROLS if control.name != "poison"), CRASH),
    tries=(
        (
            "7",
            "stall a worker: four seconds later its entry is late, another worker takes it, its ack is refused",
        ),
        ("8", "kill a worker: its entry keeps its time, and is delivered again when that time is too old"),
        (".", "stop the reaper: late entries wait until a worker reaches them at the end of the list"),
        ("0", "a stock worker dies between BRPOP and LPUSH: the job is lost; rqtui's reserve is one atomic script"),
        ("9", "twenty more jobs behind entries that run: a stock worker sleeps when it reaches a running one"),
    ),
    watch=(
        "one list that is three places: ready, in_progress and expired",
        "the refused acks of the slow worker, rqtui-1",
        "done marks, which a stock worker leaves for the next pop to clear",
    ),
)
