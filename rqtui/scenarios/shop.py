"""The `ShopStage` class, which the RQ, Celery, Sidekiq and BullMQ scenarios subclass: arriving jobs, and a fix.

Each subclass defines its jobs (`build_command`), how the initial state is written, and how its workers run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from rqtui.scenarios.stage import ProducerCommand, Stage

NAMES = ("ada", "zoe", "jose", "hanako", "olga", "neha", "ngoc", "sam")  # of customers


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason why jobs of one name fail: the share of runs, and the error's class, message and line."""

    job: str
    share: float
    kind: str
    message: str
    line: str


class ShopStage(Stage):
    """The base class for the producer and the workers of a shop with one queue, used by four scenarios.

    Jobs arrive one by one; some are delayed reminders.
    """

    every_ms: ClassVar[float] = 330
    reminds: ClassVar[tuple[str, float, int]]  # the reminder's job name, its share of the jobs, its longest delay in ms
    on_fix: ClassVar[tuple[str, str]]  # the messages after the fix is applied, and after it is reverted

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.actions = {"fix": self._toggle_fix}

    def build_command(
        self, rng: Random, at_ms: int, delay_ms: int = 0, verb: str = "put", job: str = ""
    ) -> ProducerCommand:
        """Create the command for one job; without `job`, choose one of the usual kinds."""
        raise NotImplementedError

    def plan_arrivals(self, rng: Random) -> Iterator[ProducerCommand]:
        """Yield a command for each job that arrives, without end."""
        reminder, share, longest_ms = self.reminds
        at_ms = 0.0
        while True:
            at_ms += rng.expovariate(1 / self.every_ms)
            is_later = rng.random() < share
            delay_ms = rng.randrange(10_000, longest_ms) if is_later else 0
            yield self.build_command(rng, int(at_ms), delay_ms, job=reminder if is_later else "")

    def plan_burst(self) -> Iterator[ProducerCommand]:
        """Yield the jobs of bursts."""
        rng = Random(f"{self.scenario.name}-burst:{self.seed}")
        while True:
            yield self.build_command(rng, 0)

    def is_failing(self, job: bytes, attempt: int, share: float) -> bool:
        """Return whether this attempt at a job fails. Until the fix is applied, the share `share` of attempts fails."""
        return not self.is_fixed and self.draw_fraction(job, f"fails {attempt}") < share

    def _toggle_fix(self) -> str:
        """Apply the fix of the shop's failing code, or remove it again; return a sentence about the effect."""
        self.is_fixed = not self.is_fixed
        return self.on_fix[0 if self.is_fixed else 1]
