"""List the schedules of all systems on a Redis server, next run first, for the schedules view and `rqtui schedules`.

Only some systems store schedules in Redis; others have them in a file or in a program's memory.
`build_schedule_requests` builds the requests for a poll, `parse_schedules` builds the list from their replies.
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

    return tuple(system.name for system in registry.create_all_systems()[0] if has_schedules(system))


def build_schedule_requests(
    systems: Mapping[str, System], present_systems: Iterable[str] = ()
) -> dict[str, tuple[Request[Any], ...]]:
    """Build the requests for the schedules of these systems, to be sent with a poll.

    A missing right is ignored for systems that are not in `present_systems` and were not named explicitly.
    """
    present = frozenset(present_systems)
    requests = []
    for name, system in systems.items():
        request = system.schedules_request()
        if request is not None:
            requests.append(
                replace(
                    request if system.is_explicit or name in present else _ignore_denied_right(request), may_fail=True
                )
            )
    return {GROUP: tuple(requests)}


def _ignore_denied_right(request: Request[tuple[Schedule, ...]]) -> Request[tuple[Schedule, ...]]:
    """Return the request with an empty result in place of an ACL error."""

    def parse_schedules_or_none(replies: Replies) -> tuple[Schedule, ...]:
        return () if any(isinstance(reply, Denied) for reply in replies) else request.parse(replies)

    return replace(request, parse=parse_schedules_or_none)


def parse_schedules(results: Sequence[Any], refs: Iterable[Ref] = ()) -> tuple[tuple[Schedule, ...], tuple[str, ...]]:
    """Return the schedules of these queues (without `refs` all), next run first, and error messages."""
    wanted_refs = frozenset(refs)
    schedules = [schedule for result in results if not isinstance(result, RqtuiError) for schedule in result]
    problems = dict.fromkeys(str(result) for result in results if isinstance(result, RqtuiError))
    matching = (
        schedule for schedule in schedules if not wanted_refs or Ref(schedule.system, schedule.queue) in wanted_refs
    )
    return tuple(sorted(matching, key=compute_schedule_sort_key)), tuple(problems)


def compute_schedule_sort_key(schedule: Schedule) -> tuple[object, ...]:
    """Return the sort key of a schedule: by next run, unknown times last."""
    return schedule.next_ms is None, schedule.next_ms or 0, schedule.name, schedule.queue


def load_schedules(
    engine: Engine, present_systems: Iterable[str], refs: Iterable[Ref] = ()
) -> tuple[tuple[Schedule, ...], int, tuple[str, ...]]:
    """Load the schedules of these queues in one round trip.

    Returns the schedules, the server's clock in ms, and error messages.
    """
    snapshot = engine.take_snapshot(Focus(queues=(), requests=build_schedule_requests(engine.systems, present_systems)))
    schedules, problems = parse_schedules(snapshot.results.get(GROUP, ()), refs)
    return schedules, snapshot.taken_ms, problems


def explain_missing_schedules(systems: Iterable[str]) -> str:
    """Explain why there are no schedules: where these systems store schedules, and which systems use Redis for that."""
    from rqtui.systems import registry

    systems, supporting = frozenset(map(registry.parse_system_name, systems)), list_supporting_systems()
    elsewhere = "".join(
        f"; {where}" for name in sorted(systems) if (where := registry.create_system(name).schedules_elsewhere)
    )
    if systems & frozenset(supporting):
        return f"no schedule is stored here{elsewhere}"
    supporting_names = " and ".join(filter(None, (", ".join(supporting[:-1]), *supporting[-1:])))
    hint = f"; rqtui shows the schedules of {supporting_names}" if supporting else ""
    return f"no system found here stores schedules in Redis{elsewhere}{hint}"
