"""Count the rows that each view would show for some queues, from cached data without asking Redis.

The header and the list of views show these numbers. None means that the number is unknown or the view is no list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rqtui.model import Queue, Ref, State
from rqtui.reports import schedules
from rqtui.tui import keys
from rqtui.tui.format import groups
from rqtui.tui.session import Session

if TYPE_CHECKING:
    from rqtui.tui.widgets.queue_preview import DeathCauses


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
    if session.is_replay:
        return view_name in keys.RECORDED_VIEWS
    has_data = _RELEVANCE_CHECKS.get(view_name)
    return has_data is None or has_data(session)


def _has_schedules(session: Session) -> bool:
    systems = {ref.system for ref in session.refs} & session.systems.keys()
    return any(schedules.has_schedules(session.systems[name]) for name in systems)


_RELEVANCE_CHECKS: Mapping[str, Callable[[Session], bool]] = {"schedules": _has_schedules}


def _list_cached_queues(session: Session, refs: tuple[Ref, ...]) -> list[Queue]:
    return [session.latest_queues[ref] for ref in refs if ref in session.latest_queues]


def _count_error_rows(session: Session, refs: tuple[Ref, ...]) -> RowCount | None:
    """Count the causes of failed jobs that were already read: a lower bound, unless all failed jobs were read."""
    queues = {Ref(queue.system, queue.name): queue for queue in _list_cached_queues(session, refs)}
    queues_with_dead = {ref: queue for ref, queue in queues.items() if queue.count_failed()}
    cached_causes = {ref: session.death_causes[ref] for ref in queues_with_dead if ref in session.death_causes}
    if (queues_with_dead and not cached_causes) or not queues:
        return None
    is_complete = len(cached_causes) == len(queues_with_dead) and all(
        _covers_all_failures(causes, queues[ref]) for ref, causes in cached_causes.items()
    )
    ids = {cause.id for causes in cached_causes.values() for cause in causes.causes}
    return RowCount(len(ids), is_lower_bound=not is_complete)


def _covers_all_failures(known: DeathCauses, queue: Queue) -> bool:
    """Return whether all dead jobs were read, and the jobs that wait for a retry, if there may be any."""
    from rqtui.engine.dead_sample import is_outdated  # imported late, so that the first paint does not wait for it

    if not known.is_complete or is_outdated(known.dead, queue.count_failed()):
        return False
    return known.retrying is not None or not queue.count_in_state(State.SCHEDULED)


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
