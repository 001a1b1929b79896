"""Count the rows that each view would show for some queues, from cached data without asking Redis.

The header and the list of views show these numbers. None means that the number is unknown or the view is no list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rqtui.engine.dead_sample import is_outdated
from rqtui.model import Queue, Ref
from rqtui.reports import schedules
from rqtui.tui.format import groups
from rqtui.tui.session import Session


class RowCount(NamedTuple):
    """The number of rows that a view would show. It is a lower bound if not every queue was read."""

    number: int
    is_lower_bound: bool = False


def count_view_rows(view_name: str, session: Session, refs: Iterable[Ref]) -> RowCount | None:
    """Return the number of rows that a view would show for these queues, or for all queues if `refs` is empty."""
    count_function = _COUNTS.get(view_name)
    return count_function(session, tuple(refs) or tuple(session.refs)) if count_function else None


def is_view_relevant(view_name: str, session: Session) -> bool:
    """Return whether a view can show anything in this Redis. A view that cannot is hidden."""
    has_data = _RELEVANCE_CHECKS.get(view_name)
    return has_data is None or has_data(session)


def _has_schedules(session: Session) -> bool:
    systems = {ref.system for ref in session.refs} & session.systems.keys()
    return any(schedules.has_schedules(session.systems[name]) for name in systems)


_RELEVANCE_CHECKS: Mapping[str, Callable[[Session], bool]] = {"schedules": _has_schedules}


def _list_cached_queues(session: Session, refs: tuple[Ref, ...]) -> list[Queue]:
    return [session.latest_queues[ref] for ref in refs if ref in session.latest_queues]


def _count_error_rows(session: Session, refs: tuple[Ref, ...]) -> RowCount | None:
    """Count the causes of death that were already read. The number is a lower bound if only a sample was read."""
    dead_by_ref = {Ref(queue.system, queue.name): queue.count_failed() for queue in _list_cached_queues(session, refs)}
    refs_with_dead = [ref for ref, dead in dead_by_ref.items() if dead]
    known = {ref: session.death_causes[ref] for ref in refs_with_dead if ref in session.death_causes}
    if (refs_with_dead and not known) or not dead_by_ref:
        return None
    is_complete = len(known) == len(refs_with_dead) and all(
        causes.is_complete and not is_outdated(causes.dead, dead_by_ref[ref]) for ref, causes in known.items()
    )
    causes = {cause.id for known_causes in known.values() for cause in known_causes.causes}
    return RowCount(len(causes), is_lower_bound=not is_complete)


def _count_worker_rows(session: Session, refs: tuple[Ref, ...]) -> RowCount | None:
    queues = _list_cached_queues(session, refs)
    worker_count = groups.count_group_workers(
        queues, [name for name, system in session.systems.items() if system.shares_workers]
    )
    return (
        RowCount(worker_count[0], is_lower_bound=worker_count[1] or len(queues) < len(refs)) if worker_count else None
    )


def _count_warning_rows(session: Session, _refs: tuple[Ref, ...]) -> RowCount | None:
    number = len(session.server_warnings)
    return RowCount(number) if number else None


def _count_operation_rows(session: Session, _refs: tuple[Ref, ...]) -> RowCount | None:
    return RowCount(len(session.journal.operations))


_COUNTS: Mapping[str, Callable[[Session, tuple[Ref, ...]], RowCount | None]] = {
    "errors": _count_error_rows,
    "workers": _count_worker_rows,
    "redis": _count_warning_rows,
    "operations": _count_operation_rows,
}
