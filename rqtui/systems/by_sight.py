"""Report queue systems that rqtui recognises by their keys but does not support, with key and queue counts.

Discovery counts the keys in its walk over all keys; `rqtui systems` and the overview show the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rqtui.system_base.system import System, quote_for_shell
from rqtui.systems import registry
from rqtui.systems.registry import SystemEntry
from rqtui.text.sanitise import safe


@dataclass(frozen=True, slots=True)
class UnsupportedSystem:
    """A queue system that uses this Redis and that rqtui does not support, with the number of its keys and queues."""

    system: str
    title: str
    keys: int
    queues: int = 0


def list_unsupported_systems(systems: Sequence[SystemEntry] | None = None) -> list[SystemEntry]:
    """Return the entries of systems that rqtui recognises by their keys but does not support."""
    return [system for system in _choose_system_table(systems) if not system.module]


def _choose_system_table(systems: Sequence[SystemEntry] | None) -> Sequence[SystemEntry]:
    """Return the given entries of the table of systems; without any, those of all systems."""
    return registry.list_systems() if systems is None else systems


def list_counted_patterns(systems: Sequence[SystemEntry] | None = None) -> list[str]:
    """Return every key pattern that discovery counts during its walk over all keys, each once.

    Patterns of a supported system are included if rqtui needs them to distinguish an unsupported system.
    """
    systems = _choose_system_table(systems)
    distinguished = {system.but for system in list_unsupported_systems(systems)}
    counted = (system for system in systems if not system.module or system.name in distinguished)
    return list(dict.fromkeys(pattern for system in counted for pattern in system.patterns))


def find_present_unsupported_systems(
    counts: Mapping[str, int], systems: Sequence[SystemEntry] | None = None
) -> tuple[UnsupportedSystem, ...]:
    """Return the unsupported systems that use this Redis, given the number of keys that match each pattern."""
    systems = _choose_system_table(systems)
    present = {system.name for system in systems if any(counts.get(mark) for mark in system.marks or system.keys)}
    return tuple(
        UnsupportedSystem(
            system.name,
            system.title,
            sum(counts.get(pattern, 0) for pattern in system.keys),
            counts.get(system.queues, 0),
        )
        for system in list_unsupported_systems(systems)
        if system.name in present and system.but not in present
    )


def describe_unsupported_systems(systems: Sequence[UnsupportedSystem]) -> str:
    """Describe the unsupported systems that use this Redis, in a sentence; empty if there are none."""
    if not systems:
        return ""
    named = ", ".join(f"{each.title} ({_format_key_counts(each)})" for each in systems)
    return f"also in this Redis: {named}. rqtui does not speak {'it' if len(systems) == 1 else 'them'} yet."


def _format_key_counts(system: UnsupportedSystem) -> str:
    counted = (("queue", system.queues), ("key", system.keys))
    return ", ".join(f"{number} {word if number == 1 else word + 's'}" for word, number in counted if number)


def describe_other_prefixes(systems: Iterable[System]) -> str:
    """Describe the applications of each system with key prefixes that no option names, one system per line."""
    lines = []
    for system in systems:
        if system.other_prefixes and not system.is_explicit:
            prefixes = sorted({*system.other_prefixes} | ({system.options["prefix"]} - {""}))
            options = [f"--system {quote_for_shell(f'{system.name}:prefix={prefix}')}" for prefix in prefixes]
            options = [f"--system {system.name}", *options] if not system.options["prefix"] else options
            names = " and ".join(safe(prefix) for prefix in sorted(system.other_prefixes))
            lines.append(f"other keys of {system.name} begin with {names}. To list their queues: {' '.join(options)}")
    return "\n".join(lines)
