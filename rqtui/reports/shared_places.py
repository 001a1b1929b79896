"""Count places whose key holds the jobs of all queues of a system; each such place is counted once.

A queue counts its own jobs in a shared place as far as they were read. Jobs that no known queue counts are reported
separately, so that they stay visible. Pure functions over counted queues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from rqtui.model import Count, Queue, State
from rqtui.text.formats import format_quantity


class SharedPlace(NamedTuple):
    """A place of all queues of a system, with the number of its jobs.

    `unassigned` counts the jobs that belong to no known queue; None if this is unknown.
    """

    system: str
    place: str
    state: State
    jobs: int
    unassigned: int | None = None


def list_shared_places(queues: Iterable[Queue], complete_systems: Collection[str] = ()) -> tuple[SharedPlace, ...]:
    """Return the shared places of these queues' systems.

    For systems in `complete_systems` all known queues are given, so that unassigned jobs can be counted.
    """
    counts: dict[tuple[str, str], list[Count]] = {}
    for queue in queues:
        for count in queue.counts:
            if count.shared_total is not None:
                counts.setdefault((queue.system, count.place), []).append(count)
    return tuple(
        _build_shared_place(system, place, place_counts, system in complete_systems)
        for (system, place), place_counts in counts.items()
    )


def _build_shared_place(system: str, place: str, counts: Sequence[Count], is_whole: bool) -> SharedPlace:
    total = max(count.shared_total or 0 for count in counts)
    is_known = is_whole and all(count.is_exact for count in counts)
    unassigned = max(0, total - sum(count.count for count in counts)) if is_known else None
    return SharedPlace(system, place, counts[0].state, total, unassigned)


def count_in_state(queues: Iterable[Queue], state: State, complete_systems: Collection[str] = ()) -> Count | None:
    """Count the jobs of these queues in a state; None if they have no place in that state.

    Shared places of `complete_systems` are counted once.
    """
    all_queues = list(queues)
    shared_places = [
        place
        for place in list_shared_places(all_queues, complete_systems)
        if place.state is state and place.system in complete_systems
    ]
    counted_places = {(place.system, place.place) for place in shared_places}
    counts = [
        count
        for queue in all_queues
        for count in queue.counts
        if count.state is state and count.is_count_known and (queue.system, count.place) not in counted_places
    ]
    if not counts and not shared_places:
        return None
    total = sum(count.count for count in counts) + sum(place.jobs for place in shared_places)
    return Count(state, state, total, all(count.is_exact for count in counts))


def describe_unassigned(places: Iterable[SharedPlace]) -> str:
    """Describe the jobs in shared places that belong to no known queue; empty if there are none."""
    texts = [
        f"{format_quantity(place.unassigned, 'job')} of {place.system} in {place.place}"
        for place in places
        if place.unassigned
    ]
    return f"{', '.join(texts)}: of no queue that is known here." if texts else ""
