"""The scenario `timeouts`: 10 000 items, 40 workers, and some work that outlasts its lock (timeout_sets).

The reaper returns an item whose lock expired, and another worker draws it. The slow worker itself detects that it is
late where its lock shows that. At the end every item is in `done` and in no other set. `registry.py` lists the
scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.originals import timeout_sets as original
from rqtui.scenarios.pace import IDLE_S
from rqtui.scenarios.scenario import CONTROLS, Control
from rqtui.scenarios.stage import ForeignScenario, ProducerCommand, Stage, map_places

ITEMS = 10_000
LATE, LATE_S = 0.02, (1.1, 2.2)  # the share of attempts that outlast the one-second lock, and by how much
RUN_S = (0.1, 0.5)
TRIES = 3  # the third attempt is never late
GAPS_S = {"moved, not locked": 0.01}  # long enough that the original's cleaner can run inside the gap


class Timeouts(Stage):
    """The producer and workers of the scenario `timeouts`, whose items are numbers.

    Idle workers poll until all items are done.
    """

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
        self.actions: Mapping[str, Callable[[], str]] = {"clean": self._request_cleaning}

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield commands for all items at once, in an order shuffled by the seed."""
        numbers = list(range(1, self.items + 1))
        Random(f"timeouts:{self.seed}").shuffle(numbers)
        for number in numbers:
            yield ProducerCommand(0, b"%d" % number)

    def plan_burst(self) -> Iterator[ProducerCommand]:
        """Yield commands for the items of bursts, with numbers that the plan does not use."""
        for number in range(1_000_001, 2_000_000):
            yield ProducerCommand(0, b"%d" % number)

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Add the command's item to `todos` with SADD, and count the item as put in the ledger."""
        original.add_items(client, [command.job])
        self.ledger.put[command.job] = 1

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the turn of a worker, which draws, locks, processes and acknowledges one item."""

        def simulate_item_run(item: int) -> None:
            job = b"%d" % item
            run_s, late_s = self.choose_work_time(job, self.count_attempt(job))
            actor.work(job, run_s, late_s)

        actor.gaps_s = GAPS_S
        worker = original.Worker(actor.client, work=simulate_item_run, pause=actor.pause)

        def run_worker_turn() -> float:
            word = worker.step()
            if word == "done":
                self.ledger.finish(actor.holds)
            elif word == "late":
                self.ledger.count_word("late")
            return IDLE_S if word == "empty" else 0.0

        return run_worker_turn

    def choose_work_time(self, job: bytes, attempt: int) -> tuple[float, float]:
        """Return how long an attempt takes, in seconds of scenario time and additional seconds of wall time."""
        run, late = self.draw_fraction(job, f"run {attempt}"), self.draw_fraction(job, f"late {attempt}")
        run_s = RUN_S[0] + run * (RUN_S[1] - RUN_S[0])
        is_late = late < LATE and attempt < TRIES
        return run_s, LATE_S[0] + run * (LATE_S[1] - LATE_S[0]) if is_late else 0.0

    def build_supporter_turns(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Return the turn of the package's own cleaner, which runs one pass each time a person presses its key."""
        return {"cleaner": self._build_cleaner_turn}

    def _build_cleaner_turn(self, actor: Actor) -> Turn:
        cleaner = original.Cleaner(actor.client)

        def run_cleaner_turn() -> float:
            if self._cleans:
                self._cleans = 0
                cleaner.step()
            return IDLE_S

        return run_cleaner_turn

    def _request_cleaning(self) -> str:
        """Let the package's own cleaner run one pass; return a sentence about the effect."""
        self._cleans = 1
        return "the original's cleaner makes a pass: whatever has no lock at that moment goes back"

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read the members of the three sets by place."""
        sets = {name: list(client.smembers(name)) for name in (original.TODOS, original.IN_PROGRESS, original.DONE)}
        return map_places(**sets)

    def is_over(self, client: Any) -> bool:
        """Return whether all items were put and none is waiting or in progress."""
        return self.is_sent and not client.scard(original.TODOS) and not client.scard(original.IN_PROGRESS)


CLEAN = Control("0", "clean", "cleaner", "one pass of the original's own cleaner")

TIMEOUTS = ForeignScenario(
    name="timeouts",
    summary="10 000 items, some slower than their lock",
    system="timeout_sets",
    queue=original.TODOS,
    stage=Timeouts,
    controls=(*(control for control in CONTROLS if control.name != "poison"), CLEAN),
    tries=(
        (".", "stop the reaper: items without a lock stay in in_progress, shown as late; . again returns them"),
        ("8", "kill a worker: its lock expires within a second, and the reaper returns the item two seconds later"),
        ("7", "stall a worker: another one gets its item; a stock worker's late ack then deletes that one's lock"),
        ("0", "one pass of the original cleaner: it takes items from workers that are between SMOVE and SET"),
        (") )", "faster: items per second rise; the lock does not wait"),
    ),
    watch=(
        "items per second in the strip, and done in the overview",
        "locks that run out in in_progress",
        "that at the end done holds every item, and the other two sets none",
    ),
    acts=((0.25, "kill"), (0.35, "stall"), (0.5, "add")),
)
