"""The base class `Stage`: the producers and workers of another queue system in a scenario.

A scenario on another system is a `Stage` subclass and a `ForeignScenario` that names it; `foreign_run.py` runs it. The
plan of commands and the outcome of each job follow from the seed alone. The order of threads, and which worker takes
which job, do not.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.ledger import Ledger
from rqtui.scenarios.pace import IDLE_S, TURN_S, Pace
from rqtui.scenarios.scenario import Scenario
from rqtui.system_base.system import System
from rqtui.systems import registry

MAX_COMMANDS = 200  # per turn of the producer


@dataclass(frozen=True, slots=True)
class ProducerCommand:
    """One action of a scenario's producer, `at_ms` after the scenario started: put a job, or delete it."""

    at_ms: int
    job: bytes
    body: bytes = b""
    delay_ms: int = 0
    verb: str = "put"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignScenario(Scenario):
    """A scenario on the keys of another system; `queue` is the queue's name in that system.

    `acts` lists the controls that a run without a screen presses, each with its time as a share of the run's length.
    """

    queue: str
    stage: type[Stage]
    acts: tuple[tuple[float, str], ...] = ((0.25, "kill"), (0.35, "stall"), (0.5, "add"), (0.5, "burst"))

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The name of the scenario's only queue."""
        return (self.queue,)

    def describe_length(self, seconds: float | None) -> str:
        """Return the length in seconds as text, or "to its end" for a scenario that ends by itself."""
        return "to its end" if self.stage.longest_s and seconds is None else Scenario.describe_length(self, seconds)


class Stage:
    """The behaviour of one system's producers and workers in one run of a scenario; each system has a subclass."""

    workers: ClassVar[int] = 4
    bursts_of: ClassVar[int] = 50
    keeps_leases: ClassVar[bool] = True  # whether a job survives the death of its worker
    overslept_s: ClassVar[float] = 6.0  # how long a worker hangs: longer than its lease
    speed: ClassVar[float] = 1.0  # of a run without a screen
    stalls_first: ClassVar[str] = ""  # prefix of the busy workers that stall first
    longest_s: ClassVar[float] = 0.0  # the longest run to the scenario's end; 0: it has no end
    ends_in: ClassVar[str] = ""  # the place of every job at the end

    def __init__(self, scenario: ForeignScenario, seed: int, pace: Pace, ledger: Ledger) -> None:
        self.scenario, self.seed, self.pace, self.ledger = scenario, seed, pace, ledger
        self.system: System = registry.create_system(scenario.system)
        self.queue = scenario.queue
        self.size: int | None = None  # jobs of the plan; None: it has no end
        self.actions: Mapping[str, Callable[[], str]] = {}
        self.is_fixed = False  # the code that fails, where there is such
        self._commands = self.plan_commands()
        self._next: ProducerCommand | None = next(self._commands, None)
        self._burst_commands = self.plan_burst()
        self._at_once: deque[ProducerCommand] = deque()
        self._sending: deque[ProducerCommand] = deque()
        self._lock = threading.Lock()

    # -- defined by subclasses -----------------------------------------------------------------------------------------

    def plan_commands(self) -> Iterator[ProducerCommand]:
        """Yield the commands of the producer in order of time. They depend only on the seed."""
        raise NotImplementedError

    def plan_burst(self) -> Iterator[ProducerCommand]:
        """Yield the commands of further jobs for bursts. They depend only on the seed."""
        return iter(())

    def run_command(self, client: Any, command: ProducerCommand) -> None:
        """Run one command of the producer, with the Redis commands of the system's own client."""
        raise NotImplementedError

    def name_worker(self, number: int) -> str:
        """Return the name of the worker with that number."""
        return f"worker-{number}"

    def describe_job(self, job: bytes) -> str:
        """Return the text that identifies a job on the screen, by default its id."""
        return job.decode("utf-8", "replace")

    def build_worker_turn(self, actor: Actor) -> Turn:
        """Build the function that runs one turn of a worker: take a job, work on it, record the result."""
        raise NotImplementedError

    def build_supporter_turns(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Return the turns of further actors, such as a garbage collector, by the actor's name."""
        return {}

    def read_places(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """Read with plain Redis commands in which places each job is. A place is repeated per entry of the job."""
        raise NotImplementedError

    def is_over(self, client: Any) -> bool:
        """Return whether the scenario has reached its end; always False for an endless one."""
        return False

    @property
    def is_sent(self) -> bool:
        """Return whether all planned commands of the producer were run."""
        return self._next is None and not self._sending and not self._at_once

    # -- the producers ------------------------------------------------------------------------------------------------

    def build_producer_turn(self, actor: Actor) -> Turn:
        """Build the function that runs one turn of the producer: at most `MAX_COMMANDS` due commands."""

        def run_producer_turn() -> float:
            self.run_due_commands(actor.client)
            if self._next is None:
                return IDLE_S
            until_s = (self._next.at_ms / 1000 - self.pace.read_clock_s()) / self.pace.speed
            return min(IDLE_S, max(0.0 if until_s <= 0 else TURN_S, until_s))

        return run_producer_turn

    def run_due_commands(self, client: Any) -> bool:
        """Run the due commands of the producer, and return False if none was due.

        A command without a reply is run again.
        """
        with self._lock:
            if not self._sending:
                self._sending.extend(self._take_due_commands())
            has_due = bool(self._sending)
            while self._sending:
                self.run_command(client, self._sending[0])
                self._sending.popleft()
        return has_due

    def add_burst(self, number: int) -> int:
        """Add `number` jobs of a burst to the producer's next turn, and return how many were added.

        The number is smaller if the burst has ended.
        """
        commands = [command for command, _ in zip(self._burst_commands, range(number), strict=False)]
        self._at_once.extend(commands)
        return len(commands)

    def send_command(self, command: ProducerCommand) -> None:
        """Let the producer run a command at its next turn."""
        self._at_once.append(command)

    def _take_due_commands(self) -> list[ProducerCommand]:
        """Remove and return the commands that are due now."""
        due = [self._at_once.popleft() for _ in range(min(MAX_COMMANDS, len(self._at_once)))]
        now_ms = self.pace.read_clock_s() * 1000
        while self._next is not None and self._next.at_ms <= now_ms and len(due) < MAX_COMMANDS:
            self.ledger.update_digest((self._next.verb, self._next.job, self._next.body, self._next.delay_ms))
            due.append(self._next)
            self._next = next(self._commands, None)
        return due

    # -- fates --------------------------------------------------------------------------------------------------------

    def draw_fraction(self, job: bytes, what: str = "") -> float:
        """Return a pseudo-random number in [0, 1) that depends only on the seed, the job and `what`."""
        return (crc32(b"%d:%s:%s" % (self.seed, what.encode(), job)) & 0xFFFFFFFF) / 2**32

    def count_attempt(self, job: bytes) -> int:
        """Count a new attempt at a job and return its number."""
        return self.ledger.count(self.ledger.attempts, job)


def map_places(**members: Sequence[bytes]) -> dict[bytes, list[str]]:
    """Return the places of each member, from the members of each place."""
    places: dict[bytes, list[str]] = {}
    for place, jobs in members.items():
        for job in jobs:
            places.setdefault(job, []).append(place)
    return places


def count_places(places_by_job: Mapping[bytes, Sequence[str]]) -> Counter[str]:
    """Count the jobs in each place, from the places of each job."""
    return Counter(place for places in places_by_job.values() for place in places)
