"""`timeouts`: 10 000 items, 40 workers, and now and then work that takes longer than the lock lasts (timeout_sets).

The reaper gives an item back whose lock is gone, and another worker draws it; the late worker is told so, as far as
the original can tell. At the end every item is in `done` and none elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.originals import timeout_sets as original
from rqtui.scenarios.pace import IDLE_S
from rqtui.scenarios.scenario import CONTROLS, Control
from rqtui.scenarios.stage import Errand, ForeignScenario, Stage, places_of

ITEMS = 10_000
LATE, LATE_S = 0.02, (1.1, 2.2)  # the share of attempts that outlast the lock of a second, and by how much
RUN_S = (0.1, 0.5)
TRIES = 3  # the third attempt is never late
GAPS_S = {"moved, not locked": 0.01}  # wide enough for the original's cleaner to fall into


class Timeouts(Stage):
    """Items are numbers; a worker that finds none looks again until all are done."""

    workers = 40
    bursts_of = 1_000
    overslept_s = 3.0
    speed = 4.0
    longest_s = 300.0
    ends_in = original.DONE
    items = ITEMS

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.size = self.items
        self._cleans = 0
        self.presses: Mapping[str, Callable[[], str]] = {"clean": self._clean}

    def plan(self) -> Iterator[Errand]:
        """All items at once, in an order of their own."""
        numbers = list(range(1, self.items + 1))
        Random(f"timeouts:{self.seed}").shuffle(numbers)
        for number in numbers:
            yield Errand(0, b"%d" % number)

    def extra(self) -> Iterator[Errand]:
        """More numbers."""
        for number in range(1_000_001, 2_000_000):
            yield Errand(0, b"%d" % number)

    def run_errand(self, client: Any, errand: Errand) -> None:
        """The creator's SADD."""
        original.put(client, [errand.job])
        self.ledger.put[errand.job] = 1

    def worker(self, actor: Actor) -> Turn:
        """Draws, locks, works, acknowledges."""

        def work(item: int) -> None:
            job = b"%d" % item
            run_s, late_s = self.fate(job, self.attempt(job))
            actor.work(job, run_s, late_s)

        actor.gaps_s = GAPS_S
        worker = original.Worker(actor.client, work=work, pause=actor.pause)

        def turn() -> float:
            word = worker.step()
            if word == "done":
                self.ledger.finish(actor.holds)
            elif word == "late":
                self.ledger.say("late")
            return IDLE_S if word == "empty" else 0.0

        return turn

    def fate(self, job: bytes, attempt: int) -> tuple[float, float]:
        """Seconds of the scenario, and seconds by the clock, that this attempt takes."""
        run, late = self.roll(job, f"run {attempt}"), self.roll(job, f"late {attempt}")
        run_s = RUN_S[0] + run * (RUN_S[1] - RUN_S[0])
        is_late = late < LATE and attempt < TRIES
        return run_s, LATE_S[0] + run * (LATE_S[1] - LATE_S[0]) if is_late else 0.0

    def supporters(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """The original's cleaner, which makes a pass when it is told to."""
        return {"cleaner": self._cleaner}

    def _cleaner(self, actor: Actor) -> Turn:
        cleaner = original.Cleaner(actor.client)

        def turn() -> float:
            if self._cleans:
                self._cleans = 0
                cleaner.step()
            return IDLE_S

        return turn

    def _clean(self) -> str:
        self._cleans = 1
        return "the original's cleaner makes a pass: whatever has no lock at that moment goes back"

    def standing(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """The three sets."""
        sets = {name: list(client.smembers(name)) for name in (original.TODOS, original.IN_PROGRESS, original.DONE)}
        return places_of(**sets)

    def is_over(self, client: Any) -> bool:
        """All were put, and none is to do or in progress."""
        return self.is_sent and not client.scard(original.TODOS) and not client.scard(original.IN_PROGRESS)


CLEAN = Control("0", "clean", "cleaner", "one pass of the original's own cleaner")

TIMEOUTS = ForeignScenario(
    name="timeouts",
    summary="10 000 items and 40 workers; some work takes longer than its lock lasts, and all of it gets done",
    layout="timeout_sets",
    queue=original.TODOS,
    stage=Timeouts,
    controls=(*(control for control in CONTROLS if control.name != "poison"), CLEAN),
    tries=(
        (".", "stop the reaper: items whose lock is gone stay in in_progress, shown late; . again gives them back"),
        ("8", "kill a worker: its lock ends within a second, the reaper has seen the item twice after two more"),
        ("7", "stall a worker: its item goes to another one; the original lets its late ack pass on that one's lock"),
        ("0", "one pass of the original's cleaner: it takes items from workers that are between SMOVE and SET"),
        (") )", "faster: items per second rise; the lock does not wait"),
    ),
    watch=(
        "items per second in the strip, and done in the overview",
        "locks that run out in in_progress",
        "that at the end done holds every item, and the other two sets none",
    ),
    acts=((0.25, "kill"), (0.35, "stall"), (0.5, "add")),
)
