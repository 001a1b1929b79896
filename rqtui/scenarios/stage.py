"""Stage: one system's side of a scenario: what its producers and workers do, all of it by the original's own code.

A scenario on another system is a `Stage` and a `ForeignScenario` that names it; `foreign.py` plays it. What
happens follows from a plan of errands and from fates, both from the seed alone; in which order forty threads come to
them does not, nor which worker takes which job.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

from rqtui.layout.layout import Layout
from rqtui.scenarios.actors import Actor, Turn
from rqtui.scenarios.ledger import Ledger
from rqtui.scenarios.pace import IDLE_S, TURN_S, Pace
from rqtui.scenarios.scenario import Scenario
from rqtui.systems import registry

ERRANDS = 200  # per turn of the producer


@dataclass(frozen=True, slots=True)
class Errand:
    """Something a producer does, `at_ms` after the scenario began: put a job, or delete it."""

    at_ms: int
    job: bytes
    body: bytes = b""
    delay_ms: int = 0
    verb: str = "put"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignScenario(Scenario):
    """A scenario on the keys of another system; `queue` is what `layout` calls it.

    `acts`: in a run without a screen, which control is pressed when, in shares of its length.
    """

    queue: str
    stage: type[Stage]
    acts: tuple[tuple[float, str], ...] = ((0.25, "kill"), (0.35, "stall"), (0.5, "add"), (0.5, "burst"))

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The one queue."""
        return (self.queue,)

    def length(self, seconds: float | None) -> str:
        """The seconds, or that it plays to its end."""
        return "to its end" if self.stage.longest_s and seconds is None else Scenario.length(self, seconds)


class Stage:
    """Subclassed per system; one is made for each run."""

    workers: ClassVar[int] = 4
    bursts_of: ClassVar[int] = 50
    keeps_leases: ClassVar[bool] = True  # whether a job outlives a worker that dies with it
    overslept_s: ClassVar[float] = 6.0  # how long a worker hangs: longer than its lease
    speed: ClassVar[float] = 1.0  # of a run without a screen
    stalls_first: ClassVar[str] = ""  # of the workers at work, one whose name begins so hangs
    longest_s: ClassVar[float] = 0.0  # plays to its end unless seconds were asked for, but no longer than this
    ends_in: ClassVar[str] = ""  # where every job is at its end

    def __init__(self, scenario: ForeignScenario, seed: int, pace: Pace, ledger: Ledger) -> None:
        self.scenario, self.seed, self.pace, self.ledger = scenario, seed, pace, ledger
        self.layout: Layout = registry.make(scenario.layout)
        self.queue = scenario.queue
        self.size: int | None = None  # jobs of the plan; None: it has no end
        self.presses: Mapping[str, Callable[[], str]] = {}
        self.is_fixed = False  # the code that fails, where there is such
        self._errands = self.plan()
        self._next: Errand | None = next(self._errands, None)
        self._extra = self.extra()
        self._at_once: deque[Errand] = deque()
        self._sending: deque[Errand] = deque()
        self._lock = threading.Lock()

    # -- what a subclass says -----------------------------------------------------------------------------------------

    def plan(self) -> Iterator[Errand]:
        """What the producers do, in order of time."""
        raise NotImplementedError

    def extra(self) -> Iterator[Errand]:
        """The jobs of bursts."""
        return iter(())

    def run_errand(self, client: Any, errand: Errand) -> None:
        """Do one, as the original's producer does it."""
        raise NotImplementedError

    def name(self, number: int) -> str:
        """What the worker of that number is called."""
        return f"worker-{number}"

    def title(self, job: bytes) -> str:
        """What a person is told of a job: its id."""
        return job.decode("utf-8", "replace")

    def worker(self, actor: Actor) -> Turn:
        """The turn of a worker."""
        raise NotImplementedError

    def supporters(self) -> Mapping[str, Callable[[Actor], Turn]]:
        """Other parts of the system that run from the start: a garbage collector, heartbeats."""
        return {}

    def standing(self, client: Any) -> Mapping[bytes, Sequence[str]]:
        """By plain commands: in which places each job stands, named once for each time it stands there."""
        raise NotImplementedError

    def is_over(self, client: Any) -> bool:
        """Whether there is nothing left to happen; False where there is no end."""
        return False

    @property
    def is_sent(self) -> bool:
        """Whether the plan has come to its end."""
        return self._next is None and not self._sending and not self._at_once

    # -- the producers ------------------------------------------------------------------------------------------------

    def producer(self, actor: Actor) -> Turn:
        """The turn of the one producer: what is due, at most `ERRANDS` of it."""

        def turn() -> float:
            self.produce(actor.client)
            if self._next is None:
                return IDLE_S
            until_s = (self._next.at_ms / 1000 - self.pace.now_s()) / self.pace.speed
            return min(IDLE_S, max(0.0 if until_s <= 0 else TURN_S, until_s))

        return turn

    def produce(self, client: Any) -> bool:
        """Do what is due now; False when nothing was. An errand whose answer was lost is run again."""
        with self._lock:
            if not self._sending:
                self._sending.extend(self._due())
            is_something = bool(self._sending)
            while self._sending:
                self.run_errand(client, self._sending[0])
                self._sending.popleft()
        return is_something

    def burst(self, number: int) -> int:
        """Put so many more at once; how many there are."""
        found = [errand for errand, _ in zip(self._extra, range(number), strict=False)]
        self._at_once.extend(found)
        return len(found)

    def send(self, errand: Errand) -> None:
        """Do this one at the producer's next turn."""
        self._at_once.append(errand)

    def _due(self) -> list[Errand]:
        found = [self._at_once.popleft() for _ in range(min(ERRANDS, len(self._at_once)))]
        now_ms = self.pace.now_s() * 1000
        while self._next is not None and self._next.at_ms <= now_ms and len(found) < ERRANDS:
            self.ledger.plan((self._next.verb, self._next.job, self._next.body, self._next.delay_ms))
            found.append(self._next)
            self._next = next(self._errands, None)
        return found

    # -- fates --------------------------------------------------------------------------------------------------------

    def roll(self, job: bytes, what: str = "") -> float:
        """A number from 0 to 1 (without it) that follows from seed, job and `what` alone."""
        return (crc32(b"%d:%s:%s" % (self.seed, what.encode(), job)) & 0xFFFFFFFF) / 2**32

    def attempt(self, job: bytes) -> int:
        """Somebody begins to work on a job; for the which time."""
        return self.ledger.note(self.ledger.attempts, job)


def places_of(**members: Sequence[bytes]) -> dict[bytes, list[str]]:
    """In which of these places each member stands."""
    found: dict[bytes, list[str]] = {}
    for place, jobs in members.items():
        for job in jobs:
            found.setdefault(job, []).append(place)
    return found


def count_places(standing: Mapping[bytes, Sequence[str]]) -> Counter[str]:
    """How many stand in each place."""
    return Counter(place for places in standing.values() for place in places)
