"""Systems whose keys rqtui knows by sight and does not speak: which of them a Redis holds, and how much of each.

Data and pure functions. The one walk over the keyspace that discovery makes counts the keys for these patterns; the
overview, `rqtui snapshot` and `rqtui layouts` say what was found, so that a Redis full of another system's jobs is
never called empty. The names of keys are those of RQ 2, Celery 5 with Kombu 5, BullMQ 5, Bull 4, Bee-Queue 1,
Sidekiq 8, Resque 2, asynq 0.25, dramatiq 1, Huey 2 and ARQ 0.26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class System:
    """A queue system as its keys look, in Lua patterns.

    It is there when one of the patterns of `marks` fits a key (none: any of `keys`); `keys` are counted as its own,
    and `queues` are those of them that stand for a queue each.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    queues: str = ""
    marks: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """All its patterns, in the order in which `found` expects their counts."""
        return (*self.keys, *filter(None, (self.queues,)), *self.marks)


SYSTEMS: tuple[System, ...] = (
    System("rq", "RQ", (r"^rq:",), r"^rq:queue:[^:]+$"),
    System(
        "celery",
        "Celery",
        (r"^celery$", r"^celery%-task%-meta%-", r"^_kombu%.", r"^unacked$", r"^unacked_"),
        marks=(r"^celery%-task%-meta%-", r"^_kombu%.binding%."),
    ),
    System("bullmq", "BullMQ", (r"^bull:",), r"^bull:[^:]+:meta$", (r"^bull:[^:]+:meta$",)),
    System("bull", "Bull", (r"^bull:",), r"^bull:[^:]+:id$", (r"^bull:[^:]+:stalled%-check$", r"^bull:[^:]+:id$")),
    System("bee-queue", "Bee-Queue", (r"^bq:",), r"^bq:[^:]+:id$"),
    System("sidekiq", "Sidekiq", (r"^queues$", r"^queue:", r"^stat:"), r"^queue:", (r"^queues$",)),
    System("resque", "Resque", (r"^resque:",), r"^resque:queue:"),
    System("asynq", "asynq", (r"^asynq:",), r"^asynq:{[^}]+}:pending$"),
    System("dramatiq", "dramatiq", (r"^dramatiq:",), r"^dramatiq:[^_.][^.]*$"),
    System("huey", "Huey", (r"^huey%.",), r"^huey%.redis%."),
    System("arq", "ARQ", (r"^arq:",), r"^arq:queue"),
)
INSTEAD = {"bull": "bullmq"}  # one that is not there where the other is: they share their keys


@dataclass(frozen=True, slots=True)
class Unspoken:
    """A system that is here and that rqtui does not speak: how many keys, and how many queues they tell of."""

    system: str
    title: str
    keys: int
    queues: int = 0


def patterns() -> list[str]:
    """Every pattern that the walk counts, without repetitions."""
    return list(dict.fromkeys(pattern for system in SYSTEMS for pattern in system.patterns))


def found(counts: Mapping[str, int]) -> tuple[Unspoken, ...]:
    """The systems that are there, given how many keys fit each pattern."""
    made: dict[str, Unspoken] = {}
    for system in SYSTEMS:
        marks = system.marks or system.keys
        if not any(counts.get(mark) for mark in marks) or INSTEAD.get(system.name) in made:
            continue
        keys = sum(counts.get(pattern, 0) for pattern in system.keys)
        made[system.name] = Unspoken(system.name, system.title, keys, counts.get(system.queues, 0))
    return tuple(made.values())


def sentence(systems: Sequence[Unspoken]) -> str:
    """What is here and not spoken, in words; empty where there is nothing."""
    if not systems:
        return ""
    named = ", ".join(f"{each.title} ({_amount(each)})" for each in systems)
    return f"also in this Redis: {named}. rqtui does not speak {'it' if len(systems) == 1 else 'them'} yet."


def _amount(system: Unspoken) -> str:
    counted = (("queue", system.queues), ("key", system.keys))
    return ", ".join(f"{number} {word if number == 1 else word + 's'}" for word, number in counted if number)
