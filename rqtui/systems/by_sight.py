"""Systems that rqtui knows by sight and does not speak: which of them a Redis holds, and how much of each.

Pure functions over the table of systems. The one walk over the keyspace that discovery makes counts the keys for these
patterns; the overview, `rqtui snapshot` and `rqtui layouts` say what was found, so that a Redis full of another
system's jobs is never called empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rqtui.systems import registry
from rqtui.systems.registry import System


@dataclass(frozen=True, slots=True)
class Unspoken:
    """A system that is here and that rqtui does not speak: how many keys, and how many queues they tell of."""

    system: str
    title: str
    keys: int
    queues: int = 0


def unspoken(systems: Sequence[System] | None = None) -> list[System]:
    """The systems that rqtui knows by sight only."""
    return [system for system in _table(systems) if not system.module]


def _table(systems: Sequence[System] | None) -> Sequence[System]:
    return registry.systems() if systems is None else systems


def patterns(systems: Sequence[System] | None = None) -> list[str]:
    """Every pattern that the walk counts, without repetitions; also of a spoken system that another is told from."""
    systems = _table(systems)
    told_from = {system.but for system in unspoken(systems)}
    counted = (system for system in systems if not system.module or system.name in told_from)
    return list(dict.fromkeys(pattern for system in counted for pattern in system.patterns))


def found(counts: Mapping[str, int], systems: Sequence[System] | None = None) -> tuple[Unspoken, ...]:
    """The systems that are there and not spoken, given how many keys fit each pattern."""
    systems = _table(systems)
    there = {system.name for system in systems if any(counts.get(mark) for mark in system.marks or system.keys)}
    return tuple(
        Unspoken(
            system.name,
            system.title,
            sum(counts.get(pattern, 0) for pattern in system.keys),
            counts.get(system.queues, 0),
        )
        for system in unspoken(systems)
        if system.name in there and system.but not in there
    )


def sentence(systems: Sequence[Unspoken]) -> str:
    """What is here and not spoken, in words; empty where there is nothing."""
    if not systems:
        return ""
    named = ", ".join(f"{each.title} ({_amount(each)})" for each in systems)
    return f"also in this Redis: {named}. rqtui does not speak {'it' if len(systems) == 1 else 'them'} yet."


def _amount(system: Unspoken) -> str:
    counted = (("queue", system.queues), ("key", system.keys))
    return ", ".join(f"{number} {word if number == 1 else word + 's'}" for word, number in counted if number)
