"""Count the rows that each view would show for some queues, from cached data without asking Redis.

The header and the list of views show these numbers. None means that the number is unknown or the view is no list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rqtui.model import Queue, Ref, State
from rqtui.reports import schedules
from rqtui.tui.format import groups
from rqtui.tui.session import Session


class RowCount(NamedTuple):
    """A number of rows. `is_lower_bound` is true for a lower bound, because not every queue was read."""

    number: int
    is_lower_bound: bool = False


def count_rows(name: str, session: Session, refs: Iterable[Ref]) -> RowCount | None:
    """Return the number of rows that a view would show for these queues, or for all queues if `refs` is empty."""
    count = _COUNTS.get(name)
    return count(session, tuple(refs) or tuple(session.refs)) if count else None


def is_relevant(name: str, session: Session) -> bool:
    """Return whether a view can show anything in this Redis. A view that cannot is hidden."""
    has_data = _RELEVANCE_CHECKS.get(name)
    return has_data is None or has_data(session)


def _has_schedules(session: Session) -> bool:
    found = {ref.system for ref in session.refs} & session.systems.keys()
    return any(schedules.has_schedules(session.systems[name]) for name in found)


_RELEVANCE_CHECKS: Mapping[str, Callable[[Session], bool]] = {"schedules": _has_schedules}


def _list_cached_queues(session: Session, refs: tuple[Ref, ...]) -> list[Queue]:
    return [session.latest_queues[ref] for ref in refs if ref in session.latest_queues]


def _count_errors(session: Session, refs: tuple[Ref, ...]) -> RowCount | None:
    """Count the causes of death in reports and pages of dead jobs that were already read."""
    queues = _list_cached_queues(session, refs)
    dead = [Ref(queue.system, queue.name) for queue in queues if queue.count_in_state(State.DEAD)]
    seen = [session.death_causes[ref] for ref in dead if ref in session.death_causes]
    if (dead and not seen) or not queues:
        return None
    return RowCount(len(frozenset().union(*seen)), is_lower_bound=len(seen) < len(dead))


def _count_workers(session: Session, refs: tuple[Ref, ...]) -> RowCount | None:
    queues = _list_cached_queues(session, refs)
    told = groups.count_group_workers(
        queues, [name for name, system in session.systems.items() if system.shares_workers]
    )
    return RowCount(told[0], is_lower_bound=told[1] or len(queues) < len(refs)) if told else None


def _count_warnings(session: Session, _refs: tuple[Ref, ...]) -> RowCount | None:
    number = len(session.server_warnings)
    return RowCount(number) if number else None


def _count_operations(session: Session, _refs: tuple[Ref, ...]) -> RowCount | None:
    return RowCount(len(session.journal.operations))


_COUNTS: Mapping[str, Callable[[Session, tuple[Ref, ...]], RowCount | None]] = {
    "errors": _count_errors,
    "workers": _count_workers,
    "redis": _count_warnings,
    "operations": _count_operations,
}
