"""ShopStage: what the shops on RQ, Celery, Sidekiq and BullMQ have in common: jobs that arrive, and a fix.

Each says which jobs it has (`errand`), how they come to stand as they do at the beginning, and what its workers do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from rqtui.scenarios.stage import Errand, Stage

NAMES = ("ada", "zoe", "jose", "hanako", "olga", "neha", "ngoc", "sam")  # of customers


@dataclass(frozen=True, slots=True)
class Cause:
    """Why jobs of that name fail, in which share of their runs: the error's class, its message, and the line of it."""

    job: str
    share: float
    kind: str
    message: str
    line: str


class ShopStage(Stage):
    """A shop of one queue, whose jobs arrive one by one; some of them are reminders for later."""

    every_ms: ClassVar[float] = 330
    reminds: ClassVar[tuple[str, float, int]]  # what a reminder is called, its share of the jobs, and its longest delay
    on_fix: ClassVar[tuple[str, str]]  # what is said when the fix is there, and when it is taken back

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.presses = {"fix": self._fix}

    def errand(self, rng: Random, at_ms: int, delay_ms: int = 0, verb: str = "put", job: str = "") -> Errand:
        """A job, of a kind that is usual where none is given."""
        raise NotImplementedError

    def arrivals(self, rng: Random) -> Iterator[Errand]:
        """Jobs without end."""
        reminder, share, longest_ms = self.reminds
        at_ms = 0.0
        while True:
            at_ms += rng.expovariate(1 / self.every_ms)
            is_later = rng.random() < share
            delay_ms = rng.randrange(10_000, longest_ms) if is_later else 0
            yield self.errand(rng, int(at_ms), delay_ms, job=reminder if is_later else "")

    def extra(self) -> Iterator[Errand]:
        """More of the same."""
        rng = Random(f"{self.scenario.name}-burst:{self.seed}")
        while True:
            yield self.errand(rng, 0)

    def fails(self, job: bytes, attempt: int, share: float) -> bool:
        """Whether this attempt of a job fails, as that share of its kind does until the fix is there."""
        return not self.is_fixed and self.roll(job, f"fails {attempt}") < share

    def _fix(self) -> str:
        self.is_fixed = not self.is_fixed
        return self.on_fix[0 if self.is_fixed else 1]
