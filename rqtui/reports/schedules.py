"""Schedules: what the systems of a Redis enqueue again and again, those that come next first.

Only some systems keep that in Redis; others have it in a file or in the memory of a program. `asks` go along with a
tick; `read` makes the list of their answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rqtui.errors import Denied, RqtuiError
from rqtui.model import Focus, Ref, Schedule

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.layout.layout import Answers, Ask, Layout

GROUP = "schedules"  # what is asked of each system


def keeps(layout: Layout) -> bool:
    """Whether a system keeps its schedules in Redis."""
    return layout.schedules_ask() is not None


def keepers() -> tuple[str, ...]:
    """All systems that rqtui speaks and that keep their schedules in Redis."""
    from rqtui.systems import registry

    return tuple(layout.name for layout in registry.every()[0] if keeps(layout))


def asks(layouts: Mapping[str, Layout], there: Iterable[str] = ()) -> dict[str, tuple[Ask[Any], ...]]:
    """What to ask these systems, to go along in a tick; of those that are not `there`, and that nobody named, a right
    that is missing is not told."""
    is_there = frozenset(there)
    made = []
    for name, layout in layouts.items():
        ask = layout.schedules_ask()
        if ask is not None:
            made.append(replace(ask if layout.is_asked or name in is_there else _if_allowed(ask), may_fail=True))
    return {GROUP: tuple(made)}


def _if_allowed(ask: Ask[tuple[Schedule, ...]]) -> Ask[tuple[Schedule, ...]]:
    def read(answers: Answers) -> tuple[Schedule, ...]:
        return () if any(isinstance(answer, Denied) for answer in answers) else ask.read(answers)

    return replace(ask, read=read)


def read(answers: Sequence[Any], refs: Iterable[Ref] = ()) -> tuple[tuple[Schedule, ...], tuple[str, ...]]:
    """(the schedules of these queues, of all where there are none, the next first; what could not be read)."""
    wanted = frozenset(refs)
    found = [each for answer in answers if not isinstance(answer, RqtuiError) for each in answer]
    problems = dict.fromkeys(str(answer) for answer in answers if isinstance(answer, RqtuiError))
    fitting = (each for each in found if not wanted or Ref(each.layout, each.queue) in wanted)
    return tuple(sorted(fitting, key=by_next)), tuple(problems)


def by_next(schedule: Schedule) -> tuple[object, ...]:
    """Those that come next first, those of which nobody knows when last."""
    return schedule.next_ms is None, schedule.next_ms or 0, schedule.name, schedule.queue


def report(
    engine: Engine, there: Iterable[str], refs: Iterable[Ref] = ()
) -> tuple[tuple[Schedule, ...], int, tuple[str, ...]]:
    """(the schedules of these queues, the server's clock, what could not be read) in one round trip."""
    snapshot = engine.snapshot(Focus(queues=(), asks=asks(engine.layouts, there)))
    found, problems = read(snapshot.answers.get(GROUP, ()), refs)
    return found, snapshot.taken_ms, problems


def nowhere(layouts: Iterable[str]) -> str:
    """Why there are none, where none of these systems keeps schedules: where they are, and which systems do."""
    from rqtui.systems import registry

    layouts, keeping = frozenset(layouts), keepers()
    elsewhere = "".join(f"; {where}" for name in sorted(layouts) if (where := registry.make(name).beyond_redis))
    if layouts & frozenset(keeping):
        return f"nothing is enqueued again and again here{elsewhere}"
    named = " and ".join(filter(None, (", ".join(keeping[:-1]), *keeping[-1:])))
    could = f"; of {named} they would be shown" if keeping else ""
    return f"no system in this Redis keeps schedules there{elsewhere}{could}"
