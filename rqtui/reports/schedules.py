"""List the schedules of all systems in a Redis, next run first, for the schedules view and `rqtui schedules`.

Only some systems store schedules in Redis; others have them in a file or in a program's memory. `build_requests`
builds the requests for a poll, `parse_schedules` builds the list from their replies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rqtui.errors import Denied, RqtuiError
from rqtui.model import Focus, Ref, Schedule

if TYPE_CHECKING:
    from rqtui.engine.engine import Engine
    from rqtui.system_base.system import Replies, Request, System

GROUP = "schedules"  # the request group of a poll


def has_schedules(system: System) -> bool:
    """Return whether a system stores its schedules in Redis."""
    return system.schedules_request() is not None


def list_supporting_systems() -> tuple[str, ...]:
    """Return the names of all supported systems that store their schedules in Redis."""
    from rqtui.systems import registry

    return tuple(system.name for system in registry.create_every()[0] if has_schedules(system))


def build_requests(systems: Mapping[str, System], there: Iterable[str] = ()) -> dict[str, tuple[Request[Any], ...]]:
    """Build the schedule requests of these systems, to be sent with a poll.

    A missing right is ignored for systems that are not in `there` and were not named explicitly.
    """
    is_there = frozenset(there)
    made = []
    for name, system in systems.items():
        ask = system.schedules_request()
        if ask is not None:
            made.append(replace(ask if system.is_explicit or name in is_there else _ignore_denied(ask), may_fail=True))
    return {GROUP: tuple(made)}


def _ignore_denied(ask: Request[tuple[Schedule, ...]]) -> Request[tuple[Schedule, ...]]:
    def parse_reply(answers: Replies) -> tuple[Schedule, ...]:
        return () if any(isinstance(answer, Denied) for answer in answers) else ask.parse(answers)

    return replace(ask, parse=parse_reply)


def parse_schedules(answers: Sequence[Any], refs: Iterable[Ref] = ()) -> tuple[tuple[Schedule, ...], tuple[str, ...]]:
    """Return the schedules of these queues (without `refs` all), next run first, and the errors of other systems."""
    wanted = frozenset(refs)
    found = [each for answer in answers if not isinstance(answer, RqtuiError) for each in answer]
    problems = dict.fromkeys(str(answer) for answer in answers if isinstance(answer, RqtuiError))
    fitting = (each for each in found if not wanted or Ref(each.system, each.queue) in wanted)
    return tuple(sorted(fitting, key=build_sort_key)), tuple(problems)


def build_sort_key(schedule: Schedule) -> tuple[object, ...]:
    """Return the sort key of a schedule: by next run, unknown times last."""
    return schedule.next_ms is None, schedule.next_ms or 0, schedule.name, schedule.queue


def load_schedules(
    engine: Engine, there: Iterable[str], refs: Iterable[Ref] = ()
) -> tuple[tuple[Schedule, ...], int, tuple[str, ...]]:
    """Read the schedules of these queues in one round trip.

    Returns the schedules, the server's clock in ms, and errors.
    """
    snapshot = engine.take_snapshot(Focus(queues=(), requests=build_requests(engine.systems, there)))
    found, problems = parse_schedules(snapshot.results.get(GROUP, ()), refs)
    return found, snapshot.taken_ms, problems


def explain_absence(systems: Iterable[str]) -> str:
    """Explain why there are no schedules: where these systems keep them, and which systems store them in Redis."""
    from rqtui.systems import registry

    systems, keeping = frozenset(systems), list_supporting_systems()
    elsewhere = "".join(
        f"; {where}" for name in sorted(systems) if (where := registry.create_system(name).schedules_elsewhere)
    )
    if systems & frozenset(keeping):
        return f"nothing is enqueued again and again here{elsewhere}"
    named = " and ".join(filter(None, (", ".join(keeping[:-1]), *keeping[-1:])))
    could = f"; of {named} they would be shown" if keeping else ""
    return f"no system in this Redis keeps schedules there{elsewhere}{could}"
