"""Report queue systems that rqtui recognises by their keys but does not support, with key and queue counts.

Pure functions over the table of systems. Discovery's single key walk counts the keys that match these patterns. The
overview, `rqtui snapshot` and `rqtui systems` show the result, so that a Redis full of another system's jobs is never
called empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rqtui.systems import registry
from rqtui.systems.registry import SystemEntry


@dataclass(frozen=True, slots=True)
class UnsupportedSystem:
    """A recognised but unsupported system that is present in Redis, with the number of its keys and queues."""

    system: str
    title: str
    keys: int
    queues: int = 0


def list_unsupported(systems: Sequence[SystemEntry] | None = None) -> list[SystemEntry]:
    """Return the systems that rqtui recognises but does not support."""
    return [system for system in _use_table_default(systems) if not system.module]


def _use_table_default(systems: Sequence[SystemEntry] | None) -> Sequence[SystemEntry]:
    return registry.list_systems() if systems is None else systems


def list_patterns(systems: Sequence[SystemEntry] | None = None) -> list[str]:
    """Return every distinct key pattern that the key walk counts.

    Patterns of a supported system are included if an unsupported system is distinguished from it.
    """
    systems = _use_table_default(systems)
    told_from = {system.but for system in list_unsupported(systems)}
    counted = (system for system in systems if not system.module or system.name in told_from)
    return list(dict.fromkeys(pattern for system in counted for pattern in system.patterns))


def find_present(
    counts: Mapping[str, int], systems: Sequence[SystemEntry] | None = None
) -> tuple[UnsupportedSystem, ...]:
    """Return the unsupported systems that are present, given the number of keys that match each pattern."""
    systems = _use_table_default(systems)
    there = {system.name for system in systems if any(counts.get(mark) for mark in system.marks or system.keys)}
    return tuple(
        UnsupportedSystem(
            system.name,
            system.title,
            sum(counts.get(pattern, 0) for pattern in system.keys),
            counts.get(system.queues, 0),
        )
        for system in list_unsupported(systems)
        if system.name in there and system.but not in there
    )


def describe_unsupported(systems: Sequence[UnsupportedSystem]) -> str:
    """Return a sentence that names the unsupported systems present in this Redis; empty if there are none."""
    if not systems:
        return ""
    named = ", ".join(f"{each.title} ({_format_counts(each)})" for each in systems)
    return f"also in this Redis: {named}. rqtui does not speak {'it' if len(systems) == 1 else 'them'} yet."


def _format_counts(system: UnsupportedSystem) -> str:
    counted = (("queue", system.queues), ("key", system.keys))
    return ", ".join(f"{number} {word if number == 1 else word + 's'}" for word, number in counted if number)
