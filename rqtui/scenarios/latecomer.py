"""`latecomer`: a worker that is slower than its lease, and whose ack comes when another has its job (safe_pop).

Some workers are the original's, some are rqtui's on the same keys: those have the entry as their token, so that their
late ack is refused. An original's late `mark_done` is not: it marks a job as done that somebody else works on.
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
from rqtui.scenarios.stage import Errand, ForeignScenario, Stage, places_of
from rqtui.scripts import script as scripts
from rqtui.systems import registry

QUEUE = "parcels"
TIMEOUT_S = 4
_SLOW_S = TIMEOUT_S + 3.5  # late is strictly more than the timeout, in whole seconds
_SLOW = 0.3  # the share of jobs for which the slow worker is too slow
_FIRST = 40
_OURS, _THEIRS = "rqtui", "python"
_GAP = "popped, not yet pushed back"


class Latecomer(Stage):
    """Two workers with tokens, one of them slow, and three of the original's."""

    workers = 5
    bursts_of = 20
    overslept_s = _SLOW_S
    stalls_first = _OURS

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._crashes = 0
        self.presses = {"crash": self._crash}

    def plan(self) -> Iterator[Errand]:
        """Some at the beginning, then two a second."""
        rng = Random(f"latecomer:{self.seed}")
        at_ms = 0.0
        for number in range(1 << 30):
            yield _parcel(rng, int(at_ms))
            at_ms += 0 if number < _FIRST else rng.expovariate(1 / 550)

    def extra(self) -> Iterator[Errand]:
        """More parcels."""
        rng = Random(f"latecomer-burst:{self.seed}")
        while True:
            yield _parcel(rng, 0)

    def run_errand(self, client: Any, errand: Errand) -> None:
        """`push_msg`, with an id from the seed."""
        client.set(original.data_key(QUEUE, errand.job), errand.body, ex=original.DATA_S)
        original.push(client, QUEUE, errand.job)
        self.ledger.put[errand.job] = 1

    def name(self, number: int) -> str:
        """Every second one is rqtui's."""
        return f"{_OURS if number % 2 else _THEIRS}-{number}"

    def worker(self, actor: Actor) -> Turn:
        """One of ours, or one of theirs."""
        return self._ours(actor) if actor.name.startswith(_OURS) else self._theirs(actor)

    def _theirs(self, actor: Actor) -> Turn:
        def work(id: bytes, _message: bytes) -> None:
            self.attempt(id)
            actor.work(id, self._run_s(id))

        worker = original.Worker(
            actor.client,
            QUEUE,
            work,
            task_timeout_s=TIMEOUT_S,
            block_s=1,  # 30 in the original: for so long it sleeps when it meets an entry that runs
            pause=actor.pause,
            sleep=actor.rest,
        )

        def turn() -> float:
            if self._crashes:
                self._crashes -= 1
                actor.dies_in = _GAP
            if worker.step() == "finished":
                self.ledger.finish(actor.holds)
            return 0.0

        return turn

    def _ours(self, actor: Actor) -> Turn:
        layout = registry.make(self.scenario.layout)
        engine, ref = Engine(actor.client, [layout]), Ref(layout.name, QUEUE)
        is_slow = actor.name == f"{_OURS}-1"

        def turn() -> float:
            answer = scripts.run(actor.client, layout.call("reserve", QUEUE, {"limit": 1}))
            taken = layout.taken(QUEUE, answer)
            for job in taken:
                attempt = self.attempt(job.id)
                slow = is_slow and self.roll(job.id, f"slow {attempt}") < _SLOW
                actor.work(job.id, self._run_s(job.id), _SLOW_S if slow else 0.0)
                [outcome] = engine.act("ack", ref, [job])
                if outcome.moved:
                    self.ledger.finish(job.id)
                else:
                    self.ledger.say("stale")
            return 0.0 if taken else IDLE_S

        return turn

    def _run_s(self, id: bytes) -> float:
        return 0.4 + 1.6 * self.roll(id)

    def _crash(self) -> str:
        self._crashes += 1
        return "the next original worker that pops dies before it has pushed back: that job is lost, in no list at all"

    def standing(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """The ids in the list, those that are marked as done left out: the original drops them when it meets them."""
        done = client.smembers(f"{QUEUE}:done")
        entries = [entry.partition(b"|")[::2] for entry in client.lrange(QUEUE, 0, -1)]
        return places_of(
            ready=[id for id, at_s in entries if not at_s],
            handed_out=[id for id, at_s in entries if at_s and id not in done],
        )


def _parcel(rng: Random, at_ms: int) -> Errand:
    id = str(UUID(int=rng.getrandbits(128), version=4)).encode()
    return Errand(at_ms, id, bodies.order(rng))


CRASH = Control("0", "crash", "crash", "an original worker dies between its pop and its push")

LATECOMER = ForeignScenario(
    name="latecomer",
    summary="a worker that is slower than its lease: its job is handed out again, and its late ack is refused",
    layout=f"safe_pop:queue={QUEUE},timeout_s={TIMEOUT_S}",
    queue=QUEUE,
    stage=Latecomer,
    controls=(*(control for control in CONTROLS if control.name != "poison"), CRASH),
    tries=(
        ("7", "stall a worker: four seconds later its entry is late, another takes it, and its ack is refused"),
        ("8", "kill a worker: its entry stays with its time, and is handed out again when that is too old"),
        (".", "stop the reaper: what is late waits until a worker meets it at the end of the list"),
        ("0", "an original dies between BRPOP and LPUSH: the job is in no list; rqtui's reserve has no such gap"),
        ("9", "twenty more, behind entries that run: the original sleeps when it meets one of those"),
    ),
    watch=(
        "one list that is three places: ready, in_progress and expired",
        "the refused acks of the slow worker, rqtui-1",
        "done marks, which an original leaves for the next pop to clear",
    ),
)
