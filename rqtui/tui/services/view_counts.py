"""View counts: how much each view would show of some queues, from what is known without asking Redis.

The header names the views with these numbers, and so does the list of views. None: nobody has looked yet, or the view
is no list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rqtui.model import Queue, Ref, State
from rqtui.reports import schedules
from rqtui.tui.format import groups
from rqtui.tui.session import Session


class HowMany(NamedTuple):
    """A number, and whether there are at least so many: not every queue was looked at."""

    number: int
    is_more: bool = False


def how_many(name: str, session: Session, refs: Iterable[Ref]) -> HowMany | None:
    """How much the view of that name would show of these queues; all queues where there are none."""
    count = _COUNTS.get(name)
    return count(session, tuple(refs) or tuple(session.refs)) if count else None


def means_something(name: str, session: Session) -> bool:
    """Whether the view of that name can show anything in this Redis: a view that cannot is not offered."""
    is_there = _MEANS.get(name)
    return is_there is None or is_there(session)


def _keeps_schedules(session: Session) -> bool:
    found = {ref.layout for ref in session.refs} & session.layouts.keys()
    return any(schedules.keeps(session.layouts[name]) for name in found)


_MEANS: Mapping[str, Callable[[Session], bool]] = {"schedules": _keeps_schedules}


def _known(session: Session, refs: tuple[Ref, ...]) -> list[Queue]:
    return [session.known[ref] for ref in refs if ref in session.known]


def _errors(session: Session, refs: tuple[Ref, ...]) -> HowMany | None:
    """Causes of death: of each queue with dead jobs those that a report or a page of them showed."""
    queues = _known(session, refs)
    dead = [Ref(queue.layout, queue.name) for queue in queues if queue.count_in(State.DEAD)]
    seen = [session.causes[ref] for ref in dead if ref in session.causes]
    if (dead and not seen) or not queues:
        return None
    return HowMany(len(frozenset().union(*seen)), is_more=len(seen) < len(dead))


def _workers(session: Session, refs: tuple[Ref, ...]) -> HowMany | None:
    queues = _known(session, refs)
    told = groups.workers(queues, [name for name, layout in session.layouts.items() if layout.shares_workers])
    return HowMany(told[0], is_more=told[1] or len(queues) < len(refs)) if told else None


def _warnings(session: Session, _refs: tuple[Ref, ...]) -> HowMany | None:
    number = len(session.engine.warnings) if session.engine else 0
    return HowMany(number) if number else None


def _operations(session: Session, _refs: tuple[Ref, ...]) -> HowMany | None:
    return HowMany(len(session.journal.operations))


_COUNTS: Mapping[str, Callable[[Session, tuple[Ref, ...]], HowMany | None]] = {
    "errors": _errors,
    "workers": _workers,
    "redis": _warnings,
    "operations": _operations,
}
