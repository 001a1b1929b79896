"""Count places whose key holds the jobs of all queues of a system, each such place once.

A queue counts its own jobs in a shared place as far as they were read. Jobs that no known queue counts are reported
beside the queues, so that they stay visible. Pure functions over counted queues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rqtui.model import Count, Queue, State
from rqtui.text.formats import format_quantity


class SharedPlace(NamedTuple):
    """A shared place with the number of jobs of all queues.

    `unassigned` counts the jobs that belong to no known queue; None if this is unknown.
    """

    system: str
    place: str
    state: State
    jobs: int
    unassigned: int | None = None


def list_shared_places(queues: Iterable[Queue], whole: Collection[str] = ()) -> tuple[SharedPlace, ...]:
    """Return the shared places of these queues' systems; for systems in `whole` all known queues are given."""
    counts: dict[tuple[str, str], list[Count]] = {}
    for queue in queues:
        for count in queue.counts:
            if count.shared_total is not None:
                counts.setdefault((queue.system, count.place), []).append(count)
    return tuple(
        _build_shared_place(system, place, found, system in whole) for (system, place), found in counts.items()
    )


def _build_shared_place(system: str, place: str, counts: Sequence[Count], is_whole: bool) -> SharedPlace:
    of = max(count.shared_total or 0 for count in counts)
    is_known = is_whole and all(count.is_exact for count in counts)
    unassigned = max(0, of - sum(count.count for count in counts)) if is_known else None
    return SharedPlace(system, place, counts[0].state, of, unassigned)


def count_in_state(queues: Iterable[Queue], state: State, whole: Collection[str] = ()) -> Count | None:
    """Count the jobs of these queues in a state; None if they have no place in that state.

    Shared places of `whole` systems are counted once.
    """
    found = list(queues)
    once = [each for each in list_shared_places(found, whole) if each.state is state and each.system in whole]
    known = {(each.system, each.place) for each in once}
    counts = [
        count
        for queue in found
        for count in queue.counts
        if count.state is state and count.is_count_known and (queue.system, count.place) not in known
    ]
    if not counts and not once:
        return None
    number = sum(count.count for count in counts) + sum(each.jobs for each in once)
    return Count(state, state, number, all(count.is_exact for count in counts))


def describe_unassigned(found: Iterable[SharedPlace]) -> str:
    """Return a sentence about jobs in shared places that belong to no known queue; empty if there are none."""
    said = [
        f"{format_quantity(each.unassigned, 'job')} of {each.system} in {each.place}"
        for each in found
        if each.unassigned
    ]
    return f"{', '.join(said)}: of no queue that is known here." if said else ""
